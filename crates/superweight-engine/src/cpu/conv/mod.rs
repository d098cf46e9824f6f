//! Convolution on the CPU: planned once per geometry, then called forward and backward.
//!
//! | file | computes | used for |
//! |---|---|---|
//! | `gather` | y, dx | everything dense or grouped that is not below |
//! | `outer` | dw | everything dense or grouped that is not below |
//! | `depthwise` | y, dx, dw | one channel per group |
//! | `reference` | y, dx, dw | tests; kernels past 64 taps a side |
//!
//! A plan depends on the geometry and the instruction set, never on the number of threads, and neither do the
//! results: tasks are fixed and partial sums are added in a fixed order. Nothing is allocated in a call;
//! scratch is the caller's and its contents do not matter.

mod depthwise;
mod gather;
mod lattice;
mod outer;
mod reference;
mod tile;
mod winograd;

#[cfg(test)]
mod tests;

use crate::cpu::simd::Isa;
use crate::geometry::ConvGeometry;
use depthwise::{Depthwise, DepthwiseWeight};
use gather::Gather;
use lattice::Lattice;
use outer::Outer;
use winograd::{Winograd, WinogradWeight};

/// What happens to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It is overwritten.
    Set,
    /// The result is added to it.
    Add,
}

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
    forward: Forward,
    backward_data: BackwardData,
    backward_weight: BackwardWeight,
}

#[derive(Clone, Debug)]
enum Forward {
    Reference,
    Gather(Gather),
    Depthwise(Depthwise),
    Winograd(Winograd),
}

#[derive(Clone, Debug)]
enum BackwardData {
    Reference,
    Gather(Vec<Gather>),
    Depthwise(Vec<Depthwise>),
    Winograd(Winograd),
}

#[derive(Clone, Debug)]
enum BackwardWeight {
    Reference,
    Outer(Outer),
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
            g.groups > 0 && g.in_channels.is_multiple_of(g.groups) && g.out_channels.is_multiple_of(g.groups),
            "groups divide the channels"
        );
        assert!(g.input_len() > 0 && g.output_len() > 0 && g.weight_len() > 0, "an empty convolution");
        assert!(g.stride[0] > 0 && g.stride[1] > 0, "a stride is at least one");
        let huge = g.kernel.iter().any(|&k| k > Lattice::MOST_TAPS);
        if huge || algorithm == Algorithm::Reference {
            let forward = Forward::Reference;
            let backward_data = BackwardData::Reference;
            let backward_weight = BackwardWeight::Reference;
            return Self { geometry, forward, backward_data, backward_weight };
        }
        if algorithm != Algorithm::Direct && g.groups == g.in_channels && g.groups == g.out_channels {
            let forward = Forward::Depthwise(Depthwise::forward(g, isa));
            let backward_data = BackwardData::Depthwise(Depthwise::backward(g, isa));
            let backward_weight = BackwardWeight::Depthwise(DepthwiseWeight::new(g, isa));
            return Self { geometry, forward, backward_data, backward_weight };
        }
        let [product, weight] = match algorithm {
            Algorithm::Winograd => [Winograd::applies(g); 2],
            Algorithm::Fastest => [Winograd::wins(g), WinogradWeight::wins(g)],
            _ => [false; 2],
        };
        let (forward, backward_data) = if product {
            let forward = Forward::Winograd(Winograd::forward(g, isa));
            (forward, BackwardData::Winograd(Winograd::backward(g, isa)))
        } else {
            let forward = Forward::Gather(Gather::forward(g, isa));
            (forward, BackwardData::Gather(Gather::backward(g, isa)))
        };
        let backward_weight = if weight {
            BackwardWeight::Winograd(WinogradWeight::new(g, isa))
        } else {
            BackwardWeight::Outer(Outer::new(g, isa))
        };
        Self { geometry, forward, backward_data, backward_weight }
    }

    /// What was planned for.
    pub fn geometry(&self) -> &ConvGeometry {
        &self.geometry
    }

    /// Scratch of [`forward`](Self::forward), in numbers.
    pub fn forward_scratch(&self) -> usize {
        match &self.forward {
            Forward::Reference => 0,
            Forward::Gather(gather) => gather.packed_len() + gather.zeros_len(),
            Forward::Depthwise(depthwise) => depthwise.scratch(),
            Forward::Winograd(winograd) => {
                winograd.packed_len() + winograd.run_scratch().max(winograd.pack_scratch())
            }
        }
    }

    /// Scratch of [`backward_data`](Self::backward_data), in numbers.
    pub fn backward_data_scratch(&self) -> usize {
        match &self.backward_data {
            BackwardData::Reference => 0,
            BackwardData::Depthwise(depthwise) => depthwise.iter().map(Depthwise::scratch).max().unwrap_or(0),
            BackwardData::Gather(gathers) => {
                gathers.iter().map(|g| g.packed_len() + g.zeros_len()).max().unwrap_or(0)
            }
            BackwardData::Winograd(winograd) => {
                winograd.packed_len() + winograd.run_scratch().max(winograd.pack_scratch())
            }
        }
    }

    /// Scratch of [`backward_weight`](Self::backward_weight), in numbers.
    pub fn backward_weight_scratch(&self) -> usize {
        match &self.backward_weight {
            BackwardWeight::Reference => 0,
            BackwardWeight::Outer(outer) => outer.scratch(),
            BackwardWeight::Depthwise(depthwise) => depthwise.scratch(),
            BackwardWeight::Winograd(winograd) => winograd.scratch(),
        }
    }

    /// y from x and w.
    pub fn forward(&self, x: &[f32], w: &[f32], y: &mut [f32], write: Write, scratch: &mut [f32]) {
        self.check(x, w, y);
        check_scratch(scratch, self.forward_scratch());
        match &self.forward {
            Forward::Reference => reference::forward(&self.geometry, x, w, y, write),
            Forward::Depthwise(depthwise) => depthwise.run(x, w, y, write, scratch),
            Forward::Gather(gather) => pack_and_run(gather, x, w, y, write, scratch),
            Forward::Winograd(winograd) => {
                let (packed, scratch) = scratch.split_at_mut(winograd.packed_len());
                winograd.pack(w, packed, scratch);
                winograd.run(x, packed, y, write, scratch);
            }
        }
    }

    /// dx from dy and w.
    pub fn backward_data(&self, dy: &[f32], w: &[f32], dx: &mut [f32], write: Write, scratch: &mut [f32]) {
        self.check(dx, w, dy);
        check_scratch(scratch, self.backward_data_scratch());
        match &self.backward_data {
            BackwardData::Reference => reference::backward_data(&self.geometry, dy, w, dx, write),
            BackwardData::Depthwise(depthwise) => {
                depthwise.iter().for_each(|depthwise| depthwise.run(dy, w, dx, write, scratch));
            }
            BackwardData::Gather(gathers) => {
                for gather in gathers {
                    pack_and_run(gather, dy, w, dx, write, scratch);
                }
            }
            BackwardData::Winograd(winograd) => {
                let (packed, scratch) = scratch.split_at_mut(winograd.packed_len());
                winograd.pack(w, packed, scratch);
                winograd.run(dy, packed, dx, write, scratch);
            }
        }
    }

    /// dw from x and dy.
    pub fn backward_weight(&self, x: &[f32], dy: &[f32], dw: &mut [f32], write: Write, scratch: &mut [f32]) {
        self.check(x, dw, dy);
        check_scratch(scratch, self.backward_weight_scratch());
        match &self.backward_weight {
            BackwardWeight::Reference => reference::backward_weight(&self.geometry, x, dy, dw, write),
            BackwardWeight::Outer(outer) => outer.run(x, dy, dw, write, scratch),
            BackwardWeight::Depthwise(depthwise) => depthwise.run(x, dy, dw, write, scratch),
            BackwardWeight::Winograd(winograd) => winograd.run(x, dy, dw, write, scratch),
        }
    }

    fn check(&self, x: &[f32], w: &[f32], y: &[f32]) {
        let g = &self.geometry;
        assert_eq!(x.len(), g.input_len(), "input of {g:?}");
        assert_eq!(w.len(), g.weight_len(), "weight of {g:?}");
        assert_eq!(y.len(), g.output_len(), "output of {g:?}");
    }
}

fn check_scratch(scratch: &[f32], needed: usize) {
    assert!(scratch.len() >= needed, "scratch of {} numbers where {needed} are needed", scratch.len());
}

fn pack_and_run(gather: &Gather, src: &[f32], w: &[f32], dst: &mut [f32], write: Write, scratch: &mut [f32]) {
    let (packed, zeros) = scratch.split_at_mut(gather.packed_len());
    let zeros = &mut zeros[..gather.zeros_len()];
    gather.pack(w, packed);
    zeros.fill(0.0);
    gather.run(src, packed, zeros, dst, write);
}
