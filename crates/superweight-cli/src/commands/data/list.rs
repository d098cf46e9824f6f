//! `swn data list`: the known data sets, and the state of each on this machine.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use superweight::data::{CATALOG, Description, OwnSet, Presence, presence};
use superweight::plan::number::with_commas;

use super::folder::folder;
use crate::args::ListArgs;
use crate::ui::size::megabytes;
use crate::ui::table;

pub fn run(args: ListArgs, out: &mut impl Write) -> Result<ExitCode> {
    let folder = folder(args.folder)?;
    let known = CATALOG.iter().map(|entry| {
        let presence = presence(entry, &folder);
        let words = match presence {
            Presence::Embedded => "in the program".to_owned(),
            Presence::Whole => format!("here, {}", megabytes(entry.bytes())),
            Presence::Incomplete => format!("incomplete: swn data fetch {}", entry.name),
            _ => format!("swn data fetch {}", entry.name),
        };
        Row { set: entry.describe(), bytes: entry.bytes(), state: word(presence), words }
    });
    let mut rows: Vec<_> = known.collect();
    for name in OwnSet::names(&folder) {
        match OwnSet::find(&name, &folder) {
            Ok(Some(own)) => {
                let words = format!("packed here, {}", megabytes(own.bytes()));
                rows.push(Row { bytes: own.bytes(), set: own.description, state: "packed", words });
            }
            Ok(None) => {}
            Err(error) => eprintln!("warning: {error}"),
        }
    }
    if args.json {
        let sets: Vec<_> = rows.iter().map(Row::to_json).collect();
        writeln!(out, "{:#}", json!({ "folder": folder, "sets": sets }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<_> = rows.into_iter().map(Row::cells).collect();
    writeln!(out, "folder     {}\n", folder.display())?;
    write!(
        out,
        "{}",
        table::render(&["data set", "train", "test", "image", "classes", "state"], &rows)
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A data set and its state on this machine.
struct Row {
    set: Description,
    bytes: u64,
    state: &'static str,
    /// The state in words, with the command that changes it.
    words: String,
}

impl Row {
    fn to_json(&self) -> serde_json::Value {
        let Description { name, shape, classes, images, normalization } = &self.set;
        json!({
            "name": name,
            "train": images.0,
            "test": images.1,
            "shape": [shape.channels, shape.height, shape.width],
            "classes": classes,
            "mean": normalization.mean,
            "deviation": normalization.std,
            "bytes": self.bytes,
            "state": self.state,
        })
    }

    fn cells(self) -> Vec<String> {
        let Description { name, shape, classes, images, .. } = self.set;
        vec![
            name,
            with_commas(images.0 as u64),
            with_commas(images.1 as u64),
            format!("{}×{}×{}", shape.channels, shape.height, shape.width),
            classes.len().to_string(),
            self.words,
        ]
    }
}

fn word(presence: Presence) -> &'static str {
    match presence {
        Presence::Embedded => "embedded",
        Presence::Whole => "here",
        Presence::Incomplete => "incomplete",
        _ => "absent",
    }
}
