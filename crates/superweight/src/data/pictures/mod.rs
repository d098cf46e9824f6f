//! Pictures of the user: found in folders, decoded, resized to one size, and packed as a data set.

pub(super) mod decode;
pub(super) mod folder;
pub(super) mod format;
pub(super) mod orientation;
pub(super) mod own;
pub(super) mod pack;
pub(super) mod picture;
