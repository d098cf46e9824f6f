//! Work that is done again and again: as it is the first time, then noted down, then done from the notes.
//!
//! The first time compiles, allocates and tunes what comes to be needed; only then is there something worth recording. A
//! device that gains nothing by it does the work as it is, always.

use superweight_engine::{Device, Error};

/// One unit of work. It must not outlive the memory that the work is done over, nor be used for other work.
#[derive(Debug, Default)]
pub enum RecordedWork<D: Device> {
    /// Never done.
    #[default]
    New,
    /// Done once.
    Warm,
    /// Not worth recording.
    Plain,
    /// Noted down.
    Recorded(D::Recording),
}

impl<D: Device> RecordedWork<D> {
    /// Does the work once; `body` is how, and is not called where it is noted down.
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
