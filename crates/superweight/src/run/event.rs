//! The events of a run's log, with types: what training writes, and what report, sweep and
//! publishing read.
//!
//! JSON has no NaN: a value that is not finite is written as `null` and read back as NaN. A field
//! that an older log lacks takes its default, so that logs stay readable; a field of the wrong type
//! is an error.

use serde::{Deserialize, Deserializer, Serialize};
use superweight_plan::Bill;

use crate::model::ensemble::ParameterKind;
use crate::recipe::Strategy;

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run begins.
    Start(Box<StartEvent>),
    /// The run continues from a checkpoint.
    Resume(ResumeEvent),
    /// An epoch is complete.
    Epoch(EpochEvent),
    /// The search has decided the clusters.
    Search(Box<DecisionEvent>),
    /// Refinement has decided the coefficient groups.
    Refine(Box<DecisionEvent>),
    /// Members and ensemble were evaluated after the last epoch.
    Eval(EvalEvent),
    /// A problem that does not stop the run.
    Warning(WarningEvent),
    /// The run ends.
    Stop(StopEvent),
}

/// Facts about a run, known before its first step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartEvent {
    /// Version of the program.
    pub version: String,
    /// Name of the run.
    pub name: String,
    /// Sharing strategy.
    pub strategy: Strategy,
    /// Seed of every random choice.
    pub seed: u64,
    /// Architectures of the members.
    pub members: Vec<String>,
    /// Parameter budget.
    pub budget: Option<u64>,
    /// Parameters of the plan, by part.
    pub bill: Bill,
    /// Weight decay of each kind of parameter.
    #[serde(default)]
    pub weight_decay: Vec<WeightDecayGroup>,
    /// Name of the data set.
    pub data: String,
    /// Number of training, validation and test images.
    pub images: [usize; 3],
    /// Epochs between evaluations on the test set; 0 means at the end only.
    #[serde(default)]
    pub test_every: u64,
}

/// Parameters of one kind, with their weight decay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeightDecayGroup {
    /// Kind of the parameters.
    pub kind: ParameterKind,
    /// Number of parameters.
    pub parameters: u64,
    /// Weight decay λ.
    pub weight_decay: f64,
}

/// Where a resumed run continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResumeEvent {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// `search` or `train`.
    pub phase: String,
    /// Epochs of the phase that are complete.
    pub epoch: u64,
}

/// Figures of a complete epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochEvent {
    /// `search` or `train`.
    pub phase: String,
    /// Index of the epoch in its phase, from 0.
    pub epoch: u64,
    /// Number of epochs of the phase.
    pub epochs: u64,
    /// Training loss, mean over members.
    #[serde(deserialize_with = "or_nan")]
    pub loss: f64,
    /// Figures of the training steps.
    pub train: TrainFigures,
    /// Epochs in the stochastic weight average, when this epoch ends with one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swa: u64,
    /// Evaluation on the validation images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Evaluation>,
    /// Evaluation on the test images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Evaluation>,
}

/// Sums over the training steps of one epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainFigures {
    /// Training loss, mean over members.
    #[serde(deserialize_with = "or_nan")]
    pub loss: f64,
    /// Training loss of each member, mean over the epoch while its weights change.
    #[serde(deserialize_with = "all_or_nan")]
    pub losses: Vec<f64>,
    /// Training top-1 accuracy of each member, in percent.
    #[serde(deserialize_with = "all_or_nan")]
    pub top1: Vec<f64>,
    /// Channels of each member whose batch-norm scale is nearly zero, in percent
    /// ([`Ensemble::zero_channels`](crate::model::ensemble::Ensemble::zero_channels)).
    #[serde(default, deserialize_with = "all_or_nan")]
    pub zero_channels: Vec<f64>,
    /// Learning rate of the last step.
    #[serde(deserialize_with = "or_nan")]
    pub lr: f64,
    /// Seconds of the training steps, without evaluation.
    pub seconds: f64,
    /// Training images per second; an image that every member reads counts once.
    #[serde(deserialize_with = "or_nan")]
    pub images_per_s: f64,
}

/// Figures of one member or of the ensemble on some images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Top-1 accuracy in percent.
    #[serde(deserialize_with = "or_nan")]
    pub top1: f64,
    /// Top-5 accuracy in percent.
    #[serde(deserialize_with = "or_nan")]
    pub top5: f64,
    /// Mean negative log-likelihood.
    #[serde(deserialize_with = "or_nan")]
    pub nll: f64,
}

/// An evaluation of all members on some images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Number of images.
    pub images: usize,
    /// Figures of the ensemble: the mean of its members' probabilities.
    pub ensemble: Accuracy,
    /// Figures of each member, or of each exit.
    pub members: Vec<Accuracy>,
}

/// What a search or a refinement has decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionEvent {
    /// Number of clusters before the decision.
    pub clusters_before: usize,
    /// Number of clusters after it.
    pub clusters: usize,
    /// Layers of each cluster.
    pub sizes: Vec<usize>,
    /// Number of coefficient groups before the decision.
    pub groups_before: usize,
    /// Number of coefficient groups after it.
    pub groups: usize,
    /// Parameters before the decision, by part.
    pub bill_before: Bill,
    /// Parameters after it, by part.
    pub bill: Bill,
    /// Parameter budget.
    pub budget: Option<u64>,
    /// τ as requested, where gradient or weight similarity decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
    /// τ that gave the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tau_used: Option<f64>,
    /// β as requested, where refinement decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// β that gave the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beta_used: Option<f64>,
    /// k of k-means as requested, where coefficients decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<f64>,
    /// k that gave the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k_used: Option<f64>,
    /// Why the threshold in use differs from the one requested.
    #[serde(default)]
    pub relaxed: Option<String>,
}

/// An evaluation after the last epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalEvent {
    /// Always `test`: validation figures belong to epochs.
    pub split: String,
    /// Figures on the test images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Evaluation>,
}

/// A problem that does not stop the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarningEvent {
    /// The message.
    pub warning: String,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopEvent {
    /// `finished`, `interrupted`, `time limit`, `diverged` and others.
    pub reason: String,
    /// Number of the newest checkpoint.
    #[serde(default)]
    pub checkpoint: Option<u64>,
    /// What diverged, where training diverged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

impl StopEvent {
    /// Reason of a run that reached its last epoch.
    pub const FINISHED: &str = "finished";
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A number, or NaN where JSON has `null`.
fn or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Numbers, with NaN where JSON has `null`.
fn all_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(from)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accuracy(top1: f64) -> Accuracy {
        Accuracy { top1, top5: 99.5, nll: 0.1 + 0.2 }
    }

    fn evaluation(top1: f64) -> Evaluation {
        Evaluation { images: 100, ensemble: accuracy(top1), members: vec![accuracy(1.0 / 3.0)] }
    }

    fn epoch() -> EpochEvent {
        EpochEvent {
            phase: "train".to_owned(),
            epoch: 3,
            epochs: 10,
            loss: 1.25,
            train: TrainFigures {
                loss: 1.25,
                losses: vec![1.0, 1.5],
                top1: vec![50.0, 60.0],
                zero_channels: vec![0.0, 12.5],
                lr: 0.1,
                seconds: 2.5,
                images_per_s: 1000.0,
            },
            swa: 2,
            validation: Some(evaluation(70.0)),
            test: None,
        }
    }

    fn decision() -> DecisionEvent {
        let mut bill = Bill::default();
        (bill.templates, bill.coefficients, bill.reserved) = (1, 2, 3);
        (bill.batch_norm, bill.classifier, bill.dense) = (4, 5, 6);
        DecisionEvent {
            clusters_before: 1,
            clusters: 3,
            sizes: vec![2, 1, 4],
            groups_before: 7,
            groups: 5,
            bill_before: bill,
            bill,
            budget: Some(365_000),
            tau: Some(0.9),
            tau_used: Some(0.85),
            beta: None,
            beta_used: None,
            k: None,
            k_used: None,
            relaxed: Some("the budget".to_owned()),
        }
    }

    fn start() -> StartEvent {
        StartEvent {
            version: "0.1.0".to_owned(),
            name: "demo".to_owned(),
            strategy: Strategy::NoRefine,
            seed: u64::MAX,
            members: vec!["wrn-10-1".to_owned()],
            budget: None,
            bill: decision().bill,
            weight_decay: vec![WeightDecayGroup {
                kind: ParameterKind::BatchNorm,
                parameters: 12,
                weight_decay: 5e-4,
            }],
            data: "mnist".to_owned(),
            images: [50_000, 10_000, 10_000],
            test_every: 0,
        }
    }

    fn json(event: &Event) -> String {
        serde_json::to_string(event).unwrap()
    }

    #[test]
    fn every_event_comes_back_from_json() {
        let refine = DecisionEvent {
            tau: None,
            tau_used: None,
            beta: Some(0.2),
            beta_used: Some(0.2),
            k: Some(4.0),
            k_used: Some(3.0),
            relaxed: None,
            ..decision()
        };
        let (reason, what) = ("diverged".to_owned(), Some("the loss of member 0".to_owned()));
        let resume = ResumeEvent { checkpoint: 4, phase: "search".to_owned(), epoch: 2 };
        let eval = EvalEvent { split: "test".to_owned(), test: Some(evaluation(71.0)) };
        for event in [
            Event::Start(Box::new(start())),
            Event::Resume(resume),
            Event::Epoch(epoch()),
            Event::Search(Box::new(decision())),
            Event::Refine(Box::new(refine)),
            Event::Eval(eval),
            Event::Warning(WarningEvent { warning: "the GPU is hot".to_owned() }),
            Event::Stop(StopEvent { reason, checkpoint: Some(9), what }),
        ] {
            let text = json(&event);
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        }
    }

    /// Other programs read these lines with `jq`.
    #[test]
    fn lines_have_these_fields() {
        assert_eq!(
            json(&Event::Epoch(epoch())),
            concat!(
                r#"{"event":"epoch","phase":"train","epoch":3,"epochs":10,"loss":1.25,"#,
                r#""train":{"loss":1.25,"losses":[1.0,1.5],"top1":[50.0,60.0],"#,
                r#""zero_channels":[0.0,12.5],"lr":0.1,"seconds":2.5,"images_per_s":1000.0},"#,
                r#""swa":2,"validation":{"images":100,"#,
                r#""ensemble":{"top1":70.0,"top5":99.5,"nll":0.30000000000000004},"#,
                r#""members":[{"top1":0.3333333333333333,"top5":99.5,"nll":0.30000000000000004}]}}"#
            )
        );
        assert_eq!(
            json(&Event::Stop(StopEvent {
                reason: StopEvent::FINISHED.to_owned(),
                checkpoint: None,
                what: None
            })),
            r#"{"event":"stop","reason":"finished","checkpoint":null}"#
        );
        assert!(json(&Event::Start(Box::new(start()))).contains(
            r#""weight_decay":[{"kind":"batch-norm","parameters":12,"weight_decay":0.0005}]"#
        ));
        let plain = EpochEvent { swa: 0, validation: None, ..epoch() };
        assert!(json(&Event::Epoch(plain)).ends_with(r#""images_per_s":1000.0}}"#));
    }

    #[test]
    fn values_that_are_not_finite_are_null_and_come_back_as_nan() {
        let mut event = epoch();
        (event.loss, event.train.losses) = (f64::NAN, vec![1.0, f64::NAN]);
        (event.train.lr, event.train.images_per_s) = (f64::INFINITY, f64::NAN);
        event.validation.as_mut().unwrap().ensemble.nll = f64::NAN;
        let text = json(&Event::Epoch(event));
        assert!(text.contains(r#""loss":null,"train":{"loss":1.25,"losses":[1.0,null]"#), "{text}");
        let Event::Epoch(back) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        assert!(back.loss.is_nan() && back.train.losses[1].is_nan() && back.train.lr.is_nan());
        assert!(back.train.images_per_s.is_nan() && back.train.losses[0] == 1.0);
        assert!(back.validation.unwrap().ensemble.nll.is_nan());
    }

    /// Logs of older programs lack fields that came later.
    #[test]
    fn lines_of_older_programs_are_read() {
        let old = concat!(
            r#"{"event":"epoch","phase":"train","epoch":0,"epochs":2,"loss":1.5,"#,
            r#""train":{"loss":1.5,"losses":[1.5],"top1":[20.0],"lr":0.1,"seconds":1.0,"#,
            r#""images_per_s":10.0}}"#
        );
        let Event::Epoch(epoch) = serde_json::from_str(old).unwrap() else { panic!("{old}") };
        assert_eq!((epoch.train.zero_channels.len(), epoch.swa), (0, 0));
        assert_eq!((epoch.validation, epoch.test), (None, None));
        let Event::Stop(stop) =
            serde_json::from_str(r#"{"event":"stop","reason":"finished"}"#).unwrap()
        else {
            panic!("a stop")
        };
        assert_eq!((stop.reason.as_str(), stop.checkpoint), (StopEvent::FINISHED, None));
        let mut start = serde_json::to_value(Event::Start(Box::new(start()))).unwrap();
        start
            .as_object_mut()
            .unwrap()
            .retain(|key, _| key != "weight_decay" && key != "test_every");
        let Event::Start(start) = serde_json::from_value(start).unwrap() else { panic!("a start") };
        assert_eq!((start.weight_decay.len(), start.test_every), (0, 0));
    }

    #[test]
    fn fields_of_another_type_are_errors() {
        for text in [
            r#"{"event":"stop","reason":3}"#,
            r#"{"event":"resume","checkpoint":-1,"phase":"train","epoch":0}"#,
            r#"{"event":"eval","split":"test","test":{"images":"many"}}"#,
            r#"{"event":"pause"}"#,
            r#"{"reason":"finished"}"#,
        ] {
            assert!(serde_json::from_str::<Event>(text).is_err(), "{text}");
        }
    }
}
