//! `swn slim`: help and errors are pinned; a small run in two widths is slimmed and the result
//! trained.

#[macro_use]
mod common;

use common::Folder;
use serde_json::Value;
use superweight::plan::arch::{ArchName, ImageShape};

/// Two widths, ten steps on the images that come with the program.
const RECIPE: &str = "\
name = 'tiny'
members = ['cnn-4-8', 'cnn-6-12']
budget = '100%'
strategy = 'no-search'
[data]
name = 'fashion-mnist-10k'
validation = 7800
[plan]
clusters = 'per-position'
tiling = 'nested'
scale = 'corner'
[train]
epochs = 1
batch_size = 20
schedule = 'one-cycle'
";

pinned! {
    slim_help: "slim --help";
    slim_bad_flags:
        "slim",
        "slim missing",
        "slim .",
        "slim missing --step 0",
        "slim missing --batch-size 1";
}

#[test]
fn a_network_is_slimmed_and_trained() {
    let folder = Folder::with_recipe("slim", RECIPE);
    let output = folder.run("train tiny.toml");
    assert!(output.status.success(), "{output:?}");
    let answer = folder.json("slim runs/tiny --target 60%,cnn-4-8 --step 1 --images 300 --json");
    assert_eq!((&answer["member"], &answer["architecture"]), (&1.into(), &"cnn-6-12".into()));
    assert_eq!((&answer["images"], &answer["split"]), (&300.into(), &"validation".into()));
    assert_eq!(answer["widths"], serde_json::json!(["conv1", "conv2"]));
    let work = |name: &str| {
        let shape = ImageShape { channels: 1, height: 28, width: 28 };
        name.parse::<ArchName>().unwrap().build(shape, 10).unwrap().counts().multiply_adds
    };
    let networks = answer["networks"].as_array().unwrap();
    let names: Vec<&str> =
        networks.iter().map(|network| network["architecture"].as_str().unwrap()).collect();
    let works: Vec<u64> =
        networks.iter().map(|network| network["multiply_adds"].as_u64().unwrap()).collect();
    for (name, &printed) in names.iter().zip(&works) {
        assert_eq!(work(name), printed, "{name}");
    }
    assert_eq!((names[0], works[0]), ("cnn-6-12", work("cnn-6-12")));
    assert!(works[1] <= works[0] * 6 / 10 && works[2] <= work("cnn-4-8"), "{works:?}");
    let way = answer["way"].as_array().unwrap();
    let channels = |step: &Value| -> u64 {
        step["widths"].as_array().unwrap().iter().map(|width| width.as_u64().unwrap()).sum()
    };
    assert!(
        way.windows(2).all(|pair| channels(&pair[0]) == channels(&pair[1]) + 1),
        "one at a time"
    );
    let trained = folder.run(&format!("train tiny.toml --set members={} --name slim", names[2]));
    assert!(trained.status.success(), "{trained:?}");
    // A network that is slimmed again keeps the name of its body.
    let again = folder.json("slim runs/slim --target 80% --step 1 --images 100 --json");
    let name = again["networks"][1]["architecture"].as_str().unwrap();
    assert!(name.starts_with("cnn-6-12@") && name.matches('@').count() == 1, "{name}");
    let screen = folder.screen("slim runs/tiny --target cnn-4-8,70% --step 1 --images 300");
    let next: Vec<&str> =
        screen.lines().filter_map(|line| line.split_once("members=")).map(|it| it.1).collect();
    assert_eq!((next.len(), next[1]), (2, names[2]), "{screen}");
    assert!(screen.contains("  channels from  whole  70%  cnn-4-8\n  conv1 "), "{screen}");
    let screens = [
        "slim runs/tiny --target 10%",
        "slim runs/tiny --target 1% --step 1",
        "slim runs/tiny --target cnn-6-12",
        "slim runs/tiny --target 1.5X",
        "slim runs/tiny --target vgg",
        "slim runs/tiny --member-id 2",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("slim_screens", screens.join("\n"));
}

#[test]
fn without_validation_images_it_names_the_images_that_it_uses() {
    let recipe =
        RECIPE.replace("validation = 7800", "validation = 0").replace("scale = 'corner'", "");
    let folder = Folder::with_recipe("slim-trained", &recipe);
    let output = folder.run(
        "train tiny.toml --set train.batch_size=1000 --set members=cnn-4-8 --set eval.test=false",
    );
    assert!(output.status.success(), "{output:?}");
    let screen = folder.screen("slim runs/tiny --target 70% --step 1 --images 100 --threads 1");
    for part in [
        "on 100 train images",
        "images that it was trained on",
        "not trained together with narrower networks",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}
