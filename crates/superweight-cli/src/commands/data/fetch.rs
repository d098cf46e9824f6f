//! `swn data fetch`: writes a data set into the data folder. Progress goes to standard error, the
//! result to standard output.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use superweight::data::{self, DataError, Layout, OwnSet, State, Step};
use superweight::plan::number::with_commas;

use super::folder::folder;
use crate::args::FetchArgs;
use crate::ui::size::megabytes;

pub fn run(args: FetchArgs, out: &mut impl Write) -> Result<ExitCode> {
    let to = folder(args.out)?;
    let entry = data::find(&args.name).map_err(|unknown| match OwnSet::find(&args.name, &to) {
        Ok(Some(_)) => anyhow!(
            "{0} was packed from pictures: 'swn data pack {0} --replace --from …' packs it again",
            args.name
        ),
        _ if args.name == "imagenet" => DataError::NoImageNet { folder: to.clone() }.into(),
        _ => unknown.into(),
    })?;
    let name = entry.name;
    if entry.layout == Layout::Embedded {
        match args.json {
            true => {
                writeln!(out, "{:#}", json!({ "name": name, "folder": null, "fetched": false }))?
            }
            false => writeln!(out, "{name} is part of the program: there is nothing to fetch")?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = |step: Step| match step {
        Step::Downloading(address) => eprintln!("downloading {address}"),
        Step::Reading(path) => eprintln!("reading and verifying {}", path.display()),
        Step::Writing(path) => eprintln!("writing {}", path.display()),
        _ => {}
    };
    let here = || data::verify(entry, &to).iter().all(|file| matches!(file.state, State::Whole));
    let (target, fetched) = match &args.from {
        Some(from) => {
            let place = || "--from";
            (data::install(entry, from, &to, &mut report).with_context(place)?, true)
        }
        None if here() => (to.join(entry.folder), false),
        None => {
            let mirror = std::env::var("SWN_DATA_MIRROR").ok().filter(|mirror| !mirror.is_empty());
            (data::fetch(entry, &to, mirror.as_deref(), &mut report)?, true)
        }
    };
    let (train, test) = entry.images;
    if args.json {
        let answer =
            json!({ "name": name, "folder": target, "fetched": fetched, "bytes": entry.bytes() });
        writeln!(out, "{answer:#}")?;
    } else {
        let already = if fetched { "" } else { "already there, " };
        let (images, size) = (with_commas((train + test) as u64), megabytes(entry.bytes()));
        writeln!(
            out,
            "{name}: {already}{images} images, {size}, verified, in {}",
            target.display()
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
