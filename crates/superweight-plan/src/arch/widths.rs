//! Widths: the channel counts of a network that can be chosen, and the network with other counts.
//!
//! A sum has as many channels as both of its inputs; a batch norm, a pool and a depthwise
//! convolution as many as their input. All values linked in this way share one *width*. Every other
//! convolution starts a new one. Input channels, classes and concatenations are not widths: they
//! follow from the data or from other widths. WRN-28-10 has 16 widths: one for its stem, one for
//! each of its three stages and one inside each of its twelve blocks.

use super::name::ArchName;
use super::types::{Architecture, NodeId, Op};

/// A channel count that one or more values of a network share and that can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Width {
    /// Name of the first convolution with this many output channels, e.g. `block1.layer.0.conv1`.
    pub name: String,
    /// Number of channels.
    pub channels: usize,
    /// Batch norms over these channels.
    pub norms: Vec<NodeId>,
}

impl Architecture {
    /// Lists the widths in the order of their first convolutions.
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

    /// Returns the network with other widths, in the order of [`Architecture::widths`].
    ///
    /// `self` must not itself come from [`ArchName::Slim`].
    pub(super) fn with_widths(mut self, name: ArchName, widths: &[usize]) -> Self {
        let of = self.width_of();
        let count = of.iter().flatten().max().map_or(0, |last| last + 1);
        assert_eq!(widths.len(), count, "{} needs a number for every width", self.name);
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

    /// Index of the width of every node's value; `None` for images, concatenations and logits.
    fn width_of(&self) -> Vec<Option<usize>> {
        // With one channel a depthwise convolution looks like any other, so ask the original
        // network.
        if let ArchName::Slim { body, .. } = &self.name {
            let body =
                body.build(self.input, self.classes).expect("the body was built for this input");
            return body.width_of();
        }
        let mut of: Vec<Option<usize>> = vec![];
        // For every width so far, an earlier width that it equals, or itself.
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
                // All grouped convolutions here are depthwise: they keep the channels.
                Op::Conv { .. }
                | Op::BatchNorm { .. }
                | Op::MaxPool { .. }
                | Op::GlobalAveragePool => input(0),
            });
        }
        // Number the distinct widths from 0.
        let firsts: Vec<usize> = (0..same.len()).filter(|&width| same[width] == width).collect();
        let number = |width| {
            firsts.binary_search(&first(&same, width)).expect("every width equals one of the first")
        };
        of.into_iter().map(|width| width.map(number)).collect()
    }
}
