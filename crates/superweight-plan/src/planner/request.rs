//! [`PlanRequest`]: what to plan, with a default for everything but members and budget.

use std::fmt;

use super::cluster::{Clustering, SharedRoles};
use super::scale::Scale;
use crate::error::PlanError;
use crate::layer::{Member, Tensors};
use crate::partition::{Partition, check_partition};
use crate::plan::{BLOCKS, Tiling};

/// The requested tiling. See [`Tiling`] for what each one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TilingChoice {
    /// Chosen by the budget.
    ///
    /// Nested if the budget is at least twice nested's smallest, or if nothing needs to be shared.
    /// Else grid, if the budget pays for three templates in every set. Else Kronecker.
    #[default]
    Auto,
    /// Nested: a template has the shape of its SuperWeight.
    Nested,
    /// Grid: a SuperWeight is a grid of cells.
    Grid,
    /// Kronecker: a template is a pattern times a block.
    Kronecker,
    /// Stretched: templates are read from a bank and interpolated (Shapeshifter Networks).
    Stretched,
    /// Rank-one: layers of one shape share a matrix, each with its own factors (BatchEnsemble).
    RankOne,
}

impl TilingChoice {
    /// Whether templates are read from banks, so that clusters may hold layers of all families.
    pub fn has_banks(self) -> bool {
        matches!(self, Self::Stretched | Self::RankOne)
    }
}

impl fmt::Display for TilingChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Nested => "nested",
            Self::Grid => "grid",
            Self::Kronecker => "kronecker",
            Self::Stretched => "stretched",
            Self::RankOne => "rank-one",
        })
    }
}

/// The coefficient groups of every SuperWeight at the start of training.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Coefficients {
    /// One group: all layers use the same α (hard sharing).
    #[default]
    Shared,
    /// One group per layer: every layer has its own α (soft sharing).
    PerLayer,
    /// These groups, wherever their layers use the same SuperWeight. Layers in none of them have
    /// their own α.
    Explicit(Partition),
}

/// A request for a plan.
///
/// [`PlanRequest::new`] fills in the defaults; [`plan`](Self::plan) makes the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    /// Networks to plan for.
    pub members: Vec<Member>,
    /// Largest number of trainable parameters. `None`: every set gets as many templates as are
    /// useful.
    pub budget: Option<u64>,
    /// Which layers may use the same templates.
    pub clusters: Clustering,
    /// How SuperWeights are made of templates.
    pub tiling: TilingChoice,
    /// Side of the blocks of grid and Kronecker tiling, in channels. `None` chooses by the budget.
    ///
    /// Grid: the first of 8, 16 and 32 for which the budget pays for three templates in every set.
    /// Kronecker: of 2, 4, 8, …, 64 those that leave the least of the budget unused; of these the
    /// one with the smallest templates.
    pub block: Option<usize>,
    /// Coefficient groups at the start of training.
    pub coefficients: Coefficients,
    /// Fraction, 0 to 1, of the coefficients that all layers would need if none shared any, to be
    /// paid for so that refinement can add them. 0 without refinement, 1 by default.
    pub reserve: f64,
    /// Whether stem and classifier share.
    pub shared_roles: SharedRoles,
    /// Initial values of templates, coefficients and factors, which decide how fast each learns.
    /// `None`: [`Scale::default_for`] the tiling.
    pub scale: Option<Scale>,
    /// Limit on the templates of a set, but never fewer than its tiling needs. With stretched
    /// tiling every set gets exactly this many. Clustering by coefficients plans with 4.
    pub max_templates: Option<usize>,
}

impl PlanRequest {
    /// A request with defaults for everything but members and budget.
    pub fn new(members: Vec<Member>, budget: impl Into<Option<u64>>) -> Self {
        Self {
            members,
            budget: budget.into(),
            clusters: Clustering::default(),
            tiling: TilingChoice::default(),
            block: None,
            coefficients: Coefficients::default(),
            reserve: 1.0,
            shared_roles: SharedRoles::default(),
            scale: None,
            max_templates: None,
        }
    }

    /// Number of parameters of all members without sharing.
    pub fn dense_total(&self) -> Result<u64, PlanError> {
        Ok(self.check()?.total())
    }

    /// Returns the request with this tiling and block. A dense tiling leaves the request unchanged.
    pub fn with_tiling(&self, tiling: Tiling) -> Self {
        let mut request = self.clone();
        match tiling {
            Tiling::Dense => {}
            Tiling::Nested => request.tiling = TilingChoice::Nested,
            Tiling::Stretched => request.tiling = TilingChoice::Stretched,
            Tiling::RankOne => request.tiling = TilingChoice::RankOne,
            Tiling::Grid { block } => {
                (request.tiling, request.block) = (TilingChoice::Grid, Some(block));
            }
            Tiling::Kronecker { block } => {
                (request.tiling, request.block) = (TilingChoice::Kronecker, Some(block));
            }
        }
        request
    }

    /// Checks the request and lists the tensors of its members.
    pub(super) fn check(&self) -> Result<Tensors, PlanError> {
        if self.members.is_empty() {
            return Err(PlanError::NoMembers);
        }
        if !(0.0..=1.0).contains(&self.reserve) {
            return Err(PlanError::Reserve { reserve: self.reserve });
        }
        if let Some(block) = self.block.filter(|block| !BLOCKS.contains(block)) {
            return Err(PlanError::Block { block });
        }
        let tensors = Tensors::of(&self.members)?;
        if let Coefficients::Explicit(sets) = &self.coefficients {
            check_partition(&tensors.layers, sets, "coefficients")?;
        }
        Ok(tensors)
    }
}
