use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::data::testing::{Folder, Tmpfs};
use crate::run::{Event, Existing, Facts, Operation, RunFolder, Tensor, load_checkpoint, read_log};

/// In memory where the system has such a place: there are thousands of syncs, and what they do is seen by other means.
fn quick_folder() -> Folder {
    let name = format!("superweight-quick-{}-{}", std::process::id(), random(u64::MAX));
    let shared = Path::new("/dev/shm").join(name);
    match fs::create_dir(&shared) {
        Ok(()) => Folder(shared),
        Err(_) => Folder::new("quick"),
    }
}

fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % below
}

/// Every number of it depends on `number`.
fn sample(number: u64, size: usize) -> Checkpoint {
    let mut checkpoint = Checkpoint { plan: format!("{{\"number\": {number}}}\n"), ..Checkpoint::default() };
    let values =
        |offset: u64| (0..size as u64).map(|i| (number * 1000 + offset + i) as f32).collect::<Vec<_>>();
    checkpoint.bank.insert("templates", Tensor::new(&[size], values(1)));
    checkpoint.members.insert("0.bn.mean", Tensor::new(&[size], values(2)));
    checkpoint.optimizer.insert("templates", Tensor::new(&[size], values(3)));
    checkpoint.state.training = serde_json::json!({ "epoch": number });
    checkpoint
}

const SIZE: usize = 100;

fn check(loaded: &Loaded) {
    assert_eq!(loaded.checkpoint, sample(loaded.number, SIZE), "checkpoint {}", loaded.number);
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = entries(folder).unwrap().into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

fn saved(numbers: impl IntoIterator<Item = u64>) -> (Folder, Checkpoints) {
    let folder = quick_folder();
    let checkpoints = Checkpoints::new(folder.0.join("checkpoints"), Disk::default());
    numbers.into_iter().for_each(|number| checkpoints.save(number, &sample(number, SIZE)).unwrap());
    (folder, checkpoints)
}

#[test]
fn the_last_two_are_kept_and_the_newest_is_read() {
    let (_folder, checkpoints) = saved([]);
    assert!(checkpoints.load().unwrap().is_none());
    for number in [1, 2, 3, 9999, 10_000] {
        checkpoints.save(number, &sample(number, SIZE)).unwrap();
        let loaded = checkpoints.load().unwrap().unwrap();
        check(&loaded);
        assert!(loaded.number == number && loaded.warnings.is_empty());
    }
    assert_eq!(names(&checkpoints.path), ["10000", "9999", "latest"]);
    assert_eq!(fs::read_to_string(checkpoints.path.join("latest")).unwrap(), "10000\n");
    let files = [
        "SHA256SUMS",
        "bank.safetensors",
        "members.safetensors",
        "optimizer.safetensors",
        "plan.json",
        "state.json",
    ];
    assert_eq!(names(&checkpoints.folder(9999)), files);
    for number in [5, 9999, 10_000] {
        let taken = checkpoints.save(number, &sample(1, SIZE)).unwrap_err();
        assert!(matches!(taken, RunError::NotNewer { latest: 10_000, .. }), "{taken}");
    }
    check(&checkpoints.load().unwrap().unwrap());
}

/// The order that everything relies on.
#[test]
fn operations_come_in_this_order() {
    let (_folder, checkpoints) = saved([1, 2]);
    let trace = Arc::new(Mutex::new(Vec::new()));
    let (seen, root) = (trace.clone(), checkpoints.path.clone());
    let disk = Disk::with_hook(move |operation| {
        let name = |path: &Path| match path.strip_prefix(&root).unwrap().display().to_string() {
            name if name.is_empty() => "checkpoints".to_owned(),
            name => name,
        };
        seen.lock().unwrap().push(match operation {
            Operation::CreateFolder(path) => format!("create folder {}", name(path)),
            Operation::CreateFile(path) => format!("create {}", name(path)),
            Operation::Write(path, _) => format!("write {}", name(path)),
            Operation::SyncFile(path) => format!("sync {}", name(path)),
            Operation::SyncFolder(path) => format!("sync folder {}", name(path)),
            Operation::Rename(from, to) => format!("rename {} to {}", name(from), name(to)),
            Operation::RemoveFile(_) => "remove a file".to_owned(),
            Operation::RemoveFolder(path) => format!("remove folder {}", name(path)),
        });
        Ok(())
    });
    Checkpoints { disk, ..checkpoints.clone() }.save(3, &sample(3, SIZE)).unwrap();
    let mut trace = trace.lock().unwrap().clone();
    trace.dedup();
    let mut expected = vec!["create folder checkpoints".to_owned(), "create folder .0003.tmp".to_owned()];
    for file in [
        "plan.json",
        "bank.safetensors",
        "members.safetensors",
        "optimizer.safetensors",
        "state.json",
        "SHA256SUMS",
    ] {
        expected.extend(["create", "write", "sync"].map(|what| format!("{what} .0003.tmp/{file}")));
    }
    let rest = [
        "sync folder .0003.tmp",
        "rename .0003.tmp to 0003",
        "sync folder checkpoints",
        "create .latest.tmp",
        "write .latest.tmp",
        "sync .latest.tmp",
        "rename .latest.tmp to latest",
        "sync folder checkpoints",
        "rename 0001 to .0001.old.tmp",
        "sync folder checkpoints",
        "remove a file",
        "remove folder .0001.old.tmp",
    ];
    expected.extend(rest.map(str::to_owned));
    assert_eq!(trace, expected);
}

/// What was done to the disk and would not survive a power cut.
#[derive(Default)]
struct Unsynced {
    /// Files whose bytes may be lost.
    bytes: BTreeSet<PathBuf>,
    /// Files whose names may be lost, since their folder was not synced.
    names: BTreeSet<PathBuf>,
    /// Renames that may be undone, with what lay under the new name.
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
                // A rename is one step: what it moved is lost with it, not apart from it.
                self.names.remove(to);
                self.renames.push((from.to_owned(), to.to_owned(), fs::read(to).ok()));
            }
            Operation::CreateFolder(_) | Operation::RemoveFile(_) | Operation::RemoveFolder(_) => {}
        }
    }

    /// Loses what `lost` says, of what may be.
    fn cut_power(self, mut lost: impl FnMut() -> bool) {
        for path in self.bytes.iter().filter(|_| lost()) {
            if let Ok(bytes) = fs::read(path) {
                fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
            }
        }
        for path in self.names.iter().filter(|_| lost()) {
            let _ = fs::remove_file(path);
        }
        // A folder's changes come to the disk in their order: from some point on all are lost.
        let kept = self.renames.iter().position(|_| lost()).unwrap_or(self.renames.len());
        for (from, to, before) in self.renames[kept..].iter().rev() {
            if fs::rename(to, from).is_ok()
                && let Some(before) = before
            {
                fs::write(to, before).unwrap();
            }
        }
    }
}

/// Stops a save before its `stop`th operation; how much would not survive a power cut.
fn save_and_stop(checkpoints: &Checkpoints, number: u64, stop: usize) -> (Result<(), RunError>, Unsynced) {
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
    let done = Checkpoints { disk, ..checkpoints.clone() }.save(number, &sample(number, SIZE));
    let unsynced = std::mem::take(&mut state.lock().unwrap().1);
    (done, unsynced)
}

/// What is there before the save that crashes, its number, and the number that a reader has seen before.
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
            fs::write(checkpoints.path.join("latest"), "0002\n").unwrap();
            fs::create_dir(checkpoints.path.join(".0004.tmp")).unwrap();
            fs::write(checkpoints.path.join(".0004.tmp/plan.json"), "half").unwrap();
            fs::write(checkpoints.path.join(".latest.tmp"), "00").unwrap();
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

/// The old checkpoint or the new one, whole; then the next save works and leaves two checkpoints and nothing else.
fn look_and_go_on(scene: &Scene, checkpoints: &Checkpoints, at: &str) {
    let at = format!("{}, {at}", scene.name);
    let loaded = checkpoints.load().unwrap_or_else(|error| panic!("{at}: {error}"));
    let seen = loaded.as_ref().map(|loaded| loaded.number);
    assert!(seen == scene.old || seen == Some(scene.number), "{at}: {seen:?}");
    if let Some(loaded) = loaded {
        check(&loaded);
        let expected = scene.old.is_none() || scene.name == "with a damaged newest";
        assert!(expected || loaded.warnings.is_empty(), "{at}: {:?}", loaded.warnings);
    }
    let next = seen.map_or(1, |seen| seen + 1);
    checkpoints.save(next, &sample(next, SIZE)).unwrap_or_else(|error| panic!("{at}: {error}"));
    let loaded = checkpoints.load().unwrap().unwrap();
    check(&loaded);
    assert!(loaded.number == next && loaded.warnings.is_empty(), "{at}");
    let names = names(&checkpoints.path);
    let kept = names.iter().filter(|name| parse(name).is_some()).count();
    assert!(kept <= 2 && names.len() == kept + 1, "{at}: {names:?}");
}

#[test]
fn a_crash_before_every_operation_leaves_the_old_or_the_new_checkpoint() {
    let mut points = 0;
    for scene in &SCENES {
        for stop in 0.. {
            let (_folder, checkpoints) = (scene.before)();
            let (done, _) = save_and_stop(&checkpoints, scene.number, stop);
            look_and_go_on(scene, &checkpoints, &format!("stopped before operation {stop}"));
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
                look_and_go_on(
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
        let done = Checkpoints { disk, ..checkpoints.clone() }.save(3, &sample(3, SIZE));
        assert!(done.as_ref().err().is_none_or(|error| error.to_string().ends_with("bad sector")));
        look_and_go_on(&SCENES[2], &checkpoints, &format!("operation {failing} failed"));
        if done.is_ok() {
            break;
        }
    }
}

#[test]
fn a_damaged_newest_gives_the_one_before_with_a_warning() {
    let files = names(&saved([1]).1.folder(1));
    assert_eq!(files.len(), 6);
    for file in files {
        for damage in ["gone", "short", "flipped"] {
            let (_folder, checkpoints) = saved([1, 2]);
            let path = checkpoints.folder(2).join(&file);
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            match damage {
                "gone" => fs::remove_file(&path).unwrap(),
                "short" => fs::write(&path, &bytes[..middle]).unwrap(),
                _ => {
                    bytes[middle] ^= 1;
                    fs::write(&path, &bytes).unwrap();
                }
            }
            let loaded = checkpoints.load().unwrap().unwrap();
            check(&loaded);
            assert!(loaded.number == 1 && loaded.warnings.len() == 1, "{file} {damage}: {loaded:?}");
            let warning = loaded.warnings[0].to_string();
            assert!(warning.starts_with("checkpoint 2 is left out: "), "{warning}");
            fs::remove_dir_all(checkpoints.folder(1)).unwrap();
            let error = checkpoints.load().unwrap_err();
            assert!(
                matches!(&error, RunError::NoWholeCheckpoint { damaged, .. } if damaged.len() == 1),
                "{error}"
            );
        }
    }
}

#[test]
fn without_a_good_latest_the_newest_whole_one_is_taken() {
    for latest in
        [None, Some(""), Some("0002"), Some("2\n"), Some("../x\n"), Some("+0002\n"), Some("0\u{663}02\n")]
    {
        let (_folder, checkpoints) = saved([1, 2]);
        let path = checkpoints.path.join("latest");
        fs::remove_file(&path).unwrap();
        latest.into_iter().for_each(|text| fs::write(&path, text).unwrap());
        let loaded = checkpoints.load().unwrap().unwrap();
        assert!(loaded.number == 2 && matches!(loaded.warnings[..], [Warning::Latest { .. }]), "{loaded:?}");
    }
    // It names what is gone.
    let (_folder, checkpoints) = saved([1, 2]);
    fs::write(checkpoints.path.join("latest"), "0007\n").unwrap();
    let loaded = checkpoints.load().unwrap().unwrap();
    assert!(loaded.number == 2 && matches!(loaded.warnings[..], [Warning::Damaged { number: 7, .. }]));
}

const CHILD: &str = "SUPERWEIGHT_TEST_SAVE_UNTIL_KILLED";

/// Not a test by itself: what the next one kills.
#[test]
fn child_that_saves_until_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let mut resumed = RunFolder::resume(Path::new(&path)).unwrap();
    let first = resumed.loaded.map_or(0, |loaded| loaded.number) + 1;
    println!("\nready");
    for number in first..first + 100_000 {
        resumed.log.add(Event::Eval(Facts::from([("number", number)]))).unwrap();
        let mut checkpoint = sample(number, SIZE);
        checkpoint.state.log_bytes = resumed.log.position().unwrap();
        resumed.folder.checkpoints().save(number, &checkpoint).unwrap();
        println!("saved {number}");
    }
}

#[test]
fn killed_at_random_moments_a_run_goes_on_from_what_it_had() {
    let folder = quick_folder();
    let run = RunFolder::create(&folder.0, "killed", Existing::Refuse, "", "").unwrap();
    let path = run.path().to_owned();
    drop(run);
    let (mut last, mut torn, mut looks) = (0, 0, 0);
    for _ in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "run::checkpoints::tests::child_that_saves_until_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the child ended early");
        }
        let in_use = RunFolder::resume(&path).unwrap_err();
        assert!(matches!(in_use, RunError::InUse { process: Some(id), .. } if id == child.id()), "{in_use}");
        // Another process reads all the while: whole, and never older than before.
        let until = std::time::Instant::now() + Duration::from_micros(random(40_000));
        let mut seen = last;
        while std::time::Instant::now() < until {
            if let Some(mut loaded) = load_checkpoint(&path).unwrap() {
                assert!(loaded.number >= seen, "{} after {seen}", loaded.number);
                seen = loaded.number;
                loaded.checkpoint.state.log_bytes = 0;
                check(&loaded);
                looks += 1;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        let promised = rest.lines().rev().find_map(|line| line.strip_prefix("saved ")?.parse().ok());

        torn += usize::from(names(&path.join("checkpoints")).iter().any(|name| name.starts_with('.')));
        let resumed = RunFolder::resume(&path).unwrap();
        let Some(mut loaded) = resumed.loaded else { continue };
        assert!(loaded.number >= promised.unwrap_or(seen).max(seen), "what was saved is there");
        let lines = read_log(&path.join("log.jsonl")).unwrap();
        let numbers: Vec<_> = lines
            .iter()
            .map(|line| match &line.event {
                Event::Eval(facts) => facts.metrics["number"].as_u64().unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(numbers.iter().copied().eq(1..=loaded.number), "the log has each once");
        loaded.checkpoint.state.log_bytes = 0;
        check(&loaded);
        last = loaded.number;
    }
    println!("20 kills, {torn} of them inside a save; {last} checkpoints saved, {looks} read meanwhile");
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
    assert!(error.to_string().contains("cannot write") && error.to_string().contains(".0003.tmp"), "{error}");
    let loaded = checkpoints.load().unwrap().unwrap();
    check(&loaded);
    assert!(loaded.number == 2 && loaded.warnings.is_empty());
    assert_eq!(names(&checkpoints.path), ["0001", "0002", "latest"]);
    // Every size from fitting to not: wherever the disk is full, the old or the new one is there.
    for size in (0..60_000).step_by(3_000) {
        fs::write(disk.0.join("ballast"), vec![0; 120_000]).unwrap();
        let before = checkpoints.load().unwrap().unwrap().number;
        let done = checkpoints.save(before + 1, &sample(before + 1, size));
        let after = checkpoints.load().unwrap().unwrap();
        assert!(after.warnings.is_empty() && after.number == before + u64::from(done.is_ok()));
    }
}
