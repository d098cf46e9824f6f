//! `swn train`: help and errors are pinned; runs are stopped, resumed, branched and killed.

#[macro_use]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::Folder;

/// Ten steps per epoch on the images that come with the program; an epoch takes a fraction of a
/// second.
const RECIPE: &str = "\
members = ['cnn-4-8', 'cnn-4']
budget = '100%'
strategy = 'no-search'
[data]
name = 'fashion-mnist-10k'
validation = 7800
[train]
epochs = 6
batch_size = 20
schedule = 'one-cycle'
";

fn folder(name: &str) -> Folder {
    Folder::with_recipe(name, RECIPE)
}

pinned! {
    train_help:
        "train --help";
    train_bad_flags:
        "train",
        "train missing.toml",
        "train missing.toml --device tpu",
        "train missing.toml --device cuda:x",
        "train missing.toml --time-limit 9",
        "train --resume missing",
        "train --resume .",
        "train --resume run missing.toml",
        "train --resume run --set seed=1",
        "train --resume run --plan plan.json",
        "train --from missing",
        "train --from .",
        "train --from run missing.toml",
        "train --from run --resume run",
        "train --from run --plan plan.json",
        "train --from run --validation 500",
        "train missing.toml --until 0";
}

/// The plan of 'swn plan' is trained unchanged, and the run keeps it.
#[test]
fn a_given_plan_is_trained_unchanged() {
    let folder = folder("plan");
    let plan = "plan --members cnn-4-8,cnn-4 --classes 10 --input 1x28x28 --clusters dense --out plan.json";
    assert!(folder.run(plan).status.success());
    let done = folder.run("train tiny.toml --plan plan.json --set train.epochs=1 --device cpu");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let screen = String::from_utf8_lossy(&done.stdout);
    assert!(
        screen.contains("\nplan       given; there is no search and no refinement\n"),
        "{screen}"
    );
    let read = |file: &str| fs::read_to_string(folder.0.join(file)).unwrap();
    let dense = read("plan.json");
    let [kept, trained] =
        ["runs/tiny/given.json", "runs/tiny/checkpoints/0001/plan.json"].map(read);
    assert_eq!(kept, trained);
    // The kept plan has the budget of the recipe.
    let without = |text: &str| {
        text.lines().filter(|line| !line.contains("\"budget\"")).map(str::to_owned).collect()
    };
    let [dense, kept]: [Vec<String>; 2] = [without(&dense), without(&kept)];
    assert_eq!(dense, kept);
    let searched = folder.screen("search tiny.toml --set plan.file=plan.json");
    assert!(
        searched.contains("error: plan.file plan.json is given as the plan: 'swn train' trains it"),
        "{searched}"
    );
    for (file, problem) in [("missing.json", "No such file"), ("tiny.toml", "not a plan: ")] {
        let screen = folder.screen(&format!("train tiny.toml --plan {file}"));
        assert!(screen.contains("[exit 1]\nerror: plan.file "), "{screen}");
        assert!(screen.contains(&format!("{file}: {problem}")), "{screen}");
    }
    let twice = folder.screen("train tiny.toml --plan plan.json --set plan.file=other.json");
    assert!(twice.contains("error: --plan plan.json and --set plan.file"), "{twice}");
    // A sweep compares the plan itself, not its file name.
    let sweep = "sweep tiny.toml --set plan.file=plan.json --set train.epochs=1 --set seed=1,2 --device cpu";
    assert!(folder.run(sweep).status.success());
    // Runs of one plan are seeds of one row, whose strategy is the given plan.
    let report = folder.run(
        "report runs/tiny runs/tiny-sweep/seed-1 runs/tiny-sweep/seed-2 --format json --out report.json",
    );
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let report: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    let rows = report["comparison"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(
        (&rows[0]["seeds"], &rows[0]["strategy"]),
        (&serde_json::json!([0, 1, 2]), &"given plan".into())
    );
    let other = plan.replace("--clusters dense", "--budget 100%");
    assert!(folder.run(&other).status.success());
    let screen = folder.screen(&sweep.replace("1,2", "1,2,3"));
    assert!(screen.contains("seed-1 has a run of another plan: remove it"), "{screen}");
    // Rows of two plans are named after their runs.
    assert!(
        folder.run("train tiny.toml --plan plan.json --name other --device cpu").status.success()
    );
    let rows =
        String::from_utf8(folder.run("report runs/tiny runs/other --format md").stdout).unwrap();
    assert!(rows.contains("epochs (tiny)") && rows.contains("epochs (other)"), "{rows}");
    // The run can be moved, and does not need the plan's file.
    fs::remove_file(folder.0.join("plan.json")).unwrap();
    fs::rename(folder.0.join("runs"), folder.0.join("elsewhere")).unwrap();
    assert!(folder.run("eval elsewhere/tiny --device cpu").status.success());
    // The plan can also be read from a checkpoint.
    fs::remove_file(folder.0.join("elsewhere/tiny/given.json")).unwrap();
    let report = folder.run("report elsewhere/tiny --format md");
    assert!(
        String::from_utf8_lossy(&report.stdout).contains("strategy given plan, seed 0"),
        "{report:?}"
    );
}

#[test]
fn bad_recipes_are_refused_with_file_line_and_key_before_a_folder_is_made() {
    let folder = folder("bad-recipes");
    fs::write(folder.0.join("typo.toml"), "members = ['cnn-4']\n[train]\nepoch = 3\n").unwrap();
    fs::write(folder.0.join("type.toml"), "[train]\nepochs = 'ten'\n").unwrap();
    fs::write(folder.0.join("small.toml"), "members = ['wrn-10-1']\nbudget = 100\n").unwrap();
    let screens = [
        "train typo.toml",
        "train type.toml",
        "train small.toml",
        "train tiny.toml --set train.epochs",
        "train tiny.toml --set train.epoch=3",
        "train tiny.toml --set data.name=cifar-10 --validation 0",
        "train tiny.toml --set data.crop=random-resized --set data.padding=2",
        "train tiny.toml --set data.crop=random-resized --set data.min_crop_scale=0",
        "train tiny.toml --set rate=0.1",
        "train tiny.toml --set learning_rate=0.1",
        "train tiny.toml --set wd=1e-4",
        "train tiny.toml --set train.schedule=drops",
        "train tiny.toml --set members=resnet18",
        "train tiny.toml --validation 7990",
        "train tiny.toml --name a/b",
        "train tiny.toml --runs tiny.toml",
        "train tiny.toml --plan missing.json --set plan.block=4",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("train_bad_recipes", screens.join("\n"));
    assert!(!folder.0.join("runs").exists(), "nothing was begun");
}

#[test]
fn settings_without_an_effect_are_warnings() {
    let folder = folder("in-vain");
    let warned = |args: &str| {
        let output = folder.run(&format!("{args} --device cpu"));
        assert!(output.status.success(), "swn {args}: {output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        errors.lines().filter(|line| line.starts_with("warning: ")).collect::<Vec<_>>().join("\n")
    };
    let precision = "warning: train.precision = \"bf16\" is for GPUs; the CPU computes in f32";
    let milestones =
        "warning: --set train.milestones=[1]: train.milestones has no effect in this recipe";
    let train = "train tiny.toml --set train.epochs=2 --set train.precision=bf16 --set train.milestones=[1]";
    assert_eq!(warned(train), format!("{milestones}\n{precision}"));
    let tau = "warning: --set search.tau=0.5: search.tau has no effect in this recipe";
    assert_eq!(warned("sweep tiny.toml --set train.epochs=1,2 --set search.tau=0.5"), tau);
    assert_eq!(warned("train tiny.toml --set train.epochs=2"), "");
    assert_eq!(
        warned("train --from runs/tiny --set train.milestones=[1]"),
        format!("{milestones}\n{precision}")
    );
}

/// A pipe can be read once only: a second read would give an empty recipe, which means all
/// defaults.
#[cfg(unix)]
#[test]
fn a_recipe_may_come_through_a_pipe() {
    let folder = folder("pipe");
    let searched =
        RECIPE.replace("no-search", "swn").replace("100%", "60%") + "[search]\nepochs = 1\n";
    for (recipe, args) in [
        (RECIPE, "train /dev/stdin --name piped --set train.epochs=1 --device cpu"),
        (&searched, "search /dev/stdin --name searched --device cpu"),
        (RECIPE, "sweep /dev/stdin --name swept --set train.epochs=1,2 --device cpu"),
    ] {
        let mut swn = common::swn();
        swn.args(args.split_whitespace()).current_dir(&folder.0).env("SWN_DATA", "data");
        let mut child =
            swn.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(recipe.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "swn {args}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for run in ["piped", "searched", "swept/train.epochs-2"] {
        let recipe =
            fs::read_to_string(folder.0.join("runs").join(run).join("recipe.toml")).unwrap();
        assert!(recipe.starts_with("members = ['cnn-4-8', 'cnn-4']\n"), "{run}: {recipe}");
    }
}

/// Plan and tensors of a run's newest checkpoint, byte by byte.
fn state(run: &Path) -> Vec<Vec<u8>> {
    let latest = fs::read_to_string(run.join("checkpoints/latest")).unwrap();
    let checkpoint = run.join("checkpoints").join(latest.trim());
    let files = ["plan.json", "bank.safetensors", "members.safetensors", "optimizer.safetensors"];
    files.map(|file| fs::read(checkpoint.join(file)).unwrap()).to_vec()
}

#[test]
fn a_run_folder_has_recipe_log_checkpoints_and_result() {
    let folder = folder("train-run");
    let screen = folder.screen("train tiny.toml --set train.epochs=2 --threads 1");
    for part in [
        "[exit 0]",
        "run        runs/tiny",
        "members    cnn-4-8, cnn-4, ",
        "decayed    by 0.0005: ",
        "200 for training, 7,800 for validation, 2,000 for testing; 10 steps per epoch",
        "train 1/2  loss ",
        "train 2/2  loss ",
        "2,000 test images",
        "ensemble",
        "runs/tiny, checkpoint 2",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    let run = folder.0.join("runs/tiny");
    let recipe = fs::read_to_string(run.join("recipe.toml")).unwrap();
    assert_eq!(recipe, format!("{RECIPE}# --set train.epochs=2\n"));
    assert!(fs::read_to_string(run.join("resolved.toml")).unwrap().contains("epochs = 2"));
    let log = fs::read_to_string(run.join("log.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["start", "epoch", "epoch", "eval", "stop"]);
    assert_eq!(lines[0]["images"], serde_json::json!([200, 7800, 2000]));
    for key in ["loss", "train", "validation"] {
        assert!(!lines[1][key].is_null(), "{key} in {}", lines[1]);
    }
    assert_eq!(lines[3]["test"]["members"].as_array().unwrap().len(), 2);
    assert_eq!(lines[4]["reason"], "finished");

    // If the name is taken, a number is added, the run is refused, or the old run is replaced.
    // Threads do not change the result.
    let again = folder.json("train tiny.toml --set train.epochs=2 --threads 3 --json");
    assert_eq!((&again["run"], &again["stopped"]), (&"runs/tiny-2".into(), &"finished".into()));
    assert_eq!(again["test"], lines[3]["test"]);
    assert_eq!(state(&run), state(&folder.0.join("runs/tiny-2")));
    let refused = folder.screen("train tiny.toml --name tiny");
    assert!(
        refused.contains("runs/tiny is there already: resume it (--resume), choose another name"),
        "{refused}"
    );
    let replaced = folder.json("train tiny.toml --set train.epochs=1 --name tiny --replace --json");
    assert_eq!((&replaced["run"], &replaced["epoch"]), (&"runs/tiny".into(), &1.into()));
}

/// Resuming a finished run prints its outcome and changes no file.
#[test]
fn a_finished_run_is_not_trained_again() {
    let folder = folder("finished");
    let first = folder.json("train tiny.toml --set train.epochs=1 --device cpu --json");
    let log = || fs::read(folder.0.join("runs/tiny/log.jsonl")).unwrap();
    let before = log();
    let screen = folder.screen("train --resume runs/tiny");
    for part in [
        "[exit 0]",
        "finished   after epoch 1 of 1: there is nothing left to train\n",
        "2,000 test images",
        "next       swn eval runs/tiny",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    assert_eq!(folder.json("train --resume runs/tiny --json"), first);
    assert!(log() == before, "the log is as it was");
}

/// The next commands can be typed as this one was.
#[cfg(unix)]
#[test]
fn next_commands_begin_as_the_program_was_started() {
    use std::os::unix::process::CommandExt;
    let folder = folder("typed");
    assert!(folder.run("train tiny.toml --set train.epochs=1 --device cpu").status.success());
    let resumed =
        |command: &mut Command| String::from_utf8(command.output().unwrap().stdout).unwrap();
    let path = resumed(folder.command("train --resume runs/tiny").arg0("target/release/swn"));
    assert!(path.contains("next       target/release/swn eval runs/tiny"), "{path}");
    let cargo = resumed(folder.command("train --resume runs/tiny").env("CARGO", "cargo"));
    let words = if cfg!(debug_assertions) { "cargo run --" } else { "cargo run --release --" };
    assert!(cargo.contains(&format!("next       {words} eval runs/tiny")), "{cargo}");
}

#[test]
fn weight_averaging_is_printed_before_and_after() {
    let folder = folder("average");
    let screen =
        folder.screen("train tiny.toml --set train.epochs=3 --set train.swa_epochs=2 --threads 1");
    let [before, after] = [
        "averaging  the mean of the weights after each of the last 2 epochs is kept\n",
        "averaged   the weights of 2 epochs; the mean is kept and evaluated\n",
    ]
    .map(|line| screen.find(line).unwrap_or_else(|| panic!("{line}:\n{screen}")));
    let last = screen.find("train 3/3  loss ").unwrap();
    assert!(before < last && last < after, "{screen}");
    let refused = folder.screen("train tiny.toml --set train.swa_epochs=7");
    assert!(
        refused.contains("train.swa_epochs: 7 epochs of averaging in a training of 6"),
        "{refused}"
    );
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let each = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => BTreeMap::from([(path.clone(), fs::read(&path).unwrap())]),
    };
    entries.flat_map(each).collect()
}

/// A run of four epochs, stopped after two: `runs/start`, and the command that made it.
const START: &str = "train tiny.toml --name start --until 2 --set train.epochs=4 --set train.schedule=constant \
                     --set eval.validation_every=9 --set eval.test=false --threads 1";

#[test]
fn branches_of_a_run_are_equal_to_runs_of_their_recipes() {
    let folder = folder("branch");
    let path = |run: &str| folder.0.join("runs").join(run);
    let screen = folder.screen(START);
    for part in [
        "[exit 0]",
        "stopped    as requested by --until: checkpoint 2 (epoch 2 of train) is kept\n",
        "'swn train --from runs/start --set …' continues with other settings\n",
        "'swn train --resume runs/start' continues\n",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    let before = files(&path("start"));
    let end = "--set train.epochs=5 --set train.schedule=multistep --set train.milestones=[3] --set train.swa_epochs=2";
    let mut typed = BTreeMap::from([("start", vec![START.to_owned()])]);
    // The last one is a branch of a branch.
    for (from, name, set) in [
        ("start", "late", "--set train.schedule=multistep --set train.milestones=[2] --until 3"),
        ("start", "more", "--set train.epochs=6 --until 3"),
        ("more", "most", end),
    ] {
        let command = format!("train --from runs/{from} --name {name} {set} --threads 1");
        let screen = folder.screen(&command);
        assert!(
            screen.contains("[exit 0]") && screen.contains("\nresumed    from checkpoint "),
            "{screen}"
        );
        typed.insert(name, [&typed[from][..], &[command]].concat());
        let noted = fs::read_to_string(path(name).join("commands.jsonl")).unwrap();
        let noted: Vec<serde_json::Value> =
            noted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let noted: Vec<_> = noted.iter().map(|line| line["command"].as_str().unwrap()).collect();
        assert_eq!(noted, typed[name].iter().map(|args| format!("swn {args}")).collect::<Vec<_>>());
    }
    assert!(files(&path("start")) == before, "the run they come from stays as it is");
    let recipe = fs::read_to_string(path("most").join("recipe.toml")).unwrap();
    let places = ["start, epoch 2", "more, epoch 3"]
        .map(|at| recipe.find(&format!("# --from runs/{at} of train\n")));
    assert!(recipe.starts_with(RECIPE) && places[0].is_some() && places[0] < places[1], "{recipe}");
    let whole = START.replace("--name start --until 2", "--name whole");
    assert!(folder.run(&format!("{whole} {end}")).status.success());
    assert_eq!(state(&path("most")), state(&path("whole")));
    assert_ne!(state(&path("late")), state(&path("more")));
    let on = folder.json("train --resume runs/start --until 3 --json --device cpu");
    assert_eq!((&on["stopped"], &on["epoch"]), (&"until".into(), &3.into()), "{on}");
}

#[test]
fn impossible_branches_are_refused_and_change_no_run() {
    let folder = folder("bad-branches");
    assert!(folder.run(START).status.success());
    let begun = folder.0.join("runs/begun");
    fs::create_dir(&begun).unwrap();
    fs::copy(folder.0.join("runs/start/resolved.toml"), begun.join("resolved.toml")).unwrap();
    let before = files(&folder.0);
    let screens = [
        "train --from runs/begun",
        "train --from runs",
        "train --from runs/start --set train.weight_decay=0.1",
        "train --from runs/start --set train.epoch=9",
        "train --from runs/start --set train.schedule=multistep --set train.milestones=[1]",
        "train --from runs/start --set train.schedule=one-cycle",
        "train --from runs/start --set train.swa_epochs=3",
        "train --from runs/start --set train.epochs=1",
        "train --from runs/start --name begun",
        "train --from runs/start --name start --replace",
        "train --from runs/../runs/start --replace",
        "train --from runs/start --runs tiny.toml",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("train_bad_branches", screens.join("\n"));
    assert!(files(&folder.0) == before, "nothing was begun, nothing removed");
}

fn start(folder: &Folder, args: &str) -> Child {
    let mut command = common::swn();
    command.args(args.split_whitespace()).args(["--threads", "1"]).current_dir(&folder.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(folder: &Folder, args: &str) -> ExitStatus {
    start(folder, args).wait_with_output().unwrap().status
}

#[test]
fn a_run_killed_at_any_moment_gives_the_same_parameters() {
    survives_kills("kill", "", 20);
}

/// The same with search, refinement and weight averaging.
#[test]
fn a_search_killed_at_any_moment_gives_the_same_parameters() {
    let search = "--set strategy=swn --set members=cnn-4-8-8,cnn-4-8 --set budget=200% --set plan.clusters=single \
                  --set search.tau=-1 --set search.epochs=3 --set refine.epoch=2 --set train.epochs=4 --set train.swa_epochs=2";
    survives_kills("kill-search", search, 10);
}

/// Kills runs at random moments; after a run that was not killed, the next one begins.
fn survives_kills(name: &str, set: &str, most: usize) {
    let folder = folder(name);
    assert!(finish(&folder, &format!("train tiny.toml --name whole {set}")).success());
    let expected = state(&folder.0.join("runs/whole"));
    let (mut kills, mut runs, mut last) = (0, 0, 0);
    while kills < most || last != runs {
        let name = format!("run-{runs}");
        let path = folder.0.join("runs").join(&name);
        let args = match path.exists() {
            true => format!("train --resume runs/{name}"),
            false => format!("train tiny.toml --name {name} {set}"),
        };
        let mut child = start(&folder, &args);
        let patience = Duration::from_millis(random(700));
        let begin = Instant::now();
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if kills < most && begin.elapsed() >= patience => break None,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        match ended {
            Some(status) => {
                assert!(status.success(), "{name} after {kills} kills: {status}");
                assert_eq!(state(&path), expected, "{name} after {kills} kills");
                (runs, last) = (runs + 1, runs + 1);
            }
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                (kills, last) = (kills + 1, usize::MAX);
                if path.exists() {
                    // At any moment a reader finds a whole checkpoint.
                    if path.join("checkpoints/latest").exists() {
                        assert_eq!(state(&path).len(), 4);
                    }
                }
            }
        }
    }
    assert!(runs > 0);
}

fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % below
}

#[cfg(unix)]
#[test]
fn ctrl_c_finishes_the_step_and_prints_how_to_continue() {
    let folder = folder("interrupt");
    assert!(finish(&folder, "train tiny.toml --name whole").success());
    let child = start(&folder, "train tiny.toml --name stopped");
    let first = folder.0.join("runs/stopped/checkpoints/latest");
    while !first.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("stopped    interrupted: checkpoint "), "{text}");
    assert!(text.contains("'swn train --resume runs/stopped' continues"), "{text}");
    let resumed = start(&folder, "train --resume runs/stopped").wait_with_output().unwrap();
    assert!(resumed.status.success());
    let text = String::from_utf8(resumed.stdout).unwrap();
    assert!(text.contains("resumed    from checkpoint "), "{text}");
    assert_eq!(state(&folder.0.join("runs/stopped")), state(&folder.0.join("runs/whole")));
}

#[test]
fn a_time_limit_ends_a_run_cleanly_and_a_diverging_one_ends_with_advice() {
    let folder = folder("limits");
    let answer = folder.json("train tiny.toml --set train.epochs=5000 --time-limit 2s --json");
    assert_eq!(answer["stopped"], "time limit", "{answer}");
    assert!(answer["checkpoint"].as_u64().unwrap() >= 1 && answer["test"].is_null(), "{answer}");
    let screen = folder.screen("train --resume runs/tiny --time-limit 1s");
    assert!(
        screen.contains("s; with less time it does not start") && screen.contains("[exit 0]"),
        "{screen}"
    );
    let used = folder.screen("eval runs/tiny");
    assert!(
        used.contains("[exit 0]")
            && used.contains("warning: training has not finished: this is epoch "),
        "{used}"
    );
    assert!(used.contains(" of 5000; 'swn train --resume runs/tiny' continues it"), "{used}");
    folder.screen("train tiny.toml --name mean --set train.swa_epochs=2 --until 1");
    let used = folder.screen("eval runs/mean");
    assert!(
        used.contains(
            ", without the stochastic weight average that training ends with; 'swn train --resume"
        ),
        "{used}"
    );
    // A damaged log is reported before anything is trained.
    let log = folder.0.join("runs/tiny/log.jsonl");
    let lines = fs::read_to_string(&log).unwrap();
    fs::write(&log, lines.replacen("\"epoch\"", "epoch", 1)).unwrap();
    let screen = folder.screen("train --resume runs/tiny");
    assert!(screen.contains("[exit 1]") && screen.contains("log.jsonl at byte"), "{screen}");
    fs::write(&log, lines).unwrap();
    // A truncated recipe is refused, not completed with defaults.
    let resolved = folder.0.join("runs/tiny/resolved.toml");
    let text = fs::read_to_string(&resolved).unwrap();
    fs::write(&resolved, &text[..text.find("[train]").unwrap()]).unwrap();
    let screen = folder.screen("train --resume runs/tiny");
    assert!(
        screen.contains("[exit 1]")
            && screen.contains("resolved.toml: the table [train] is missing"),
        "{screen}"
    );
    let screen = folder
        .screen("train tiny.toml --name wild --set train.lr=1000 --set train.schedule=constant");
    assert!(
        screen.contains("[exit 1]") && screen.contains("error: training has diverged: "),
        "{screen}"
    );
    assert!(screen.contains("try a lower learning rate"), "{screen}");
}
