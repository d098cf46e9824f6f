//! The demo from beginning to end, with one epoch instead of sixteen.

#[allow(dead_code)] // the report's own tests use more of it
#[path = "../../superweight/tests/report/browser.rs"]
mod browser;
mod common;

use std::path::Path;

use browser::Browser;
use common::Folder;

#[test]
fn an_epoch_of_everything_leaves_two_runs_and_a_report() {
    let folder = Folder::new("demo");
    let screen = folder.screen("demo --epochs 1 --device cpu");
    for part in [
        "[exit 0]",
        "writes     runs/demo and runs/demo-baseline (or -2, -3, … if they exist)",
        "1  plan",
        "2  search",
        "searched   ",
        "3  train",
        "4  refine",
        "refined    ",
        "5  compare",
        "6  use",
        "shared ensemble",
        "plain wrn-10-1",
        "layers that share templates",
        "report     ",
        "swn search --replay runs/demo",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    shows_what_the_document_shows(&screen);
    let run = folder.0.join("runs/demo");
    for file in ["report.html", "anytime.json", "statistics.safetensors", "evaluation/test.json"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    // The budget is what the plain network has, and less than half of what the members have apart:
    // at the start, after the search and after refinement.
    let events = |name: &str| {
        let log =
            std::fs::read_to_string(folder.0.join("runs").join(name).join("log.jsonl")).unwrap();
        let events = log.lines().map(|line| serde_json::from_str(line).unwrap());
        events.collect::<Vec<serde_json::Value>>()
    };
    let bill = |event: &serde_json::Value| {
        let parts = event["bill"].as_object().unwrap().values();
        parts.map(|part| part.as_u64().unwrap()).sum::<u64>()
    };
    let of = |events: &[serde_json::Value], kind: &str| {
        events
            .iter()
            .find(|event| event["event"] == kind)
            .unwrap_or_else(|| panic!("no {kind}"))
            .clone()
    };
    assert_eq!(bill(&of(&events("demo-baseline"), "start")), 77_562);
    let shared = events("demo");
    let [start, search, refine] = ["start", "search", "refine"].map(|kind| of(&shared, kind));
    assert!([&start, &search, &refine].into_iter().all(|event| bill(event) <= 77_562));
    assert_eq!(start["budget"], 77_562);
    let newest = std::fs::read_to_string(run.join("checkpoints/latest")).unwrap();
    let plan =
        std::fs::read_to_string(run.join("checkpoints").join(newest.trim()).join("plan.json"))
            .unwrap();
    let apart = superweight::plan::SharingPlan::from_json(&plan).unwrap().dense_total();
    assert!(2 * 77_562 < apart, "{apart} apart");
    // The search parts its three clusters, one a kind of layer, and leaves layers together;
    // refinement gives some of those coefficients of their own.
    let sizes: Vec<u64> =
        search["sizes"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(sizes.len() > 3 && sizes.iter().any(|&layers| layers > 1), "{search}");
    // By the threshold that the demo proposes at its end it parts more, and still not all.
    let replayed = folder.json("search --replay runs/demo --tau 0.2 --json");
    let parted = replayed["clusters"].as_array().unwrap().len() as u64;
    let layers: u64 = sizes.iter().sum();
    assert!(parted > sizes.len() as u64 && parted < layers, "{parted} of {layers}");
    assert!(refine["groups"].as_u64() > refine["groups_before"].as_u64(), "{refine}");
    check_page(&folder.0, &run.join("report.html"));
}

/// Lines of docs/demo.txt that depend neither on the machine nor on the number of epochs are
/// printed.
fn shows_what_the_document_shows(screen: &str) {
    let heads = ["swn demo ", "writes ", "members ", "images ", "undecayed "];
    let fixed = |line: &&str| {
        let chapter =
            line.get(1..3) == Some("  ") && line.starts_with(|c: char| c.is_ascii_digit());
        chapter || heads.iter().any(|head| line.starts_with(head))
    };
    let lines: Vec<&str> = include_str!("../../../docs/demo.txt").lines().filter(fixed).collect();
    assert!(lines.len() >= 14, "{lines:?}");
    for line in lines {
        assert!(screen.contains(&format!("{line}\n")), "{line}:\n{screen}");
    }
}

/// The page draws, follows the slider, opens a layer, and loads no other file.
fn check_page(folder: &Path, page: &Path) {
    let Some(mut browser) = Browser::start(folder) else { return };
    browser.set_window(1200, 900, false);
    browser.open(page);
    let map = "[...document.querySelectorAll('.cell')].map(c => c.dataset.cluster).join()";
    let at = |end: &str| {
        format!(
            "(() => {{ const t = document.getElementById('tau'); t.value = t.{end}; \
             t.dispatchEvent(new Event('input')); }})()"
        )
    };
    browser.evaluate(&at("min"));
    let together = browser.evaluate(map);
    browser.evaluate(&at("max"));
    assert_ne!(browser.evaluate(map), together);
    // Only layers of the trained plan can be opened.
    browser.evaluate(
        "[...document.querySelectorAll('button')].find(b => b.textContent.startsWith('Back')).click()",
    );
    browser.click(".cell[data-layer='2']");
    let open = browser.evaluate("document.querySelector('#composition h3')?.textContent ?? ''");
    assert!(open.as_str().unwrap().contains("wrn-16-1"), "{open}");
    for section in ["anytime", "reliability", "conflicts", "bill"] {
        let there = browser.evaluate(&format!("document.getElementById('{section}') !== null"));
        assert_eq!(there, true, "{section}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
