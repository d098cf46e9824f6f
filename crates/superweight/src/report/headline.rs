//! The few numbers that matter, and what the run was.

use serde::Serialize;
use sha2::{Digest, Sha256};
use superweight_plan::SharingPlan;
use superweight_plan::arch::ArchName;

use super::evaluation::Evaluation;
use crate::recipe::Resolved;
use crate::run::{self, Event, Invocation, Line};

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// Architectures.
    pub members: Vec<String>,
    /// How many exits the only one has.
    pub exits: usize,
    /// Data set.
    pub data: String,
    /// Told apart.
    pub classes: usize,
    /// As the recipe writes it; in words where the plan was given.
    pub strategy: String,
    /// The beginning of the digest of the plan that was given, where one was.
    pub given: Option<String>,
    /// As the recipe writes it, resolved: starting clusters.
    pub clusters: String,
    /// Of this run.
    pub seed: u64,
    /// Of training.
    pub epochs: u64,
    /// τ, where there is a search.
    pub tau: Option<f64>,
    /// β, where there is a refinement.
    pub beta: Option<f64>,
    /// What was typed, without folders of a machine, and what it ran on.
    pub commands: Vec<Invocation>,
    /// As the user wrote it.
    pub recipe: String,
    /// With every default filled in.
    pub resolved: String,
}

/// The numbers at the top.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Headline {
    /// Accuracy, where something was measured.
    pub accuracy: Option<Accuracy>,
    /// Trainable numbers there are.
    pub trained: u64,
    /// What there may be.
    pub budget: Option<u64>,
    /// What there would be without sharing.
    pub dense_total: u64,
    /// Of steps, all phases together.
    pub seconds: f64,
    /// Epochs of training done.
    pub epochs: u64,
    /// With more than one layer.
    pub shared_clusters: usize,
    /// All.
    pub clusters: usize,
    /// Why it ended; none while it goes on.
    pub stopped: Option<String>,
    /// What the run had to say.
    pub warnings: Vec<String>,
}

/// A look at some images.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// `test` or `validation`.
    pub split: String,
    /// How many images, where that is known.
    pub images: Option<u64>,
    /// Top-1 of all members together, in percent.
    pub ensemble: f64,
    /// Of each.
    pub members: Vec<f64>,
}

impl About {
    /// From the recipe that the run keeps, who trained it, and the plan that it was given where that is still there.
    pub fn new(
        resolved: &Resolved,
        recipe: String,
        commands: Vec<Invocation>,
        given: Option<&str>,
    ) -> Self {
        let strategy = match (&resolved.plan.file, &resolved.refine) {
            (None, _) => resolved.strategy.word(),
            (Some(_), None) => "given plan",
            (Some(_), Some(_)) => "given plan, refined",
        };
        let digest = |plan: &str| {
            Sha256::digest(plan).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
        };
        Self {
            members: resolved.members.iter().map(ToString::to_string).collect(),
            exits: resolved.members.iter().map(ArchName::exits).max().unwrap_or(1),
            data: resolved.data.name.clone(),
            classes: resolved.data.classes,
            strategy: strategy.to_owned(),
            given: given.map(digest),
            clusters: resolved.plan.clusters.to_string(),
            seed: resolved.seed,
            epochs: resolved.train.epochs,
            tau: resolved.search.as_ref().map(|search| search.settings.tau),
            beta: resolved.refine.as_ref().map(|refine| refine.beta),
            commands,
            recipe,
            resolved: resolved.to_toml(),
        }
    }
}

impl Headline {
    /// From the plan and the log.
    pub fn new(plan: &SharingPlan, log: &[Line]) -> Self {
        let mut headline = Self {
            trained: plan.bill.trained(),
            budget: plan.budget,
            dense_total: plan.dense_total(),
            clusters: plan.clusters.len(),
            shared_clusters: plan
                .clusters
                .iter()
                .filter(|cluster| cluster.layers.len() > 1)
                .count(),
            ..Self::default()
        };
        for line in log {
            headline.add(&line.event);
        }
        headline
    }

    /// What was evaluated on the test set is the better answer than what training saw, where training did not look there.
    pub(super) fn complete(&mut self, evaluation: &Evaluation) {
        let whole = evaluation.split == "test" && !evaluation.partial;
        let Some(all) = evaluation.ensemble().filter(|_| whole) else { return };
        if self.accuracy.as_ref().is_none_or(|accuracy| accuracy.split != "test") {
            let members = (0..all.members.len())
                .filter_map(|member| evaluation.member(member))
                .map(|one| one.top1);
            self.accuracy = Some(Accuracy {
                split: "test".to_owned(),
                images: Some(evaluation.images),
                ensemble: all.top1,
                members: members.collect(),
            });
        }
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Start(_) | Event::Resume(_) => self.stopped = None,
            Event::Epoch(done) => {
                self.stopped = None;
                if done.phase == "train" {
                    self.epochs = done.epoch.saturating_add(1);
                    let test = done.test.as_ref().map(|test| Accuracy::of("test", test));
                    let validation = || {
                        done.validation.as_ref().map(|found| Accuracy::of("validation", found))
                    };
                    self.accuracy = test.or_else(validation).or(self.accuracy.take());
                }
                self.seconds += done.train.seconds;
            }
            Event::Eval(eval) => {
                let test = eval.test.as_ref().map(|test| Accuracy::of("test", test));
                self.accuracy = test.or(self.accuracy.take());
            }
            Event::Warning(event) => self.warnings.push(event.warning.clone()),
            Event::Stop(stop) => self.stopped = Some(stop.reason.clone()),
            Event::Search(_) | Event::Refine(_) => {}
        }
    }
}

impl Accuracy {
    fn of(split: &str, evaluation: &run::Evaluation) -> Self {
        Self {
            split: split.to_owned(),
            images: Some(evaluation.images as u64),
            ensemble: evaluation.ensemble.top1,
            members: evaluation.members.iter().map(|member| member.top1).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SubsetView;
    use crate::run::Facts;
    use serde_json::json;

    #[test]
    fn the_last_look_counts_and_the_test_set_most() {
        let seen = |top1: f64| json!({ "images": 9, "ensemble": { "top1": top1 }, "members": [{ "top1": 1.0 }] });
        let epoch = |epoch, metrics: Value| Event::Epoch {
            phase: "train".to_owned(),
            epoch,
            metrics: metrics.as_object().unwrap().clone(),
        };
        let mut headline = Headline::default();
        headline.add(&epoch(0, json!({ "train": { "seconds": 2.5 }, "validation": seen(10.0) })));
        headline.add(&epoch(1, json!({ "train": { "seconds": 1.5 }, "validation": seen(12.0) })));
        let look = headline.accuracy.clone().unwrap();
        assert_eq!(
            (look.split.as_str(), look.ensemble, headline.seconds),
            ("validation", 12.0, 4.0)
        );
        headline.add(&Event::Stop { reason: "time limit".to_owned(), metrics: Default::default() });
        assert_eq!(headline.stopped.as_deref(), Some("time limit"));
        headline.add(&epoch(2, json!({})));
        assert_eq!((headline.stopped.as_deref(), headline.epochs), (None, 3));
        let mut hostile = headline.clone();
        hostile.add(&epoch(u64::MAX, json!({})));
        assert_eq!(hostile.epochs, u64::MAX);
        headline.add(&Event::Eval(Facts::from([("test", seen(11.0))])));
        let look = headline.accuracy.unwrap();
        assert_eq!((look.split.as_str(), look.ensemble, look.members), ("test", 11.0, vec![1.0]));
        // A run that was interrupted and evaluated.
        let subset = |members: &[usize], top1| SubsetView {
            members: members.to_vec().try_into().unwrap(),
            top1,
            ..SubsetView::default()
        };
        let evaluation = Evaluation {
            split: "test".to_owned(),
            images: 200,
            subsets: vec![subset(&[0], 40.0), subset(&[1], 41.0), subset(&[0, 1], 45.0)],
            ..Evaluation::default()
        };
        let mut interrupted = Headline::default();
        interrupted.complete(&Evaluation { split: "held-out".to_owned(), ..evaluation.clone() });
        interrupted.complete(&Evaluation { partial: true, ..evaluation.clone() });
        assert_eq!(interrupted.accuracy, None);
        interrupted.complete(&evaluation);
        let look = interrupted.accuracy.unwrap();
        assert_eq!((look.images, look.ensemble, look.members), (Some(200), 45.0, vec![40.0, 41.0]));
    }
}
