//! What was run, and the figures at the top of the page.

use serde::Serialize;
use sha2::{Digest, Sha256};
use superweight_plan::SharingPlan;
use superweight_plan::arch::ArchName;

use super::evaluation::Evaluation;
use crate::recipe::Resolved;
use crate::run::{self, Event, Invocation, Line};

/// Recipe, command and device of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct About {
    /// Architectures of the members.
    pub members: Vec<String>,
    /// Number of exits of the only member; 1 without exits.
    pub exits: usize,
    /// Name of the data set.
    pub data: String,
    /// Number of classes.
    pub classes: usize,
    /// Strategy in the recipe's word, or `given plan` if the run started from a plan file.
    pub strategy: String,
    /// First 8 digits of the digest of the plan file; none if there is no file.
    pub given: Option<String>,
    /// Initial clusters in the resolved recipe's word.
    pub clusters: String,
    /// Seed of the run.
    pub seed: u64,
    /// Number of training epochs in the recipe.
    pub epochs: u64,
    /// τ of the search; none without a search.
    pub tau: Option<f64>,
    /// β of the refinement; none without a refinement.
    pub beta: Option<f64>,
    /// Commands that ran this run, without local folders, and their devices.
    pub commands: Vec<Invocation>,
    /// The recipe as the user wrote it.
    pub recipe: String,
    /// The recipe with every default filled in.
    pub resolved: String,
}

/// The figures at the top of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Headline {
    /// The newest accuracy; none before the first evaluation.
    pub accuracy: Option<Accuracy>,
    /// Number of parameters.
    pub trained: u64,
    /// Parameter budget.
    pub budget: Option<u64>,
    /// Number of parameters without sharing.
    pub dense_total: u64,
    /// Seconds of all steps of search and training.
    pub seconds: f64,
    /// Number of complete training epochs.
    pub epochs: u64,
    /// Number of clusters with more than one layer.
    pub shared_clusters: usize,
    /// Number of clusters.
    pub clusters: usize,
    /// Reason why the run ended; none while it continues.
    pub stopped: Option<String>,
    /// Warnings in the run's log.
    pub warnings: Vec<String>,
}

/// Top-1 accuracy of members and ensemble on one split.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Accuracy {
    /// `test` or `validation`.
    pub split: String,
    /// Number of images, if it is known.
    pub images: Option<u64>,
    /// Top-1 accuracy of all outputs together, in percent.
    pub ensemble: f64,
    /// Top-1 accuracy of each output, in percent.
    pub members: Vec<f64>,
}

impl About {
    /// Facts from the run's recipe, its commands, and the plan file it started from, if that still
    /// exists.
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
    /// Figures from the plan and the log.
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

    /// Takes the test accuracy from an evaluation, if training itself did not measure it.
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
                    let validation =
                        || done.validation.as_ref().map(|found| Accuracy::of("validation", found));
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
    use crate::run::{Line, WarningEvent};
    use serde_json::{Value, json};

    fn event(event: Value) -> Event {
        let mut line = event;
        line["time"] = 1.0.into();
        serde_json::from_value::<Line>(line).unwrap().event
    }

    fn evaluation(top1: f64) -> Value {
        let scores = |top1: f64| json!({ "top1": top1, "top5": null, "nll": null });
        json!({ "images": 9, "ensemble": scores(top1), "members": [scores(1.0)] })
    }

    fn epoch(epoch: u64, seconds: f64, validation: Option<f64>) -> Event {
        event(json!({
            "event": "epoch", "phase": "train", "epoch": epoch, "epochs": 3, "loss": null,
            "train": {
                "loss": null, "losses": [], "top1": [], "lr": null, "seconds": seconds,
                "images_per_s": null,
            },
            "validation": validation.map(evaluation),
        }))
    }

    fn stop(reason: &str) -> Event {
        event(json!({ "event": "stop", "reason": reason }))
    }

    #[test]
    fn the_newest_evaluation_counts_and_one_on_test_images_before_others() {
        let mut headline = Headline::default();
        headline.add(&epoch(0, 2.5, Some(10.0)));
        headline.add(&epoch(1, 1.5, Some(12.0)));
        let accuracy = headline.accuracy.clone().unwrap();
        assert_eq!(
            (accuracy.split.as_str(), accuracy.ensemble, headline.seconds),
            ("validation", 12.0, 4.0)
        );
        headline.add(&stop("time limit"));
        assert_eq!(headline.stopped.as_deref(), Some("time limit"));
        headline.add(&epoch(2, 0.0, None));
        assert_eq!((headline.stopped.as_deref(), headline.epochs), (None, 3));
        let mut hostile = headline.clone();
        hostile.add(&epoch(u64::MAX, 0.0, None));
        assert_eq!(hostile.epochs, u64::MAX);
        headline.add(&event(json!({ "event": "eval", "split": "test", "test": evaluation(11.0) })));
        let accuracy = headline.accuracy.clone().unwrap();
        assert_eq!(
            (accuracy.split.as_str(), accuracy.ensemble, accuracy.members),
            ("test", 11.0, vec![1.0])
        );
        headline.add(&Event::Warning(WarningEvent { warning: "w".to_owned() }));
        assert_eq!(headline.warnings, ["w"]);
    }

    #[test]
    fn an_evaluation_of_all_test_images_completes_an_interrupted_run() {
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
        interrupted.complete(&Evaluation { split: "validation".to_owned(), ..evaluation.clone() });
        interrupted.complete(&Evaluation { partial: true, ..evaluation.clone() });
        assert_eq!(interrupted.accuracy, None);
        interrupted.complete(&evaluation);
        let accuracy = interrupted.accuracy.unwrap();
        assert_eq!(
            (accuracy.images, accuracy.ensemble, accuracy.members),
            (Some(200), 45.0, vec![40.0, 41.0])
        );
    }
}
