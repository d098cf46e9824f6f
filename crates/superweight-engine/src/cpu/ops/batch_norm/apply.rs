//! Normalisation: `y = act(x·scale + shift + residual)`, optionally in place.

use rayon::prelude::*;

use super::{Folded, rows_of};
use crate::cpu::buffer::Views;
use crate::cpu::vector::{clamp, vectorised};
use crate::device::call::batch_norm::{Apply, Residual};

pub(in crate::cpu) fn apply_scratch(call: &Apply) -> usize {
    call.shape.segments * 2 * rows_of(&call.shape).line
}

pub(in crate::cpu) fn apply(call: &Apply, v: &Views<'_>, scratch: &mut [f32]) {
    let (shape, rows) = (&call.shape, rows_of(&call.shape));
    let folded = Folded::new(*shape, &call.moments, &call.affine, v);
    let lines = &mut scratch[..shape.segments * 2 * rows.line];
    for (segment, lines) in lines.chunks_exact_mut(2 * rows.line).enumerate() {
        let (scale, shift) = lines.split_at_mut(rows.line);
        for channel in 0..shape.channels {
            (scale[channel], shift[channel]) = folded.scale_and_shift(segment, channel);
        }
        rows.expand_in_place(scale);
        rows.expand_in_place(shift);
    }
    let lines = &*lines;
    let (low, high) = call.activation.bounds();
    let y = v.write(call.y);
    let x = call.x.map(|x| v.read(x));
    let residual = match call.residual {
        Some(Residual::From(residual)) => Some(v.read(residual)),
        _ => None,
    };
    let at_destination = matches!(call.residual, Some(Residual::AtDestination));
    y.par_chunks_mut(rows.segment).enumerate().for_each(|(segment, y)| {
        let (scale, shift) = lines[segment * 2 * rows.line..][..2 * rows.line].split_at(rows.line);
        let start = segment * rows.segment;
        y.par_chunks_mut(rows.task).enumerate().for_each(|(task, y)| {
            let range = start + task * rows.task..start + task * rows.task + y.len();
            match (x.map(|x| &x[range.clone()]), residual.map(|r| &r[range.clone()])) {
                (None, _) => normalise_in_place(y, scale, shift, low, high),
                (Some(x), Some(r)) => normalise_with(x, r, y, scale, shift, low, high),
                (Some(x), None) if at_destination => normalise_onto(x, y, scale, shift, low, high),
                (Some(x), None) => normalise(x, y, scale, shift, low, high),
            }
        });
    });
}

vectorised! {
    fn normalise(x: &[f32], y: &mut [f32], scale: &[f32], shift: &[f32], low: f32, high: f32) {
        for (x, y) in x.chunks(scale.len()).zip(y.chunks_mut(scale.len())) {
            for ((x, y), (scale, shift)) in x.iter().zip(y).zip(scale.iter().zip(shift)) {
                *y = clamp(x * scale + shift, low, high);
            }
        }
    }

    fn normalise_in_place(y: &mut [f32], scale: &[f32], shift: &[f32], low: f32, high: f32) {
        for y in y.chunks_mut(scale.len()) {
            for (y, (scale, shift)) in y.iter_mut().zip(scale.iter().zip(shift)) {
                *y = clamp(*y * scale + shift, low, high);
            }
        }
    }

    fn normalise_onto(x: &[f32], y: &mut [f32], scale: &[f32], shift: &[f32], low: f32, high: f32) {
        for (x, y) in x.chunks(scale.len()).zip(y.chunks_mut(scale.len())) {
            for ((x, y), (scale, shift)) in x.iter().zip(y).zip(scale.iter().zip(shift)) {
                *y = clamp(x * scale + shift + *y, low, high);
            }
        }
    }

    fn normalise_with(
        x: &[f32],
        r: &[f32],
        y: &mut [f32],
        scale: &[f32],
        shift: &[f32],
        low: f32,
        high: f32,
    ) {
        let n = scale.len();
        for ((x, r), y) in x.chunks(n).zip(r.chunks(n)).zip(y.chunks_mut(n)) {
            for (((x, r), y), (scale, shift)) in x.iter().zip(r).zip(y).zip(scale.iter().zip(shift)) {
                *y = clamp(x * scale + shift + r, low, high);
            }
        }
    }
}
