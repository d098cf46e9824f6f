//! An architecture and its state dict as an ONNX graph, opset 17: what ONNX Runtime, TensorRT and others run.
//!
//! ```text
//! images [batch, C, H, W] ─► (v − mean) / deviation ─► member 0 ─► Softmax ─┐
//!        where asked for                             └► member 1 ─► Softmax ─┴► Mean ─► probabilities [batch, classes]
//! ```
//!
//! One node per operation of the architecture, activations beside them; batch norms are left as they are, because every
//! runtime folds them into convolutions itself, and a file with them is still the network that was trained.

use superweight_plan::arch::{Activation, Architecture, Op};

use super::protobuf::Message;
use crate::data::Normalization;
use crate::run::{RunError, Tensors};

/// The version of ONNX's operators that is written.
const OPSET: i64 = 17;
/// The version of the file format that goes with it.
const IR_VERSION: i64 = 8;
/// Of batch norm, as the engine and PyTorch have it.
const EPSILON: f32 = 1e-5;

/// What a graph answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnnxOutput {
    /// `logits` of the only member; of several exits `logits.0`, `logits.1` and so on.
    Logits,
    /// `probabilities`: the mean over the members' softmax.
    Probabilities,
}

/// How a graph is written.
#[derive(Clone, Debug, PartialEq)]
pub struct OnnxOptions {
    /// What comes out.
    pub output: OnnxOutput,
    /// Where given, images go in as numbers from 0 to 255 and are normalized by the graph.
    pub normalization: Option<Normalization>,
}

/// The file of these members, all of one input.
///
/// # Panics
/// With no member, or with logits of more than one.
pub fn onnx(
    members: &[(Architecture, Tensors)],
    options: &OnnxOptions,
) -> Result<Vec<u8>, RunError> {
    let alone = members.len() == 1;
    assert!(!members.is_empty(), "a graph has at least one member");
    assert!(alone || options.output == OnnxOutput::Probabilities, "logits are of one member");
    let (first, classes) = (&members[0].0, members[0].0.classes);
    let mut graph = Graph::default();
    let mut images = "images".to_owned();
    if let Some(Normalization { mean, deviation }) = &options.normalization {
        for (op, name, values) in [("Sub", "mean", mean), ("Div", "deviation", deviation)] {
            graph.initialize(name, &[1, values.len(), 1, 1], values);
            let output = format!("images.{name}");
            images = graph.node(op, &output, &[&images, name], vec![]);
        }
    }
    let (mut outputs, mut names) = (vec![], vec![]);
    for (index, (architecture, tensors)) in members.iter().enumerate() {
        let scope = if alone { String::new() } else { format!("{index}.") };
        for (exit, logits) in
            member(&mut graph, architecture, tensors, &scope, &images)?.iter().enumerate()
        {
            let number =
                if architecture.exits.len() > 1 { format!(".{exit}") } else { String::new() };
            match options.output {
                OnnxOutput::Logits => {
                    names.push(graph.node(
                        "Identity",
                        &format!("logits{number}"),
                        &[logits],
                        vec![],
                    ));
                }
                OnnxOutput::Probabilities => {
                    let name = format!("{scope}softmax{number}");
                    outputs.push(graph.node("Softmax", &name, &[logits], vec![int("axis", 1)]));
                }
            }
        }
    }
    if options.output == OnnxOutput::Probabilities {
        let outputs: Vec<_> = outputs.iter().map(String::as_str).collect();
        names.push(graph.node("Mean", "probabilities", &outputs, vec![]));
    }
    let input = first.input;
    let graph = Message::default()
        .messages(1, graph.nodes)
        .text(2, &members.iter().map(|(a, _)| a.name.to_string()).collect::<Vec<_>>().join("+"))
        .messages(5, graph.initialisers)
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

#[derive(Default)]
struct Graph {
    nodes: Vec<Message>,
    initialisers: Vec<Message>,
}

impl Graph {
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

    fn initialize(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        const FLOAT: i64 = 1;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dims =
            shape.iter().fold(Message::default(), |tensor, &side| tensor.int(1, side as i64));
        self.initialisers.push(dims.int(2, FLOAT).text(8, name).bytes(9, &bytes));
    }

    fn initialise_integers(&mut self, name: &str, values: &[i64]) {
        const INT64: i64 = 7;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dims = Message::default().int(1, values.len() as i64);
        self.initialisers.push(dims.int(2, INT64).text(8, name).bytes(9, &bytes));
    }
}

/// The nodes of one member; the names of its exits' logits. With several heads each sees the same image.
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

/// Of several heads the logarithms of the mean of their probabilities.
fn mixture(graph: &mut Graph, architecture: &Architecture, scope: &str, logits: String) -> String {
    if architecture.heads == 1 {
        return logits;
    }
    let name = |what: &str| format!("{scope}heads.{what}");
    // 0: as many rows as there are.
    graph.initialise_integers(
        &name("shape"),
        &[0, architecture.heads as i64, architecture.classes as i64],
    );
    let apart = graph.node("Reshape", &name("apart"), &[&logits, &name("shape")], vec![]);
    let each = graph.node("LogSoftmax", &name("each"), &[&apart], vec![int("axis", 2)]);
    // Logarithms all the way: no probability is too small for 32 bits.
    let over = vec![ints("axes", &[1]), int("keepdims", 0)];
    let sum = graph.node("ReduceLogSumExp", &name("sum"), &[&each], over);
    graph.initialize(&name("count"), &[], &[(architecture.heads as f32).ln()]);
    graph.node("Sub", &name("mean"), &[&sum, &name("count")], vec![])
}

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

fn int(name: &str, value: usize) -> Message {
    const INT: i64 = 2;
    Message::default().text(1, name).int(3, value as i64).int(20, INT)
}

fn float(name: &str, value: f32) -> Message {
    const FLOAT: i64 = 1;
    Message::default().text(1, name).float(2, value).int(20, FLOAT)
}

fn ints(name: &str, values: &[usize]) -> Message {
    const INTS: i64 = 7;
    let named = Message::default().text(1, name);
    values.iter().fold(named, |attribute, &value| attribute.int(8, value as i64)).int(20, INTS)
}

/// An input or output: any number of rows of this shape.
fn value(name: &str, shape: &[usize]) -> Message {
    const FLOAT: i64 = 1;
    let batch = Message::default().text(2, "batch");
    let sides = shape.iter().map(|&side| Message::default().int(1, side as i64));
    let dims = Message::default().messages(1, std::iter::once(batch).chain(sides));
    let tensor = Message::default().int(1, FLOAT).message(2, dims);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}
