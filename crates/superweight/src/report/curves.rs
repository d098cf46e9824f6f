//! Training curves: the log as lines over epochs of training.
//!
//! Epoch 1 is the first of training, whatever came before it. A search is on the same axis at and
//! below 0, so that a chart can show it or leave it out. A value that is missing or not finite
//! (`null` in JSON) is not a point.

use serde::Serialize;

use crate::run::{EpochEvent, Evaluation, Event, Line};

/// All training curves of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Curves {
    /// The lines.
    pub series: Vec<Series>,
    /// Phases in their order, with their ranges on the axis.
    pub phases: Vec<PhaseSpan>,
    /// Events between epochs.
    pub marks: Vec<Mark>,
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Series {
    /// `top1`, `nll` (of an evaluation), `loss` (of training) or `lr`.
    pub metric: &'static str,
    /// `train`, `validation` or `test`.
    pub split: &'static str,
    /// Index of the member or exit; none for the ensemble and for values that all members share.
    pub member: Option<usize>,
    /// Number of complete epochs, and the value.
    pub points: Vec<(f64, f64)>,
}

/// Range of a phase on the axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseSpan {
    /// `search` or `train`.
    pub phase: String,
    /// Position before the phase's first epoch.
    pub from: f64,
    /// Position of the phase's last epoch.
    pub to: f64,
}

/// An event on the axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Mark {
    /// Number of complete epochs.
    pub at: f64,
    /// The event in words.
    pub what: &'static str,
}

impl Curves {
    /// The curves of a log; none if no epoch is complete.
    pub fn new(log: &[Line]) -> Option<Self> {
        let mut curves = Self::default();
        for line in log {
            match &line.event {
                Event::Epoch(epoch) => {
                    curves.add_epoch(epoch);
                    // The average is what evaluations of this epoch measure, not what training
                    // does.
                    if epoch.swa > 0 {
                        curves.mark("stochastic weight average from here on", epoch.swa as f64);
                    }
                }
                Event::Eval(eval) => {
                    let last = curves.phases.last().filter(|phase| phase.phase == "train");
                    if let Some((at, test)) = last.map(|phase| phase.to).zip(eval.test.as_ref()) {
                        curves.add_evaluation("test", at, test);
                    }
                }
                Event::Search(_) => curves.mark("clusters found, parameters reinitialized", 0.0),
                Event::Refine(_) => curves.mark("coefficients refined", 0.0),
                _ => {}
            }
        }
        let training = curves.phases.iter().find(|phase| phase.phase == "train");
        let before = training.map_or(0.0, |phase| phase.from);
        curves.shift(-before);
        (!curves.phases.is_empty()).then_some(curves)
    }

    /// Moves everything along the axis.
    fn shift(&mut self, by: f64) {
        let points = self.series.iter_mut().flat_map(|series| &mut series.points);
        points.for_each(|(at, _)| *at += by);
        self.marks.iter_mut().for_each(|mark| mark.at += by);
        for phase in &mut self.phases {
            phase.from += by;
            phase.to += by;
        }
    }

    /// Adds an event, this many epochs before the newest one.
    fn mark(&mut self, what: &'static str, before: f64) {
        let at = self.phases.last().map_or(0.0, |phase| phase.to);
        self.marks.push(Mark { at: at - before, what });
    }

    fn add_epoch(&mut self, done: &EpochEvent) {
        if self.phases.last().is_none_or(|last| last.phase != done.phase) {
            let from = self.phases.last().map_or(0.0, |last| last.to);
            self.phases.push(PhaseSpan { phase: done.phase.clone(), from, to: from });
        }
        let span = self.phases.last_mut().expect("one was just added");
        let at = span.from + done.epoch as f64 + 1.0;
        span.to = span.to.max(at);
        for (metric, values) in [("top1", &done.train.top1), ("loss", &done.train.losses)] {
            for (member, value) in values.iter().enumerate() {
                self.add(metric, "train", Some(member), at, *value);
            }
        }
        self.add("lr", "train", None, at, done.train.lr);
        for (split, evaluation) in [("validation", &done.validation), ("test", &done.test)] {
            if let Some(evaluation) = evaluation {
                self.add_evaluation(split, at, evaluation);
            }
        }
    }

    fn add_evaluation(&mut self, split: &'static str, at: f64, evaluation: &Evaluation) {
        let members = evaluation.members.iter().enumerate().map(|(m, one)| (Some(m), one));
        for (member, one) in members.chain([(None, &evaluation.ensemble)]) {
            self.add("top1", split, member, at, one.top1);
            self.add("nll", split, member, at, one.nll);
        }
    }

    /// Adds a point to a line, or replaces its point at this position. A value that is not finite
    /// is left out.
    fn add(
        &mut self,
        metric: &'static str,
        split: &'static str,
        member: Option<usize>,
        at: f64,
        value: f64,
    ) {
        if !value.is_finite() {
            return;
        }
        let known = self
            .series
            .iter_mut()
            .find(|s| (s.metric, s.split, s.member) == (metric, split, member));
        match known {
            Some(series) => match series.points.last_mut().filter(|(last, _)| *last == at) {
                Some(point) => point.1 = value,
                None => series.points.push((at, value)),
            },
            None => self.series.push(Series { metric, split, member, points: vec![(at, value)] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line(mut event: Value) -> Line {
        event["time"] = 1.0.into();
        serde_json::from_value(event).unwrap()
    }

    fn epoch(phase: &str, epoch: u64, top1: f64, swa: u64) -> Line {
        let scores = json!({ "top1": top1, "top5": 50.0, "nll": 1.5 });
        line(json!({
            "event": "epoch", "phase": phase, "epoch": epoch, "epochs": 2, "loss": null, "swa": swa,
            "train": {
                "loss": null, "losses": [2.0, null], "top1": [30.0, 31.0], "lr": 0.1,
                "seconds": 1.0, "images_per_s": 1.0,
            },
            "validation": { "images": 9, "members": [scores, scores], "ensemble": scores },
        }))
    }

    fn search() -> Line {
        let bill = json!({ "templates": 1, "coefficients": 0, "reserved": 0, "batch_norm": 0, "classifier": 0, "dense": 0 });
        line(json!({
            "event": "search", "clusters_before": 1, "clusters": 1, "sizes": [1],
            "groups_before": 1, "groups": 1, "bill_before": bill, "bill": bill, "budget": null,
        }))
    }

    fn find<'a>(
        curves: &'a Curves,
        metric: &str,
        split: &str,
        member: Option<usize>,
    ) -> Option<&'a Series> {
        curves.series.iter().find(|s| (s.metric, s.split, s.member) == (metric, split, member))
    }

    #[test]
    fn the_axis_begins_with_training_and_the_search_is_below_zero() {
        let log = [
            epoch("search", 0, 10.0, 0),
            epoch("search", 1, 11.0, 0),
            search(),
            epoch("train", 0, 20.0, 0),
        ];
        let curves = Curves::new(&log).unwrap();
        let phases: Vec<_> =
            curves.phases.iter().map(|p| (p.phase.as_str(), p.from, p.to)).collect();
        assert_eq!(phases, [("search", -2.0, 0.0), ("train", 0.0, 1.0)]);
        assert_eq!(
            curves.marks,
            [Mark { at: 0.0, what: "clusters found, parameters reinitialized" }]
        );
        let ensemble = find(&curves, "top1", "validation", None).unwrap();
        assert_eq!(ensemble.points, [(-1.0, 10.0), (0.0, 11.0), (1.0, 20.0)]);
        assert!(find(&curves, "nll", "validation", Some(1)).is_some());
        assert!(find(&curves, "loss", "validation", None).is_none(), "a loss is of training");
        assert_eq!(find(&curves, "loss", "train", Some(1)), None, "null is not a point");
        assert!(Curves::new(&[]).is_none());
        let only_search = Curves::new(&log[..3]).unwrap();
        assert_eq!((only_search.phases[0].from, only_search.phases[0].to), (0.0, 2.0));
    }

    #[test]
    fn a_weight_average_is_marked_where_it_begins() {
        let log = [epoch("train", 0, 20.0, 0), epoch("train", 1, 25.0, 1)];
        let curves = Curves::new(&log).unwrap();
        let what = "stochastic weight average from here on";
        assert_eq!(curves.marks, [Mark { at: 1.0, what }]);
    }

    #[test]
    fn the_evaluation_after_training_is_the_last_point_on_test_images() {
        let scores = json!({ "top1": 61.0, "top5": 90.0, "nll": 1.0 });
        let test = json!({ "images": 9, "members": [scores], "ensemble": scores });
        let eval = line(json!({ "event": "eval", "split": "test", "test": test }));
        let log = [epoch("train", 0, 20.0, 0), epoch("train", 1, 25.0, 0), eval.clone(), eval];
        let curves = Curves::new(&log).unwrap();
        assert_eq!(find(&curves, "top1", "test", None).unwrap().points, [(2.0, 61.0)]);
    }
}
