//! The sharing plan: types, parameter counts, file format and validation.

mod cost;
mod file;
mod parameters;
mod rect;
mod types;
mod validate;

pub(crate) use cost::{Ledger, SetCost};
pub use rect::{Rect, Span};
pub(crate) use types::{BLOCKS, MAX_TEMPLATES};
pub use types::{
    Bill, Cluster, Group, PlannedLayer, SharingPlan, SuperWeight, TemplateSet, Tile, Tiling, Users,
    VERSION, View,
};
