//! Every key there is: known, written, and read back to the same.

use std::sync::Arc;

use proptest::prelude::{
    BoxedStrategy, Just, ProptestConfig, Strategy as _, any, prop_assert_eq, prop_oneof, proptest,
};
use toml::Table;

use super::resolve;
use crate::data::OwnSet;
use crate::data::testing::{Folder, birds};
use crate::recipe::{KEYS, Key, Kind, Recipe, RecipeError};

/// `KEYS` is what [`Recipe`] has: two schedules, both crops, a given plan, members in turns,
/// several heads and a set of one's own together write every key.
#[test]
fn keys_and_fields_are_the_same() {
    let folder = Folder::new("own-keys");
    OwnSet::save(&birds(), &folder.0, false).unwrap();
    let own = OwnSet::find("birds", &folder.0).unwrap().map(Arc::new);
    let mut written = vec![];
    let turns = "members = ['cnn-4', 'cnn-6', 'cnn-8', 'cnn-5']\ntrain = { members_per_step = 3, distillation = true }";
    for (text, set) in [
        ("", "train.schedule=multistep"),
        ("", "train.schedule=one-cycle"),
        ("", "plan.file=p.json"),
        ("", "data.crop=random-resized"),
        (turns, "budget=100%"),
        ("members = ['mimo-3-wrn-10-1']", "budget=100%"),
    ] {
        let mut resolved = resolve(text, &[set]).unwrap();
        resolved.data.own = own.clone();
        let text = resolved.to_toml();
        for (name, value) in &text.parse::<Table>().unwrap() {
            match value.as_table() {
                None => written.push(name.clone()),
                Some(table) => written.extend(table.keys().map(|key| format!("{name}.{key}"))),
            }
        }
    }
    written.sort();
    written.dedup();
    let mut known: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
    known.sort();
    assert_eq!(written, known);
}

/// A value of every kind, as TOML, and sometimes nothing.
fn value(key: &'static Key) -> BoxedStrategy<Option<String>> {
    let texts: &'static [&'static str] = match key.path {
        // Its place depends on the recipe's, and it leaves no room for its neighbours: tested by
        // itself.
        "plan.file" => return Just(None).boxed(),
        // Of sets that are not known.
        "data.digest" => return Just(None).boxed(),
        "name" => &["'a'", "'b-1.x'"],
        "members" => &[
            "['wrn-10-1']",
            "['wrn-10-2', 'wrn-16-1']",
            "['wrn-10-1', 'wrn-10-1']",
            "['cnn-8-16', 'mobilenet-v2-0.1']",
            "['cnn-4', 'cnn-8', 'wrn-10-1', 'cnn-6']",
            "['mimo-2-cnn-8']",
        ],
        "budget" => &["'50%'", "'66.60%'", "400_000", "'1M'", "'100%'"],
        "data.name" => &["'cifar-10'", "'fashion-mnist-10k'", "'mnist'"],
        "plan.clusters" => &["'single'", "'depth:3'", "'random:2:9'", "'per-position'"],
        "plan.block" => &["'auto'", "8", "32"],
        "train.milestones" => &["[]", "[1]", "['30%', '60.5%']", "[1, '50%']"],
        "data.validation" => &["0", "1000", "'12.5%'"],
        "data.padding" | "train.warmup_epochs" => &["0"],
        "train.swa_epochs" => &["0", "'10%'"],
        "train.batch_size" => &["128", "64", "6"],
        "train.members_per_step" => &["3", "4"],
        "train.batch_repetitions" => &["1", "2"],
        "train.bn_batch_size" => &["2"],
        "search.batches" => &["0", "7"],
        "train.epochs" => &["2", "30", "250"],
        "refine.epoch" => &["1", "2"],
        _ => match key.kind {
            Kind::Whole(least, most) => {
                return proptest::option::of((least..=most).prop_map(|n| n.to_string())).boxed();
            }
            Kind::Real(least, most) => {
                let real = prop_oneof![Just(least), Just(most), least..=most];
                return proptest::option::of(real.prop_map(|x| format!("{x:?}"))).boxed();
            }
            Kind::Switch => &["true", "false"],
            Kind::Word(words) => {
                return proptest::option::of(
                    proptest::sample::select(words).prop_map(|w| format!("'{w}'")),
                )
                .boxed();
            }
            Kind::List(_) if key.path == "seeds" => &["[0, 1, 2]", "[9223372036854775807]"],
            Kind::List(_) => {
                &["[]", "['templates']", "['classifier', 'templates', 'classifier', 'depthwise']"]
            }
            Kind::Text(_) | Kind::Amount(_) => {
                unreachable!("a text without examples: {}", key.path)
            }
        },
    };
    proptest::option::of(proptest::sample::select(texts).prop_map(str::to_owned)).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_resolved_recipe_loads_back_to_the_same(values in KEYS.iter().map(value).collect::<Vec<_>>()) {
        let set = KEYS.iter().zip(values).filter_map(|(key, value)| Some(format!("{} = {}", key.path, value?)));
        let set: Vec<String> = set.collect();
        let resolved = match resolve(&set.join("\n"), &[]) {
            Ok(resolved) => resolved,
            Err(RecipeError::Value { key: "budget", .. }) => return Ok(()),
            // Training some members per step and distillation need more members than most of
            // these recipes have.
            Err(RecipeError::Value { key: "train.members_per_step" | "train.distillation" | "train.batch_repetitions", .. }) => {
                return Ok(());
            }
            // Some strategies compare layers by what templates in a bank have not.
            Err(RecipeError::Value { key: "plan.tiling", .. }) => return Ok(()),
            Err(error) => panic!("{error}\n{}", set.join("\n")),
        };
        let again = Recipe::parse("other.toml", &resolved.to_toml(), &[] as &[&str]).unwrap().resolve().unwrap();
        prop_assert_eq!(&again, &resolved);
        prop_assert_eq!(again.to_toml(), resolved.to_toml());
        let flags: Vec<&str> = set.iter().map(String::as_str).collect();
        prop_assert_eq!(resolve("", &flags).unwrap(), resolved, "by flags");
    }

    #[test]
    fn no_flag_and_no_file_panics(key in 0..KEYS.len(), value in proptest::collection::vec(any::<char>(), 0..12)) {
        let (key, value) = (KEYS[key].path, value.into_iter().collect::<String>());
        for typed in [format!("{key}={value}"), format!("{key}=[{value},{value}]"), format!("{key}{value}")] {
            let _ = resolve("", &[&typed]);
            let _ = resolve(&typed, &[]);
        }
    }
}
