//! Gradients of the row and column factors of bank views: `W[r, p, i] = row[r]·column[i]·V[r, p,
//! i]`.
//!
//! ```text
//! drow[r] = Σ dW[r, p, i]·column[i]·V[r, p, i]      dcolumn[i] = Σ dW[r, p, i]·row[r]·V[r, p, i]
//! ```
//!
//! Sums are in f64 and in memory order. V is the slice of the bank, in OIHW order.

use rayon::prelude::*;

use crate::cpu::rows::FLAT_TASK;
use crate::cpu::share::Shared;
use crate::device::bank_view::{BankView, BankViewSet, RankOne};
use crate::device::buffer::Region;
use crate::device::mix::Block;

/// Columns per task.
const COLUMNS: usize = 32;

/// Prepared form of all views with factors.
#[derive(Debug)]
pub(in crate::cpu) struct Factors {
    slices: Vec<Slice>,
    /// Tasks of row factors: index of the slice, and range of its rows.
    rows: Vec<(usize, [usize; 2])>,
    /// Tasks of column factors: index of the slice, and range of its columns.
    cols: Vec<(usize, [usize; 2])>,
}

/// A view with factors.
#[derive(Debug)]
struct Slice {
    view: BankView,
    factors: RankOne,
    /// Offset of its first element in the parameter storage.
    source: usize,
}

impl Factors {
    pub(in crate::cpu) fn new(sets: &[BankViewSet]) -> Self {
        let (mut slices, mut rows, mut cols) = (vec![], vec![], vec![]);
        for (set, view) in sets.iter().flat_map(|set| set.views.iter().map(move |view| (set, view)))
        {
            let Some(factors) = view.factors else { continue };
            let parts = |of: usize, each: usize| {
                let slice = slices.len();
                (0..of).step_by(each).map(move |first| (slice, [first, (first + each).min(of)]))
            };
            rows.extend(parts(view.shape.rows, (FLAT_TASK / view.row()).max(1)));
            cols.extend(parts(view.shape.cols, COLUMNS));
            slices.push(Slice { view: *view, factors, source: set.bank.offset + view.at });
        }
        Self { slices, rows, cols }
    }

    /// Computes the gradients of all factors.
    pub(in crate::cpu) fn backward(&self, parameters: &[f32], gradients: Shared) {
        let of = |region: Region| &parameters[region.offset..][..region.len];
        self.rows.par_iter().for_each(|&(slice, [first, end])| {
            let Slice { view, factors, source } = &self.slices[slice];
            let (row, Block { positions, .. }) = (view.row(), view.shape);
            // SAFETY: `BankViews::new` checked that tensors, banks and factors do not overlap; each
            // factor is in one task only.
            let (dw, to) = unsafe {
                let dw = gradients.read(view.tensor.offset + first * row, (end - first) * row);
                (dw, gradients.part(factors.rows.offset + first, end - first))
            };
            let (columns, slice) = (of(factors.cols), &parameters[source + first * row..]);
            for ((to, dw), slice) in
                to.iter_mut().zip(dw.chunks_exact(row)).zip(slice.chunks_exact(row))
            {
                let mut sum = 0.0;
                for (position, dw) in dw.chunks_exact(columns.len()).enumerate() {
                    let slice = slice[position..].iter().step_by(positions);
                    let all = dw.iter().zip(columns).zip(slice);
                    sum += all.map(|((d, c), v)| f64::from(*d) * f64::from(c * v)).sum::<f64>();
                }
                *to = sum as f32;
            }
        });
        self.cols.par_iter().for_each(|&(slice, [first, end])| {
            let Slice { view, factors, source } = &self.slices[slice];
            let Block { positions, cols, .. } = view.shape;
            // SAFETY: as above.
            let (dw, to) = unsafe {
                let dw = gradients.read(view.tensor.offset, view.tensor.len);
                (dw, gradients.part(factors.cols.offset + first, end - first))
            };
            let mut sums = [0.0; COLUMNS];
            for (n, dw) in dw.chunks_exact(cols).enumerate() {
                let (r, position) = (n / positions, n % positions);
                let factor = of(factors.rows)[r];
                let slice = &parameters[source + r * view.row() + first * positions + position..];
                let all = sums.iter_mut().zip(&dw[first..end]).zip(slice.iter().step_by(positions));
                all.for_each(|((sum, d), v)| *sum += f64::from(*d) * f64::from(factor * v));
            }
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum as f32);
        });
    }
}
