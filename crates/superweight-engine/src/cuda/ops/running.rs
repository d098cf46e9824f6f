//! Running statistics as kernel arguments.

use crate::cuda::view::View;
use crate::device::call::batch_norm::{RunningRule, Statistics};

/// Update rule (0 none, 1 momentum, 2 average over a pass) and addresses of running statistics.
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
