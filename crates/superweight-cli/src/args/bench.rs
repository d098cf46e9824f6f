//! What can be typed behind `swn bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::TilingArg;

/// Measure how long a step takes on this machine, on random weights and images.
#[derive(Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub what: BenchCommand,
}

#[derive(Subcommand)]
pub enum BenchCommand {
    /// A whole step: forward, backward and update of all members, or forward alone.
    Step(BenchOptions),
    /// Each operation with its share of the step.
    Ops(BenchOptions),
    /// The convolutions of a step as tuned for this GPU: how each is computed and how long it takes.
    Tune(TuneOptions),
}

#[derive(Args)]
pub struct TuneOptions {
    #[command(flatten)]
    pub bench: BenchOptions,

    /// Forget what was tuned for this GPU and tune anew.
    #[arg(long)]
    pub refresh: bool,
}

#[derive(Args)]
pub struct BenchOptions {
    /// Architectures trained together, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_unless_present = "plan")]
    pub members: Vec<String>,

    /// Images per step; with networks that see M at once (mimo-M) rows of M.
    #[arg(long, default_value_t = 32)]
    pub batch: usize,

    /// Where to run: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "cpu")]
    pub device: String,

    /// Activations and weights on a GPU; the processor computes in f32.
    #[arg(long, value_enum, default_value_t)]
    pub precision: PrecisionArg,

    /// How long to choose the GPU's convolutions; what was tuned is kept.
    #[arg(long, value_enum, default_value_t)]
    pub tuning: TuningArg,

    /// Forward alone, with the running statistics, as in evaluation.
    #[arg(long)]
    pub inference: bool,

    /// Measure a step with weights composed within this budget beside the step without sharing, in turns (bench step
    /// only): a count or a share, such as 25%.
    #[arg(long, conflicts_with = "inference")]
    pub budget: Option<String>,

    /// With --budget: what a template is, as large as its SuperWeight, a block of a grid, or a pattern of blocks.
    #[arg(long, value_enum, default_value_t, requires = "budget")]
    pub tiling: TilingArg,

    /// With --budget: side of a grid's block [default: the first of 8, 16 and 32 of which the budget pays for three
    /// templates a set; with kronecker the one that makes templates smallest].
    #[arg(long, requires = "budget")]
    pub block: Option<usize>,

    /// Measure a step with weights composed as in this file of 'swn plan' beside the step of its members without sharing,
    /// in turns (bench step only).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["members", "classes", "input", "budget", "inference"])]
    pub plan: Option<PathBuf>,

    /// With --inference: pack the weights once and keep them beside the plain ones; faster at small batches, twice the
    /// memory for weights.
    #[arg(long, requires = "inference")]
    pub packed: bool,

    /// With --inference: leave batch norms as they are instead of folding them into the convolutions before them.
    #[arg(long, requires = "inference")]
    pub unfolded: bool,

    /// Threads; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// How long to repeat the step; at least five are measured.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,

    /// Classes told apart.
    #[arg(long, default_value_t = 100)]
    pub classes: usize,

    /// Channels, height and width of an image [default: 3x224x224 for bottleneck networks, else 3x32x32].
    #[arg(long, value_name = "CxHxW")]
    pub input: Option<String>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum PrecisionArg {
    /// 16 bits with the range of 32, on tensor cores.
    #[default]
    Bf16,
    /// 32 bits.
    F32,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum TuningArg {
    /// What cuDNN proposes first: milliseconds.
    Heuristic,
    /// All it proposes, timed: about a second per convolution.
    #[default]
    Quick,
    /// And variants of the best: up to fifteen seconds per convolution.
    Full,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  swn bench step --members wrn-16-2 --batch 32 --device cpu
  swn bench step --members wrn-28-10 --batch 128 --device cuda --tuning full
  swn bench step --members wrn-28-4 --batch 1 --inference --json
  swn bench step --members wrn-16-2 --budget 25% --tiling grid
  swn bench step --plan plan.json --batch 128 --device cuda
  swn bench ops --members mobilenet-v2 --batch 32
  swn bench tune --members wrn-28-10 --batch 128 --device cuda --refresh";
