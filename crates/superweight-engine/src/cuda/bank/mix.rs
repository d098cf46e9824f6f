//! Mixing on a GPU, driven by tables of all sets, uses and pieces of work.
//!
//! A set with few templates, cells and uses is mixed directly (nested tiling): a kernel computes
//! the weights from templates and coefficients. Other sets (grids of many cells and templates)
//! compute their cells by matrix products. One launch writes the tensors of all sets of a kind, and
//! one or two read their gradients. A launch per tensor would cost more than the work. Sets with
//! short rows are a separate kind and are copied in strips. The products of different sets are
//! small and independent, so they run on several streams.

use cudarc::driver::sys as cu;

use super::factors::Factors;
use super::piece::{EACH, PIECE, Piece, SIDE};
use crate::cuda::blas::{Arithmetic, Product, ProductShape};
use crate::cuda::buffer::Allocation;
use crate::cuda::buffer::Storages;
use crate::cuda::context::{BRANCHES, Context};
use crate::cuda::gpu::Gpu;
use crate::cuda::launch::{Grid, launch};
use crate::cuda::precision::Precision;
use crate::device::buffer::Write;
use crate::device::buffer::{Element, Space};
use crate::device::mix::{MixGradients, MixOutput, MixSet, MixUse};
use crate::error::CudaError;

/// Largest number of templates of a directly mixed set. Every weight is computed from all of them.
const DIRECT: usize = 16;
/// Largest number of its cells and uses; a thread block processes them one by one. `CELLS` in
/// `kernels/mix_direct.cu`.
const CELLS: usize = 64;
/// Templates per thread in the backward pass. `CHUNK` in `kernels/mix_direct.cu`.
const CHUNK: usize = 4;
/// Largest number of cells and uses with short templates: processed one after another they take a
/// microsecond each.
const FEW: usize = 16;
/// Alignment of operands in bytes.
const ALIGNMENT: usize = 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct Use {
    tensor: u64,
    set: u32,
    cell: u32,
    inputs: u32,
    at: [u32; 2],
    extent: [u32; 2],
    narrow: u32,
    factor: f32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Set {
    blocks: u64,
    coefficients: u64,
    packed: Packed,
    count: u32,
    positions: u32,
    cols: u32,
    len: u32,
    first_use: u32,
    both: u32,
    mixed: u32,
    width: u32,
    cells: u32,
    weight_decay: f32,
}

/// Offsets of a set's product operands in the scratch memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    cells: u64,
    alpha: u64,
    templates: u64,
    dalpha: u64,
    dtemplates: u64,
}

impl Packed {
    /// Places the operands one after another at `end`, which advances.
    fn place(set: &MixSet, width: usize, bytes: usize, end: &mut u64) -> Self {
        let mut take = |len: usize, bytes: usize| {
            let at = *end;
            *end += (len * bytes).next_multiple_of(ALIGNMENT) as u64;
            at
        };
        let (cells, len) = (set.cells(), set.block.len());
        Self {
            cells: take(cells * len, bytes),
            alpha: take(cells * width, bytes),
            templates: take(width * len, bytes),
            dalpha: take(cells * width, 4),
            dtemplates: take(width * len, 4),
        }
    }
}

/// A piece of a direct set. In the backward pass, a piece of [`CHUNK`] of its templates.
#[repr(C)]
#[derive(Clone, Copy)]
struct DirectPiece {
    partials: u64,
    of: u32,
    first: u32,
    block: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Coefficient {
    at: u64,
    first: u64,
    stride: u32,
    count: u32,
}

/// Products of a set that computes its cells: `cells = α·T`, `dα = dcells·Tᵀ`, `dT = αᵀ·dcells`.
#[derive(Debug)]
struct Products {
    packed: Packed,
    /// Index of the stream.
    branch: usize,
    forward: Product,
    of_coefficients: Product,
    of_blocks: Option<Product>,
}

impl Products {
    /// Returns the products and the bytes of workspace they need.
    fn new(
        context: &Context,
        set: &MixSet,
        width: usize,
        packed: Packed,
        branch: usize,
    ) -> Result<(Self, usize), CudaError> {
        let (rows, len) = (set.cells(), set.block.len());
        let arithmetic = match context.precision {
            Precision::Bf16 => Arithmetic::Bf16,
            Precision::F32 => Arithmetic::F32,
        };
        let mut workspace = 0;
        let mut product = |[m, n, k]: [usize; 3], transposed, output| {
            let shape = ProductShape { m, n, k, transposed, arithmetic, output, write: Write::Set };
            Product::new(&context.blas, shape).map(|(product, bytes)| {
                workspace = workspace.max(bytes);
                product
            })
        };
        let products = Self {
            packed,
            branch,
            forward: product([rows, len, width], [false, false], context.precision)?,
            of_coefficients: product([rows, width, len], [false, true], Precision::F32)?,
            of_blocks: match set.gradients {
                MixGradients::Both => {
                    Some(product([width, len, rows], [true, false], Precision::F32)?)
                }
                MixGradients::Coefficients => None,
            },
        };
        Ok((products, workspace))
    }

    fn forward(&self, on: Branch<'_>, scratch: u64) {
        let Packed { cells, alpha, templates, .. } = self.packed;
        // SAFETY: `Mixer::new` sized the scratch memory for all operands and one workspace per
        // branch.
        unsafe { on.run(&self.forward, [alpha, templates, cells].map(|at| scratch + at)) }
    }

    fn backward(&self, on: Branch<'_>, scratch: u64) {
        let Packed { cells, alpha, templates, dalpha, dtemplates } = self.packed;
        // SAFETY: as in `forward`.
        unsafe { on.run(&self.of_coefficients, [cells, templates, dalpha].map(|at| scratch + at)) }
        if let Some(product) = &self.of_blocks {
            // SAFETY: as in `forward`.
            unsafe { on.run(product, [alpha, cells, dtemplates].map(|at| scratch + at)) }
        }
    }
}

/// One of several streams, with its own workspace.
#[derive(Clone, Copy)]
struct Branch<'a> {
    context: &'a Context,
    stream: cu::CUstream,
    workspace: u64,
}

impl Branch<'_> {
    /// # Safety
    /// As for [`Product::run`].
    unsafe fn run(self, product: &Product, at: [u64; 3]) {
        // SAFETY: guaranteed by the caller.
        self.context
            .note(unsafe { product.run(&self.context.blas, self.stream, at, self.workspace) });
    }
}

/// Tables of all mix sets.
#[derive(Debug)]
pub struct Mixer {
    uses: Allocation,
    first_use: Allocation,
    sets: Allocation,
    /// Pieces of sets that compute their cells: first sets copied element by element, then sets
    /// copied in strips.
    scatter: [(Allocation, usize); 2],
    gather: [(Allocation, usize); 2],
    /// Pieces of the operands of products.
    operands: (Allocation, usize),
    direct: (Allocation, usize),
    coefficients: (Allocation, usize),
    products: Vec<Products>,
    factors: Option<Factors>,
    /// Bytes of operands in the scratch memory. Partial sums (direct sets) or the products'
    /// workspaces follow them.
    operand_bytes: u64,
    /// Workspace bytes per branch.
    workspace: u64,
}

impl Mixer {
    pub(in crate::cuda) fn new(gpu: &Gpu, sets: &[MixSet]) -> Result<(Self, usize), CudaError> {
        let context = &gpu.context;
        let (mut uses, mut first_use, mut table) = (vec![], vec![], vec![]);
        let (mut scatter, mut gather, mut operands) = ([vec![], vec![]], [vec![], vec![]], vec![]);
        let (mut direct, mut coefficients) = (vec![], vec![]);
        let (mut products, mut end, mut partials, mut workspace) = (vec![], 0u64, 0u64, 0usize);
        let mut loads = [0; BRANCHES];
        let bytes = context.precision.bytes();
        for (index, set) in sets.iter().enumerate() {
            let (len, count, set_cells) = (set.block.len(), set.count(), set.cells());
            let is_direct = is_direct(set);
            let both = set.gradients == MixGradients::Both;
            let width = count.next_multiple_of(16 / bytes);
            let packed = if is_direct {
                Packed::default()
            } else {
                Packed::place(set, width, bytes, &mut end)
            };
            table.push(Set {
                blocks: set.blocks.offset as u64,
                coefficients: set.coefficients.map_or(0, |region| region.offset as u64),
                packed,
                count: count as u32,
                positions: set.block.positions as u32,
                cols: set.block.cols as u32,
                len: len as u32,
                first_use: first_use.len() as u32,
                both: u32::from(both),
                mixed: u32::from(set.coefficients.is_some()),
                width: width as u32,
                cells: set_cells as u32,
                weight_decay: set.weight_decay,
            });
            let start = uses.len();
            first_use
                .extend((0..=set_cells).map(|cell| {
                    (start + set.uses.partition_point(|used| used.cell < cell)) as u32
                }));
            for used in &set.uses {
                let narrow =
                    context.precision == Precision::Bf16 && used.tensor.element == Element::Weight;
                uses.push(Use {
                    tensor: used.tensor.offset as u64,
                    set: index as u32,
                    cell: used.cell as u32,
                    inputs: used.inputs as u32,
                    at: used.at.map(|n| n as u32),
                    extent: used.extent.map(|n| n as u32),
                    narrow: u32::from(narrow),
                    factor: used.factor,
                    unused: 0,
                });
            }
            if is_direct {
                let first = partials;
                let of_set = pieces(index, len);
                let (pieces, stride) = (of_set.len(), set_cells * count);
                for Piece { of, first } in of_set {
                    direct.extend((0..count as u32).step_by(CHUNK).map(|block| DirectPiece {
                        partials,
                        of,
                        first,
                        block,
                        unused: 0,
                    }));
                    partials += stride as u64;
                }
                let region = set.coefficients.into_iter().flat_map(|region| 0..region.len as u64);
                coefficients.extend(region.map(|i| Coefficient {
                    at: table[index].coefficients + i,
                    first: first + i,
                    stride: stride as u32,
                    count: pieces as u32,
                }));
            } else {
                if in_strips(set, context.precision) {
                    scatter[1].extend(Piece::strips(index, set.block, set.uses.len()));
                    gather[1].extend(Piece::strips(index, set.block, set_cells));
                } else {
                    scatter[0].extend(Piece::all(index, set.uses.len() * len));
                    gather[0].extend(Piece::all(index, set_cells * len));
                }
                operands.extend(Piece::all(index, (set_cells + len) * width));
                let branch = (0..BRANCHES).min_by_key(|&branch| loads[branch]).unwrap_or(0);
                loads[branch] += set_cells * len;
                let (set, bytes) = Products::new(context, set, width, packed, branch)?;
                workspace = workspace.max(bytes.next_multiple_of(ALIGNMENT));
                products.push(set);
            }
        }
        let what = "the mixing tables";
        let pieces =
            |table: &[Piece]| Allocation::of(context, what, table).map(|a| (a, table.len()));
        let mixer = Self {
            uses: Allocation::of(context, what, &uses)?,
            first_use: Allocation::of(context, what, &first_use)?,
            sets: Allocation::of(context, what, &table)?,
            scatter: [pieces(&scatter[0])?, pieces(&scatter[1])?],
            gather: [pieces(&gather[0])?, pieces(&gather[1])?],
            operands: pieces(&operands)?,
            direct: (Allocation::of(context, what, &direct)?, direct.len()),
            coefficients: (Allocation::of(context, what, &coefficients)?, coefficients.len()),
            products,
            factors: Factors::new(gpu, sets)?,
            operand_bytes: end,
            workspace: workspace as u64,
        };
        Ok((mixer, end as usize + (BRANCHES * workspace).max(4 * partials as usize)))
    }

    pub(in crate::cuda) fn mix(&self, gpu: &Gpu, readers: MixOutput, storages: &Storages) {
        let parameters = storages[Space::Parameters as usize].base();
        let scratch = storages[Space::Arena as usize].base().main;
        if let Some(factors) = &self.factors {
            factors.multiply(gpu, parameters.main);
        }
        self.pack(gpu, parameters.main, scratch);
        self.each(&gpu.context, scratch, |set, branch| set.forward(branch, scratch));
        let (uses, sets) = (self.uses.pointer, self.sets.pointer);
        let all_copies = u32::from(readers == MixOutput::AllCopies);
        // SAFETY: `Mix::new` checked that the sets in the tables are inside their tensors, and the
        // scratch memory has the size from `new`.
        unsafe {
            for (kernel, (pieces, count)) in
                ["mix_scatter", "mix_scatter_strips"].into_iter().zip(&self.scatter)
            {
                launch!(
                    gpu.kernels,
                    kernel,
                    Grid::each(*count),
                    pieces.pointer,
                    uses,
                    self.first_use.pointer,
                    sets,
                    all_copies,
                    parameters.main,
                    parameters.narrow,
                    scratch,
                );
            }
            launch!(
                gpu.kernels,
                "mix_direct",
                Grid::each(self.direct.1),
                self.direct.0.pointer,
                uses,
                self.first_use.pointer,
                sets,
                all_copies,
                parameters.main,
                parameters.narrow,
            );
        }
    }

    /// Runs the products of all sets, each on its branch.
    fn each(&self, context: &Context, scratch: u64, run: impl Fn(&Products, Branch<'_>)) {
        if self.products.is_empty() {
            return;
        }
        context.side_by_side(|streams| {
            for set in &self.products {
                let workspace = scratch + self.operand_bytes + set.branch as u64 * self.workspace;
                run(set, Branch { context, stream: streams[set.branch], workspace });
            }
        });
    }

    /// Copies coefficients and templates in the layout of the products.
    fn pack(&self, gpu: &Gpu, parameters: u64, scratch: u64) {
        let (pieces, grid) = (self.operands.0.pointer, Grid::each(self.operands.1));
        // SAFETY: as in `mix`.
        unsafe {
            launch!(gpu.kernels, "mix_pack", grid, pieces, self.sets.pointer, parameters, scratch)
        }
    }

    pub(in crate::cuda) fn backward(&self, gpu: &Gpu, storages: &Storages) {
        let parameters = storages[Space::Parameters as usize].base().main;
        let gradients = storages[Space::Gradients as usize].base();
        let scratch = storages[Space::Arena as usize].base().main;
        let partials = scratch + self.operand_bytes;
        let (uses, first_use, sets) =
            (self.uses.pointer, self.first_use.pointer, self.sets.pointer);
        // SAFETY: as in `mix`.
        unsafe {
            launch!(
                gpu.kernels,
                "mix_direct_backward",
                Grid::each(self.direct.1),
                self.direct.0.pointer,
                uses,
                first_use,
                sets,
                parameters,
                gradients.main,
                gradients.narrow,
                partials,
            );
            let warps = Grid::new([self.coefficients.1.div_ceil(8) as u32, 1, 1], [256, 1, 1]);
            let (table, count) = (self.coefficients.0.pointer, self.coefficients.1 as u32);
            launch!(gpu.kernels, "mix_coefficients", warps, table, count, partials, gradients.main);
            for (kernel, (pieces, count)) in
                ["mix_gather", "mix_gather_strips"].into_iter().zip(&self.gather)
            {
                launch!(
                    gpu.kernels,
                    kernel,
                    Grid::each(*count),
                    pieces.pointer,
                    uses,
                    first_use,
                    sets,
                    parameters,
                    gradients.main,
                    gradients.narrow,
                    scratch,
                );
            }
        }
        self.pack(gpu, parameters, scratch);
        self.each(&gpu.context, scratch, |set, branch| set.backward(branch, scratch));
        let (pieces, grid) = (self.operands.0.pointer, Grid::each(self.operands.1));
        // SAFETY: as in `mix`.
        unsafe { launch!(gpu.kernels, "mix_unpack", grid, pieces, sets, gradients.main, scratch) }
        if let Some(factors) = &self.factors {
            factors.backward(gpu, parameters, gradients.main);
        }
    }
}

fn is_direct(set: &MixSet) -> bool {
    let most = if set.block.len() >= PIECE { CELLS } else { FEW };
    set.coefficients.is_none() || (set.count() <= DIRECT && set.cells().max(set.uses.len()) <= most)
}

/// Returns true if the set can be copied in strips: short rows in whole runs, and tensors of one
/// width.
fn in_strips(set: &MixSet, precision: Precision) -> bool {
    let whole = |used: &MixUse| {
        [used.inputs, used.at[1], used.extent[1]].iter().all(|n| n.is_multiple_of(EACH))
            && (precision == Precision::F32 || used.tensor.element == Element::Weight)
    };
    let cols = set.block.cols;
    cols.is_multiple_of(EACH) && cols <= 2 * SIDE * EACH && set.uses.iter().all(whole)
}

fn pieces(of: usize, len: usize) -> Vec<Piece> {
    (0..len).step_by(PIECE).map(|first| Piece { of: of as u32, first: first as u32 }).collect()
}
