//! `swn search` and `swn sweep`: help and errors are pinned, searches are replayed, sweeps
//! continued.

#[macro_use]
mod common;

use std::fs;

use common::Folder;

/// Ten steps per epoch on the images that come with the program.
const RECIPE: &str = "\
members = ['cnn-4-8-8', 'cnn-4-8']
budget = '80%'
[data]
name = 'fashion-mnist-10k'
validation = 7800
[plan]
clusters = 'single'
tiling = 'grid'
block = 4
share_classifier = false
[search]
epochs = 1
min_templates = 2
[refine]
epoch = 1
[train]
epochs = 2
batch_size = 20
schedule = 'one-cycle'
";

fn folder(name: &str) -> Folder {
    Folder::with_recipe(name, RECIPE)
}

pinned! {
    search_help:
        "search --help",
        "sweep --help";
    search_bad_flags:
        "search",
        "search missing.toml",
        "search --tau 0.3",
        "search tiny.toml --tau 0.3",
        "search --replay missing",
        "search --replay . --tau 0.3",
        "sweep missing.toml",
        "sweep missing.toml --set search.tau",
        "sweep missing.toml --set seed=1 --set seed=2",
        "sweep missing.toml --set seed=1,1";
}

#[test]
fn recipes_without_a_search_are_refused_before_anything_is_trained() {
    let folder = folder("search-refused");
    let screens = [
        "search tiny.toml --set strategy=no-search",
        "search tiny.toml --out missing/plan.json",
        "sweep tiny.toml --set search.tau=0,2",
        "sweep tiny.toml --set search.tao=0,1",
    ];
    let screens: Vec<_> = screens.iter().map(|args| folder.screen(args)).collect();
    insta::assert_snapshot!("search_refused", screens.join("\n"));
    assert!(!folder.0.join("runs").exists());
}

#[test]
fn a_search_is_printed_written_replayed_and_trained_on() {
    let folder = folder("search-replay");
    let found = folder.json("search tiny.toml --out plan.json --json");
    assert_eq!(found["threshold"]["requested"], 0.1);
    let plan = fs::read_to_string(folder.0.join("plan.json")).unwrap();
    assert!(folder.screen("plan --show plan.json").contains("[exit 0]"));

    // The same threshold gives the same plan, byte for byte; another threshold gives another plan.
    let again = folder.json("search --replay runs/tiny --tau 0.1 --out again.json --json");
    assert_eq!(again["clusters"], found["clusters"]);
    assert_eq!(fs::read_to_string(folder.0.join("again.json")).unwrap(), plan);
    let coarse = folder.json("search --replay runs/tiny --tau -1 --json");
    assert_eq!(coarse["clusters"].as_array().unwrap().len(), 1, "all pairs are above −1");
    let early = folder.screen("search --replay runs/tiny --beta 0.5");
    assert!(early.contains("there are no statistics of a refinement"), "{early}");

    let untrained = folder.screen("eval runs/tiny");
    assert!(
        untrained.contains("warning: training has not begun: this is a checkpoint of the search"),
        "{untrained}"
    );

    let trained = folder.json("train --resume runs/tiny --json");
    assert_eq!((&trained["stopped"], &trained["epoch"]), (&"finished".into(), &2.into()));
    assert!(!folder.screen("eval runs/tiny").contains("warning"));
    let over = folder.screen("search --resume runs/tiny");
    assert!(over.contains("there is no search left to do"), "{over}");
}

#[test]
fn a_search_that_leaves_nothing_shared_prints_a_hint() {
    let folder = folder("alone");
    let screen = |tau: &str| {
        folder
            .screen(&format!("search tiny.toml --set search.tau={tau} --set budget=95% --replace"))
    };
    let hint = "no two layers share; a smaller search.tau keeps more of them together";
    let (parted, kept) = (screen("1"), screen("-1"));
    assert!(parted.contains("clusters of 1 1 1 layers") && parted.contains(hint), "{parted}");
    assert!(kept.contains("clusters of 3 layers") && !kept.contains(hint), "{kept}");
}

#[test]
fn a_sweep_trains_each_combination_once() {
    let folder = folder("sweep");
    let args = "sweep tiny.toml --set search.tau=-1,0.1 --set train.epochs=1 --json";
    let rows = folder.json(args);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["state"] == "finished" && row["test"].is_number()));
    assert_eq!((&rows[0]["clusters"], &rows[0]["set"]["search.tau"]), (&1.into(), &"-1".into()));

    // One run is finished and one is new: the table has both, and the first is not trained again.
    let log = folder.0.join("runs/tiny-sweep/search.tau--1/log.jsonl");
    let before = fs::read_to_string(&log).unwrap();
    fs::remove_dir_all(folder.0.join("runs/tiny-sweep/search.tau-0.1")).unwrap();
    let screen = String::from_utf8(folder.run(&args.replace(" --json", "")).stdout).unwrap();
    assert!(screen.contains("1/2  search.tau=-1: finished already"), "{screen}");
    assert!(screen.contains("  search.tau=0.1 "), "{screen}");
    assert_eq!(fs::read_to_string(&log).unwrap(), before);
    let again = folder.json(args);
    assert_eq!(again[1]["test"], rows[1]["test"], "the same run gives the same accuracy");

    let other = folder.screen("sweep tiny.toml --set search.tau=-1,0.1 --set train.epochs=2");
    assert!(
        other.contains("has a run of another recipe: remove it, or choose another --name"),
        "{other}"
    );
}

/// Each run is equal to that of 'swn train --from', and impossible ones are refused before the
/// first is trained.
#[test]
fn a_sweep_can_branch_off_a_run() {
    let folder = folder("ends");
    let start = "train tiny.toml --set train.epochs=4 --set train.schedule=constant --until 2 --name start --device cpu";
    assert!(folder.run(start).status.success());
    let rows = folder.json("sweep --from runs/start --set train.swa_epochs=0,2 --json");
    assert!(rows.as_array().unwrap().iter().all(|row| row["state"] == "finished"), "{rows}");
    assert!(
        folder
            .run("train --from runs/start --name one --set train.swa_epochs=2 --device cpu")
            .status
            .success()
    );
    let log = |run: &str| fs::read_to_string(folder.0.join(run).join("commands.jsonl")).unwrap();
    let bank = |run: &str| {
        let run = folder.0.join(run).join("checkpoints");
        let newest = fs::read_to_string(run.join("latest")).unwrap();
        fs::read(run.join(newest.trim()).join("bank.safetensors")).unwrap()
    };
    assert!(bank("runs/start-sweep/train.swa_epochs-2") == bank("runs/one"));
    assert!(bank("runs/start-sweep/train.swa_epochs-0") != bank("runs/one"));
    assert_eq!(
        log("runs/start-sweep/train.swa_epochs-0").lines().count(),
        2,
        "its beginning's, and its own"
    );
    let again = folder.screen("sweep --from runs/start --set train.swa_epochs=0,2");
    assert!(again.contains("2/2  train.swa_epochs=2: finished already"), "{again}");

    let refused = folder.screen("sweep --from runs/start --set train.swa_epochs=0,3 --name late");
    assert!(
        refused.contains(
            "--from: train.swa_epochs=3: runs/start cannot be continued with these settings: "
        ),
        "{refused}"
    );
    assert!(
        !folder.0.join("runs/late").exists(),
        "nothing is trained before all are known to be possible"
    );
    let refused = folder.screen("sweep --from runs/none --set train.swa_epochs=0,2");
    assert!(refused.contains("error: --from: cannot open runs/none"), "{refused}");
}
