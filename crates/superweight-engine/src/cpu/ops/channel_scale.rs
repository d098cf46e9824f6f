//! Per-segment channel scale.

use rayon::prelude::*;

use crate::cpu::buffer::Views;
use crate::cpu::rows::{Rows, add_partials, column_products};
use crate::cpu::vector::vectorised;
use crate::device::buffer::Write;
use crate::device::call::channel_scale::{Backward, Forward, ScaleShape};

fn rows_of(shape: &ScaleShape) -> Rows {
    Rows::new(shape.rows, shape.channels)
}

fn expand_scales<'a>(
    shape: &ScaleShape,
    rows: &Rows,
    scale: &[f32],
    lines: &'a mut [f32],
) -> &'a [f32] {
    let lines = &mut lines[..shape.segments * rows.line];
    for (line, scale) in lines.chunks_exact_mut(rows.line).zip(scale.chunks_exact(shape.channels)) {
        rows.expand(scale, line);
    }
    lines
}

pub(in crate::cpu) fn forward_scratch(call: &Forward) -> usize {
    call.shape.segments * rows_of(&call.shape).line
}

pub(in crate::cpu) fn forward(call: &Forward, v: &Views<'_>, scratch: &mut [f32]) {
    let rows = rows_of(&call.shape);
    let lines = expand_scales(&call.shape, &rows, v.read(call.scale), scratch);
    let x = call.x.map(|x| v.read(x));
    v.write(call.y).par_chunks_mut(rows.segment).enumerate().for_each(|(segment, y)| {
        let line = &lines[segment * rows.line..][..rows.line];
        y.par_chunks_mut(rows.task).enumerate().for_each(|(task, y)| {
            let start = segment * rows.segment + task * rows.task;
            match x {
                Some(x) => scale(&x[start..start + y.len()], line, y, false),
                None => scale_in_place(line, y),
            }
        });
    });
}

pub(in crate::cpu) fn backward_scratch(call: &Backward) -> usize {
    let rows = rows_of(&call.shape);
    call.shape.segments * (1 + rows.tasks) * rows.line
}

pub(in crate::cpu) fn backward(call: &Backward, v: &Views<'_>, scratch: &mut [f32]) {
    let (shape, rows) = (&call.shape, rows_of(&call.shape));
    let (lines, partials) = scratch.split_at_mut(shape.segments * rows.line);
    let lines = expand_scales(shape, &rows, v.read(call.scale), lines);
    let partials = &mut partials[..shape.segments * rows.tasks * rows.line];
    let (x, dy) = (v.read(call.x), v.read(call.dy));
    (partials.par_chunks_mut(rows.tasks * rows.line))
        .zip(x.par_chunks(rows.segment).zip(dy.par_chunks(rows.segment)))
        .for_each(|(partials, (x, dy))| {
            (partials.par_chunks_mut(rows.line))
                .zip(x.par_chunks(rows.task).zip(dy.par_chunks(rows.task)))
                .for_each(|(partial, (x, dy))| {
                    column_products(x, dy, rows.line, partial);
                    rows.fold(partial);
                });
        });
    let dscale = v.write(call.dscale);
    for (segment, partials) in partials.chunks_exact(rows.tasks * rows.line).enumerate() {
        let dscale = &mut dscale[segment * shape.channels..][..shape.channels];
        add_partials(partials, rows.line, 0, shape.channels, |channel, sum| match call.write {
            Write::Set => dscale[channel] = sum as f32,
            Write::Add => dscale[channel] += sum as f32,
        });
    }
    let Some((dx, write)) = call.dx else { return };
    v.write(dx).par_chunks_mut(rows.segment).enumerate().for_each(|(segment, dx)| {
        let line = &lines[segment * rows.line..][..rows.line];
        dx.par_chunks_mut(rows.task).enumerate().for_each(|(task, dx)| {
            let start = segment * rows.segment + task * rows.task;
            scale(&dy[start..start + dx.len()], line, dx, write == Write::Add);
        });
    });
}

vectorised! {
    fn scale(x: &[f32], line: &[f32], y: &mut [f32], add: bool) {
        for (x, y) in x.chunks(line.len()).zip(y.chunks_mut(line.len())) {
            for ((x, y), scale) in x.iter().zip(y).zip(line) {
                *y = if add { *y + x * scale } else { x * scale };
            }
        }
    }

    fn scale_in_place(line: &[f32], y: &mut [f32]) {
        for y in y.chunks_mut(line.len()) {
            y.iter_mut().zip(line).for_each(|(y, scale)| *y *= scale);
        }
    }
}
