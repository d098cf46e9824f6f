//! Every key of a recipe: its path, its range and its default, one row each.
//!
//! Files and `--set` are checked against this table before any value is read, and error messages
//! take the allowed values from it. A test compares it with the fields of
//! [`Recipe`](super::Recipe).

use std::fmt;

use toml::Value;

use super::strategy::Strategy;

/// A key of a recipe, with its allowed values and its default.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Path with its table, such as `train.epochs`.
    pub path: &'static str,
    /// Allowed values.
    pub kind: Kind,
    /// Default, in words.
    pub default: &'static str,
}

/// Values that a key allows.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in a range.
    Whole(u64, u64),
    /// A number in a range.
    Real(f64, f64),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text, described here; checked when the recipe is resolved.
    Text(&'static str),
    /// A text, described here, or a whole number.
    Amount(&'static str),
    /// A list of such values.
    List(&'static Kind),
}

use Kind::{Amount, List, Real, Switch, Text, Whole, Word};

/// Largest whole number in TOML.
const MOST: u64 = i64::MAX as u64;
const MEMBER: Kind = Text(
    "network names such as wrn-28-10, wrn-50-2, resnet-50, mobilenet-v2, cnn-8-16, mimo-3-wrn-28-10, msdnet-16-12",
);
const MILESTONE: Kind =
    Amount("epochs (60) or shares of them (\"30%\"), ascending, within the training");

/// Kinds of parameters in `train.weight_decay_on`, as typed.
pub(super) const KINDS: [&str; 6] =
    ["templates", "coefficients", "convolutions", "depthwise", "batch-norm", "classifier"];

const fn key(path: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { path, kind, default }
}

/// Every key of a recipe, in the order of the file.
pub const KEYS: &[Key] = &[
    key(
        "name",
        Text("letters, digits, '.', '_' and '-', at most 100: the name of the run's folder"),
        "the file's name",
    ),
    key("members", List(&MEMBER), "[\"wrn-28-10\"]"),
    key(
        "budget",
        Amount(
            "a number of parameters (365368, 500K, 36.5M) or a share of the members' total (10%)",
        ),
        "10%",
    ),
    key("strategy", Word(&Strategy::WORDS), "swn"),
    key("seed", Whole(0, MOST), "the first of seeds, or 0"),
    key("seeds", List(&Whole(0, MOST)), "[seed]"),
    key("data.name", Text("the name of a data set ('swn data list')"), "cifar-100"),
    key(
        "data.digest",
        Text("the digest of a packed data set; a run keeps it and trains on no other images"),
        "none: the set that is packed under this name",
    ),
    key(
        "data.validation",
        Amount("images (5000) or a share of the training images (\"10%\")"),
        "0",
    ),
    key("data.split_seed", Whole(0, MOST), "0"),
    key("data.crop", Word(&["pad", "random-resized"]), "random-resized for imagenet, else pad"),
    key(
        "data.min_crop_scale",
        Real(0.01, 1.0),
        "0.08; only with crop = \"random-resized\": the smallest share of an image's area that a crop has",
    ),
    key(
        "data.padding",
        Whole(0, 64),
        "with crop = \"pad\" 4, for packed pictures an eighth of the side; else 0",
    ),
    key("data.flip", Switch, "false for mnist, else true"),
    key("data.cutout", Whole(0, 1024), "16 for CIFAR, except for several equal members; else 0"),
    key(
        "plan.file",
        Text(
            "a plan (JSON) beside the recipe, used instead of the other keys of [plan] and of a search",
        ),
        "planned by the keys below",
    ),
    key(
        "plan.clusters",
        Text("single, depth:K, random:K, random:K:SEED, per-layer, per-position or dense"),
        "set by the strategy",
    ),
    key(
        "plan.tiling",
        Word(&["auto", "nested", "grid", "kronecker", "stretched", "rank-one"]),
        "auto: nested where its smallest plan needs at most half the budget, else grid, else kronecker; \
         stretched is Shapeshifter Networks; rank-one is BatchEnsemble and needs \
         plan.clusters = \"per-position\" and plan.share_stem",
    ),
    key(
        "plan.block",
        Amount("auto, or the side of a block from 1 to 4096"),
        "auto: the first of 8, 16 and 32 that leaves the budget three templates per set; \
         with kronecker the side that gives the smallest templates",
    ),
    key(
        "plan.scale",
        Word(&["even", "balanced", "he", "released", "corner"]),
        "even with grid, kronecker and stretched, corner with rank-one, else balanced",
    ),
    key("plan.share_stem", Switch, "false"),
    key(
        "plan.share_classifier",
        Switch,
        "true where grid or kronecker make it smaller, with stretched and with rank-one; else false",
    ),
    key("train.epochs", Whole(1, 100_000), "200"),
    key(
        "train.batch_size",
        Whole(1, 1_048_576),
        "128, or all training images where there are fewer",
    ),
    key(
        "train.batch_repetitions",
        Whole(1, 64),
        "4; only for MIMO networks (mimo-3-wrn-28-10): copies of each image in a step for every \
         subnetwork, in an order of its own",
    ),
    key(
        "train.members_per_step",
        Whole(1, 64),
        "all members; with a smaller number (at least 3) a step trains the largest and the smallest \
         member (by multiply-adds) and some of the others in turn",
    ),
    key(
        "train.distillation",
        Switch,
        "false; with true only the largest member (by multiply-adds) learns from labels, and the others \
         learn from its probabilities for the same images; not for MIMO networks",
    ),
    key(
        "train.bn_batch_size",
        Whole(1, 1_048_576),
        "64 for equal members where it divides the batch, else the whole batch",
    ),
    key("train.momentum", Real(0.0, 0.9999), "0.9"),
    key("train.nesterov", Switch, "true"),
    key("train.lr", Real(1e-9, 1e3), "0.1"),
    key(
        "train.template_lr_mult",
        Real(1e-6, 1e6),
        "1; factor on train.lr for templates, except those of depthwise layers",
    ),
    key("train.coefficient_lr_mult", Real(1e-6, 1e6), "1; factor on train.lr for coefficients"),
    key("train.schedule", Word(&["multistep", "constant", "one-cycle"]), "multistep"),
    key(
        "train.milestones",
        List(&MILESTONE),
        "66% with weight averaging (train.swa_epochs), or the epoch where averaging starts; without it \
         30%, 60%, 90%, or 30%, 60%, 80% for members of different architectures",
    ),
    key("train.gamma", Real(1e-6, 1.0), "0.2"),
    key("train.warmup_epochs", Whole(0, 100_000), "0"),
    key("train.pct_start", Real(0.0, 1.0), "0.3"),
    key("train.div_factor", Real(1.0, 1e9), "25"),
    key("train.final_div_factor", Real(1.0, 1e9), "10000"),
    key("train.weight_decay", Real(0.0, 1.0), "0.0005"),
    key(
        "train.weight_decay_on",
        List(&Word(&KINDS)),
        "templates, convolutions, batch-norm, classifier; with grid and kronecker also coefficients",
    ),
    key(
        "train.shared_weight_decay_mult",
        Real(0.0, 1e3),
        "1; factor on train.weight_decay for templates, patterns and coefficients, except those of \
         classifiers and of depthwise layers",
    ),
    key(
        "train.swa_epochs",
        Amount("epochs (50) or a share of them (\"25%\")"),
        "26%, rounded down, for one network on the multistep schedule without milestones of its own, else \
         0; the run keeps the mean of the parameters after each of the last N epochs (stochastic weight \
         averaging) and recomputes batch norm's statistics; 0 keeps the parameters of the last step",
    ),
    key("train.label_smoothing", Real(0.0, 0.9999), "0"),
    key("train.precision", Word(&["auto", "f32", "bf16"]), "auto"),
    key(
        "search.epochs",
        Whole(1, 100_000),
        "20, or 10% of fewer than 200; 15 for coefficient-clustering",
    ),
    key("search.lr", Real(1e-9, 1e3), "train.lr"),
    key("search.tau", Real(-1.0, 1.0), "0.1"),
    key("search.min_templates", Whole(1, 1_000_000), "3 with grid, else 8"),
    key("search.algorithm", Word(&["merge", "released"]), "merge"),
    key("search.batches", Whole(0, MOST), "0: the whole last epoch"),
    key("search.clusters", Whole(1, 100_000), "4"),
    key("refine.epoch", Whole(1, 100_000), "10, or 5% of fewer than 200 epochs"),
    key("refine.beta", Real(-1.0, 1.0), "0.9"),
    key("refine.reserve", Real(0.0, 1.0), "1"),
    key(
        "refine.reinit",
        Switch,
        "false: a new coefficient group starts from a copy; true: all parameters are reinitialised, while \
         epochs and schedule continue",
    ),
    key("eval.validation_every", Whole(1, 100_000), "1: after every epoch"),
    key("eval.test", Switch, "true; set false while settings are being chosen"),
    key("eval.test_every", Whole(0, 100_000), "0: at the end only"),
];

/// Words for keys in earlier versions, in PyTorch and in timm, with the key that means the same.
const SYNONYMS: &[(&str, &str)] = &[
    ("train.rate", "train.lr"),
    ("rate", "train.lr"),
    ("lr", "train.lr"),
    ("learning_rate", "train.lr"),
    ("base_lr", "train.lr"),
    ("max_lr", "train.lr"),
    ("search.rate", "search.lr"),
    ("template_rate", "train.template_lr_mult"),
    ("coefficient_rate", "train.coefficient_lr_mult"),
    ("drops", "train.milestones"),
    ("decay_epochs", "train.milestones"),
    ("decay_milestones", "train.milestones"),
    ("drop_factor", "train.gamma"),
    ("decay_rate", "train.gamma"),
    ("sched", "train.schedule"),
    ("scheduler", "train.schedule"),
    ("lr_scheduler", "train.schedule"),
    ("warm_up", "train.warmup_epochs"),
    ("warmup", "train.warmup_epochs"),
    ("rise", "train.pct_start"),
    ("start_divisor", "train.div_factor"),
    ("end_divisor", "train.final_div_factor"),
    ("decay", "train.weight_decay"),
    ("wd", "train.weight_decay"),
    ("decay_on", "train.weight_decay_on"),
    ("shared_decay", "train.shared_weight_decay_mult"),
    ("average", "train.swa_epochs"),
    ("swa", "train.swa_epochs"),
    ("batch", "train.batch_size"),
    ("bs", "train.batch_size"),
    ("bn_batch", "train.bn_batch_size"),
    ("repeats", "train.batch_repetitions"),
    ("at_once", "train.members_per_step"),
    ("distilled", "train.distillation"),
    ("smoothing", "train.label_smoothing"),
    ("amp", "train.precision"),
    ("num_epochs", "train.epochs"),
    ("least_area", "data.min_crop_scale"),
    ("scale", "data.min_crop_scale"),
    ("dataset", "data.name"),
    ("val_split", "data.validation"),
    ("hflip", "data.flip"),
    ("anew", "refine.reinit"),
    ("pq", "search.algorithm"),
    ("held_out_every", "eval.validation_every"),
    ("val_every", "eval.validation_every"),
    ("model", "members"),
    ("models", "members"),
    ("arch", "members"),
    ("architecture", "members"),
    ("params", "budget"),
    ("random_seed", "seed"),
];

/// Words for values in earlier versions, in PyTorch and in timm, with the value that means the
/// same.
const VALUE_SYNONYMS: &[(&str, &str)] = &[
    ("drops", "multistep"),
    ("step", "multistep"),
    ("steps", "multistep"),
    ("none", "constant"),
    ("onecycle", "one-cycle"),
    ("fp32", "f32"),
    ("float32", "f32"),
    ("bfloat16", "bf16"),
    ("amp", "bf16"),
];

/// The allowed word that another one probably means: its synonym, else a word that differs in at
/// most two letters and less than half of them.
fn nearest_word(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let plain = text.to_ascii_lowercase().replace('_', "-");
    let synonym = VALUE_SYNONYMS.iter().find(|(known, _)| *known == plain).map(|(_, word)| *word);
    if let Some(word) = synonym.filter(|word| words.contains(word)) {
        return Some(word);
    }
    let letters = |word: &&str| letters_apart(&plain, word);
    let best = words.iter().copied().min_by_key(letters)?;
    (2 * letters(&best) < best.len() && letters(&best) <= 2).then_some(best)
}

/// The table row of a key.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether this is the name of a table of keys.
pub(super) fn is_table(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.split_once('.').is_some_and(|(table, _)| table == path))
}

impl Kind {
    /// Checks a value. The error holds the index of the wrong list element and the problem.
    pub(super) fn check(&self, value: &Value) -> Result<(), (Option<usize>, String)> {
        let alone = |fine: bool| {
            if fine { Ok(()) } else { Err((None, format!("{} is not allowed", shown(value)))) }
        };
        match self {
            Whole(least, most) => {
                let range = *least..=*most;
                alone(
                    value
                        .as_integer()
                        .and_then(|n| u64::try_from(n).ok())
                        .is_some_and(|n| range.contains(&n)),
                )
            }
            Real(least, most) => {
                let number = value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
                alone(number.is_some_and(|n| *least <= n && n <= *most))
            }
            Switch => alone(value.is_bool()),
            Word(words) => match value.as_str() {
                Some(text) if words.contains(&text) => Ok(()),
                text => {
                    let meant = text.and_then(|text| nearest_word(text, words));
                    let suggestion =
                        meant.map_or(String::new(), |word| format!(", did you mean '{word}'?"));
                    Err((None, format!("{} is not allowed{suggestion}", shown(value))))
                }
            },
            Text(_) => alone(value.is_str()),
            Amount(_) => alone(value.is_str() || value.as_integer().is_some_and(|n| n >= 0)),
            List(kind) => match value.as_array() {
                None => Err((None, format!("{} is not a list", shown(value)))),
                Some(values) => values.iter().enumerate().try_for_each(|(i, value)| {
                    kind.check(value).map_err(|(_, problem)| (Some(i), problem))
                }),
            },
        }
    }
}

/// A value as typed, at most 60 characters.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Table(_) => "a table".to_owned(),
        value => value.to_string(),
    };
    if text.chars().count() <= 60 { text } else { text.chars().take(60).chain(['…']).collect() }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Whole(least, MOST) => write!(f, "a whole number, {least} or more"),
            Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Real(least, most) => write!(f, "a number from {least} to {most}"),
            Switch => write!(f, "true or false"),
            Word(words) => write!(f, "{}", words.join(", ")),
            Text(what) | Amount(what) => write!(f, "{what}"),
            List(kind @ Word(_)) => write!(f, "a list of some of {kind}"),
            List(kind @ (Text(_) | Amount(_))) => write!(f, "a list of {kind}"),
            List(kind) => write!(f, "a list, each {kind}"),
        }
    }
}

/// The known key that an unknown one probably means: its synonym, else the key that differs in the
/// fewest letters, where another table counts as two letters.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let path = path.replace('-', "_");
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let table = path.rsplit_once('.').map(|(table, _)| table);
    let synonym =
        |word: &str| SYNONYMS.iter().find(|(known, _)| *known == word).map(|(_, key)| *key);
    if let Some(key) = synonym(&path).or_else(|| synonym(&last(&path))) {
        return Some(key);
    }
    let letters = |known: &str| letters_apart(&last(&path), &last(known));
    let distance = |known: &&str| {
        let own = known.rsplit_once('.').map(|(table, _)| table);
        letters(known) + if own == table { 0 } else { 2 }
    };
    let tables = KEYS.iter().filter_map(|key| key.path.split_once('.').map(|(table, _)| table));
    let best = KEYS.iter().map(|key| key.path).chain(tables).min_by_key(distance)?;
    (letters(best) <= 2.min(last(best).len() / 2)).then_some(best)
}

/// Names of the keys in a table; without a table, the top-level keys and the tables.
pub(super) fn names(table: Option<&str>) -> String {
    let mut names: Vec<&str> = vec![];
    for key in KEYS {
        let name = match (table, key.path.split_once('.')) {
            (Some(table), Some((own, name))) if own == table => name,
            (None, None) => key.path,
            (None, Some((own, _))) if names.last() != Some(&own) => own,
            _ => continue,
        };
        names.push(name);
    }
    names.join(", ")
}

/// Levenshtein distance of two texts.
fn letters_apart(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(100).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, letters) in [
            ("", "", 0),
            ("abc", "", 3),
            ("epoch", "epochs", 1),
            ("seeds", "speed", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(letters_apart(a, b), letters, "{a} {b}");
            assert_eq!(letters_apart(b, a), letters, "{b} {a}");
        }
    }

    #[test]
    fn unknown_keys_get_the_nearest() {
        for (typed, meant) in [
            ("train.epoch", "train.epochs"),
            ("epochs", "train.epochs"),
            ("search.epoch", "search.epochs"),
            ("refine.epochs", "refine.epoch"),
            ("learning.lr", "train.lr"),
            ("train.bn-batch", "train.bn_batch_size"),
            ("memebers", "members"),
            ("train.tau", "search.tau"),
            ("trian", "train"),
        ] {
            assert_eq!(nearest(typed), Some(meant), "{typed}");
        }
        assert_eq!(nearest("train.zzzzzz"), None);
        assert_eq!(nearest(""), None);
    }

    #[test]
    fn a_word_that_is_not_allowed_suggests_one() {
        let schedules = ["multistep", "constant", "one-cycle"];
        for (typed, meant) in [
            ("drops", Some("multistep")),
            ("one_cycle", Some("one-cycle")),
            ("OneCycle", Some("one-cycle")),
            ("constat", Some("constant")),
            ("cosine", None),
            ("fp32", None),
        ] {
            assert_eq!(nearest_word(typed, &schedules), meant, "{typed}");
        }
    }

    #[test]
    fn synonyms_name_keys() {
        for (word, key) in SYNONYMS {
            assert!(find(key).is_some(), "{word} → {key}");
            assert!(find(word).is_none(), "{word} is a key");
        }
    }

    #[test]
    fn every_key_has_one_row() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..i].iter().all(|other| other.path != key.path), "{}", key.path);
        }
    }
}
