//! Batch norm in four passes over memory: statistics (read x), apply (read x, write y), backward
//! sums (read x, dy) and backward apply (read x, dy, write dx). Memory bandwidth limits it, so
//! activation and residual are fused into these passes.

mod apply;
mod backward;
mod statistics;

pub(in crate::cpu) use apply::{apply, apply_scratch};
pub(in crate::cpu) use backward::{backward, backward_scratch};
pub(in crate::cpu) use statistics::{statistics, statistics_scratch};

use crate::cpu::buffer::Views;
use crate::cpu::rows::Rows;
use crate::device::call::batch_norm::{Affine, Moments, NormShape};

fn rows_of(shape: &NormShape) -> Rows {
    Rows::new(shape.rows, shape.channels)
}

/// Index of a segment's set in a tensor with this many sets.
fn set_of(segment: usize, sets: usize) -> usize {
    if sets == 1 { 0 } else { segment }
}

/// Computes `scale = γ/σ` and `shift = β − μ·γ/σ` of a segment. Forward and backward use the same
/// values.
struct Folded<'a> {
    mean: &'a [f32],
    second: &'a [f32],
    epsilon: Option<f32>,
    gamma: &'a [f32],
    beta: &'a [f32],
    shape: NormShape,
}

impl<'a> Folded<'a> {
    fn new(shape: NormShape, moments: &Moments, affine: &Affine, v: &'a Views<'_>) -> Self {
        let (mean, second, epsilon) = match *moments {
            Moments::Batch { mean, inverse } => (mean, inverse, None),
            Moments::Running { mean, variance, epsilon } => (mean, variance, Some(epsilon)),
        };
        let (mean, second) = (v.read(mean), v.read(second));
        Self {
            mean,
            second,
            epsilon,
            gamma: v.read(affine.scale),
            beta: v.read(affine.shift),
            shape,
        }
    }

    /// Returns μ, 1/σ, γ and β of a channel.
    fn channel(&self, segment: usize, channel: usize) -> (f32, f32, f32, f32) {
        let c = self.shape.channels;
        let statistic = match self.epsilon {
            None => set_of(segment, self.shape.statistic_sets()) * c + channel,
            Some(_) => set_of(segment, self.shape.running_sets()) * c + channel,
        };
        let parameter = set_of(segment, self.shape.parameter_sets()) * c + channel;
        let inverse = match self.epsilon {
            None => self.second[statistic],
            Some(epsilon) => 1.0 / (self.second[statistic] + epsilon).sqrt(),
        };
        (self.mean[statistic], inverse, self.gamma[parameter], self.beta[parameter])
    }

    fn scale_and_shift(&self, segment: usize, channel: usize) -> (f32, f32) {
        let (mean, inverse, gamma, beta) = self.channel(segment, channel);
        let scale = gamma * inverse;
        (scale, beta - mean * scale)
    }
}
