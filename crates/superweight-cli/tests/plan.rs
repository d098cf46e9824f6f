//! The screens of `swn plan`, pinned.

#[macro_use]
mod common;

use std::process::Command;

use common::Folder;
use superweight::recipe::Recipe;

pinned! {
    help: "--help", "demo --help", "plan --help", "plan -h";
    nothing_to_plan: "plan", "plan --members wrn-28-10";
    single_network: "plan --members wrn-28-10 --budget 10%", "plan --members wrn-28-10 --budget 1%";
    heterogeneous_ensemble:
        "plan --members wrn-34-8,wrn-28-12,wrn-28-10,wrn-28-8 --classes 100 --budget 36.5M",
        "plan --members wrn-34-8,wrn-28-12,wrn-28-10,wrn-28-8 --clusters depth:4 --budget 7M";
    homogeneous_ensemble: "plan --members wrn-28-5,wrn-28-5,wrn-28-5,wrn-28-5 --clusters per-position --budget 15M";
    imagenet: "plan --members wrn-50-2 --classes 1000 --budget 5%";
    families: "plan --members mobilenet-v2,wrn-28-5 --budget 9M";
    shared_ends: "plan --members mobilenet-v2,mobilenet-v2 --budget 2M --share-classifier --share-stem --coefficients own";
    grid_by_stage: "plan --members wrn-28-10 --budget 1% --tiling grid --block 8 --scale even --clusters depth:3 --coefficients own";
    long_names: "plan --members cnn-1000-1000-1000-1000-1000-1000-1000-1000-1000-1000 --budget 10%";
    plain_network: "plan --members wrn-16-2 --classes 10 --clusters dense";
    bad_members:
        "plan --members vgg-16 --budget 1M",
        "plan --members wrn-29-10 --budget 10%",
        "plan --members wrn28-10 --budget 10%",
        "plan --members wrn-28-10@16-160 --budget 10%",
        "plan --members cnn-8@eight --budget 10%",
        "plan --members resnet18 --budget 10%",
        "plan --members wrn-28-10, --budget 10%";
    bad_budgets:
        "plan --members wrn-28-10 --budget 0",
        "plan --members wrn-28-10 --budget 1K",
        "plan --members wrn-28-10 --budget abc",
        "plan --members wrn-28-10 --budget -5%",
        "plan --members wrn-28-10 --budget 0.0000001%",
        "plan --members wrn-28-10 --budget 200%";
    infeasible_says_what_to_change:
        "plan --members wrn-28-10 --budget 10% --tiling nested",
        "plan --members wrn-28-10 --budget 1M --clusters per-layer --block 64",
        "plan --members wrn-28-10 --budget 3M --tiling nested --clusters depth:4",
        "plan --members wrn-28-10 --budget 3M --block 1",
        "plan --members mobilenet-v2,mobilenet-v2,mobilenet-v2,mobilenet-v2 --classes 1000 --budget 5M",
        "plan --members wrn-28-10 --budget 1% --tiling nested --json";
    bad_flags:
        "plan --members wrn-28-10 --budget 10% --clusters depth:0",
        "plan --members wrn-28-10 --budget 10% --clusters missing.json",
        "plan --members wrn-28-10 --budget 10% --block 0",
        "plan --members wrn-28-10 --budget 10% --reserve 2",
        "plan --members wrn-28-10 --budget 10% --input 3x32",
        "plan --members wrn-28-10 --budget 10% --classes 0",
        "plan --members wrn-28-10 --budget 10% --out missing/plan.json",
        "plan --show missing.json",
        "plan --show missing.json --members wrn-28-10",
        "plan --show missing.json --block 3",
        "plan --members wrn-28-10 --budget 10% --reserve -1",
        "plan --members resnet-50,wrn-28-10 --budget 10%",
        "plan --members wrn-28-10000 --budget 10%",
        "plan --members wrn-28-10 --budget 10% --tiling rings",
        "plan --members wrn-28-10 --budget 10% --share-classifier=maybe",
        "plan --members wrn-28-10 --budget 100% --clusters dense --share-classifier=true",
        "plan --members wrn-28-10 --reserve 0 --share-classifier=false --budget 92403",
        "plan --members cnn-8-16 --classes 1 --budget 418",
        "plan --set budget=20%",
        "plan recipe.toml --budget 20%",
        "plan recipe.toml",
        "plan --show plan.json recipe.toml",
        "plan --colour";
}

#[test]
fn json_has_the_promised_keys_and_its_parts_add_up() {
    let folder = Folder::new("json");
    let answer = folder.json("plan --members wrn-28-7,wrn-28-4,wrn-28-3 --budget 18M --json");
    let count = |key: &str| answer[key].as_u64().unwrap_or_else(|| panic!("{key} in {answer}"));
    assert_eq!(answer["feasible"], true);
    assert_eq!(count("budget"), 18_000_000);
    assert_eq!(count("total") + count("unused"), count("budget"));
    assert!(count("min_budget") < count("total") && count("total") < count("dense_total"));
    assert_eq!(answer["tiling"], "nested");
    let parts = ["templates", "coefficients", "reserved", "batch_norm", "classifier", "dense"];
    let sum: u64 = parts.iter().map(|part| answer["parts"][part].as_u64().unwrap()).sum();
    assert_eq!(sum, count("total"));
    assert_eq!(answer["parts"].as_object().unwrap().len(), parts.len());
    assert_eq!(answer["clusters"].as_array().unwrap().len(), 2);

    let answer = folder.json("plan --members wrn-28-10 --budget 1000 --json");
    assert_eq!(answer["feasible"], false);
    assert_eq!(answer["min_budget"], 29_682);
}

#[test]
fn a_written_plan_is_shown_again() {
    let folder = Folder::new("show");
    let args = "plan --members wrn-16-4,wrn-16-2 --classes 10 --budget 25%";
    assert!(folder.run(&format!("{args} --out plan.json")).status.success());
    insta::assert_snapshot!("show", folder.screen("plan --show plan.json"));
    let (made, shown) =
        (folder.json(&format!("{args} --json")), folder.json("plan --show plan.json --json"));
    for key in ["total", "budget", "unused", "parts", "clusters", "tiling", "dense_total"] {
        assert_eq!(made[key], shown[key], "{key}");
    }
    // The error about a damaged file names the place.
    let text = std::fs::read_to_string(folder.0.join("plan.json")).unwrap();
    std::fs::write(
        folder.0.join("plan.json"),
        text.replacen("\"templates\":", "\"templates\":1", 1),
    )
    .unwrap();
    let screen = folder.screen("plan --show plan.json");
    assert!(
        screen.contains("[exit 1]") && screen.contains("error: --show plan.json: "),
        "{screen}"
    );
}

#[test]
fn the_scale_decides_initial_values() {
    let folder = Folder::new("scale");
    let length = |flags: &str| {
        let args = format!(
            "plan --members wrn-16-2 --budget 6% --tiling grid --block 4 {flags} --out plan.json"
        );
        assert!(folder.run(&args).status.success());
        let text = std::fs::read_to_string(folder.0.join("plan.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
        plan["template_sets"][0]["row_norm"].as_f64().unwrap()
    };
    // The norm of a row of coefficients is 1 on every scale but even.
    assert_eq!(length("--scale balanced"), 1.0);
    assert!((length("--scale even") - 1.0).abs() > 0.01);
    assert_eq!(length(""), length("--scale even"));
}

/// The plan of a recipe is the one that its run begins with, whether it is planned or given.
#[test]
fn a_recipe_is_planned() {
    let folder = Folder::new("recipe");
    let recipe = "members = ['wrn-10-2']\nbudget = '25%'\n[data]\nname = 'fashion-mnist-10k'\n[plan]\ntiling = 'grid'\nblock = 8\n";
    std::fs::write(folder.0.join("small.toml"), recipe).unwrap();
    insta::assert_snapshot!(
        "recipe",
        folder.screen("plan small.toml --set budget=20% --out plan.json")
    );
    let written = std::fs::read_to_string(folder.0.join("plan.json")).unwrap();
    let overrides = ["budget=20%"];
    let resolved =
        Recipe::load(&folder.0.join("small.toml"), &overrides).unwrap().resolve().unwrap();
    assert_eq!(written, resolved.first_plan().unwrap().to_json());
    let given = folder.screen("plan small.toml --set plan.file=plan.json --set strategy=no-search");
    assert!(
        given.contains("plan.json\n") && given.contains("budget     75,854 = 25.00%"),
        "{given}"
    );
    let idle = folder.screen("plan small.toml --set train.pct_start=0.2");
    assert!(
        idle.contains(
            "warning: --set train.pct_start=0.2: train.pct_start has no effect in this recipe"
        ),
        "{idle}"
    );
    let refused = folder.screen("plan small.toml --set budget=100");
    assert!(
        refused.contains("[exit 1]") && refused.contains("a budget of 100 is too small"),
        "{refused}"
    );
}

#[test]
fn clusters_can_be_given_as_a_file() {
    let folder = Folder::new("clusters");
    let conv = |block, n| format!("\"0/block{block}.layer.0.conv{n}.weight\"");
    let sets = format!("[[{}, {}], [{}, {}]]", conv(1, 1), conv(1, 2), conv(2, 1), conv(3, 2));
    std::fs::write(folder.0.join("sets.json"), sets).unwrap();
    let args = "plan --members wrn-10-2 --classes 10 --budget 80% --json --clusters sets.json";
    let answer = folder.json(args);
    assert_eq!(answer["clusters"].as_array().unwrap().len(), 2, "{answer}");
    assert_eq!(answer["clusters"][1]["layers"][1], "0/block3.layer.0.conv2.weight");

    std::fs::write(folder.0.join("sets.json"), "[[\"0/conv9.weight\"]]").unwrap();
    assert!(folder.screen(args).contains("there is no layer '0/conv9.weight'"));
    std::fs::write(
        folder.0.join("sets.json"),
        "[[\"0/block1.layer.0.conv1.weight\", \"0/block1.layer.0.convShortcut.weight\"]]",
    )
    .unwrap();
    assert!(folder.screen(args).contains("different kind or kernel size"));
    std::fs::write(folder.0.join("sets.json"), "{").unwrap();
    assert!(folder.screen(args).contains("expected lists of layer names"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let swn = env!("CARGO_BIN_EXE_swn");
    let command =
        format!("{swn} plan --members wrn-28-10 --budget 10% | true; exit ${{PIPESTATUS[0]}}");
    let status = Command::new("bash").args(["-c", &command]).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

/// The command of the README makes a plan.
#[test]
fn the_command_of_the_readme_plans() {
    let readme = include_str!("../../../README.md");
    let (_, after) = readme.split_once("`swn plan").expect("the README has a command that plans");
    let (args, _) = after.split_once('`').expect("the command is quoted");
    let folder = Folder::new("readme");
    let output = folder.run(&format!("plan{args}"));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && printed.contains("result     feasible: "), "{printed}");
}
