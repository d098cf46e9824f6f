//! What can be typed behind `swn demo`, `train`, `search` and `sweep`: whatever trains.

use std::path::PathBuf;

use clap::Args;

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

    #[command(flatten)]
    pub on: TrainOnArgs,
}

impl Default for DemoArgs {
    fn default() -> Self {
        let (runs, device) = ("runs".into(), "auto".to_owned());
        Self { seed: 0, epochs: None, runs, on: TrainOnArgs { device, threads: 0, json: false } }
    }
}

/// Train the networks of a recipe on shared parameters, or go on with a run.
///
/// A run is a folder: the recipe, a log (log.jsonl), curves (TensorBoard) and checkpoints, one after every epoch unless
/// --checkpoint-every says less. Ctrl-C finishes the step and says how to go on; what is lost is the current epoch. A resumed run gives the same
/// numbers, bit for bit, as one that was never stopped (on a GPU: with the convolutions' plans that it began with).
#[derive(Args)]
#[command(after_help = TRAIN_EXAMPLES)]
pub struct TrainArgs {
    /// A recipe (TOML); recipes/keys.md lists its keys.
    #[arg(required_unless_present_any = ["resume", "from"])]
    pub recipe: Option<PathBuf>,

    /// Set a key of the recipe, such as train.epochs=10; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Train this plan, as 'swn plan --out' and 'swn search --out' write it or written by hand, instead of searching for
    /// one: plan.file of the recipe.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// Name of the run and its folder [default: the recipe's; a number is added where it is taken].
    #[arg(long)]
    pub name: Option<String>,

    /// Hold out this many training images (500), or a share of them (10%), and look at them after every epoch (or every
    /// eval.validation_every).
    #[arg(long, value_name = "IMAGES")]
    pub validation: Option<String>,

    /// Folder of all runs.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub runs: PathBuf,

    /// Remove the run of this name first, if there is one.
    #[arg(long)]
    pub replace: bool,

    /// Go on with this run from its newest checkpoint.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "plan", "name", "validation", "replace"])]
    pub resume: Option<PathBuf>,

    /// Begin a run where this one is, with another end: its recipe, and what --set changes of the epochs to come (their number,
    /// rates, average). The same numbers as from the beginning, in less time; the run itself stays as it is.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "resume", "plan", "validation"])]
    pub from: Option<PathBuf>,

    /// Stop between two epochs when the next would not end within this time: 9m, 90s, 1h30m. The last one takes longer where a
    /// mean is kept (train.swa_epochs).
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<String>,

    /// Stop after this many epochs of training; '--resume' goes on, '--from' with another end.
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u64).range(1..))]
    pub until: Option<u64>,

    /// Epochs between two checkpoints: what a kill or Ctrl-C may lose. The numbers do not depend on it.
    #[arg(long, value_name = "EPOCHS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub checkpoint_every: u64,

    #[command(flatten)]
    pub on: TrainOnArgs,
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

    #[command(flatten)]
    pub on: TrainOnArgs,
}

/// Train a recipe with every combination of some settings, one run folder each, and compare them.
///
/// A combination that is finished is not trained again, one that was stopped goes on: the same command after Ctrl-C
/// continues the sweep.
#[derive(Args)]
#[command(after_help = SWEEP_EXAMPLES)]
pub struct SweepArgs {
    /// A recipe (TOML).
    #[arg(required_unless_present = "from")]
    pub recipe: Option<PathBuf>,

    /// Begin every run where this one is: several ends of one beginning, as 'swn train --from' makes them.
    #[arg(long, value_name = "RUN", conflicts_with = "recipe")]
    pub from: Option<PathBuf>,

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

    #[command(flatten)]
    pub on: TrainOnArgs,
}

const TRAIN_EXAMPLES: &str = "\
Examples:
  swn train recipes/quick.toml
  swn train recipes/quick.toml --set strategy=no-search --name one-cluster
  swn train recipes/quick.toml --set train.epochs=1 --set seed=7 --name seven
  swn train recipes/quick.toml --plan plan.json --name by-hand
  swn train --resume runs/quick --time-limit 9m

  One beginning at one rate, two ends:
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

/// Where training happens and how it is told.
#[derive(Args)]
pub struct TrainOnArgs {
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
