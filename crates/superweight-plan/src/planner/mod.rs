//! From a request to a plan: cluster, cut, count, allocate.

mod allocate;
mod cluster;
mod corner;
mod draft;
mod request;
mod scale;
mod stretch;
mod survey;

pub(crate) use allocate::Rule;
pub use cluster::{Clustering, SharedRoles};
pub use corner::superweights;
pub use request::{Coefficients, PlanRequest, TilingChoice};
pub use scale::Scale;
pub(crate) use survey::ROOM;
pub use survey::Survey;
