//! Buffers: what a kernel call names, and where it lies.
//!
//! A device has five storages ([`Space`]). A buffer is a stretch of one of them. Offsets in the arena and in the
//! input/output storage are bytes, because numbers of different width lie there together; offsets in the other three
//! are numbers, because a device may keep them in more than one precision at once.

/// Alignment of everything the engine places, in bytes.
pub(crate) const ALIGNMENT: usize = 256;

/// A buffer of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub(crate) usize);

/// What a number is used for, which decides its width on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// An activation or its gradient.
    Activation,
    /// A weight or its gradient.
    Weight,
    /// Always a 32-bit float: statistics, losses, vectors.
    Float,
    /// An unsigned 32-bit integer: classes, positions, counts.
    Index,
}

/// The storages of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Activations, their gradients, scratch: laid out by the memory plan, shared by all programs.
    Arena,
    /// Inputs, targets, outputs, losses.
    Io,
    /// Weights and other trainable tensors.
    Parameters,
    /// Their gradients, at the same offsets.
    Gradients,
    /// Running statistics.
    State,
}

impl Space {
    /// All of them, in the order of their indices.
    pub const ALL: [Space; 5] =
        [Space::Arena, Space::Io, Space::Parameters, Space::Gradients, Space::State];

    /// The storage in words.
    pub fn name(self) -> &'static str {
        match self {
            Space::Arena => "arena",
            Space::Io => "input/output",
            Space::Parameters => "parameter",
            Space::Gradients => "gradient",
            Space::State => "statistic",
        }
    }
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The storage.
    pub space: Space,
    /// Bytes from its start (arena, input/output), or numbers (the others).
    pub offset: usize,
    /// Numbers.
    pub len: usize,
    /// Kind of number.
    pub element: Element,
}

/// How a call touches an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Overwrites all of it without reading.
    Write,
    /// Reads and changes it.
    Update,
}

/// Whether a kernel replaces what lies at its destination or adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Replace.
    Set,
    /// Add.
    Add,
}

impl Write {
    /// How the destination is touched.
    pub(crate) fn access(self) -> Access {
        match self {
            Write::Set => Access::Write,
            Write::Add => Access::Update,
        }
    }
}

/// Where the gradient of an elementwise operation's input goes.
#[derive(Clone, Copy, Debug)]
pub enum InputGradient {
    /// Over the gradient of the output.
    InPlace,
    /// To another buffer.
    To(BufferId, Write),
}

/// The control words: small integers that change from run to run without a new program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Rows of each segment that count in losses and metrics; the rest is padding.
    ValidRows = 0,
    /// Which batch of a recalibration pass this is, from 1.
    BatchOfPass = 1,
}

/// Numbers in the metrics of a loss.
pub(crate) const METRICS_LEN: usize = 4;
