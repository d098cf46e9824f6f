//! `--set key=value`: reads a TOML value, also without quotes and brackets where the key's kind
//! makes it clear.
//!
//! The key's [`Kind`] decides how a value is read. Words and texts need no quotes
//! (`strategy=no-refine`, `budget=10%`), lists need no brackets (`members=wrn-28-7,wrn-28-4`). The
//! last override of a key applies.

use toml::{Table, Value};

use super::error::{Place, RecipeError};
use super::keys::{self, Key, Kind};

/// Reads and checks the key and value of a flag.
pub(super) fn parse(typed: &str) -> Result<(&'static Key, Value), RecipeError> {
    let place = || Place::Flag(typed.to_owned());
    let syntax =
        |problem: &str| RecipeError::Syntax { place: place(), problem: problem.to_owned() };
    let (path, text) = typed
        .split_once('=')
        .ok_or_else(|| syntax("write key=value, for example --set train.epochs=10"))?;
    let (path, text) = (path.trim(), text.trim());
    let key = keys::find(path).ok_or_else(|| unknown(place(), path))?;
    let wrong = |problem| RecipeError::Value {
        place: place(),
        key: key.path,
        problem,
        allowed: key.kind.to_string(),
    };
    let value = read(&key.kind, text).ok_or_else(|| wrong(format!("'{text}' cannot be read")))?;
    key.kind.check(&value).map_err(|(_, problem)| wrong(problem))?;
    Ok((key, value))
}

/// Inserts a value at the path of its key.
pub(super) fn put(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(table.insert(path.to_owned(), value)),
        Some((inner, name)) => {
            let inner = table.entry(inner).or_insert_with(|| Value::Table(Table::new()));
            let inner =
                inner.as_table_mut().expect("the file was checked: a table's name holds a table");
            inner.insert(name.to_owned(), value);
        }
    }
}

/// Error for an unknown key, with the key that was probably meant.
pub(super) fn unknown(place: Place, path: &str) -> RecipeError {
    let table = path.split_once('.').map_or(path, |(table, _)| table);
    let allowed = keys::names(Some(table).filter(|table| keys::is_table(table)));
    RecipeError::UnknownKey {
        place,
        key: path.to_owned(),
        suggestion: keys::nearest(path).filter(|near| *near != path),
        allowed,
    }
}

fn read(kind: &Kind, text: &str) -> Option<Value> {
    let bare = || Value::String(text.to_owned());
    match kind {
        _ if text.is_empty() || text.contains(['\n', '\r']) => None,
        Kind::Word(_) | Kind::Text(_) | Kind::Amount(_) if !text.starts_with(['"', '\'']) => {
            Some(bare())
        }
        Kind::List(inner) => match text.parse::<Value>() {
            Ok(value @ Value::Array(_)) => Some(value),
            _ => {
                let open = text.strip_prefix('[');
                let text = match open {
                    Some(rest) => rest.strip_suffix(']')?,
                    None => text,
                };
                let values: Option<Vec<Value>> =
                    text.split(',').map(|text| read(inner, text.trim())).collect();
                Some(Value::Array(values?))
            }
        },
        Kind::Word(_) | Kind::Text(_) | Kind::Amount(_) => text.parse().ok(),
        // Text that is not TOML becomes a string, which the check refuses and shows.
        Kind::Whole(..) | Kind::Real(..) | Kind::Switch => {
            Some(text.parse().unwrap_or_else(|_| bare()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{CountOrText, Recipe, Strategy};

    fn set(overrides: &[&str]) -> Result<Recipe, RecipeError> {
        Recipe::parse("r.toml", "budget = '5%'\n[train]\nepochs = 3", overrides)
    }

    #[test]
    fn values_need_no_quotes_where_the_kind_is_clear() {
        let recipe = set(&[
            "train.epochs=10",
            " budget = 10% ",
            "members=wrn-28-7,wrn-28-4",
            "strategy=\"no-refine\"",
            "seeds=[1, 2,3]",
            "train.milestones=[30%,60%]",
            "name=7",
            "train.lr=1e-2",
            "data.flip=false",
            "train.epochs=11",
            "train.weight_decay_on=templates",
            "plan.block=16",
        ])
        .unwrap();
        assert_eq!(recipe.train.epochs, Some(11));
        assert_eq!(recipe.budget, Some(CountOrText::Text("10%".into())));
        assert_eq!(recipe.members.unwrap(), ["wrn-28-7", "wrn-28-4"]);
        assert_eq!(recipe.strategy, Some(Strategy::NoRefine));
        assert_eq!(recipe.seeds.unwrap(), [1, 2, 3]);
        assert_eq!(
            recipe.train.milestones.unwrap(),
            [CountOrText::Text("30%".into()), CountOrText::Text("60%".into())]
        );
        assert_eq!(recipe.name.unwrap(), "7");
        assert_eq!((recipe.train.lr, recipe.data.flip), (Some(0.01), Some(false)));
        assert_eq!(recipe.train.weight_decay_on.unwrap().len(), 1);
        assert_eq!(recipe.plan.block, Some(CountOrText::Text("16".into())));
    }

    #[test]
    fn lists_in_every_spelling() {
        for typed in [
            "members=['wrn-28-7', \"wrn-28-4\"]",
            "members=[wrn-28-7,wrn-28-4]",
            "members='wrn-28-7',wrn-28-4",
        ] {
            assert_eq!(
                set(&[typed]).unwrap().members.unwrap(),
                ["wrn-28-7", "wrn-28-4"],
                "{typed}"
            );
        }
        assert_eq!(set(&["train.milestones=[]"]).unwrap().train.milestones.unwrap(), []);
    }

    #[test]
    fn errors_name_the_flag() {
        for (typed, message) in [
            (
                "train.epochs",
                "--set train.epochs: write key=value, for example --set train.epochs=10",
            ),
            (
                "train.epochs=ten",
                "--set train.epochs=ten: train.epochs: \"ten\" is not allowed; allowed: a whole number from 1 to 100000",
            ),
            (
                "eval.tests=1",
                "--set eval.tests=1: there is no key 'eval.tests', did you mean 'eval.test'?; allowed here: validation_every, test, test_every",
            ),
            (
                "eval=1",
                "--set eval=1: there is no key 'eval'; allowed here: validation_every, test, test_every",
            ),
            (
                "strategy=",
                "--set strategy=: strategy: '' cannot be read; allowed: swn, no-refine, no-search, depth-binned, random, all-soft, weight-similarity, coefficient-clustering",
            ),
            (
                "search.algorithm='merge",
                "--set search.algorithm='merge: search.algorithm: ''merge' cannot be read; allowed: merge, released",
            ),
            (
                "seeds=[1,2",
                "--set seeds=[1,2: seeds: '[1,2' cannot be read; allowed: a list, each a whole number, 0 or more",
            ),
            (
                "seeds=1,x",
                "--set seeds=1,x: seeds: \"x\" is not allowed; allowed: a list, each a whole number, 0 or more",
            ),
        ] {
            assert_eq!(set(&[typed]).unwrap_err().to_string(), message);
        }
        assert!(set(&["train.epochs=1\nseed=2"]).is_err());
        assert!(
            set(&["train.epochs=1", "tarin.epochs=1"])
                .unwrap_err()
                .to_string()
                .contains("did you mean 'train.epochs'")
        );
    }
}
