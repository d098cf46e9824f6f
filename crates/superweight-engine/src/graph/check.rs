//! Checks that several shape rules share.

use crate::error::Error;
use crate::shape::Shape;

/// Largest number of elements of a tensor. It exceeds any machine's memory, yet sizes in bytes do
/// not overflow.
pub(crate) const LARGEST: usize = 1 << 40;

/// Largest dimension. Products of a few dimensions of this size still fit into 64 bits.
const LARGEST_DIMENSION: usize = 1 << 20;

/// Fails if a size is zero or larger than [`LARGEST_DIMENSION`].
pub(crate) fn check_size(node: &str, what: &'static str, size: usize) -> Result<(), Error> {
    if size == 0 {
        return Err(Error::Zero { node: node.to_owned(), what });
    }
    check_bound(node, what, size)
}

/// Fails if a size is larger than [`LARGEST_DIMENSION`]. Zero is allowed.
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

/// Computes the output size of a window that slides over a padded input. Fails if the window does
/// not fit.
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

/// Fails if the batch does not split into equal segments.
pub(crate) fn check_segments(node: &str, batch: usize, segments: usize) -> Result<(), Error> {
    if !batch.is_multiple_of(segments) {
        return Err(Error::Segments { node: node.to_owned(), batch, segments });
    }
    Ok(())
}
