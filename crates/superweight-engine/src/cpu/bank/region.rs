//! Regions of flat storage as slices.

use crate::device::buffer::Region;

pub(super) fn at(values: &[f32], region: Region) -> &[f32] {
    &values[region.offset..region.offset + region.len]
}

pub(super) fn at_mut(values: &mut [f32], region: Region) -> &mut [f32] {
    &mut values[region.offset..region.offset + region.len]
}
