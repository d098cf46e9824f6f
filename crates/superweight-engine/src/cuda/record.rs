//! Recordings of submitted work, as captured CUDA graphs.

use super::capture::Captured;
use super::context::Context;
use crate::error::Error;

/// Recorded work that can be replayed in one call.
pub struct Recording(Captured);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({} counters cleared together)", self.0.cleared)
    }
}

impl Recording {
    pub(super) fn new(
        context: &Context,
        body: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        context.bind()?;
        context.synchronize()?;
        context.take_failure()?;
        let recorded = || {
            body()?;
            Ok(context.take_failure()?)
        };
        Captured::new(&context.stream, context.counters.places, recorded).map(Self)
    }

    pub(super) fn replay(&self) -> Result<(), Error> {
        Ok(self.0.launch()?)
    }
}
