//! What can be wrong with a graph, its settings or the numbers given to it.
//!
//! Every message names the node (or tensor) and the sizes involved, so that the reader can fix the description
//! without a debugger. Broken invariants of the engine itself are assertions, not variants of this type.

mod cuda;

pub use cuda::CudaError;

use crate::shape::Shape;

/// A failure caused by a description, a setting or data handed to the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A size that must be positive is zero.
    #[error("node `{node}`: {what} is zero")]
    Zero {
        /// The node.
        node: String,
        /// Which size.
        what: &'static str,
    },
    /// A window does not fit into its padded input.
    #[error(
        "node `{node}`: a {}×{} window does not fit into the {input} input padded by {}×{}",
        kernel[0], kernel[1], padding[0], padding[1]
    )]
    KernelTooLarge {
        /// The node.
        node: String,
        /// Window height and width.
        kernel: [usize; 2],
        /// Padding above and below, left and right.
        padding: [usize; 2],
        /// Shape of the input.
        input: Shape,
    },
    /// A pooling window could lie in the padding alone.
    #[error("node `{node}`: padding {}×{} is more than half of the {}×{} window", padding[0], padding[1], kernel[0], kernel[1])]
    PaddingTooLarge {
        /// The node.
        node: String,
        /// Window height and width.
        kernel: [usize; 2],
        /// Padding above and below, left and right.
        padding: [usize; 2],
    },
    /// Groups must divide the channels on both sides.
    #[error(
        "node `{node}`: {groups} groups do not divide {in_channels} input and {out_channels} output channels"
    )]
    Groups {
        /// The node.
        node: String,
        /// Number of groups.
        groups: usize,
        /// Input channels.
        in_channels: usize,
        /// Output channels.
        out_channels: usize,
    },
    /// Two inputs of a node do not fit together.
    #[error("node `{node}` ({op}): inputs of shape {lhs} and {rhs} do not fit together")]
    ShapeMismatch {
        /// The node.
        node: String,
        /// The operation.
        op: &'static str,
        /// Shape of the first input.
        lhs: Shape,
        /// Shape of the other input.
        rhs: Shape,
    },
    /// An operation on vectors was given an image.
    #[error("node `{node}` ({op}): needs a 1×1 input, got {input}; pool it first")]
    NotAVector {
        /// The node.
        node: String,
        /// The operation.
        op: &'static str,
        /// Shape of the input.
        input: Shape,
    },
    /// A setting lies outside its range.
    #[error("node `{node}`: {what} is {value}, which must be {expected}")]
    OutOfRange {
        /// The node.
        node: String,
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: f32,
        /// The range, in words.
        expected: &'static str,
    },
    /// An operation over several inputs was given none.
    #[error("node `{node}` ({op}): no inputs")]
    NoInputs {
        /// The node.
        node: String,
        /// The operation.
        op: &'static str,
    },
    /// A node id of another graph.
    #[error("node `{node}`: its input is not a node of this graph")]
    UnknownNode {
        /// The node that refers to it.
        node: String,
    },
    /// Two nodes, tensors or outputs of one graph have the same name.
    #[error("the name `{name}` is used twice in graph `{graph}`")]
    DuplicateName {
        /// The graph.
        graph: String,
        /// The name.
        name: String,
    },
    /// An input of the graph cannot be an output too: it already lies outside.
    #[error("graph `{graph}`: `{name}` is an input; it cannot be an output")]
    InputAsOutput {
        /// The graph.
        graph: String,
        /// Name of the output.
        name: String,
    },
    /// A graph with neither losses nor outputs computes nothing.
    #[error("graph `{graph}` has neither a loss nor an output")]
    NothingToCompute {
        /// The graph.
        graph: String,
    },
    /// A program of batch zero.
    #[error("graph `{graph}`: the batch is zero")]
    EmptyBatch {
        /// The graph.
        graph: String,
    },
    /// An activation no machine can hold.
    #[error("node `{node}`: a batch of {batch} images of {shape} is too large to address")]
    TooLarge {
        /// The node.
        node: String,
        /// Its shape.
        shape: Shape,
        /// Rows of the batch.
        batch: usize,
    },
    /// A weight no machine can hold.
    #[error("tensor `{name}` of dimensions {dims:?} is too large to address")]
    TensorTooLarge {
        /// The tensor.
        name: String,
        /// Its dimensions.
        dims: Vec<usize>,
    },
    /// A backward pass needs something to start from.
    #[error(
        "graph `{graph}` has no loss and no external gradient: there is nothing to run backward from"
    )]
    NoLoss {
        /// The graph.
        graph: String,
    },
    /// Training through something that was folded for inference.
    #[error(
        "node `{node}` has a folded batch norm and cannot be trained: build the graph with the batch norm"
    )]
    ForwardOnly {
        /// The node.
        node: String,
    },
    /// The batch does not split into equal segments.
    #[error("node `{node}`: a batch of {batch} does not split into {segments} equal segments")]
    Segments {
        /// The node.
        node: String,
        /// Rows of the batch.
        batch: usize,
        /// Segments asked for.
        segments: usize,
    },
    /// Variance of one number.
    #[error(
        "node `{node}`: batch statistics over one value per channel ({input}, {rows} image per segment); a variance needs two: take larger images, or more of them at once"
    )]
    OneValuePerChannel {
        /// The node.
        node: String,
        /// Shape of the input.
        input: Shape,
        /// Images per segment of statistics.
        rows: usize,
    },
    /// A tensor was asked for by a name the layout does not have.
    #[error("no {space} tensor is called `{name}`")]
    UnknownTensor {
        /// The kind of storage searched.
        space: &'static str,
        /// The name asked for.
        name: String,
    },
    /// Two graphs use one name for tensors of different size.
    #[error(
        "{space} tensor `{name}` has {existing} numbers in one graph and {requested} in another"
    )]
    Conflict {
        /// The kind of storage.
        space: &'static str,
        /// The shared name.
        name: String,
        /// Size already laid out.
        existing: usize,
        /// Size asked for now.
        requested: usize,
    },
    /// A program was compiled against a layout that has too little room for its batch.
    #[error(
        "`{name}` needs room for {needed} numbers but the layout has {placed}: add the graph at this batch size first"
    )]
    LayoutTooSmall {
        /// Name of the input, target or output.
        name: String,
        /// Numbers needed.
        needed: usize,
        /// Numbers laid out.
        placed: usize,
    },
    /// Data of the wrong size for a tensor.
    #[error("`{name}` holds {expected} numbers, got {got}")]
    WrongLength {
        /// The tensor.
        name: String,
        /// Its size.
        expected: usize,
        /// The size given.
        got: usize,
    },
    /// The memory was allocated for another layout or a smaller program.
    #[error(
        "{space} has {have} bytes where the program needs {need}: allocate the memory for all programs that use it"
    )]
    MemoryTooSmall {
        /// The kind of storage.
        space: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A program run over memory that is laid out otherwise.
    #[error("the program of graph `{graph}` was compiled with another layout than this memory has")]
    LayoutMismatch {
        /// The graph.
        graph: String,
    },
    /// Weights frozen for another program.
    #[error("the weights were frozen for another program than this one of graph `{graph}`")]
    ProgramMismatch {
        /// The graph.
        graph: String,
    },
    /// A parameter group names numbers outside the parameter storage, or some that another group has.
    #[error("parameter group {group}: numbers {start}..{end} {problem}")]
    ParameterGroup {
        /// Index of the group.
        group: usize,
        /// First number.
        start: usize,
        /// One past the last.
        end: usize,
        /// What is wrong with them.
        problem: &'static str,
    },
    /// One learning rate per group is needed.
    #[error("{groups} parameter groups need as many learning rates, got {lrs}")]
    LearningRates {
        /// Number of groups.
        groups: usize,
        /// Rates given.
        lrs: usize,
    },
    /// More at once than there is.
    #[error("{:.1} GB do not fit into memory: a smaller batch or network takes less", *bytes as f64 / 1e9)]
    OutOfMemory {
        /// How much was asked for.
        bytes: u128,
    },
    /// The device could not be set up.
    #[error("the device is not available: {reason}")]
    Device {
        /// Why.
        reason: String,
    },
    /// The GPU, its driver or its libraries.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A set of blocks to be mixed contradicts itself.
    #[error("mix `{set}`: {problem}")]
    Mix {
        /// The set.
        set: String,
        /// What is wrong.
        problem: String,
    },
    /// A set of views of a bank contradicts itself.
    #[error("views `{set}`: {problem}")]
    BankViews {
        /// The set.
        set: String,
        /// What is wrong.
        problem: String,
    },
}
