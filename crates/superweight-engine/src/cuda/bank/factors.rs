//! Coefficients as products of patterns and gains, on a GPU: one launch for all sets, and two for
//! the gradients.

use super::piece::Piece;
use crate::cuda::buffer::Allocation;
use crate::cuda::gpu::Gpu;
use crate::cuda::launch::{Grid, launch};
use crate::device::mix::{MixGradients, MixSet};
use crate::error::CudaError;

/// Coefficients of a gain per block; `LANES` in `factors.cu`.
const LANES: usize = 32;

#[repr(C)]
#[derive(Clone, Copy)]
struct Set {
    alpha: u64,
    patterns: u64,
    gains: u64,
    count: u32,
    rows: u32,
    pattern_count: u32,
    first_row: u32,
    first_pattern: u32,
    first_gain: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct GainPiece {
    of: u32,
    gain: u32,
    first: u32,
    unused: u32,
}

/// Tables of all sets whose coefficients are products.
#[derive(Debug)]
pub(in crate::cuda) struct Factors {
    sets: Allocation,
    rows: Allocation,
    order: Allocation,
    pattern_starts: Allocation,
    gain_starts: Allocation,
    multiply: (Allocation, usize),
    patterns: (Allocation, usize),
    gains: (Allocation, usize),
}

impl Factors {
    /// Returns `None` if no set has such coefficients.
    pub fn new(gpu: &Gpu, sets: &[MixSet]) -> Result<Option<Self>, CudaError> {
        let (mut table, mut rows, mut order) = (vec![], vec![], vec![]);
        let (mut pattern_starts, mut gain_starts) = (vec![], vec![]);
        let (mut multiply, mut patterns, mut gains) = (vec![], vec![], vec![]);
        let made =
            sets.iter().filter_map(|set| Some((set, set.factors.as_ref()?, set.coefficients?)));
        for (of, (set, factors, coefficients)) in made.enumerate() {
            let count = set.count();
            let [pattern_count, gain_count] =
                [factors.patterns, factors.gains].map(|region| region.len / count);
            table.push(Set {
                alpha: coefficients.offset as u64,
                patterns: factors.patterns.offset as u64,
                gains: factors.gains.offset as u64,
                count: count as u32,
                rows: factors.rows.len() as u32,
                pattern_count: pattern_count as u32,
                first_row: rows.len() as u32,
                first_pattern: pattern_starts.len() as u32,
                first_gain: gain_starts.len() as u32,
            });
            rows.extend_from_slice(&factors.rows);
            gain_starts.extend(factors.by_gain(gain_count));
            multiply.extend(Piece::all(of, factors.rows.len() * count));
            // For every set, so that the offsets of its rows are valid.
            let (of_patterns, starts) = factors.by_pattern(pattern_count);
            order.extend(of_patterns);
            pattern_starts.extend(starts);
            if set.gradients == MixGradients::Both {
                patterns.extend(Piece::all(of, pattern_count * count));
            }
            let of = of as u32;
            let lanes = (0..count as u32).step_by(LANES);
            gains.extend((0..gain_count as u32).flat_map(|gain| {
                lanes.clone().map(move |first| GainPiece { of, gain, first, unused: 0 })
            }));
        }
        if table.is_empty() {
            return Ok(None);
        }
        let (context, what) = (&gpu.context, "the tables of patterns and gains");
        let pieces =
            |table: &[Piece]| Allocation::of(context, what, table).map(|a| (a, table.len()));
        Ok(Some(Self {
            sets: Allocation::of(context, what, &table)?,
            rows: Allocation::of(context, what, &rows)?,
            order: Allocation::of(context, what, &order)?,
            pattern_starts: Allocation::of(context, what, &pattern_starts)?,
            gain_starts: Allocation::of(context, what, &gain_starts)?,
            multiply: pieces(&multiply)?,
            patterns: pieces(&patterns)?,
            gains: (Allocation::of(context, what, &gains)?, gains.len()),
        }))
    }

    /// Computes the coefficients.
    pub fn multiply(&self, gpu: &Gpu, parameters: u64) {
        let (pieces, count) = &self.multiply;
        let (sets, rows) = (self.sets.pointer, self.rows.pointer);
        // SAFETY: the tables were made from sets that `Mix::new` checked.
        unsafe {
            launch!(
                gpu.kernels,
                "factors_multiply",
                Grid::each(*count),
                pieces.pointer,
                sets,
                rows,
                parameters
            );
        }
    }

    /// Computes the gradients of patterns and gains from those of the coefficients.
    pub fn backward(&self, gpu: &Gpu, parameters: u64, gradients: u64) {
        let (sets, rows) = (self.sets.pointer, self.rows.pointer);
        // SAFETY: as in `multiply`.
        unsafe {
            launch!(
                gpu.kernels,
                "factors_patterns",
                Grid::each(self.patterns.1),
                self.patterns.0.pointer,
                sets,
                rows,
                self.order.pointer,
                self.pattern_starts.pointer,
                parameters,
                gradients,
            );
            launch!(
                gpu.kernels,
                "factors_gains",
                Grid::each(self.gains.1),
                self.gains.0.pointer,
                sets,
                rows,
                self.gain_starts.pointer,
                parameters,
                gradients,
            );
        }
    }
}
