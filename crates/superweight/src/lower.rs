//! Architecture → engine graph: one engine call per node, tensors under the names of the plan.
//!
//! Both lists are in the order of computation and shapes agree, so this is a walk. Names of tensors are PyTorch's with
//! the member's scope in front; images and labels are shared by all members and have none.

use superweight_engine::{
    Activation, BatchNorm, Conv2d, CrossEntropy, Error, Graph, GraphBuilder, NodeId, Pool2d, Scope, Shape,
};
use superweight_plan::arch::{self, Architecture, ImageShape, Op};

use crate::fold;

/// Name of the images every member reads.
pub const IMAGES: &str = "images";
/// Name of the classes every member learns.
pub const LABELS: &str = "labels";
/// Name of the probabilities that one member gives and others learn ([`Lesson`]).
pub const TEACHER: &str = "teacher";

/// What a member learns from in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lesson {
    /// The classes.
    #[default]
    Labels,
    /// The classes, and others learn from it: its probabilities are an output, [`TEACHER`].
    Teach,
    /// The probabilities of the one that teaches, as they are, on the same images. Its loss against the classes is
    /// measured all the same, under the same name.
    Learn,
}

/// What a lowered graph is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowering {
    /// Put before the names of tensors, losses and outputs: the member's, ending in a dot, or nothing.
    pub scope: String,
    /// Label smoothing of the loss against classes.
    pub smoothing: f32,
    /// What is learned.
    pub lesson: Lesson,
    /// Equal parts of the batch that batch norm takes its statistics over, each by itself (ghost batch norm); 1 for
    /// the whole batch. Names, parameters and running statistics are the same either way.
    pub ghosts: usize,
    /// Whether batch norms are folded into the convolutions before them where they can be: for inference, with the weights
    /// that [`crate::ensemble::Ensemble::compose`] writes for it.
    pub folded: bool,
}

impl Default for Lowering {
    fn default() -> Self {
        Self { scope: String::new(), smoothing: 0.0, lesson: Lesson::Labels, ghosts: 1, folded: false }
    }
}

impl Lowering {
    /// Name of the logits among the outputs.
    pub fn logits(&self) -> String {
        format!("{}logits", self.scope)
    }

    /// Name of the loss and its metrics.
    pub fn loss(&self) -> String {
        format!("{}loss", self.scope)
    }
}

/// The graph of one member: its logits are an output, its loss is cross-entropy against [`LABELS`] or what its [`Lesson`] says.
///
/// # Panics
/// If a member of several heads is to teach or to learn from others.
pub fn lower(architecture: &Architecture, lowering: &Lowering) -> Result<Graph, Error> {
    let mut g = GraphBuilder::new(format!("{}{}", lowering.scope, architecture.name));
    let mut nodes: Vec<NodeId> = Vec::with_capacity(architecture.nodes.len());
    let count = architecture.nodes.len();
    let norms = if lowering.folded { fold::into_each(architecture) } else { vec![None; count] };
    for (index, node) in architecture.nodes.iter().enumerate() {
        let name = format!("{}{}", lowering.scope, node.name);
        let input = |index: usize| nodes[node.inputs[index].0];
        nodes.push(match node.op {
            Op::Input => g.input(IMAGES, shape(node.shape))?,
            Op::Conv { kernel, stride, padding, groups, .. } => {
                let out_channels = node.shape.channels;
                let (stride, padding) = ([stride; 2], [padding; 2]);
                let options = Conv2d { out_channels, kernel, stride, padding, groups };
                match norms[index].map(|norm| architecture.nodes[norm].op) {
                    Some(Op::BatchNorm { activation: a, .. }) => {
                        g.folded_conv(fold::name(&name), input(0), options, activation(a))?
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
            Op::MaxPool { kernel, stride, padding } => {
                g.pool(name, input(0), Pool2d::max(kernel, stride, padding))?
            }
            Op::GlobalAveragePool => g.global_average_pool(name, input(0))?,
            Op::Linear { .. } => g.linear(name, input(0), node.shape.channels, true)?,
        });
    }
    let logits =
        *nodes.last().ok_or_else(|| Error::NothingToCompute { graph: architecture.name.to_string() })?;
    g.output(lowering.logits(), logits)?;
    // The sum of the heads' losses is their number times the mean over all of them.
    let heads = architecture.heads;
    assert!(heads == 1 || lowering.lesson == Lesson::Labels, "several heads learn from labels");
    let labels = CrossEntropy::classes(LABELS).heads(heads).weight(heads as f32);
    match lowering.lesson {
        Lesson::Labels => g.cross_entropy(lowering.loss(), logits, labels.smoothing(lowering.smoothing))?,
        Lesson::Teach => {
            let probabilities = g.softmax(format!("{}probabilities", lowering.scope), logits)?;
            g.output(TEACHER, probabilities)?;
            g.cross_entropy(lowering.loss(), logits, labels.smoothing(lowering.smoothing))?
        }
        Lesson::Learn => {
            let learned = CrossEntropy::probabilities(TEACHER);
            g.cross_entropy(format!("{}distillation", lowering.scope), logits, learned)?;
            g.cross_entropy(lowering.loss(), logits, labels.smoothing(lowering.smoothing).weight(0.0))?
        }
    };
    g.finish()
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
        for name in ["wrn-16-2", "wrn-28-10", "resnet-50", "wrn-50-2", "mobilenet-v2", "cnn-8-16"] {
            let name: ArchName = name.parse().unwrap();
            let architecture = name.build(name.usual_input(), 10).unwrap();
            let graph =
                lower(&architecture, &Lowering { scope: "a.".into(), ..Lowering::default() }).unwrap();
            for (ours, theirs) in graph.nodes().iter().zip(&architecture.nodes) {
                assert_eq!(ours.shape(), shape(theirs.shape), "{name}: {}", theirs.name);
            }
            for tensor in &architecture.tensors {
                let name = format!("a.{}", tensor.name);
                let slot = graph.slots().iter().find(|slot| slot.name == name).expect("a slot per tensor");
                assert_eq!(slot.len() as u64, tensor.len(), "{name}");
            }
            assert_eq!(graph.multiply_adds(), architecture.counts().multiply_adds);
        }
    }
}
