//! Known data sets: the catalog, fetching and verification of their files, and one reader per
//! layout.

pub(super) mod archive;
pub(super) mod catalog;
pub(super) mod cifar;
pub(super) mod classes;
pub(super) mod download;
#[cfg(feature = "embedded-data")]
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
