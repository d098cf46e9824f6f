//! What may stand in a recipe: one row per key. Files and `--set` are checked against it before anything is read from
//! them, and every message says from it what is allowed. A test holds it against the fields of [`Recipe`](super::Recipe).

use std::fmt;

use toml::Value;

use super::strategy::Strategy;

/// A key, its values and what it is when left out.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// With its table: `train.epochs`.
    pub path: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What it is when left out, in words.
    pub default: &'static str,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in a range.
    Whole(u64, u64),
    /// A number in a range.
    Real(f64, f64),
    /// `true` or `false`.
    Switch,
    /// One of these.
    Word(&'static [&'static str]),
    /// A text, described here; looked at when the recipe is resolved.
    Text(&'static str),
    /// The same, or a whole number.
    Amount(&'static str),
    /// Several.
    List(&'static Kind),
}

use Kind::{Amount, List, Real, Switch, Text, Whole, Word};

/// TOML's whole numbers end here.
const MOST: u64 = i64::MAX as u64;
const MEMBER: Kind = Text(
    "network names such as wrn-28-10, wrn-50-2, resnet-50, mobilenet-v2, cnn-8-16, mimo-3-wrn-28-10, msdnet-16-12",
);
const DROP: Kind =
    Amount("epochs (60) or shares of them (\"30%\"), ascending, inside of the training");

/// The decay groups, as they are typed.
pub(super) const KINDS: [&str; 6] =
    ["templates", "coefficients", "convolutions", "depthwise", "batch-norm", "classifier"];

const fn key(path: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { path, kind, default }
}

/// All of them, in the order of the file.
pub const KEYS: &[Key] = &[
    key(
        "name",
        Text("letters, digits, '.', '_' and '-', at most 100: it names the run's folder"),
        "the file's name",
    ),
    key("members", List(&MEMBER), "[\"wrn-28-10\"]"),
    key(
        "budget",
        Amount("a count (365368, 500K, 36.5M) or a share of the members' total (10%)"),
        "10%",
    ),
    key("strategy", Word(&Strategy::WORDS), "swn"),
    key("seed", Whole(0, MOST), "the first of seeds, or 0"),
    key("seeds", List(&Whole(0, MOST)), "[seed]"),
    key("data.name", Text("the name of a data set ('swn data list')"), "cifar-100"),
    key(
        "data.digest",
        Text(
            "the digest of a set of your own, which complete recipes of runs have: no other images will do",
        ),
        "none: whatever was packed under this name",
    ),
    key(
        "data.validation",
        Amount("images (5000) or a share of the training images (\"10%\")"),
        "0",
    ),
    key("data.split_seed", Whole(0, MOST), "0"),
    key("data.crop", Word(&["pad", "random-resized"]), "random-resized for imagenet, else pad"),
    key(
        "data.least_area",
        Real(0.01, 1.0),
        "0.08 with crop = \"random-resized\": of an image, the smallest part that is stretched to its size",
    ),
    key(
        "data.padding",
        Whole(0, 64),
        "with crop = \"pad\" 4, an eighth of the side for pictures of your own; else 0",
    ),
    key("data.flip", Switch, "false for mnist, else true"),
    key(
        "data.cutout",
        Whole(0, 1024),
        "16 for CIFAR, but 0 for several members that are alike; else 0",
    ),
    key(
        "plan.file",
        Text(
            "a plan (JSON), beside the recipe: what is trained, instead of the other keys of [plan] and a search",
        ),
        "planned by the keys below",
    ),
    key(
        "plan.clusters",
        Text("single, depth:K, random:K, random:K:SEED, per-layer, per-position or dense"),
        "as the strategy says",
    ),
    key(
        "plan.tiling",
        Word(&["auto", "nested", "grid", "kronecker", "stretched", "rank-one"]),
        "auto: nested if half the budget pays for it or nothing has to be saved, else grid, or kronecker where a grid has no room; stretched is Shapeshifter Networks, rank-one with plan.clusters = per-position and plan.share_stem BatchEnsemble",
    ),
    key(
        "plan.block",
        Amount("auto, or the side of a grid's blocks from 1 to 4096"),
        "auto: the first of 8, 16 and 32 of which the budget pays for three templates a set; with kronecker what makes templates smallest",
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
        "true where blocks (grid, kronecker) make it smaller, with stretched and rank-one, else false",
    ),
    key("train.epochs", Whole(1, 100_000), "200"),
    key("train.batch", Whole(1, 1_048_576), "128, or all images trained on where there are fewer"),
    key(
        "train.repeats",
        Whole(1, 64),
        "4 for networks that see several images at once (mimo-3-wrn-28-10), and theirs alone: each image of a step comes so many times for every head, in an order of the head's own",
    ),
    key(
        "train.at_once",
        Whole(1, 64),
        "all members. Fewer, but 3 at least: a step trains the largest (by multiply-adds), the smallest and some of those between, each of which has its turn; what only the others have stays as it is",
    ),
    key(
        "train.distilled",
        Switch,
        "false; true: the largest member (by multiply-adds) alone learns from labels, smoothed or not, and the others from its probabilities for the same images; the training loss that is shown is every member's against labels. Not for networks that see several images at once",
    ),
    key(
        "train.bn_batch",
        Whole(1, 1_048_576),
        "64 where members are alike and it divides the batch (times train.repeats), else all of it",
    ),
    key("train.momentum", Real(0.0, 0.9999), "0.9"),
    key("train.nesterov", Switch, "true"),
    key("train.rate", Real(1e-9, 1e3), "0.1"),
    key("train.template_rate", Real(1e-6, 1e6), "1: of train.rate; not for depthwise layers"),
    key("train.coefficient_rate", Real(1e-6, 1e6), "1: of train.rate"),
    key("train.schedule", Word(&["drops", "constant", "one-cycle"]), "drops"),
    key(
        "train.drops",
        List(&DROP),
        "66% with a mean (train.average), or where it begins; without one 30%, 60%, 90%, or 30%, 60%, 80% where members differ",
    ),
    key("train.drop_factor", Real(1e-6, 1.0), "0.2"),
    key("train.warm_up", Whole(0, 100_000), "0"),
    key("train.rise", Real(0.0, 1.0), "0.3"),
    key("train.start_divisor", Real(1.0, 1e9), "25"),
    key("train.end_divisor", Real(1.0, 1e9), "10000"),
    key("train.decay", Real(0.0, 1.0), "0.0005"),
    key(
        "train.decay_on",
        List(&Word(&KINDS)),
        "templates, convolutions, batch-norm, classifier; with grid and kronecker coefficients too",
    ),
    key(
        "train.shared_decay",
        Real(0.0, 1e3),
        "1: of train.decay, for templates, patterns and coefficients; not for classifiers, nor templates of depthwise layers",
    ),
    key(
        "train.average",
        Amount("epochs (50) or a share of them (\"25%\")"),
        "26%, rounded down, for one network whose schedule is drops and whose drops are not given, else 0. What is kept is the mean of what so many last epochs end with, with batch norm's statistics taken anew; 0: the numbers of the last step",
    ),
    key("train.label_smoothing", Real(0.0, 0.9999), "0"),
    key("train.precision", Word(&["auto", "f32", "bf16"]), "auto"),
    key(
        "search.epochs",
        Whole(1, 100_000),
        "20, or 10% of fewer than 200; 15 for coefficient-clustering",
    ),
    key("search.rate", Real(1e-9, 1e3), "train.rate"),
    key("search.tau", Real(-1.0, 1.0), "0.1"),
    key("search.min_templates", Whole(1, 1_000_000), "3 with grid, else 8"),
    key("search.pq", Word(&["merge", "released"]), "merge"),
    key("search.batches", Whole(0, MOST), "0: the whole last epoch"),
    key("search.clusters", Whole(1, 100_000), "4"),
    key("refine.epoch", Whole(1, 100_000), "10, or 5% of fewer than 200 epochs"),
    key("refine.beta", Real(-1.0, 1.0), "0.9"),
    key("refine.reserve", Real(0.0, 1.0), "1"),
    key(
        "refine.anew",
        Switch,
        "false: groups that part start from a copy; true: all numbers are drawn anew, epochs and rate go on",
    ),
    key("eval.held_out_every", Whole(1, 100_000), "1: after every epoch"),
    key("eval.test", Switch, "true; false for runs that settings are chosen by"),
    key("eval.test_every", Whole(0, 100_000), "0: at the end only"),
];

/// The row of a key.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether some key stands in this table.
pub(super) fn is_table(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.split_once('.').is_some_and(|(table, _)| table == path))
}

impl Kind {
    /// What is wrong with a value, and with which element of a list.
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
            Word(words) => alone(value.as_str().is_some_and(|text| words.contains(&text))),
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

/// A value as it would be typed, cut where it is long.
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

/// The known key that was probably meant: the fewest letters away, where another table counts as two.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().replace('-', "_");
    let table = path.rsplit_once('.').map(|(table, _)| table);
    let letters = |known: &str| letters_apart(&last(path), &last(known));
    let distance = |known: &&str| {
        let own = known.rsplit_once('.').map(|(table, _)| table);
        letters(known) + if own == table { 0 } else { 2 }
    };
    let tables = KEYS.iter().filter_map(|key| key.path.split_once('.').map(|(table, _)| table));
    let best = KEYS.iter().map(|key| key.path).chain(tables).min_by_key(distance)?;
    (letters(best) <= 2.min(last(best).len() / 2)).then_some(best)
}

/// What may stand in a table; the tables themselves at the top.
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

/// Levenshtein's distance.
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
    fn what_was_meant() {
        for (typed, meant) in [
            ("train.epoch", "train.epochs"),
            ("epochs", "train.epochs"),
            ("search.epoch", "search.epochs"),
            ("refine.epochs", "refine.epoch"),
            ("learning.rate", "train.rate"),
            ("train.bn-batch", "train.bn_batch"),
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
    fn keys_are_known_once() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..i].iter().all(|other| other.path != key.path), "{}", key.path);
        }
    }
}
