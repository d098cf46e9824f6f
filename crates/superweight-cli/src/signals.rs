//! Ctrl-C and `kill`: the first asks, the second ends the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use superweight::train::Limits;

/// What a shell expects of a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Limits that Ctrl-C reaches.
pub fn watched_limits() -> Result<Limits> {
    let limits = Limits { interrupt: Arc::new(AtomicBool::new(false)), ..Limits::default() };
    watch_signals(&limits.interrupt).context("signals cannot be watched")?;
    Ok(limits)
}

/// The first signal sets a flag that is looked at after every step; the second ends the program.
fn watch_signals(interrupt: &Arc<AtomicBool>) -> io::Result<()> {
    for (signal, code) in [(SIGINT, INTERRUPTED), (SIGTERM, TERMINATED)] {
        flag::register_conditional_shutdown(signal, code.into(), interrupt.clone())?;
        flag::register(signal, interrupt.clone())?;
    }
    Ok(())
}
