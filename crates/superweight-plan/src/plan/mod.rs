//! The sharing plan: its types, its parameter counts, its file and its checks.

mod cost;
mod file;
mod parameters;
mod rect;
mod types;
mod validate;

pub(crate) use cost::{Ledger, SetCost};
pub use rect::{Rect, Span};
pub(crate) use types::{BLOCKS, MOST_TEMPLATES};
pub use types::{
    Bill, Cluster, Group, PlannedLayer, SharingPlan, SuperWeight, TemplateSet, Tile, Tiling, Users,
    VERSION, View,
};
