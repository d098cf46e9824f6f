//! The interface through which outputs run one by one: members of a run, or a test's replacements.

use superweight_engine::{Device, Error};

use crate::infer::Networks;
use crate::model::{OutputId, Outputs};

/// Members or exits that run one by one on a batch of images.
pub trait Predict {
    /// Error of a run.
    type Error;

    /// The members, or the exits of one network.
    fn outputs(&self) -> &Outputs;

    /// Sets the images of the next runs: normalized values `[image][row][column][channel]`.
    fn set_images(&mut self, images: &[f32]) -> Result<(), Self::Error>;

    /// Runs one output and returns its logits `[image][class]`. The duration of the call is the
    /// output's latency. Exits run in their order.
    fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Self::Error>;
}

impl<D: Device> Predict for Networks<D> {
    type Error = Error;

    fn outputs(&self) -> &Outputs {
        self.outputs()
    }

    fn set_images(&mut self, images: &[f32]) -> Result<(), Error> {
        self.set_images(images)
    }

    fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Error> {
        self.run(output)
    }
}
