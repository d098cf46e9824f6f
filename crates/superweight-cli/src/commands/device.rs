//! `--device`: which device a word means on this machine.

use std::path::Path;

use anyhow::{Context, Result, bail};
use superweight::engine::cuda::Tuning;
use superweight::engine::{CpuDevice, CudaDevice, CudaError, Error, Precision};
use superweight::infer::Trained;
use superweight::recipe;
use superweight::report::published::Started;

/// A device that is there.
pub enum Chosen {
    Cpu(CpuDevice),
    Cuda(CudaDevice),
}

impl Chosen {
    /// What a run keeps of this process: its command, and the device in words that mean the same on another machine.
    pub fn started(&self) -> Started {
        let mut words: Vec<String> = std::env::args().collect();
        if let Some(program) = words.first_mut() {
            *program =
                Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        let device = match self {
            Self::Cpu(_) => self.describe(),
            // GPU, precision and driver; the libraries that follow are named with their paths.
            Self::Cuda(device) => {
                device.description().split(", ").take(3).collect::<Vec<_>>().join(", ")
            }
        };
        Started { command: words.join(" "), device }
    }

    /// In words, for tables and profiles.
    pub fn describe(&self) -> String {
        match self {
            Self::Cpu(device) => format!("cpu, {} threads", device.threads()),
            Self::Cuda(device) => format!("cuda, {device:?}"),
        }
    }
}

/// Calls a generic function with whichever device was chosen.
macro_rules! on_device {
    ($chosen:expr, |$device:ident| $body:expr) => {
        match $chosen {
            $crate::commands::device::Chosen::Cpu($device) => $body,
            $crate::commands::device::Chosen::Cuda($device) => $body,
        }
    };
}
pub(crate) use on_device;

/// What `--device` asks for.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// The first GPU if there is one that works, else the processor.
    Auto,
    Cpu,
    Cuda(usize),
}

/// Reads the word, before anything slow is done.
pub fn parse(word: &str) -> Result<Wanted> {
    match word {
        "auto" => Ok(Wanted::Auto),
        "cpu" => Ok(Wanted::Cpu),
        "cuda" => Ok(Wanted::Cuda(0)),
        _ => match word.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok()) {
            Some(ordinal) => Ok(Wanted::Cuda(ordinal)),
            None => {
                bail!("--device '{word}' is not a device: there are auto, cpu, cuda and cuda:N")
            }
        },
    }
}

/// The device to use a trained run on, in the precision it was trained in.
pub fn for_run(word: &str, threads: usize, trained: &Trained) -> Result<Chosen> {
    open(parse(word)?, threads, trained.resolved.train.precision)
}

/// The device to train on; where it cannot compute as the recipe asks, that is said. A run that goes on keeps the
/// convolutions' plans that it has: with others it would not give the same bits.
pub fn for_training(
    wanted: Wanted,
    threads: usize,
    precision: recipe::Precision,
    goes_on: bool,
) -> Result<Chosen> {
    let device = open(wanted, threads, precision)?;
    if let (Chosen::Cuda(device), false) = (&device, goes_on) {
        device.recheck_tuning();
    }
    if precision == recipe::Precision::Bf16 && matches!(device, Chosen::Cpu(_)) {
        eprintln!("warning: train.precision = \"bf16\" is for GPUs; the processor computes in f32");
    }
    Ok(device)
}

/// Opens it.
pub fn open(wanted: Wanted, threads: usize, precision: recipe::Precision) -> Result<Chosen> {
    let cpu = || Ok(Chosen::Cpu(CpuDevice::new(threads).context("--threads")?));
    let cuda = |ordinal| {
        let precision = match precision {
            recipe::Precision::F32 => Precision::F32,
            recipe::Precision::Auto | recipe::Precision::Bf16 => Precision::Bf16,
        };
        let device = CudaDevice::new(ordinal, precision)?;
        // At most a second per convolution, once per machine (twice if others used it then): those of WRN-28-10 then take 7.7 ms instead of 10.8
        // (docs/decisions/0015).
        device.set_tuning(Tuning::Quick);
        Ok::<_, Error>(Chosen::Cuda(device))
    };
    match wanted {
        Wanted::Cpu => cpu(),
        Wanted::Cuda(ordinal) => cuda(ordinal).with_context(|| format!("--device cuda:{ordinal}")),
        Wanted::Auto => match cuda(0) {
            Ok(device) => Ok(device),
            Err(Error::Cuda(CudaError::NoDriver { .. } | CudaError::NoSuchDevice { .. })) => cpu(),
            Err(error) => {
                eprintln!("warning: the GPU is not used: {error}");
                cpu()
            }
        },
    }
}
