//! Figures on the line between two members of one architecture: W = (1 − t)·W_a + t·W_b for every
//! tensor.
//!
//! Batch norms use the statistics of the batch, because interpolated weights have no running
//! statistics. If accuracy holds along the line, the two members are in one basin of the loss
//! (paper, Figure 6).

use std::ops::ControlFlow;

use superweight_engine::Device;
use superweight_plan::arch::{Architecture, Tensor};

use super::by_batch::ByBatch;
use super::error::InferError;
use crate::data::{Images, Normalization};
use crate::evaluate::InterpolationPoint;
use crate::run::Tensors;

/// The line between the state dicts of two members of one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Architecture of both members.
    pub architecture: &'a Architecture,
    /// State dict at t = 0.
    pub from: &'a Tensors,
    /// State dict at t = 1.
    pub to: &'a Tensors,
}

impl Line<'_> {
    /// Figures at `points` equally spaced points, including both ends.
    ///
    /// # Panics
    /// If there are no images.
    pub fn evaluate<D: Device>(
        &self,
        device: &D,
        images: &Images,
        normalization: &Normalization,
        batch: usize,
        points: usize,
    ) -> Result<Vec<InterpolationPoint>, InferError> {
        let mut network = ByBatch::new(device, self.architecture, batch.min(images.len()))?;
        let mut figures = vec![];
        for point in 0..points {
            let t = point as f64 / points.saturating_sub(1).max(1) as f64;
            for tensor in &self.architecture.tensors {
                network.set(tensor, &self.between(tensor, t)?)?;
            }
            let scores = network.scores(images, normalization, || ControlFlow::Continue(()))?;
            figures.push(InterpolationPoint {
                t,
                figures: scores.expect("this evaluation is not stopped").into(),
            });
        }
        Ok(figures)
    }

    /// A tensor of the network at `t`.
    fn between(&self, tensor: &Tensor, t: f64) -> Result<Vec<f32>, InferError> {
        let [from, to] =
            [self.from, self.to].map(|end| end.expect::<f32>(&tensor.name, &tensor.shape));
        let mix = |(a, b): (&f32, &f32)| ((1.0 - t) * f64::from(*a) + t * f64::from(*b)) as f32;
        Ok(from?.iter().zip(to?).map(mix).collect())
    }
}
