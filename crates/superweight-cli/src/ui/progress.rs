//! A line on standard error that reports how far some work is; on a terminal it is rewritten and
//! vanishes.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shortest time between two lines, on a terminal and elsewhere.
const REFRESH: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

pub struct ProgressLine {
    begin: Instant,
    terminal: bool,
    shown: Mutex<Instant>,
}

impl ProgressLine {
    pub fn new() -> Self {
        let begin = Instant::now();
        Self { begin, terminal: io::stderr().is_terminal(), shown: Mutex::new(begin) }
    }

    /// Estimates the time left, if this fraction of the work has taken the time until now.
    pub fn left(&self, done: f64) -> Duration {
        let elapsed = self.begin.elapsed();
        let left = elapsed.as_secs_f64() * (1.0 - done).max(0.0) / done.max(1e-9);
        Duration::try_from_secs_f64(left).unwrap_or(elapsed)
    }

    /// Shows a text if the last one is old enough. A thread that finds another thread printing
    /// returns at once.
    pub fn show(&self, text: impl FnOnce() -> String) {
        let Ok(mut shown) = self.shown.try_lock() else { return };
        if shown.elapsed() < REFRESH[usize::from(!self.terminal)] {
            return;
        }
        *shown = Instant::now();
        let (start, end) = if self.terminal { ("\r\x1b[2K", "") } else { ("", "\n") };
        let _ = write!(io::stderr(), "{start}{}{end}", text());
    }

    /// Removes the line from a terminal.
    pub fn clear(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}
