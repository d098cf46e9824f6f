//! A line on the error output that says how far something is, now and then; on a terminal it is written over and vanishes.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two looks, on a terminal and elsewhere.
const REFRESH: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

pub struct Ticker {
    begin: Instant,
    terminal: bool,
    shown: Mutex<Instant>,
}

impl Ticker {
    pub fn new() -> Self {
        let begin = Instant::now();
        Self { begin, terminal: io::stderr().is_terminal(), shown: Mutex::new(begin) }
    }

    /// What is left if the rest takes as long as this share of it has.
    pub fn left(&self, done: f64) -> Duration {
        let elapsed = self.begin.elapsed();
        let left = elapsed.as_secs_f64() * (1.0 - done).max(0.0) / done.max(1e-9);
        Duration::try_from_secs_f64(left).unwrap_or(elapsed)
    }

    /// Shows this where it is time to; threads that find another at it leave it to that one.
    pub fn show(&self, text: impl FnOnce() -> String) {
        let Ok(mut shown) = self.shown.try_lock() else { return };
        if shown.elapsed() < REFRESH[usize::from(!self.terminal)] {
            return;
        }
        *shown = Instant::now();
        let (start, end) = if self.terminal { ("\r\x1b[2K", "") } else { ("", "\n") };
        let _ = write!(io::stderr(), "{start}{}{end}", text());
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}
