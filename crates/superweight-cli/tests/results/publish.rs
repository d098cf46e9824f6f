//! Small runs are published, compared with the paper and damaged.

use std::fs;
use std::path::Path;

use serde_json::Value;
use superweight::evaluate::{Classes, Predictions};
use superweight::model::{OutputId, Subset};
use superweight::report::published::{self, Minutes, Published, open_all};
use superweight::run::read_log;

use crate::common::Folder;
use crate::{EPOCHS, count, hold, recount};

/// Two members, two steps on all images that come with the program, and its test images.
const RECIPE: &str = "\
members = ['cnn-4-8', 'cnn-4']
budget = '100%'
strategy = 'no-search'
[data]
name = 'fashion-mnist-10k'
[train]
epochs = 1
batch_size = 4000
schedule = 'one-cycle'
";

const ROWS: &str = "\
[[row]]
item = 1
what = 'tiny'
recipe = 'tiny.toml'
paper = { table = 'Table 1', method = 'SWN', data = 'cifar-100', budget = '10%', beside = ['SSN'] }
step_ms = 600.0
";

fn succeed(folder: &Folder, args: &str) -> String {
    let output = folder.run(args);
    assert!(output.status.success(), "swn {args}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Changes the text of a file.
fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).unwrap();
    let changed = change(text.clone());
    assert_ne!(text, changed, "{} was not changed", path.display());
    fs::write(path, changed).unwrap();
}

fn edit_json(path: &Path, change: impl FnOnce(&mut Value)) {
    edit(path, |text| {
        let mut json: Value = serde_json::from_str(&text).unwrap();
        change(&mut json);
        serde_json::to_string_pretty(&json).unwrap()
    });
}

fn edit_record(folder: &Path, change: impl FnOnce(&mut Value)) {
    edit_json(&folder.join("run.json"), change);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Changes a published run of one epoch into one of many, which would take too long to train in a
/// test.
fn stretch(folder: &Path, epochs: u64) {
    edit(&folder.join("log.jsonl"), |text| {
        let again =
            |line: &str| if line.contains("\"event\":\"epoch\"") { epochs as usize } else { 1 };
        text.lines()
            .flat_map(|line| std::iter::repeat_n(format!("{line}\n"), again(line)))
            .collect()
    });
    edit(&folder.join("resolved.toml"), |text| {
        text.replace("\nepochs = 1\n", &format!("\nepochs = {epochs}\n"))
    });
    let minutes = Minutes::of(&read_log(&folder.join("log.jsonl")).unwrap());
    edit_record(folder, |record| {
        record["epochs"]["train"] = epochs.into();
        record["minutes"] = serde_json::to_value(minutes).unwrap();
    });
}

#[test]
fn a_run_is_published_and_compared_and_damage_is_found() {
    let folder = Folder::with_recipe("results", RECIPE);
    let results = folder.0.join("results");
    fs::create_dir(&results).unwrap();
    fs::write(results.join("rows.toml"), ROWS).unwrap();
    fs::write(
        results.join("README.md"),
        format!("# R\n\n{}\n{}\n\nmore\n", published::BEGIN, published::END),
    )
    .unwrap();
    succeed(&folder, "train tiny.toml --set seed=3 --device cpu");
    let publish = "results publish runs/tiny --out results/fashion/tiny-3 --commit 8802b29";
    let screen = folder.screen(publish);
    assert!(screen.contains("[exit 1]") && screen.contains("'swn eval runs/tiny'"), "{screen}");
    succeed(&folder, "eval runs/tiny --device cpu");
    succeed(&folder, "anytime runs/tiny --device cpu --seconds 0");
    let log = folder.0.join("runs/tiny/log.jsonl");
    let as_it_was = fs::read(&log).unwrap();
    edit(&log, |text| text.replace("\"top1\":", "\"top1\":1"));
    let screen = folder.screen(publish);
    assert!(screen.contains("[exit 1]") && !results.join("fashion/tiny-3").exists(), "{screen}");
    fs::write(&log, as_it_was).unwrap();
    let printed = succeed(&folder, publish);
    assert!(
        printed.contains("row        tiny, seed 3") && printed.contains("not final"),
        "{printed}"
    );
    let run = results.join("fashion/tiny-3");
    let bytes = fs::read_dir(&run).unwrap().flatten().map(|entry| entry.metadata().unwrap().len());
    assert!(bytes.sum::<u64>() < 40_000, "small enough to be committed");
    recount(&run);
    let record = Published::open(&run).unwrap().record;
    assert_eq!(record.commands, ["swn train tiny.toml --set seed=3 --device cpu"]);
    assert_eq!((record.images.train, record.images.test), (8_000, 2_000));
    assert!(record.device.starts_with("cpu, ") && record.minutes.train > 0.0);

    // A refused run leaves the published folder unchanged: first an evaluation of a few images,
    // then the run's own folder as target.
    let files = || -> Vec<_> {
        let mut all: Vec<_> =
            fs::read_dir(&run).unwrap().flatten().map(|entry| entry.path()).collect();
        all.sort();
        all.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect()
    };
    let before = files();
    succeed(&folder, "eval runs/tiny --device cpu --images 10");
    let screen = folder.screen(publish);
    assert!(
        screen.contains("[exit 1]") && screen.contains("over all images: 'swn eval runs/tiny'"),
        "{screen}"
    );
    assert_eq!(files(), before);
    assert_eq!(fs::read_dir(results.join("fashion")).unwrap().count(), 1, "no draft is left");
    // The draft that a killed process leaves is not a run.
    let draft = results.join("fashion/.tiny-3.1.tmp");
    copy(&run, &draft);
    assert_eq!(open_all(&results).unwrap().len(), 1);
    fs::remove_dir_all(&draft).unwrap();
    let report = succeed(&folder, "report runs/tiny --format csv");
    assert!(report.contains(&record.top1.ensemble.to_string()), "what training measured: {report}");
    succeed(&folder, "eval runs/tiny --device cpu");
    let screen = folder.screen("results publish runs/tiny --out runs/tiny --commit 8802b29");
    assert!(screen.contains("[exit 1]") && screen.contains("own folder"), "{screen}");

    // A run of one epoch is listed, but not compared with the paper.
    let table = "results table results --out results/README.md";
    succeed(&folder, table);
    assert_eq!(hold(&results), Ok(0));
    let readme = fs::read_to_string(results.join("README.md")).unwrap();
    assert!(readme.contains("Nothing has run yet.") && readme.ends_with("\n\nmore\n"), "{readme}");
    assert!(
        readme.contains(
            "| 1. [tiny](../tiny.toml) | 78.94 ± 0.26 (Table 1); SSN 78.17 | 0.0 | not yet |"
        ),
        "{readme}"
    );
    assert!(readme.contains("| [tiny-3](fashion/tiny-3) | 1 | 2,000 test |"), "{readme}");

    // Two seeds of 200 epochs have a mean, a standard deviation and a line per member.
    let short = folder.0.join("short");
    copy(&run, &short);
    stretch(&run, EPOCHS);
    assert_eq!(
        hold(&results).unwrap_err(),
        "README.md is not what 'swn results table results' makes now"
    );
    let other = results.join("fashion/tiny-4");
    copy(&run, &other);
    edit(&other.join("resolved.toml"), |text| text.replace("seed = 3", "seed = 4"));
    edit_record(&other, |record| record["seed"] = 4.into());
    succeed(&folder, table);
    assert_eq!(hold(&results), Ok(2));
    let readme = fs::read_to_string(results.join("README.md")).unwrap();
    let top1 = record.top1.ensemble;
    let line = format!(
        "| [tiny](../tiny.toml), but train.epochs = 200 | 78.94 ± 0.26 (Table 1); SSN 78.17 | **{top1:.2} ± 0.00** | −{:.2} | \
         [3](fashion/tiny-3), [4](fashion/tiny-4) |",
        78.94 - top1
    );
    assert!(readme.contains(&line), "{line}\n{readme}");
    assert!(
        readme.contains(&format!("| · cnn-4 | – | {:.2} ± 0.00 | – |", record.top1.members[1])),
        "{readme}"
    );

    let curve = readme.split("### Anytime: tiny, [seed 4]").nth(1).unwrap();
    let classes = Classes::load(&other.join("predictions.gz")).unwrap();
    for (names, members) in [("cnn-4", &[1][..]), ("cnn-4-8", &[0]), ("cnn-4-8 + cnn-4", &[0, 1])] {
        let line = curve.lines().find(|line| line.starts_with(&format!("| {names} |"))).unwrap();
        assert!(line.contains(&format!(" | {:.2} | ", count(&classes, members))), "{line}");
    }

    // The same seed again is not a third seed: it has its own line.
    let further = results.join("fashion/tiny-again-3");
    copy(&run, &further);
    let rows = succeed(&folder, "results table results");
    let alone = |row: &str| {
        row.contains("| [3](fashion/tiny-again-3) |") && row.contains(&format!("**{top1:.2}**"))
    };
    assert!(
        rows.lines().any(alone) && rows.contains("| [3](fashion/tiny-3), [4](fashion/tiny-4) |"),
        "{rows}"
    );
    fs::remove_dir_all(&further).unwrap();

    // A run that differs more from the recipe comes later, whatever its name.
    let further = results.join("fashion/a-tiny-3");
    copy(&run, &further);
    edit(&further.join("resolved.toml"), |text| {
        text.replace("label_smoothing = 0.0", "label_smoothing = 0.1")
    });
    let rows = succeed(&folder, "results table results");
    let at = |words: &str| rows.find(words).unwrap_or_else(|| panic!("{words}: {rows}"));
    assert!(
        at("but train.epochs = 200 |")
            < at("but train.epochs = 200, train.label\\_smoothing = 0.1 |")
    );
    fs::remove_dir_all(&further).unwrap();

    // A row of 250 epochs needs runs of 250: those of 200 are listed below.
    let rows = results.join("rows.toml");
    edit(&rows, |text| text + "epochs = 250\n");
    let text = succeed(&folder, "results table results");
    assert!(
        text.contains("Nothing has run yet.")
            && text.contains("| 1. [tiny](../tiny.toml), 250 epochs | ")
    );
    assert!(text.contains("| [tiny-3](fashion/tiny-3) | 200 | 2,000 test |"), "{text}");
    let long = results.join("fashion/tiny-long-3");
    copy(&short, &long);
    stretch(&long, 250);
    succeed(&folder, table);
    assert_eq!(hold(&results), Ok(1));
    let readme = fs::read_to_string(results.join("README.md")).unwrap();
    let line = "| [tiny](../tiny.toml), 250 epochs, but train.epochs = 250 | 78.94 ± 0.26 (Table 1); SSN 78.17 | **";
    assert!(readme.contains(line) && readme.contains(" | [3](fashion/tiny-long-3) | "), "{readme}");
    fs::remove_dir_all(&long).unwrap();
    fs::write(&rows, ROWS).unwrap();
    succeed(&folder, table);

    damage(&folder, &other);
}

/// Words of the error that a change must give, and the change to a folder's files.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

fn damage(folder: &Folder, good: &Path) {
    let correct =
        |classes: &Classes, i: usize| classes.rows[&Subset::all(2)][i] == classes.labels[i];
    let predictions = |folder: &Path| {
        let path = folder.join("predictions.gz");
        let mut classes = Classes::load(&path).unwrap();
        let image = (0..2_000).find(|&i| correct(&classes, i)).unwrap();
        let wrong = (classes.labels[image] + 1) % 10;
        classes.rows.get_mut(&Subset::all(2)).unwrap()[image] = wrong;
        classes.save(&path).unwrap();
    };
    let better = |folder: &Path| {
        edit_record(folder, |record| {
            record["top1"]["ensemble"] =
                (record["top1"]["ensemble"].as_f64().unwrap() + 0.05).into();
        });
    };
    let short_log = |folder: &Path| {
        edit(&folder.join("log.jsonl"), |text| {
            let at = text.lines().position(|line| line.contains("\"event\":\"epoch\"")).unwrap();
            text.lines()
                .enumerate()
                .filter(|(i, _)| *i != at)
                .map(|(_, line)| format!("{line}\n"))
                .collect()
        });
    };
    let over_budget = |folder: &Path| {
        let budget = Published::open(folder).unwrap().record.budget.unwrap();
        edit(&folder.join("plan.json"), |text| {
            text.replacen(
                &format!("\"budget\": {budget}"),
                &format!("\"budget\": {}", budget - 1),
                1,
            )
        });
        edit_record(folder, |record| record["budget"] = (budget - 1).into());
    };
    let quicker =
        |folder: &Path| edit_record(folder, |record| record["minutes"]["train"] = 0.0.into());
    let labels = |folder: &Path| {
        let path = folder.join("predictions.gz");
        let mut classes = Classes::load(&path).unwrap();
        // Two images are swapped, which changes no count.
        let at = (1..2_000).find(|&i| classes.labels[i] != classes.labels[0]).unwrap();
        classes.labels.swap(0, at);
        classes.rows.values_mut().for_each(|row| row.swap(0, at));
        classes.save(&path).unwrap();
    };
    let other_times = |folder: &Path| {
        edit_json(&folder.join("anytime.json"), |profile| {
            profile["subsets"][0]["top1"] = 1.0.into()
        });
    };
    let all: [Damage<'_>; 7] = [
        ("top-1 of 0 is", &other_times),
        ("top-1 is", &predictions),
        ("top-1 is", &better),
        ("epochs is", &short_log),
        ("budget", &over_budget),
        ("minutes is", &quicker),
        ("labels are not those of", &labels),
    ];
    for (word, change) in all {
        let kept = folder.0.join("kept");
        copy(good, &kept);
        change(good);
        let screen = folder.screen("results table results");
        assert!(screen.contains("[exit 1]") && screen.contains(word), "{word}: {screen}");
        let why = hold(&folder.0.join("results")).unwrap_err();
        assert!(why.contains(word), "{word}: {why}");
        copy(&kept, good);
    }
    assert_eq!(hold(&folder.0.join("results")), Ok(2), "whole again");
}

/// A network of two exits has figures of each exit and of both together.
#[test]
fn each_exit_is_published() {
    let recipe = RECIPE.replace("['cnn-4-8', 'cnn-4']", "['msdnet-2-1']");
    let folder = Folder::with_recipe("results-exits", &recipe);
    let results = folder.0.join("results");
    fs::create_dir(&results).unwrap();
    fs::write(results.join("rows.toml"), ROWS).unwrap();
    succeed(&folder, "train tiny.toml --device cpu");
    succeed(&folder, "eval runs/tiny --device cpu");
    succeed(&folder, "anytime runs/tiny --device cpu --seconds 0");
    let publish = "results publish runs/tiny --out results/tiny-0 --commit 8802b29";
    let printed = succeed(&folder, publish);
    assert!(
        printed.contains(" exit 0, msdnet-2-1\n") && printed.contains(" exit 1, msdnet-2-1\n"),
        "{printed}"
    );
    let run = results.join("tiny-0");
    recount(&run);
    let record = Published::open(&run).unwrap().record;
    assert_eq!((record.members.len(), record.top1.members.len()), (1, 2));
    stretch(&run, EPOCHS);
    let table = succeed(&folder, "results table results");
    assert!(table.contains("| exits | median ms |") && table.contains("\n| 0–1 | "), "{table}");

    // Predictions of too few exits, and a profile and an evaluation of another run.
    fs::remove_dir_all(&run).unwrap();
    let logits = folder.0.join("runs/tiny/evaluation/test.safetensors");
    let all = Predictions::load(&logits).unwrap();
    let one =
        (0..all.labels().len()).flat_map(|image| all.logits(OutputId(0), image)).copied().collect();
    Predictions::new(all.classes(), all.labels().to_vec(), vec![one])
        .unwrap()
        .save(&logits)
        .unwrap();
    let screen = folder.screen(publish);
    assert!(screen.contains("of 1 exits, the run has 2; evaluate it with 'swn eval"), "{screen}");
    all.save(&logits).unwrap();
    succeed(&folder, "train tiny.toml --device cpu --name other --set seed=5");
    for command in ["eval", "anytime --seconds 0"] {
        succeed(&folder, &format!("{command} runs/other --device cpu"));
    }
    let [own, other] = ["tiny", "other"].map(|name| folder.0.join("runs").join(name));
    let profile = fs::read(own.join("anytime.json")).unwrap();
    fs::copy(other.join("anytime.json"), own.join("anytime.json")).unwrap();
    let trust = "predict runs/tiny a.png --deadline 1s --device cpu";
    for screen in [publish, "report runs/tiny", trust].map(|args| folder.screen(args)) {
        let wrong = "runs/tiny/anytime.json: of checkpoint 1 of another run; 'swn anytime runs/tiny' measures again";
        assert!(screen.contains("[exit 1]") && screen.contains(wrong), "{screen}");
    }
    fs::write(own.join("anytime.json"), profile).unwrap();
    for name in ["test.json", "test.safetensors"] {
        let file = own.join("evaluation").join(name);
        let before = fs::read(&file).unwrap();
        fs::copy(other.join("evaluation").join(name), &file).unwrap();
        let screen = folder.screen(publish);
        let wrong = format!(
            "runs/tiny/evaluation/{name}: of checkpoint 1 of another run; evaluate it with"
        );
        assert!(screen.contains("[exit 1]") && screen.contains(&wrong), "{screen}");
        fs::write(&file, before).unwrap();
    }
    assert!(!run.exists());
    succeed(&folder, publish);
}
