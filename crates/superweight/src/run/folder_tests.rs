//! Creating, replacing and resuming the folder of a run.

use super::*;
use crate::data::testing::Folder;
use crate::run::{Checkpoint, Event, StopEvent, WarningEvent, read_log};

fn create(runs: &Path, name: &str, existing: Existing) -> Result<RunFolder, RunError> {
    RunFolder::create(runs, name, existing, "# as typed\nseed = 7", "seed = 7\nepochs = 10\n")
}

fn names(runs: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(runs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_run_has_its_recipe_and_the_next_free_name() {
    let folder = Folder::new("runs");
    let runs = folder.0.join("not/yet/there");
    let first = create(&runs, "demo", Existing::NextName).unwrap();
    let second = create(&runs, "demo", Existing::NextName).unwrap();
    let third = create(&runs, "demo", Existing::NextName).unwrap();
    assert_eq!(names(&runs), ["demo", "demo-2", "demo-3"]);
    assert_eq!((first.path(), third.path()), (&*runs.join("demo"), &*runs.join("demo-3")));
    assert_eq!(second.recipe().unwrap(), "# as typed\nseed = 7");
    assert_eq!(second.resolved().unwrap(), "seed = 7\nepochs = 10\n");
}

#[test]
fn an_existing_run_is_replaced_only_on_request() {
    let folder = Folder::new("runs");
    let first = create(&folder.0, "demo", Existing::Refuse).unwrap();
    fs::write(first.path().join("old"), "").unwrap();
    let refused = create(&folder.0, "demo", Existing::Refuse).unwrap_err();
    assert!(refused.to_string().ends_with("or replace it (--replace)"), "{refused}");
    // A run in use is not replaced.
    let in_use = create(&folder.0, "demo", Existing::Replace).unwrap_err();
    assert!(
        matches!(in_use, RunError::InUse { process: Some(id), .. } if id == std::process::id()),
        "{in_use}"
    );
    assert!(first.path().join("old").exists());
    drop(first);
    let second = create(&folder.0, "demo", Existing::Replace).unwrap();
    assert!(!second.path().join("old").exists() && names(&folder.0) == ["demo"]);
    // Replacing a link to a run removes the link only.
    drop(second);
    let elsewhere = Folder::new("elsewhere");
    fs::rename(folder.0.join("demo"), elsewhere.0.join("kept")).unwrap();
    fs::write(elsewhere.0.join("kept/old"), "").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(elsewhere.0.join("kept"), folder.0.join("demo")).unwrap();
    let third = create(&folder.0, "demo", Existing::Replace).unwrap();
    assert!(elsewhere.0.join("kept/old").exists() && !third.path().join("old").exists());
    assert!(!third.path().is_symlink() && names(&folder.0) == ["demo"]);
    // Folders and files that are not runs stay; an empty folder counts as free.
    fs::create_dir(folder.0.join("thesis")).unwrap();
    fs::write(folder.0.join("thesis/chapter"), "").unwrap();
    fs::write(folder.0.join("letter"), "").unwrap();
    fs::create_dir(folder.0.join("empty")).unwrap();
    let thesis = create(&folder.0, "thesis", Existing::Replace).unwrap_err();
    assert!(matches!(thesis, RunError::NotARun { .. }), "{thesis}");
    assert!(create(&folder.0, "letter", Existing::Replace).is_err());
    assert!(create(&folder.0, "empty", Existing::Replace).is_ok());
    assert!(create(&folder.0, "letter", Existing::NextName).unwrap().path().ends_with("letter-2"));
    assert_eq!(names(&folder.0), ["demo", "empty", "letter", "letter-2", "thesis"]);
}

/// The rule itself is tested with [`check_name`].
#[test]
fn names_that_are_not_one_folder_everywhere_are_refused() {
    let folder = Folder::new("runs");
    for name in ["", "..", ".hidden", "-rf", "a/b", "c:", "größer (2)", &"x".repeat(101)] {
        let error = create(&folder.0, name, Existing::NextName).unwrap_err();
        assert!(matches!(&error, RunError::BadName { .. }), "{error}");
        assert!(
            error.to_string().starts_with(&format!("'{name}' cannot name a run: it ")),
            "{error}"
        );
    }
    assert_eq!(names(&folder.0), [""; 0]);
}

#[test]
fn runs_created_at_once_get_one_name_each() {
    let folder = Folder::new("runs");
    std::thread::scope(|scope| {
        (0..8).for_each(|_| {
            scope.spawn(|| create(&folder.0, "demo", Existing::NextName).unwrap());
        });
    });
    let expected = ["demo", "demo-2", "demo-3", "demo-4", "demo-5", "demo-6", "demo-7", "demo-8"];
    assert_eq!(names(&folder.0), expected);
}

#[test]
fn one_process_writes_at_a_time_and_a_dead_process_holds_no_lock() {
    let folder = Folder::new("runs");
    let run = create(&folder.0, "demo", Existing::Refuse).unwrap();
    let path = run.path().to_owned();
    let refused = RunFolder::resume(&path).unwrap_err().to_string();
    let expected = format!("is in use by process {}: stop that process first", std::process::id());
    assert!(refused.contains(&expected), "{refused}");
    drop(run);
    assert_eq!(fs::read_to_string(path.join("lock")).unwrap(), "");
    // A killed process leaves its number, which another process may have by now.
    fs::write(path.join("lock"), format!("{}\n", std::process::id())).unwrap();
    assert!(RunFolder::resume(&path).is_ok());
    let none = RunFolder::resume(&folder.0.join("none")).unwrap_err();
    assert!(
        matches!(&none, RunError::Io { source, .. } if source.kind() == ErrorKind::NotFound),
        "{none}"
    );
    assert!(matches!(RunFolder::resume(&folder.0), Err(RunError::NotARun { .. })));
    assert!(matches!(load_checkpoint(&folder.0), Err(RunError::NotARun { .. })));
}

#[test]
fn resuming_brings_back_the_checkpoint_and_cuts_the_log() {
    let folder = Folder::new("runs");
    let run = create(&folder.0, "demo", Existing::Refuse).unwrap();
    let path = run.path().to_owned();
    let mut log = run.log().unwrap();
    log.add(Event::Warning(WarningEvent { warning: "hot".to_owned() })).unwrap();
    let mut checkpoint = Checkpoint::default();
    checkpoint.state.log_bytes = log.position().unwrap();
    checkpoint.state.training =
        serde_json::json!({ "epoch": 1, "loss": 0.1 + 0.2, "tiny": 5e-324 });
    run.checkpoints().save(1, &checkpoint).unwrap();
    let reason = "interrupted".to_owned();
    log.add(Event::Stop(StopEvent { reason, checkpoint: Some(1), what: None })).unwrap();
    assert_eq!(load_checkpoint(&path).unwrap().unwrap().checkpoint, checkpoint);
    drop((run, log));
    let resumed = RunFolder::resume(&path).unwrap();
    assert_eq!(
        read_log(&path.join("log.jsonl")).unwrap().len(),
        2,
        "the log is cut only when the run continues"
    );
    let (_log, cut) = resumed.open_log().unwrap();
    let loaded = resumed.loaded.unwrap();
    assert_eq!(
        (loaded.stamp.number, &loaded.checkpoint, loaded.warnings.len()),
        (1, &checkpoint, 0)
    );
    assert!(cut.removed > 0 && cut.missing == 0);
    assert_eq!(read_log(&path.join("log.jsonl")).unwrap().len(), 1);
}

/// Wherever creating a run stops, the run exists with its recipe or not at all, and the next
/// attempt removes the leftovers.
#[test]
fn a_crash_while_creating_or_replacing_a_run_leaves_a_run_or_nothing() {
    for existing in [Existing::NextName, Existing::Replace] {
        let mut done = false;
        for stop in 0.. {
            let folder = Folder::new("runs");
            if existing == Existing::Replace {
                create(&folder.0, "demo", existing).unwrap();
            }
            let count = AtomicUsize::new(0);
            let disk =
                Disk::with_hook(move |_| match count.fetch_add(1, Ordering::Relaxed) < stop {
                    true => Ok(()),
                    false => Err(std::io::Error::other("crash")),
                });
            done = RunFolder::create_on(
                disk,
                &folder.0,
                "demo",
                existing,
                &[("recipe.toml", "a"), ("resolved.toml", "b")],
            )
            .is_ok();
            for name in names(&folder.0).iter().filter(|name| !name.starts_with('.')) {
                let run = RunFolder::resume(&folder.0.join(name)).unwrap().folder;
                assert!(!run.recipe().unwrap().is_empty() && !run.resolved().unwrap().is_empty());
            }
            let again = create(&folder.0, "demo", Existing::Replace).unwrap();
            assert!(again.path().ends_with("demo"));
            if done {
                assert_eq!(names(&folder.0), ["demo"]);
                break;
            }
            assert!(stop < 40, "creating a run ends");
        }
        assert!(done);
    }
}
