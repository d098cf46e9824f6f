//! Runs that go on as others: what comes out is what their recipes make from the beginning.

use std::fs;
use std::path::{Path, PathBuf};

use superweight_engine::CpuDevice;

use super::testing::{create, data, device, newest_checkpoint, resume, run_path, tiny, unbroken};
use super::{Branch, Limits, Session, Stopped, TrainError};
use crate::data::testing::Folder;
use crate::run::{Disk, Event, Existing, load_checkpoint, read_log};

/// A run of `tiny` that stops after two of its four epochs.
fn start(folder: &Folder, set: &[&str]) -> PathBuf {
    let limits = Limits { until: Some(2), ..Limits::default() };
    let outcome =
        create(Disk::default(), &folder.0, &tiny(set)).unwrap().run(&limits, &mut ()).unwrap();
    assert_eq!((outcome.stopped, outcome.position.epoch), (Stopped::Until, 2));
    run_path(&folder.0)
}

fn branch(from: &Path, set: &[&str]) -> Result<Session<CpuDevice>, TrainError> {
    branch_on(Disk::default(), from, set)
}

fn branch_on(disk: Disk, from: &Path, set: &[&str]) -> Result<Session<CpuDevice>, TrainError> {
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    let runs = from.parent().unwrap();
    let branch = Branch { from, set: &set, runs, existing: Existing::NextName };
    let mut way = branch.way()?;
    // These images are of no set that has a name: what a folder says of them is put right.
    let data = data();
    for resolved in [&mut way.old, &mut way.new] {
        (resolved.data.shape, resolved.data.classes) = (data.shape, data.classes.len());
    }
    Session::branch_off(disk, &device(), branch, way, data)
}

#[test]
fn a_branch_is_the_run_of_its_recipe() {
    let milestones = ["train.schedule=multistep", "train.milestones=[2, 3]"];
    let average = ["train.swa_epochs=1"];
    let longer = [
        "train.epochs=6",
        "train.schedule=multistep",
        "train.milestones=[5]",
        "train.swa_epochs=3",
    ];
    for end in
        [&milestones[..], &average, &longer, &[], &["eval.validation_every=3", "train.epochs=2"]]
    {
        let (parts, whole) = (Folder::new("branch"), Folder::new("whole"));
        let from = start(&parts, &[]);
        let before = newest_checkpoint(&from);
        let mut session = branch(&from, end).unwrap();
        assert_eq!(session.folder(), parts.0.join("tiny-2"));
        assert_eq!(session.run(&Limits::default(), &mut ()).unwrap().stopped, Stopped::Finished);
        drop(session);
        unbroken(&whole.0, &tiny(end));
        assert_eq!(
            newest_checkpoint(&parts.0.join("tiny-2")),
            newest_checkpoint(&run_path(&whole.0)),
            "{end:?}"
        );
        assert_eq!(newest_checkpoint(&from), before, "the original run stays unchanged");
        let epochs = |run: &Path| -> Vec<_> {
            let lines = read_log(&run.join("log.jsonl")).unwrap();
            let loss = |event: &Event| match event {
                Event::Epoch(done) => Some((done.epoch, done.loss)),
                _ => None,
            };
            lines.iter().filter_map(|line| loss(&line.event)).collect()
        };
        assert_eq!(
            epochs(&parts.0.join("tiny-2")),
            epochs(&run_path(&whole.0)),
            "its log starts with the common epochs"
        );
        let recipe = fs::read_to_string(parts.0.join("tiny-2/recipe.toml")).unwrap();
        assert!(recipe.contains("tiny, epoch 2 of train\n"), "{recipe}");
        assert!(end.iter().all(|set| recipe.contains(&format!("# --set {set}\n"))), "{recipe}");
    }
}

/// A branch after a search keeps the decisions and statistics of the search.
#[test]
fn a_branch_keeps_the_statistics_of_the_search() {
    let set = ["strategy=swn", "search.epochs=1", "search.min_templates=1", "refine.epoch=1"];
    let end = ["train.schedule=multistep", "train.milestones=[3]"];
    let (parts, whole) = (Folder::new("branch-search"), Folder::new("whole-search"));
    let from = start(&parts, &set);
    branch(&from, &end).unwrap().run(&Limits::default(), &mut ()).unwrap();
    unbroken(&whole.0, &tiny(&[&set[..], &end].concat()));
    let run = parts.0.join("tiny-2");
    assert_eq!(newest_checkpoint(&run), newest_checkpoint(&run_path(&whole.0)));
    let seen = |run: &Path| fs::read(run.join("statistics.safetensors")).unwrap();
    assert_eq!(seen(&run), seen(&run_path(&whole.0)));
}

#[test]
fn settings_that_took_effect_already_are_refused() {
    let folder = Folder::new("refused");
    let from = start(&folder, &["train.schedule=multistep", "train.milestones=[1]"]);
    for (set, why) in [
        (
            "train.weight_decay=0.1",
            "train.weight_decay is 0.0005 in that run, and would be 0.1, but the epochs that are complete depend on it",
        ),
        ("strategy=swn", "strategy is \"no-search\" in that run, and would be \"swn\""),
        ("seed=3", "seed is 0 in that run, and would be 3"),
        ("data.cutout=1", "data.cutout is 2 in that run, and would be 1"),
        (
            "data.crop=random-resized",
            "data.crop is \"pad\" in that run, and would be \"random-resized\"",
        ),
        ("train.lr=0.2", "epoch 1 of 2 complete epochs had lr 0.1, and would have 0.2"),
        ("train.milestones=[2]", "epoch 2 of 2 complete epochs had lr 0.02, and would have 0.1"),
        ("train.schedule=constant", "epoch 2 of 2 complete epochs had lr 0.02, and would have 0.1"),
        (
            "train.swa_epochs=3",
            "with train.swa_epochs = 3 of 4 epochs the average would hold 1 of the 2 complete epochs, but it holds 0",
        ),
    ] {
        let error = branch(&from, &[set]).unwrap_err();
        assert!(matches!(error, TrainError::Branch { .. }), "{set}: {error}");
        assert!(error.to_string().contains(why), "{set}: {error}");
    }
    let shorter = ["train.schedule=constant", "train.epochs=1"];
    let error = branch(&from, &shorter).unwrap_err().to_string();
    assert!(error.ends_with("train.epochs would be 1, but 2 epochs are complete"), "{error}");
    let left: Vec<_> =
        fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tiny"], "a refused branch creates nothing");
}

/// A branch can extend a weight average that is not finished, and none that is.
#[test]
fn branches_of_averaged_runs() {
    let folder = Folder::new("means");
    let from = start(&folder, &["train.swa_epochs=3"]);
    let whole = Folder::new("means-whole");
    branch(&from, &["train.epochs=5", "train.swa_epochs=4"])
        .unwrap()
        .run(&Limits::default(), &mut ())
        .unwrap();
    unbroken(&whole.0, &tiny(&["train.epochs=5", "train.swa_epochs=4"]));
    assert_eq!(newest_checkpoint(&folder.0.join("tiny-2")), newest_checkpoint(&run_path(&whole.0)));
    let error = branch(&from, &["train.swa_epochs=0"]).unwrap_err().to_string();
    assert!(
        error.contains("the average would hold 0 of the 2 complete epochs, but it holds 1"),
        "{error}"
    );
    assert!(
        error.ends_with(
            ": train.swa_epochs = 3 fits; other values need a branch from before epoch 2"
        ),
        "{error}"
    );
    // A mean that would have been made already.
    let error = branch(&from, &["train.epochs=2", "train.swa_epochs=1"]).unwrap_err().to_string();
    assert!(
        error.contains("all train.epochs = 2 epochs are complete, and averaging happens"),
        "{error}"
    );
    let finished = Folder::new("means-finished");
    unbroken(&finished.0, &tiny(&["train.swa_epochs=2"]));
    let error = branch(&run_path(&finished.0), &["train.epochs=8"]).unwrap_err().to_string();
    assert!(error.contains("averaged parameters are not trained further"), "{error}");
}

/// A failure while the folder is created leaves no run, a run at its start, or the branch.
#[test]
fn a_crash_leaves_a_run_of_the_recipe_or_none() {
    let whole = Folder::new("crash-whole");
    let end = ["train.schedule=multistep", "train.milestones=[3]"];
    unbroken(&whole.0, &tiny(&end));
    let expected = newest_checkpoint(&run_path(&whole.0)).1;
    let folder = Folder::new("crash-branch");
    let (from, run) = (start(&folder, &[]), folder.0.join("tiny-2"));
    let (mut crashes, mut kinds) = (0, vec![]);
    for operation in 0.. {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let disk = Disk::with_hook(move |_| {
            match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= operation {
                true => Err(std::io::Error::other("power cut")),
                false => Ok(()),
            }
        });
        if branch_on(disk, &from, &end).is_ok() {
            break;
        }
        crashes += 1;
        if run.exists() {
            let begun = load_checkpoint(&run).unwrap().is_some();
            if !kinds.contains(&begun) {
                kinds.push(begun);
                let mut session = resume(Disk::default(), &run, &tiny(&end)).unwrap();
                session.run(&Limits::default(), &mut ()).unwrap();
                assert_eq!(newest_checkpoint(&run).1, expected, "crash at operation {operation}");
            }
            fs::remove_dir_all(&run).unwrap();
        }
    }
    assert!(crashes > 10 && kinds == [false, true], "{crashes} {kinds:?}");
}
