//! What can be typed after `swn demo`, `train`, `search` and `sweep`, the verbs that train.

use std::path::PathBuf;

use clap::Args;

use super::common::OnArgs;

/// Run the whole method in a few minutes: search, train, refine and compare, on images that come
/// with the program.
///
/// Two networks of different width learn to share fewer than half of the parameters that they have
/// separately. A plain network with as many parameters is trained beside them. Everything is
/// measured on this machine. Both runs are written below --runs.
#[derive(Args)]
pub struct DemoArgs {
    /// Seed of every random choice.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Train this many epochs instead of the recipe's.
    #[arg(long)]
    pub epochs: Option<u64>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    #[command(flatten)]
    pub on: OnArgs,
}

impl Default for DemoArgs {
    fn default() -> Self {
        Self { seed: 0, epochs: None, runs: "runs".into(), on: OnArgs::default() }
    }
}

/// Train the networks of a recipe on shared parameters, or continue a run.
///
/// A run is a folder: the recipe, a log (log.jsonl), curves for TensorBoard, and checkpoints, one
/// after every epoch unless --checkpoint-every says otherwise. Ctrl-C ends training after the
/// current step and loses the current epoch; the last line says how to continue. A resumed run
/// gives the same parameters, bit for bit, as one that was never stopped (on a GPU: with the
/// convolution plans that it began with).
#[derive(Args)]
#[command(after_help = TRAIN_EXAMPLES, override_usage = TRAIN_USAGE)]
pub struct TrainArgs {
    /// Recipe (TOML); recipes/keys.md lists its keys.
    #[arg(required_unless_present_any = ["resume", "from"])]
    pub recipe: Option<PathBuf>,

    /// Set a key of the recipe, such as train.epochs=10; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Train this plan instead of searching for one: a file of 'swn plan --out' or 'swn search
    /// --out', or written by hand. Sets plan.file of the recipe.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// Name of the run and its folder [default: the recipe's; a number is added if the name is
    /// taken].
    #[arg(long)]
    pub name: Option<String>,

    /// Use this many training images (500), or a fraction of them (10%), for validation after every
    /// epoch, or every eval.validation_every epochs, instead of training on them.
    #[arg(long, value_name = "IMAGES")]
    pub validation: Option<String>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Remove an existing run of this name first.
    #[arg(long)]
    pub replace: bool,

    /// Continue this run from its newest checkpoint.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "plan", "name", "validation", "replace"])]
    pub resume: Option<PathBuf>,

    /// Start a new run from this run's newest checkpoint, with its recipe and what --set changes of
    /// the epochs that are left: their number, learning rates, weight averaging. Gives the same
    /// parameters as training from the beginning, in less time; the old run is not changed.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "resume", "plan", "validation"])]
    pub from: Option<PathBuf>,

    /// Stop between two epochs if the next one would not end within this time: 9m, 90s, 1h30m. The
    /// last epoch takes longer with weight averaging (train.swa_epochs).
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<String>,

    /// Stop after this many epochs of training; '--resume' continues, '--from' continues with other
    /// settings.
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u64).range(1..))]
    pub until: Option<u64>,

    /// Epochs between two checkpoints, which a kill or Ctrl-C may lose. Results do not depend on
    /// it.
    #[arg(long, value_name = "EPOCHS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub checkpoint_every: u64,

    #[command(flatten)]
    pub on: OnArgs,
}

/// Find which layers should share templates: the first phase of 'swn train' by itself, or its
/// decision again.
///
/// Trains for the epochs of the recipe's search, compares layers and prints the clusters. The run
/// that it leaves can be trained ('swn train --resume'). '--replay' decides again with another
/// threshold from the statistics that the run has kept (statistics.safetensors), without training.
#[derive(Args)]
#[command(after_help = SEARCH_EXAMPLES, override_usage = SEARCH_USAGE)]
pub struct SearchArgs {
    /// Recipe (TOML) whose strategy searches.
    #[arg(required_unless_present_any = ["resume", "replay"])]
    pub recipe: Option<PathBuf>,

    /// Set a key of the recipe, such as search.epochs=2; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Name of the run and its folder [default: the recipe's; a number is added if the name is
    /// taken].
    #[arg(long)]
    pub name: Option<String>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Remove an existing run of this name first.
    #[arg(long)]
    pub replace: bool,

    /// Continue the search of this run.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "name", "runs", "replace", "replay"])]
    pub resume: Option<PathBuf>,

    /// Decide again from the statistics of this run, without training.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "name", "runs", "replace"])]
    pub replay: Option<PathBuf>,

    /// τ: with --replay, layers whose gradients are more similar than this share templates
    /// [default: the run's].
    #[arg(long, requires = "replay", allow_negative_numbers = true)]
    pub tau: Option<f64>,

    /// β: with --replay, refine too; layers whose gradients of the coefficients are more similar
    /// than this share them.
    #[arg(long, requires = "replay", allow_negative_numbers = true)]
    pub beta: Option<f64>,

    /// Write the plan to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub on: OnArgs,
}

/// Train a recipe with every combination of some settings, one run folder each, and compare them.
///
/// A combination whose run is finished is not trained again, and a run that was stopped continues:
/// the same command after Ctrl-C continues the sweep.
#[derive(Args)]
#[command(after_help = SWEEP_EXAMPLES, override_usage = SWEEP_USAGE)]
pub struct SweepArgs {
    /// Recipe (TOML).
    #[arg(required_unless_present = "from")]
    pub recipe: Option<PathBuf>,

    /// Start every run from this run's newest checkpoint, as 'swn train --from' does.
    #[arg(long, value_name = "RUN", conflicts_with = "recipe")]
    pub from: Option<PathBuf>,

    /// A key and its values: search.tau=0,0.1,0.3. The values of a key that holds a list are
    /// separated by semicolons: members=wrn-10-2;wrn-10-1,wrn-16-1. Several keys make a grid; a key
    /// with one value has it in all runs.
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    pub set: Vec<String>,

    /// Folder of the sweep's runs, below --runs [default: the recipe's name and '-sweep'].
    #[arg(long)]
    pub name: Option<String>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    #[command(flatten)]
    pub on: OnArgs,
}

const TRAIN_USAGE: &str = "\
swn train <RECIPE> [OPTIONS]
       swn train --resume <RUN> [OPTIONS]
       swn train --from <RUN> --set <KEY=VALUE> [OPTIONS]";

const SEARCH_USAGE: &str = "\
swn search <RECIPE> [OPTIONS]
       swn search --resume <RUN> [OPTIONS]
       swn search --replay <RUN> [--tau <TAU>] [--beta <BETA>] [OPTIONS]";

const SWEEP_USAGE: &str = "\
swn sweep <RECIPE> --set <KEY=VALUES> [OPTIONS]
       swn sweep --from <RUN> --set <KEY=VALUES> [OPTIONS]";

const TRAIN_EXAMPLES: &str = "\
Examples:
  swn train recipes/quick.toml
  swn train recipes/quick.toml --set strategy=no-search --name one-cluster
  swn train recipes/quick.toml --set train.epochs=1 --set seed=7 --name seven
  swn train recipes/quick.toml --plan plan.json --name by-hand
  swn train --resume runs/quick --time-limit 9m

  The same first epochs at a constant learning rate, then two ways to end:
  swn train recipes/quick.toml --set train.schedule=constant --until 3 --name start
  swn train --from runs/start --name drop --set train.schedule=multistep --set train.milestones=[3]
  swn train --from runs/start --name mean --set train.swa_epochs=2";

const SEARCH_EXAMPLES: &str = "\
Examples:
  swn search recipes/quick.toml --out plan.json
  swn search --replay runs/quick --tau 0.3 --out plan.json
  swn search --replay runs/quick --beta 0.5
  swn train --resume runs/quick";

const SWEEP_EXAMPLES: &str = "\
Examples:
  swn sweep recipes/quick.toml --set search.tau=0,0.1,0.3
  swn sweep recipes/quick.toml --set strategy=swn,no-search,depth-binned --set seed=1,2,3
  swn sweep --from runs/start --set train.swa_epochs=0,1,2";
