//! Why a run stops before its end: somebody asks, time is up, or the numbers are no longer any.
//!
//! Here too: how often what was trained is kept, which is how much an accident costs.
//!
//! A request is a flag that is looked at after every step: the step is finished, the epoch is not. Time is looked at
//! between epochs only, since only there a checkpoint is written: the next epoch begins if one as long as the last
//! would fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::TrainError;

/// Steps between looks at the loss: a device is not waited for more often.
pub(super) const STEPS_BETWEEN_LOOKS: u64 = 50;

/// A mean loss of an epoch above so many times that of guessing is no training any more.
const WORSE_THAN_GUESSING: f64 = 4.0;

/// The next epoch may take this much longer than the last.
const SLACK: f64 = 1.1;

/// When to stop before the end.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Set by whoever wants the run to stop after the current step.
    pub interrupt: Arc<AtomicBool>,
    /// When all must be over.
    pub deadline: Option<Instant>,
    /// Whether to stop where the search ends and training would begin.
    pub search_only: bool,
    /// Epochs of training that are enough for now.
    pub until: Option<u64>,
    /// Epochs between two checkpoints; none for one after every epoch. The last epoch of a phase, a decision and a stop
    /// between two epochs have theirs in any case.
    pub checkpoint_every: Option<u64>,
}

impl Limits {
    /// Whether somebody asked.
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Whether there is to be a checkpoint after so many epochs of a phase that has `epochs`.
    pub fn keeps(&self, epoch: u64, epochs: u64) -> bool {
        epoch == epochs || epoch.is_multiple_of(self.checkpoint_every.unwrap_or(1).max(1))
    }

    /// Whether another epoch does not fit, by the last one's seconds; without a last one it is tried.
    pub fn out_of_time(&self, epoch_seconds: f64) -> bool {
        let needed = Duration::try_from_secs_f64(SLACK * epoch_seconds).unwrap_or(Duration::MAX);
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        epoch_seconds > 0.0 && left.is_some_and(|left| left < needed)
    }
}

/// Whether a member's mean loss over an epoch shows that training has failed.
pub(super) fn diverged(loss: f64, classes: usize) -> bool {
    let guessing = (classes.max(2) as f64).ln();
    !loss.is_finite() || loss > WORSE_THAN_GUESSING * guessing
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Stopped {
    /// All epochs are done.
    Finished,
    /// Somebody asked for it.
    Interrupted,
    /// The next epoch would not have fit.
    TimeLimit,
    /// The search is over, and no more was asked for.
    Searched,
    /// As many epochs are done as were asked for.
    Until,
    /// A loss or a trained number is no longer finite, or the loss is far above that of guessing.
    Diverged {
        /// What was seen.
        what: String,
    },
}

/// The outcome of work that a limit may stop: the result, or the reason to stop, or an error.
pub type UntilStopped<T> = Result<Result<T, Stopped>, TrainError>;

impl Stopped {
    /// For the log.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::TimeLimit => "time limit",
            Self::Searched => "searched",
            Self::Until => "until",
            Self::Diverged { .. } => "diverged",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_begins_where_one_as_long_as_the_last_fits() {
        let within = |seconds| Limits {
            deadline: Some(Instant::now() + Duration::from_secs(seconds)),
            ..Limits::default()
        };
        assert!(!within(100).out_of_time(80.0));
        assert!(within(100).out_of_time(95.0), "10% are left for a slower one");
        assert!(within(0).out_of_time(0.1));
        assert!(
            !within(0).out_of_time(0.0),
            "nothing is known yet: a run that does nothing helps nobody"
        );
        assert!(!Limits::default().out_of_time(1e300));
        assert!(within(100).out_of_time(f64::INFINITY));
    }

    #[test]
    fn checkpoints_are_as_often_as_asked_and_at_the_end() {
        let kept = |every| {
            let limits = Limits { checkpoint_every: every, ..Limits::default() };
            (1..=7).filter(|&epoch| limits.keeps(epoch, 7)).collect::<Vec<_>>()
        };
        assert_eq!(kept(None), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(kept(Some(3)), [3, 6, 7]);
        assert_eq!(kept(Some(100)), [7]);
        assert_eq!(kept(Some(0)), kept(None), "zero is nothing that can be asked for");
    }

    #[test]
    fn a_loss_far_above_guessing_is_divergence() {
        let guessing = 100f64.ln();
        assert!(!diverged(guessing, 100) && !diverged(3.0 * guessing, 100));
        assert!(
            diverged(5.0 * guessing, 100)
                && diverged(f64::NAN, 100)
                && diverged(f64::INFINITY, 100)
        );
    }
}
