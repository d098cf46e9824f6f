//! A row of the table of a sweep, read from a run's folder.

use std::path::Path;

use anyhow::Result;
use superweight::plan::SharingPlan;
use superweight::run::{Event, OpenRun};
use superweight::search::groups;

/// The state and the figures of one run.
pub struct Row {
    /// Reason of the last stop (`finished`, `diverged`, …), or `stopped` if the log does not end
    /// with one.
    pub state: String,
    /// Plan of the newest checkpoint.
    pub plan: Option<SharingPlan>,
    /// Top-1 accuracy of the ensemble in percent on the validation images, after the last epoch.
    pub validation: Option<f64>,
    /// Top-1 accuracy of the ensemble in percent on the test images, at the end.
    pub test: Option<f64>,
    /// Training loss of the last epoch.
    pub loss: Option<f64>,
}

impl Row {
    pub fn read(run: &Path) -> Result<Self> {
        let run = OpenRun::open(run)?;
        let log = run.log()?;
        let (state, plan) = ("stopped".to_owned(), run.plan);
        let mut row = Self { state, plan, validation: None, test: None, loss: None };
        for line in log {
            match line.event {
                Event::Epoch(epoch) if epoch.phase == "train" => {
                    row.validation = epoch.validation.map(|seen| seen.ensemble.top1);
                    row.loss = Some(epoch.loss).filter(|loss| loss.is_finite());
                    row.state = "stopped".to_owned();
                }
                Event::Eval(eval) => row.test = eval.test.map(|seen| seen.ensemble.top1),
                Event::Stop(stop) => row.state = stop.reason,
                _ => {}
            }
        }
        Ok(row)
    }

    pub fn finished(&self) -> bool {
        self.state == "finished"
    }

    /// Number of clusters, of coefficient groups and of trainable parameters.
    pub fn shape(&self) -> Option<[u64; 3]> {
        let plan = self.plan.as_ref()?;
        Some([plan.clusters.len() as u64, groups(plan) as u64, plan.bill.trained()])
    }
}
