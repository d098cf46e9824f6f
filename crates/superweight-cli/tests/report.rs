//! The screens of `swn report`, pinned, and the contents of its files.

#[macro_use]
mod common;

use std::fs;

use common::Folder;
use superweight::recipe::Recipe;
use superweight::run::{Event, Existing, RunFolder, StartEvent};

pinned! {
    report_help: "report --help";
    report_bad_runs: "report", "report nowhere", "report . --format pdf", "report .";
}

/// A run that was stopped before its first checkpoint.
fn started(folder: &Folder) {
    let recipe = "members = ['cnn-8-16-16']\nbudget = '90%'\nstrategy = 'no-search'\n[data]\nname = 'cifar-10'\n";
    let none: [&str; 0] = [];
    let resolved = Recipe::parse("recipe.toml", recipe, &none).unwrap().resolve().unwrap();
    let runs = folder.0.join("runs");
    let run =
        RunFolder::create(&runs, "tiny", Existing::Refuse, recipe, &resolved.to_toml()).unwrap();
    let start = StartEvent {
        version: "0".to_owned(),
        name: "tiny".to_owned(),
        strategy: resolved.strategy,
        seed: 0,
        members: vec![],
        budget: None,
        bill: Default::default(),
        weight_decay: vec![],
        data: "cifar-10".to_owned(),
        images: [0; 3],
        test_every: 0,
    };
    run.log().unwrap().add(Event::Start(Box::new(start))).unwrap();
}

#[test]
fn every_format_of_a_run_that_has_just_begun() {
    let folder = Folder::new("report-formats");
    started(&folder);
    let screen = folder.screen("report runs/tiny --plots figures");
    assert_eq!(
        screen,
        "$ swn report runs/tiny --plots figures\n[exit 0]\n1 figure in figures\nruns/tiny/report.html\n"
    );
    let page = fs::read_to_string(folder.0.join("runs/tiny/report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("cnn-8-16-16"));
    assert!(
        fs::read_to_string(folder.0.join("figures/cluster-map.svg")).unwrap().starts_with("<svg")
    );
    let csv = folder.screen("report runs/tiny --format csv");
    assert!(csv.contains("\ntiny,0,cnn-8-16-16,cifar-10,no-search,"), "{csv}");
    let markdown = String::from_utf8(folder.run("report runs/tiny --format md").stdout).unwrap();
    assert!(markdown.starts_with("## tiny\n"), "{markdown}");
    let typed = r#"{"command":"swn train /home/ada/tiny.toml","device":"cpu"}"#;
    fs::write(folder.0.join("runs/tiny/commands.jsonl"), format!("{typed}\nhalf a li")).unwrap();
    let json = folder.json("report runs/tiny --format json");
    let about = &json["runs"][0]["about"];
    assert_eq!(about["strategy"], "no-search");
    assert_eq!(
        about["commands"],
        serde_json::json!([{"command": "swn train tiny.toml", "device": "cpu"}])
    );
    let screen = folder.screen("report runs/tiny runs/tiny --out both.html");
    assert!(screen.ends_with("both.html\n") && folder.0.join("both.html").is_file(), "{screen}");
    // The error about a place that cannot be written names it.
    let screen = folder.screen("report runs/tiny --out no/such/folder.html");
    assert!(
        screen.contains("[exit 1]") && screen.contains("no/such/folder.html; choose another file"),
        "{screen}"
    );
}

#[test]
fn damage_is_named() {
    let folder = Folder::new("report-damage");
    started(&folder);
    let run = folder.0.join("runs/tiny");
    fs::write(run.join("anytime.json"), "{").unwrap();
    let screen = folder.screen("report runs/tiny");
    assert!(
        screen.contains("[exit 1]\nerror: runs/tiny/anytime.json: EOF while parsing"),
        "{screen}"
    );
    fs::write(run.join("anytime.json"), "{}").unwrap();
    fs::write(run.join("log.jsonl"), "not a log\n").unwrap();
    let screen = folder.screen("report runs/tiny");
    assert!(screen.contains("log.jsonl at byte 0: line 1: "), "{screen}");
}
