//! BankViews of banks on the CPU: forward some rows of a tensor a task, backward some numbers of a bank. Rows are blended first and
//! columns then, going back too, so that the inner loops run along memory.

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

/// Numbers of a bank whose gradients are one task: by many views each, so fewer than of plain work.
const TASK: usize = 4096;

/// What is prepared for all sets.
#[derive(Debug)]
pub struct Viewer {
    looks: Vec<Look>,
    axes: Axes,
    /// Which look, and which rows of its tensor.
    forward: Vec<(usize, [usize; 2])>,
    backward: Vec<Piece>,
    factors: Factors,
}

/// A view at its place among the parameters.
#[derive(Debug)]
struct Look {
    view: BankView,
    /// First number that it looks at.
    source: usize,
    /// Which axes rows and columns are stretched by; none for a slice.
    axes: Option<[usize; 2]>,
}

/// Numbers of a bank, from the first to before the second, and who looks at them.
#[derive(Debug)]
struct Piece {
    numbers: [usize; 2],
    looks: Vec<usize>,
}

/// What a task needs beside what it reads and writes.
#[derive(Default)]
struct Lines {
    blended: Vec<f32>,
    columns: Vec<f32>,
}

impl Viewer {
    pub(in crate::cpu) fn new(sets: &[BankViewSet]) -> Self {
        let mut axes = Axes::default();
        let (mut looks, mut forward, mut backward) = (vec![], vec![], vec![]);
        for set in sets {
            let (first, Region { offset, len, .. }) = (looks.len(), set.bank);
            for view in &set.views {
                let rows = (FLAT_TASK / view.row()).max(1);
                let starts = (0..view.shape.rows).step_by(rows);
                forward.extend(
                    starts.map(|row| (looks.len(), [row, (row + rows).min(view.shape.rows)])),
                );
                let ends = [[view.from[0], view.shape.rows], [view.source_row(), view.row()]];
                let stretched_by = (!view.is_plain()).then(|| ends.map(|ends| axes.index(ends)));
                looks.push(Look { view: *view, source: offset + view.at, axes: stretched_by });
            }
            backward.extend((0..len).step_by(TASK).map(|start| {
                let numbers = [start, (start + TASK).min(len)];
                let looks = set.touching(numbers).map(|view| first + view).collect();
                Piece { numbers: numbers.map(|number| offset + number), looks }
            }));
        }
        Self { looks, axes, forward, backward, factors: Factors::new(sets) }
    }

    /// Writes the tensors.
    pub(in crate::cpu) fn view(&self, storages: &mut Storages) {
        let [_, _, parameters, ..] = storages;
        let parameters = Shared::new(parameters.floats_mut());
        self.forward.par_iter().for_each_init(Vec::new, |blended, &(index, [first, end])| {
            let look = &self.looks[index];
            let row = look.view.row();
            // SAFETY: `BankViews::new` checked that no tensor overlaps a bank or another tensor, and no row is in two tasks.
            let (source, rows) = unsafe {
                let to = look.view.tensor.offset + first * row;
                let source = parameters.read(look.source, look.view.source_len());
                (source, parameters.part(to, (end - first) * row))
            };
            for (r, to) in (first..end).zip(rows.chunks_exact_mut(row)) {
                match look.axes {
                    None => transpose(&source[r * row..][..row], look.view.shape.positions, to),
                    Some(axes) => {
                        stretch(
                            &look.view,
                            axes.map(|axis| &self.axes.all[axis]),
                            source,
                            r,
                            blended,
                            to,
                        );
                    }
                }
                if let Some(RankOne { rows, cols }) = look.view.factors {
                    // SAFETY: factors overlap no tensor either.
                    let [rows, cols] =
                        [rows, cols].map(|of| unsafe { parameters.read(of.offset, of.len) });
                    to.chunks_exact_mut(cols.len()).for_each(|to| multiply(cols, rows[r], to));
                }
            }
        });
    }

    /// Writes the gradients of banks and factors.
    pub(in crate::cpu) fn backward(&self, storages: &mut Storages) {
        let [_, _, parameters, gradients, _] = storages;
        let (parameters, gradients) = (parameters.floats(), Shared::new(gradients.floats_mut()));
        self.factors.backward(parameters, gradients);
        self.backward.par_iter().for_each_init(Lines::default, |lines, piece| {
            let [first, end] = piece.numbers;
            // SAFETY: `BankViews::new` checked that no bank overlaps another or a tensor, and no number is in two tasks.
            let bank = unsafe { gradients.part(first, end - first) };
            bank.fill(0.0);
            for look in piece.looks.iter().map(|&look| &self.looks[look]) {
                let tensor = look.view.tensor;
                // SAFETY: as above.
                let tensor = unsafe { gradients.read(tensor.offset, tensor.len) };
                let seen = [first.max(look.source), end.min(look.source + look.view.source_len())];
                let bank = &mut bank[seen[0] - first..seen[1] - first];
                let seen = seen.map(|number| number - look.source);
                self.add(look, seen, parameters, tensor, lines, bank);
            }
        });
    }

    /// Adds a tensor's gradient to that of numbers it looks at, given by the first and the end of them in the view.
    fn add(
        &self,
        look: &Look,
        [first, end]: [usize; 2],
        parameters: &[f32],
        dw: &[f32],
        lines: &mut Lines,
        mut bank: &mut [f32],
    ) {
        let (view, row) = (&look.view, look.view.source_row());
        for source_row in first / row..end.div_ceil(row) {
            let start = source_row * row;
            let columns = [first.max(start) - start, end.min(start + row) - start];
            let (sums, rest) = bank.split_at_mut(columns[1] - columns[0]);
            match look.axes {
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

/// A row in the order of inputs to that of positions.
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

/// Adds numbers of a row in the order of positions to sums in that of inputs, the first of which is that of `column`.
fn add_transposed(row: &[f32], positions: usize, column: usize, sums: &mut [f32]) {
    if positions == 1 {
        return add_scaled(&row[column..column + sums.len()], 1.0, sums);
    }
    let cols = row.len() / positions;
    for (sum, at) in sums.iter_mut().zip(places(column, positions, cols)) {
        *sum += row[at];
    }
}

/// Row `r` of a stretched tensor.
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

/// Adds a stretched tensor's gradient to that of one row that it looks at, from a column on.
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
    // Whole inputs, all positions of them.
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
    // One more at either end, for what the outermost columns have a part in but another task adds.
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

/// Where the numbers of a row lie in the order of positions, from a column of the order of inputs on.
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
