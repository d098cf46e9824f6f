//! Convolution on the CPU. A [`Conv`] is planned once per geometry and then run forward and
//! backward.
//!
//! | file | computes | used for |
//! |---|---|---|
//! | `winograd` | y, dx, dw | 3×3 with stride 1, one group, enough tiles to pay for the transforms |
//! | `depthwise` | y, dx, dw | one channel per group |
//! | `fold` | y, dw | at most 4 input channels, then as below |
//! | `gather` | y, dx | everything else: strides, 1×1, groups, small batches |
//! | `outer` | dw | everything else |
//! | `reference` | y, dx, dw | tests; kernels of more than 64 taps per side |
//!
//! `gather` and `winograd` share the register tile (`tile`). `gather` and `depthwise` share the
//! pixel `lattice`. `outer` walks `stretch`es of pixels.
//!
//! A plan depends on the geometry and the instruction set, never on the number of threads. Results
//! do not depend on it either: tasks are fixed and partial sums are added in a fixed order. A call
//! allocates nothing; the caller provides scratch memory with any contents.

mod depthwise;
mod fold;
mod gather;
mod lattice;
mod outer;
mod product;
pub(crate) mod reference;
mod stretch;
mod tile;
mod winograd;

#[cfg(test)]
mod tests;

pub use crate::device::buffer::Write;

use crate::cpu::simd::Isa;
use crate::geometry::ConvGeometry;
use depthwise::{Depthwise, DepthwiseWeight};
use fold::Fold;
use gather::Gather;
use lattice::Lattice;
use outer::Outer;
use product::Product;
use winograd::{Winograd, WinogradWeight};

/// Choice of convolution algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The fastest algorithm by measurement.
    Fastest,
    /// Register tiles over the unchanged operands, without transforms.
    Direct,
    /// F(4×4, 3×3) where it applies (3×3, stride 1, one group), otherwise direct.
    Winograd,
    /// The definition, in f64. It allocates memory.
    Reference,
}

/// A planned convolution.
///
/// ```
/// use superweight_engine::cpu::conv::{Conv, Write};
/// use superweight_engine::geometry::ConvGeometry;
///
/// let conv = Conv::new(ConvGeometry {
///     batch: 1, input: [3, 3], in_channels: 1, out_channels: 1,
///     kernel: [3, 3], stride: [1, 1], padding: [1, 1], groups: 1,
/// });
/// let (x, w, mut y) = ([1.0; 9], [1.0; 9], [0.0; 9]);
/// let mut scratch = vec![0.0; conv.forward_scratch()];
/// conv.forward(&x, &w, &mut y, Write::Set, &mut scratch);
/// assert_eq!(y, [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Conv {
    geometry: ConvGeometry,
    /// `None` computes the definition.
    plan: Option<Plan>,
}

#[derive(Clone, Debug)]
struct Plan {
    forward: Product,
    /// One product per residue of a pixel modulo the stride.
    backward_data: Vec<Product>,
    backward_weight: WeightGradient,
}

/// Computes dw from x and dy with one of the algorithms.
#[derive(Clone, Debug)]
enum WeightGradient {
    Outer(Outer),
    Folded(Fold, Outer),
    Depthwise(DepthwiseWeight),
    Winograd(WinogradWeight),
}

impl Conv {
    /// Plans the fastest algorithm for each direction.
    ///
    /// # Panics
    ///
    /// If the groups do not divide the channels or a dimension is zero.
    pub fn new(geometry: ConvGeometry) -> Self {
        Self::with_algorithm(geometry, Algorithm::Fastest)
    }

    /// Plans one algorithm for all directions, where it applies.
    pub fn with_algorithm(geometry: ConvGeometry, algorithm: Algorithm) -> Self {
        Self::with_isa(geometry, algorithm, Isa::detect())
    }

    fn with_isa(geometry: ConvGeometry, algorithm: Algorithm, isa: Isa) -> Self {
        let g = &geometry;
        assert!(
            g.groups > 0
                && g.in_channels.is_multiple_of(g.groups)
                && g.out_channels.is_multiple_of(g.groups),
            "groups must divide the channels"
        );
        assert!(
            g.input_len() > 0 && g.output_len() > 0 && g.weight_len() > 0,
            "a convolution must not be empty"
        );
        assert!(g.stride[0] > 0 && g.stride[1] > 0, "a stride must be at least one");
        let huge = g.kernel.iter().any(|&k| k > Lattice::MOST_TAPS);
        let plan =
            (!huge && algorithm != Algorithm::Reference).then(|| Plan::new(g, algorithm, isa));
        Self { geometry, plan }
    }

    /// Geometry that the convolution was planned for.
    pub fn geometry(&self) -> &ConvGeometry {
        &self.geometry
    }

    /// Floats of scratch memory that [`forward`](Self::forward) needs.
    pub fn forward_scratch(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.forward.packed_len() + plan.forward.scratch())
    }

    /// Floats of scratch memory that [`backward_data`](Self::backward_data) needs.
    pub fn backward_data_scratch(&self) -> usize {
        let products = self.plan.iter().flat_map(|plan| &plan.backward_data);
        products.map(|product| product.packed_len() + product.scratch()).max().unwrap_or(0)
    }

    /// Floats of scratch memory that [`backward_weight`](Self::backward_weight) needs.
    pub fn backward_weight_scratch(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.backward_weight.scratch())
    }

    /// Number of floats of a weight packed for [`forward_packed`](Self::forward_packed).
    pub fn packed_len(&self) -> usize {
        self.plan.as_ref().map_or(self.geometry.weight_len(), |plan| plan.forward.packed_len())
    }

    /// Computes y from x and w.
    ///
    /// # Panics
    ///
    /// If a slice does not have the geometry's length or the scratch memory is too short. The other
    /// methods panic likewise.
    pub fn forward(&self, x: &[f32], w: &[f32], y: &mut [f32], write: Write, scratch: &mut [f32]) {
        self.check(x, w, y);
        check_scratch(scratch, self.forward_scratch());
        match &self.plan {
            None => reference::forward(&self.geometry, x, w, y, write),
            Some(plan) => pack_and_run(&plan.forward, x, w, y, write, scratch),
        }
    }

    /// Packs a weight that is used many times, as in inference. Needs the scratch memory of
    /// [`forward`](Self::forward).
    pub fn pack_forward(&self, w: &[f32], packed: &mut [f32], scratch: &mut [f32]) {
        assert_eq!(w.len(), self.geometry.weight_len(), "weight of {:?}", self.geometry);
        assert_eq!(packed.len(), self.packed_len(), "packed weight of {:?}", self.geometry);
        check_scratch(scratch, self.forward_scratch());
        match &self.plan {
            None => packed.copy_from_slice(w),
            Some(plan) => plan.forward.pack(w, packed, scratch),
        }
    }

    /// Computes y from x and a packed w, with the same bits as [`forward`](Self::forward).
    pub fn forward_packed(
        &self,
        x: &[f32],
        packed: &[f32],
        y: &mut [f32],
        write: Write,
        scratch: &mut [f32],
    ) {
        let g = &self.geometry;
        assert_eq!(
            (x.len(), y.len()),
            (g.input_len(), g.output_len()),
            "input and output of {g:?}"
        );
        assert_eq!(packed.len(), self.packed_len(), "packed weight of {g:?}");
        check_scratch(scratch, self.forward_scratch());
        match &self.plan {
            None => reference::forward(g, x, packed, y, write),
            Some(plan) => plan.forward.run(x, packed, y, write, scratch),
        }
    }

    /// Computes dx from dy and w.
    pub fn backward_data(
        &self,
        dy: &[f32],
        w: &[f32],
        dx: &mut [f32],
        write: Write,
        scratch: &mut [f32],
    ) {
        self.check(dx, w, dy);
        check_scratch(scratch, self.backward_data_scratch());
        match &self.plan {
            None => reference::backward_data(&self.geometry, dy, w, dx, write),
            Some(plan) => {
                for product in &plan.backward_data {
                    pack_and_run(product, dy, w, dx, write, scratch);
                }
            }
        }
    }

    /// Computes dw from x and dy.
    pub fn backward_weight(
        &self,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        write: Write,
        scratch: &mut [f32],
    ) {
        self.check(x, dw, dy);
        check_scratch(scratch, self.backward_weight_scratch());
        match &self.plan {
            None => reference::backward_weight(&self.geometry, x, dy, dw, write),
            Some(plan) => plan.backward_weight.run(x, dy, dw, write, scratch),
        }
    }

    fn check(&self, x: &[f32], w: &[f32], y: &[f32]) {
        let g = &self.geometry;
        assert_eq!(x.len(), g.input_len(), "input of {g:?}");
        assert_eq!(w.len(), g.weight_len(), "weight of {g:?}");
        assert_eq!(y.len(), g.output_len(), "output of {g:?}");
    }
}

impl Plan {
    fn new(g: &ConvGeometry, algorithm: Algorithm, isa: Isa) -> Self {
        let depthwise = g.groups == g.in_channels && g.groups == g.out_channels;
        let [winograd, winograd_weight] = match algorithm {
            Algorithm::Winograd => [Winograd::applies(g); 2],
            Algorithm::Fastest => [Winograd::wins(g), WinogradWeight::wins(g)],
            _ => [false; 2],
        };
        let fold = Fold::of(g).filter(|_| algorithm == Algorithm::Fastest);
        let forward = if depthwise {
            Product::Depthwise(Depthwise::forward(g, isa))
        } else if let Some(fold) = &fold {
            Product::Folded(fold.clone(), Gather::folded(fold, isa))
        } else if winograd {
            Product::Winograd(Winograd::forward(g, isa))
        } else {
            Product::Gather(Gather::forward(g, isa))
        };
        let backward_data = if depthwise {
            Depthwise::backward(g, isa).into_iter().map(Product::Depthwise).collect()
        } else if winograd {
            vec![Product::Winograd(Winograd::backward(g, isa))]
        } else {
            Gather::backward(g, isa).into_iter().map(Product::Gather).collect()
        };
        let backward_weight = if depthwise {
            WeightGradient::Depthwise(DepthwiseWeight::new(g, isa))
        } else if let Some(fold) = fold {
            let outer = Outer::folded(&fold, isa);
            WeightGradient::Folded(fold, outer)
        } else if winograd_weight {
            WeightGradient::Winograd(WinogradWeight::new(g, isa))
        } else {
            WeightGradient::Outer(Outer::new(g, isa))
        };
        Self { forward, backward_data, backward_weight }
    }
}

impl WeightGradient {
    fn scratch(&self) -> usize {
        match self {
            Self::Outer(outer) => outer.scratch(),
            Self::Folded(fold, outer) => fold.len() + outer.scratch(),
            Self::Depthwise(depthwise) => depthwise.scratch(),
            Self::Winograd(winograd) => winograd.scratch(),
        }
    }

    fn run(&self, x: &[f32], dy: &[f32], dw: &mut [f32], write: Write, scratch: &mut [f32]) {
        match self {
            Self::Outer(outer) => outer.run(x, dy, dw, write, scratch),
            Self::Folded(fold, outer) => {
                let (copy, scratch) = scratch.split_at_mut(fold.len());
                fold.copy(x, copy);
                outer.run(copy, dy, dw, write, scratch);
            }
            Self::Depthwise(depthwise) => depthwise.run(x, dy, dw, write, scratch),
            Self::Winograd(winograd) => winograd.run(x, dy, dw, write, scratch),
        }
    }
}

fn check_scratch(scratch: &[f32], needed: usize) {
    assert!(
        scratch.len() >= needed,
        "scratch of {} floats where {needed} are needed",
        scratch.len()
    );
}

fn pack_and_run(
    product: &Product,
    src: &[f32],
    w: &[f32],
    dst: &mut [f32],
    write: Write,
    scratch: &mut [f32],
) {
    let (packed, scratch) = scratch.split_at_mut(product.packed_len());
    product.pack(w, packed, scratch);
    product.run(src, packed, dst, write, scratch);
}
