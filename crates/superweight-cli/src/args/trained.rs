//! What can be typed behind `swn eval`, `anytime`, `predict`, `export` and `report`: whatever uses a trained run.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::OnArgs;

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
    #[arg(long, value_name = "DIR", requires = "corruptions")]
    pub frost: Option<PathBuf>,

    /// Seed of the corruptions' noise.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Also every class by itself, the hardest first, and what it is taken for: all members together.
    #[arg(long)]
    pub classes: bool,

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

/// Measure what every subset of a run's members, or every exit, costs on this machine, and what it is worth.
///
/// Every member is timed in turn with its weights composed once; all 2^M - 1 subsets are judged from one pass over the
/// test images. A network of several exits is timed exit by exit, each with those before it. The profile (anytime.json in the
/// run's folder) is what 'swn predict --deadline' goes by.
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
/// and stops where the next would end too late. Exits run in their order up to the chosen one. Where time is up
/// before it, the most accurate subset of those that have run answers. Without a deadline everyone answers, and the mean is said.
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
    #[arg(long, value_name = "FILE", requires = "deadline")]
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

    /// Let the ONNX graph take images in 0 to 255 and normalize them itself.
    #[arg(long)]
    pub normalize: bool,

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

impl EvalArgs {
    /// The test images of a run, nothing else.
    pub fn of(run: &Path, on: OnArgs) -> Self {
        Self {
            run: run.to_owned(),
            held_out: false,
            classes: false,
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
        Self {
            run: run.to_owned(),
            batch: vec![1],
            seconds: 5.0,
            held_out: false,
            images: None,
            on,
        }
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
  swn export runs/three --to onnx --normalize";

/// Make something to look at from run folders: one HTML file with everything inside.
///
/// Of one run: accuracy, training, which layers share what, why, and what other thresholds would have given. Of several:
/// a table beside the paper's figures, means over seeds, curves over each other. '--publish' keeps of a finished and
/// evaluated run what can be committed, '--table' makes a table of what was published.
#[derive(Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// Run folders; with --table the folder of results.
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

    /// Keep log, plan, predictions and figures of one run in this folder: what results are computed from again.
    #[arg(long, value_name = "DIR", requires = "commit", conflicts_with_all = ["out", "format", "plots", "table"])]
    pub publish: Option<PathBuf>,

    /// With --publish: the commit of the program that trained.
    #[arg(long, value_name = "HASH", requires = "publish", value_parser = commit)]
    pub commit: Option<String>,

    /// With --publish: the row that it is a run of [default: the run's name, which is its recipe's].
    #[arg(long, value_name = "NAME", requires = "publish")]
    pub row: Option<String>,

    /// With --publish: which images the settings were chosen on.
    #[arg(long, value_enum, default_value_t, requires = "publish")]
    pub choices: ChoicesArg,

    /// Make the table of published runs beside the paper's figures, as Markdown; '--out FILE' puts it between the
    /// file's two markers.
    #[arg(long, conflicts_with_all = ["format", "plots"])]
    pub table: bool,
}

/// A commit's name as git prints it, whole or its beginning.
fn commit(text: &str) -> Result<String, String> {
    let hexadecimal =
        text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    match hexadecimal && (7..=64).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(
            "not a commit: at least seven hexadecimal digits, as 'git rev-parse --short HEAD' prints them"
                .to_owned(),
        ),
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ChoicesArg {
    /// On none: they are the paper's.
    #[default]
    Paper,
    /// On training images that shorter runs held out.
    HeldOut,
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
  swn report runs/quick --plots figures
  swn report runs/quick --publish results/quick/quick-0 --commit 8802b29
  swn report results --table --out results/README.md";
