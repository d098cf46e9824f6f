//! Fuses steps of a program into one launch: the statistics and normalisation of a batch norm,
//! together with a copy of the same input that a convolution later accumulates into.

use super::ops::{Kernel, execute, norm_once};
use super::view::View;
use crate::device::Step;
use crate::device::buffer::BufferId;
use crate::device::call::Call;
use crate::device::call::batch_norm::{Apply, Statistics};

/// Number of steps after a batch norm that are searched for a copy of its input. A block of a
/// residual network has five.
const LOOKAHEAD: usize = 8;

/// One or more steps that are launched together.
pub(super) enum Work<'a> {
    /// A single step, by index.
    One(usize),
    /// A fused batch norm, with the indices of its first step and of the copy.
    Norm { first: usize, statistics: &'a Statistics, apply: &'a Apply, copy: Option<usize> },
}

impl Work<'_> {
    pub(super) fn first(&self) -> usize {
        let (Self::One(first) | Self::Norm { first, .. }) = self;
        *first
    }

    pub(super) fn run(&self, steps: &[Step<Kernel>], v: &View<'_>) {
        match *self {
            Self::One(index) => execute(index, &steps[index], v),
            Self::Norm { statistics, apply, copy, .. } => {
                let copy = copy.map(|index| match &steps[index].call {
                    Call::Copy(copy) => v.at(copy.y),
                    _ => unreachable!("the step is a copy"),
                });
                norm_once::forward(statistics, apply, copy.unwrap_or(0), v);
            }
        }
    }
}

/// Groups the steps of a program, in order.
pub(super) fn joined<'a>(steps: &'a [Step<Kernel>], v: &View<'_>) -> Vec<Work<'a>> {
    let mut works = Vec::with_capacity(steps.len());
    let mut done = vec![false; steps.len()];
    for first in 0..steps.len() {
        if done[first] {
            continue;
        }
        let pair = match &steps[first..] {
            [
                Step { call: Call::NormStatistics(s), .. },
                Step { call: Call::NormApply(a), .. },
                ..,
            ] => norm_once::fits(v.context, s, a).then_some((s, a)),
            _ => None,
        };
        let Some((statistics, apply)) = pair else {
            works.push(Work::One(first));
            continue;
        };
        let copy = early_copy(steps, first, statistics.x, apply, v);
        done[first + 1] = true;
        if let Some(copy) = copy {
            done[copy] = true;
        }
        works.push(Work::Norm { first, statistics, apply, copy });
    }
    works
}

/// Finds a copy of `x` that the batch norm at `first` can do. No step in between may access the
/// copy's destination.
fn early_copy(
    steps: &[Step<Kernel>],
    first: usize,
    x: BufferId,
    apply: &Apply,
    v: &View<'_>,
) -> Option<usize> {
    // In place, the input would be overwritten before the copy.
    if v.at(apply.y) == v.at(x) {
        return None;
    }
    let last = steps.len().min(first + 2 + LOOKAHEAD);
    let found =
        (first + 2..last).find(|index| matches!(&steps[*index].call, Call::Copy(c) if c.x == x))?;
    let Call::Copy(copy) = &steps[found].call else { return None };
    let touches = |step: &Step<Kernel>| {
        let operands = step.call.operands().into_iter().map(|(buffer, _)| buffer);
        operands.chain(step.scratch).any(|buffer| v.overlap(buffer, copy.y))
    };
    (!steps[first..found].iter().any(touches)).then_some(found)
}
