//! An architecture and its state dict as an ONNX graph, opset 17, for ONNX Runtime, TensorRT and
//! others.
//!
//! ```text
//! images [batch, C, H, W] ─► (v − mean) / std ─► member 0 ─► Softmax ─┐
//!                            optional         └► member 1 ─► Softmax ─┴► Mean ─► probabilities
//!                                                                            └► Log ─► logits
//! ```
//!
//! Every graph has the outputs `logits` and `probabilities`, `[batch, classes]`, with one meaning:
//! the softmax of `logits` is `probabilities`. Of several members, `probabilities` is the mean of
//! the members' probabilities and `logits` its logarithm. A network of several exits has a pair per
//! exit, `logits.0` and `probabilities.0` and so on; an ensemble has no exits.
//!
//! One node is written per operation of the architecture, with its activation beside it. Batch
//! norms are not folded: every runtime folds them into convolutions itself, and the file is still
//! the network that was trained.

use superweight_plan::arch::{Activation, Architecture, Op};

use super::protobuf::Message;
use crate::data::Normalization;
use crate::run::{RunError, Tensors};

/// Version of ONNX's operators in the file.
const OPSET: i64 = 17;
/// Version of the file format that belongs to the operators.
const IR_VERSION: i64 = 8;
/// ε of batch norms, as in the engine and in PyTorch.
const EPSILON: f32 = 1e-5;

/// Options of an ONNX graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OnnxOptions {
    /// If given, the graph takes values from 0 to 255 and normalizes them itself.
    pub normalization: Option<Normalization>,
}

/// The ONNX file of one member, or of several members as an ensemble.
///
/// # Errors
/// If a state dict lacks a tensor of its architecture.
///
/// # Panics
/// If there is no member, or if several members include one with several exits.
pub fn onnx(
    members: &[(Architecture, Tensors)],
    options: &OnnxOptions,
) -> Result<Vec<u8>, RunError> {
    let single = members.len() == 1;
    let exits = |(architecture, _): &(Architecture, Tensors)| architecture.exits.len();
    assert!(!members.is_empty(), "a graph has at least one member");
    assert!(single || members.iter().all(|member| exits(member) == 1), "an ensemble has no exits");
    let (first, classes) = (&members[0].0, members[0].0.classes);
    let mut graph = Graph::default();
    let mut images = "images".to_owned();
    if let Some(Normalization { mean, std }) = &options.normalization {
        for (op, name, values) in [("Sub", "mean", mean), ("Div", "std", std)] {
            graph.initialize(name, &[1, values.len(), 1, 1], values);
            let output = format!("images.{name}");
            images = graph.node(op, &output, &[&images, name], vec![]);
        }
    }
    let mut names = vec![];
    if single {
        let (architecture, tensors) = &members[0];
        let logits = member(&mut graph, architecture, tensors, "", &images)?;
        for (exit, logits) in logits.iter().enumerate() {
            let number =
                if architecture.exits.len() > 1 { format!(".{exit}") } else { String::new() };
            names.push(graph.node("Identity", &format!("logits{number}"), &[logits], vec![]));
            names.push(graph.softmax(&format!("probabilities{number}"), logits));
        }
    } else {
        let mut outputs = vec![];
        for (index, (architecture, tensors)) in members.iter().enumerate() {
            let scope = format!("{index}.");
            let logits = member(&mut graph, architecture, tensors, &scope, &images)?;
            outputs.push(graph.softmax(&format!("{scope}softmax"), &logits[0]));
        }
        let outputs: Vec<_> = outputs.iter().map(String::as_str).collect();
        let mean = graph.node("Mean", "probabilities", &outputs, vec![]);
        // A probability that underflows f32 would have the logarithm −∞.
        graph.initialize("smallest", &[], &[f32::MIN_POSITIVE]);
        let positive = graph.node("Max", "probabilities.positive", &[&mean, "smallest"], vec![]);
        names.push(graph.node("Log", "logits", &[&positive], vec![]));
        names.push(mean);
    }
    let input = first.input;
    let graph = Message::default()
        .messages(1, graph.nodes)
        .text(2, &members.iter().map(|(a, _)| a.name.to_string()).collect::<Vec<_>>().join("+"))
        .messages(5, graph.initializers)
        .message(11, value("images", &[input.channels, input.height, input.width]))
        .messages(12, names.iter().map(|name| value(name, &[classes])));
    Ok(Message::default()
        .int(1, IR_VERSION)
        .text(2, "superweight")
        .text(3, env!("CARGO_PKG_VERSION"))
        .message(7, graph)
        .message(8, Message::default().text(1, "").int(2, OPSET))
        .finish())
}

/// Nodes and constants of a graph under construction.
#[derive(Default)]
struct Graph {
    nodes: Vec<Message>,
    initializers: Vec<Message>,
}

impl Graph {
    /// Adds a node with one output and returns the output's name.
    fn node(
        &mut self,
        op: &str,
        output: &str,
        inputs: &[&str],
        attributes: Vec<Message>,
    ) -> String {
        let inputs = inputs.iter().fold(Message::default(), |node, input| node.text(1, input));
        let node = inputs.text(2, output).text(3, output).text(4, op).messages(5, attributes);
        self.nodes.push(node);
        output.to_owned()
    }

    /// Adds a node that computes the softmax over classes.
    fn softmax(&mut self, name: &str, logits: &str) -> String {
        self.node("Softmax", name, &[logits], vec![int("axis", 1)])
    }

    /// Adds a constant of floats.
    fn initialize(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        const FLOAT: i64 = 1;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dims =
            shape.iter().fold(Message::default(), |tensor, &side| tensor.int(1, side as i64));
        self.initializers.push(dims.int(2, FLOAT).text(8, name).bytes(9, &bytes));
    }

    /// Adds a constant of integers.
    fn initialize_integers(&mut self, name: &str, values: &[i64]) {
        const INT64: i64 = 7;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dims = Message::default().int(1, values.len() as i64);
        self.initializers.push(dims.int(2, INT64).text(8, name).bytes(9, &bytes));
    }
}

/// Adds the nodes of one member and returns the names of its exits' logits. If it has several
/// heads, each of them reads the same image.
fn member(
    graph: &mut Graph,
    architecture: &Architecture,
    tensors: &Tensors,
    scope: &str,
    images: &str,
) -> Result<Vec<String>, RunError> {
    let mut outputs: Vec<String> = Vec::with_capacity(architecture.nodes.len());
    for node in &architecture.nodes {
        let name = format!("{scope}{}", node.name);
        let mut tensor = |leaf: &str, shape: &[usize]| -> Result<String, RunError> {
            let (from, to) = (format!("{}.{leaf}", node.name), format!("{name}.{leaf}"));
            graph.initialize(&to, shape, tensors.expect::<f32>(&from, shape)?);
            Ok(to)
        };
        let input = |index: usize| outputs[node.inputs[index].0].clone();
        let pads = |padding: usize| ints("pads", &[padding; 4]);
        let output = match node.op {
            Op::Input if architecture.heads > 1 => {
                let every = vec![images; architecture.heads];
                graph.node("Concat", &name, &every, vec![int("axis", 1)])
            }
            Op::Input => images.to_owned(),
            Op::Conv { weight, kernel, stride, padding, groups } => {
                let weight = tensor("weight", &architecture.tensor(weight).shape)?;
                let attributes = vec![
                    ints("kernel_shape", &kernel),
                    ints("strides", &[stride; 2]),
                    pads(padding),
                    int("group", groups),
                ];
                graph.node("Conv", &name, &[&input(0), &weight], attributes)
            }
            Op::BatchNorm { activation, .. } => {
                let shape = [node.shape.channels];
                let leaves = ["weight", "bias", "running_mean", "running_var"];
                let [scale, shift, mean, variance] = leaves.map(|leaf| tensor(leaf, &shape));
                let inputs = [input(0), scale?, shift?, mean?, variance?];
                let attributes = vec![float("epsilon", EPSILON)];
                let inputs = inputs.each_ref().map(String::as_str);
                let normalized = graph.node("BatchNormalization", &name, &inputs, attributes);
                activated(graph, normalized, activation)
            }
            Op::Add { activation } => {
                let sum = graph.node("Add", &name, &[&input(0), &input(1)], vec![]);
                activated(graph, sum, activation)
            }
            Op::Concat => {
                let all: Vec<_> =
                    node.inputs.iter().map(|input| outputs[input.0].as_str()).collect();
                graph.node("Concat", &name, &all, vec![int("axis", 1)])
            }
            Op::MaxPool { kernel, stride, padding } => {
                let attributes = vec![
                    ints("kernel_shape", &[kernel; 2]),
                    ints("strides", &[stride; 2]),
                    pads(padding),
                ];
                graph.node("MaxPool", &name, &[&input(0)], attributes)
            }
            Op::GlobalAveragePool => {
                let pooled = graph.node("GlobalAveragePool", &name, &[&input(0)], vec![]);
                graph.node("Flatten", &format!("{name}.flat"), &[&pooled], vec![int("axis", 1)])
            }
            Op::Linear { weight, bias } => {
                let weight = tensor("weight", &architecture.tensor(weight).shape)?;
                let bias = tensor("bias", &architecture.tensor(bias).shape)?;
                graph.node("Gemm", &name, &[&input(0), &weight, &bias], vec![int("transB", 1)])
            }
        };
        outputs.push(output);
    }
    let exits = architecture.exits.iter().map(|exit| outputs[exit.0].clone());
    Ok(exits.map(|logits| mixture(graph, architecture, scope, logits)).collect())
}

/// Adds the logarithm of the mean of several heads' probabilities; for one head, returns its
/// logits.
fn mixture(graph: &mut Graph, architecture: &Architecture, scope: &str, logits: String) -> String {
    if architecture.heads == 1 {
        return logits;
    }
    let name = |what: &str| format!("{scope}heads.{what}");
    // A side of 0 keeps the number of rows.
    graph.initialize_integers(
        &name("shape"),
        &[0, architecture.heads as i64, architecture.classes as i64],
    );
    let split = graph.node("Reshape", &name("split"), &[&logits, &name("shape")], vec![]);
    let each = graph.node("LogSoftmax", &name("each"), &[&split], vec![int("axis", 2)]);
    // In logarithms throughout, so that no probability underflows f32.
    let over = vec![ints("axes", &[1]), int("keepdims", 0)];
    let sum = graph.node("ReduceLogSumExp", &name("sum"), &[&each], over);
    graph.initialize(&name("count"), &[], &[(architecture.heads as f32).ln()]);
    graph.node("Sub", &name("mean"), &[&sum, &name("count")], vec![])
}

/// Adds an activation after a value and returns the name of the result.
fn activated(graph: &mut Graph, value: String, activation: Activation) -> String {
    let name = format!("{value}.activation");
    match activation {
        Activation::None => value,
        Activation::Relu => graph.node("Relu", &name, &[&value], vec![]),
        Activation::Relu6 => {
            let bounds = ["zero", "six"].map(|bound| format!("{name}.{bound}"));
            graph.initialize(&bounds[0], &[], &[0.0]);
            graph.initialize(&bounds[1], &[], &[6.0]);
            graph.node("Clip", &name, &[&value, &bounds[0], &bounds[1]], vec![])
        }
    }
}

/// An integer attribute.
fn int(name: &str, value: usize) -> Message {
    const INT: i64 = 2;
    Message::default().text(1, name).int(3, value as i64).int(20, INT)
}

/// A float attribute.
fn float(name: &str, value: f32) -> Message {
    const FLOAT: i64 = 1;
    Message::default().text(1, name).float(2, value).int(20, FLOAT)
}

/// An attribute with a list of integers.
fn ints(name: &str, values: &[usize]) -> Message {
    const INTS: i64 = 7;
    let named = Message::default().text(1, name);
    values.iter().fold(named, |attribute, &value| attribute.int(8, value as i64)).int(20, INTS)
}

/// An input or output of the graph: any number of rows of this shape.
fn value(name: &str, shape: &[usize]) -> Message {
    const FLOAT: i64 = 1;
    let batch = Message::default().text(2, "batch");
    let sides = shape.iter().map(|&side| Message::default().int(1, side as i64));
    let dims = Message::default().messages(1, std::iter::once(batch).chain(sides));
    let tensor = Message::default().int(1, FLOAT).message(2, dims);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}
