//! Numbers and lists as lines of the screen.

use superweight::plan::SharingPlan;
use superweight::plan::number::with_commas;

/// `1 epoch`, `2 epochs`.
pub fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", with_commas(n as u64), if n == 1 { "" } else { "s" })
}

/// A value with three significant digits.
pub fn significant(x: f64) -> f64 {
    format!("{x:.2e}").parse().unwrap_or(x)
}

/// The parts with a comma after each but the last.
pub fn listed(parts: &[String]) -> impl Iterator<Item = String> {
    let last = parts.len().saturating_sub(1);
    parts
        .iter()
        .enumerate()
        .map(move |(i, part)| if i < last { format!("{part},") } else { part.clone() })
}

/// The parts side by side, on as many indented lines as they need.
pub fn filled(parts: impl Iterator<Item = String>) -> String {
    const WIDTH: usize = 86;
    let mut lines: Vec<String> = vec![];
    for part in parts {
        match lines.last_mut().filter(|line| line.len() + 1 + part.len() <= WIDTH) {
            Some(line) => *line += &format!(" {part}"),
            None => lines.push(part),
        }
    }
    lines.join("\n           ")
}

/// The parameters of a plan: trained, reserved, and beside the budget.
pub fn bill(plan: &SharingPlan) -> String {
    let (trained, dense) = (with_commas(plan.bill.trained()), with_commas(plan.dense_total()));
    let reserved = match plan.bill.reserved {
        0 => String::new(),
        reserved => format!(", {} reserved for refinement", with_commas(reserved)),
    };
    let budget = match (plan.budget, plan.unused()) {
        (Some(budget), Some(unused)) => {
            format!("; budget {}, {} left over", with_commas(budget), with_commas(unused))
        }
        _ => String::new(),
    };
    format!("{trained} trained{reserved}{budget}\n           {dense} without sharing")
}
