//! Files that a run writes while it trains: `log.jsonl`, TensorBoard curves, checkpoints.
//!
//! The line of an epoch is written before its checkpoint. The checkpoint notes the length of the
//! log, and resuming cuts the log there. The x axis of curves counts optimizer steps through all
//! phases.

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
        self.add_points(&curves)
    }

    pub(super) fn record_test(&mut self, test: &Evaluation) -> Result<(), TrainError> {
        self.log
            .add(Event::Eval(EvalEvent { split: "test".to_owned(), test: Some(test.clone()) }))?;
        self.add_points(&evaluation_curves("final test", test, self.trainer.ensemble().outputs()))
    }

    pub(super) fn record_stop(&mut self, stopped: &Stopped) -> Result<(), TrainError> {
        let what = match stopped {
            Stopped::Diverged { what } => Some(what.to_string()),
            _ => None,
        };
        let reason = stopped.word().to_owned();
        Ok(self.log.add(Event::Stop(StopEvent { reason, checkpoint: self.number, what }))?)
    }

    /// Adds a warning to the log, and keeps it for the observer.
    pub(super) fn warn(&mut self, warning: String) -> Result<(), TrainError> {
        self.log.add(Event::Warning(WarningEvent { warning: warning.clone() }))?;
        self.warnings.push(warning);
        Ok(())
    }

    /// Writes a checkpoint of the current position.
    pub(super) fn save(&mut self, mut checkpoint: Checkpoint) -> Result<u64, TrainError> {
        let number = self.number.map_or(1, |number| number + 1);
        checkpoint.state.log_bytes = self.log.position()?;
        checkpoint.state.training = json!(self.position);
        self.folder.checkpoints().save(number, &checkpoint)?;
        (self.number, self.kept) = (Some(number), self.position);
        Ok(number)
    }

    fn add_points(&mut self, curves: &[(String, f64)]) -> Result<(), TrainError> {
        let points: Vec<_> =
            curves.iter().map(|(tag, value)| (tag.as_str(), *value as f32)).collect();
        Ok(self.board.scalars(self.position.steps as i64, &points)?)
    }
}

fn evaluation_curves(split: &str, found: &Evaluation, outputs: &Outputs) -> Vec<(String, f64)> {
    let word = outputs.word();
    let each = found.members.iter().enumerate().map(|(i, scores)| (format!("{word} {i}"), scores));
    let all = each.chain([(outputs.combined_name().to_owned(), &found.ensemble)]);
    all.flat_map(|(name, figures)| {
        [("top-1", figures.top1), ("top-5", figures.top5), ("nll", figures.nll)]
            .map(|(what, value)| (format!("{split}/{what} of {name}"), value))
    })
    .collect()
}
