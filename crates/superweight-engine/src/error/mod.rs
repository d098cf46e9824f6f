//! Errors of the engine.
//!
//! Every message names the node (or tensor) and the sizes involved. Broken invariants of the engine
//! itself are assertions, not variants of these types.

mod cuda;

pub use cuda::CudaError;

use crate::shape::Shape;

/// A failure caused by a graph description, a setting, or data given to the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A size that must be positive is zero.
    #[error("node `{node}`: {what} is zero")]
    Zero {
        /// Name of the node.
        node: String,
        /// Name of the size.
        what: &'static str,
    },
    /// A convolution or pooling window is larger than its padded input.
    #[error(
        "node `{node}`: a {}×{} window does not fit into the {input} input padded by {}×{}",
        kernel[0], kernel[1], padding[0], padding[1]
    )]
    KernelTooLarge {
        /// Name of the node.
        node: String,
        /// Window height and width.
        kernel: [usize; 2],
        /// Padding above and below, and left and right.
        padding: [usize; 2],
        /// Shape of the input.
        input: Shape,
    },
    /// Padding is more than half of a pooling window, so a window could cover padding only.
    #[error("node `{node}`: padding {}×{} is more than half of the {}×{} window", padding[0], padding[1], kernel[0], kernel[1])]
    PaddingTooLarge {
        /// Name of the node.
        node: String,
        /// Window height and width.
        kernel: [usize; 2],
        /// Padding above and below, and left and right.
        padding: [usize; 2],
    },
    /// The number of groups does not divide the input or output channels.
    #[error(
        "node `{node}`: {groups} groups do not divide {in_channels} input and {out_channels} output channels"
    )]
    Groups {
        /// Name of the node.
        node: String,
        /// Number of groups.
        groups: usize,
        /// Number of input channels.
        in_channels: usize,
        /// Number of output channels.
        out_channels: usize,
    },
    /// Two inputs of a node have incompatible shapes.
    #[error("node `{node}` ({op}): inputs of shape {lhs} and {rhs} do not match")]
    ShapeMismatch {
        /// Name of the node.
        node: String,
        /// Kind of operation.
        op: &'static str,
        /// Shape of the first input.
        lhs: Shape,
        /// Shape of the other input.
        rhs: Shape,
    },
    /// An operation on vectors received an image.
    #[error("node `{node}` ({op}): needs a 1×1 input, got {input}; pool it first")]
    NotAVector {
        /// Name of the node.
        node: String,
        /// Kind of operation.
        op: &'static str,
        /// Shape of the input.
        input: Shape,
    },
    /// A setting is outside its range.
    #[error("node `{node}`: {what} is {value}, which must be {expected}")]
    OutOfRange {
        /// Name of the node.
        node: String,
        /// Name of the setting.
        what: &'static str,
        /// Value of the setting.
        value: f32,
        /// Allowed range, in words.
        expected: &'static str,
    },
    /// An operation over several inputs received none.
    #[error("node `{node}` ({op}): no inputs")]
    NoInputs {
        /// Name of the node.
        node: String,
        /// Kind of operation.
        op: &'static str,
    },
    /// A node id belongs to another graph.
    #[error("node `{node}`: its input is not a node of this graph")]
    UnknownNode {
        /// Name of the node that uses the id.
        node: String,
    },
    /// Two nodes, tensors or outputs of one graph have the same name.
    #[error("the name `{name}` is used twice in graph `{graph}`")]
    DuplicateName {
        /// Name of the graph.
        graph: String,
        /// The repeated name.
        name: String,
    },
    /// An input of the graph was declared an output. Inputs are readable already.
    #[error("graph `{graph}`: `{name}` is an input; it cannot be an output")]
    InputAsOutput {
        /// Name of the graph.
        graph: String,
        /// Name of the output.
        name: String,
    },
    /// A graph has neither losses nor outputs, so it computes nothing.
    #[error("graph `{graph}` has neither a loss nor an output")]
    NothingToCompute {
        /// Name of the graph.
        graph: String,
    },
    /// A program has batch size zero.
    #[error("graph `{graph}`: the batch is zero")]
    EmptyBatch {
        /// Name of the graph.
        graph: String,
    },
    /// An activation is too large for any machine.
    #[error("node `{node}`: a batch of {batch} images of {shape} is too large to address")]
    TooLarge {
        /// Name of the node.
        node: String,
        /// Shape per image.
        shape: Shape,
        /// Batch size.
        batch: usize,
    },
    /// A weight is too large for any machine.
    #[error("tensor `{name}` of dimensions {dims:?} is too large to address")]
    TensorTooLarge {
        /// Name of the tensor.
        name: String,
        /// Dimensions of the tensor.
        dims: Vec<usize>,
    },
    /// A backward pass was requested for a graph without a loss or external gradient.
    #[error(
        "graph `{graph}` has no loss and no external gradient: there is nothing to run backward from"
    )]
    NoLoss {
        /// Name of the graph.
        graph: String,
    },
    /// A backward pass was requested through a convolution with a folded batch norm.
    #[error(
        "node `{node}` has a folded batch norm and cannot be trained: build the graph with the batch norm"
    )]
    ForwardOnly {
        /// Name of the node.
        node: String,
    },
    /// The batch does not split into equal segments.
    #[error("node `{node}`: a batch of {batch} does not split into {segments} equal segments")]
    Segments {
        /// Name of the node.
        node: String,
        /// Batch size.
        batch: usize,
        /// Number of segments.
        segments: usize,
    },
    /// A batch norm would compute a variance over a single value per channel.
    #[error(
        "node `{node}`: batch statistics over one value per channel ({input}, {rows} image per segment); a variance needs two: use larger images or a larger batch"
    )]
    OneValuePerChannel {
        /// Name of the node.
        node: String,
        /// Shape of the input.
        input: Shape,
        /// Images per segment of statistics.
        rows: usize,
    },
    /// The layout has no tensor of the requested name.
    #[error("no {space} tensor is called `{name}`")]
    UnknownTensor {
        /// Name of the storage that was searched.
        space: &'static str,
        /// The requested name.
        name: String,
    },
    /// Two graphs use one name for tensors of different size.
    #[error(
        "{space} tensor `{name}` has {existing} values in one graph and {requested} in another"
    )]
    Conflict {
        /// Name of the storage.
        space: &'static str,
        /// The shared name.
        name: String,
        /// Size in the layout so far.
        existing: usize,
        /// Size in the new graph.
        requested: usize,
    },
    /// The layout reserves too little room for the batch size of a program.
    #[error(
        "`{name}` needs room for {needed} values but the layout has {placed}: add the graph to the layout at this batch size"
    )]
    LayoutTooSmall {
        /// Name of the input, target or output.
        name: String,
        /// Elements that the program needs.
        needed: usize,
        /// Elements that the layout reserves.
        placed: usize,
    },
    /// Data has the wrong length for its tensor.
    #[error("`{name}` holds {expected} values, got {got}")]
    WrongLength {
        /// Name of the tensor.
        name: String,
        /// Length of the tensor.
        expected: usize,
        /// Length of the data.
        got: usize,
    },
    /// A storage is too small: the memory was allocated for another layout or a smaller program.
    #[error(
        "{space} has {have} bytes where the program needs {need}: allocate the memory for all programs that use it"
    )]
    MemoryTooSmall {
        /// Name of the storage.
        space: &'static str,
        /// Bytes that the program needs.
        need: usize,
        /// Bytes that the storage has.
        have: usize,
    },
    /// A program was compiled with another layout than the memory has.
    #[error("the program of graph `{graph}` was compiled with another layout than this memory has")]
    LayoutMismatch {
        /// Name of the graph.
        graph: String,
    },
    /// Frozen weights belong to another program.
    #[error("the weights were frozen for another program than this one of graph `{graph}`")]
    ProgramMismatch {
        /// Name of the graph.
        graph: String,
    },
    /// A range of a parameter group is outside the parameter storage or overlaps another range.
    #[error("parameter group {group}: parameters {start}..{end} {problem}")]
    ParameterGroup {
        /// Index of the group.
        group: usize,
        /// First element of the range.
        start: usize,
        /// One past the last element of the range.
        end: usize,
        /// Description of the problem.
        problem: &'static str,
    },
    /// The number of learning rates differs from the number of parameter groups.
    #[error("{groups} parameter groups need as many learning rates, got {lrs}")]
    LearningRates {
        /// Number of groups.
        groups: usize,
        /// Number of learning rates given.
        lrs: usize,
    },
    /// An allocation on the CPU failed.
    #[error("{:.1} GB do not fit into memory: use a smaller batch or network", *bytes as f64 / 1e9)]
    OutOfMemory {
        /// Requested bytes.
        bytes: u128,
    },
    /// The device could not be set up.
    #[error("the device is not available: {reason}")]
    Device {
        /// Why it could not be set up.
        reason: String,
    },
    /// A failure of the GPU, its driver or its libraries.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A set of templates to mix is inconsistent.
    #[error("mix `{set}`: {problem}")]
    Mix {
        /// Name of the set.
        set: String,
        /// Description of the problem.
        problem: String,
    },
    /// A set of bank views is inconsistent.
    #[error("views `{set}`: {problem}")]
    BankViews {
        /// Name of the set.
        set: String,
        /// Description of the problem.
        problem: String,
    },
}
