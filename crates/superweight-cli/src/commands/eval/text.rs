//! The tables of `swn eval`.

use std::fmt::Write;

use superweight::evaluate::{
    ClassRecord, CorruptionsRecord, EvaluationRecord, Figures, SubsetReport, subset_name,
};
use superweight::model::Outputs;

use crate::ui::table;

pub(super) fn table(record: &EvaluationRecord) -> String {
    let mut text = String::new();
    let line = |text: &mut String, what: &str, rest: String| {
        let _ = writeln!(text, "{what:<10} {rest}");
    };
    line(&mut text, "run", format!("{}, checkpoint {}", record.run.display(), record.checkpoint));
    let (images, split, data) = (record.report.images, &record.split, &record.data);
    line(&mut text, "images", format!("{images} {split} images of {data}"));
    if let Some(diversity) = record.report.diversity {
        let what = "disagreement of two members over the error of one";
        line(&mut text, "diversity", format!("{diversity:.3} ({what})"));
    }
    let outputs = Outputs::new(record.members.clone(), record.exits);
    let _ = write!(text, "\n{}", figures(&outputs, &record.report.subsets));
    if !record.by_class.is_empty() {
        let rows: Vec<_> = record.by_class.iter().map(class_row).collect();
        let header = ["class", "images", "top-1", "taken for"];
        let _ = write!(text, "\n{}", table::render(&header, &rows));
    }
    if let Some(corruptions) = &record.corruptions {
        text += &corrupted(corruptions, &outputs);
    }
    if let Some(between) = &record.interpolation {
        let [a, b] = between.members;
        let _ = writeln!(
            text,
            "\nbetween the weights of members {a} and {b}, batch norm with statistics of the batch"
        );
        let rows: Vec<_> = between
            .points
            .iter()
            .map(|point| row(format!("{:.1}", point.t), point.figures))
            .collect();
        text += &table::render(&["t", "top-1", "top-5", "NLL", "ECE"], &rows);
    }
    text
}

fn class_row(class: &ClassRecord) -> Vec<String> {
    let taken_for = class.taken_for.as_ref().map(|(other, count)| format!("{other} ({count})"));
    vec![
        class.class.clone(),
        class.images.to_string(),
        format!("{:.2}", class.top1()),
        taken_for.unwrap_or_default(),
    ]
}

fn corrupted(corruptions: &CorruptionsRecord, outputs: &Outputs) -> String {
    let mut text = String::new();
    let source = match corruptions.source.as_str() {
        CorruptionsRecord::REGENERATED => "regenerated",
        _ => "published",
    };
    for average in &corruptions.averages {
        let (types, severities) = (average.types, average.severities);
        let _ = writeln!(
            text,
            "\ncorrupted images, {source}: mean of {types} types at {severities} severities"
        );
        text += &figures(outputs, &average.subsets);
    }
    let _ = writeln!(text, "\ncorrupted images, {source}: all {} together", outputs.words());
    let rows = corruptions.sets.iter().filter_map(|set| {
        let all = set.report.subsets.last()?;
        Some(row(format!("{} {}", set.kind, set.severity), all.figures))
    });
    text + &table::render(&["type", "top-1", "top-5", "NLL", "ECE"], &rows.collect::<Vec<_>>())
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
