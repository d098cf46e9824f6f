//! `swn data list`: what is known, what is here.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use superweight::data::{CATALOGUE, Entry, Presence, presence};
use superweight::plan::number::grouped;

use super::{folder, megabytes};
use crate::args::ListArgs;
use crate::table;

pub fn run(args: ListArgs, out: &mut impl Write) -> Result<ExitCode> {
    let folder = folder(args.folder)?;
    if args.json {
        let set = |entry: &&Entry| {
            json!({
                "name": entry.name,
                "train": entry.images.0,
                "test": entry.images.1,
                "shape": [entry.shape.channels, entry.shape.height, entry.shape.width],
                "classes": entry.classes,
                "mean": entry.normalisation.mean,
                "deviation": entry.normalisation.deviation,
                "bytes": entry.bytes(),
                "state": word(presence(entry, &folder)),
            })
        };
        let sets: Vec<_> = CATALOGUE.iter().map(set).collect();
        writeln!(out, "{:#}", json!({ "folder": folder, "sets": sets }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |entry: &&Entry| {
        let shape = entry.shape;
        let state = match presence(entry, &folder) {
            Presence::Embedded => "in the program".to_owned(),
            Presence::Whole => format!("here, {}", megabytes(entry.bytes())),
            Presence::Incomplete => format!("incomplete: swn data fetch {}", entry.name),
            Presence::Absent => format!("swn data fetch {}", entry.name),
        };
        vec![
            entry.name.to_owned(),
            grouped(entry.images.0 as u64),
            grouped(entry.images.1 as u64),
            format!("{}×{}×{}", shape.channels, shape.height, shape.width),
            entry.classes.len().to_string(),
            state,
        ]
    };
    let rows: Vec<_> = CATALOGUE.iter().map(row).collect();
    writeln!(out, "folder     {}\n", folder.display())?;
    write!(out, "{}", table::render(&["data set", "train", "test", "image", "classes", "state"], &rows))?;
    Ok(ExitCode::SUCCESS)
}

fn word(presence: Presence) -> &'static str {
    match presence {
        Presence::Embedded => "embedded",
        Presence::Whole => "here",
        Presence::Incomplete => "incomplete",
        Presence::Absent => "absent",
    }
}
