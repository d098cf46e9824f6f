//! Profiles of `swn anytime`: every profile that is read also predicts, with members that take
//! no time.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::path::Path;
use std::time::Duration;

use superweight::infer::anytime::{Clock, Predict, Predictor, Profile};
use superweight::model::{OutputId, Outputs};

struct Members(Outputs);

impl Predict for Members {
    type Error = std::convert::Infallible;

    fn outputs(&self) -> &Outputs {
        &self.0
    }

    fn set_images(&mut self, _: &[f32]) -> Result<(), Self::Error> {
        Ok(())
    }

    fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Self::Error> {
        Ok(vec![output.0 as f32, 0.0])
    }
}

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

superweight_fuzz::target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(profile) = Profile::from_json(Path::new("fuzz"), text) else { return };
    let members = Members(profile.outputs());
    let mut predictor =
        Predictor::new(members, Standing, profile, 2).expect("the outputs that were profiled");
    for deadline in [Duration::from_nanos(1), Duration::from_millis(1), Duration::from_secs(3600)] {
        if let Ok(answer) = predictor.predict(&[], deadline) {
            assert!(!answer.subset.is_empty());
        }
    }
});
