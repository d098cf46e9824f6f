//! Reasons why a run stops early: an interrupt, a limit, or values that are no longer finite. Also
//! how often checkpoints are written, which is how much a kill can lose.
//!
//! The interrupt flag is checked after every step: the step is completed, the epoch is not. Time is
//! checked between epochs only, where checkpoints are written: the next epoch starts if one as long
//! as the last would fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::TrainError;

/// Steps between two checks of the loss; each check waits for the device.
pub(super) const STEPS_BETWEEN_CHECKS: u64 = 50;

/// Mean loss of an epoch, over the loss of guessing, above which training counts as diverged.
const WORSE_THAN_GUESSING: f64 = 4.0;

/// Factor by which the next epoch may take longer than the last.
const SLACK: f64 = 1.1;

/// Limits on a run.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Flag that stops the run after the current step.
    pub interrupt: Arc<AtomicBool>,
    /// Time by which the run must end.
    pub deadline: Option<Instant>,
    /// Whether to stop after the search.
    pub search_only: bool,
    /// Epoch of training after which to stop.
    pub until: Option<u64>,
    /// Epochs between two checkpoints; `None` for one after every epoch. The last epoch of a phase,
    /// a decision and a stop between epochs always write one.
    pub checkpoint_every: Option<u64>,
}

impl Limits {
    /// Whether the interrupt flag is set.
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Whether a checkpoint is due after epoch `epoch` (counted from 1) of a phase of `epochs`.
    pub fn keeps(&self, epoch: u64, epochs: u64) -> bool {
        epoch == epochs || epoch.is_multiple_of(self.checkpoint_every.unwrap_or(1).max(1))
    }

    /// Whether another epoch of `epoch_seconds` does not fit before the deadline. With 0 seconds
    /// (no epoch yet) it does.
    pub fn out_of_time(&self, epoch_seconds: f64) -> bool {
        let needed = Duration::try_from_secs_f64(SLACK * epoch_seconds).unwrap_or(Duration::MAX);
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        epoch_seconds > 0.0 && left.is_some_and(|left| left < needed)
    }
}

/// Whether a member's mean loss over an epoch shows divergence.
pub(super) fn diverged(loss: f64, classes: usize) -> bool {
    let guessing = (classes.max(2) as f64).ln();
    !loss.is_finite() || loss > WORSE_THAN_GUESSING * guessing
}

/// Reason why a run ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Stopped {
    /// All epochs are complete.
    Finished,
    /// The interrupt flag was set.
    Interrupted,
    /// The next epoch would exceed the time limit.
    TimeLimit,
    /// The search is complete, and [`Limits::search_only`] is set.
    Searched,
    /// The epoch of [`Limits::until`] is reached.
    Until,
    /// A loss or a parameter is no longer finite, or the loss is far above that of guessing.
    Diverged {
        /// Description of what was found.
        what: String,
    },
}

/// The outcome of work that a limit may stop: the result, or the reason to stop, or an error.
pub type UntilStopped<T> = Result<Result<T, Stopped>, TrainError>;

impl Stopped {
    /// Word in the log.
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
    fn an_epoch_starts_if_one_as_long_as_the_last_fits() {
        let within = |seconds| Limits {
            deadline: Some(Instant::now() + Duration::from_secs(seconds)),
            ..Limits::default()
        };
        assert!(!within(100).out_of_time(80.0));
        assert!(within(100).out_of_time(95.0), "a slower epoch has 10% of slack");
        assert!(within(0).out_of_time(0.1));
        assert!(!within(0).out_of_time(0.0), "without a known duration an epoch is tried");
        assert!(!Limits::default().out_of_time(1e300));
        assert!(within(100).out_of_time(f64::INFINITY));
    }

    #[test]
    fn checkpoints_are_written_at_their_interval_and_at_the_end() {
        let kept = |every| {
            let limits = Limits { checkpoint_every: every, ..Limits::default() };
            (1..=7).filter(|&epoch| limits.keeps(epoch, 7)).collect::<Vec<_>>()
        };
        assert_eq!(kept(None), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(kept(Some(3)), [3, 6, 7]);
        assert_eq!(kept(Some(100)), [7]);
        assert_eq!(kept(Some(0)), kept(None), "zero means every epoch");
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
