//! The screen of a run: a header, a line per epoch and decision, and on a terminal a bar with the
//! time that is left.
//!
//! Lines go to standard output and stay. The bar goes to standard error and vanishes. It is a
//! single line that is rewritten, so no crate for progress bars is used.

mod bar;
mod decision;
mod epoch;
mod header;
mod layout;

use std::io::Write;

use superweight::train::{Observer, Progress};

use self::bar::Bar;
use self::layout::count;
use super::as_typed;

/// Prints the progress of a run.
pub struct Screen<'a, W: Write> {
    /// Where lines go; `None` prints no lines.
    lines: Option<&'a mut W>,
    bar: Option<Bar>,
}

impl<'a, W: Write> Screen<'a, W> {
    pub fn new(lines: Option<&'a mut W>, terminal: bool) -> Self {
        Self { lines, bar: terminal.then(Bar::default) }
    }

    /// Removes the bar.
    pub fn clear(&mut self) {
        if let Some(bar) = &mut self.bar {
            bar.clear();
        }
    }

    /// Prints a line that stays. A failure to print does not stop training, since the log has
    /// everything.
    pub fn line(&mut self, text: &str) {
        self.clear();
        if let Some(lines) = &mut self.lines {
            let _ = writeln!(lines, "{text}").and_then(|()| lines.flush());
        }
    }
}

impl<W: Write> Observer for Screen<'_, W> {
    fn on_progress(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Ready(ready) => header::lines(&ready).iter().for_each(|line| self.line(line)),
            Progress::Step(step) => {
                if let Some(bar) = &mut self.bar {
                    bar.train(step);
                }
            }
            Progress::Recalibrated(step) => {
                if let Some(bar) = &mut self.bar {
                    bar.recalibrate(step);
                }
            }
            Progress::Epoch(report) => {
                self.line(&epoch::line(report));
                if report.swa > 1 {
                    let epochs = count(report.swa as usize, "epoch");
                    self.line(&format!(
                        "averaged   the weights of {epochs}; the mean is kept and evaluated"
                    ));
                }
            }
            Progress::Decided(decided) => {
                decision::lines(decided).iter().for_each(|line| self.line(line));
            }
            Progress::Warning(warning) => self.line(&format!("warning: {}", as_typed(warning))),
            _ => {}
        }
    }
}
