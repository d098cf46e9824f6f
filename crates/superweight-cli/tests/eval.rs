//! `swn eval`, `anytime`, `predict` and `export`: help and errors are pinned; each test trains one
//! small run and uses it.

#[macro_use]
mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use common::Folder;
use serde_json::Value;
use superweight::evaluate::{Classes, Predictions};
use superweight::model::{OutputId, Subset};
use superweight::run::{RunFolder, load_checkpoint, safetensors};

/// Three members, two of one shape, ten steps on the images that come with the program.
const RECIPE: &str = "\
name = 'tiny'
members = ['cnn-4-8', 'cnn-4', 'cnn-4-8']
budget = '100%'
strategy = 'no-search'
[data]
name = 'fashion-mnist-10k'
validation = 7800
[train]
epochs = 1
batch_size = 20
schedule = 'one-cycle'
";

fn trained(name: &str) -> Folder {
    let folder = Folder::with_recipe(name, RECIPE);
    let output = folder.run("train tiny.toml");
    assert!(output.status.success(), "{output:?}");
    folder
}

pinned! {
    use_help:
        "eval --help",
        "anytime --help",
        "predict --help",
        "export --help";
    use_bad_flags:
        "eval",
        "eval missing",
        "eval .",
        "eval missing --corrupted dir --corruptions",
        "eval missing --held-out --batch 0",
        "anytime missing",
        "anytime missing --batch-size 0",
        "predict missing",
        "predict missing --deadline 0ms a.png",
        "predict missing --deadline 5 a.png",
        "predict missing --profile p.json a.png",
        "eval missing --frost dir",
        "export missing",
        "export missing --format pickle",
        "export missing --format safetensors --normalize";
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn every_figure_can_be_computed_again_from_the_predictions() {
    let folder = trained("use-eval");
    let answer = folder.json("eval runs/tiny --json --images 500 --interpolate 0,2 --csv all.csv");
    let subsets = answer["subsets"].as_array().unwrap();
    assert_eq!(
        (subsets.len(), &answer["images"], &answer["split"]),
        (7, &500.into(), &"test".into())
    );
    let kept = folder.0.join("runs/tiny/evaluation");
    let full = Predictions::load(&kept.join("test.safetensors")).unwrap();
    let small = Classes::load(&kept.join("test.classes.safetensors.gz")).unwrap();
    let again = superweight::evaluate::SetReport::new(&full, &Subset::every(3));
    for (subset, again) in subsets.iter().zip(&again.subsets) {
        assert_eq!(number(&subset["nll"]), again.figures.nll, "bit for bit");
        assert_eq!(number(&subset["ece"]), again.figures.ece);
        if let Some(top1) = small.top1(again.members) {
            assert_eq!(number(&subset["top1"]), 100.0 * top1);
        }
    }
    assert!(small.top1(Subset::all(3)).is_some() && small.top1(Subset::one(OutputId(1))).is_some());
    assert_eq!(fs::read_to_string(folder.0.join("all.csv")).unwrap().lines().count(), 8);
    let points = answer["interpolation"]["points"].as_array().unwrap();
    assert_eq!((points.len(), number(&points[0]["t"]), number(&points[10]["t"])), (11, 0.0, 1.0));
    let screen = folder.screen("eval runs/tiny --validation --images 100");
    assert!(screen.contains("100 validation images of fashion-mnist-10k"), "{screen}");
    let screens = [
        "eval runs/tiny --corruptions",
        "eval runs/tiny --interpolate 0,1",
        "eval runs/tiny --interpolate 0,3",
        "eval runs/tiny --images 0",
        "eval runs/tiny --csv no/where.csv",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("use_bad_evaluations", screens.join("\n"));
}

fn write_png(path: &Path, side: u32) {
    let file = fs::File::create(path).unwrap();
    let mut encoder = png::Encoder::new(file, side, side);
    encoder.set_color(png::ColorType::Rgb);
    let pixels: Vec<u8> = (0..side * side * 3).map(|i| (i % 251) as u8).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
}

#[test]
fn deadlines_decide_which_members_run() {
    let folder = trained("use-predict");
    write_png(&folder.0.join("a.png"), 70);
    fs::write(folder.0.join("empty.png"), b"").unwrap();
    let screen = folder.screen("predict runs/tiny --deadline 1s a.png");
    assert!(screen.contains("'swn anytime RUN' writes it"), "{screen}");
    let profiles = folder.json("anytime runs/tiny --seconds 0 --images 200 --json");
    assert_eq!(profiles[0]["subsets"].as_array().unwrap().len(), 7);
    assert_eq!(profiles[0]["rounds"], 100);
    // With these times in the profile, the choices are known.
    let path = folder.0.join("runs/tiny/anytime.json");
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for subset in profile["subsets"].as_array_mut().unwrap() {
        let members = subset["members"].as_array().unwrap().len() as f64;
        subset["time"]["p99_ms"] = (1000.0 * members).into();
        subset["top1"] = members.into();
    }
    fs::write(&path, profile.to_string()).unwrap();
    for (deadline, members) in [("1s", 1), ("2.5s", 2), ("60s", 3)] {
        let entries = folder.json(&format!("predict runs/tiny --deadline {deadline} a.png --json"));
        assert_eq!(entries[0]["members"].as_array().unwrap().len(), members, "{deadline}");
        assert_eq!(entries[0]["classes"].as_array().unwrap().len(), 3);
    }
    let all = folder.json("predict runs/tiny a.png --json --top 10");
    let total: f64 =
        all[0]["classes"].as_array().unwrap().iter().map(|c| number(&c["probability"])).sum();
    assert!((total - 1.0).abs() < 1e-9);
    fs::write(
        folder.0.join("runs/tiny/other.json"),
        profile.to_string().replace("\"version\":1", "\"version\":9"),
    )
    .unwrap();
    let screens = [
        "predict runs/tiny --deadline 999ms a.png",
        "predict runs/tiny empty.png",
        "predict runs/tiny tiny.toml",
        "predict runs/tiny nowhere.png",
        "predict runs/tiny --deadline 1s --profile runs/tiny/other.json a.png",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("use_bad_predictions", screens.join("\n"));
}

/// Bad pictures are reported, and the others are classified; folders and standard input are read.
#[test]
fn pictures_that_cannot_be_read_do_not_stop_the_others() {
    let folder = trained("use-pictures");
    fs::create_dir_all(folder.0.join("pics/more")).unwrap();
    fs::create_dir(folder.0.join("none")).unwrap();
    for name in ["a.png", "pics/b.PNG", "pics/more/c.png"] {
        write_png(&folder.0.join(name), 28);
    }
    fs::write(folder.0.join("pics/notes.txt"), "no picture").unwrap();
    fs::write(folder.0.join("empty.png"), b"").unwrap();

    let some = folder.run("predict runs/tiny empty.png a.png nowhere.png");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (printed, errors) = (text(&some.stdout), text(&some.stderr));
    assert_eq!(some.status.code(), Some(1));
    assert!(printed.starts_with("a.png: ") && printed.lines().count() == 1, "{printed}");
    for part in ["error: empty.png", "error: nowhere.png", "2 of 3 pictures could not be read"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }

    let entries = folder.json("predict runs/tiny empty.png a.png pics none --json");
    let entries = entries.as_array().unwrap();
    let images: Vec<&str> = entries.iter().map(|one| one["image"].as_str().unwrap()).collect();
    assert_eq!(images, ["empty.png", "a.png", "pics/b.PNG", "pics/more/c.png", "none"]);
    for (entry, failed) in entries.iter().zip([true, false, false, false, true]) {
        assert_eq!(entry["error"].is_string(), failed, "{entry}");
        assert_eq!(entry["classes"].is_array(), !failed, "{entry}");
    }
    assert!(entries[0]["error"].as_str().unwrap().contains("an empty file"));
    assert!(entries[4]["error"].as_str().unwrap().contains("the folder has no pictures (.png"));

    let mut child = folder
        .command("predict runs/tiny --json -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a.png\npics/b.PNG\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let entries: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(entries.as_array().unwrap().len(), 2, "{entries}");
}

/// Using a run needs its parameters only; resuming it needs the optimizer.
#[test]
fn a_run_without_its_optimizer_can_be_used() {
    let folder = Folder::with_recipe("use-no-optimizer", RECIPE);
    let output = folder.run("train tiny.toml --set train.epochs=3 --until 2");
    assert!(output.status.success(), "{output:?}");
    for entry in fs::read_dir(folder.0.join("runs/tiny/checkpoints")).unwrap().flatten() {
        let _ = fs::remove_file(entry.path().join("optimizer.safetensors"));
    }
    write_png(&folder.0.join("a.png"), 28);
    for args in [
        "eval runs/tiny --images 100",
        "predict runs/tiny a.png",
        "export runs/tiny --format onnx",
        "report runs/tiny",
    ] {
        let output = folder.run(args);
        assert!(output.status.success(), "swn {args}: {output:?}");
    }
    let screen = folder.screen("train --resume runs/tiny");
    assert!(
        screen.contains("[exit 1]")
            && screen.contains("optimizer.safetensors is missing: training cannot continue"),
        "{screen}"
    );
}

/// A network of two exits, from training to predictions within a deadline.
#[test]
fn exits_run_one_after_another() {
    let recipe = RECIPE
        .replace("['cnn-4-8', 'cnn-4', 'cnn-4-8']", "['msdnet-2-1']")
        .replace("= 'tiny'", "= 'exits'");
    let folder = Folder::with_recipe("use-exits", &recipe);
    let screen = folder.screen("train tiny.toml");
    assert!(
        screen.contains("exits      2: each learns from labels") && screen.contains("all exits"),
        "{screen}"
    );
    let answer = folder.json("eval runs/exits --json --images 300");
    let members = |of: &Value| {
        of.as_array().unwrap().iter().map(|s| s["members"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (&answer["exits"], members(&answer["subsets"])),
        (&true.into(), vec!["[0]".into(), "[1]".into(), "[0,1]".into()])
    );
    let profiles = folder.json("anytime runs/exits --seconds 0 --images 200 --json");
    let median = |i: usize| number(&profiles[0]["subsets"][i]["time"]["median_ms"]);
    assert!(
        median(0) < median(1) && median(1) == median(2),
        "the second exit takes what the first takes, and more"
    );
    write_png(&folder.0.join("a.png"), 28);
    let path = folder.0.join("runs/exits/anytime.json");
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for (i, p99) in [1000.0, 2000.0, 2000.0].into_iter().enumerate() {
        profile["subsets"][i]["time"]["p99_ms"] = p99.into();
        profile["subsets"][i]["top1"] = [50.0, 70.0, 60.0][i].into();
    }
    fs::write(&path, profile.to_string()).unwrap();
    for (deadline, exits) in [("1.5s", "(exit 0, "), ("60s", "(exit 1, ")] {
        let screen = folder.screen(&format!("predict runs/exits --deadline {deadline} a.png"));
        assert!(screen.contains(exits), "{screen}");
    }
    assert!(folder.screen("predict runs/exits a.png").contains("(exits 0–1, "));
    let written = folder.screen("export runs/exits --format onnx");
    assert!(written.contains("exits      2: outputs logits.0 to logits.1"), "{written}");
    let refused = folder.screen("slim runs/exits --target 50%");
    assert!(
        refused.contains("msdnet-2-1 has 2 exits; 'swn slim' takes networks with one output only"),
        "{refused}"
    );
    let refused = folder.screen("eval runs/exits --interpolate 0,1");
    assert!(
        refused.contains("--interpolate 0,1: there is no member 1: the run has one, 0, whose 2 exits of msdnet-2-1 are not members"),
        "{refused}"
    );
    folder.screen("report runs/exits --format md --out exits.md");
    let text = fs::read_to_string(folder.0.join("exits.md")).unwrap();
    assert!(text.contains("| exits | top-1"), "{text}");
}

#[test]
fn members_are_exported_with_composed_weights() {
    let folder = trained("use-export");
    let written = folder.json("export runs/tiny --format safetensors --member-ids 0,2 --json");
    assert_eq!(written.as_array().unwrap().len(), 2);
    let tensors =
        safetensors::load(&folder.0.join("runs/tiny/export/2-cnn-4-8.safetensors")).unwrap();
    let conv = tensors.iter().find(|(_, tensor)| tensor.shape().len() == 4).unwrap();
    assert_eq!(conv.1.shape()[2..], [3, 3], "OIHW");
    assert!(tensors.iter().any(|(name, _)| name.ends_with("num_batches_tracked")));
    folder.json("export runs/tiny --format onnx --normalize --json");
    assert!(folder.0.join("runs/tiny/export/0+1+2.onnx").is_file());
    let screens = [
        "export runs/tiny --format onnx --member-ids 3",
        "export runs/tiny --format onnx --member-ids 1,1",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("use_bad_exports", screens.join("\n"));
}

/// Truncated tensors, tensors of another architecture and a plan of a newer version give errors
/// that name them.
#[test]
fn damaged_and_foreign_runs_are_errors() {
    let folder = trained("use-damage");
    let run = folder.0.join("runs/tiny");
    let loaded = load_checkpoint(&run).unwrap().unwrap();
    let save = |number: u64, change: &dyn Fn(&mut superweight::run::Checkpoint)| {
        let mut checkpoint = loaded.checkpoint.clone();
        change(&mut checkpoint);
        let resumed = RunFolder::resume(&run).unwrap();
        resumed.folder.checkpoints().save(loaded.stamp.number + number, &checkpoint).unwrap();
    };
    save(1, &|checkpoint| {
        checkpoint.plan = checkpoint.plan.replacen("\"version\": 1", "\"version\": 2", 1)
    });
    let newer = folder.screen("eval runs/tiny");
    save(2, &|checkpoint| checkpoint.plan = checkpoint.plan.replace("cnn-4-8", "cnn-8-4"));
    let foreign = folder.screen("eval runs/tiny");
    save(3, &|checkpoint| checkpoint.members = Default::default());
    let missing = folder.screen("export runs/tiny --format onnx");
    insta::assert_snapshot!("use_foreign_runs", [newer, foreign, missing].join("\n"));
    // With both checkpoints truncated, nothing is left to evaluate.
    for entry in fs::read_dir(run.join("checkpoints")).unwrap().flatten() {
        let file = entry.path().join("members.safetensors");
        if let Ok(bytes) = fs::read(&file) {
            fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        }
    }
    let screen = folder.screen("eval runs/tiny");
    assert!(
        screen.contains("[exit 1]")
            && screen.contains("every checkpoint in runs/tiny/checkpoints is damaged"),
        "{screen}"
    );
}
