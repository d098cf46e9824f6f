//! Widths of a network's own: which values have the same channels, and the same network with other numbers of them.
//!
//! Values that are added, normalised, pooled or taken channel by channel have as many channels as each other: a *width*.
//! Convolutions begin new ones; those of the images and of the classes are no widths, nobody chooses them, and neither is what
//! several have side by side. WRN-28-10 has
//! one for its stem, one for each of its three stages and one inside each of its twelve blocks.

use super::name::ArchName;
use super::types::{Architecture, NodeId, Op};

/// Channels that several values have, and that a network may have more or fewer of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Width {
    /// The first convolution that makes such a value.
    pub name: String,
    /// How many.
    pub channels: usize,
    /// The batch norms over them.
    pub norms: Vec<NodeId>,
}

impl Architecture {
    /// Its widths, in the order in which they begin.
    pub fn widths(&self) -> Vec<Width> {
        let of = self.width_of();
        let mut widths: Vec<Width> = vec![];
        for (i, node) in self.nodes.iter().enumerate() {
            let Some(width) = of[i] else { continue };
            if width == widths.len() {
                widths.push(Width {
                    name: node.name.clone(),
                    channels: node.shape.channels,
                    norms: vec![],
                });
            }
            if let Op::BatchNorm { .. } = node.op {
                widths[width].norms.push(NodeId(i));
            }
        }
        widths
    }

    /// The same network with these widths, as many as it has and in their order. Itself no such network.
    pub(super) fn with_widths(mut self, name: ArchName, widths: &[usize]) -> Self {
        let of = self.width_of();
        let count = of.iter().flatten().max().map_or(0, |last| last + 1);
        assert_eq!(widths.len(), count, "as many numbers as {} has widths", self.name);
        for (i, width) in of.into_iter().enumerate() {
            let beside =
                |nodes: &[NodeId]| nodes.iter().map(|node| self.nodes[node.0].shape.channels).sum();
            let out = match (width, self.nodes[i].op) {
                (Some(width), _) => widths[width],
                (None, Op::Concat) => beside(&self.nodes[i].inputs),
                (None, _) => self.nodes[i].shape.channels,
            };
            let from = self.nodes[i].inputs.first().map(|input| self.nodes[input.0].shape.channels);
            let node = &mut self.nodes[i];
            node.shape.channels = out;
            match &mut node.op {
                Op::Conv { weight, groups, .. } => {
                    let from = from.expect("a convolution has an input");
                    *groups = if *groups > 1 { from } else { 1 };
                    self.tensors[weight.0].shape[..2].copy_from_slice(&[out, from / *groups]);
                }
                Op::BatchNorm { scale, shift, .. } => {
                    for tensor in [scale, shift] {
                        self.tensors[tensor.0].shape[0] = out;
                    }
                }
                Op::Linear { weight, .. } => {
                    self.tensors[weight.0].shape[1] = from.expect("a linear layer has an input");
                }
                Op::Input
                | Op::Add { .. }
                | Op::Concat
                | Op::MaxPool { .. }
                | Op::GlobalAveragePool => {}
            }
        }
        Self { name, ..self }
    }

    /// Which width every node's value has; none for images and logits.
    fn width_of(&self) -> Vec<Option<usize>> {
        // With one channel a depthwise convolution cannot be told from others; the network that it is of still can.
        if let ArchName::Slim { body, .. } = &self.name {
            let body = body.build(self.input, self.classes).expect("its body was built for these");
            return body.width_of();
        }
        let mut of: Vec<Option<usize>> = vec![];
        // Widths as they begin, each with the one that it was found to be, itself at first.
        let mut same: Vec<usize> = vec![];
        fn first(same: &[usize], mut width: usize) -> usize {
            while same[width] != width {
                width = same[width];
            }
            width
        }
        for node in &self.nodes {
            let input = |index: usize| of[node.inputs[index].0];
            of.push(match node.op {
                Op::Input | Op::Concat | Op::Linear { .. } => None,
                Op::Conv { groups: 1, .. } => {
                    same.push(same.len());
                    same.last().copied()
                }
                Op::Add { .. } => input(0).zip(input(1)).map(|(a, b)| {
                    let (a, b) = (first(&same, a), first(&same, b));
                    same[a.max(b)] = a.min(b);
                    a.min(b)
                }),
                // A convolution in groups takes channel by channel: all of them here are depthwise.
                Op::Conv { .. }
                | Op::BatchNorm { .. }
                | Op::MaxPool { .. }
                | Op::GlobalAveragePool => input(0),
            });
        }
        // Numbers without those that additions have left over.
        let firsts: Vec<usize> = (0..same.len()).filter(|&width| same[width] == width).collect();
        let number =
            |width| firsts.binary_search(&first(&same, width)).expect("it is among the first");
        of.into_iter().map(|width| width.map(number)).collect()
    }
}
