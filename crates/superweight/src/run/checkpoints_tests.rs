//! Checkpoints without crashes, and damaged ones; crashes are in `crash_tests`.

use std::sync::{Arc, Mutex};

use super::*;
use crate::run::Operation;
use crate::run::testing::{SIZE, check, names, sample, saved};

#[test]
fn the_last_two_are_kept_and_the_newest_is_read() {
    let (_folder, checkpoints) = saved([]);
    assert!(checkpoints.load().unwrap().is_none());
    for number in [1, 2, 3, 9999, 10_000] {
        checkpoints.save(number, &sample(number, SIZE)).unwrap();
        let loaded = checkpoints.load().unwrap().unwrap();
        check(&loaded);
        assert!(loaded.stamp.number == number && loaded.warnings.is_empty());
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

/// The crash safety of checkpoints relies on this order.
#[test]
fn saving_runs_these_operations_in_order() {
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
    let mut expected =
        vec!["create folder checkpoints".to_owned(), "create folder .0003.tmp".to_owned()];
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

#[test]
fn a_damaged_newest_checkpoint_gives_the_one_before_with_a_warning() {
    let files = names(&saved([1]).1.folder(1));
    assert_eq!(files.len(), 6);
    for file in files {
        for damage in ["removed", "short", "flipped"] {
            let (_folder, checkpoints) = saved([1, 2]);
            let path = checkpoints.folder(2).join(&file);
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            match damage {
                "removed" => fs::remove_file(&path).unwrap(),
                "short" => fs::write(&path, &bytes[..middle]).unwrap(),
                _ => {
                    bytes[middle] ^= 1;
                    fs::write(&path, &bytes).unwrap();
                }
            }
            let loaded = checkpoints.load().unwrap().unwrap();
            check(&loaded);
            assert!(
                loaded.stamp.number == 1 && loaded.warnings.len() == 1,
                "{file} {damage}: {loaded:?}"
            );
            let warning = loaded.warnings[0].to_string();
            assert!(warning.starts_with("checkpoint 2 is left out: "), "{warning}");
            fs::remove_dir_all(checkpoints.folder(1)).unwrap();
            let error = checkpoints.load().unwrap_err();
            // A checkpoint without its optimizer can be evaluated, which the error says.
            let no_optimizer = file == "optimizer.safetensors" && damage == "removed";
            match &error {
                RunError::NoOptimizer { .. } => assert!(no_optimizer, "{error}"),
                RunError::NoWholeCheckpoint { damaged, .. } => {
                    assert!(damaged.len() == 1 && !no_optimizer, "{error}")
                }
                _ => panic!("{error}"),
            }
        }
    }
}

#[test]
fn without_a_valid_latest_the_newest_whole_checkpoint_is_read() {
    for latest in [
        None,
        Some(""),
        Some("0002"),
        Some("2\n"),
        Some("../x\n"),
        Some("+0002\n"),
        Some("0\u{663}02\n"),
    ] {
        let (_folder, checkpoints) = saved([1, 2]);
        let path = checkpoints.path.join("latest");
        fs::remove_file(&path).unwrap();
        latest.into_iter().for_each(|text| fs::write(&path, text).unwrap());
        let loaded = checkpoints.load().unwrap().unwrap();
        assert!(
            loaded.stamp.number == 2 && matches!(loaded.warnings[..], [Warning::Latest { .. }]),
            "{loaded:?}"
        );
    }
    // `latest` names a checkpoint that does not exist.
    let (_folder, checkpoints) = saved([1, 2]);
    fs::write(checkpoints.path.join("latest"), "0007\n").unwrap();
    let loaded = checkpoints.load().unwrap().unwrap();
    assert!(
        loaded.stamp.number == 2
            && matches!(loaded.warnings[..], [Warning::Damaged { number: 7, .. }])
    );
}

/// After a newer program continued the run, reading an older checkpoint would discard its work.
#[test]
fn a_checkpoint_of_a_newer_program_is_an_error_and_not_damage() {
    let (_folder, checkpoints) = saved([1, 2]);
    let folder = checkpoints.folder(2);
    let [state, sums] = ["state.json", "SHA256SUMS"].map(|name| folder.join(name));
    let old = fs::read_to_string(&state).unwrap();
    let new = old.replacen("\"version\": 1", "\"version\": 2", 1);
    let digest = |text: &str| -> String {
        use sha2::{Digest, Sha256};
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    fs::write(&sums, fs::read_to_string(&sums).unwrap().replace(&digest(&old), &digest(&new)))
        .unwrap();
    fs::write(&state, new).unwrap();
    let error = checkpoints.load().unwrap_err();
    assert!(matches!(error, RunError::Version { found: 2, supported: 1, .. }), "{error}");
    assert!(error.to_string().ends_with("use the program that wrote it"), "{error}");
    // A flipped bit in the same file is damage; the checkpoint before is read.
    fs::write(&state, old.replacen("\"version\": 1", "\"version\": 3", 1)).unwrap();
    assert_eq!(checkpoints.load().unwrap().unwrap().stamp.number, 1);
}
