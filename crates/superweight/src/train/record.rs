//! What is written down while a run goes on: `log.jsonl`, TensorBoard's curves, checkpoints.
//!
//! An epoch's line comes before its checkpoint, which notes how long the log is: resuming cuts what came after. Points of
//! curves stand at the number of optimizer steps, of all phases together.

use serde_json::json;
use superweight_engine::Device;

use super::{EpochReport, Evaluation, Session, Stopped, TrainError};
use crate::run::{Checkpoint, Event, Facts};
use crate::model::Outputs;

impl<D: Device> Session<D> {
    pub(super) fn record_epoch(&mut self, report: &EpochReport) -> Result<(), TrainError> {
        let mut metrics = Facts::from([
            ("epochs", json!(report.epochs)),
            ("loss", json!(report.train.loss)),
            ("train", json!(report.train)),
        ])
        .metrics;
        if report.averaged > 0 {
            metrics.insert("averaged".to_owned(), json!(report.averaged));
        }
        let phase = report.phase.word();
        let mut curves: Vec<(String, f64)> = vec![
            (format!("{phase}/loss"), report.train.loss),
            (format!("{phase}/rate"), report.train.rate),
            (format!("{phase}/images per second"), report.train.images_per_s),
        ];
        let voices = self.trainer.ensemble().voices().clone();
        for (i, loss) in report.train.losses.iter().enumerate() {
            curves.push((format!("{phase}/loss of {} {i}", voices.word()), *loss));
        }
        for (m, silent) in report.train.silent.iter().enumerate() {
            curves.push((format!("{phase}/silent channels of member {m}"), *silent));
        }
        for (part, seen) in [("validation", &report.validation), ("test", &report.test)] {
            if let Some(seen) = seen {
                metrics.insert(part.to_owned(), json!(seen));
                curves.extend(evaluation_curves(part, seen, &voices));
            }
        }
        self.log.add(Event::Epoch { phase: phase.to_owned(), epoch: report.epoch, metrics })?;
        self.draw(&curves)
    }

    pub(super) fn record_test(&mut self, test: &Evaluation) -> Result<(), TrainError> {
        let facts = Facts::from([("part", json!("test")), ("test", json!(test))]);
        self.log.add(Event::Eval(facts))?;
        self.draw(&evaluation_curves("final test", test, self.trainer.ensemble().voices()))
    }

    pub(super) fn record_stop(&mut self, stopped: &Stopped) -> Result<(), TrainError> {
        let mut facts = Facts::from([("checkpoint", json!(self.number))]);
        if let Stopped::Diverged { what } = stopped {
            facts.metrics.insert("what".to_owned(), json!(what));
        }
        let reason = stopped.word().to_owned();
        Ok(self.log.add(Event::Stop { reason, metrics: facts.metrics })?)
    }

    /// Notes something for the log now and for whoever watches later.
    pub(super) fn warn(&mut self, warning: String) -> Result<(), TrainError> {
        self.log.add(Event::Warning(Facts::from([("warning", warning.as_str())])))?;
        self.warnings.push(warning);
        Ok(())
    }

    /// Adds a checkpoint of the position the session is at.
    pub(super) fn save(&mut self, mut checkpoint: Checkpoint) -> Result<u64, TrainError> {
        let number = self.number.map_or(1, |number| number + 1);
        checkpoint.state.log_bytes = self.log.position()?;
        checkpoint.state.training = json!(self.position);
        self.folder.checkpoints().save(number, &checkpoint)?;
        (self.number, self.kept) = (Some(number), self.position);
        Ok(number)
    }

    fn draw(&mut self, curves: &[(String, f64)]) -> Result<(), TrainError> {
        let points: Vec<_> =
            curves.iter().map(|(tag, value)| (tag.as_str(), *value as f32)).collect();
        Ok(self.board.scalars(self.position.steps as i64, &points)?)
    }
}

fn evaluation_curves(part: &str, seen: &Evaluation, voices: &Outputs) -> Vec<(String, f64)> {
    let word = voices.word();
    let each = seen.members.iter().enumerate().map(|(i, scores)| (format!("{word} {i}"), scores));
    let all = each.chain([(voices.together().to_owned(), &seen.ensemble)]);
    all.flat_map(|(who, scores)| {
        [("top-1", scores.top1), ("top-5", scores.top5), ("loss", scores.loss)]
            .map(|(what, value)| (format!("{part}/{what} of {who}"), value))
    })
    .collect()
}
