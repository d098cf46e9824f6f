//! The bar of the current epoch: one line that is rewritten, with the time until the phase ends.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use superweight::train::{Stage, StepReport};

use crate::ui::duration;

/// Shortest time between two drawings.
const REFRESH: Duration = Duration::from_millis(100);
/// Width of the bar itself in characters.
const WIDTH: usize = 24;

/// The bar and the pace of the steps that it has seen.
#[derive(Default)]
pub struct Bar {
    visible: bool,
    drawn: Option<Instant>,
    /// The kind of the current steps, when the first of them was seen, and its index.
    first: Option<(Steps, Instant, u64)>,
}

/// Steps that take about equally long.
#[derive(Clone, Copy, PartialEq)]
enum Steps {
    /// Training steps of a phase.
    Of(Stage),
    /// Forward steps for batch norm's statistics.
    Recalibration,
}

impl Bar {
    pub fn train(&mut self, step: StepReport) {
        let StepReport { stage, epoch, epochs, step, steps } = step;
        let what = format!("{stage} {}/{epochs}", epoch + 1);
        self.draw(&what, step, steps, Steps::Of(stage), (epoch * steps + step, epochs * steps));
    }

    pub fn recalibrate(&mut self, StepReport { step, steps, .. }: StepReport) {
        let what = "batch norm of the averaged weights";
        self.draw(what, step, steps, Steps::Recalibration, (step, steps));
    }

    /// Removes the bar from the terminal.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.visible) {
            eprint!("\r\x1b[2K");
        }
    }

    /// Draws `step` of `steps`, and the time until all steps of the same kind are done.
    fn draw(&mut self, what: &str, step: u64, steps: u64, kind: Steps, (done, all): (u64, u64)) {
        let now = Instant::now();
        let left = self.left(now, kind, done, all);
        if self.drawn.is_some_and(|drawn| now - drawn < REFRESH) && step < steps {
            return;
        }
        (self.drawn, self.visible) = (Some(now), true);
        let time = left.map_or("…".to_owned(), duration::show);
        let full = (WIDTH as u64 * step / steps.max(1)) as usize;
        let bar = "#".repeat(full) + &"-".repeat(WIDTH - full);
        eprint!("\r\x1b[2K{what} [{bar}] {step}/{steps}, {time} left");
        let _ = io::stderr().flush();
    }

    /// Estimates the time left from the steps of this kind that this process has done. A resumed
    /// run starts in the middle of a phase, so the estimate counts from the first step seen.
    fn left(&mut self, now: Instant, kind: Steps, done: u64, all: u64) -> Option<Duration> {
        let known = self.first.filter(|&(of, _, first)| of == kind && first <= done);
        let (_, start, first) = *self.first.insert(known.unwrap_or((kind, now, done)));
        let seen = done - first;
        (seen > 0).then(|| (now - start).mul_f64((all - done) as f64 / seen as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of training are counted from 0 again after the search.
    #[test]
    fn the_time_left_is_by_steps_of_the_same_kind() {
        let (mut bar, start) = (Bar::default(), Instant::now());
        let second = |n| start + Duration::from_secs(n);
        let [search, train] = [Stage::Search, Stage::Train].map(Steps::Of);
        assert_eq!(bar.left(second(0), search, 500, 600), None);
        assert_eq!(bar.left(second(2), search, 510, 600), Some(Duration::from_secs(18)));
        assert_eq!(bar.left(second(20), train, 1, 100), None);
        assert_eq!(bar.left(second(24), train, 3, 100), Some(Duration::from_secs(194)));
        assert_eq!(bar.left(second(30), Steps::Recalibration, 1, 10), None);
        assert_eq!(bar.left(second(31), Steps::Recalibration, 2, 10), Some(Duration::from_secs(8)));
    }
}
