//! [`ArchName`]: the architecture families and their names. `parse.rs` reads names; `build.rs`
//! builds the networks.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::image::ImageShape;

/// The forms of architecture names, for help texts and error messages.
pub const FAMILIES: &str = "wrn-D-K with D = 6n+4 (wrn-28-10, wrn-10-0.5), \
wrn-50|101|152-K (wrn-50-2), resnet-50|101|152, mobilenet-v2[-WIDTH] (mobilenet-v2-0.5), \
cnn-C1-C2-... (cnn-16-32), \
msdnet-EXITS-GROWTH (msdnet-16-12), \
mimo-M-NETWORK (mimo-3-wrn-28-10), NETWORK@W1-W2-... (cnn-16-32@12-20: given channels per layer)";

/// Largest accepted depth, width factor and channel count.
///
/// Larger than any network that can be trained, and small enough that counts never overflow.
pub(super) const LIMIT: usize = 10_000;

/// Largest number of images that a MIMO network reads at once.
pub(super) const MAX_HEADS: usize = 16;

/// Accepted numbers of exits of an MSDNet.
///
/// With one exit the finest resolution would be computed to the end although no exit reads it.
pub(super) const EXITS: std::ops::RangeInclusive<usize> = 2..=64;

/// An architecture family with its sizes. Read from, printed as and serialized as a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum ArchName {
    /// `wrn-28-10`, `wrn-10-0.5`: wide residual network for small images.
    Wrn {
        /// Number of layers, 6n + 4.
        depth: usize,
        /// Widening factor in hundredths; below 100 the network is narrower than a ResNet.
        percent: usize,
    },
    /// `resnet-50`, `wrn-50-2`: residual network of bottleneck blocks for large images.
    Bottleneck {
        /// Number of layers: 50, 101 or 152.
        depth: usize,
        /// Widening factor of the 3×3 convolutions; 1 is a plain ResNet.
        width: usize,
    },
    /// `mobilenet-v2`, `mobilenet-v2-0.5`: MobileNetV2.
    MobileNetV2 {
        /// Width multiplier in hundredths.
        percent: usize,
    },
    /// `cnn-16-32`: plain network with one convolution per number.
    Cnn {
        /// Channels of each convolution.
        widths: Vec<usize>,
    },
    /// `msdnet-16-12`: multi-scale dense network (MSDNet): three resolutions, densely connected,
    /// with an exit after each block.
    MsdNet {
        /// Number of exits, 2 or more. The first follows four layers; two layers lie between exits.
        exits: usize,
        /// Channels that a layer adds at the finest resolution; the others add two and four times
        /// that.
        growth: usize,
    },
    /// `mimo-3-wrn-28-10`: a network that reads several images at once and classifies each (MIMO).
    ///
    /// Given the same image several times, it is an ensemble at nearly the cost of one network.
    Mimo {
        /// Number of images read at once, 2 or more.
        heads: usize,
        /// Network whose first and last layer are widened for several images; not MIMO itself.
        body: Box<ArchName>,
    },
    /// `cnn-16-32@12-20`: a network with other [widths](super::Architecture::widths), as `swn slim`
    /// writes them.
    Slim {
        /// Network whose widths are replaced; not `Slim` itself.
        body: Box<ArchName>,
        /// Channels for each width of the body.
        widths: Vec<usize>,
    },
}

/// Why a text is not the name of an architecture, or why the architecture cannot be built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchError {
    /// The name is of no known family.
    #[error(
        "unknown architecture '{name}'{}\nknown: {FAMILIES}",
        suggestion.as_ref().map_or(String::new(), |s| format!(", did you mean '{s}'?"))
    )]
    Unknown {
        /// The name.
        name: String,
        /// A similar name of a known family.
        suggestion: Option<String>,
    },
    /// The family is known, but it has no network with these numbers.
    #[error("'{name}' is not a network of its family: {why}")]
    InvalidNumbers {
        /// The name.
        name: String,
        /// What the numbers must satisfy, and the nearest ones that do.
        why: String,
    },
    /// A side of the input or the number of classes is zero or too large.
    #[error(
        "{name} cannot be built for input {input:?} and {classes} classes: every number must be \
         between 1 and {LIMIT}"
    )]
    Size {
        /// Name of the architecture.
        name: String,
        /// Channels, height and width of the input.
        input: [usize; 3],
        /// Number of classes.
        classes: usize,
    },
    /// The channels or logits of a MIMO network exceed the limit for this input and these classes.
    #[error(
        "{name} cannot be built for input {input:?} and {classes} classes: {heads} times as many \
         channels and logits must be at most {LIMIT}"
    )]
    Heads {
        /// Name of the architecture.
        name: String,
        /// Number of images read at once.
        heads: usize,
        /// Channels, height and width of the input.
        input: [usize; 3],
        /// Number of classes.
        classes: usize,
    },
}

impl ArchName {
    /// Returns this architecture with other [widths](super::Architecture::widths).
    ///
    /// [`build`](Self::build) fails if their number is not that of the architecture.
    pub fn slimmed(&self, widths: Vec<usize>) -> Self {
        let body =
            if let Self::Slim { body, .. } = self { body.clone() } else { Box::new(self.clone()) };
        Self::Slim { body, widths }
    }

    /// Input shape that the family is usually trained on: ImageNet's for bottleneck networks,
    /// CIFAR's for all others.
    pub fn default_input(&self) -> ImageShape {
        match self {
            Self::Bottleneck { .. } => ImageShape::IMAGENET,
            Self::Mimo { body, .. } | Self::Slim { body, .. } => body.default_input(),
            _ => ImageShape::CIFAR,
        }
    }

    /// Number of images that one forward pass classifies together; 1 except for MIMO.
    pub fn heads(&self) -> usize {
        match self {
            &Self::Mimo { heads, .. } => heads,
            Self::Slim { body, .. } => body.heads(),
            _ => 1,
        }
    }

    /// Number of nodes that compute logits; 1 except for networks with early exits.
    pub fn exits(&self) -> usize {
        match self {
            &Self::MsdNet { exits, .. } => exits,
            Self::Slim { body, .. } => body.exits(),
            _ => 1,
        }
    }
}

impl fmt::Display for ArchName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Wrn { depth, percent } => write!(f, "wrn-{depth}-{}", *percent as f64 / 100.0),
            Self::Bottleneck { depth, width: 1 } => write!(f, "resnet-{depth}"),
            Self::Bottleneck { depth, width } => write!(f, "wrn-{depth}-{width}"),
            Self::MobileNetV2 { percent: 100 } => write!(f, "mobilenet-v2"),
            Self::MobileNetV2 { percent } => write!(f, "mobilenet-v2-{}", *percent as f64 / 100.0),
            Self::Cnn { widths } => {
                write!(f, "cnn")?;
                widths.iter().try_for_each(|w| write!(f, "-{w}"))
            }
            Self::MsdNet { exits, growth } => write!(f, "msdnet-{exits}-{growth}"),
            Self::Mimo { heads, body } => write!(f, "mimo-{heads}-{body}"),
            Self::Slim { body, widths } => {
                write!(f, "{body}@")?;
                widths
                    .iter()
                    .enumerate()
                    .try_for_each(|(i, w)| write!(f, "{}{w}", if i > 0 { "-" } else { "" }))
            }
        }
    }
}

impl From<ArchName> for String {
    fn from(name: ArchName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for ArchName {
    type Error = ArchError;

    fn try_from(name: String) -> Result<Self, ArchError> {
        name.parse()
    }
}
