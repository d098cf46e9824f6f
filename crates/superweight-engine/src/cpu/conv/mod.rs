//! Convolution on the CPU: planned once per geometry, then called forward and backward.
//!
//! | file | computes | chosen for |
//! |---|---|---|
//! | `winograd` | y, dx, dw | 3×3 with stride 1, one group, enough tiles to pay for the transforms |
//! | `depthwise` | y, dx, dw | one channel per group |
//! | `fold` | y, dw | at most 4 input channels, then as below |
//! | `gather` | y, dx | everything else: strides, 1×1, groups, small batches |
//! | `outer` | dw | likewise |
//! | `reference` | y, dx, dw | tests; kernels of more than 64 taps a side |
//!
//! `gather` and `winograd` end in the same register tile (`tile`), `gather` and `depthwise` walk the same
//! `lattice` of pixels, `outer` walks `stretch`es.
//!
//! A plan depends on the geometry and the instruction set, never on the number of threads, and neither do the
//! results: tasks are fixed and partial sums are added in a fixed order. Nothing is allocated in a call;
//! scratch is the caller's and its contents do not matter.

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

/// How to convolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The fastest by measurement.
    Fastest,
    /// Register tiles over the operands as they lie, no transforms.
    Direct,
    /// F(4×4, 3×3) where it applies (3×3, stride 1, one group), else direct.
    Winograd,
    /// The definition, in f64. Allocates.
    Reference,
}

/// One convolution, planned.
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
    /// `None`: by the definition.
    plan: Option<Plan>,
}

#[derive(Clone, Debug)]
struct Plan {
    forward: Product,
    /// One for each residue of a pixel modulo the stride.
    backward_data: Vec<Product>,
    backward_weight: WeightGradient,
}

/// dw from x and dy, by whichever algorithm.
#[derive(Clone, Debug)]
enum WeightGradient {
    Outer(Outer),
    Folded(Fold, Outer),
    Depthwise(DepthwiseWeight),
    Winograd(WinogradWeight),
}

impl Conv {
    /// The fastest algorithm for each direction.
    ///
    /// # Panics
    ///
    /// If the groups do not divide the channels or a dimension is zero.
    pub fn new(geometry: ConvGeometry) -> Self {
        Self::with_algorithm(geometry, Algorithm::Fastest)
    }

    /// One algorithm for all directions, where it applies.
    pub fn with_algorithm(geometry: ConvGeometry, algorithm: Algorithm) -> Self {
        Self::with_isa(geometry, algorithm, Isa::detect())
    }

    fn with_isa(geometry: ConvGeometry, algorithm: Algorithm, isa: Isa) -> Self {
        let g = &geometry;
        assert!(
            g.groups > 0
                && g.in_channels.is_multiple_of(g.groups)
                && g.out_channels.is_multiple_of(g.groups),
            "groups divide the channels"
        );
        assert!(
            g.input_len() > 0 && g.output_len() > 0 && g.weight_len() > 0,
            "an empty convolution"
        );
        assert!(g.stride[0] > 0 && g.stride[1] > 0, "a stride is at least one");
        let huge = g.kernel.iter().any(|&k| k > Lattice::MOST_TAPS);
        let plan =
            (!huge && algorithm != Algorithm::Reference).then(|| Plan::new(g, algorithm, isa));
        Self { geometry, plan }
    }

    /// What was planned for.
    pub fn geometry(&self) -> &ConvGeometry {
        &self.geometry
    }

    /// Scratch of [`forward`](Self::forward), in numbers.
    pub fn forward_scratch(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.forward.packed_len() + plan.forward.scratch())
    }

    /// Scratch of [`backward_data`](Self::backward_data), in numbers.
    pub fn backward_data_scratch(&self) -> usize {
        let products = self.plan.iter().flat_map(|plan| &plan.backward_data);
        products.map(|product| product.packed_len() + product.scratch()).max().unwrap_or(0)
    }

    /// Scratch of [`backward_weight`](Self::backward_weight), in numbers.
    pub fn backward_weight_scratch(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.backward_weight.scratch())
    }

    /// Numbers of a weight packed for [`forward_packed`](Self::forward_packed).
    pub fn packed_len(&self) -> usize {
        self.plan.as_ref().map_or(self.geometry.weight_len(), |plan| plan.forward.packed_len())
    }

    /// y from x and w.
    ///
    /// # Panics
    ///
    /// If a slice does not have the geometry's length or the scratch is too short; so do the others.
    pub fn forward(&self, x: &[f32], w: &[f32], y: &mut [f32], write: Write, scratch: &mut [f32]) {
        self.check(x, w, y);
        check_scratch(scratch, self.forward_scratch());
        match &self.plan {
            None => reference::forward(&self.geometry, x, w, y, write),
            Some(plan) => pack_and_run(&plan.forward, x, w, y, write, scratch),
        }
    }

    /// Packs a weight that will be used many times, as in inference. Scratch as for [`forward`](Self::forward).
    pub fn pack_forward(&self, w: &[f32], packed: &mut [f32], scratch: &mut [f32]) {
        assert_eq!(w.len(), self.geometry.weight_len(), "weight of {:?}", self.geometry);
        assert_eq!(packed.len(), self.packed_len(), "packed weight of {:?}", self.geometry);
        check_scratch(scratch, self.forward_scratch());
        match &self.plan {
            None => packed.copy_from_slice(w),
            Some(plan) => plan.forward.pack(w, packed, scratch),
        }
    }

    /// y from x and a packed w; the same bits as [`forward`](Self::forward).
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

    /// dx from dy and w.
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

    /// dw from x and dy.
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
        "scratch of {} numbers where {needed} are needed",
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
