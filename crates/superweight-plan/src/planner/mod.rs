//! Makes a plan from a request.
//!
//! 1. [`cluster`] puts the layers into clusters.
//! 2. [`survey`] chooses the tiling that suits the budget.
//! 3. [`corner`] and [`draft`] cut each cluster into SuperWeights.
//! 4. [`allocate`] or [`stretch`] spends the budget on templates.
//! 5. [`scale`] sets the initial values of templates, coefficients and factors.

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
pub use survey::Survey;
pub(crate) use survey::WANTED_TEMPLATES;
