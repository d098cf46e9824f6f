//! How a run ended: a table, where it lies, what to do next; or the same as JSON.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use superweight::model::ensemble::member_numbers;
use superweight::plan::number::with_commas;
use superweight::plan::{MemberId, SharingPlan};
use superweight::train::{Evaluation, Outcome, Scores, Stopped};
use superweight::model::Outputs;

use crate::table;

pub fn text(outcome: &Outcome, plan: &SharingPlan, report: Option<&Path>) -> String {
    let mut text = String::new();
    let seen = [("test set", &outcome.test), ("held-out images", &outcome.validation)];
    if let Some((part, Some(seen))) = seen.into_iter().find(|(_, seen)| seen.is_some()) {
        let _ = writeln!(
            text,
            "\n{part}, {} images\n{}",
            with_commas(seen.images as u64),
            scores(seen, plan)
        );
    }
    let run = outcome.folder.display();
    let _ = match outcome.stopped {
        // Why, and what to do, is the error's to say.
        Stopped::Diverged { .. } => writeln!(text, "stopped    diverged"),
        Stopped::Finished => {
            writeln!(text, "run        {run}, checkpoint {}", outcome.checkpoint.unwrap_or(0))
        }
        _ => {
            let (word, next) = (outcome.stopped.word(), outcome.next);
            let _ = writeln!(text, "stopped    {word}: {}", kept(outcome));
            if outcome.stopped == Stopped::TimeLimit && next > 0.0 {
                let of = if next > outcome.position.epoch_seconds {
                    ", with batch norm of the mean"
                } else {
                    ""
                };
                let _ = writeln!(
                    text,
                    "           the next epoch is reckoned at {next:.1} s{of}; in less it does not begin"
                );
            }
            if outcome.stopped == Stopped::Until {
                let _ = writeln!(
                    text,
                    "           'swn train --from {run} --set …' goes on to another end"
                );
            }
            writeln!(text, "           'swn train --resume {run}' goes on")
        }
    };
    if let Some(report) = report {
        let _ = writeln!(text, "report     {}", report.display());
    }
    if let Stopped::Diverged { .. } = outcome.stopped {
        return text;
    }
    if outcome.checkpoint.is_some() {
        let all = match Outputs::of(plan).nested() {
            true => "every exit, and the mean of all up to it",
            false => "every member and every ensemble",
        };
        let _ = writeln!(text, "next       swn eval {run}    {all}");
        let _ = writeln!(text, "           swn predict {run} PICTURE…");
        let _ = writeln!(text, "           tensorboard --logdir {run}");
    }
    text
}

fn kept(outcome: &Outcome) -> String {
    match outcome.checkpoint {
        Some(number) => {
            format!(
                "checkpoint {number} (epoch {} of {}) is kept",
                outcome.kept.epoch, outcome.kept.phase
            )
        }
        None => "no checkpoint was written yet".to_owned(),
    }
}

/// What to do about a run that has diverged.
pub fn advice(outcome: &Outcome) -> String {
    let (run, kept) = (outcome.folder.display(), kept(outcome));
    format!(
        "{kept} in {run}; try a lower lr or a warm-up: begin anew with '--replace --set train.lr=…' or \
         '--replace --set train.warmup_epochs=1'"
    )
}

fn scores(seen: &Evaluation, plan: &SharingPlan) -> String {
    let row = |name: String, numbers: u64, scores: &Scores| {
        let percent = |share: f64| format!("{share:.2}%");
        vec![
            name,
            with_commas(numbers),
            percent(scores.top1),
            percent(scores.top5),
            format!("{:.4}", scores.loss),
        ]
    };
    let outputs = Outputs::of(plan);
    if outputs.nested() {
        let network = plan.members[0].build().expect("the members of a plan build");
        let exit = |(i, scores)| row(format!("exit {i}"), network.multiply_adds_to(i), scores);
        let mut rows: Vec<_> = seen.members.iter().enumerate().map(exit).collect();
        rows.push(row("all exits".to_owned(), network.counts().multiply_adds, &seen.ensemble));
        return table::render(&["", "multiply-adds", "top-1", "top-5", "loss"], &rows);
    }
    let member = |(m, scores): (usize, &Scores)| {
        let name = format!("{m} {}", plan.members[m].architecture);
        row(name, member_numbers(plan, MemberId(m)), scores)
    };
    let mut rows: Vec<_> = seen.members.iter().enumerate().map(member).collect();
    if rows.len() > 1 {
        rows.push(row("ensemble".to_owned(), plan.bill.trained(), &seen.ensemble));
    }
    table::render(&["", "numbers", "top-1", "top-5", "loss"], &rows)
}

pub fn json(outcome: &Outcome, plan: &SharingPlan) -> Value {
    let members = (0..plan.members.len()).map(MemberId);
    let member = |id: MemberId| {
        json!({
            "architecture": plan.members[id.0].architecture.to_string(),
            "numbers": member_numbers(plan, id),
        })
    };
    let mut json = json!({
        "run": outcome.folder,
        "stopped": outcome.stopped.word(),
        "phase": outcome.position.phase,
        "epoch": outcome.position.epoch,
        "checkpoint": outcome.checkpoint,
        "budget": plan.budget,
        "numbers": plan.bill.trained(),
        "members": members.map(member).collect::<Vec<_>>(),
        "validation": outcome.validation,
        "test": outcome.test,
    });
    if Outputs::of(plan).nested() {
        // Accuracies are those of exits, then.
        json["exits"] = true.into();
    }
    json
}
