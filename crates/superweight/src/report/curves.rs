//! How training went: the log as curves over epochs.
//!
//! Epochs count through: those of the search first, then those of training, so that one axis shows the run as it was.
//! The lines are read by name and kind; what a line does not have, or what is no number (NaN is `null`), is no point.

use serde::Serialize;

use crate::run::{EpochEvent, Event, Line};

/// Everything about training that can be drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Curves {
    /// Lines to draw.
    pub series: Vec<Series>,
    /// Phases in their order, with the first and last epoch of each on the common axis.
    pub phases: Vec<PhaseSpan>,
    /// What happened in between, at an epoch of the axis.
    pub marks: Vec<Mark>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// `top1`, `loss` or `lr`.
    pub metric: &'static str,
    /// `train`, `validation` or `test`.
    pub split: &'static str,
    /// None for the ensemble, or for what all have in common.
    pub member: Option<usize>,
    /// Epochs done, value.
    pub points: Vec<(f64, f64)>,
}

/// A phase on the axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseSpan {
    /// `search`, `train`, …
    pub phase: String,
    /// Epochs before it.
    pub from: f64,
    /// Epochs after it.
    pub to: f64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Epochs done.
    pub at: f64,
    /// What.
    pub what: &'static str,
}

impl Curves {
    /// Of a log; none where no epoch was finished.
    pub fn new(log: &[Line]) -> Option<Self> {
        let mut curves = Self::default();
        for line in log {
            match &line.event {
                Event::Epoch(epoch) => {
                    curves.add_epoch(epoch);
                    // The other curves' last point is the average's; the training curve's is not.
                    if epoch.swa > 0 {
                        curves.mark("stochastic weight average from here on", epoch.swa as f64);
                    }
                }
                Event::Search(_) => curves.mark("clusters found, parameters reinitialised", 0.0),
                Event::Refine(_) => curves.mark("coefficients refined", 0.0),
                _ => {}
            }
        }
        (!curves.phases.is_empty()).then_some(curves)
    }

    /// So many epochs before the last one that is known.
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
            let Some(found) = evaluation else { continue };
            let members = found.members.iter().enumerate().map(|(m, one)| (Some(m), one));
            for (member, one) in members.chain([(None, &found.ensemble)]) {
                self.add("top1", split, member, at, one.top1);
                self.add("loss", split, member, at, one.nll);
            }
        }
    }

    /// Adds a point to a curve, unless the value is not finite.
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
            Some(series) => series.points.push((at, value)),
            None => self.series.push(Series { metric, split, member, points: vec![(at, value)] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn epoch(phase: &str, epoch: u64, metrics: Value) -> Line {
        let Value::Object(metrics) = metrics else { unreachable!() };
        Line { time: 1.0, event: Event::Epoch { phase: phase.to_owned(), epoch, metrics } }
    }

    #[test]
    fn search_and_training_stand_on_one_axis() {
        let seen = |top1: f64| {
            let scores = json!({ "top1": top1, "loss": 1.5 });
            json!({
                "train": { "losses": [2.0, null], "top1": [30.0, 31.0], "rate": 0.1 },
                "validation": { "members": [scores, scores], "ensemble": scores },
            })
        };
        let log = [
            epoch("search", 0, seen(10.0)),
            epoch("search", 1, seen(11.0)),
            Line { time: 2.0, event: Event::Search(Default::default()) },
            epoch("train", 0, seen(20.0)),
        ];
        let mut averaged = seen(25.0);
        averaged["averaged"] = 1.into();
        let averaged =
            Curves::new(&[log.to_vec(), vec![epoch("train", 1, averaged)]].concat()).unwrap();
        assert_eq!(
            averaged.marks[1],
            Mark { at: 3.0, what: "the last point is the mean from here on" }
        );
        let curves = Curves::new(&log).unwrap();
        let phases: Vec<_> =
            curves.phases.iter().map(|p| (p.phase.as_str(), p.from, p.to)).collect();
        assert_eq!(phases, [("search", 0.0, 2.0), ("train", 2.0, 3.0)]);
        assert_eq!(curves.marks, [Mark { at: 2.0, what: "clusters found, parameters reinitialised" }]);
        let ensemble = curves
            .series
            .iter()
            .find(|s| (s.metric, s.split, s.member) == ("top1", "validation", None));
        assert_eq!(ensemble.unwrap().points, [(1.0, 10.0), (2.0, 11.0), (3.0, 20.0)]);
        // What is no number is no point, and no line.
        assert!(
            !curves
                .series
                .iter()
                .any(|s| (s.metric, s.split, s.member) == ("loss", "train", Some(1)))
        );
        assert!(Curves::new(&[]).is_none());
    }
}
