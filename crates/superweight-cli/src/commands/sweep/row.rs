//! What a run folder says about its run: everything in the table comes from there, whoever trained it and when.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use superweight::plan::SharingPlan;
use superweight::run::{Event, load_checkpoint, read_log};
use superweight::search::groups;

/// One run.
pub struct Row {
    /// `finished`, `diverged`, …; `stopped` where nothing was said.
    pub state: String,
    pub plan: Option<SharingPlan>,
    /// Top-1 of the ensemble, in percent: held-out images of the last epoch, test set at the end.
    pub validation: Option<f64>,
    pub test: Option<f64>,
    pub loss: Option<f64>,
}

impl Row {
    pub fn read(run: &Path) -> Result<Self> {
        let plan = match load_checkpoint(run)? {
            Some(loaded) => Some(SharingPlan::from_json(&loaded.checkpoint.plan)?),
            None => None,
        };
        let mut row =
            Self { state: "stopped".to_owned(), plan, validation: None, test: None, loss: None };
        let log = run.join("log.jsonl");
        let number =
            |value: Option<&Value>, path: &str| value.and_then(|v| v.pointer(path)?.as_f64());
        for line in read_log(&log).with_context(|| log.display().to_string())? {
            match line.event {
                Event::Epoch { phase, metrics, .. } if phase == "train" => {
                    row.validation = number(metrics.get("validation"), "/ensemble/top1");
                    row.loss = metrics.get("loss").and_then(Value::as_f64);
                    row.state = "stopped".to_owned();
                }
                Event::Eval(facts) => {
                    row.test = number(facts.metrics.get("test"), "/ensemble/top1")
                }
                Event::Stop { reason, .. } => row.state = reason,
                _ => {}
            }
        }
        Ok(row)
    }

    pub fn finished(&self) -> bool {
        self.state == "finished"
    }

    /// Clusters, coefficient groups and trained numbers.
    pub fn shape(&self) -> Option<[u64; 3]> {
        let plan = self.plan.as_ref()?;
        Some([plan.clusters.len() as u64, groups(plan) as u64, plan.bill.trained()])
    }
}
