//! Slices of flat storage.

use crate::device::buffer::Region;

pub(super) fn at(numbers: &[f32], region: Region) -> &[f32] {
    &numbers[region.offset..region.offset + region.len]
}

pub(super) fn at_mut(numbers: &mut [f32], region: Region) -> &mut [f32] {
    &mut numbers[region.offset..region.offset + region.len]
}
