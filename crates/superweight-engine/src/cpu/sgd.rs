//! Optimizer step on the CPU: one pass over parameters, gradients and momentum.

use std::ops::Range;

use rayon::prelude::*;

use super::rows::FLAT_TASK;
use super::vector::vectorised;
use crate::device::sgd::{SgdGroups, SgdOptions};

/// Learning rate, weight decay and options of one group.
#[derive(Clone, Copy)]
struct Factors {
    lr: f32,
    weight_decay: f32,
    options: SgdOptions,
}

pub(super) fn step(
    groups: &SgdGroups,
    lrs: &[f32],
    parameters: &mut [f32],
    gradients: &[f32],
    momentum: &mut [f32],
) {
    for (group, lr) in groups.groups.iter().zip(lrs) {
        let factors =
            Factors { lr: *lr, weight_decay: group.weight_decay, options: groups.options };
        for range in &group.ranges {
            one_range(factors, range.clone(), parameters, gradients, momentum);
        }
    }
}

fn one_range(
    f: Factors,
    range: Range<usize>,
    parameters: &mut [f32],
    gradients: &[f32],
    momentum: &mut [f32],
) {
    let (p, g) = (&mut parameters[range.clone()], &gradients[range.clone()]);
    let pieces = p.par_chunks_mut(FLAT_TASK).zip(g.par_chunks(FLAT_TASK));
    if f.options.momentum == 0.0 {
        return pieces.for_each(|(p, g)| plain(p, g, f));
    }
    let pieces = pieces.zip(momentum[range].par_chunks_mut(FLAT_TASK));
    match f.options.nesterov {
        true => pieces.for_each(|((p, g), b)| nesterov(p, g, b, f)),
        false => pieces.for_each(|((p, g), b)| heavy_ball(p, g, b, f)),
    }
}

vectorised! {
    fn plain(p: &mut [f32], g: &[f32], f: Factors) {
        p.iter_mut().zip(g).for_each(|(p, g)| *p -= f.lr * (g + f.weight_decay * *p));
    }

    fn heavy_ball(p: &mut [f32], g: &[f32], b: &mut [f32], f: Factors) {
        for ((p, g), b) in p.iter_mut().zip(g).zip(b) {
            *b = f.options.momentum * *b + (g + f.weight_decay * *p);
            *p -= f.lr * *b;
        }
    }

    fn nesterov(p: &mut [f32], g: &[f32], b: &mut [f32], f: Factors) {
        for ((p, g), b) in p.iter_mut().zip(g).zip(b) {
            let g = g + f.weight_decay * *p;
            *b = f.options.momentum * *b + g;
            *p -= f.lr * (g + f.options.momentum * *b);
        }
    }
}
