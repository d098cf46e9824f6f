//! What is written down while a run goes on: `log.jsonl`, TensorBoard's curves, checkpoints.
//!
//! An epoch's line comes before its checkpoint, which notes how long the log is: resuming cuts what came after. Points of
//! curves stand at the number of optimizer steps, of all phases together.

use serde_json::json;
use superweight_engine::Device;

use super::{EpochReport, Session, Stopped, TrainError};
use crate::model::Outputs;
use crate::run::{Checkpoint, EpochEvent, EvalEvent, Evaluation, Event, StopEvent, WarningEvent};

impl<D: Device> Session<D> {
    pub(super) fn record_epoch(&mut self, report: &EpochReport) -> Result<(), TrainError> {
        let phase = report.phase.word();
        let mut curves: Vec<(String, f64)> = vec![
            (format!("{phase}/loss"), report.train.loss),
            (format!("{phase}/lr"), report.train.lr),
            (format!("{phase}/images per second"), report.train.images_per_s),
        ];
        let outputs = self.trainer.ensemble().outputs().clone();
        for (i, loss) in report.train.losses.iter().enumerate() {
            curves.push((format!("{phase}/loss of {} {i}", outputs.word()), *loss));
        }
        for (m, zero) in report.train.zero_channels.iter().enumerate() {
            curves.push((format!("{phase}/zero channels of member {m}"), *zero));
        }
        for (split, found) in [("validation", &report.validation), ("test", &report.test)] {
            if let Some(found) = found {
                curves.extend(evaluation_curves(split, found, &outputs));
            }
        }
        self.log.add(Event::Epoch(EpochEvent {
            phase: phase.to_owned(),
            epoch: report.epoch,
            epochs: report.epochs,
            loss: report.train.loss,
            train: report.train.clone(),
            swa: report.swa,
            validation: report.validation.clone(),
            test: report.test.clone(),
        }))?;
        self.draw(&curves)
    }

    pub(super) fn record_test(&mut self, test: &Evaluation) -> Result<(), TrainError> {
        self.log
            .add(Event::Eval(EvalEvent { split: "test".to_owned(), test: Some(test.clone()) }))?;
        self.draw(&evaluation_curves("final test", test, self.trainer.ensemble().outputs()))
    }

    pub(super) fn record_stop(&mut self, stopped: &Stopped) -> Result<(), TrainError> {
        let what = match stopped {
            Stopped::Diverged { what } => Some(what.to_string()),
            _ => None,
        };
        let reason = stopped.word().to_owned();
        Ok(self.log.add(Event::Stop(StopEvent { reason, checkpoint: self.number, what }))?)
    }

    /// Notes something for the log now and for whoever watches later.
    pub(super) fn warn(&mut self, warning: String) -> Result<(), TrainError> {
        self.log.add(Event::Warning(WarningEvent { warning: warning.clone() }))?;
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

fn evaluation_curves(split: &str, found: &Evaluation, outputs: &Outputs) -> Vec<(String, f64)> {
    let word = outputs.word();
    let each = found.members.iter().enumerate().map(|(i, scores)| (format!("{word} {i}"), scores));
    let all = each.chain([(outputs.combined_name().to_owned(), &found.ensemble)]);
    all.flat_map(|(who, scores)| {
        [("top-1", scores.top1), ("top-5", scores.top5), ("nll", scores.nll)]
            .map(|(what, value)| (format!("{split}/{what} of {who}"), value))
    })
    .collect()
}
