//! Public items of the library crates, compared with `crates/house/surface/CRATE.txt`.
//!
//! Each public item is one line: kind, path, and signature or type as written in the source. A
//! struct with private fields ends in `{ .. }`, a provided method of a trait too. Trait
//! implementations are not listed.

mod expand;
mod items;
mod reach;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::tree::{File, files};
pub use reach::{Surface, surface};

/// Crates whose public items are recorded.
pub const CRATES: [&str; 3] = ["superweight-plan", "superweight-engine", "superweight"];

/// Command that records the present public items.
pub const COMMAND: &str = "cargo run -q -p house -- surface --write";

const HIDDEN: &str = "# Hidden from the documentation";

impl Surface {
    /// Text of the file that records these items.
    pub fn text(&self, name: &str) -> String {
        let mut text = format!("# Public items of {name}, written by {COMMAND}\n\n");
        self.shown.iter().for_each(|line| text += &format!("{line}\n"));
        if !self.hidden.is_empty() {
            text += &format!("\n{HIDDEN}\n\n");
            self.hidden.iter().for_each(|line| text += &format!("{line}\n"));
        }
        text
    }
}

/// Differences between a recorded text and the present one: `- line` for a removed line, `+ line`
/// for an added one, sorted by path; empty where there is none.
pub fn difference(recorded: &str, present: &str) -> Vec<String> {
    let (recorded, present) = (lines(recorded), lines(present));
    let removed = recorded.difference(&present).map(|line| (line, '-'));
    let added = present.difference(&recorded).map(|line| (line, '+'));
    let mut changed: Vec<_> = removed.chain(added).collect();
    let path = |line: &str| {
        let path = line.split_whitespace().find(|word| word.contains("::")).unwrap_or(line);
        path.split(['(', '<']).next().unwrap_or(path).trim_end_matches(':').to_owned()
    };
    changed.sort_by_key(|((_, line), sign)| (path(line), *sign == '+'));
    let text = |((hidden, line), sign): (&(bool, &str), char)| {
        format!("{sign} {line}{}", if *hidden { "   (hidden)" } else { "" })
    };
    changed.into_iter().map(text).collect()
}

/// Lines of items, with whether each is in the hidden section.
fn lines(text: &str) -> BTreeSet<(bool, &str)> {
    let mut hidden = false;
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim_end) {
        hidden |= line == HIDDEN;
        if !line.is_empty() && !line.starts_with('#') {
            found.insert((hidden, line));
        }
    }
    found
}

fn present(root: &Path) -> Vec<(&'static str, PathBuf, String)> {
    let sources: Vec<File> = files(root, &["rs"]);
    let of = |name| {
        let text = surface(name, &format!("crates/{name}/src/"), &sources).text(name);
        (name, root.join(format!("crates/house/surface/{name}.txt")), text)
    };
    CRATES.into_iter().map(of).collect()
}

/// Differences between the recorded public items and the present ones.
pub fn find(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (name, path, present) in present(root) {
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        let changed = difference(&recorded, &present);
        if !changed.is_empty() {
            let count = |sign| changed.iter().filter(|line| line.starts_with(sign)).count();
            found.push(format!(
                "{name}: {} added, {} removed. If this is meant, run: {COMMAND}\n  {}",
                count('+'),
                count('-'),
                changed.join("\n  ")
            ));
        }
    }
    found
}

/// Records the present public items.
pub fn write(root: &Path) -> std::io::Result<()> {
    for (_, path, text) in present(root) {
        std::fs::create_dir_all(path.parent().expect("a file is in a folder"))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(root: &str, inner: &str) -> Vec<File> {
        vec![
            File::new("crates/made-up/src/lib.rs", root),
            File::new("crates/made-up/src/inner/mod.rs", inner),
            File::new("crates/made-up/src/inner/leaf.rs", "pub fn leaf() {} pub fn other() {}"),
            File::new("crates/made-up/src/tests.rs", "pub fn test() {}"),
        ]
    }

    fn of(root: &str, inner: &str) -> Surface {
        surface("made-up", "crates/made-up/src/", &tree(root, inner))
    }

    const ROOT: &str = "
        mod inner;
        pub mod here { pub use super::inner::deep::*; pub struct Deep2; pub(crate) fn no() {} }
        #[cfg(test)] pub mod tests;
        #[cfg(fuzzing)] pub fn fuzz() {}
        pub use inner::{Shape as Form, deep::{self, Kind}, leaf::leaf};
        #[doc(hidden)] pub use inner::leaf::other;
        pub use std::fmt as format;
        macro_rules! id { ($n:ident) => { pub struct $n(pub usize); impl $n { pub fn get(self) {} } } }
        id!(Id);";
    const INNER: &str = "
        pub mod leaf;
        pub struct Shape { pub side: usize }
        impl Shape { pub const ALL: [u8; 2] = [0, 1]; pub fn new(side: usize,) -> Self { Self { side } }
                     #[doc(hidden)] pub fn raw(&self) {} fn own(&self) {} }
        impl Clone for Shape { fn clone(&self) -> Self { loop {} } }
        pub mod deep { pub enum Kind { A, B(u8) } use super::Shape; impl Shape { pub fn far(&self) {} } }";

    #[test]
    fn items_are_listed_by_the_paths_that_reach_them() {
        let surface = of(ROOT, INNER);
        assert_eq!(
            surface.shown,
            [
                "crate made_up",
                "struct made_up::Form",
                "const made_up::Form::ALL: [u8; 2]",
                "fn made_up::Form::far(&self)",
                "fn made_up::Form::new(side: usize) -> Self",
                "field made_up::Form::side: usize",
                "struct made_up::Id",
                "field made_up::Id::0: usize",
                "fn made_up::Id::get(self)",
                "use made_up::Kind = made_up::deep::Kind",
                "mod made_up::deep",
                "enum made_up::deep::Kind",
                "variant made_up::deep::Kind::A",
                "variant made_up::deep::Kind::B(u8)",
                "use made_up::format = std::fmt",
                "mod made_up::here",
                "struct made_up::here::Deep2",
                "use made_up::here::Kind = made_up::deep::Kind",
                "fn made_up::leaf()",
            ]
        );
        assert_eq!(surface.hidden, ["fn made_up::Form::raw(&self)", "fn made_up::other()"]);
    }

    #[test]
    fn added_removed_changed_and_hidden_items_are_found() {
        let recorded = of(ROOT, INNER).text("made-up");
        assert!(difference(&recorded, &recorded).is_empty());
        let changed =
            |root: &str, inner: &str| difference(&recorded, &of(root, inner).text("made-up"));
        let added = format!("{ROOT} pub fn more(a: u8) {{}}");
        assert_eq!(changed(&added, INNER), ["+ fn made_up::more(a: u8)"]);
        assert_eq!(changed(&ROOT.replace("leaf::leaf", ""), INNER), ["- fn made_up::leaf()"]);
        assert_eq!(
            changed(ROOT, &INNER.replace("side: usize,", "side: u32")),
            [
                "- fn made_up::Form::new(side: usize) -> Self",
                "+ fn made_up::Form::new(side: u32) -> Self"
            ]
        );
        assert_eq!(
            changed(&ROOT.replace("#[doc(hidden)]", ""), INNER),
            ["- fn made_up::other()   (hidden)", "+ fn made_up::other()"]
        );
    }
}
