//! Repeated device work: run directly once, recorded the second time, replayed from then on.
//!
//! The first run compiles, allocates and tunes whatever the work needs, so it cannot be recorded. A
//! device that gains nothing from recordings runs the work directly every time.

use superweight_engine::{Device, Error};

/// State of one unit of repeated work.
///
/// It must not outlive the memory that the work reads and writes, and it must not be used for any
/// other work.
#[derive(Debug, Default)]
pub enum RecordedWork<D: Device> {
    /// The work has not run yet.
    #[default]
    New,
    /// The work has run once and can be recorded.
    Warm,
    /// The device makes no recordings: the work runs directly.
    Plain,
    /// The work is recorded and replayed.
    Recorded(D::Recording),
}

impl<D: Device> RecordedWork<D> {
    /// Runs the work once, by calling `body` or by replaying its recording.
    pub fn run(
        &mut self,
        device: &D,
        body: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Self::New => *self = Self::Warm,
            Self::Plain => {}
            Self::Warm => *self = device.record(body)?.map_or(Self::Plain, Self::Recorded),
            Self::Recorded(_) => {}
        }
        match self {
            Self::Recorded(recording) => device.replay(recording),
            _ => body(),
        }
    }
}
