//! A set that goes through its cells: `cells = α·T`, `dα = dcells·Tᵀ`, `dT = αᵀ·dcells`.
//!
//! cuBLASLt has fast kernels only for rows of whole 16 bytes, and K is what the budget leaves: 247 for WRN-28-10 at 10%. So K is
//! filled up with zeros in copies of α and T; what the gradients have too much is dropped when they are copied back. The three
//! products take 269 µs instead of 587 then (H200, tf32, copies not counted; `docs/notes/convolution-plans.md`).

use super::CudaDevice;
use super::blas::{Arithmetic, Product, ProductShape};
use super::context::{Context, Precision};
use super::error::CudaError;
use super::launch::launch;
use crate::mix::{MixGradients, MixSet};
use crate::ops::Write;

/// Numbers that everything in the scratch memory is aligned to.
const ALIGNMENT: usize = 64;
/// f32 numbers in 16 bytes.
const WHOLE: usize = 4;
/// Multiply-adds from which copies are taken to be small beside the product.
const LARGE: usize = 1 << 30;

/// Whether rows are filled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// In large products whose K is no multiple of 4.
    WherePays,
    /// In all whose K is no multiple of 4.
    #[cfg(test)]
    Always,
}

/// A matrix in row-major order: where it lies, rows, columns.
type Matrix = (u64, usize, usize);

/// The products of a set.
#[derive(Debug)]
pub(super) struct Products {
    rows: usize,
    count: usize,
    len: usize,
    /// K as the products see it.
    filled: usize,
    /// Offsets in the parameters.
    blocks: u64,
    coefficients: u64,
    /// Offsets in the scratch memory: cells, then α and T (or their gradients) if they are filled up.
    cells: u64,
    wide_coefficients: u64,
    wide_blocks: u64,
    forward: Product,
    of_coefficients: Product,
    of_blocks: Option<Product>,
}

impl Products {
    /// And how many numbers of scratch memory from `cells` on, and bytes of workspace, they need. Where weights are rounded
    /// to bf16 anyway, tf32 is exact enough.
    pub(super) fn new(
        context: &Context,
        set: &MixSet,
        cells: u64,
        filling: Filling,
    ) -> Result<(Self, usize, usize), CudaError> {
        let (rows, count, len) = (set.cells(), set.count(), set.block.len());
        let arithmetic = match context.precision {
            Precision::Bf16 => Arithmetic::Tf32,
            Precision::F32 => Arithmetic::F32,
        };
        let pays = match filling {
            Filling::WherePays => rows * count * len >= LARGE && len.is_multiple_of(WHOLE),
            #[cfg(test)]
            Filling::Always => true,
        };
        let filled = if pays { count.next_multiple_of(WHOLE) } else { count };
        let mut workspace = 0;
        let mut product = |m, n, k, transposed| {
            let (output, write) = (Precision::F32, Write::Set);
            let shape = ProductShape { m, n, k, transposed, arithmetic, output, write };
            Product::new(context, shape).map(|(product, bytes)| {
                workspace = workspace.max(bytes);
                product
            })
        };
        let mut end = cells;
        let mut place = |numbers: usize| {
            let at = end;
            end += numbers.next_multiple_of(ALIGNMENT) as u64;
            at
        };
        let cells_at = place(rows * len);
        let copies = if filled == count { [0; 2] } else { [place(rows * filled), place(filled * len)] };
        let products = Self {
            rows,
            count,
            len,
            filled,
            blocks: set.blocks.offset as u64,
            coefficients: set.coefficients.map_or(0, |region| region.offset as u64),
            cells: cells_at,
            wide_coefficients: copies[0],
            wide_blocks: copies[1],
            forward: product(rows, len, filled, [false, false])?,
            of_coefficients: product(rows, filled, len, [false, true])?,
            of_blocks: match set.gradients {
                MixGradients::Both => Some(product(filled, len, rows, [true, false])?),
                MixGradients::Coefficients => None,
            },
        };
        Ok((products, (end - cells) as usize, workspace))
    }

    pub(super) fn forward(&self, device: &CudaDevice, parameters: u64, scratch: u64, workspace: u64) {
        let alpha = self.wide_alpha(device, parameters, scratch);
        let blocks = self.wide_blocks(device, parameters, scratch);
        let cells = scratch + 4 * self.cells;
        let context = &device.context;
        // SAFETY: `Mix::new` checked that the operands lie in the parameters; the scratch memory has the size that `new` gave.
        context.note(unsafe { self.forward.run(context, alpha, blocks, cells, workspace) });
    }

    pub(super) fn backward(
        &self,
        device: &CudaDevice,
        parameters: u64,
        gradients: u64,
        scratch: u64,
        workspace: u64,
    ) {
        let context = &device.context;
        let (cells, is_filled) = (scratch + 4 * self.cells, self.filled != self.count);
        let target = |own: u64, wide: u64| if is_filled { scratch + 4 * wide } else { gradients + 4 * own };
        let blocks = self.wide_blocks(device, parameters, scratch);
        let dalpha = target(self.coefficients, self.wide_coefficients);
        // SAFETY: as in `forward`.
        context.note(unsafe { self.of_coefficients.run(context, cells, blocks, dalpha, workspace) });
        if is_filled {
            let own = (gradients + 4 * self.coefficients, self.rows, self.count);
            resize(device, (dalpha, self.rows, self.filled), own);
        }
        if let Some(product) = &self.of_blocks {
            // α takes the place of its gradient, dT that of T: both have been read.
            let alpha = self.wide_alpha(device, parameters, scratch);
            let dblocks = target(self.blocks, self.wide_blocks);
            // SAFETY: as in `forward`.
            context.note(unsafe { product.run(context, alpha, cells, dblocks, workspace) });
            if is_filled {
                let own = (gradients + 4 * self.blocks, self.count, self.len);
                resize(device, (dblocks, self.filled, self.len), own);
            }
        }
    }

    /// α as the products read it.
    fn wide_alpha(&self, device: &CudaDevice, parameters: u64, scratch: u64) -> u64 {
        let own = (parameters + 4 * self.coefficients, self.rows, self.count);
        self.widened(device, own, (scratch + 4 * self.wide_coefficients, self.rows, self.filled))
    }

    /// T as the products read it.
    fn wide_blocks(&self, device: &CudaDevice, parameters: u64, scratch: u64) -> u64 {
        let own = (parameters + 4 * self.blocks, self.count, self.len);
        self.widened(device, own, (scratch + 4 * self.wide_blocks, self.filled, self.len))
    }

    fn widened(&self, device: &CudaDevice, own: Matrix, wide: Matrix) -> u64 {
        if self.filled == self.count {
            return own.0;
        }
        resize(device, own, wide);
        wide.0
    }
}

/// Copies a matrix into one of another size, with zeros where it has nothing.
fn resize(device: &CudaDevice, from: Matrix, to: Matrix) {
    let grid = device.kernels.flat(to.1 * to.2);
    let [from_rows, from_cols, to_rows, to_cols] = [from.1, from.2, to.1, to.2].map(|size| size as u32);
    // SAFETY: both matrices lie where `Products` says: in the parameters, their gradients or the scratch memory.
    unsafe { launch!(device.kernels, "resize", grid, from.0, from_rows, from_cols, to.0, to_rows, to_cols) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::on_device::{Buffer, error, random};
    use crate::mix::Block;
    use crate::program::{Element, Region, Space};

    fn product(
        m: usize,
        n: usize,
        k: usize,
        a: impl Fn(usize, usize) -> f32,
        b: impl Fn(usize, usize) -> f32,
    ) -> Vec<f32> {
        let sum = |i, j| (0..k).map(|l| f64::from(a(i, l)) * f64::from(b(l, j))).sum::<f64>() as f32;
        (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| sum(i, j)).collect()
    }

    #[test]
    fn filled_rows_change_nothing() {
        let device = match CudaDevice::new(0, Precision::F32) {
            Ok(device) => device,
            Err(error) => return println!("skipped: {error}"),
        };
        let context = &device.context;
        let block = Block { rows: 4, positions: 9, cols: 4 };
        for (rows, count) in [(33usize, 11usize), (5, 9), (16, 12)] {
            let len = block.len();
            // α, then T, each at a multiple of 16 bytes; numbers around them must stay as they are.
            let blocks_at = (rows * count).next_multiple_of(ALIGNMENT);
            let region =
                |offset, len| Region { space: Space::Parameters, offset, len, element: Element::Weight };
            let set = MixSet {
                name: "set".into(),
                block,
                blocks: region(blocks_at, count * len),
                coefficients: Some(region(0, rows * count)),
                uses: vec![],
                gradients: MixGradients::Both,
            };
            let total = blocks_at + (count * len).next_multiple_of(ALIGNMENT);
            let numbers = random(1, total);
            let (products, scratch, bytes) = Products::new(context, &set, 0, Filling::Always).unwrap();
            assert_eq!(products.filled % WHOLE, 0);
            let parameters = Buffer::new(context, Precision::F32, &numbers);
            let gradients = Buffer::new(context, Precision::F32, &vec![7.0; total]);
            let memory = Buffer::new(context, Precision::F32, &vec![f32::NAN; scratch]);
            let workspace = Buffer::bytes(context, bytes);
            products.forward(&device, parameters.at(), memory.at(), workspace.at());
            let (alpha, blocks) = (&numbers[..], &numbers[blocks_at..]);
            let wanted = product(rows, len, count, |i, k| alpha[i * count + k], |k, j| blocks[k * len + j]);
            let cells = memory.read()[..rows * len].to_vec();
            context.take_failure().unwrap();
            assert!(error(&cells, &wanted) < 1e-5, "{rows}×{count}: {}", error(&cells, &wanted));

            products.backward(&device, parameters.at(), gradients.at(), memory.at(), workspace.at());
            let got = gradients.read();
            context.take_failure().unwrap();
            let cell = |i: usize, j: usize| cells[i * len + j];
            let dalpha = product(rows, count, len, cell, |j, k| blocks[k * len + j]);
            let dblocks = product(count, len, rows, |k, i| alpha[i * count + k], cell);
            assert!(error(&got[..rows * count], &dalpha) < 1e-5);
            assert!(error(&got[blocks_at..blocks_at + count * len], &dblocks) < 1e-5);
            let between = got[rows * count..blocks_at].iter().chain(&got[blocks_at + count * len..]);
            assert!(between.copied().all(|v| v == 7.0), "numbers beside the gradients were written");
        }
    }
}
