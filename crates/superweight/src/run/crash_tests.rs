//! Saving a checkpoint that ends early, by a crash, a power cut, a kill or a full disk: a reader
//! finds the old checkpoint or the new one, whole, and the next writer continues.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::checkpoint::Contents;
use super::testing::{SIZE, check, names, quick_folder, random, sample, saved};
use super::{
    Checkpoint, Checkpoints, Disk, Event, Existing, Operation, ResumeEvent, RunError, RunFolder,
    load_checkpoint, read_log,
};
use crate::data::testing::{Folder, Tmpfs};

/// Changes of the disk that a power cut may undo.
#[derive(Default)]
struct Unsynced {
    /// Files whose bytes are not flushed.
    bytes: BTreeSet<PathBuf>,
    /// Files whose folder is not flushed, so that their names may be lost.
    names: BTreeSet<PathBuf>,
    /// Renames that may be undone, with the file that they replaced.
    renames: Vec<(PathBuf, PathBuf, Option<Vec<u8>>)>,
}

impl Unsynced {
    fn note(&mut self, operation: Operation<'_>) {
        match operation {
            Operation::CreateFile(path) => {
                self.bytes.insert(path.to_owned());
                self.names.insert(path.to_owned());
            }
            Operation::Write(path, _) => {
                self.bytes.insert(path.to_owned());
            }
            Operation::SyncFile(path) => {
                self.bytes.remove(path);
            }
            Operation::SyncFolder(path) => {
                self.names.retain(|name| name.parent() != Some(path));
                self.renames.retain(|(_, to, _)| to.parent() != Some(path));
            }
            Operation::Rename(from, to) => {
                let moved = |paths: &BTreeSet<PathBuf>| {
                    let moved = |path: &PathBuf| match path.strip_prefix(from) {
                        Ok(rest) if rest == Path::new("") => to.to_owned(),
                        Ok(rest) => to.join(rest),
                        Err(_) => path.clone(),
                    };
                    paths.iter().map(moved).collect()
                };
                (self.bytes, self.names) = (moved(&self.bytes), moved(&self.names));
                // A rename is one step: the moved name is lost together with it.
                self.names.remove(to);
                self.renames.push((from.to_owned(), to.to_owned(), fs::read(to).ok()));
            }
            Operation::CreateFolder(_) | Operation::RemoveFile(_) | Operation::RemoveFolder(_) => {}
        }
    }

    /// Undoes those changes for which `lost` returns true.
    fn cut_power(self, mut lost: impl FnMut() -> bool) {
        for path in self.bytes.iter().filter(|_| lost()) {
            if let Ok(bytes) = fs::read(path) {
                fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
            }
        }
        for path in self.names.iter().filter(|_| lost()) {
            let _ = fs::remove_file(path);
        }
        for (from, to, before) in self.renames.iter().rev().filter(|_| lost()) {
            if fs::rename(to, from).is_ok()
                && let Some(before) = before
            {
                fs::write(to, before).unwrap();
            }
        }
    }
}

fn on(disk: Disk, checkpoints: &Checkpoints) -> Checkpoints {
    Checkpoints::new(checkpoints.path().to_owned(), disk)
}

/// Stops a save before operation number `stop`. Returns its result and what a power cut may undo.
fn save_and_stop(
    checkpoints: &Checkpoints,
    number: u64,
    stop: usize,
) -> (Result<(), RunError>, Unsynced) {
    let state = Arc::new(Mutex::new((0, Unsynced::default())));
    let seen = state.clone();
    let disk = Disk::with_hook(move |operation| {
        let (count, unsynced) = &mut *seen.lock().unwrap();
        if *count == stop {
            return Err(io::Error::other("crash"));
        }
        *count += 1;
        unsynced.note(operation);
        Ok(())
    });
    let done = on(disk, checkpoints).save(number, &sample(number, SIZE));
    let unsynced = std::mem::take(&mut state.lock().unwrap().1);
    (done, unsynced)
}

/// The state before a save that crashes, the number of that save, and the newest checkpoint before
/// it.
struct Scene {
    name: &'static str,
    before: fn() -> (Folder, Checkpoints),
    number: u64,
    old: Option<u64>,
}

const SCENES: [Scene; 5] = [
    Scene { name: "the first", before: || saved([]), number: 1, old: None },
    Scene { name: "the second", before: || saved([1]), number: 2, old: Some(1) },
    Scene { name: "the third", before: || saved([1, 2]), number: 3, old: Some(2) },
    Scene {
        name: "after a crash before `latest`, with leftovers",
        before: || {
            let (folder, checkpoints) = saved([1, 2, 3]);
            fs::write(checkpoints.path().join("latest"), "0002\n").unwrap();
            fs::create_dir(checkpoints.path().join(".0004.tmp")).unwrap();
            fs::write(checkpoints.path().join(".0004.tmp/plan.json"), "half").unwrap();
            fs::write(checkpoints.path().join(".latest.tmp"), "00").unwrap();
            (folder, checkpoints)
        },
        number: 3,
        old: Some(2),
    },
    Scene {
        name: "with a damaged newest",
        before: || {
            let (folder, checkpoints) = saved([1, 2, 3]);
            fs::remove_file(checkpoints.folder(3).join("bank.safetensors")).unwrap();
            (folder, checkpoints)
        },
        number: 3,
        old: Some(2),
    },
];

/// Checks that the old checkpoint or the new one is whole, and that the next save works and leaves
/// two checkpoints and nothing else.
fn check_and_continue(scene: &Scene, checkpoints: &Checkpoints, at: &str) {
    let at = format!("{}, {at}", scene.name);
    let loaded = checkpoints.load().unwrap_or_else(|error| panic!("{at}: {error}"));
    let seen = loaded.as_ref().map(|loaded| loaded.stamp.number);
    assert!(seen == scene.old || seen == Some(scene.number), "{at}: {seen:?}");
    if let Some(loaded) = loaded {
        check(&loaded);
        let expected = scene.old.is_none() || scene.name == "with a damaged newest";
        assert!(expected || loaded.warnings.is_empty(), "{at}: {:?}", loaded.warnings);
    }
    // A folder with a number for its name is never half a checkpoint.
    for number in checkpoints.numbers().unwrap() {
        let given = scene.name == "with a damaged newest" && number == scene.number;
        assert!(
            given || Checkpoint::read(&checkpoints.folder(number), Contents::Complete).is_ok(),
            "{at}: {number} is half there"
        );
    }
    let next = seen.map_or(1, |seen| seen + 1);
    checkpoints.save(next, &sample(next, SIZE)).unwrap_or_else(|error| panic!("{at}: {error}"));
    let loaded = checkpoints.load().unwrap().unwrap();
    check(&loaded);
    assert!(loaded.stamp.number == next && loaded.warnings.is_empty(), "{at}");
    let names = names(checkpoints.path());
    let kept = names.iter().filter(|name| name.parse::<u64>().is_ok()).count();
    assert!(kept <= 2 && names.len() == kept + 1, "{at}: {names:?}");
}

#[test]
fn a_crash_before_every_operation_leaves_the_old_or_the_new_checkpoint() {
    let mut points = 0;
    for scene in &SCENES {
        for stop in 0.. {
            let (_folder, checkpoints) = (scene.before)();
            let (done, _) = save_and_stop(&checkpoints, scene.number, stop);
            check_and_continue(scene, &checkpoints, &format!("stopped before operation {stop}"));
            points += 1;
            if done.is_ok() {
                break;
            }
        }
    }
    println!("{points} crash points in {} scenes", SCENES.len());
    assert!(points > 150);
}

#[test]
fn a_power_cut_before_every_operation_leaves_the_old_or_the_new_checkpoint() {
    let mut coin = 0x9e37_79b9_7f4a_7c15u64;
    for scene in &SCENES {
        for variant in 0..4 {
            for stop in 0.. {
                let (_folder, checkpoints) = (scene.before)();
                let (done, unsynced) = save_and_stop(&checkpoints, scene.number, stop);
                unsynced.cut_power(|| {
                    coin = coin.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    variant == 0 || coin >> 63 == 1
                });
                if done.is_ok() {
                    let loaded = checkpoints.load().unwrap().unwrap();
                    assert_eq!(
                        loaded.stamp.number, scene.number,
                        "{}: the saved checkpoint exists",
                        scene.name
                    );
                }
                check_and_continue(
                    scene,
                    &checkpoints,
                    &format!("power cut before operation {stop} ({variant})"),
                );
                if done.is_ok() {
                    break;
                }
            }
        }
    }
}

#[test]
fn one_failing_operation_is_an_error_and_the_old_checkpoint_stays() {
    for failing in 0.. {
        let (_folder, checkpoints) = saved([1, 2]);
        let count = Mutex::new(0);
        let disk = Disk::with_hook(move |_| {
            let mut count = count.lock().unwrap();
            *count += 1;
            if *count == failing + 1 { Err(io::Error::other("bad sector")) } else { Ok(()) }
        });
        let done = on(disk, &checkpoints).save(3, &sample(3, SIZE));
        assert!(done.as_ref().err().is_none_or(|error| error.to_string().ends_with("bad sector")));
        check_and_continue(&SCENES[2], &checkpoints, &format!("operation {failing} failed"));
        if done.is_ok() {
            break;
        }
    }
}

const CHILD: &str = "SUPERWEIGHT_TEST_SAVE_UNTIL_KILLED";

/// The child process of the next test, which kills it; without its variable it does nothing.
#[test]
fn child_that_saves_until_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let resumed = RunFolder::resume(Path::new(&path)).unwrap();
    let (mut log, _) = resumed.open_log().unwrap();
    let first = resumed.loaded.map_or(0, |loaded| loaded.stamp.number) + 1;
    println!("\nready");
    for number in first..first + 100_000 {
        let phase = "train".to_owned();
        log.add(Event::Resume(ResumeEvent { checkpoint: number, phase, epoch: 0 })).unwrap();
        let mut checkpoint = sample(number, SIZE);
        checkpoint.state.log_bytes = log.position().unwrap();
        resumed.folder.checkpoints().save(number, &checkpoint).unwrap();
        println!("saved {number}");
    }
}

#[test]
fn a_run_killed_at_random_moments_continues_from_its_last_checkpoint() {
    let folder = quick_folder();
    let run = RunFolder::create(&folder.0, "killed", Existing::Refuse, "", "").unwrap();
    let path = run.path().to_owned();
    drop(run);
    let (mut last, mut torn, mut reads) = (0, 0, 0);
    for _ in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "run::crash_tests::child_that_saves_until_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the child ended early");
        }
        let in_use = RunFolder::resume(&path).unwrap_err();
        assert!(
            matches!(in_use, RunError::InUse { process: Some(id), .. } if id == child.id()),
            "{in_use}"
        );
        // Meanwhile this process reads whole checkpoints, each at least as new as the one before.
        let until = Instant::now() + Duration::from_micros(random(40_000));
        let mut seen = last;
        while Instant::now() < until {
            if let Some(mut loaded) = load_checkpoint(&path).unwrap() {
                assert!(loaded.stamp.number >= seen, "{} after {seen}", loaded.stamp.number);
                seen = loaded.stamp.number;
                loaded.checkpoint.state.log_bytes = 0;
                check(&loaded);
                reads += 1;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        let saved = rest.lines().rev().find_map(|line| line.strip_prefix("saved ")?.parse().ok());

        // A child that is killed early has not created the folder yet.
        let checkpoints = path.join("checkpoints");
        torn += usize::from(
            checkpoints.exists() && names(&checkpoints).iter().any(|name| name.starts_with('.')),
        );
        let resumed = RunFolder::resume(&path).unwrap();
        resumed.open_log().unwrap();
        let Some(mut loaded) = resumed.loaded else { continue };
        assert!(
            loaded.stamp.number >= saved.unwrap_or(seen).max(seen),
            "a saved checkpoint exists"
        );
        let lines = read_log(&path.join("log.jsonl")).unwrap();
        let numbers: Vec<_> = lines
            .iter()
            .map(|line| match &line.event {
                Event::Resume(resume) => resume.checkpoint,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(
            numbers.iter().copied().eq(1..=loaded.stamp.number),
            "the log has each number once"
        );
        loaded.checkpoint.state.log_bytes = 0;
        check(&loaded);
        last = loaded.stamp.number;
    }
    println!(
        "20 kills, {torn} of them inside a save; {last} checkpoints saved, {reads} read meanwhile"
    );
    assert!(last > 0);
}

#[test]
fn a_full_disk_is_an_error_and_the_old_checkpoint_stays() {
    let folder = Folder::new("full");
    let Some(disk) = Tmpfs::mount(&folder.0.join("small"), "size=512k") else {
        println!("skipped: a tmpfs cannot be mounted here");
        return;
    };
    let checkpoints = Checkpoints::new(disk.0.join("checkpoints"), Disk::default());
    checkpoints.save(1, &sample(1, SIZE)).unwrap();
    checkpoints.save(2, &sample(2, SIZE)).unwrap();
    let error = checkpoints.save(3, &sample(3, 100_000)).unwrap_err();
    assert!(
        matches!(&error, RunError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
        "{error}"
    );
    assert!(
        error.to_string().contains("cannot write") && error.to_string().contains(".0003.tmp"),
        "{error}"
    );
    let loaded = checkpoints.load().unwrap().unwrap();
    check(&loaded);
    assert!(loaded.stamp.number == 2 && loaded.warnings.is_empty());
    assert_eq!(names(checkpoints.path()), ["0001", "0002", "latest"]);
    // Wherever the disk becomes full, the old checkpoint or the new one remains.
    for size in (0..60_000).step_by(3_000) {
        fs::write(disk.0.join("ballast"), vec![0; 120_000]).unwrap();
        let before = checkpoints.load().unwrap().unwrap().stamp.number;
        let done = checkpoints.save(before + 1, &sample(before + 1, size));
        let after = checkpoints.load().unwrap().unwrap();
        assert!(
            after.warnings.is_empty() && after.stamp.number == before + u64::from(done.is_ok())
        );
    }
}
