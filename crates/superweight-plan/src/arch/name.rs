//! Names of architectures: what there is, built and printed in one spelling; `parse.rs` reads them.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::image::ImageShape;

/// What can be asked for, as shown in help and errors.
pub const FAMILIES: &str = "wrn-D-K with D = 6n+4 (wrn-28-10, wrn-10-0.5), wrn-50|101|152-K (wrn-50-2), \
resnet-50|101|152, mobilenet-v2[-WIDTH] (mobilenet-v2-0.5), cnn-C1-C2-... (cnn-16-32), \
msdnet-EXITS-GROWTH (msdnet-16-12), \
mimo-M-NETWORK (mimo-3-wrn-28-10), NETWORK@W1-W2-... (cnn-16-32@12-20: with widths of its own)";

/// Largest accepted depth, width factor and channel count: far past any network that trains, far below overflow.
pub(super) const LIMIT: usize = 10_000;

/// Most images that a network answers at once.
pub(super) const MOST_HEADS: usize = 16;

/// How many exits a network may have. Of one the finest resolution would not be dropped in time, and nothing read it.
pub(super) const EXITS: std::ops::RangeInclusive<usize> = 2..=64;

/// A family with its numbers. Written as a string everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ArchName {
    /// `wrn-28-10`, `wrn-10-0.5`: wide (or narrow) residual network for small images.
    Wrn {
        /// 6n + 4.
        depth: usize,
        /// Widening factor in hundredths.
        percent: usize,
    },
    /// `resnet-50`, `wrn-50-2`: bottleneck network for large images.
    Bottleneck {
        /// 50, 101 or 152.
        depth: usize,
        /// Widening factor of the inner convolutions; 1 is a plain ResNet.
        width: usize,
    },
    /// `mobilenet-v2`, `mobilenet-v2-0.5`.
    MobileNetV2 {
        /// Width multiplier in hundredths.
        percent: usize,
    },
    /// `cnn-16-32`: plain network, one convolution per number.
    Cnn {
        /// Channels of each convolution.
        widths: Vec<usize>,
    },
    /// `msdnet-16-12`: three resolutions side by side, densely connected, with an exit after each block (MSDNet).
    MsdNet {
        /// Exits, 2 or more: of the first and of every second layer from then on.
        exits: usize,
        /// Channels that a layer adds at the finest resolution; twice and four times as many at the others.
        growth: usize,
    },
    /// `mimo-3-wrn-28-10`: a network whose first layer sees several images side by side and whose last answers each of
    /// them; asked with one image several times, it is an ensemble for the price of one (MIMO).
    Mimo {
        /// Images at once, 2 or more.
        heads: usize,
        /// All but the first and the last layer; not such a network itself.
        body: Box<ArchName>,
    },
    /// `cnn-16-32@12-20`: a network with other [widths](super::Architecture::widths), as `swn slim` finds them.
    Slim {
        /// What it is but for them; not such a network itself.
        body: Box<ArchName>,
        /// As many as the body has.
        widths: Vec<usize>,
    },
}

/// Why a name is not an architecture, or cannot be built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ArchError {
    /// No such family.
    #[error("unknown architecture '{name}'{}\nknown: {FAMILIES}", suggestion.as_ref().map_or(String::new(), |s| format!(", did you mean '{s}'?")))]
    Unknown {
        /// As typed.
        name: String,
        /// A close known name.
        suggestion: Option<String>,
    },
    /// The family exists, its numbers do not.
    #[error("'{name}' is not a network of its family: {why}")]
    InvalidNumbers {
        /// As typed.
        name: String,
        /// What the numbers must satisfy, with the nearest that do.
        why: String,
    },
    /// Input shape or classes make no network.
    #[error(
        "{name} cannot be built for input {input:?} and {classes} classes: every number must be between 1 and {LIMIT}"
    )]
    Size {
        /// The architecture.
        name: String,
        /// Channels, height, width.
        input: [usize; 3],
        /// Classes.
        classes: usize,
    },
    /// Too many images at once for these.
    #[error(
        "{name} cannot be built for input {input:?} and {classes} classes: {heads} times as many channels and logits must be at most \
         {LIMIT}"
    )]
    Heads {
        /// The architecture.
        name: String,
        /// Images at once.
        heads: usize,
        /// Channels, height, width.
        input: [usize; 3],
        /// Classes.
        classes: usize,
    },
}

impl ArchName {
    /// The same with other [widths](super::Architecture::widths), as many as it has; building says where they are not.
    pub fn slimmed(&self, widths: Vec<usize>) -> Self {
        let body =
            if let Self::Slim { body, .. } = self { body.clone() } else { Box::new(self.clone()) };
        Self::Slim { body, widths }
    }

    /// The input it is made for: ImageNet's for bottleneck networks, CIFAR's for the others.
    pub fn default_input(&self) -> ImageShape {
        match self {
            Self::Bottleneck { .. } => ImageShape::IMAGENET,
            Self::Mimo { body, .. } | Self::Slim { body, .. } => body.default_input(),
            _ => ImageShape::CIFAR,
        }
    }

    /// Images answered at once.
    pub fn heads(&self) -> usize {
        match self {
            &Self::Mimo { heads, .. } => heads,
            Self::Slim { body, .. } => body.heads(),
            _ => 1,
        }
    }

    /// Places where it answers, each with more work than the one before.
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
