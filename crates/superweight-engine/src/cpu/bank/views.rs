//! Bank views on the CPU. A forward task computes some rows of a tensor; a backward task some
//! elements of a bank. Both passes interpolate rows first and columns second, so that inner loops
//! run along memory.

use rayon::prelude::*;

use super::rank_one::Factors;
use crate::cpu::buffer::Storages;
use crate::cpu::rows::FLAT_TASK;
use crate::cpu::share::Shared;
use crate::cpu::vector::vectorised;
use crate::device::bank_view::axis::{Axes, Axis};
use crate::device::bank_view::{BankView, BankViewSet, RankOne};
use crate::device::buffer::Region;
use crate::device::mix::Block;

/// Bank elements per backward task. Many views may contribute to each, so a task has fewer elements
/// than plain work.
const TASK: usize = 4096;

/// Prepared form of all sets.
#[derive(Debug)]
pub struct Viewer {
    placed: Vec<PlacedView>,
    axes: Axes,
    /// Forward tasks: index of the view, and range of rows of its tensor.
    forward: Vec<(usize, [usize; 2])>,
    backward: Vec<Piece>,
    factors: Factors,
}

/// A view with its offsets in the parameter storage.
#[derive(Debug)]
struct PlacedView {
    view: BankView,
    /// Offset of the first element that the view reads.
    source: usize,
    /// Indices of the axes for rows and columns; `None` without interpolation.
    axes: Option<[usize; 2]>,
}

/// A backward task: a range of bank elements, and the views that read them.
#[derive(Debug)]
struct Piece {
    range: [usize; 2],
    placed: Vec<usize>,
}

/// Temporary rows of a task.
#[derive(Default)]
struct Lines {
    blended: Vec<f32>,
    columns: Vec<f32>,
}

impl Viewer {
    pub(in crate::cpu) fn new(sets: &[BankViewSet]) -> Self {
        let mut axes = Axes::default();
        let (mut placed, mut forward, mut backward) = (vec![], vec![], vec![]);
        for set in sets {
            let (first, Region { offset, len, .. }) = (placed.len(), set.bank);
            for view in &set.views {
                let rows = (FLAT_TASK / view.row()).max(1);
                let starts = (0..view.shape.rows).step_by(rows);
                forward.extend(
                    starts.map(|row| (placed.len(), [row, (row + rows).min(view.shape.rows)])),
                );
                let ends = [[view.from[0], view.shape.rows], [view.source_row(), view.row()]];
                let stretched_by = (!view.is_plain()).then(|| ends.map(|ends| axes.index(ends)));
                placed.push(PlacedView {
                    view: *view,
                    source: offset + view.at,
                    axes: stretched_by,
                });
            }
            backward.extend((0..len).step_by(TASK).map(|start| {
                let range = [start, (start + TASK).min(len)];
                let placed = set.touching(range).map(|view| first + view).collect();
                Piece { range: range.map(|at| offset + at), placed }
            }));
        }
        Self { placed, axes, forward, backward, factors: Factors::new(sets) }
    }

    /// Computes all tensors.
    pub(in crate::cpu) fn apply(&self, storages: &mut Storages) {
        let [_, _, parameters, ..] = storages;
        let parameters = Shared::new(parameters.floats_mut());
        self.forward.par_iter().for_each_init(Vec::new, |blended, &(index, [first, end])| {
            let entry = &self.placed[index];
            let row = entry.view.row();
            // SAFETY: `BankViews::new` checked that no tensor overlaps a bank or another tensor;
            // each row is in one task only.
            let (source, rows) = unsafe {
                let to = entry.view.tensor.offset + first * row;
                let source = parameters.read(entry.source, entry.view.source_len());
                (source, parameters.part(to, (end - first) * row))
            };
            for (r, to) in (first..end).zip(rows.chunks_exact_mut(row)) {
                match entry.axes {
                    None => transpose(&source[r * row..][..row], entry.view.shape.positions, to),
                    Some(axes) => {
                        stretch(
                            &entry.view,
                            axes.map(|axis| &self.axes.all[axis]),
                            source,
                            r,
                            blended,
                            to,
                        );
                    }
                }
                if let Some(RankOne { rows, cols }) = entry.view.factors {
                    // SAFETY: factors do not overlap tensors either.
                    let [rows, cols] =
                        [rows, cols].map(|of| unsafe { parameters.read(of.offset, of.len) });
                    to.chunks_exact_mut(cols.len()).for_each(|to| multiply(cols, rows[r], to));
                }
            }
        });
    }

    /// Computes the gradients of banks and factors.
    pub(in crate::cpu) fn backward(&self, storages: &mut Storages) {
        let [_, _, parameters, gradients, _] = storages;
        let (parameters, gradients) = (parameters.floats(), Shared::new(gradients.floats_mut()));
        self.factors.backward(parameters, gradients);
        self.backward.par_iter().for_each_init(Lines::default, |lines, piece| {
            let [first, end] = piece.range;
            // SAFETY: `BankViews::new` checked that no bank overlaps another bank or a tensor; each
            // element is in one task only.
            let bank = unsafe { gradients.part(first, end - first) };
            bank.fill(0.0);
            for entry in piece.placed.iter().map(|&entry| &self.placed[entry]) {
                let tensor = entry.view.tensor;
                // SAFETY: as above.
                let tensor = unsafe { gradients.read(tensor.offset, tensor.len) };
                let seen =
                    [first.max(entry.source), end.min(entry.source + entry.view.source_len())];
                let bank = &mut bank[seen[0] - first..seen[1] - first];
                let seen = seen.map(|at| at - entry.source);
                self.add(entry, seen, parameters, tensor, lines, bank);
            }
        });
    }

    /// Adds the gradient of a tensor to that of the bank elements `first..end`, counted from the
    /// start of the view.
    fn add(
        &self,
        entry: &PlacedView,
        [first, end]: [usize; 2],
        parameters: &[f32],
        dw: &[f32],
        lines: &mut Lines,
        mut bank: &mut [f32],
    ) {
        let (view, row) = (&entry.view, entry.view.source_row());
        for source_row in first / row..end.div_ceil(row) {
            let start = source_row * row;
            let columns = [first.max(start) - start, end.min(start + row) - start];
            let (sums, rest) = bank.split_at_mut(columns[1] - columns[0]);
            match entry.axes {
                None => {
                    let mut dw = &dw[start..][..row];
                    if let Some(RankOne { rows, cols }) = view.factors {
                        let [rows, cols] =
                            [rows, cols].map(|of| &parameters[of.offset..][..of.len]);
                        lines.blended.clear();
                        lines.blended.extend_from_slice(dw);
                        let chunks = lines.blended.chunks_exact_mut(cols.len());
                        chunks.for_each(|dw| multiply(cols, rows[source_row], dw));
                        dw = &lines.blended;
                    }
                    add_transposed(dw, view.shape.positions, columns[0], sums);
                }
                Some(axes) => {
                    let axes = axes.map(|axis| &self.axes.all[axis]);
                    add_stretched(view, axes, dw, [source_row, columns[0]], lines, sums);
                }
            }
            bank = rest;
        }
    }
}

/// Converts a row from input-major (OIHW) to position-major (OHWI) order.
fn transpose(row: &[f32], positions: usize, to: &mut [f32]) {
    if positions == 1 {
        return to.copy_from_slice(row);
    }
    let cols = row.len() / positions;
    for (position, to) in to.chunks_exact_mut(cols).enumerate() {
        to.iter_mut()
            .zip(row[position..].iter().step_by(positions))
            .for_each(|(to, from)| *to = *from);
    }
}

/// Adds a position-major row to sums in input-major order, starting at `column`.
fn add_transposed(row: &[f32], positions: usize, column: usize, sums: &mut [f32]) {
    if positions == 1 {
        return add_scaled(&row[column..column + sums.len()], 1.0, sums);
    }
    let cols = row.len() / positions;
    for (sum, at) in sums.iter_mut().zip(places(column, positions, cols)) {
        *sum += row[at];
    }
}

/// Computes row `r` of a tensor by interpolation.
fn stretch(
    view: &BankView,
    [rows, columns]: [&Axis; 2],
    source: &[f32],
    r: usize,
    blended: &mut Vec<f32>,
    to: &mut [f32],
) {
    let (row, tap) = (view.source_row(), rows.taps[r]);
    let [lower, upper] = [tap.lower as usize, tap.upper()].map(|from| &source[from * row..][..row]);
    blended.clear();
    blended.resize(row, 0.0);
    blend(lower, upper, tap.weight, blended);
    for (position, to) in to.chunks_exact_mut(view.shape.cols).enumerate() {
        for (to, tap) in
            to.iter_mut().zip(columns.taps[position..].iter().step_by(view.shape.positions))
        {
            *to = (1.0 - tap.weight) * blended[tap.lower as usize]
                + tap.weight * blended[tap.upper()];
        }
    }
}

/// Adds the gradient of an interpolated tensor to that of one row of the slice, starting at a
/// column.
fn add_stretched(
    view: &BankView,
    [rows, columns]: [&Axis; 2],
    dw: &[f32],
    [source_row, column]: [usize; 2],
    lines: &mut Lines,
    sums: &mut [f32],
) {
    let (row, Block { positions, cols, .. }) = (view.row(), view.shape);
    let [first, _] = columns.reach[column].map(|n| n as usize);
    let [_, end] = columns.reach[column + sums.len() - 1].map(|n| n as usize);
    // Whole inputs, with all their positions.
    let inputs = [first / positions, end.div_ceil(positions)];
    let width = inputs[1] - inputs[0];
    let Lines { blended, columns: seen } = lines;
    blended.clear();
    blended.resize(positions * width, 0.0);
    let [r, r_end] = rows.reach[source_row].map(|n| n as usize);
    for (r, tap) in (r..r_end).zip(&rows.taps[r..r_end]) {
        let weight = tap.weight_of(source_row);
        for (position, blended) in blended.chunks_exact_mut(width).enumerate() {
            add_scaled(&dw[r * row + position * cols + inputs[0]..][..width], weight, blended);
        }
    }
    // One extra element at each end receives contributions to columns that another task adds.
    seen.clear();
    seen.resize(sums.len() + 2, 0.0);
    let places = places(first - inputs[0] * positions, positions, width);
    for (tap, at) in columns.taps[first..end].iter().zip(places) {
        let (lower, d) = (tap.lower as usize + 1 - column, blended[at]);
        seen[lower] += (1.0 - tap.weight) * d;
        seen[lower + 1] += tap.weight * d;
    }
    add_scaled(&seen[1..=sums.len()], 1.0, sums);
}

/// Indices in position-major order of a row's elements, starting at a column in input-major order.
fn places(column: usize, positions: usize, cols: usize) -> impl Iterator<Item = usize> {
    let (mut input, mut position) = (column / positions, column % positions);
    std::iter::repeat_with(move || {
        let at = position * cols + input;
        position += 1;
        if position == positions {
            (input, position) = (input + 1, 0);
        }
        at
    })
}

vectorised! {
    fn blend(lower: &[f32], upper: &[f32], weight: f32, to: &mut [f32]) {
        let both = lower.iter().zip(upper);
        to.iter_mut().zip(both).for_each(|(to, (lower, upper))| *to = (1.0 - weight) * lower + weight * upper);
    }

    fn multiply(by: &[f32], factor: f32, to: &mut [f32]) {
        to.iter_mut().zip(by).for_each(|(to, by)| *to *= factor * by);
    }

    fn add_scaled(x: &[f32], factor: f32, sums: &mut [f32]) {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += factor * x);
    }
}
