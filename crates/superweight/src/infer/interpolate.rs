//! On the line between two members of one shape: W = (1 − t)·W_a + t·W_b for every tensor, batch norm on the statistics of
//! the batch (weights in between have no running ones). Whether accuracy holds there says whether two members share a
//! basin (paper, Figure 6).

use std::ops::ControlFlow;

use superweight_engine::Device;
use superweight_plan::arch::{Architecture, Tensor};

use super::by_batch::ByBatch;
use crate::evaluate::InterpolationPoint;
use crate::data::{Images, Normalization};
use crate::infer::InferError;
use crate::run::Tensors;

/// Two members as state dicts of one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Of both.
    pub architecture: &'a Architecture,
    /// At t = 0.
    pub from: &'a Tensors,
    /// At t = 1.
    pub to: &'a Tensors,
}

impl Line<'_> {
    /// Figures at `points` places, the ends among them.
    pub fn evaluate<D: Device>(
        &self,
        device: &D,
        images: &Images,
        normalization: &Normalization,
        batch: usize,
        points: usize,
    ) -> Result<Vec<InterpolationPoint>, InferError> {
        let mut network = ByBatch::new(device, self.architecture, batch.min(images.len()))?;
        let mut answer = vec![];
        for point in 0..points {
            let t = point as f64 / points.saturating_sub(1).max(1) as f64;
            for tensor in &self.architecture.tensors {
                network.set(tensor, &self.between(tensor, t)?)?;
            }
            let scores = network.scores(images, normalization, || ControlFlow::Continue(()))?;
            answer.push(InterpolationPoint { t, figures: scores.expect("nobody stops it").into() });
        }
        Ok(answer)
    }

    fn between(&self, tensor: &Tensor, t: f64) -> Result<Vec<f32>, InferError> {
        let [from, to] =
            [self.from, self.to].map(|end| end.expect::<f32>(&tensor.name, &tensor.shape));
        let mix = |(a, b): (&f32, &f32)| ((1.0 - t) * f64::from(*a) + t * f64::from(*b)) as f32;
        Ok(from?.iter().zip(to?).map(mix).collect())
    }
}
