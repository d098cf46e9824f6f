//! Checks of this repository's text: no circle between modules, no banned word, no broken link
//! or path.
//!
//! `cargo test -p house` runs all of them; `cargo run -p house -- cycles|words|links|paths` prints
//! findings. Everything is read as text: no crate is compiled, and there is no dependency.

pub mod cycles;
pub mod lexer;
pub mod links;
pub mod modules;
pub mod paths;
pub mod surface;
pub mod tree;
pub mod words;

use std::path::Path;

use modules::Crate;
use tree::files;

/// Circles between modules of every crate below `crates/`.
pub fn find_cycles(root: &Path) -> Vec<String> {
    let sources = files(root, &["rs"]);
    let mut names: Vec<&str> = sources
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"))
        .map(|(name, _)| name)
        .collect();
    names.dedup();
    let found = names.into_iter().flat_map(|name| {
        cycles::cycles(&Crate::read(name, &format!("crates/{name}/src/"), &sources))
    });
    found.map(|cycle| cycle.to_string()).collect()
}

/// Banned words and comments that are too wide.
pub fn find_words(root: &Path) -> Vec<String> {
    let sources = files(root, &["rs", "cu", "cuh", "py", "sh", "md", "toml"]);
    words::find(&sources, &words::Allowed::parse(include_str!("../allow.txt")))
}

/// Links of Markdown files that lead nowhere.
pub fn find_links(root: &Path) -> Vec<String> {
    links::find(root, &files(root, &["md"]))
}

/// Paths in comments and documents that do not exist.
pub fn find_paths(root: &Path) -> Vec<String> {
    let sources = files(root, &["rs", "cu", "cuh", "py", "sh", "md", "toml"]);
    paths::find(root, &sources, &words::Allowed::parse(include_str!("../allow.txt")))
}

/// Changes of the public items of the library crates since they were recorded.
pub fn find_surface(root: &Path) -> Vec<String> {
    surface::find(root)
}
