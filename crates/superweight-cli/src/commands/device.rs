//! `--device`: opens the device that a word names.

use std::path::Path;

use anyhow::{Context, Result, bail};
use superweight::engine::cuda::Tuning;
use superweight::engine::{CpuDevice, CudaDevice, CudaError, Error, Precision};
use superweight::infer::Trained;
use superweight::recipe;
use superweight::run::Invocation;

/// An open device.
pub enum Chosen {
    Cpu(CpuDevice),
    Cuda(CudaDevice),
}

impl Chosen {
    /// The record of this process that a run keeps: the command line, and the device without
    /// anything that is particular to this machine.
    pub fn invocation(&self) -> Invocation {
        let mut words: Vec<String> = std::env::args().collect();
        if let Some(program) = words.first_mut() {
            *program =
                Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        let device = match self {
            Self::Cpu(_) => self.describe(),
            // GPU, precision and driver; the libraries that follow have paths in their names.
            Self::Cuda(device) => {
                device.description().split(", ").take(3).collect::<Vec<_>>().join(", ")
            }
        };
        Invocation { command: words.join(" "), device }
    }

    /// Describes the device for tables and profiles.
    pub fn describe(&self) -> String {
        match self {
            Self::Cpu(device) => format!("cpu, {} threads", device.threads()),
            Self::Cuda(device) => format!("cuda, {device:?}"),
        }
    }
}

/// Evaluates an expression that is generic over the device with the device that was chosen.
macro_rules! on_device {
    ($chosen:expr, |$device:ident| $body:expr) => {
        match $chosen {
            $crate::commands::device::Chosen::Cpu($device) => $body,
            $crate::commands::device::Chosen::Cuda($device) => $body,
        }
    };
}
pub(crate) use on_device;

/// The device that `--device` requests.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// The first GPU if it works, else the CPU.
    Auto,
    Cpu,
    Cuda(usize),
}

/// Parses the word of `--device`.
pub fn parse(word: &str) -> Result<Wanted> {
    match word {
        "auto" => Ok(Wanted::Auto),
        "cpu" => Ok(Wanted::Cpu),
        "cuda" => Ok(Wanted::Cuda(0)),
        _ => match word.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok()) {
            Some(ordinal) => Ok(Wanted::Cuda(ordinal)),
            None => {
                bail!("--device '{word}' is not a device: write auto, cpu, cuda or cuda:N")
            }
        },
    }
}

/// Opens the device to use a trained run on, in the precision that the run was trained in.
pub fn for_run(word: &str, threads: usize, trained: &Trained) -> Result<Chosen> {
    open(parse(word)?, threads, trained.resolved.train.precision)
}

/// Opens the device to train on, and prints a warning if it lacks the recipe's precision. A run
/// that `continues` keeps its convolution plans: with other plans its results would not be the same
/// bits.
pub fn for_training(
    wanted: Wanted,
    threads: usize,
    precision: recipe::Precision,
    continues: bool,
) -> Result<Chosen> {
    let device = open(wanted, threads, precision)?;
    if let (Chosen::Cuda(device), false) = (&device, continues) {
        device.recheck_tuning();
    }
    if precision == recipe::Precision::Bf16 && matches!(device, Chosen::Cpu(_)) {
        eprintln!("warning: train.precision = \"bf16\" is for GPUs; the CPU computes in f32");
    }
    Ok(device)
}

/// Opens a device.
pub fn open(wanted: Wanted, threads: usize, precision: recipe::Precision) -> Result<Chosen> {
    let cpu = || Ok(Chosen::Cpu(CpuDevice::new(threads).context("--threads")?));
    let cuda = |ordinal| {
        let precision = match precision {
            recipe::Precision::F32 => Precision::F32,
            recipe::Precision::Auto | recipe::Precision::Bf16 => Precision::Bf16,
        };
        let device = CudaDevice::new(ordinal, precision)?;
        // Tuning takes at most a second per convolution, once per machine (twice if it was busy).
        // It makes the convolutions of WRN-28-10 take 7.7 ms instead of 10.8 (docs/decisions/0015).
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
