//! Checks that several shape rules share.

use crate::error::Error;
use crate::shape::Shape;

/// Numbers one tensor may have: far beyond any machine, near enough that sizes in bytes do not overflow.
pub(crate) const LARGEST: usize = 1 << 40;

/// A dimension past this is a mistake, and products of a few of them still fit into 64 bits.
const LARGEST_DIMENSION: usize = 1 << 20;

/// A size that must be positive and sane.
pub(crate) fn check_size(node: &str, what: &'static str, size: usize) -> Result<(), Error> {
    if size == 0 {
        return Err(Error::Zero { node: node.to_owned(), what });
    }
    check_bound(node, what, size)
}

/// A size that may be zero but must be sane.
pub(crate) fn check_bound(node: &str, what: &'static str, size: usize) -> Result<(), Error> {
    if size > LARGEST_DIMENSION {
        let expected = "at most 1048576";
        return Err(Error::OutOfRange {
            node: node.to_owned(),
            what,
            value: size as f32,
            expected,
        });
    }
    Ok(())
}

/// Output size of a window that slides over a padded input, or why it does not fit.
pub(crate) fn window_output(
    node: &str,
    input: Shape,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
) -> Result<[usize; 2], Error> {
    for d in 0..2 {
        check_size(node, "the kernel", kernel[d])?;
        check_size(node, "the stride", stride[d])?;
        check_bound(node, "the padding", padding[d])?;
    }
    let size = [input.height, input.width];
    if (0..2).any(|d| kernel[d] > size[d] + 2 * padding[d]) {
        return Err(Error::KernelTooLarge { node: node.to_owned(), kernel, padding, input });
    }
    Ok([0, 1].map(|d| (size[d] + 2 * padding[d] - kernel[d]) / stride[d] + 1))
}

/// The batch must consist of equal segments.
pub(crate) fn check_segments(node: &str, batch: usize, segments: usize) -> Result<(), Error> {
    if !batch.is_multiple_of(segments) {
        return Err(Error::Segments { node: node.to_owned(), batch, segments });
    }
    Ok(())
}
