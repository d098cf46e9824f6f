#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod allocate;
pub mod arch;
mod assign;
mod budget;
mod cluster;
mod corner;
mod draft;
mod error;
mod file;
mod layer;
pub mod number;
mod plan;
mod planner;
mod refine;
mod scale;
mod search;
mod stretch;
#[cfg(test)]
mod testing;
mod threshold;
mod validate;

pub use assign::{Assignment, Pair, assign, merges};
pub use budget::{Budget, BudgetError};
pub use cluster::{Clustering, Partition, Share};
pub use corner::{Rect, Span, superweights};
pub use error::PlanError;
pub use layer::{
    Family, Layer, LayerId, LayerKind, Member, MemberId, Role, Vector, VectorKind, answer_together,
};
pub use plan::{
    Bill, Cluster, ClusterId, Group, PlannedLayer, SetId, SharingPlan, SuperWeight, SuperWeightId,
    TemplateSet, Tile, Tiling, VERSION, View,
};
pub use planner::{Coefficients, PlanRequest, Survey, TilingChoice};
pub use refine::{CoefficientPairs, Refined, refine};
pub use scale::Scale;
pub use search::{Found, SearchSettings, search};
