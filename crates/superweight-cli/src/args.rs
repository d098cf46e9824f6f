//! What can be typed. Only clap lives here; meaning is given to it in `commands`.
#![allow(rustdoc::broken_intra_doc_links)] // these comments are help text: [:SEED] is no link

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Find which layers share parameters, train, and use the result.
///
/// Without a command: the demo.
#[derive(Parser)]
#[command(name = "swn", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand)]
pub enum Command {
    Demo(DemoArgs),
    Plan(PlanArgs),
    Search(SearchArgs),
    Sweep(SweepArgs),
    Train(TrainArgs),
    Eval(EvalArgs),
    Anytime(AnytimeArgs),
    Predict(PredictArgs),
    Export(ExportArgs),
    Report(ReportArgs),
    Bench(BenchArgs),
    Data(DataArgs),
}

/// The whole method in some minutes: search, train, refine, compare, on images that come with the program.
///
/// Two networks of different width learn to share fewer numbers than half of what they have apart; beside them a plain
/// network of as many numbers is trained. Everything is measured while you watch.
#[derive(Args)]
pub struct DemoArgs {
    /// Of every random choice.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Train this many epochs instead of the recipe's.
    #[arg(long)]
    pub epochs: Option<u64>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Where to train: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,

    /// Threads of the processor; 0 is one per core. The numbers do not depend on it.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
}

impl Default for DemoArgs {
    fn default() -> Self {
        let (runs, device) = ("runs".into(), "auto".to_owned());
        Self { seed: 0, epochs: None, runs, device, threads: 0, json: false }
    }
}

/// Decide what is shared, for any architectures and any budget, before anything is trained.
///
/// Says whether the budget can be met, how, what each part costs, what is left over and the smallest budget that would
/// do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// Architectures, separated by commas: wrn-28-10, wrn-50-2, resnet-50, mobilenet-v2-0.5, cnn-16-32.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub members: Vec<String>,

    /// All trainable numbers together: a count (365368, 500K, 36.5M) or a share of what the members have without
    /// sharing (10%).
    #[arg(long, allow_hyphen_values = true)]
    pub budget: Option<String>,

    /// Classes told apart.
    #[arg(long, default_value_t = 100, allow_negative_numbers = true)]
    pub classes: usize,

    /// Channels, height and width of an image [default: 3x224x224 for bottleneck networks, else 3x32x32].
    #[arg(long, value_name = "CxHxW")]
    pub input: Option<String>,

    /// Which layers may share templates: single, depth:K, random:K[:SEED], per-layer, per-position, dense, or a JSON
    /// file with lists of layers ("0/block1.layer.0.conv1.weight" is that layer of member 0).
    #[arg(long, default_value = "single")]
    pub clusters: String,

    /// Whether a template is as large as its SuperWeight or a block of a grid.
    #[arg(long, value_enum, default_value_t)]
    pub tiling: TilingArg,

    /// Side of a grid's block [default: 16 below 3% of the members' total, else 32].
    #[arg(long, allow_negative_numbers = true)]
    pub block: Option<usize>,

    /// Who uses one set of coefficients when training starts.
    #[arg(long, value_enum, default_value_t)]
    pub coefficients: CoefficientsArg,

    /// Share of every layer's own coefficients that is kept for refinement; 0 without refinement.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub reserve: f64,

    /// Share the stem too.
    #[arg(long)]
    pub share_stem: bool,

    /// Share the classifiers too.
    #[arg(long)]
    pub share_classifier: bool,

    /// Write the plan to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    /// Print an existing plan instead of making one.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "members", "budget", "classes", "input", "clusters", "tiling", "block", "coefficients", "reserve", "share_stem",
        "share_classifier", "out",
    ])]
    pub show: Option<PathBuf>,
}

/// Train the networks of a recipe on shared parameters, or go on with a run.
///
/// A run is a folder: the recipe, a log (log.jsonl), curves (TensorBoard) and checkpoints, one after every epoch.
/// Ctrl-C finishes the step and says how to go on; what is lost is the current epoch. A resumed run gives the same
/// numbers, bit for bit, as one that was never stopped.
#[derive(Args)]
#[command(after_help = TRAIN_EXAMPLES)]
pub struct TrainArgs {
    /// A recipe (TOML); recipes/README.md lists its keys.
    #[arg(required_unless_present = "resume")]
    pub recipe: Option<PathBuf>,

    /// Set a key of the recipe, such as train.epochs=10; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Name of the run and its folder [default: the recipe's; a number is added where it is taken].
    #[arg(long)]
    pub name: Option<String>,

    /// Hold out this many training images and look at them after every epoch.
    #[arg(long, value_name = "IMAGES")]
    pub validation: Option<usize>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Remove the run of this name first, if there is one.
    #[arg(long)]
    pub replace: bool,

    /// Go on with this run from its newest checkpoint.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "name", "validation", "replace"])]
    pub resume: Option<PathBuf>,

    /// Stop between two epochs when the next would not end within this time: 9m, 90s, 1h30m.
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<String>,

    /// Where to train: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,

    /// Threads of the processor; 0 is one per core. The numbers do not depend on it.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// Find which layers should share templates: the first phase of 'swn train', by itself; or decide again, without training.
///
/// Trains as long as the recipe's search says, compares layers and prints the clusters. The run it leaves behind can be
/// trained ('swn train --resume'), and what it saw (statistics.safetensors) can be looked at with another threshold
/// ('--replay').
#[derive(Args)]
#[command(after_help = SEARCH_EXAMPLES)]
pub struct SearchArgs {
    /// A recipe (TOML) whose strategy searches.
    #[arg(required_unless_present_any = ["resume", "replay"])]
    pub recipe: Option<PathBuf>,

    /// Set a key of the recipe, such as search.epochs=2; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Name of the run and its folder [default: the recipe's; a number is added where it is taken].
    #[arg(long)]
    pub name: Option<String>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Remove the run of this name first, if there is one.
    #[arg(long)]
    pub replace: bool,

    /// Go on with the search of this run.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "name", "runs", "replace", "replay"])]
    pub resume: Option<PathBuf>,

    /// Decide again from what this run saw, without training.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "name", "runs", "replace"])]
    pub replay: Option<PathBuf>,

    /// τ: with --replay, layers more alike than this share templates [default: the run's].
    #[arg(long, requires = "replay", allow_negative_numbers = true)]
    pub tau: Option<f64>,

    /// β: with --replay, refine too; layers that are more alike in what they ask of coefficients share them.
    #[arg(long, requires = "replay", allow_negative_numbers = true)]
    pub beta: Option<f64>,

    /// Write the plan to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Where to train: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,

    /// Threads of the processor; 0 is one per core. The numbers do not depend on it.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// Train a recipe with every combination of some settings, one run folder each, and compare them.
///
/// A combination that is finished is not trained again, one that was stopped goes on: the same command after Ctrl-C
/// continues the sweep.
#[derive(Args)]
#[command(after_help = SWEEP_EXAMPLES)]
pub struct SweepArgs {
    /// A recipe (TOML).
    pub recipe: PathBuf,

    /// A key and its values: search.tau=0,0.1,0.3. Keys that hold lists take semicolons: members=wrn-10-2;wrn-10-1,wrn-16-1.
    /// Several keys make a grid; one with a single value holds for all.
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    pub set: Vec<String>,

    /// The sweep's runs lie in DIR/NAME of --runs [default: the recipe's name and '-sweep'].
    #[arg(long)]
    pub name: Option<String>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Where to train: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,

    /// Threads of the processor; 0 is one per core. The numbers do not depend on it.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Print the table as JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// Fetch, verify and list data sets.
///
/// They lie in $SWN_DATA, else in superweight/data of the user's cache ($XDG_CACHE_HOME or ~/.cache).
#[derive(Args)]
#[command(after_help = DATA_EXAMPLES)]
pub struct DataArgs {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Subcommand)]
pub enum DataCommand {
    List(ListArgs),
    Fetch(FetchArgs),
    Verify(VerifyArgs),
}

/// Which data sets are known, and which are here.
#[derive(Args)]
pub struct ListArgs {
    /// Look in this folder [default: the data folder].
    #[arg(long = "in", value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Download a data set, or take it from files already there; verify it and put it into the data folder.
///
/// Downloads by curl or wget from the official address; from $SWN_DATA_MIRROR, if set, an address with the same
/// files. Nothing is replaced before the new files are whole and verified.
#[derive(Args)]
pub struct FetchArgs {
    /// Which one: 'swn data list' names them.
    pub name: String,

    /// Take it from this file, folder or archive (.tar.gz, .gz; CIFAR in binary or python layout).
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,

    /// Put it into this folder [default: the data folder].
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compare the files that are here with the official ones, by SHA-256.
#[derive(Args)]
pub struct VerifyArgs {
    /// Which data set [default: all that are here].
    pub name: Option<String>,

    /// Look in this folder [default: the data folder].
    #[arg(long = "in", value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum TilingArg {
    /// Nested if its minimum is at most half the budget, else grid.
    #[default]
    Auto,
    /// A template is as large as its SuperWeight.
    Nested,
    /// A SuperWeight is a grid of blocks.
    Grid,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum CoefficientsArg {
    /// All layers on a SuperWeight, until refinement parts them.
    #[default]
    Shared,
    /// Every layer its own.
    Own,
}

/// Judge a run: every member and every ensemble of members, on the test set and beyond.
///
/// Top-1, top-5, negative log-likelihood and expected calibration error; diversity of the members. What was predicted is
/// kept in the run's folder, so that every figure can be computed again.
#[derive(Args)]
#[command(after_help = EVAL_EXAMPLES)]
pub struct EvalArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// On the training images that were held out, instead of the test images.
    #[arg(long)]
    pub held_out: bool,

    /// On the test images of another data set of the same shape and classes.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["held_out", "corruptions", "corrupted", "interpolate"])]
    pub data: Option<String>,

    /// Also on corrupted test images made here (the constants of CIFAR-C, labelled "regenerated"): all, or types
    /// separated by commas.
    #[arg(long, value_name = "TYPES", value_delimiter = ',', num_args = 0..=1, default_missing_value = "all")]
    pub corruptions: Vec<String>,

    /// Also on the published files of CIFAR-10-C or CIFAR-100-C in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "corruptions")]
    pub corrupted: Option<PathBuf>,

    /// Severities of corruption.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2,3,4,5")]
    pub severities: Vec<u64>,

    /// Folder with the textures frost1.png to frost5.jpg that the type "frost" is made of.
    #[arg(long, value_name = "DIR")]
    pub frost: Option<PathBuf>,

    /// Seed of the corruptions' noise.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Also on the line between two members of one architecture, at 11 points.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub interpolate: Vec<usize>,

    /// Only the first images.
    #[arg(long, value_name = "IMAGES")]
    pub images: Option<usize>,

    /// Images of a step.
    #[arg(long, default_value_t = 128)]
    pub batch: usize,

    /// Where predictions and figures are kept [default: RUN/evaluation].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Write the figures of all sets and subsets to this file, one line each.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    #[command(flatten)]
    pub on: OnArgs,
}

/// Measure what every subset of a run's members costs on this machine, and what it is worth.
///
/// Every member is timed in turn with its weights composed once; all 2^M - 1 subsets are judged from one pass over the
/// test images. The profile (anytime.json in the run's folder) is what 'swn predict --deadline' goes by.
#[derive(Args)]
#[command(after_help = ANYTIME_EXAMPLES)]
pub struct AnytimeArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Images of a call, separated by commas; the profile that is kept is of the first.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub batch: Vec<usize>,

    /// Time to measure for, per batch size.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,

    /// Accuracies on the training images that were held out, instead of the test images.
    #[arg(long)]
    pub held_out: bool,

    /// Accuracies on the first images only.
    #[arg(long, value_name = "IMAGES")]
    pub images: Option<usize>,

    #[command(flatten)]
    pub on: OnArgs,
}

/// Say what is on pictures, within a deadline.
///
/// Runs the members of the most accurate subset that fits the deadline by the profile of 'swn anytime', cheapest first,
/// and stops where the next would end too late. Without a deadline all members run.
#[derive(Args)]
#[command(after_help = PREDICT_EXAMPLES)]
pub struct PredictArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Pictures: PNG or JPEG of any size.
    #[arg(required = true, value_name = "IMAGE")]
    pub pictures: Vec<PathBuf>,

    /// Time for each answer, such as 5ms, 800us or 1s; the picture is decoded before it begins.
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,

    /// Classes to name, most probable first.
    #[arg(long, value_name = "CLASSES", default_value_t = 3)]
    pub top: usize,

    /// The profile [default: RUN/anytime.json].
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,

    #[command(flatten)]
    pub on: OnArgs,
}

/// Write members for other programs: a PyTorch state dict, or ONNX.
///
/// Weights are composed and written out in full; who opens the file needs to know nothing of SuperWeights.
#[derive(Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// What to write: safetensors is a file per member, onnx one graph (of several members: their mean probability).
    #[arg(long, value_enum)]
    pub to: FormatArg,

    /// Members, separated by commas [default: all].
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub members: Vec<usize>,

    /// Let the ONNX graph take images in 0 to 255 and normalise them itself.
    #[arg(long)]
    pub normalise: bool,

    /// Folder for the files [default: RUN/export].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub on: OnArgs,
}

/// A file format.
#[derive(Clone, Copy, ValueEnum)]
pub enum FormatArg {
    Safetensors,
    Onnx,
}

/// Where to compute, and how to print.
#[derive(Args)]
pub struct OnArgs {
    /// Where to run: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,

    /// Threads of the processor; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl EvalArgs {
    /// The test images of a run, nothing else.
    pub fn of(run: &Path, on: OnArgs) -> Self {
        Self {
            run: run.to_owned(),
            held_out: false,
            data: None,
            corruptions: vec![],
            corrupted: None,
            severities: vec![],
            frost: None,
            seed: 0,
            interpolate: vec![],
            images: None,
            batch: 128,
            out: None,
            csv: None,
            on,
        }
    }
}

impl AnytimeArgs {
    /// One image at a time, on the test images.
    pub fn of(run: &Path, on: OnArgs) -> Self {
        Self { run: run.to_owned(), batch: vec![1], seconds: 5.0, held_out: false, images: None, on }
    }
}

const EVAL_EXAMPLES: &str = "\
Examples:
  swn eval runs/quick
  swn eval runs/three --corruptions --frost frost --csv figures.csv
  swn eval runs/three --corruptions fog,contrast --severities 1,5 --images 1000
  swn eval runs/three --corrupted CIFAR-100-C
  swn eval runs/pair --interpolate 0,1";

const ANYTIME_EXAMPLES: &str = "\
Examples:
  swn anytime runs/three
  swn anytime runs/three --batch 1,128 --json";

const PREDICT_EXAMPLES: &str = "\
Examples:
  swn predict runs/three shoe.png bag.jpg
  swn predict runs/three --deadline 5ms shoe.png";

const EXPORT_EXAMPLES: &str = "\
Examples:
  swn export runs/three --members 0,2 --to safetensors
  swn export runs/three --to onnx --normalise";

const EXAMPLES: &str = "\
Examples:
  swn plan --members wrn-28-10 --budget 10%
  swn plan --members wrn-34-8,wrn-28-12,wrn-28-10,wrn-28-8 --clusters depth:4 --budget 36.5M
  swn plan --members mobilenet-v2,wrn-28-5 --budget 9M --out plan.json
  swn plan --show plan.json";

const TRAIN_EXAMPLES: &str = "\
Examples:
  swn train recipes/quick.toml
  swn train recipes/quick.toml --set strategy=no-search --name one-cluster
  swn train recipes/quick.toml --set train.epochs=1 --set seed=7 --name seven
  swn train --resume runs/quick --time-limit 9m";

const SEARCH_EXAMPLES: &str = "\
Examples:
  swn search recipes/quick.toml --out plan.json
  swn search --replay runs/quick --tau 0.3 --out plan.json
  swn search --replay runs/quick --beta 0.5
  swn train --resume runs/quick";

const SWEEP_EXAMPLES: &str = "\
Examples:
  swn sweep recipes/quick.toml --set search.tau=0,0.1,0.3
  swn sweep recipes/quick.toml --set strategy=swn,no-search,depth-binned --set seed=1,2,3";

const DATA_EXAMPLES: &str = "\
Examples:
  swn data fetch cifar-100
  swn data fetch cifar-100 --from ~/Downloads/cifar-100-python.tar.gz
  swn data fetch fashion-mnist --from /usr/share/datasets/fashion-mnist
  swn data verify";

/// Printed when `swn plan` is called with nothing to plan.
pub const NOTHING_TO_PLAN: &str = "\
nothing to plan: name the networks and a budget, for example

  swn plan --members wrn-28-10 --budget 10%

or print an existing plan with 'swn plan --show plan.json'; 'swn plan --help' lists everything";

/// Make something to look at from run folders: one HTML file with everything inside.
///
/// Of one run: accuracy, training, which layers share what, why, and what other thresholds would have given. Of several:
/// a table beside the paper's figures, means over seeds, curves over each other.
#[derive(Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// Run folders.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,

    /// Write to this file [default: report.html in the run's folder, or here for several runs; other formats are
    /// printed].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// What to make.
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,

    /// Write every figure as an SVG file into this folder too.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A page that opens in any browser, without a network.
    #[default]
    Html,
    /// Tables for a README or an issue.
    Md,
    /// One line per run and figure.
    Csv,
    /// Everything that the page shows, as data.
    Json,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  swn report runs/quick
  swn report runs/swn-seed-* runs/no-refine-seed-* --out comparison.html
  swn report runs/* --format md
  swn report runs/quick --plots figures";

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
}

#[derive(Args)]
pub struct BenchOptions {
    /// Architectures trained together, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub members: Vec<String>,

    /// Images per step.
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

    /// With --budget: whether a template is as large as its SuperWeight or a block of a grid.
    #[arg(long, value_enum, default_value_t, requires = "budget")]
    pub tiling: TilingArg,

    /// With --inference: pack the weights once and keep them beside the plain ones; faster at small batches, twice the
    /// memory for weights.
    #[arg(long, requires = "inference")]
    pub packed: bool,

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
  swn bench ops --members mobilenet-v2 --batch 32";
