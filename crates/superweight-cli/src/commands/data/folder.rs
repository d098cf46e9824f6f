//! The folder of data sets.

use std::path::PathBuf;

use anyhow::Result;
use superweight::data::standard_folder;

/// The requested folder, or the standard one.
pub fn folder(requested: Option<PathBuf>) -> Result<PathBuf> {
    Ok(requested.map_or_else(standard_folder, Ok)?)
}
