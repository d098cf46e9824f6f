//! Architecture → engine graph: one engine call per node, tensors under the names of the plan.
//!
//! Both lists are in the order of computation and shapes agree, so this is a walk. Names of tensors are PyTorch's with
//! the member's scope in front; images and labels are shared by all members and have none.
//!
//! A network of several exits is one graph to train and to judge, and one per exit to be asked until time is up
//! ([`lower_by_exit`]): each goes on from the values that the one before has left.

use std::ops::Range;

use superweight_engine::{
    Activation, BatchNorm, Conv2d, CrossEntropy, Error, Graph, GraphBuilder, NodeId, Pool2d, Scope,
    Shape,
};
use superweight_plan::arch::{self, Architecture, ImageShape, Op};

use super::fold;

/// Name of the images every member reads.
pub const IMAGES: &str = "images";
/// Name of the classes every member learns.
pub const LABELS: &str = "labels";
/// Name of the probabilities that one member gives and others learn ([`LossTarget`]).
pub const TEACHER: &str = "teacher";

/// What a member learns from in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossTarget {
    /// The classes.
    #[default]
    Labels,
    /// The classes, and others learn from it: its probabilities are an output, [`TEACHER`].
    LabelsAsTeacher,
    /// The probabilities of the one that teaches, as they are, on the same images. Its loss against the classes is
    /// measured all the same, under the same name.
    TeacherProbabilities,
}

/// What a lowered graph is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowering {
    /// Put before the names of tensors, losses and outputs: the member's, ending in a dot, or nothing.
    pub scope: String,
    /// Label smoothing of the loss against classes.
    pub smoothing: f32,
    /// What is learned.
    pub target: LossTarget,
    /// Equal parts of the batch that batch norm takes its statistics over, each by itself (ghost batch norm); 1 for
    /// the whole batch. Names, parameters and running statistics are the same either way.
    pub ghosts: usize,
    /// Whether batch norms are folded into the convolutions before them where they can be: for inference, with the weights
    /// that [`crate::model::ensemble::Ensemble::compose`] writes for it.
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
    /// Name of an exit's logits among the outputs.
    pub fn logits(&self, exit: usize) -> String {
        self.of_exit("logits", exit)
    }

    /// Name of an exit's loss and its metrics.
    pub fn loss(&self, exit: usize) -> String {
        self.of_exit("loss", exit)
    }

    fn of_exit(&self, what: &str, exit: usize) -> String {
        let number = if exit > 0 { format!(".{exit}") } else { String::new() };
        format!("{}{what}{number}", self.scope)
    }

    /// Name of a node's value where one graph leaves it to another.
    fn left(&self, node: &arch::Node) -> String {
        match node.op {
            Op::Input => IMAGES.to_owned(),
            _ => format!("{}{}.left", self.scope, node.name),
        }
    }
}

/// The graph of one member: the logits of its exits are outputs, the loss of each is cross-entropy against [`LABELS`] or what its
/// [`LossTarget`] says.
///
/// # Panics
/// If a member of several heads or exits is to teach or to learn from others.
pub fn lower(architecture: &Architecture, lowering: &Lowering) -> Result<Graph, Error> {
    lower_part(architecture, lowering, 0..architecture.nodes.len())
}

/// The same as one graph per exit, to be run in their order: what later ones read, earlier ones leave among the outputs.
pub fn lower_by_exit(
    architecture: &Architecture,
    lowering: &Lowering,
) -> Result<Vec<Graph>, Error> {
    let mut start = 0;
    let part = |exit: &arch::NodeId| {
        let nodes = start..exit.0 + 1;
        start = nodes.end;
        lower_part(architecture, lowering, nodes)
    };
    architecture.exits.iter().map(part).collect()
}

/// Some of the nodes, which begin and end anywhere.
fn lower_part(
    architecture: &Architecture,
    lowering: &Lowering,
    part: Range<usize>,
) -> Result<Graph, Error> {
    let mut g = GraphBuilder::new(format!("{}{}", lowering.scope, architecture.name));
    let count = architecture.nodes.len();
    let mut nodes: Vec<Option<NodeId>> = vec![None; count];
    let norms = if lowering.folded { fold::folding_norms(architecture) } else { vec![None; count] };
    for index in part.clone() {
        let node = &architecture.nodes[index];
        for &arch::NodeId(before) in &node.inputs {
            if nodes[before].is_none() {
                let node = &architecture.nodes[before];
                nodes[before] = Some(g.input(lowering.left(node), shape(node.shape))?);
            }
        }
        let name = format!("{}{}", lowering.scope, node.name);
        let input = |index: usize| nodes[node.inputs[index].0].expect("inputs are made before");
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
            // What it folds into has done its work.
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
        let later = &architecture.nodes[part.end..];
        if node.op != Op::Input
            && later.iter().any(|later| later.inputs.contains(&arch::NodeId(index)))
        {
            g.output(lowering.left(node), made)?;
        }
    }
    for (number, exit) in
        architecture.exits.iter().enumerate().filter(|(_, exit)| part.contains(&exit.0))
    {
        answer(
            &mut g,
            architecture,
            lowering,
            number,
            nodes[exit.0].expect("exits are among the nodes"),
        )?;
    }
    g.finish()
}

/// An exit's logits and what they are to be.
fn answer(
    g: &mut GraphBuilder,
    architecture: &Architecture,
    lowering: &Lowering,
    exit: usize,
    logits: NodeId,
) -> Result<(), Error> {
    g.output(lowering.logits(exit), logits)?;
    // The sum of the heads' losses is their number times the mean over all of them.
    let heads = architecture.heads;
    let answers_once = heads == 1 && architecture.exits.len() == 1;
    assert!(
        answers_once || lowering.target == LossTarget::Labels,
        "several heads or exits learn from labels"
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
            let learned = CrossEntropy::probabilities(TEACHER);
            g.cross_entropy(format!("{}distillation", lowering.scope), logits, learned)?;
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
