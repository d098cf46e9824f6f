#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod arch;
mod budget;
mod error;
mod ids;
mod layer;
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
pub use layer::{Family, Layer, LayerKind, Member, Role, Vector, VectorKind, answer_together};
pub use partition::Partition;
pub use plan::{
    Bill, Cluster, Group, PlannedLayer, Rect, SharingPlan, Span, SuperWeight, TemplateSet, Tile,
    Tiling, VERSION, View,
};
pub use planner::{
    Clustering, Coefficients, PlanRequest, Scale, Share, Survey, TilingChoice, superweights,
};
pub use search::{
    Assignment, CoefficientPairs, Found, Pair, Refined, SearchSettings, assign, merges, refine,
    search,
};
