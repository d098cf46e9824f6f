//! `swn report`: from run folders to a page in a file, or to text on the screen.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use superweight::fs::write_whole;
use superweight::report::Report;

use crate::args::{ReportArgs, ReportFormat};

pub fn run(args: ReportArgs, out: &mut impl Write) -> Result<ExitCode> {
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
    let default = page.then(|| match args.runs.as_slice() {
        [run] => run.join("report.html"),
        _ => PathBuf::from("report.html"),
    });
    match args.out.or(default) {
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
