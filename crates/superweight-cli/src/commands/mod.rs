//! One file or folder per verb.

pub mod anytime;
pub mod bench;
pub mod completions;
pub mod data;
pub mod demo;
mod device;
pub mod eval;
pub mod export;
pub mod plan;
pub mod predict;
pub mod report;
pub mod results;
mod runs;
pub mod search;
pub mod slim;
pub mod sweep;
pub mod train;

use std::fs::{OpenOptions, remove_file};
use std::io;
use std::path::Path;

use anyhow::Result;
use superweight::recipe::{Recipe, Resolved};

/// Loads a recipe with its settings and resolves it; prints a warning for each key without an
/// effect.
fn load_recipe(path: &Path, set: &[impl AsRef<str>]) -> Result<(Recipe, Resolved)> {
    let recipe = Recipe::load(path, set)?;
    let resolved = recipe.resolve()?;
    recipe.unused_keys(&resolved).iter().for_each(|unused| eprintln!("warning: {unused}"));
    Ok((recipe, resolved))
}

/// Fails if a file cannot be written at this path, before the work that would be lost; leaves
/// nothing behind.
fn check_writable(path: &Path) -> io::Result<()> {
    let new = !path.exists();
    OpenOptions::new().create(true).append(true).open(path)?;
    if new { remove_file(path) } else { Ok(()) }
}
