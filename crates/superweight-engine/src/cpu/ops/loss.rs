//! Softmax cross-entropy. One task handles one row; the results of all rows are added in order.

use rayon::prelude::*;

use super::softmax::exponentials;
use crate::cpu::buffer::Views;
use crate::device::buffer::Control;
use crate::device::buffer::Write;
use crate::device::call::loss::{Call, TargetBuffer};

/// Values per row in scratch memory: loss, top-1, top-5.
const FOUND: usize = 3;

pub(in crate::cpu) fn scratch(call: &Call) -> usize {
    call.rows * FOUND
}

enum Target<'a> {
    Class(usize),
    Probabilities(&'a [f32]),
}

pub(in crate::cpu) fn run(call: &Call, v: &Views<'_>, scratch: &mut [f32]) {
    let per_segment = call.rows / call.segments;
    let valid = v.read_indices(call.control)[Control::ValidRows as usize] as usize;
    let valid = valid.min(per_segment / call.heads) * call.heads;
    let counted = (valid * call.segments) as f32;
    let logits = v.read(call.logits);
    let (classes, probabilities) = match call.target {
        TargetBuffer::Classes(target) => (Some(v.read_indices(target)), None),
        TargetBuffer::Probabilities(target) => (None, Some(v.read(target))),
    };
    let target = |row: usize| match (classes, probabilities) {
        (Some(classes), _) => Target::Class(classes[row] as usize),
        (None, Some(all)) => Target::Probabilities(&all[row * call.classes..][..call.classes]),
        (None, None) => unreachable!("a loss has a target"),
    };
    let found = &mut scratch[..call.rows * FOUND];
    let row = |row: usize, found: &mut [f32], gradient: Option<&mut [f32]>| {
        let logits = &logits[row * call.classes..][..call.classes];
        let factor = call.weight / counted;
        if row % per_segment < valid {
            one_row(call, logits, target(row), factor, found, gradient);
        } else {
            found.fill(0.0);
            if let (Some(gradient), Some((_, Write::Set))) = (gradient, call.gradient) {
                gradient.fill(0.0);
            }
        }
    };
    match call.gradient {
        Some((gradient, _)) => (found.par_chunks_mut(FOUND))
            .zip(v.write(gradient).par_chunks_mut(call.classes))
            .enumerate()
            .for_each(|(i, (found, gradient))| row(i, found, Some(gradient))),
        None => found.par_chunks_mut(FOUND).enumerate().for_each(|(i, found)| row(i, found, None)),
    }

    let mut sums = [0f64; FOUND];
    for found in found.chunks_exact(FOUND) {
        sums.iter_mut().zip(found).for_each(|(sum, v)| *sum += f64::from(*v));
    }
    let mean = if counted > 0.0 { sums[0] / f64::from(counted) } else { 0.0 };
    v.write(call.metrics).copy_from_slice(&[mean as f32, sums[1] as f32, sums[2] as f32, counted]);
}

fn one_row(
    call: &Call,
    logits: &[f32],
    target: Target<'_>,
    factor: f32,
    found: &mut [f32],
    gradient: Option<&mut [f32]>,
) {
    let (max, sum) = exponentials(logits);
    let log_sum = f64::from(max) + sum.ln();
    let uniform = f64::from(call.smoothing) / call.classes as f64;
    let sharp = 1.0 - f64::from(call.smoothing);
    let target_of = |class: usize| match target {
        Target::Class(wanted) => uniform + if class == wanted { sharp } else { 0.0 },
        Target::Probabilities(p) => uniform + sharp * f64::from(p[class]),
    };
    let wanted = match target {
        Target::Class(class) => class,
        Target::Probabilities(p) => {
            (0..p.len()).fold(0, |best, i| if p[i] > p[best] { i } else { best })
        }
    };
    if wanted >= call.classes {
        found.fill(f32::NAN);
        gradient.into_iter().for_each(|gradient| gradient.fill(f32::NAN));
        return;
    }
    let (mut loss, mut mass) = (0f64, 0f64);
    for (class, logit) in logits.iter().enumerate() {
        let t = target_of(class);
        loss += t * (log_sum - f64::from(*logit));
        mass += t;
    }
    let best = logits[wanted];
    let ahead = (logits.iter().enumerate())
        .filter(|(i, l)| **l > best || (**l == best && *i < wanted))
        .count();
    let comparable = !best.is_nan();
    let is_among = |n| if comparable && ahead < n { 1.0 } else { 0.0 };
    found.copy_from_slice(&[loss as f32, is_among(1), is_among(5)]);

    let Some(gradient) = gradient else { return };
    let add = matches!(call.gradient, Some((_, Write::Add)));
    for (class, (gradient, logit)) in gradient.iter_mut().zip(logits).enumerate() {
        let p = f64::from((logit - max).exp()) / sum;
        let d = factor * (p * mass - target_of(class)) as f32;
        *gradient = if add { *gradient + d } else { d };
    }
}
