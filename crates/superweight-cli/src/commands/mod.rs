//! One file per verb.

pub mod anytime;
pub mod bench;
pub mod data;
pub mod demo;
mod device;
pub mod eval;
pub mod export;
pub mod plan;
pub mod predict;
pub mod report;
pub mod search;
pub mod slim;
pub mod sweep;
pub mod train;

use std::fs::{OpenOptions, remove_file};
use std::io;
use std::path::Path;

use anyhow::Result;
use superweight::recipe::{Recipe, Resolved};

/// A recipe and what it comes to; what it asks for in vain is said.
fn load_recipe(path: &Path, set: &[impl AsRef<str>]) -> Result<(Recipe, Resolved)> {
    let recipe = Recipe::load(path, set)?;
    let resolved = recipe.resolve()?;
    recipe.unheard(&resolved).iter().for_each(|unheard| eprintln!("warning: {unheard}"));
    Ok((recipe, resolved))
}

/// A path that cannot be written fails now, not after the work; nothing is left there.
fn check_writable(path: &Path) -> io::Result<()> {
    let new = !path.exists();
    OpenOptions::new().create(true).append(true).open(path)?;
    if new { remove_file(path) } else { Ok(()) }
}
