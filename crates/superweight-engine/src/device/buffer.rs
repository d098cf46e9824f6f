//! Storages of a device, and buffers: the regions of them that kernel calls name.
//!
//! A device has five storages ([`Space`]). A buffer is a contiguous region of one of them. Offsets
//! in the arena and the input/output storage are in bytes, because elements of different width
//! share them. Offsets in the other three are in elements, because a device may store these in
//! several precisions.

/// Alignment of everything the engine places, in bytes.
pub(crate) const ALIGNMENT: usize = 256;

/// Identifies a buffer of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub(crate) usize);

/// Purpose of a value, which determines its width on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// An activation or its gradient.
    Activation,
    /// A weight or its gradient.
    Weight,
    /// A 32-bit float on every device: statistics, losses, vectors.
    Float,
    /// An unsigned 32-bit integer: classes, positions, counts.
    Index,
}

/// The storages of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Activations, their gradients and scratch memory. The memory plan places them; all programs
    /// share the arena.
    Arena,
    /// Inputs, targets, outputs and metrics.
    Io,
    /// Weights and other trainable tensors.
    Parameters,
    /// Gradients of the trainable tensors, at the same offsets as the parameters.
    Gradients,
    /// Running statistics.
    State,
}

impl Space {
    /// All storages in the order of their indices.
    pub const ALL: [Space; 5] =
        [Space::Arena, Space::Io, Space::Parameters, Space::Gradients, Space::State];

    /// Name of the storage in messages.
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

/// Location of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Storage that contains the region.
    pub space: Space,
    /// Start of the region: bytes in the arena and input/output storage, elements in the others.
    pub offset: usize,
    /// Number of elements.
    pub len: usize,
    /// Purpose of the elements.
    pub element: Element,
}

/// How a call accesses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The call only reads the operand.
    Read,
    /// The call overwrites the whole operand without reading it.
    Write,
    /// The call reads and modifies the operand.
    Update,
}

/// Whether a kernel overwrites its output or adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Overwrite the output.
    Set,
    /// Add to the output.
    Add,
}

impl Write {
    /// How the kernel accesses its output.
    pub(crate) fn access(self) -> Access {
        match self {
            Write::Set => Access::Write,
            Write::Add => Access::Update,
        }
    }
}

/// Where an elementwise operation writes the gradient of its input.
#[derive(Clone, Copy, Debug)]
pub enum InputGradient {
    /// Over the gradient of the output.
    InPlace,
    /// Into another buffer.
    To(BufferId, Write),
}

/// Control words: small integers in device memory that may change between runs of a compiled
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Number of valid rows per segment in losses and metrics. The remaining rows are padding.
    ValidRows = 0,
    /// Number of the batch within a recalibration pass, starting at 1.
    BatchOfPass = 1,
}

/// Number of values in the metrics of a loss.
pub(crate) const METRICS_LEN: usize = 4;
