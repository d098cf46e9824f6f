//! Files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file: its path from the root of the repository, with `/`, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path from the root.
    pub path: String,
    /// Contents.
    pub text: String,
}

impl File {
    /// A file that exists only in a test.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Root of the repository that this crate belongs to.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/house is two folders below the root").to_owned()
}

/// Paths of all files that git tracks or would track, sorted. Every other path is a build output.
pub fn paths(root: &Path) -> Vec<String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
    let listed = Command::new("git").arg("-C").arg(root).args(arguments).output();
    let mut paths: Vec<String> = match listed {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect()
        }
        // An unpacked archive has no `.git`.
        _ => walk(root, root),
    };
    paths.sort();
    paths.dedup();
    paths.retain(|path| root.join(path).is_file());
    paths
}

fn walk(root: &Path, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match path.is_dir() {
            true if name != "target" && name != ".git" => found.extend(walk(root, &path)),
            true => {}
            false => {
                let path = path.strip_prefix(root).expect("a path below the root");
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found
}

/// Text files with one of these extensions.
pub fn files(root: &Path, extensions: &[&str]) -> Vec<File> {
    let wanted = |path: &String| {
        path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    };
    let read = |path: String| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(File { path, text })
    };
    paths(root).into_iter().filter(wanted).filter_map(read).collect()
}
