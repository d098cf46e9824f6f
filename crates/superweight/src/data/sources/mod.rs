//! Known data sets: what they are, how their files are fetched and verified, and one reader per layout.

pub(super) mod archive;
pub(super) mod catalogue;
pub(super) mod cifar;
pub(super) mod classes;
pub(super) mod download;
pub(super) mod embedded;
pub(super) mod fetch;
pub(super) mod folder;
pub(super) mod idx;
pub(super) mod npy;
pub(super) mod pickle;
pub(super) mod python;
pub(super) mod source;
pub(super) mod staging;
pub(super) mod verify;
