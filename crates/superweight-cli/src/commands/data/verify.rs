//! `swn data verify`: every file of every set that is here, by SHA-256. Anything but whole is a failure.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use superweight::data::{self, CATALOGUE, DataError, Entry, FileState, Presence, State};
use superweight::plan::number::grouped;

use super::folder;
use crate::args::VerifyArgs;
use crate::table;

pub fn run(args: VerifyArgs, out: &mut impl Write) -> Result<ExitCode> {
    let folder = folder(args.folder)?;
    let sets = match &args.name {
        Some(name) => vec![named(name, &folder)?],
        None => {
            CATALOGUE.into_iter().filter(|entry| data::presence(entry, &folder) != Presence::Absent).collect()
        }
    };
    let files: Vec<_> = sets.into_iter().map(|entry| (entry, data::verify(entry, &folder))).collect();
    let whole = files.iter().flat_map(|(_, files)| files).all(|file| matches!(file.state, State::Whole));
    if args.json {
        writeln!(out, "{}", as_json(&folder, whole, &files))?;
    } else {
        write!(out, "folder     {}\n\n{}", folder.display(), as_table(&folder, &files))?;
        eprint!("{}", advice(&files));
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn named(name: &str, folder: &Path) -> Result<&'static Entry, DataError> {
    let entry = data::find(name)?;
    match data::presence(entry, folder) {
        Presence::Absent => Err(DataError::NotFetched { name: name.to_owned(), folder: folder.to_owned() }),
        _ => Ok(entry),
    }
}

fn word(state: &State) -> &'static str {
    match state {
        State::Whole => "whole",
        State::Missing => "missing",
        State::Damaged(_) => "damaged",
    }
}

fn as_table(folder: &Path, sets: &[(&Entry, Vec<FileState>)]) -> String {
    let mut rows = vec![];
    for (entry, files) in sets {
        if files.is_empty() {
            rows.push(vec![entry.name.to_owned(), String::new(), "in the program".to_owned()]);
        }
        for file in files {
            let name = file.path.strip_prefix(folder).unwrap_or(&file.path).display().to_string();
            rows.push(vec![name, grouped(file.bytes), word(&file.state).to_owned()]);
        }
    }
    table::render(&["file", "bytes", "state"], &rows)
}

fn advice(sets: &[(&Entry, Vec<FileState>)]) -> String {
    let mut text = String::new();
    for (entry, files) in sets {
        for file in files {
            if let State::Damaged(error) = &file.state {
                let _ = writeln!(text, "{error}");
            }
        }
        if files.iter().any(|file| !matches!(file.state, State::Whole)) {
            let _ = writeln!(text, "'swn data fetch {}' puts whole files in their place", entry.name);
        }
    }
    text
}

fn as_json(folder: &Path, whole: bool, sets: &[(&Entry, Vec<FileState>)]) -> String {
    let file = |file: &FileState| {
        let error = match &file.state {
            State::Damaged(error) => Some(error.to_string()),
            _ => None,
        };
        json!({ "path": file.path, "bytes": file.bytes, "state": word(&file.state), "error": error })
    };
    let set = |(entry, files): &(&Entry, Vec<FileState>)| json!({ "name": entry.name, "files": files.iter().map(file).collect::<Vec<_>>() });
    let sets: Vec<_> = sets.iter().map(set).collect();
    format!("{:#}", json!({ "folder": folder, "whole": whole, "sets": sets }))
}
