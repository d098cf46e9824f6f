//! `swn data verify`: checks every file of the sets on this machine by SHA-256. A missing or
//! damaged file is a failure.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use superweight::data::{self, CATALOG, DataError, FileState, OwnSet, Presence, SET, State};
use superweight::plan::number::with_commas;

use super::folder::folder;
use crate::args::VerifyArgs;
use crate::ui::{as_typed, table};

/// A data set with the state of its files.
struct Checked {
    name: String,
    /// Command that writes the files again.
    fix: String,
    files: Vec<FileState>,
}

pub fn run(args: VerifyArgs, out: &mut impl Write) -> Result<ExitCode> {
    let folder = folder(args.folder)?;
    let sets = match &args.name {
        Some(name) => vec![named(name, &folder)?],
        None => all(&folder)?,
    };
    let whole =
        sets.iter().flat_map(|set| &set.files).all(|file| matches!(file.state, State::Whole));
    if args.json {
        writeln!(out, "{}", as_json(&folder, whole, &sets))?;
    } else {
        write!(out, "folder     {}\n\n{}", folder.display(), as_table(&folder, &sets))?;
        eprint!("{}", as_typed(&advice(&sets)));
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all(folder: &Path) -> Result<Vec<Checked>, DataError> {
    let here = CATALOG.iter().filter(|entry| data::presence(entry, folder) != Presence::Absent);
    let or_damaged = |name: String| match named(&name, folder) {
        Err(error @ DataError::Damaged { .. }) => {
            let fix = format!("swn data pack {name} --replace --from …");
            let file = FileState {
                path: folder.join(&name).join(SET),
                bytes: 0,
                state: State::Damaged(error),
            };
            Ok(Checked { name, fix, files: vec![file] })
        }
        checked => checked,
    };
    here.map(|entry| entry.name.to_owned()).chain(OwnSet::names(folder)).map(or_damaged).collect()
}

fn named(name: &str, folder: &Path) -> Result<Checked, DataError> {
    let (files, fix) = match data::find(name) {
        Ok(entry) if data::presence(entry, folder) == Presence::Absent => {
            return Err(DataError::NotFetched { name: name.to_owned(), folder: folder.to_owned() });
        }
        Ok(entry) => (data::verify(entry, folder), format!("swn data fetch {name}")),
        Err(unknown) => {
            let own = OwnSet::known(name, folder, unknown)?;
            (own.verify(folder), format!("swn data pack {name} --replace --from …"))
        }
    };
    Ok(Checked { name: name.to_owned(), fix, files })
}

fn word(state: &State) -> &'static str {
    match state {
        State::Whole => "whole",
        State::Missing => "missing",
        State::Damaged(_) => "damaged",
    }
}

fn as_table(folder: &Path, sets: &[Checked]) -> String {
    let mut rows = vec![];
    for Checked { name, files, .. } in sets {
        if files.is_empty() {
            rows.push(vec![name.clone(), String::new(), "in the program".to_owned()]);
        }
        for file in files {
            let name = file.path.strip_prefix(folder).unwrap_or(&file.path).display().to_string();
            rows.push(vec![name, with_commas(file.bytes), word(&file.state).to_owned()]);
        }
    }
    table::render(&["file", "bytes", "state"], &rows)
}

fn advice(sets: &[Checked]) -> String {
    let mut text = String::new();
    for Checked { fix, files, .. } in sets {
        for file in files {
            if let State::Damaged(error) = &file.state {
                let _ = writeln!(text, "{error}");
            }
        }
        if files.iter().any(|file| !matches!(file.state, State::Whole)) {
            let _ = writeln!(text, "'{fix}' writes them again");
        }
    }
    text
}

fn as_json(folder: &Path, whole: bool, sets: &[Checked]) -> String {
    let file = |file: &FileState| {
        let error = match &file.state {
            State::Damaged(error) => Some(error.to_string()),
            _ => None,
        };
        json!({ "path": file.path, "bytes": file.bytes, "state": word(&file.state), "error": error })
    };
    let set = |set: &Checked| json!({ "name": set.name, "files": set.files.iter().map(file).collect::<Vec<_>>() });
    let sets: Vec<_> = sets.iter().map(set).collect();
    format!("{:#}", json!({ "folder": folder, "whole": whole, "sets": sets }))
}
