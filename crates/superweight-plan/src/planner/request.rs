//! What to plan.

use std::fmt;

use super::cluster::{Clustering, SharedRoles};
use super::scale::Scale;
use crate::error::PlanError;
use crate::layer::{Member, Tensors};
use crate::partition::{Partition, check_partition};
use crate::plan::{BLOCKS, Tiling};

/// Which tiling is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TilingChoice {
    /// Nested if it fits twice or nothing has to be saved, else a grid with room, else Kronecker.
    #[default]
    Auto,
    /// Always nested.
    Nested,
    /// Always grid.
    Grid,
    /// Always grid, with templates that are patterns times blocks.
    Kronecker,
    /// Templates of the size of their layer, looked at in a bank: Shapeshifter Networks.
    Stretched,
    /// One template for all layers of one shape in a cluster, times factors of rank one that each has for itself: BatchEnsemble.
    RankOne,
}

impl TilingChoice {
    /// Whether templates are looked at in banks, over all kernel sizes.
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

/// Which layers use one α of a SuperWeight when training starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Coefficients {
    /// All of them: hard sharing, to be refined.
    #[default]
    Shared,
    /// Each its own.
    PerLayer,
    /// Layers of one set together, wherever they use the same SuperWeight; layers not named each their own.
    Explicit(Partition),
}

/// What to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    /// The networks.
    pub members: Vec<Member>,
    /// Every trainable number counts against it; none for as little sharing as is useful.
    pub budget: Option<u64>,
    /// Which layers may share.
    pub clusters: Clustering,
    /// What templates are.
    pub tiling: TilingChoice,
    /// b; by default the first of 8, 16 and 32 of which the budget pays for three templates in every set of a grid, with patterns that of 2, 4, …, 64
    /// which makes templates smallest of those that can use the budget up.
    pub block: Option<usize>,
    /// Who shares coefficients.
    pub coefficients: Coefficients,
    /// `refine.reserve`: share of the own coefficients of every layer that is kept for refinement; 0 without it.
    pub reserve: f64,
    /// Whether stem and classifier take part.
    pub shared_roles: SharedRoles,
    /// What numbers start with, and so how fast they learn; where nobody says, [`Scale::default_for`] of the tiling.
    pub scale: Option<Scale>,
    /// No set gets more templates than this, or than it needs: the one bank of 4 that coefficients are clustered on. All of them get so many
    /// where templates are looked at in a bank.
    pub max_templates: Option<usize>,
}

impl PlanRequest {
    /// Defaults for everything but members and budget.
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

    /// Trainable numbers of all members if nothing is shared.
    pub fn dense_total(&self) -> Result<u64, PlanError> {
        Ok(self.check()?.total())
    }

    /// The same with its tiling fixed, for plans that must keep it.
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
