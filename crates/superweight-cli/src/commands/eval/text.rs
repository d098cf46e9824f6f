//! The tables of `swn eval`.

use std::fmt::Write;

use superweight::evaluate::{Figures, SubsetReport, subset_name};
use superweight::model::Outputs;

use super::{Answer, Class};
use crate::table;

pub(super) fn table(answer: &Answer) -> String {
    let mut text = String::new();
    let line = |text: &mut String, what: &str, rest: String| {
        let _ = writeln!(text, "{what:<10} {rest}");
    };
    line(&mut text, "run", format!("{}, checkpoint {}", answer.run.display(), answer.checkpoint));
    line(
        &mut text,
        "images",
        format!("{} {} images of {}", answer.report.images, answer.part, answer.data),
    );
    let diversity =
        answer.report.diversity.map(|d| format!("{d:.3} (disagreement over the error of one)"));
    if let Some(diversity) = diversity {
        line(&mut text, "diversity", diversity);
    }
    let names = &answer.members;
    let outputs = Outputs::new(names.clone(), answer.exits);
    let who = outputs.words();
    let _ = write!(text, "\n{}", figures(&outputs, &answer.report.subsets));
    if !answer.by_class.is_empty() {
        let row = |class: &Class| {
            let taken_for =
                class.taken_for.as_ref().map(|(other, count)| format!("{other} ({count})"));
            let top1 = 100.0 * class.right as f64 / class.images as f64;
            vec![
                class.class.clone(),
                class.images.to_string(),
                format!("{top1:.2}"),
                taken_for.unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = answer.by_class.iter().map(row).collect();
        let _ =
            write!(text, "\n{}", table::render(&["class", "images", "top-1", "taken for"], &rows));
    }
    if let Some(corruptions) = &answer.corruptions {
        let of = if corruptions.source == "regenerated" { "regenerated" } else { "published" };
        for average in &corruptions.averages {
            let (types, severities) = (average.types, average.severities);
            let _ = writeln!(
                text,
                "\ncorrupted, {of}: mean of {types} types at {severities} severities"
            );
            text += &figures(&outputs, &average.subsets);
        }
        let _ = writeln!(text, "\ncorrupted, {of}: all {who} together");
        let rows = corruptions.sets.iter().filter_map(|set| {
            let all = set.report.subsets.last()?;
            Some(row(format!("{} {}", set.kind, set.severity), all.figures))
        });
        text +=
            &table::render(&["type", "top-1", "top-5", "NLL", "ECE"], &rows.collect::<Vec<_>>());
    }
    if let Some(between) = &answer.interpolation {
        let [a, b] = between.members;
        let _ = writeln!(text, "\nbetween members {a} and {b}, batch norm on the batch");
        let rows: Vec<_> = between
            .points
            .iter()
            .map(|point| row(format!("{:.1}", point.t), point.figures))
            .collect();
        text += &table::render(&["t", "top-1", "top-5", "NLL", "ECE"], &rows);
    }
    text
}

fn figures(outputs: &Outputs, subsets: &[SubsetReport]) -> String {
    let rows: Vec<_> = subsets
        .iter()
        .map(|subset| row(subset_name(subset.members, outputs), subset.figures))
        .collect();
    table::render(&[outputs.words(), "top-1", "top-5", "NLL", "ECE"], &rows)
}

fn row(name: String, figures: Figures) -> Vec<String> {
    let Figures { top1, top5, nll, ece } = figures;
    vec![name, format!("{top1:.2}"), format!("{top5:.2}"), format!("{nll:.4}"), format!("{ece:.2}")]
}
