//! The outcome of a run: a table, the files it left and what to do next; or the same as JSON.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use superweight::model::Outputs;
use superweight::model::ensemble::member_parameters;
use superweight::plan::number::with_commas;
use superweight::plan::{MemberId, SharingPlan};
use superweight::run::{Accuracy, Evaluation};
use superweight::train::{Outcome, Stopped};

use crate::ui::{table, typed};

pub fn text(outcome: &Outcome, plan: &SharingPlan, report: Option<&Path>) -> String {
    let mut text = String::new();
    let evaluations = [("test", &outcome.test), ("validation", &outcome.validation)];
    if let Some((split, Some(seen))) = evaluations.into_iter().find(|(_, seen)| seen.is_some()) {
        let images = with_commas(seen.images as u64);
        let _ = writeln!(text, "\n{images} {split} images\n{}", accuracies(seen, plan));
    }
    let run = outcome.folder.display();
    match outcome.stopped {
        // The error message has the reason and the advice.
        Stopped::Diverged { .. } => return text + "stopped    diverged\n",
        Stopped::Finished => {
            let number = outcome.checkpoint.unwrap_or(0);
            let _ = writeln!(text, "run        {run}, checkpoint {number}");
        }
        _ => text += &stopped(outcome),
    }
    if let Some(report) = report {
        let _ = writeln!(text, "report     {}", report.display());
    }
    if outcome.checkpoint.is_some() {
        let all = match Outputs::of_plan(plan).nested() {
            true => "every exit, and the mean of all up to it",
            false => "every member and every ensemble",
        };
        let _ = writeln!(text, "next       {}    {all}", typed(&format!("eval {run}")));
        let _ = writeln!(text, "           {}", typed(&format!("predict {run} PICTURE…")));
        let _ = writeln!(text, "           tensorboard --logdir {run}");
    }
    text
}

/// Why a run stopped early, what is kept, and how to continue.
fn stopped(outcome: &Outcome) -> String {
    let (run, next) = (outcome.folder.display(), outcome.next);
    let word = match outcome.stopped {
        Stopped::Until => "as requested by --until",
        ref stopped => stopped.word(),
    };
    let mut text = format!("stopped    {word}: {}\n", kept(outcome));
    if outcome.stopped == Stopped::TimeLimit && next > 0.0 {
        let pass = match next > outcome.position.epoch_seconds {
            true => " (averaging included)",
            false => "",
        };
        let _ = writeln!(
            text,
            "           the next epoch takes about {next:.1} s{pass}; with less time it does not start"
        );
    }
    if outcome.stopped == Stopped::Until {
        let branch = typed(&format!("train --from {run} --set …"));
        let _ = writeln!(text, "           '{branch}' continues with other settings");
    }
    let resume = typed(&format!("train --resume {run}"));
    text + &format!("           '{resume}' continues\n")
}

fn kept(outcome: &Outcome) -> String {
    let kept = &outcome.kept;
    match outcome.checkpoint {
        Some(number) => {
            format!("checkpoint {number} (epoch {} of {}) is kept", kept.epoch, kept.phase)
        }
        None => "no checkpoint was written yet".to_owned(),
    }
}

/// What to do about a run that has diverged.
pub fn advice(outcome: &Outcome) -> String {
    let (run, kept) = (outcome.folder.display(), kept(outcome));
    format!(
        "{kept} in {run}; try a lower learning rate or a warm-up: start again with '--replace --set train.lr=…' or \
         '--replace --set train.warmup_epochs=1'"
    )
}

fn accuracies(seen: &Evaluation, plan: &SharingPlan) -> String {
    let row = |name: String, size: u64, accuracy: &Accuracy| {
        let percent = |value: f64| format!("{value:.2}%");
        let nll = format!("{:.4}", accuracy.nll);
        vec![name, with_commas(size), percent(accuracy.top1), percent(accuracy.top5), nll]
    };
    if Outputs::of_plan(plan).nested() {
        let network = plan.members[0].build().expect("the members of a plan build");
        let exit = |(i, accuracy)| row(format!("exit {i}"), network.multiply_adds_to(i), accuracy);
        let mut rows: Vec<_> = seen.members.iter().enumerate().map(exit).collect();
        rows.push(row("all exits".to_owned(), network.counts().multiply_adds, &seen.ensemble));
        return table::render(&["", "multiply-adds", "top-1", "top-5", "NLL"], &rows);
    }
    let member = |(m, accuracy): (usize, &Accuracy)| {
        let name = format!("{m} {}", plan.members[m].architecture);
        row(name, member_parameters(plan, MemberId(m)), accuracy)
    };
    let mut rows: Vec<_> = seen.members.iter().enumerate().map(member).collect();
    if rows.len() > 1 {
        rows.push(row("ensemble".to_owned(), plan.bill.trained(), &seen.ensemble));
    }
    table::render(&["", "parameters", "top-1", "top-5", "NLL"], &rows)
}

pub fn json(outcome: &Outcome, plan: &SharingPlan) -> Value {
    let members = (0..plan.members.len()).map(MemberId);
    let member = |id: MemberId| {
        json!({
            "architecture": plan.members[id.0].architecture.to_string(),
            "parameters": member_parameters(plan, id),
        })
    };
    let mut json = json!({
        "run": outcome.folder,
        "stopped": outcome.stopped.word(),
        "phase": outcome.position.phase,
        "epoch": outcome.position.epoch,
        "checkpoint": outcome.checkpoint,
        "budget": plan.budget,
        "parameters": plan.bill.trained(),
        "members": members.map(member).collect::<Vec<_>>(),
        "validation": outcome.validation,
        "test": outcome.test,
    });
    if Outputs::of_plan(plan).nested() {
        // The entries of `validation` and `test` are exits then, not members.
        json["exits"] = true.into();
    }
    json
}
