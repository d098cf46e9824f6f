//! `swn results`: the published part of a run, and the table of all published runs.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use superweight::fs::write_whole;
use superweight::plan::number::with_commas;
use superweight::report::published::{self, Provenance};

use crate::args::{PublishArgs, ResultsArgs, ResultsCommand, TableArgs};

pub fn run(args: ResultsArgs, out: &mut impl Write) -> Result<ExitCode> {
    match args.command {
        ResultsCommand::Publish(args) => publish(args, out),
        ResultsCommand::Table(args) => table(args, out),
    }
}

/// Publishes a run and prints its figures, counted from its predictions.
fn publish(args: PublishArgs, out: &mut impl Write) -> Result<ExitCode> {
    let PublishArgs { run, out: folder, commit, row, chosen_on } = args;
    let record = published::publish(&run, &folder, Provenance { commit, chosen_on, row })?.record;
    writeln!(out, "published  {}", folder.display())?;
    writeln!(out, "row        {}, seed {}", record.row, record.seed)?;
    writeln!(out, "parameters {}", with_commas(record.parameters))?;
    let (search, train) = (record.epochs.search, record.epochs.train);
    let (minutes, wall) = (record.gpu_minutes(), record.minutes.wall);
    writeln!(
        out,
        "epochs     {search} of search, {train} of training: {minutes:.1} min (wall {wall:.1})"
    )?;
    let outputs = record.outputs();
    for (output, top1) in record.top1.members.iter().enumerate() {
        writeln!(
            out,
            "top-1      {top1:.2} {} {output}, {}",
            outputs.word(),
            outputs.names()[output]
        )?;
    }
    let (all, split) = (outputs.combined_name(), record.split.name());
    writeln!(out, "top-1      {:.2} {all}, on the {split} images", record.top1.ensemble)?;
    let usual = published::USUAL_EPOCHS;
    if !record.is_whole() {
        writeln!(
            out,
            "not final  a row of the table needs a run on all training images, evaluated on the test images"
        )?;
    } else if train != usual {
        writeln!(
            out,
            "not final  unless rows.toml has 'epochs = {train}' in its row: other rows need {usual} epochs"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks every published run and makes the table of the results' README.
fn table(args: TableArgs, out: &mut impl Write) -> Result<ExitCode> {
    let folder = &args.results;
    let table =
        published::table(folder, &published::load_rows(folder)?, &published::open_all(folder)?);
    let Some(path) = &args.out else {
        write!(out, "{table}")?;
        return Ok(ExitCode::SUCCESS);
    };
    let (shown, begin, end) = (path.display(), published::BEGIN, published::END);
    let place = format!(
        "--out names an existing file with the two lines '{begin}' and '{end}', between which the table goes; \
         without --out it is printed"
    );
    let document =
        std::fs::read_to_string(path).with_context(|| format!("--out {shown}: {place}"))?;
    let Some(document) = published::insert(&document, &table) else {
        bail!("--out {shown}: it lacks the two lines: {place}");
    };
    write_whole(path, document.as_bytes()).with_context(|| format!("--out {shown}"))?;
    writeln!(out, "{shown}")?;
    Ok(ExitCode::SUCCESS)
}
