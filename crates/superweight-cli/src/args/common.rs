//! Flags of all verbs that use a trained run.

use clap::Args;

/// Where to compute, and how to print.
#[derive(Args)]
pub struct OnArgs {
    /// Device: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,

    /// CPU threads; 0 means one per core. Results do not depend on it.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Print JSON and nothing else.
    #[arg(long)]
    pub json: bool,
}

impl Default for OnArgs {
    fn default() -> Self {
        Self { device: "auto".to_owned(), threads: 0, json: false }
    }
}
