//! The pictures that `swn predict` is given: files, folders, or paths on standard input.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use superweight::data::is_picture;

/// The path of a picture, or what is wrong with a path that was given.
pub type Found = Result<PathBuf, (PathBuf, String)>;

/// Lists all pictures in the order given. '-' stands for the paths on standard input, one per line;
/// a folder stands for the pictures in it and in its folders, by name.
pub fn find(given: &[PathBuf]) -> Result<Vec<Found>> {
    let mut found = vec![];
    for path in given {
        if path.as_os_str() != "-" {
            add(path, &mut found);
            continue;
        }
        for line in io::stdin().lock().lines() {
            let line = line.context("standard input")?;
            if !line.is_empty() {
                add(Path::new(&line), &mut found);
            }
        }
    }
    Ok(found)
}

fn add(path: &Path, found: &mut Vec<Found>) {
    if !path.is_dir() {
        found.push(Ok(path.to_owned()));
        return;
    }
    let before = found.len();
    if let Err(error) = add_folder(path, found) {
        found
            .push(Err((path.to_owned(), format!("{} could not be read: {error}", path.display()))));
    } else if found.len() == before {
        let none =
            format!("{}: the folder has no pictures (.png, .jpg, .webp, .gif)", path.display());
        found.push(Err((path.to_owned(), none)));
    }
}

fn add_folder(folder: &Path, found: &mut Vec<Found>) -> io::Result<()> {
    let mut entries = vec![];
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        entries.push((entry.path(), entry.file_type()?));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (path, kind) in entries {
        // A link to a folder is not followed: it could lead back here.
        if kind.is_dir() {
            add_folder(&path, found)?;
        } else if is_picture(&path) && !path.is_dir() {
            found.push(Ok(path));
        }
    }
    Ok(())
}
