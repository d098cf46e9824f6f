//! A crash between any two disk operations of a run, then a resume, gives the same bits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::testing::{create, newest_checkpoint, resume, run_path, tiny, unbroken};
use super::{Limits, Stopped, TrainError};
use crate::data::testing::{Folder, Tmpfs};
use crate::run::{Disk, Warning, load_checkpoint};

/// A disk on which every operation from number `stop` on fails, and a counter of operations.
pub(super) fn dying(stop: usize) -> (Disk, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let disk = Disk::with_hook(move |_| match seen.fetch_add(1, Ordering::Relaxed) {
        n if n >= stop => Err(io::Error::other("crash")),
        _ => Ok(()),
    });
    (disk, count)
}

#[test]
fn a_crash_between_any_two_operations_of_a_run_changes_nothing() {
    let resolved = tiny(&[
        "train.epochs=3",
        "train.swa_epochs=2",
        "members=['cnn-4-8']",
        "budget='100%'",
        "data.validation=0",
    ]);
    let whole = Folder::new("whole");
    let (disk, count) = dying(usize::MAX);
    create(disk, &whole.0, &resolved).unwrap().run(&Limits::default(), &mut ()).unwrap();
    let (operations, expected) =
        (count.load(Ordering::Relaxed), newest_checkpoint(&run_path(&whole.0)));
    // Three checkpoints of six files, the second of seven, each made, written and synced, renamed,
    // named, the old one removed.
    assert!(operations > 100, "{operations}");
    let mut resumed = 0;
    for stop in 0..operations {
        let folder = Folder::new("crash");
        let run = run_path(&folder.0);
        let (disk, _) = dying(stop);
        let crashed = create(disk, &folder.0, &resolved)
            .and_then(|mut session| session.run(&Limits::default(), &mut ()).map(|_| ()));
        assert!(matches!(crashed, Err(TrainError::Run(_))), "before operation {stop}: {crashed:?}");
        let mut session = match run.exists() {
            true => {
                // A reader finds nothing yet or something whole, never half of it.
                let seen = load_checkpoint(&run).unwrap_or_else(|error| panic!("{stop}: {error}"));
                let warnings = seen.map_or(vec![], |loaded| loaded.warnings);
                assert!(
                    !warnings.iter().any(|w| matches!(w, Warning::Damaged { .. })),
                    "{stop}: {warnings:?}"
                );
                resumed += 1;
                resume(Disk::default(), &run, &resolved).unwrap()
            }
            // The crash came before the run had its name.
            false => create(Disk::default(), &folder.0, &resolved).unwrap(),
        };
        assert_eq!(session.run(&Limits::default(), &mut ()).unwrap().stopped, Stopped::Finished);
        assert_eq!(
            newest_checkpoint(&run),
            expected,
            "crash before operation {stop} of {operations}"
        );
    }
    assert!(resumed > operations / 2);
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file_and_loses_nothing() {
    let folder = Folder::new("full");
    let Some(small) = Tmpfs::mount(&folder.0.join("small"), "size=4m") else {
        eprintln!("no tmpfs can be mounted here: a full disk is not tried");
        return;
    };
    let resolved = tiny(&["train.epochs=2"]);
    let mut session = create(Disk::default(), &small.0, &resolved).unwrap();
    std::fs::write(small.0.join("ballast"), vec![0; 3900 << 10]).unwrap();
    let error = session.run(&Limits::default(), &mut ()).unwrap_err().to_string();
    assert!(error.starts_with("cannot write ") && error.contains("No space left"), "{error}");
    drop(session);
    std::fs::remove_file(small.0.join("ballast")).unwrap();
    let run = run_path(&small.0);
    let outcome =
        resume(Disk::default(), &run, &resolved).unwrap().run(&Limits::default(), &mut ()).unwrap();
    assert_eq!(outcome.stopped, Stopped::Finished);
    let whole = Folder::new("whole");
    unbroken(&whole.0, &resolved);
    assert_eq!(newest_checkpoint(&run), newest_checkpoint(&run_path(&whole.0)));
}

#[test]
fn a_read_only_folder_is_an_error_before_anything_is_trained() {
    let folder = Folder::new("read-only");
    let Some(disk) = Tmpfs::mount(&folder.0.join("disk"), "size=1m") else {
        eprintln!("no tmpfs can be mounted here: a read-only disk is not tried");
        return;
    };
    disk.make_read_only();
    let error = create(Disk::default(), &disk.0, &tiny(&[])).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot create ") && error.contains("Read-only file system"),
        "{error}"
    );
}
