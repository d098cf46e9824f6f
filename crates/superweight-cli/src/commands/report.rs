//! `swn report`: from run folders to a file, or to text on the screen; to what is committed of a run, and its table.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use superweight::fs::write_whole;
use superweight::plan::number::with_commas;
use superweight::report::Report;
use superweight::report::published;
use superweight::report::published::{Choices, Facts};

use crate::args::{ChoicesArg, ReportArgs, ReportFormat};

pub fn run(args: ReportArgs, out: &mut impl Write) -> Result<ExitCode> {
    match (&args.publish, args.table) {
        (Some(folder), _) => publish(&args, folder, out),
        (None, true) => table(&args, out),
        (None, false) => report(args, out),
    }
}

/// Keeps what is small of a run, and says what it found.
fn publish(args: &ReportArgs, folder: &Path, out: &mut impl Write) -> Result<ExitCode> {
    let [run] = args.runs.as_slice() else { bail!("--publish: one run at a time") };
    let choices = match args.choices {
        ChoicesArg::Paper => Choices::Paper,
        ChoicesArg::HeldOut => Choices::HeldOut,
    };
    let commit = args.commit.clone().expect("clap asks for it");
    let record =
        results::publish(run, folder, Facts { commit, choices, row: args.row.clone() })?.record;
    writeln!(out, "published  {}", folder.display())?;
    writeln!(out, "row        {}, seed {}", record.row, record.seed)?;
    writeln!(out, "numbers    {}", with_commas(record.parameters))?;
    let (search, train) = (record.epochs.search, record.epochs.train);
    let (minutes, wall) = (record.gpu_minutes(), record.minutes.wall);
    writeln!(
        out,
        "epochs     {search} of search, {train} of training: {minutes:.1} min (wall {wall:.1})"
    )?;
    let outputs = record.outputs();
    for (output, top1) in record.top1.members.iter().enumerate() {
        writeln!(out, "top-1      {top1:.2} {} {output}, {}", outputs.word(), outputs.names()[output])?;
    }
    writeln!(
        out,
        "top-1      {:.2} together, {} images",
        record.top1.ensemble,
        record.seen.part()
    )?;
    let usual = results::USUAL_EPOCHS;
    if !record.is_whole() {
        writeln!(
            out,
            "not final  a row of the table needs all training images, judged by the test set"
        )?;
    } else if train != usual {
        writeln!(
            out,
            "not final  unless rows.toml says 'epochs = {train}' of its row: others need {usual} epochs"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every published run, checked, as the table of the results' README.
fn table(args: &ReportArgs, out: &mut impl Write) -> Result<ExitCode> {
    let [folder] = args.runs.as_slice() else { bail!("--table: one folder of results") };
    let made = results::table(folder, &results::load_rows(folder)?, &results::open_all(folder)?);
    let Some(path) = &args.out else {
        write!(out, "{made}")?;
        return Ok(ExitCode::SUCCESS);
    };
    let (shown, begin, end) = (path.display(), results::BEGIN, results::END);
    let place = format!(
        "the table goes into a file that is there, between two lines '{begin}' and '{end}'; without --out it is printed"
    );
    let document =
        std::fs::read_to_string(path).with_context(|| format!("--out {shown}: {place}"))?;
    let Some(document) = results::insert(&document, &made) else {
        bail!("--out {shown}: no place for the table: {place}");
    };
    write_whole(path, document.as_bytes()).with_context(|| format!("--out {}", path.display()))?;
    writeln!(out, "{}", path.display())?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: ReportArgs, out: &mut impl Write) -> Result<ExitCode> {
    let report = Report::open(&args.runs)?;
    if let Some(folder) = &args.plots {
        let written = report.write_plots(folder)?;
        let figures = if written.len() == 1 { "figure" } else { "figures" };
        writeln!(out, "{} {figures} in {}", written.len(), folder.display())?;
    }
    let text = match args.format {
        ReportFormat::Html => report.to_html(),
        ReportFormat::Md => report.to_markdown(),
        ReportFormat::Csv => report.to_csv(),
        ReportFormat::Json => report.to_json() + "\n",
    };
    let page = args.format == ReportFormat::Html;
    let usual = page.then(|| match args.runs.as_slice() {
        [run] => run.join("report.html"),
        _ => PathBuf::from("report.html"),
    });
    match args.out.or(usual) {
        Some(path) => {
            write_whole(&path, text.as_bytes()).with_context(|| {
                format!(
                    "the report could not be written to {}; choose another file with --out",
                    path.display()
                )
            })?;
            writeln!(out, "{}", path.display())?;
        }
        None => write!(out, "{text}")?,
    }
    Ok(ExitCode::SUCCESS)
}
