//! `--device`: which device a word means on this machine.

use anyhow::{Context, Result, bail};
use superweight::engine::CpuDevice;

/// A device that is there.
pub enum Chosen {
    Cpu(CpuDevice),
}

pub fn choose(word: &str, threads: usize) -> Result<Chosen> {
    match word {
        "auto" | "cpu" => Ok(Chosen::Cpu(CpuDevice::new(threads).context("--threads")?)),
        _ if word == "cuda" || word.strip_prefix("cuda:").is_some_and(|n| n.parse::<u32>().is_ok()) => {
            bail!(
                "--device {word}: this program was built without CUDA; '--device cpu' trains on the processor"
            )
        }
        _ => bail!("--device '{word}' is not a device: there are auto, cpu, cuda and cuda:N"),
    }
}
