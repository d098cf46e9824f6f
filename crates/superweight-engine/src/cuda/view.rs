//! A program's buffers as pointers of the GPU, and the calls that need no file of their own.

use std::sync::Arc;

use cudarc::driver::result;

use super::buffer::{Allocation, Base, Place, fill};
use super::context::Context;
use super::error::{CudaError, Named};
use super::launch::{Grid, Kernels, launch};
use super::{CudaDevice, Packed, Storages};
use crate::ops::Write;
use crate::ops::activation::{self, Activation};
use crate::ops::add::{Copy, Fill, Sum};
use crate::ops::conv::Epilogue;
use crate::ops::{concat, external, linear};
use crate::program::{BufferId, InputGradient, Program, Region, Space};

/// Where the buffers of a program lie.
///
/// # Safety of launches
///
/// `Program::compile` checked that every buffer lies in its storage as the memory plan sized it, `Memory::run` that the
/// storages are those of the program's layout. Kernels are told the sizes that the call was made with. So every pointer
/// below is good for the length given with it.
pub(super) struct View<'a> {
    pub context: &'a Arc<Context>,
    pub kernels: &'a Kernels,
    program: &'a Program<CudaDevice>,
    bases: [Base; 5],
    packed: Option<&'a Packed>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        device: &'a CudaDevice,
        program: &'a Program<CudaDevice>,
        storages: &Storages<CudaDevice>,
        packed: Option<&'a Packed>,
    ) -> Self {
        let bases = Space::ALL.map(|space| storages[space as usize].base());
        Self { context: &device.context, kernels: &device.kernels, program, bases, packed }
    }

    pub(super) fn region(&self, buffer: BufferId) -> Region {
        self.program.region(buffer)
    }

    pub(super) fn len(&self, buffer: BufferId) -> usize {
        self.region(buffer).len
    }

    pub(super) fn place(&self, buffer: BufferId) -> Place {
        let region = self.region(buffer);
        Place::of(self.context, self.bases[region.space as usize], region)
    }

    pub(super) fn at(&self, buffer: BufferId) -> u64 {
        self.place(buffer).pointer
    }

    /// Whether two buffers have bytes in common.
    pub(super) fn overlap(&self, a: BufferId, b: BufferId) -> bool {
        let bytes = |buffer| {
            let place = self.place(buffer);
            (place.pointer, place.pointer + (self.len(buffer) * place.bytes) as u64)
        };
        let ((a, a_end), (b, b_end)) = (bytes(a), bytes(b));
        a < b_end && b < a_end
    }

    /// A frozen weight of a step.
    pub(super) fn frozen(&self, step: usize) -> Option<u64> {
        self.packed.and_then(|packed| packed.0[step].as_ref()).map(|copy| copy.pointer)
    }

    /// The numbers of a buffer as they are now, elsewhere.
    pub(super) fn copy_of(&self, buffer: BufferId) -> Result<Allocation, CudaError> {
        let place = self.place(buffer);
        let copy =
            Allocation::zeros(self.context, "frozen weights", self.len(buffer) * place.bytes)?;
        // SAFETY: see the type; the copy has the same size.
        let copied = unsafe {
            let stream = self.context.raw_stream();
            result::memcpy_dtod_async(copy.pointer, place.pointer, copy.bytes(), stream)
        };
        copied.named("copying weights").map(|()| copy)
    }

    /// A pointer, or null.
    pub(super) fn at_some(&self, buffer: Option<BufferId>) -> u64 {
        buffer.map_or(0, |buffer| self.at(buffer))
    }
}

/// Numbers that a thread takes at once, where channels allow it.
pub(super) fn vector(context: &Context) -> usize {
    16 / context.precision.bytes()
}

/// `name_v` where all of these are multiples of a vector, else `name_1`; and the numbers per thread.
pub(super) fn variant(
    context: &Context,
    names: [&'static str; 2],
    multiples: &[usize],
) -> (&'static str, usize) {
    let width = vector(context);
    match multiples.iter().all(|n| n.is_multiple_of(width)) {
        true => (names[0], width),
        false => (names[1], 1),
    }
}

pub(super) fn adds(write: Write) -> i32 {
    i32::from(write == Write::Add)
}

fn bounds(activation: Activation) -> (f32, f32) {
    activation.bounds()
}

pub(super) fn sum(call: &Sum, v: &View<'_>) {
    let (n, (low, high)) = (v.len(call.y), bounds(call.activation));
    let (lhs, rhs, y) = (v.at(call.lhs.unwrap_or(call.y)), v.at(call.rhs), v.at(call.y));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "sum", grid, lhs, rhs, y, n as u64, low, high) }
}

pub(super) fn copy(call: &Copy, v: &View<'_>) {
    let (from, to) = (v.place(call.x), v.place(call.y));
    assert_eq!(from.bytes, to.bytes, "numbers of one kind are copied");
    let bytes = v.len(call.y) * to.bytes;
    // SAFETY: see `View`; the buffers do not overlap.
    let copied = unsafe {
        result::memcpy_dtod_async(to.pointer, from.pointer, bytes, v.context.raw_stream())
    };
    v.context.note(copied.named("copying on the GPU"));
}

pub(super) fn zero(call: &Fill, v: &View<'_>) {
    let place = v.place(call.y);
    v.context.note(fill(v.context, place.pointer, v.len(call.y) * place.bytes));
}

pub(super) fn activation_forward(call: &activation::Forward, v: &View<'_>) {
    let (n, (low, high)) = (v.len(call.y), bounds(call.activation));
    let (x, y) = (v.at(call.x.unwrap_or(call.y)), v.at(call.y));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "activation_forward", grid, x, y, n as u64, low, high) }
}

pub(super) fn activation_backward(call: &activation::Backward, v: &View<'_>) {
    let (n, (low, high)) = (v.len(call.y), bounds(call.activation));
    let (dx, add) = match call.dx {
        InputGradient::InPlace => (call.dy, 0),
        InputGradient::To(dx, write) => (dx, adds(write)),
    };
    let (y, dy, dx) = (v.at(call.y), v.at(call.dy), v.at(dx));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "activation_backward", grid, y, dy, dx, n as u64, low, high, add) }
}

pub(super) fn external(call: &external::Call, v: &View<'_>) {
    let (n, add) = (v.len(call.dx), adds(call.write));
    let (x, dx) = (v.at(call.x), v.at(call.dx));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "scaled", grid, x, dx, n as u64, call.weight, add) }
}

pub(super) fn concat_forward(call: &concat::Forward, v: &View<'_>) {
    columns(call.columns, v.at(call.x), v.at(call.y), v.len(call.x), 1, 0, v);
}

pub(super) fn concat_backward(call: &concat::Backward, v: &View<'_>) {
    columns(call.columns, v.at(call.dy), v.at(call.dx), v.len(call.dx), 0, adds(call.write), v);
}

fn columns(
    columns: concat::Columns,
    from: u64,
    to: u64,
    narrow: usize,
    widen: i32,
    add: i32,
    v: &View<'_>,
) {
    let concat::Columns { start, width, of } = columns;
    let (name, each) = variant(v.context, ["columns_v", "columns_1"], &[start, width, of]);
    let rows = (narrow / width) as u64;
    let grid = v.kernels.flat(narrow / each);
    let (start, width, of) = (start as u32, width as u32, of as u32);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, name, grid, from, to, rows, start, width, of, widen, add) }
}

pub(super) fn bias_forward(call: &linear::BiasForward, v: &View<'_>) {
    let n = v.len(call.y);
    let (bias, y) = (v.at(call.bias), v.at(call.y));
    let grid = v.kernels.flat(n);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "bias_forward", grid, bias, y, n as u64, call.channels as u32) }
}

/// `y = act(y + bias)` over all pixels.
pub(super) fn finish(epilogue: &Epilogue, y: BufferId, v: &View<'_>) {
    let (n, (low, high)) = (v.len(y), bounds(epilogue.activation));
    let (channels, bias, y) = (v.len(epilogue.bias), v.at(epilogue.bias), v.at(y));
    let (name, each) = variant(v.context, ["finish_v", "finish_1"], &[channels]);
    let grid = v.kernels.flat(n / each);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, name, grid, bias, y, n as u64, channels as u32, low, high) }
}

pub(super) fn bias_backward(call: &linear::BiasBackward, v: &View<'_>) {
    let rows = v.len(call.dy) / call.channels;
    let (dy, dbias, add) = (v.at(call.dy), v.at(call.dbias), adds(call.write));
    let grid = Grid::new([call.channels.div_ceil(32) as u32, 1, 1], [32, 8, 1]);
    let channels = call.channels as u32;
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "bias_backward", grid, dy, dbias, rows as u32, channels, add) }
}
