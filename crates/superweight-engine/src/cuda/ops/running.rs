//! Running statistics as kernels take them.

use crate::cuda::view::View;
use crate::device::call::batch_norm::{RunningRule, Statistics};

/// Running statistics as kernels take them: how they change (0 not at all, 1 by a momentum, 2 as the average over a pass),
/// and where they lie.
#[derive(Default)]
pub(super) struct Changing {
    pub rule: i32,
    pub momentum: f32,
    pub control: u64,
    pub mean: u64,
    pub variance: u64,
}

impl Changing {
    pub(super) fn new(call: &Statistics, v: &View<'_>) -> Self {
        let Some(running) = &call.running else { return Self::default() };
        let (mean, variance) = (v.at(running.mean), v.at(running.variance));
        match running.rule {
            RunningRule::Momentum(momentum) => {
                Self { rule: 1, momentum, mean, variance, control: 0 }
            }
            RunningRule::CumulativeAverage { control } => {
                Self { rule: 2, control: v.at(control), mean, variance, momentum: 0.0 }
            }
        }
    }
}
