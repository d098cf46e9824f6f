#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod arch;
mod budget;
mod error;
mod ids;
mod layer;
#[doc(hidden)]
pub mod number;
mod partition;
mod plan;
mod planner;
mod rng;
mod search;
#[cfg(test)]
mod testing;

pub use budget::{Budget, BudgetError};
pub use error::PlanError;
pub use ids::{ClusterId, LayerId, MemberId, SetId, SuperWeightId};
pub use layer::{Family, Layer, LayerKind, Member, Role, Vector, VectorKind, check_compatible};
pub use partition::Partition;
pub use plan::{
    Bill, Cluster, Group, PlannedLayer, Rect, SharingPlan, Span, SuperWeight, TemplateSet, Tile,
    Tiling, Users, VERSION, View,
};
pub use planner::{
    Clustering, Coefficients, PlanRequest, Scale, SharedRoles, Survey, TilingChoice, superweights,
};
pub use search::{
    Assignment, CoefficientPairs, Pair, RefinedPlan, SearchSettings, SearchedPlan, assign, merges,
    refine, search,
};
