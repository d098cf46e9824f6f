//! A user's own pictures: found in folders, decoded, made one size, and packed as a data set.

pub(super) mod folder;
pub(super) mod orientation;
pub(super) mod own;
pub(super) mod pack;
pub(super) mod picture;
