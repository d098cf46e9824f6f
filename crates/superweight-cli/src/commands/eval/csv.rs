//! The figures of `swn eval`, one line per set and subset, for spreadsheets.

use std::fmt::Write;

use superweight::evaluate::{EvaluationRecord, Figures, SubsetReport};

pub(super) fn lines(record: &EvaluationRecord) -> String {
    let mut text = "set,severity,members,top1,top5,nll,ece\n".to_owned();
    let mut add = |set: &str, severity: &str, subsets: &[SubsetReport]| {
        for SubsetReport { members, figures: Figures { top1, top5, nll, ece }, .. } in subsets {
            let _ = writeln!(text, "{set},{severity},{members},{top1},{top5},{nll},{ece}");
        }
    };
    add(&record.split, "", &record.report.subsets);
    for set in record.corruptions.iter().flat_map(|corruptions| &corruptions.sets) {
        add(set.kind.name(), &set.severity.to_string(), &set.report.subsets);
    }
    for average in record.corruptions.iter().flat_map(|corruptions| &corruptions.averages) {
        add(&format!("mean of {} types", average.types), "", &average.subsets);
    }
    text
}
