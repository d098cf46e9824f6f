//! `swn data verify`: every file of every set that is here, by SHA-256. Anything but whole is a failure.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use superweight::data::{self, CATALOGUE, DataError, FileState, OwnSet, Presence, SET, State};
use superweight::plan::number::with_commas;

use super::folder;
use crate::args::VerifyArgs;
use crate::table;

/// A set that is here, and its files.
struct Looked {
    name: String,
    /// What puts whole files in their place.
    mend: String,
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
        eprint!("{}", advice(&sets));
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all(folder: &Path) -> Result<Vec<Looked>, DataError> {
    let here = CATALOGUE.iter().filter(|entry| data::presence(entry, folder) != Presence::Absent);
    let or_damaged = |name: String| match named(&name, folder) {
        Err(error @ DataError::Damaged { .. }) => {
            let mend = format!("swn data pack {name} --replace --from …");
            let file = FileState {
                path: folder.join(&name).join(SET),
                bytes: 0,
                state: State::Damaged(error),
            };
            Ok(Looked { name, mend, files: vec![file] })
        }
        looked => looked,
    };
    here.map(|entry| entry.name.to_owned()).chain(OwnSet::names(folder)).map(or_damaged).collect()
}

fn named(name: &str, folder: &Path) -> Result<Looked, DataError> {
    let (files, mend) = match data::find(name) {
        Ok(entry) if data::presence(entry, folder) == Presence::Absent => {
            return Err(DataError::NotFetched { name: name.to_owned(), folder: folder.to_owned() });
        }
        Ok(entry) => (data::verify(entry, folder), format!("swn data fetch {name}")),
        Err(unknown) => {
            let own = OwnSet::known(name, folder, unknown)?;
            (own.verify(folder), format!("swn data pack {name} --replace --from …"))
        }
    };
    Ok(Looked { name: name.to_owned(), mend, files })
}

fn word(state: &State) -> &'static str {
    match state {
        State::Whole => "whole",
        State::Missing => "missing",
        State::Damaged(_) => "damaged",
    }
}

fn as_table(folder: &Path, sets: &[Looked]) -> String {
    let mut rows = vec![];
    for Looked { name, files, .. } in sets {
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

fn advice(sets: &[Looked]) -> String {
    let mut text = String::new();
    for Looked { mend, files, .. } in sets {
        for file in files {
            if let State::Damaged(error) = &file.state {
                let _ = writeln!(text, "{error}");
            }
        }
        if files.iter().any(|file| !matches!(file.state, State::Whole)) {
            let _ = writeln!(text, "'{mend}' puts whole files in their place");
        }
    }
    text
}

fn as_json(folder: &Path, whole: bool, sets: &[Looked]) -> String {
    let file = |file: &FileState| {
        let error = match &file.state {
            State::Damaged(error) => Some(error.to_string()),
            _ => None,
        };
        json!({ "path": file.path, "bytes": file.bytes, "state": word(&file.state), "error": error })
    };
    let set = |set: &Looked| json!({ "name": set.name, "files": set.files.iter().map(file).collect::<Vec<_>>() });
    let sets: Vec<_> = sets.iter().map(set).collect();
    format!("{:#}", json!({ "folder": folder, "whole": whole, "sets": sets }))
}
