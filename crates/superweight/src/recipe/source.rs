//! Finds the place of a key: line and column in the file, a flag, or neither. Computed when a
//! message needs it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::error::{Place, RecipeError};
use super::keys;

/// Text of a recipe and the `--set` flags that override it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    pub(super) file: String,
    pub(super) text: String,
    /// Path of each overridden key, and its flag as typed.
    pub(super) flags: Vec<(&'static str, String)>,
}

impl Source {
    /// File name without folder and extension.
    pub(super) fn stem(&self) -> String {
        Path::new(&self.file).file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Path of a file that the recipe names, relative to the folder of the recipe.
    pub(super) fn beside(&self, file: &str) -> PathBuf {
        Path::new(&self.file).parent().unwrap_or(Path::new("")).join(file)
    }

    /// Place of the value of a key, or of an element of its list.
    pub(super) fn place(&self, path: &str, element: Option<usize>) -> Place {
        if let Some((_, typed)) = self.flags.iter().rev().find(|(key, _)| *key == path) {
            return Place::Flag(typed.clone());
        }
        match self.walk(&path.split('.').collect::<Vec<_>>(), element) {
            Some((_, value)) => self.at(value.start),
            None => Place::Default { file: self.file.clone() },
        }
    }

    /// Place of the key itself in the file.
    pub(super) fn key_place(&self, path: &[&str]) -> Place {
        match self.walk(path, None) {
            Some((key, _)) => self.at(key.start),
            None => Place::Default { file: self.file.clone() },
        }
    }

    /// Line and column of a byte offset.
    pub(super) fn at(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Place::File { file: self.file.clone(), line, column }
    }

    /// Error for the value of a known key, or for an element of its list.
    pub(super) fn wrong(
        &self,
        key: &'static str,
        element: Option<usize>,
        problem: String,
    ) -> RecipeError {
        let allowed = keys::find(key).map_or(String::new(), |key| key.kind.to_string());
        RecipeError::Value { place: self.place(key, element), key, problem, allowed }
    }

    /// Byte ranges of a key and of its value, or of an element of its list.
    fn walk(&self, path: &[&str], element: Option<usize>) -> Option<(Range<usize>, Range<usize>)> {
        let parsed = DeTable::parse(&self.text).ok()?;
        let (last, tables) = path.split_last()?;
        let mut table = parsed.get_ref();
        for name in tables {
            table = table.get(*name)?.get_ref().as_table()?;
        }
        let (key, value) = table.get_key_value(*last)?;
        let inner = element.and_then(|element| value.get_ref().as_array()?.get(element));
        Some((key.span(), inner.unwrap_or(value).span()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let text =
            "# grüße\nname = 'x'\n[train]\nepochs = 3\nmilestones = [1,\n  2]\n\"décay\" = 1\n";
        let source = Source {
            file: "a.toml".into(),
            text: text.into(),
            flags: vec![("train.lr", "train.lr=1".into())],
        };
        let shown = |path: &str, element| source.place(path, element).to_string();
        assert_eq!(shown("name", None), "a.toml:2:8");
        assert_eq!(shown("train.epochs", None), "a.toml:4:10");
        assert_eq!(shown("train.milestones", Some(1)), "a.toml:6:3");
        assert_eq!(shown("train.milestones", Some(9)), "a.toml:5:14");
        assert_eq!(shown("train.lr", None), "--set train.lr=1");
        assert_eq!(shown("train.batch_size", None), "a.toml (by default)");
        assert_eq!(source.key_place(&["train", "décay"]).to_string(), "a.toml:7:1");
        assert_eq!(source.at(10_000).to_string(), "a.toml:8:1");
    }
}
