//! What can be typed after `swn bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use superweight::engine::cuda::Tuning;
use superweight::plan::TilingChoice;
use superweight::recipe::Precision;

use super::values::{BENCH_PRECISIONS, TILINGS, TUNINGS, one_of};

/// Measure how long a step takes on this machine, with random weights and images.
#[derive(Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub what: BenchCommand,
}

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Measure a whole step: forward, backward and update of all members, or forward only.
    #[command(override_usage = STEP_USAGE)]
    Step(BenchOptions),
    /// List the operations of a step, each with its share of the time.
    Ops(BenchOptions),
    /// List the convolutions of a step as tuned for this GPU: how each is computed and how long it
    /// takes.
    Tune(TuneOptions),
}

#[derive(Args)]
pub struct TuneOptions {
    #[command(flatten)]
    pub bench: BenchOptions,

    /// Discard the plans that were tuned for this GPU and tune again.
    #[arg(long)]
    pub refresh: bool,
}

#[derive(Args)]
pub struct BenchOptions {
    /// Architectures trained together, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_unless_present = "plan")]
    pub members: Vec<String>,

    /// Images per step; for networks that read M images at once (mimo-M), rows of M images.
    #[arg(long, visible_alias = "batch", default_value_t = 32)]
    pub batch_size: usize,

    /// Device: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "cpu")]
    pub device: String,

    /// Precision of activations and weights on a GPU; the CPU computes in f32.
    #[arg(long, value_parser = one_of(BENCH_PRECISIONS), default_value = "bf16")]
    pub precision: Precision,

    /// How thoroughly to choose the GPU's convolutions; tuned plans are kept.
    #[arg(long, value_parser = one_of(TUNINGS), default_value = "quick")]
    pub tuning: Tuning,

    /// Measure the forward pass only, with the running statistics, as in evaluation.
    #[arg(long)]
    pub inference: bool,

    /// bench step only: measure a step with weights composed within this budget (a count, or a
    /// fraction such as 25%), in turn with the same step without sharing.
    #[arg(long, conflicts_with = "inference")]
    pub budget: Option<String>,

    /// With --budget: what a template is.
    #[arg(long, value_parser = one_of(TILINGS), default_value = "auto", requires = "budget")]
    pub tiling: TilingChoice,

    /// With --budget: side of a block [default: as 'swn plan' chooses it].
    #[arg(long, requires = "budget")]
    pub block: Option<usize>,

    /// bench step only: measure a step with weights composed as in this file of 'swn plan', in turn
    /// with the step of its members without sharing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["members", "classes", "input", "budget", "inference"])]
    pub plan: Option<PathBuf>,

    /// With --inference: pack the weights once and keep them beside the plain ones; faster at small
    /// batch sizes, with twice the memory for weights.
    #[arg(long, requires = "inference")]
    pub packed: bool,

    /// With --inference: keep batch norms instead of folding them into the convolutions before
    /// them.
    #[arg(long, requires = "inference")]
    pub unfolded: bool,

    /// CPU threads; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Seconds to repeat the step for; at least five steps are measured.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,

    /// Number of classes.
    #[arg(long, default_value_t = 100)]
    pub classes: usize,

    /// Channels, height and width of an image [default: 3x224x224 for bottleneck networks, else
    /// 3x32x32].
    #[arg(long, value_name = "CxHxW")]
    pub input: Option<String>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const STEP_USAGE: &str = "\
swn bench step --members <NAMES> [OPTIONS]
       swn bench step --members <NAMES> --budget <BUDGET> [OPTIONS]
       swn bench step --plan <FILE> [OPTIONS]";

const BENCH_EXAMPLES: &str = "\
Examples:
  swn bench step --members wrn-16-2 --batch-size 32 --device cpu
  swn bench step --members wrn-28-10 --batch-size 128 --device cuda --tuning full
  swn bench step --members wrn-28-4 --batch-size 1 --inference --json
  swn bench step --members wrn-16-2 --budget 25% --tiling grid
  swn bench step --plan plan.json --batch-size 128 --device cuda
  swn bench ops --members mobilenet-v2 --batch-size 32
  swn bench tune --members wrn-28-10 --batch-size 128 --device cuda --refresh";
