//! Reads a [`Recipe`] from a file and `--set` flags: parses the file, checks every key and value
//! against [`KEYS`](super::KEYS), applies the flags, and only then reads the fields.

use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;
use toml::{Table, Value};

use super::error::{Place, RecipeError};
use super::file::Recipe;
use super::resolved::Resolved;
use super::source::Source;
use super::{keys, overrides};
use crate::fs::read_at_most;

/// Largest recipe file in bytes.
const LONGEST: u64 = 1 << 20;

impl Recipe {
    /// Reads the recipe in a file and applies `key=value` overrides in their order.
    pub fn load(path: &Path, overrides: &[impl AsRef<str>]) -> Result<Self, RecipeError> {
        let file = path.display().to_string();
        let text = read_at_most(path, LONGEST)
            .map_err(|source| RecipeError::Read { file: file.clone(), source })?;
        Self::parse(&file, &text, overrides)
    }

    /// Reads the same text again with other overrides. The file is not read again, because it may
    /// be a pipe.
    pub fn with(&self, overrides: &[impl AsRef<str>]) -> Result<Self, RecipeError> {
        Self::parse(&self.source.file, &self.source.text, overrides)
    }

    /// Reads a recipe from text. Messages call it `file`.
    pub fn parse(
        file: &str,
        text: &str,
        overrides: &[impl AsRef<str>],
    ) -> Result<Self, RecipeError> {
        let mut source = Source { file: file.to_owned(), text: text.to_owned(), flags: vec![] };
        let mut table = text.parse::<Table>().map_err(|error| RecipeError::Syntax {
            place: source.at(error.span().map_or(0, |span| span.start)),
            problem: error.message().to_owned(),
        })?;
        check(&table, &source)?;
        for typed in overrides {
            let (key, value) = overrides::parse(typed.as_ref())?;
            overrides::put(&mut table, key.path, value);
            source.flags.push((key.path, typed.as_ref().to_owned()));
        }
        let read = Self::deserialize(Value::Table(table));
        let recipe = read.map_err(|error| RecipeError::Syntax {
            place: Place::Default { file: file.to_owned() },
            problem: error.message().to_owned(),
        })?;
        Ok(Self { source, ..recipe })
    }

    /// Keys that have no effect beside the other settings, one message with its place each:
    /// `train.milestones` with a constant schedule, `search.tau` without a search. Keys of the file
    /// that only a flag makes ineffective are not listed, nor keys that a given plan replaces.
    pub fn unused_keys(&self, resolved: &Resolved) -> Vec<String> {
        let by_file = self.with(&[] as &[&str]).and_then(|recipe| recipe.resolve());
        let unused = keys::KEYS.iter().filter_map(|key| {
            let place = self.source.place(key.path, None);
            let takes_effect = match &place {
                Place::Flag(_) => takes_effect(resolved, key.path),
                Place::File { .. } => {
                    by_file.as_ref().map_or(true, |by_file| takes_effect(by_file, key.path))
                }
                Place::Default { .. } => true,
            };
            (!takes_effect).then(|| format!("{place}: {} has no effect in this recipe", key.path))
        });
        unused.collect()
    }

    /// Text of the recipe with the overrides as comments below it: the `recipe.toml` of a run.
    pub fn as_written(&self) -> String {
        let mut text = self.source.text.clone();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        self.source
            .flags
            .iter()
            .for_each(|(_, typed)| text += &format!("# --set {}\n", typed.replace('\n', " ")));
        text
    }
}

impl FromStr for Recipe {
    type Err = RecipeError;

    /// Reads a recipe from text; messages call it `recipe`.
    fn from_str(text: &str) -> Result<Self, RecipeError> {
        Self::parse("recipe", text, &[] as &[&str])
    }
}

/// Whether a key takes effect: the complete recipe holds it. Keys that a given plan replaces count
/// as effective.
fn takes_effect(resolved: &Resolved, path: &str) -> bool {
    let complete = Table::try_from(resolved.to_recipe()).expect("a recipe is a table");
    let (table, key) = path.split_once('.').unwrap_or(("", path));
    let of_plan = resolved.plan.file.is_some() && ["plan", "search"].contains(&table);
    let table = if table.is_empty() {
        Some(&complete)
    } else {
        complete.get(table).and_then(Value::as_table)
    };
    of_plan || table.is_some_and(|table| table.contains_key(key))
}

fn check(table: &Table, source: &Source) -> Result<(), RecipeError> {
    for (name, value) in table {
        match value {
            Value::Table(inner) if keys::is_table(name) => {
                inner
                    .iter()
                    .try_for_each(|(key, value)| check_key(Some(name), key, value, source))?;
            }
            _ if keys::is_table(name) => {
                let problem = format!(
                    "'{name}' is a table: write [{name}] and its keys below, {}",
                    keys::names(Some(name))
                );
                return Err(RecipeError::Syntax { place: source.key_place(&[name]), problem });
            }
            value => check_key(None, name, value, source)?,
        }
    }
    Ok(())
}

fn check_key(
    table: Option<&str>,
    name: &str,
    value: &Value,
    source: &Source,
) -> Result<(), RecipeError> {
    let path: Vec<&str> = table.into_iter().chain([name]).collect();
    let Some(key) = keys::find(&path.join(".")).filter(|_| !name.contains('.')) else {
        return Err(overrides::unknown(source.key_place(&path), &path.join(".")));
    };
    key.kind.check(value).map_err(|(element, problem)| source.wrong(key.path, element, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, message: &str) {
        let error = Recipe::parse("r.toml", text, &[] as &[&str]).unwrap_err().to_string();
        assert_eq!(error, message);
    }

    #[test]
    fn unknown_keys_get_their_place_and_the_nearest() {
        refused(
            "name = 'x'\n\n[refine]\n  epochs = 3",
            "r.toml:4:3: there is no key 'refine.epochs', did you mean 'refine.epoch'?; allowed here: epoch, beta, reserve, reinit",
        );
        refused(
            "epochs = 3",
            "r.toml:1:1: there is no key 'epochs', did you mean 'train.epochs'?; allowed here: name, members, budget, \
             strategy, seed, seeds, data, plan, train, search, refine, eval",
        );
        refused(
            "[evla]\ntest_every = 1",
            "r.toml:1:2: there is no key 'evla', did you mean 'eval'?; allowed here: name, members, budget, strategy, \
             seed, seeds, data, plan, train, search, refine, eval",
        );
        refused(
            "'eval.test_every' = 1",
            "r.toml:1:1: there is no key 'eval.test_every'; allowed here: validation_every, test, test_every",
        );
        refused(
            "[eval]\nx.y = 1",
            "r.toml:2:1: there is no key 'eval.x'; allowed here: validation_every, test, test_every",
        );
    }

    #[test]
    fn wrong_values_get_their_place_and_what_is_allowed() {
        refused(
            "[train]\nepochs = 'ten'",
            "r.toml:2:10: train.epochs: \"ten\" is not allowed; allowed: a whole number from 1 to 100000",
        );
        refused(
            "train.epochs = 0",
            "r.toml:1:16: train.epochs: 0 is not allowed; allowed: a whole number from 1 to 100000",
        );
        refused(
            "train.epochs = 1.5",
            "r.toml:1:16: train.epochs: 1.5 is not allowed; allowed: a whole number from 1 to 100000",
        );
        refused(
            "seed = -1",
            "r.toml:1:8: seed: -1 is not allowed; allowed: a whole number, 0 or more",
        );
        refused(
            "search.tau = nan",
            "r.toml:1:14: search.tau: nan is not allowed; allowed: a number from -1 to 1",
        );
        refused(
            "search = { algorithm = 'x' }",
            "r.toml:1:24: search.algorithm: \"x\" is not allowed; allowed: merge, released",
        );
        refused(
            "members = 'wrn-28-10'",
            "r.toml:1:11: members: \"wrn-28-10\" is not a list; allowed: a list of network names such as wrn-28-10, wrn-50-2, resnet-50, mobilenet-v2, cnn-8-16, mimo-3-wrn-28-10, msdnet-16-12",
        );
        refused(
            "train.weight_decay_on = [\n'templates',\n 'bn']",
            "r.toml:3:2: train.weight_decay_on: \"bn\" is not allowed; allowed: a list of some of templates, coefficients, convolutions, depthwise, batch-norm, classifier",
        );
        refused(
            "data.flip = 1",
            "r.toml:1:13: data.flip: 1 is not allowed; allowed: true or false",
        );
        refused(
            "strategy = { swn = 1 }",
            "r.toml:1:12: strategy: a table is not allowed; allowed: swn, no-refine, no-search, depth-binned, random, all-soft, weight-similarity, coefficient-clustering",
        );
        refused(
            "eval = 3",
            "r.toml:1:1: 'eval' is a table: write [eval] and its keys below, validation_every, test, test_every",
        );
    }

    #[test]
    fn what_is_not_toml_gets_its_place() {
        for (text, place) in [
            ("name = ", "r.toml:1:8: "),
            ("name = 'a'\nname = 'b'", "r.toml:2:1: "),
            ("\n[train", "r.toml:2:7: "),
        ] {
            let error = Recipe::parse("r.toml", text, &[] as &[&str]).unwrap_err();
            assert!(
                matches!(error, RecipeError::Syntax { .. }) && error.to_string().starts_with(place),
                "{error}"
            );
        }
    }

    #[test]
    fn hostile_files_are_errors() {
        let deep = format!("name = {}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Recipe::parse("r.toml", &deep, &[] as &[&str]).is_err());
        let missing =
            Recipe::load(Path::new("no/such.toml"), &[] as &[&str]).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read the recipe no/such.toml: "), "{missing}");
        assert!(Recipe::load(Path::new("."), &[] as &[&str]).is_err());
    }
}
