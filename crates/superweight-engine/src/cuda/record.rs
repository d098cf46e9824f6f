//! Recorded work.

use super::capture::Captured;
use super::context::Context;
use crate::error::Error;

/// A captured piece of work.
pub struct Recording(Captured);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({} counters cleared at once)", self.0.cleared)
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
        let asked = || {
            body()?;
            Ok(context.take_failure()?)
        };
        Captured::new(&context.stream, context.counters.places, asked).map(Self)
    }

    pub(super) fn replay(&self) -> Result<(), Error> {
        Ok(self.0.launch()?)
    }
}
