//! Translation of an architecture into an engine graph, node by node.
//!
//! Both are lists in the order of computation with the same shapes, so one pass over the nodes
//! suffices. Tensor names are PyTorch's with the scope of the member as prefix. Images and labels
//! are shared by all members and have no prefix.
//!
//! A network with several exits becomes one graph for training and evaluation ([`lower`]). For
//! prediction within a deadline it becomes one graph per exit ([`lower_by_exit`]), each of which
//! continues from the values that the graph before it has written.

use std::ops::Range;

use superweight_engine::{
    Activation, BatchNorm, Conv2d, CrossEntropy, Error, Graph, GraphBuilder, NodeId, Pool2d, Scope,
    Shape,
};
use superweight_plan::arch::{self, Architecture, ImageShape, Op};

use super::fold;

/// Name of the input that holds the images of a batch, for all members.
pub const IMAGES: &str = "images";
/// Name of the target that holds the classes of a batch, for all members.
pub const LABELS: &str = "labels";
/// Name of the output that holds the probabilities of the teacher in distillation.
pub const TEACHER: &str = "teacher";

/// Target of a member's training loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossTarget {
    /// The labels.
    #[default]
    Labels,
    /// The labels. The member also writes its probabilities to the output [`TEACHER`].
    LabelsAsTeacher,
    /// The probabilities that the teacher writes for the same images, as constants. The loss
    /// against the labels is also computed, under its usual name, but has no gradient.
    TeacherProbabilities,
}

/// Settings of the translation.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowering {
    /// Prefix of the names of tensors, losses and outputs: that of the member, ending in a dot, or
    /// empty.
    pub scope: String,
    /// Label smoothing of the loss against labels.
    pub smoothing: f32,
    /// Target of the training loss.
    pub target: LossTarget,
    /// Number of equal parts of the batch over which batch norm computes separate statistics (ghost
    /// batch norm); 1 for the whole batch. Names, parameters and running statistics do not depend
    /// on it.
    pub ghosts: usize,
    /// Whether batch norms are folded into the convolutions before them where possible. For
    /// inference; [`Ensemble::compose`](crate::model::ensemble::Ensemble::compose) writes the
    /// folded weights.
    pub folded: bool,
}

impl Default for Lowering {
    fn default() -> Self {
        Self {
            scope: String::new(),
            smoothing: 0.0,
            target: LossTarget::Labels,
            ghosts: 1,
            folded: false,
        }
    }
}

impl Lowering {
    /// Name of the output that holds the logits of an exit.
    pub fn logits(&self, exit: usize) -> String {
        self.exit_name("logits", exit)
    }

    /// Name of the loss of an exit, under which its metrics are read.
    pub fn loss(&self, exit: usize) -> String {
        self.exit_name("loss", exit)
    }

    fn exit_name(&self, what: &str, exit: usize) -> String {
        let number = if exit > 0 { format!(".{exit}") } else { String::new() };
        format!("{}{what}{number}", self.scope)
    }

    /// Name under which one graph outputs the value of a node and a later graph reads it.
    fn carried_name(&self, node: &arch::Node) -> String {
        match node.op {
            Op::Input => IMAGES.to_owned(),
            _ => format!("{}{}.left", self.scope, node.name),
        }
    }
}

/// Returns the graph of one member. It outputs the logits of every exit and has a loss per exit,
/// cross-entropy against [`LABELS`] or as [`LossTarget`] states.
///
/// # Panics
/// If a member with several heads or exits takes part in distillation.
pub fn lower(architecture: &Architecture, lowering: &Lowering) -> Result<Graph, Error> {
    lower_nodes(architecture, lowering, 0..architecture.nodes.len())
}

/// Returns one graph per exit, to be run in this order. Values that later graphs read are outputs
/// of earlier graphs.
///
/// # Panics
/// As [`lower`].
pub fn lower_by_exit(
    architecture: &Architecture,
    lowering: &Lowering,
) -> Result<Vec<Graph>, Error> {
    let mut start = 0;
    let up_to_exit = |exit: &arch::NodeId| {
        let nodes = start..exit.0 + 1;
        start = nodes.end;
        lower_nodes(architecture, lowering, nodes)
    };
    architecture.exits.iter().map(up_to_exit).collect()
}

/// Returns a graph of a range of nodes. Values from before the range are inputs, values that later
/// nodes read are outputs.
fn lower_nodes(
    architecture: &Architecture,
    lowering: &Lowering,
    range: Range<usize>,
) -> Result<Graph, Error> {
    let mut g = GraphBuilder::new(format!("{}{}", lowering.scope, architecture.name));
    let count = architecture.nodes.len();
    let mut nodes: Vec<Option<NodeId>> = vec![None; count];
    let norms = if lowering.folded { fold::folding_norms(architecture) } else { vec![None; count] };
    for index in range.clone() {
        let node = &architecture.nodes[index];
        for &arch::NodeId(before) in &node.inputs {
            if nodes[before].is_none() {
                let node = &architecture.nodes[before];
                nodes[before] = Some(g.input(lowering.carried_name(node), shape(node.shape))?);
            }
        }
        let name = format!("{}{}", lowering.scope, node.name);
        let input = |index: usize| nodes[node.inputs[index].0].expect("inputs precede their node");
        let made = match node.op {
            Op::Input => g.input(IMAGES, shape(node.shape))?,
            Op::Conv { kernel, stride, padding, groups, .. } => {
                let out_channels = node.shape.channels;
                let (stride, padding) = ([stride; 2], [padding; 2]);
                let options = Conv2d { out_channels, kernel, stride, padding, groups };
                match norms[index].map(|norm| architecture.nodes[norm].op) {
                    Some(Op::BatchNorm { activation: a, .. }) => {
                        g.folded_conv(fold::folded_name(&name), input(0), options, activation(a))?
                    }
                    _ => g.conv(name, input(0), options)?,
                }
            }
            // The folded convolution already includes this batch norm.
            Op::BatchNorm { .. } if norms[node.inputs[0].0] == Some(index) => input(0),
            Op::BatchNorm { activation: a, .. } => {
                let plain = BatchNorm { activation: activation(a), ..BatchNorm::plain() };
                let options = match lowering.ghosts {
                    1 => plain,
                    ghosts => plain.segmented(ghosts, Scope::Segment, Scope::Joint),
                };
                g.batch_norm(name, input(0), options)?
            }
            Op::Add { activation: a } => g.add(name, input(0), input(1), activation(a))?,
            Op::Concat => g.concat(name, &(0..node.inputs.len()).map(input).collect::<Vec<_>>())?,
            Op::MaxPool { kernel, stride, padding } => {
                g.pool(name, input(0), Pool2d::max(kernel, stride, padding))?
            }
            Op::GlobalAveragePool => g.global_average_pool(name, input(0))?,
            Op::Linear { .. } => g.linear(name, input(0), node.shape.channels, true)?,
        };
        nodes[index] = Some(made);
        let later = &architecture.nodes[range.end..];
        if node.op != Op::Input
            && later.iter().any(|later| later.inputs.contains(&arch::NodeId(index)))
        {
            g.output(lowering.carried_name(node), made)?;
        }
    }
    for (number, exit) in
        architecture.exits.iter().enumerate().filter(|(_, exit)| range.contains(&exit.0))
    {
        let logits = nodes[exit.0].expect("every node of the range has been lowered");
        add_loss(&mut g, architecture, lowering, number, logits)?;
    }
    g.finish()
}

/// Adds the logits of an exit to the outputs, and its loss.
fn add_loss(
    g: &mut GraphBuilder,
    architecture: &Architecture,
    lowering: &Lowering,
    exit: usize,
    logits: NodeId,
) -> Result<(), Error> {
    g.output(lowering.logits(exit), logits)?;
    // Cross-entropy takes the mean over heads. The weight turns it into the sum of their losses.
    let heads = architecture.heads;
    let has_one_output = heads == 1 && architecture.exits.len() == 1;
    assert!(
        has_one_output || lowering.target == LossTarget::Labels,
        "distillation needs members with one head and one exit"
    );
    let labels = CrossEntropy::classes(LABELS).heads(heads).weight(heads as f32);
    let (loss, smoothed) = (lowering.loss(exit), labels.clone().smoothing(lowering.smoothing));
    match lowering.target {
        LossTarget::Labels => g.cross_entropy(loss, logits, smoothed)?,
        LossTarget::LabelsAsTeacher => {
            let probabilities = g.softmax(format!("{}probabilities", lowering.scope), logits)?;
            g.output(TEACHER, probabilities)?;
            g.cross_entropy(loss, logits, smoothed)?
        }
        LossTarget::TeacherProbabilities => {
            let teacher = CrossEntropy::probabilities(TEACHER);
            g.cross_entropy(format!("{}distillation", lowering.scope), logits, teacher)?;
            g.cross_entropy(loss, logits, smoothed.weight(0.0))?
        }
    };
    Ok(())
}

fn shape(image: ImageShape) -> Shape {
    Shape::new(image.height, image.width, image.channels)
}

fn activation(activation: arch::Activation) -> Activation {
    match activation {
        arch::Activation::None => Activation::None,
        arch::Activation::Relu => Activation::Relu,
        arch::Activation::Relu6 => Activation::Relu6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use superweight_plan::arch::ArchName;

    #[test]
    fn shapes_names_and_counts_agree_with_the_architecture() {
        for name in [
            "wrn-16-2",
            "wrn-28-10",
            "resnet-50",
            "wrn-50-2",
            "mobilenet-v2",
            "cnn-8-16",
            "msdnet-3-4",
        ] {
            let name: ArchName = name.parse().unwrap();
            let architecture = name.build(name.default_input(), 10).unwrap();
            let graph =
                lower(&architecture, &Lowering { scope: "a.".into(), ..Lowering::default() })
                    .unwrap();
            for (ours, theirs) in graph.nodes().iter().zip(&architecture.nodes) {
                assert_eq!(ours.shape(), shape(theirs.shape), "{name}: {}", theirs.name);
            }
            for tensor in &architecture.tensors {
                let name = format!("a.{}", tensor.name);
                let slot =
                    graph.slots().iter().find(|slot| slot.name == name).expect("a slot per tensor");
                assert_eq!(slot.len() as u64, tensor.len(), "{name}");
            }
            assert_eq!(graph.multiply_adds(), architecture.counts().multiply_adds);
        }
    }
}
