//! Bad input as a user could have it: every command names the file, key or flag that is wrong and
//! ends with a code that is not 0. It does not panic, and no file appears, disappears or changes.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::Folder;
use sha2::{Digest, Sha256};

/// Two members, a search, a refinement; two epochs of two steps.
const RECIPE: &str = "\
name = 'tiny'
members = ['cnn-2-2-2', 'cnn-2-4-4']
budget = '95%'
[data]
name = 'fashion-mnist-10k'
validation = 7960
[plan]
tiling = 'grid'
block = 2
[train]
epochs = 2
batch_size = 20
schedule = 'one-cycle'
[search]
epochs = 1
";

fn trained(name: &str) -> Folder {
    let folder = Folder::with_recipe(name, RECIPE);
    let output = folder.run("train tiny.toml");
    assert!(output.status.success(), "{output:?}");
    let output = folder.run("anytime runs/tiny --seconds 0 --images 50");
    assert!(output.status.success(), "{output:?}");
    fs::write(
        folder.0.join("picture.jpg"),
        include_bytes!("../../superweight/tests/fixtures/picture.jpg"),
    )
    .unwrap();
    folder
}

/// Every file below a folder, with its contents.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(
                contents(&entry.path()).into_iter().map(|(file, c)| (format!("{name}/{file}"), c)),
            ),
            false => drop(all.insert(name, fs::read(entry.path()).unwrap())),
        }
    }
    all
}

/// Asserts that the command fails with a message that has all of these words, and changes no file.
#[track_caller]
fn refused(folder: &Folder, args: &str, words: &[&str]) {
    let before = contents(&folder.0);
    let output = folder.run(args);
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(
        matches!(output.status.code(), Some(1 | 2)),
        "swn {args}: {:?}\n{printed}",
        output.status
    );
    assert!(!printed.contains("panicked"), "swn {args}\n{printed}");
    for word in words {
        assert!(printed.contains(word), "swn {args}: no '{word}' in\n{printed}");
    }
    let after = contents(&folder.0);
    let changed: Vec<_> = after
        .iter()
        .filter(|(name, bytes)| before.get(*name) != Some(bytes))
        .map(|(n, _)| n)
        .collect();
    // The lock file records the last process that held it.
    assert!(changed.iter().all(|name| name.ends_with("lock")), "swn {args} left {changed:?}");
    assert_eq!(before.len(), after.len(), "swn {args} removed something");
}

/// Changes a file of the newest checkpoint and its digest; returns both files as they were.
fn change(folder: &Folder, name: &str, new: &dyn Fn(Vec<u8>) -> Vec<u8>) -> [(String, Vec<u8>); 2] {
    let newest = fs::read_to_string(folder.0.join("runs/tiny/checkpoints/latest")).unwrap();
    let place = |file: &str| format!("runs/tiny/checkpoints/{}/{file}", newest.trim());
    let read = |file: &str| fs::read(folder.0.join(place(file))).unwrap();
    let (old, sums) = (read(name), read("SHA256SUMS"));
    let new = new(old.clone());
    let digest = |bytes: &[u8]| {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let changed = String::from_utf8(sums.clone()).unwrap().replace(&digest(&old), &digest(&new));
    fs::write(folder.0.join(place("SHA256SUMS")), changed).unwrap();
    fs::write(folder.0.join(place(name)), new).unwrap();
    [(place(name), old), (place("SHA256SUMS"), sums)]
}

fn restore(folder: &Folder, files: [(String, Vec<u8>); 2]) {
    files.into_iter().for_each(|(name, bytes)| fs::write(folder.0.join(name), bytes).unwrap());
}

fn replaced(from: &'static str, to: &'static str) -> impl Fn(Vec<u8>) -> Vec<u8> {
    move |old| {
        let old = String::from_utf8(old).unwrap();
        assert!(old.contains(from), "{old}");
        old.replacen(from, to, 1).into_bytes()
    }
}

const READERS: [&str; 5] = [
    "eval runs/tiny",
    "predict runs/tiny picture.jpg",
    "export runs/tiny --format onnx --out out --normalize",
    "slim runs/tiny --step 1",
    "train --resume runs/tiny",
];

#[test]
fn damaged_and_foreign_checkpoints() {
    let folder = trained("hostile-checkpoints");
    // With an older checkpoint, that one would be used instead of a damaged one.
    let numbers = fs::read_dir(folder.0.join("runs/tiny/checkpoints"))
        .unwrap()
        .map(|e| e.unwrap().file_name());
    let oldest =
        numbers.filter_map(|n| n.into_string().ok()).filter(|n| n.starts_with('0')).min().unwrap();
    fs::remove_dir_all(folder.0.join("runs/tiny/checkpoints").join(oldest)).unwrap();

    let whole = change(&folder, "bank.safetensors", &|old| old[..old.len() / 2].to_vec());
    READERS
        .iter()
        .for_each(|args| refused(&folder, args, &["bank.safetensors", "the run must start again"]));
    restore(&folder, whole);
    let whole = change(&folder, "members.safetensors", &|_| vec![]);
    READERS.iter().for_each(|args| refused(&folder, args, &["members.safetensors", "0 bytes"]));
    restore(&folder, whole);
    let whole = change(&folder, "plan.json", &replaced("\"version\": 1", "\"version\": 2"));
    READERS
        .iter()
        .for_each(|args| refused(&folder, args, &["version 2", "use the program that wrote it"]));
    restore(&folder, whole);
    let whole = change(&folder, "state.json", &replaced("\"version\": 1", "\"version\": 2"));
    READERS
        .iter()
        .for_each(|args| refused(&folder, args, &["state.json", "use the program that wrote it"]));
    restore(&folder, whole);
    let whole = change(&folder, "plan.json", &replaced("cnn-2-4-4", "cnn-2-4-8"));
    READERS.iter().for_each(|args| refused(&folder, args, &["plan.json", "the architecture has"]));
    restore(&folder, whole);

    // Recipes of other runs: networks, and images with other channels.
    let recipe = folder.0.join("runs/tiny/resolved.toml");
    let whole = fs::read_to_string(&recipe).unwrap();
    fs::write(&recipe, whole.replace("cnn-2-4-4", "cnn-2-4-8")).unwrap();
    let words = ["member 1 is cnn-2-4-8", "cnn-2-4-4 for 1×28×28", "another run"];
    READERS.iter().for_each(|args| refused(&folder, args, &words));
    refused(&folder, "report runs/tiny", &words);
    fs::write(&recipe, whole.replace("fashion-mnist-10k", "cifar-10")).unwrap();
    READERS[1..3].iter().for_each(|args| refused(&folder, args, &["3×32×32", "another run"]));
    fs::write(&recipe, &whole).unwrap();

    let statistics = folder.0.join("runs/tiny/statistics.safetensors");
    let bytes = fs::read(&statistics).unwrap();
    let version = b"\"superweight.statistics\":\"";
    let at = bytes.windows(version.len()).position(|part| part == version).unwrap() + version.len();
    let mut newer = bytes.clone();
    newer[at] = b'2';
    fs::write(&statistics, newer).unwrap();
    for args in ["report runs/tiny", "search --replay runs/tiny"] {
        refused(
            &folder,
            args,
            &["statistics.safetensors", "version 2", "use the program that wrote it"],
        );
    }
    fs::write(&statistics, bytes).unwrap();

    fs::remove_file(&recipe).unwrap();
    READERS.iter().for_each(|args| refused(&folder, args, &["runs/tiny", "resolved.toml"]));
    refused(&folder, "search --replay runs/tiny", &["--replay", "runs/tiny", "resolved.toml"]);
    fs::write(&recipe, whole).unwrap();
    fs::rename(folder.0.join("runs/tiny/checkpoints"), folder.0.join("aside")).unwrap();
    READERS[..3]
        .iter()
        .for_each(|args| refused(&folder, args, &["no checkpoint yet", "swn train --resume"]));
}

#[test]
fn pictures_deadlines_and_profiles() {
    let folder = trained("hostile-pictures");
    let picture = fs::read(folder.0.join("picture.jpg")).unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.0.join(name), bytes).unwrap();
    put("none.png", b"");
    put("cut.jpg", &picture[..picture.len() - 20]);
    let frame = picture.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    let mut huge = picture.clone();
    huge[frame + 5..frame + 9].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x20]);
    put("huge.jpg", &huge);
    refused(&folder, "predict runs/tiny none.png", &["none.png", "an empty file"]);
    refused(&folder, "predict runs/tiny cut.jpg", &["cut.jpg", "cut off"]);
    refused(&folder, "predict runs/tiny huge.jpg", &["huge.jpg", "20000×20000", "make it smaller"]);
    refused(&folder, "predict runs/tiny tiny.toml", &["tiny.toml", "PNG, JPEG, WebP or GIF"]);
    refused(&folder, "predict runs/tiny absent.png", &["absent.png", "could not be read"]);
    let ask = |rest: &str| format!("predict runs/tiny picture.jpg {rest}");
    refused(&folder, &ask("--deadline 0"), &["--deadline", "write 5ms"]);
    refused(&folder, &ask("--deadline 0ms"), &["--deadline", "longer than zero"]);
    refused(&folder, &ask("--deadline 1e-9us"), &["--deadline", "the fastest member needs"]);
    refused(&folder, &ask("--top 0"), &["--top 0"]);
    refused(&folder, &ask("--threads 100000"), &["--threads", "0 to 1024"]);
    refused(&folder, &ask("--deadline 5ms --profile tiny.toml"), &["tiny.toml", "swn anytime"]);

    let profile = folder.0.join("runs/tiny/anytime.json");
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(&profile).unwrap()).unwrap();
    // Such a time cannot be a duration.
    let mut long = whole.clone();
    long["members"][0]["p99_ms"] = 1e300.into();
    let mut newer = whole.clone();
    newer["version"] = 2.into();
    for (changed, word) in [(long, "out of range"), (newer, "version 2")] {
        fs::write(&profile, changed.to_string()).unwrap();
        refused(&folder, &ask("--deadline 1s"), &["anytime.json", word, "swn anytime"]);
    }
}

#[test]
fn recipes_flags_and_places_to_write() {
    let folder = trained("hostile-flags");
    let put = |name: &str, bytes: &[u8]| fs::write(folder.0.join(name), bytes).unwrap();
    put("random.toml", &[0xff, 0xfe, 0x00, 0x9c]);
    put("half.toml", b"members = ['cnn-");
    put("unknown.toml", b"epochs = 3");
    refused(&folder, "train absent.toml", &["absent.toml", "No such file"]);
    refused(&folder, "train random.toml", &["random.toml", "UTF-8"]);
    refused(&folder, "train half.toml", &["half.toml:1:"]);
    refused(&folder, "train unknown.toml", &["unknown.toml:1:1", "'train.epochs'"]);
    for (set, word) in [
        ("train.foo=1", "there is no key 'train.foo'"),
        ("train.epochs=-1", "from 1 to 100000"),
        ("members=['nonsense']", "unknown architecture"),
        ("budget=1", "too small"),
        ("name=../x", "cannot name a folder"),
        ("data.name=nope", "unknown data set"),
    ] {
        refused(
            &folder,
            &format!("train tiny.toml --runs new --set {set}"),
            &[&format!("--set {set}"), word],
        );
    }
    refused(&folder, "search --replay runs/tiny --tau 7", &["--tau 7", "between -1 and 1"]);
    refused(&folder, "plan --members cnn-4-8 --budget 90% --block 0", &["--block"]);
    refused(&folder, "plan --members cnn-4-8 --budget 90% --reserve 2", &["--reserve"]);
    refused(
        &folder,
        "plan --members cnn-4,msdnet-2-1 --budget 90%",
        &["--members", "msdnet-2-1 has early exits"],
    );
    refused(
        &folder,
        "results publish runs/tiny --out out --commit HEAD",
        &["--commit <HASH>", "git rev-parse"],
    );
    refused(&folder, "plan --show tiny.toml", &["tiny.toml", "not a plan"]);
    refused(&folder, "eval runs/tiny --interpolate 0,9", &["--interpolate 0,9", "no member 9"]);
    refused(
        &folder,
        "export runs/tiny --format onnx --out out --member-ids 9",
        &["--member-ids", "no member 9"],
    );
    refused(
        &folder,
        "anytime runs/tiny --images 5 --batch-size 99999999999",
        &["--batch-size 99999999999", "too large"],
    );
    // The profile measured before the failure is printed and kept.
    let path = folder.0.join("runs/tiny/anytime.json");
    let before = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let screen =
        folder.screen("anytime runs/tiny --images 5 --seconds 0 --batch-size 1,99999999999");
    assert!(
        screen.contains("\nbatch size 1, ") && screen.contains("error: --batch-size 99999999999"),
        "{screen}"
    );
    assert!(path.is_file());
    fs::write(&path, before).unwrap();

    // A failure after the flag was checked leaves no empty file.
    refused(&folder, "eval runs/tiny --interpolate 0,9 --csv new.csv", &["--interpolate 0,9"]);

    // A file where a folder should be, a folder where a file should be, a device that is full.
    refused(
        &folder,
        "train tiny.toml --runs half.toml",
        &["--runs half.toml", "choose another folder"],
    );
    refused(
        &folder,
        "eval runs/tiny --images 5 --out half.toml",
        &["--out half.toml", "choose another folder"],
    );
    refused(
        &folder,
        "export runs/tiny --format onnx --out half.toml/x",
        &["--out half.toml/x", "choose another folder"],
    );
    refused(
        &folder,
        "eval runs/tiny --images 5 --out out --csv runs",
        &["--csv runs", "choose another file"],
    );
    refused(
        &folder,
        "search --replay runs/tiny --out runs",
        &["--out runs", "choose another file"],
    );
    fs::rename(folder.0.join("runs/tiny/anytime.json"), folder.0.join("aside.json")).unwrap();
    fs::create_dir(folder.0.join("runs/tiny/anytime.json")).unwrap();
    refused(&folder, "anytime runs/tiny --images 5", &["runs/tiny/anytime.json", "writable"]);
    fs::remove_dir(folder.0.join("runs/tiny/anytime.json")).unwrap();
    if Path::new("/dev/full").exists() {
        refused(
            &folder,
            "plan --members wrn-10-1 --budget 90% --out /dev/full",
            &["--out", "/dev/full", "No space left"],
        );
        refused(
            &folder,
            "report runs/tiny --out /dev/full",
            &["--out", "/dev/full", "No space left"],
        );
        refused(
            &folder,
            "search --replay runs/tiny --out /dev/full",
            &["--out /dev/full", "No space left"],
        );
    }
}
