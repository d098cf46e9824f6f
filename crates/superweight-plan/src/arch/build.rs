//! Builds the network of an [`ArchName`].

use super::image::ImageShape;
use super::name::{ArchError, ArchName, LIMIT};
use super::types::Architecture;
use super::{bottleneck, cnn, mobilenet, msdnet, wrn};

impl ArchName {
    /// Builds the network for images of this shape and this number of classes.
    pub fn build(&self, input: ImageShape, classes: usize) -> Result<Architecture, ArchError> {
        let sizes = [input.channels, input.height, input.width, classes];
        if sizes.iter().any(|n| !(1..=LIMIT).contains(n)) {
            return Err(ArchError::Size { name: self.to_string(), input: input.into(), classes });
        }
        let name = self.clone();
        Ok(match self {
            &Self::Wrn { depth, percent } => wrn::build(name, input, classes, depth, percent),
            &Self::Bottleneck { depth, width } => {
                let stages =
                    bottleneck::stages(depth).expect("parsing admits only depths that exist");
                bottleneck::build(name, input, classes, stages, width)
            }
            &Self::MobileNetV2 { percent } => mobilenet::build(name, input, classes, percent),
            Self::Cnn { widths } => cnn::build(name, input, classes, widths),
            &Self::MsdNet { exits, growth } => msdnet::build(name, input, classes, exits, growth),
            &Self::Mimo { heads, ref body } => {
                let stacked = ImageShape { channels: heads * input.channels, ..input };
                let body = body.build(stacked, heads * classes).map_err(|_| ArchError::Heads {
                    name: self.to_string(),
                    heads,
                    input: input.into(),
                    classes,
                })?;
                Architecture { name, input, classes, heads, ..body }
            }
            Self::Slim { body, widths } => {
                let body = body.build(input, classes)?;
                let known = body.widths();
                if known.len() != widths.len()
                    || widths.iter().any(|width| !(1..=LIMIT).contains(width))
                {
                    return Err(ArchError::InvalidNumbers {
                        name: self.to_string(),
                        why: expected(&body, widths.len()),
                    });
                }
                body.with_widths(name, widths)
            }
        })
    }
}

/// Explains how many widths a network has; names the first three.
fn expected(body: &Architecture, given: usize) -> String {
    let known = body.widths();
    let names: Vec<_> = known.iter().take(3).map(|width| width.name.as_str()).collect();
    let others = if known.len() > names.len() { ", …" } else { "" };
    let are = if given == 1 { "is" } else { "are" };
    let (name, count, names) = (&body.name, known.len(), names.join(", "));
    format!(
        "{name} has {count} widths, {given} {are} given: write those of {names}{others}, from 1 to \
         {LIMIT} channels each"
    )
}
