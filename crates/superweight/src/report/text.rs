//! Reports as text, for a terminal, an issue or a spreadsheet: Markdown and CSV.

use std::fmt::Write;

use superweight_plan::number::with_commas;

use super::comparison::{Comparison, Measure, measured};
use super::document::Report;
use super::gather::RunView;
use super::sharing::Sharing;
use crate::model::Outputs;

/// Heading of a figure; figures that are not listed keep their name.
pub(super) fn heading(measure: &str) -> String {
    let words = match measure {
        "top1" => "top-1 %",
        "top5" => "top-5 %",
        "nll" => "NLL",
        "ece" => "ECE %",
        "corrupted_top1" => "corrupted top-1 %",
        "corrupted_nll" => "corrupted NLL",
        "corrupted_ece" => "corrupted ECE %",
        "validation top1" => "validation top-1 %",
        "seconds" => "training s",
        other => return other.replace("top1 of", "top-1 % of"),
    };
    words.to_owned()
}

/// A figure with the number of digits it deserves.
pub(super) fn figure(measure: &str, value: f64) -> String {
    match measure {
        "parameters" => with_commas(value.round().max(0.0) as u64),
        "seconds" => format!("{value:.0}"),
        _ if measure.ends_with("nll") || measure == "diversity" => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    }
}

/// A figure with its error, if there is one.
fn with_error(measure: &str, value: f64, error: Option<f64>) -> String {
    let error = error.map(|error| format!(" ± {}", figure(measure, error)));
    figure(measure, value) + &error.unwrap_or_default()
}

/// Text with the special characters of Markdown and HTML escaped.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' => out.extend(['\\', sign]),
            sign if sign.is_control() => out.push(' '),
            sign => out.push(sign),
        }
    }
    out
}

/// A row of a Markdown table.
pub(crate) fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// All tables of a report as Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = String::new();
    if let Some(comparison) = &report.comparison {
        out += &compared(comparison);
    }
    for run in &report.runs {
        out += &one(run);
    }
    out
}

/// The tables of one run.
fn one(run: &RunView) -> String {
    let Sharing { bill, budget, dense_total, clusters, layers, tiling, .. } = &run.sharing;
    let about = &run.about;
    let mut out = format!("## {}\n\n", plain(&run.name));
    let members = about.members.join(", ");
    let _ = writeln!(
        out,
        "{members} on {}, strategy {}, seed {}\n",
        plain(&about.data),
        about.strategy,
        about.seed
    );
    out += "| figure | value |\n|---|---:|\n";
    for (name, value) in measured(run) {
        out += &row(&[plain(&heading(&name)), figure(&name, value)]);
    }
    out += &row(&["parameters without sharing".to_owned(), with_commas(*dense_total)]);
    if let Some(budget) = budget {
        out += &row(&["budget".to_owned(), with_commas(*budget)]);
    }
    let parts = [
        ("templates", bill.templates),
        ("coefficients", bill.coefficients),
        ("reserve for refinement", bill.reserved),
        ("batch norm", bill.batch_norm),
        ("classifier", bill.classifier),
        ("dense", bill.dense),
    ];
    for (name, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
        out += &row(&[format!("– {name}"), with_commas(count)]);
    }
    if let Some(evaluation) =
        run.evaluation.as_ref().filter(|evaluation| evaluation.subsets.len() > 1)
    {
        let _ = writeln!(
            out,
            "\nOn {} ({} images):\n",
            plain(&evaluation.on),
            with_commas(evaluation.images)
        );
        let outputs = Outputs::of_networks(&about.members);
        let words = outputs.words();
        let _ = writeln!(
            out,
            "| {words} | top-1 % | top-5 % | NLL | ECE % |\n|---|---:|---:|---:|---:|"
        );
        for subset in &evaluation.subsets {
            let members = outputs.brief(subset.members).replace('+', " + ");
            let or_none = |name: &str, value: Option<f64>| {
                value.map_or("–".to_owned(), |v| figure(name, v))
            };
            out += &row(&[
                members,
                figure("top1", subset.top1),
                or_none("top5", subset.top5),
                or_none("nll", subset.nll),
                or_none("ece", subset.ece),
            ]);
        }
    }
    out += &match clusters.len() {
        0 => "\nNo layer is shared.\n".to_owned(),
        1 => format!("\n1 cluster, {tiling} tiling:\n\n"),
        n => format!("\n{n} clusters, {tiling} tiling:\n\n"),
    };
    for (i, cluster) in clusters.iter().enumerate() {
        let name = |id: &usize| {
            let layer = &layers[*id];
            format!("{}/{}", layer.member, plain(layer.name.trim_end_matches(".weight")))
        };
        let names: Vec<_> = cluster.iter().map(name).collect();
        let _ = writeln!(out, "{i}. {}", names.join(", "));
    }
    out.push('\n');
    out
}

/// The tables that compare runs.
fn compared(comparison: &Comparison) -> String {
    let mut out =
        "## Runs beside the paper\n\nMean ± standard deviation over seeds.\n\n".to_owned();
    out += "| row | seeds | figure | paper | ours | difference |\n|---|---:|---|---:|---:|---:|\n";
    for group in &comparison.rows {
        for measure in &group.measures {
            let Measure { name, mean, std, paper, paper_error, difference, .. } = measure;
            let label = match &group.paper {
                Some(paper) => format!("{} ({})", group.label, paper),
                None => group.label.clone(),
            };
            let dash = || "–".to_owned();
            out += &row(&[
                plain(&label),
                measure.values.len().to_string(),
                plain(&heading(name)),
                paper.map_or_else(dash, |value| with_error(name, value, *paper_error)),
                with_error(name, *mean, *std),
                difference.map_or_else(dash, |value| {
                    format!("{}{}", if value >= 0.0 { "+" } else { "" }, figure_signed(name, value))
                }),
            ]);
        }
    }
    if !comparison.beside.is_empty() {
        out += "\nOther methods of the paper in the same settings:\n\n| method | setting | figures |\n|---|---|---|\n";
        for beside in &comparison.beside {
            let figures: Vec<_> = beside
                .values
                .iter()
                .map(|(name, value, error)| {
                    format!("{} {}", heading(name), with_error(name, *value, *error))
                })
                .collect();
            out += &row(&[plain(&beside.label), plain(&beside.setting), figures.join(", ")]);
        }
    }
    for sweep in &comparison.sweeps {
        let _ = writeln!(out, "\n{} ({}):\n", plain(&sweep.key), plain(&sweep.title));
        let _ = write!(out, "| {} | top-1 % |\n|---:|---:|\n", plain(&sweep.key));
        for (at, group) in &sweep.points {
            let top1 = comparison.rows[*group].measure("top1");
            let top1 = top1.map_or("–".to_owned(), |m| with_error("top1", m.mean, m.std));
            out += &row(&[at.to_string(), top1]);
        }
    }
    out.push('\n');
    out
}

/// A difference with its sign.
fn figure_signed(measure: &str, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    sign.to_owned() + &figure(measure, value.abs())
}

/// One line per run and figure.
pub(super) fn csv(report: &Report) -> String {
    let mut out =
        "run,seed,members,data,strategy,budget,epochs,figure,value,paper,paper_error\n".to_owned();
    for (i, run) in report.runs.iter().enumerate() {
        let group = report
            .comparison
            .as_ref()
            .and_then(|c| c.rows.iter().find(|row| row.runs.contains(&i)));
        for (name, value) in measured(run) {
            let paper = group.and_then(|row| row.measure(&name));
            let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
            let about = &run.about;
            let fields = [
                run.name.clone(),
                about.seed.to_string(),
                about.members.join(" "),
                about.data.clone(),
                about.strategy.clone(),
                run.sharing.budget.map(|budget| budget.to_string()).unwrap_or_default(),
                run.headline.epochs.to_string(),
                name,
                value.to_string(),
                number(paper.and_then(|p| p.paper)),
                number(paper.and_then(|p| p.paper_error)),
            ];
            let fields: Vec<_> = fields.iter().map(|field| quoted(field)).collect();
            out += &fields.join(",");
            out.push('\n');
        }
    }
    out
}

/// A CSV field, quoted as RFC 4180 defines.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_files_is_escaped() {
        assert_eq!(plain("a|b<script>\n*x*"), r"a\|b&lt;script&gt; \*x\*");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }

    #[test]
    fn figures_have_the_digits_they_deserve() {
        assert_eq!(figure("parameters", 3_653_688.0), "3,653,688");
        assert_eq!(with_error("nll", 0.66249, Some(0.0014)), "0.662 ± 0.001");
        assert_eq!(figure_signed("top1", -0.126), "−0.13");
    }
}
