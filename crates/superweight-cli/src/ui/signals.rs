//! Ctrl-C and `kill`: the first one requests the end of the run, the second one ends the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use superweight::train::Limits;

/// Exit code of a program that Ctrl-C ended, as shells expect it.
pub const INTERRUPTED: u8 = 130;
/// Exit code of a program that `kill` ended.
const TERMINATED: u8 = 143;

/// Limits whose interrupt flag Ctrl-C and `kill` set.
pub fn watched_limits() -> Result<Limits> {
    let limits = Limits { interrupt: Arc::new(AtomicBool::new(false)), ..Limits::default() };
    watch_signals(&limits.interrupt).context("signal handlers cannot be installed")?;
    Ok(limits)
}

/// The first signal sets the flag, which training reads after every step; the second signal ends
/// the program.
fn watch_signals(interrupt: &Arc<AtomicBool>) -> io::Result<()> {
    for (signal, code) in [(SIGINT, INTERRUPTED), (SIGTERM, TERMINATED)] {
        flag::register_conditional_shutdown(signal, code.into(), interrupt.clone())?;
        flag::register(signal, interrupt.clone())?;
    }
    Ok(())
}
