use std::path::Path;

use superweight_plan::{Coefficients, Scale};

use super::*;
use crate::data::testing::{Folder, birds};
use crate::data::{Dataset, OwnSet};
use crate::recipe::schedule::Schedule;

mod banks;
mod ends;
mod keys;
mod members;

fn resolve(text: &str, overrides: &[&str]) -> Result<Resolved, RecipeError> {
    Recipe::parse("r.toml", text, overrides)?.resolve()
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let error = resolve(text, &[]).unwrap_err().to_string();
    assert!(error.starts_with(message), "{error}\n{message}");
}

/// The CIFAR recipe of the paper, number by number, but for how training ends.
#[test]
fn an_empty_file_is_the_papers_recipe_with_an_end_of_ours() {
    let r = resolve("", &[]).unwrap();
    assert_eq!(
        r.to_toml(),
        r#"# The complete recipe of this run, with every default filled in.
name = "r"
members = ["wrn-28-10"]
budget = "10%"
strategy = "swn"
seed = 0
seeds = [0]

[data]
name = "cifar-100"
validation = 0
split_seed = 0
crop = "pad"
padding = 4
flip = true
cutout = 16

[plan]
clusters = "single"
tiling = "grid"
block = 8
scale = "even"
share_stem = false
share_classifier = true

[train]
epochs = 200
batch_size = 128
bn_batch_size = 64
momentum = 0.9
nesterov = true
lr = 0.1
schedule = "multistep"
milestones = [132]
gamma = 0.2
warmup_epochs = 0
weight_decay = 0.0005
weight_decay_on = ["templates", "coefficients", "convolutions", "batch-norm", "classifier"]
shared_weight_decay_mult = 1.0
swa_epochs = 52
label_smoothing = 0.0
template_lr_mult = 1.0
coefficient_lr_mult = 1.0
precision = "auto"

[search]
epochs = 20
lr = 0.1
tau = 0.1
min_templates = 3
algorithm = "merge"
batches = 0
clusters = 4

[refine]
epoch = 10
beta = 0.9
reserve = 1.0
reinit = false

[eval]
validation_every = 1
test = true
test_every = 0
"#
    );
    let request = r.plan_request().unwrap();
    assert_eq!((request.budget, request.reserve), (Some(3_653_688), 1.0));
    assert_eq!(request.coefficients, Coefficients::Shared);
}

#[test]
fn members_that_differ_change_the_defaults() {
    let r = resolve("members = ['wrn-28-7', 'wrn-28-4', 'wrn-28-3']\nbudget = '18M'", &[]).unwrap();
    assert_eq!(r.plan.clusters, Clustering::Depth(4));
    assert_eq!(r.train.bn_batch_size, 128);
    assert!(
        matches!(r.train.schedule, Schedule::Multistep { ref milestones, .. } if milestones == &[60, 120, 160])
    );
    let alike = resolve("members = ['wrn-28-5', 'wrn-28-5']", &[]).unwrap();
    assert_eq!((alike.plan.clusters, alike.train.bn_batch_size), (Clustering::Single, 64));
}

#[test]
fn cifar_has_cutout_unless_members_are_alike() {
    let cutout = |text: &str| resolve(text, &[]).unwrap().data.augment.cutout;
    assert_eq!(cutout("data.name = 'cifar-10'"), 16);
    assert_eq!(cutout("members = ['wrn-28-7', 'wrn-28-4']"), 16);
    assert_eq!(cutout("members = ['wrn-28-5', 'wrn-28-5']"), 0);
    assert_eq!(cutout("members = ['wrn-10-2', 'wrn-10-1']\ndata.name = 'fashion-mnist'"), 0);
    assert_eq!(cutout("data.cutout = 8"), 8);
}

#[test]
fn what_hangs_on_the_tiling_is_filled_in_and_may_be_said_otherwise() {
    let all = |text: &str| {
        let Resolved { plan, train, search, .. } = resolve(text, &[]).unwrap();
        let decayed = train.weight_decay_on.contains(&ParameterKind::Coefficients);
        let plan = (plan.tiling, plan.block, plan.scale.unwrap(), plan.share.classifier.unwrap());
        (plan, decayed, search.map(|search| search.settings.min_templates))
    };
    use TilingChoice::{Auto, Grid, Kronecker, Nested};
    assert_eq!(all("budget = '10%'"), ((Grid, Some(8), Scale::Even, true), true, Some(3)));
    assert_eq!(all("budget = '1%'"), ((Grid, Some(8), Scale::Even, true), true, Some(3)));
    assert_eq!(all("budget = '0.5%'"), ((Grid, Some(16), Scale::Even, true), true, Some(3)));
    assert_eq!(all("budget = '0.15%'"), ((Kronecker, Some(16), Scale::Even, true), true, Some(8)));
    assert_eq!(all("budget = '50%'"), ((Nested, None, Scale::Balanced, false), false, Some(8)));
    assert_eq!(
        all("plan.tiling = 'kronecker'"),
        ((Kronecker, Some(16), Scale::Even, false), true, Some(8))
    );
    let dense = "budget = '100%'\nstrategy = 'no-search'\nplan.clusters = 'dense'";
    assert_eq!(all(dense), ((Auto, None, Scale::Balanced, false), false, None));
    let said = "plan = { scale = 'he', block = 4, share_classifier = true }\nsearch.min_templates = 5\n\
                train.weight_decay_on = ['templates']";
    assert_eq!(all(said), ((Grid, Some(4), Scale::He, true), false, Some(5)));
}

#[test]
fn a_plan_lies_beside_the_recipe_and_leaves_nothing_to_decide() {
    let parse =
        |file: &str, text: &str| Recipe::parse(file, text, &[] as &[&str]).unwrap().resolve();
    let found = parse("some/where/r.toml", "plan.file = 'plans/p.json'").unwrap();
    assert_eq!(found.plan.file.as_deref(), Some(Path::new("some/where/plans/p.json")));
    assert_eq!(parse("r.toml", "plan.file = '/p.json'").unwrap().plan.file, Some("/p.json".into()));
    assert!(found.search.is_none() && found.refine.is_some());
    // The run's folder has it as given.json, and finds it again from wherever it is opened.
    let kept = found.kept().to_toml();
    assert!(kept.contains("[plan]\nfile = \"given.json\"\n\n[train]"), "{kept}");
    let again = parse("runs/r/resolved.toml", &kept).unwrap();
    assert_eq!(again.plan.file.as_deref(), Some(Path::new("runs/r/given.json")));
    assert_eq!(again.kept(), found.kept());
    let missing = found.first_plan().unwrap_err().to_string();
    assert!(missing.starts_with("plan.file some/where/plans/p.json: No such file"), "{missing}");
    refused(
        "plan.file = 'p.json'\nplan.block = 8",
        "r.toml:2:14: plan.block: plan.file replaces this key: leave one of them out;",
    );
    refused(
        "plan.file = 'p.json'\nsearch.tau = 0.5",
        "r.toml:2:14: search.tau: plan.file replaces this key",
    );
    refused(
        "plan.file = 'p.json'\nrefine.reserve = 0.5",
        "r.toml:2:18: refine.reserve: plan.file replaces this key",
    );
    assert!(resolve("refine.reserve = 0.5", &["plan.file=p.json"]).is_ok());
    // Given on the command line it goes over the file, but not over other flags.
    let over = resolve("plan.block = 8\nsearch.tau = 0.5", &["plan.file=p.json"]).unwrap();
    assert!(over.search.is_none() && over.plan.block.is_none());
    let both = resolve("", &["plan.file=p.json", "search.tau=0.5"]).unwrap_err().to_string();
    assert!(
        both.starts_with("--set search.tau=0.5: search.tau: plan.file replaces this key"),
        "{both}"
    );
}

/// A given plan decides what its tiling decides.
#[test]
fn coefficients_of_a_given_grid_are_decayed() {
    let folder = Folder::new("given-tiling");
    let decayed = |tiling: &str| {
        let request = resolve(&format!("budget = '40%'\nplan.tiling = '{tiling}'"), &[]).unwrap();
        let file = folder.0.join("p.json");
        std::fs::write(&file, request.first_plan().unwrap().to_json()).unwrap();
        let given = resolve(&format!("budget = '40%'\nplan.file = {file:?}"), &[]).unwrap();
        given.train.weight_decay_on.contains(&ParameterKind::Coefficients)
    };
    assert!(decayed("grid") && decayed("kronecker") && !decayed("nested"));
}

/// Keys without effect are reported with their place, unless only a flag makes them ineffective.
#[test]
fn keys_without_effect_are_reported() {
    let unused_keys = |text: &str, overrides: &[&str]| {
        let recipe = Recipe::parse("r.toml", text, overrides).unwrap();
        recipe.unused_keys(&recipe.resolve().unwrap())
    };
    let milestones = "train.schedule = 'one-cycle'\ntrain.milestones = [3]";
    assert_eq!(
        unused_keys(milestones, &[]),
        ["r.toml:2:20: train.milestones has no effect in this recipe"]
    );
    assert_eq!(unused_keys("train.milestones = [3]", &["train.schedule=one-cycle"]), [""; 0]);
    assert_eq!(
        unused_keys(
            "strategy = 'no-search'",
            &["search.tau=0.3", "refine.beta=0.5", "train.pct_start=0.2"]
        ),
        [
            "--set train.pct_start=0.2: train.pct_start has no effect in this recipe",
            "--set search.tau=0.3: search.tau has no effect in this recipe",
            "--set refine.beta=0.5: refine.beta has no effect in this recipe",
        ]
    );
    assert_eq!(unused_keys("plan.block = 8\nsearch.tau = 0.5", &["plan.file=p.json"]), [""; 0]);
    // Every key of a complete recipe takes effect.
    for text in [
        "",
        "train.schedule = 'one-cycle'",
        "strategy = 'no-search'",
        "train.schedule = 'constant'",
    ] {
        assert_eq!(unused_keys(&resolve(text, &[]).unwrap().to_toml(), &[]), [""; 0], "{text}");
    }
}

#[test]
fn strategies_decide_the_first_plan() {
    for (strategy, clusters, searches, start, trained, reserve) in [
        ("swn", "single", true, Coefficients::Shared, Coefficients::Shared, 1.0),
        ("no-refine", "single", true, Coefficients::Shared, Coefficients::Shared, 0.0),
        ("no-search", "single", false, Coefficients::PerLayer, Coefficients::PerLayer, 1.0),
        ("depth-binned", "depth:4", false, Coefficients::PerLayer, Coefficients::PerLayer, 1.0),
        ("random", "random:4:7", false, Coefficients::PerLayer, Coefficients::PerLayer, 1.0),
        ("all-soft", "single", true, Coefficients::Shared, Coefficients::PerLayer, 1.0),
        ("weight-similarity", "single", true, Coefficients::PerLayer, Coefficients::PerLayer, 1.0),
        (
            "coefficient-clustering",
            "single",
            true,
            Coefficients::PerLayer,
            Coefficients::PerLayer,
            1.0,
        ),
    ] {
        let r = resolve("seed = 7", &[&format!("strategy={strategy}")]).unwrap();
        let (first, second) = (r.plan_request().unwrap(), r.train_request().unwrap());
        assert_eq!(first.clusters.to_string(), clusters, "{strategy}");
        assert_eq!(r.search.is_some(), searches, "{strategy}");
        assert_eq!(r.refine.is_some(), strategy == "swn", "{strategy}");
        assert_eq!((first.coefficients, second.coefficients), (start, trained), "{strategy}");
        assert_eq!((first.reserve, second.reserve), (reserve, reserve), "{strategy}");
    }
}

#[test]
fn seeds_are_for_the_row_and_seed_for_the_run() {
    let seeds = |text: &str, set: &[&str]| resolve(text, set).map(|r| (r.seed, r.seeds)).unwrap();
    assert_eq!(seeds("seeds = [3, 1]", &[]), (3, vec![3, 1]));
    assert_eq!(seeds("seeds = [3, 1]", &["seed=1"]), (1, vec![3, 1]));
    assert_eq!(seeds("seed = 5", &[]), (5, vec![5]));
    refused(
        "seeds = []",
        "r.toml:1:9: seeds: the list is empty: name at least one seed; allowed: a list",
    );
    refused("seeds = [1, 1]", "r.toml:1:9: seeds: a seed is there twice;");
}

#[test]
fn what_does_not_fit_together_is_refused_where_it_stands() {
    refused("name = 'a/b'", "r.toml:1:8: name: 'a/b' cannot name a folder; allowed: letters");
    refused("name = '..'", "r.toml:1:8: name: '..' cannot name");
    refused("members = []", "r.toml:1:11: members: there are 0, not 1 to 64;");
    refused(
        "members = ['wrn-29-10']",
        "r.toml:1:12: members: 'wrn-29-10' is not a network of its family",
    );
    refused("budget = 'lots'", "r.toml:1:10: budget: 'lots' is not a budget");
    refused(
        "budget = 1000",
        "r.toml:1:10: budget: a budget of 1,000 is too small: the smallest feasible one is 29,682",
    );
    refused(
        "[data]\nname = 'cifar'",
        "r.toml:2:8: data.name: unknown data set 'cifar': there are fashion-mnist-10k, ",
    );
    refused(
        "plan.clusters = 'dense'\nplan.share_classifier = true\nstrategy = 'no-search'",
        "r.toml:2:25: plan.share_classifier: with plan.clusters = \"dense\" no layer shares",
    );
    refused(
        "data.validation = 50000",
        "r.toml:1:19: data.validation: cifar-100 has 50000 training images, and some must remain",
    );
    refused("data = { crop = 'random-resized', padding = 4 }", "r.toml:1:45: data.padding: ");
    let stretched = resolve("data.padding = 4", &["data.crop=random-resized"]).unwrap().data;
    assert_eq!((stretched.augment.pad, stretched.augment.stretch), (0, Some(0.08)));
    refused(
        "data = { crop = 'random-resized', min_crop_scale = 0 }",
        "r.toml:1:52: data.min_crop_scale: ",
    );
    refused(
        "train.batch_size = 100\ntrain.bn_batch_size = 64",
        "r.toml:2:23: train.bn_batch_size: batches of 100 images cannot be split",
    );
    refused(
        "data.validation = 49900\ntrain.batch_size = 128",
        "r.toml:2:20: train.batch_size: 128 is more than the 100 training images: choose at most 100;",
    );
    refused(
        "data.validation = '101%'",
        "r.toml:1:19: data.validation: '101%' is not a share between 0% and 100%",
    );
    let few = resolve("data.validation = '99.8%'", &[]).unwrap();
    assert_eq!(
        (few.data.validation, few.train.batch_size, few.train.bn_batch_size),
        (49_900, 100, 100)
    );
    refused(
        "train.milestones = [60, 200]",
        "r.toml:1:25: train.milestones: epoch 200 is not within 200 epochs;",
    );
    refused(
        "train.milestones = [60, 30]",
        "r.toml:1:25: train.milestones: '30' does not come after epoch 60;",
    );
    refused(
        "train.milestones = [60, 60]",
        "r.toml:1:25: train.milestones: '60' does not come after epoch 60;",
    );
    refused(
        "train.milestones = ['60%', '30%']",
        "r.toml:1:28: train.milestones: '30%' does not come after epoch 120;",
    );
    refused(
        "train.milestones = ['0%']",
        "r.toml:1:21: train.milestones: '0%' is not a share between",
    );
    refused(
        "train.milestones = ['nan%']",
        "r.toml:1:21: train.milestones: 'nan%' is not a share between",
    );
    refused(
        "train = { schedule = 'one-cycle', warmup_epochs = 5 }",
        "r.toml:1:51: train.warmup_epochs: one-cycle has a warm-up of its own",
    );
    refused(
        "train = { epochs = 3, warmup_epochs = 5 }",
        "r.toml:1:39: train.warmup_epochs: 5 epochs of warm-up in a training of 3;",
    );
    refused(
        "refine.epoch = 201",
        "r.toml:1:16: refine.epoch: epoch 201 does not come in a training of 200;",
    );
    let averaged = resolve("train.swa_epochs = 190", &[]).unwrap();
    assert_eq!(averaged.train.swa_epochs, 190);
    assert_eq!(resolve(&averaged.to_toml(), &[]).unwrap(), averaged);
    refused(
        "train.swa_epochs = 201",
        "r.toml:1:20: train.swa_epochs: 201 epochs of averaging in a training of 200;",
    );
    refused(
        "train.swa_epochs = 191",
        "r.toml:1:20: train.swa_epochs: the last 191 of 200 epochs start before refinement (refine.epoch = 10);",
    );
    refused(
        "strategy = 'no-refine'\ntrain = { swa_epochs = 5, epochs = 4 }",
        "r.toml:2:24: train.swa_epochs: 5 epochs of averaging in a training of 4;",
    );
    refused(
        "train.swa_epochs = 'many'",
        "r.toml:1:20: train.swa_epochs: 'many' is neither a number of epochs nor a share;",
    );
    refused(
        "train.swa_epochs = '101%'",
        "r.toml:1:20: train.swa_epochs: '101%' is not a share between 0% and 100%;",
    );
    assert_eq!(
        resolve("train = { swa_epochs = '25%', epochs = 30 }", &[]).unwrap().train.swa_epochs,
        7
    );
    refused(
        "search.batches = 391",
        "r.toml:1:18: search.batches: 391 is more than the 390 steps of an epoch;",
    );
    refused(
        "plan.clusters = 'dense'",
        "r.toml:1:17: plan.clusters: strategy swn searches among layers",
    );
    refused("plan.clusters = 'depth'", "r.toml:1:17: plan.clusters: ");
    refused(
        "plan.block = 0",
        "r.toml:1:14: plan.block: '0' is not the side of a block; allowed: auto, or",
    );
    let flag =
        resolve("train.milestones = [2, 3]", &["train.milestones=300"]).unwrap_err().to_string();
    assert!(
        flag.starts_with("--set train.milestones=300: train.milestones: epoch 300 is not within"),
        "{flag}"
    );
}

/// A run keeps what its pictures are, and needs no data folder to know their shape and classes.
#[test]
fn a_set_of_ones_own_is_described_beside_the_recipe_of_its_run() {
    let folder = Folder::new("own-beside");
    let birds = Dataset { name: "cifar-birds-of-a-test".into(), ..birds() };
    let target = OwnSet::save(&birds, &folder.0, false).unwrap();
    let beside = folder.0.join("set.json");
    std::fs::copy(target.join("set.json"), &beside).unwrap();
    let own = OwnSet::load(&beside).unwrap();
    let file = folder.0.join("r.toml").display().to_string();
    let parse = |text: &str| Recipe::parse(&file, text, &[] as &[&str]).unwrap().resolve();
    let recipe = |data: &str| {
        format!(
            "members = ['wrn-10-1']\nbudget = '100%'\ntrain.batch_size = 4\ndata = {{ name = 'cifar-birds-of-a-test', {data} }}"
        )
    };
    let described = recipe(&format!("digest = '{}'", own.digest()));
    let resolved = parse(&described).unwrap();
    assert_eq!((resolved.data.shape, resolved.data.classes), (birds.shape, 3));
    assert_eq!((resolved.data.augment.pad, resolved.data.augment.cutout), (0, 0));
    assert_eq!(resolved.data.description().unwrap(), birds.description());
    assert_eq!(parse(&resolved.to_toml()).unwrap(), resolved);
    assert_eq!(resolved.data.open(&folder.0).unwrap().train, birds.train);
    let elsewhere = resolved.data.open(&folder.0.join("none")).unwrap_err().to_string();
    assert!(
        elsewhere.contains("copy its folder there, or pack the same pictures again"),
        "{elsewhere}"
    );

    let refused = |text: &str| parse(text).unwrap_err().to_string();
    // Without a digest only the data folder counts, which does not have it.
    assert!(refused(&recipe("")).contains("unknown data set 'cifar-birds-of-a-test': there are "));
    assert!(
        refused("data = { name = 'cifar-10', digest = 'x' }")
            .contains("cifar-10 is no set of your own")
    );
    let many = described.replace(" }", ", validation = 5 }");
    assert!(
        refused(&many).contains("cifar-birds-of-a-test has 5 training images"),
        "{}",
        refused(&many)
    );
    // Damaged, gone or another: nothing else takes its place.
    std::fs::write(&beside, "{").unwrap();
    assert!(refused(&described).contains("set.json: EOF while parsing"));
    std::fs::remove_file(&beside).unwrap();
    assert!(refused(&described).contains("copy its folder there, or pack the same pictures again"));
    let others = Dataset { classes: ["a", "b", "c"].map(String::from).into(), ..birds };
    OwnSet::save(&others, &folder.0, true).unwrap();
    std::fs::copy(target.join("set.json"), &beside).unwrap();
    assert!(refused(&described).contains("copy its folder there, or pack the same pictures again"));
    let other = resolved.data.open(&folder.0).unwrap_err().to_string();
    assert!(other.contains("is not the set that the run was begun with"), "{other}");
}
