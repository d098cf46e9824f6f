//! The output of `swn bench`, as far as it does not depend on the machine.

mod common;

use std::process::Output;

use common::Folder;

fn swn(args: &str) -> Output {
    common::swn().args(args.split_whitespace()).output().unwrap()
}

fn errors(args: &str) -> String {
    let output = swn(args);
    assert_eq!(output.status.code(), Some(1), "{args}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_step_is_reported_as_json() {
    let output =
        swn("bench step --members cnn-4-8,cnn-8 --batch-size 3 --device cpu --seconds 0 --json");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["start_s", "step_ms", "images_per_s", "gflops", "peak_bytes", "arena_bytes"] {
        assert!(answer[key].as_f64().is_some_and(|v| v > 0.0), "{key}: {answer}");
    }
    assert_eq!(answer["batch"], 3);
    assert_eq!(answer["training"], true);
}

#[test]
fn memory_is_predicted_before_the_step_is_measured() {
    let output = swn("bench step --members cnn-4 --batch-size 2 --seconds 0 --inference");
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(words, ["what", "memory", "step", "start", "images", "arithmetic"], "{text}");
}

#[test]
fn the_block_of_a_grid_can_be_chosen_and_k_is_printed() {
    let command = "bench step --members wrn-10-1 --input 3x8x8 --batch-size 2 --seconds 0 --budget 60% --tiling grid --block 8";
    let text = String::from_utf8(swn(command).stdout).unwrap();
    assert!(text.contains("grid 8×8") && text.contains(" of 8×8×3×3"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("templates  K = ")), "{text}");
    assert!(errors(&command.replace("--block 8", "--block 0")).contains("--block"));
}

#[test]
fn only_a_gpu_is_tuned() {
    let error = errors("bench tune --members cnn-4 --batch-size 2 --device cpu");
    assert!(error.contains("--device cpu") && error.contains("--device cuda"), "{error}");
}

#[test]
fn operations_are_listed_with_their_share() {
    let output = swn("bench ops --members cnn-4 --batch-size 2 --seconds 0 --json");
    let answer: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let share: f64 = answer.iter().map(|op| op["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-9);
    assert!(answer.iter().any(|op| op["operation"] == "ConvBackwardWeight"));
    let text =
        String::from_utf8(swn("bench ops --members cnn-4 --batch-size 2 --seconds 0").stdout)
            .unwrap();
    assert!(text.contains("operation") && text.contains("NormBackward"), "{text}");
}

#[test]
fn the_cost_of_sharing_is_measured_in_turns() {
    for tiling in ["nested", "grid"] {
        let args = format!(
            "bench step --members wrn-10-1 --input 3x8x8 --batch-size 2 --budget 60% --tiling {tiling}"
        );
        let output = swn(&format!("{args} --seconds 0 --json"));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = |key: &str| answer[key].as_f64().unwrap_or_else(|| panic!("{key}: {answer}"));
        assert!(number("dense_ms") > 0.0 && number("shared_ms") > 0.0 && number("ratio") > 0.0);
        assert!(number("numbers") <= 0.6 * number("dense_numbers") && number("repeats") >= 5.0);
        assert!(answer["tiling"].as_str().unwrap().starts_with(tiling), "{answer}");
    }
    assert!(
        errors("bench ops --members cnn-4 --budget 50%")
            .starts_with("error: --budget: 'swn bench step'")
    );
    assert!(
        errors("bench step --members cnn-4 --budget x")
            .starts_with("error: --budget: 'x' is not a budget")
    );
}

#[test]
fn the_cost_of_a_plan_is_measured() {
    let folder = Folder::new("bench-plan");
    let made = folder.run(
        "plan --members wrn-10-1,cnn-4-8 --classes 10 --input 3x8x8 --budget 40% --tiling grid --block 8 --out p.json",
    );
    assert!(made.status.success(), "{made:?}");
    let text = folder.screen("bench step --plan p.json --batch-size 2 --seconds 0");
    assert!(text.contains("what       training of wrn-10-1, cnn-4-8, batch size 2, "), "{text}");
    assert!(text.contains("grid 8×8\n") && text.contains("ms without sharing, "), "{text}");
    let refused = |args: &str, why: &str| {
        let screen = folder.screen(args);
        assert!(screen.contains(why), "{screen}");
    };
    refused("bench step --plan q.json", "error: --plan q.json: No such file");
    refused("bench ops --plan p.json", "error: --plan: 'swn bench step' measures");
    refused("bench step --plan p.json --members cnn-4", "cannot be used with");
    refused("bench step", "--members <NAMES>");
}

#[test]
fn errors_name_the_flag() {
    assert!(
        errors("bench step --members wrn-29-10")
            .starts_with("error: --members: 'wrn-29-10' is not")
    );
    let zero = errors("bench step --members cnn-4 --batch-size 0");
    assert_eq!(zero, "error: --members and --batch-size: graph `0.cnn-4`: the batch is zero\n");
    assert!(errors("bench step --members cnn-4 --input 3x32").contains("--input '3x32'"));
    assert!(errors("bench step --members cnn-4 --seconds nan").contains("--seconds NaN"));
    let exits = errors("bench step --members cnn-4,msdnet-2-1 --seconds 0");
    assert_eq!(
        exits,
        "error: --members: msdnet-2-1 has early exits: plan it without other members\n"
    );
    let heads = errors("bench step --members cnn-4,mimo-2-cnn-4 --seconds 0");
    assert!(
        heads.starts_with("error: --members: cnn-4 and mimo-2-cnn-4 read different numbers"),
        "{heads}"
    );
    assert_eq!(swn("bench step").status.code(), Some(2), "clap's own");
}
