//! The demo from beginning to end, with one epoch where it has eight.

mod common;

use common::Folder;

#[test]
fn an_epoch_of_everything_leaves_two_runs_and_a_report() {
    let folder = Folder::new("demo");
    let screen = folder.screen("demo --epochs 1 --device cpu");
    for part in [
        "[exit 0]",
        "1  plan",
        "2  search",
        "searched   ",
        "3  train",
        "5  compare",
        "6  use",
        "shared ensemble",
        "plain wrn-16-1",
        "who shares with whom",
        "report     ",
        "swn search --replay runs/demo",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    let run = folder.0.join("runs/demo");
    for file in ["report.html", "anytime.json", "statistics.safetensors", "evaluation/test.json"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    // The budget is what the plain network has, and less than half of what the members have apart.
    let bill = |name: &str| {
        let log = std::fs::read_to_string(folder.0.join("runs").join(name).join("log.jsonl")).unwrap();
        let start: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        let parts = start["bill"].as_object().unwrap().values();
        parts.map(|part| part.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(bill("demo-baseline"), 174_778);
    assert!(bill("demo") <= 174_778 && 2 * 174_778 < 380_980);
}
