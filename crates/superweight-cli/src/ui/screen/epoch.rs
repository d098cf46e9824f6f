//! The line of an epoch: loss, accuracies, learning rate and speed.

use std::time::Duration;

use superweight::plan::number::with_commas;
use superweight::run::Evaluation;
use superweight::train::EpochReport;

use crate::ui::duration;

pub fn line(report: &EpochReport) -> String {
    let EpochReport { phase, epoch, epochs, train, validation, test, .. } = report;
    let width = epochs.to_string().len();
    let mut line = format!("{phase} {:>width$}/{epochs}  loss {:.4}", epoch + 1, train.loss);
    if train.losses.len() > 1 {
        line += &format!(" ({})", range(train.losses.iter().copied(), 3));
    }
    for (split, seen) in [("validation", validation), ("test", test)] {
        line += &seen.as_ref().map_or(String::new(), |seen| format!("  {split} {}", top1(seen)));
    }
    let time = duration::show(Duration::from_secs_f64(train.seconds));
    line + &format!(
        "  lr {:.2e}  {} img/s  {time}",
        train.lr,
        with_commas(train.images_per_s as u64)
    )
}

/// Top-1 accuracy of the ensemble, and the range of its members.
fn top1(seen: &Evaluation) -> String {
    let members = match seen.members.len() {
        1 => String::new(),
        _ => format!(" ({})", range(seen.members.iter().map(|member| member.top1), 1)),
    };
    format!("{:.2}%{members}", seen.ensemble.top1)
}

/// The lowest and the highest value, which is as wide for ten members as for two.
fn range(values: impl Iterator<Item = f64> + Clone, digits: usize) -> String {
    let (low, high) =
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
    format!("{low:.digits$}–{high:.digits$}")
}
