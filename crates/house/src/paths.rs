//! Paths of this repository that comments and documents name: every one exists.
//!
//! A path is named where a word begins with one of the top folders and ends in a file name with an
//! extension. It may be meant from the root or from any folder above the file. Words with
//! placeholders, such as NAME, `*` or `…`, are no paths.

use std::path::Path;

use crate::lexer::{Kind, tokens};
use crate::tree::File;
use crate::words::Allowed;

const FOLDERS: [&str; 9] =
    ["benches/", "compare/", "crates/", "docs/", "fuzz/", "ops/", "recipes/", "results/", "tools/"];

/// Paths that do not exist, as `path:line: …`.
pub fn find(root: &Path, files: &[File], allowed: &Allowed) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let history = file.name() == "CHANGELOG.md" || file.path.starts_with("docs/archive/");
        if history || allowed.allows(&file.path, "paths") {
            continue;
        }
        for (line, path) in named(file) {
            let exists =
                |path: &str| root.join(path).exists() || files.iter().any(|file| file.path == path);
            let mut folders = file.path.match_indices('/').map(|(at, _)| &file.path[..at]);
            if !exists(&path) && !folders.any(|folder| exists(&format!("{folder}/{path}"))) {
                found.push(format!("{}:{line}: there is no {path}", file.path));
            }
        }
    }
    found
}

/// Paths that a file names, with lines.
fn named(file: &File) -> Vec<(usize, String)> {
    let lines: Vec<(usize, String)> = match file.path.rsplit_once('.').map(|(_, e)| e) {
        Some("rs" | "cu" | "cuh") => {
            let comments = tokens(&file.text).into_iter().filter(|t| t.kind == Kind::Comment);
            let each = |token: crate::lexer::Token| {
                let lines: Vec<String> = token.text.lines().map(str::to_owned).collect();
                lines.into_iter().enumerate().map(move |(n, line)| (token.line + n, line))
            };
            comments.flat_map(each).collect()
        }
        Some("md" | "py" | "sh") => {
            file.text.lines().enumerate().map(|(n, line)| (n + 1, line.to_owned())).collect()
        }
        Some("toml") => {
            let comment =
                |(n, line): (usize, &str)| Some((n + 1, line[line.find('#')?..].to_owned()));
            file.text.lines().enumerate().filter_map(comment).collect()
        }
        _ => vec![],
    };
    let paths = |(n, line): (usize, String)| {
        let found: Vec<_> = words(&line).into_iter().map(|word| (n, word)).collect();
        found
    };
    lines.into_iter().flat_map(paths).collect()
}

fn words(line: &str) -> Vec<String> {
    let in_path = |c: char| c.is_alphanumeric() || "_./-*…{}$<>=~:@".contains(c);
    let mut found = Vec::new();
    for word in line.split(|c| !in_path(c)) {
        // '--set plan.file=../../ops/jobs/a.json' names no path from here.
        let word = word.trim_end_matches(['.', ':']);
        let plain = word.chars().all(|c| c.is_alphanumeric() || "_./-".contains(c));
        let placeholder = word.split(['/', '.', '-']).any(|part| {
            part.len() > 1
                && part != "README"
                && part != "CHANGELOG"
                && part.chars().all(|c| c.is_ascii_uppercase())
        });
        let file = word.rsplit('/').next().is_some_and(|name| {
            name.split_once('.').is_some_and(|(stem, extension)| {
                !stem.is_empty() && !extension.is_empty() && !extension.contains('/')
            })
        });
        if plain && file && !placeholder && FOLDERS.iter().any(|folder| word.starts_with(folder)) {
            found.push(word.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let text = "//! `docs/a.md`, docs/b.md. crates/x/src/*.rs results/NAME.toml (benches/own.rs)\n\
                    fn f() { \"docs/c.md\" } // x/docs/d.md, docs/notes";
        let files = [
            File::new("crates/x/src/lib.rs", text),
            File::new("docs/a.md", "see recipes/gone.toml"),
            File::new("crates/x/benches/own.rs", ""),
        ];
        let found = find(Path::new("/nowhere"), &files, &Allowed::parse(""));
        let expected = [
            "crates/x/src/lib.rs:1: there is no docs/b.md",
            "docs/a.md:1: there is no recipes/gone.toml",
        ];
        assert_eq!(found, expected);
        let allowed = Allowed::parse("docs/* paths\ncrates/* paths");
        assert!(find(Path::new("/nowhere"), &files, &allowed).is_empty());
    }
}
