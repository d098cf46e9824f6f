//! [`SharingPlan`] and its parts.
//!
//! ```text
//! layer ──tiles──► SuperWeights ──set──► template set: K templates of one shape, stored in the set
//!                       │                              or read from the cluster's bank
//!                       └──groups──► one α per group of layers: K numbers per cell of the grid,
//!                                    or K in all (Kronecker)
//! ```
//!
//! Search writes plans and training reads them. A plan is a JSON file that can also be written by
//! hand or by another program: [`SharingPlan::from_json`] checks everything that is in it.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::rect::Rect;
use crate::ids::{ClusterId, LayerId, SetId, SuperWeightId};
use crate::layer::{Layer, Member, Vector};
use crate::partition::Partition;

/// Version of the plan format that this crate writes and reads.
pub const VERSION: u32 = 1;

/// Largest number of templates in a set: far more than are useful, and too few to overflow a count.
pub(crate) const MAX_TEMPLATES: usize = 1 << 20;

/// Accepted sides of the blocks of grid and Kronecker tiling, in channels.
pub(crate) const BLOCKS: RangeInclusive<usize> = 1..=4096;

/// How a SuperWeight is made of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Tiling {
    /// Nothing is shared; the plan has no clusters.
    Dense,
    /// A template has the shape of its SuperWeight (the paper, §2.1).
    Nested,
    /// A SuperWeight is a grid of cells of at most `block` × `block` channels, each mixed from the
    /// templates with its own row of coefficients.
    Grid {
        /// Side b of a cell, in channels.
        block: usize,
    },
    /// A template has the shape of its SuperWeight and is a Kronecker product pattern ⊗ block.
    ///
    /// The pattern has one trained parameter per cell of the grid and belongs to the SuperWeight;
    /// the block belongs to the template set. Coefficients are K numbers per group of layers.
    Kronecker {
        /// Side b of a block, in channels.
        block: usize,
    },
    /// A template has the shape of its layer and is read from the bank of its cluster. Where the
    /// bank is smaller than the layer, a smaller matrix is interpolated (Shapeshifter Networks).
    Stretched,
    /// Layers of one shape read one matrix; each layer multiplies it by its own factor per output
    /// and per input (BatchEnsemble).
    #[serde(rename = "rank-one")]
    RankOne,
}

impl Tiling {
    /// Side of the blocks of grid and Kronecker tiling; `None` for other tilings.
    pub fn block(self) -> Option<usize> {
        match self {
            Self::Dense | Self::Nested | Self::Stretched | Self::RankOne => None,
            Self::Grid { block } | Self::Kronecker { block } => Some(block),
        }
    }

    /// Whether templates are read from the bank of their cluster.
    pub fn has_banks(self) -> bool {
        matches!(self, Self::Stretched | Self::RankOne)
    }
}

impl fmt::Display for Tiling {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Dense => write!(f, "dense"),
            Self::Nested => write!(f, "nested"),
            Self::Grid { block } => write!(f, "grid {block}×{block}"),
            Self::Kronecker { block } => write!(f, "Kronecker {block}×{block}"),
            Self::Stretched => write!(f, "stretched"),
            Self::RankOne => write!(f, "rank-one"),
        }
    }
}

/// A layer with its tiles. A layer without tiles is dense: its whole weight is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlannedLayer {
    /// Member, name and shape of the weight.
    pub layer: Layer,
    /// SuperWeights that compose the weight. Their rectangles cover it exactly once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<Tile>,
}

/// A SuperWeight in the weight of one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tile {
    /// The SuperWeight.
    pub superweight: SuperWeightId,
    /// Rectangle in the layer's weight: that of the SuperWeight, clipped to the layer.
    pub at: Rect,
    /// Constant factor of the composed values in this layer, chosen by [`Scale`](crate::Scale).
    ///
    /// The same for all tiles of a layer that use one template set.
    pub factor: f64,
}

/// Layers that may use the same templates.
///
/// They have the same kind and kernel size, unless the tiling has banks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Cluster {
    /// Layers of the cluster, sorted.
    pub layers: Vec<LayerId>,
    /// Number of parameters in the bank of the cluster; `None` for tilings without banks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<u64>,
}

/// K templates of one shape, used by layers of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TemplateSet {
    /// Cluster whose layers use the set.
    pub cluster: ClusterId,
    /// Shape of one template (of its block, with Kronecker tiling): output channels, input
    /// channels, kernel height and kernel width.
    pub block: [usize; 4],
    /// Number of templates, K.
    pub templates: usize,
    /// Standard deviation of the templates' initial values; that of the whole bank where templates
    /// are read from a bank.
    #[serde(alias = "deviation")]
    pub std: f64,
    /// Initial L2 norm of one row of coefficients; of one row of patterns with Kronecker tiling.
    #[serde(default = "one", alias = "length")]
    pub row_norm: f64,
    /// Initial absolute value of every coefficient with Kronecker tiling; 1 for other tilings.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub gain: f64,
    /// Location of the templates in the cluster's bank; `None` if the set stores its own templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
}

/// Location of the templates of one set in the bank of their cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct View {
    /// Offset of the first parameter of each template.
    pub at: Vec<u64>,
    /// Output and input channels of the smaller matrix in the bank that is interpolated bilinearly,
    /// over `[out, in·kh·kw]`, to each template. `None` if templates are read as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<[usize; 2]>,
}

impl View {
    /// Output and input channels that a template with this block takes up in the bank.
    pub fn source(&self, [rows, cols, ..]: [usize; 4]) -> [usize; 2] {
        self.from.unwrap_or([rows, cols])
    }
}

/// Default of fields that older plans do not have.
fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(number: &f64) -> bool {
    *number == 1.0
}

impl TemplateSet {
    /// Number of parameters in one template (in its block, with Kronecker tiling).
    pub fn block_len(&self) -> u64 {
        self.block.iter().map(|&d| d as u64).product()
    }
}

/// A rectangle of a cluster's corner matrix, mixed from one template set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SuperWeight {
    /// Template set that the SuperWeight is mixed from.
    pub set: SetId,
    /// Rectangle in the corner matrix.
    pub at: Rect,
    /// Coefficient groups; empty if the set has one template, which needs no coefficients.
    pub groups: Vec<Group>,
}

impl SuperWeight {
    /// Layers of all coefficient groups; none if the set has one template.
    pub fn layers(&self) -> impl Iterator<Item = LayerId> {
        self.groups.iter().flat_map(|group| group.layers.iter().copied())
    }
}

/// A coefficient group: the layers that use the same α of one SuperWeight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Layers of the group, sorted.
    pub layers: Vec<LayerId>,
    /// Shape of α, `[rows, K]`: one row per cell that any of the layers uses, in row-major order of
    /// the cells. With Kronecker tiling α has one row.
    pub shape: [usize; 2],
}

/// Parameters of a plan, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Bill {
    /// Parameters of templates, patterns and banks.
    pub templates: u64,
    /// Coefficients of the present groups, and rank-one factors.
    pub coefficients: u64,
    /// Coefficients that are not trained yet but may be added by refinement.
    pub reserved: u64,
    /// Batch-norm scales and shifts.
    pub batch_norm: u64,
    /// Weights of dense linear layers, and all biases.
    pub classifier: u64,
    /// Weights of dense convolutions, such as the stem.
    pub dense: u64,
}

impl Bill {
    /// Name in the plan file and size of every part.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        let Self { templates, coefficients, reserved, batch_norm, classifier, dense } = *self;
        [
            ("templates", templates),
            ("coefficients", coefficients),
            ("reserved", reserved),
            ("batch_norm", batch_norm),
            ("classifier", classifier),
            ("dense", dense),
        ]
    }

    /// Number of parameters that counts against the budget: trained and reserved.
    pub fn total(&self) -> u64 {
        self.trained() + self.reserved
    }

    /// Number of parameters that are trained now, without the reserve.
    pub fn trained(&self) -> u64 {
        self.templates + self.coefficients + self.batch_norm + self.classifier + self.dense
    }
}

/// States for every layer of every member how its weight is composed, and what that costs.
///
/// [`validate`](Self::validate) lists what must hold of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SharingPlan {
    /// Version of the format, [`VERSION`].
    pub version: u32,
    /// Networks that the plan is for.
    pub members: Vec<Member>,
    /// Largest allowed value of [`Bill::total`]; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// Fraction, 0 to 1, of the coefficients that all layers would need if none shared any.
    ///
    /// The budget pays for at least that many, so that refinement can add them.
    pub reserve: f64,
    /// How SuperWeights are made of templates.
    pub tiling: Tiling,
    /// Weights of convolutions and linear layers, shared or dense.
    pub layers: Vec<PlannedLayer>,
    /// Batch-norm vectors and biases, which are never shared.
    pub vectors: Vec<Vector>,
    /// Disjoint sets of layers that may use the same templates.
    pub clusters: Vec<Cluster>,
    /// Template sets of all clusters.
    pub template_sets: Vec<TemplateSet>,
    /// SuperWeights of all clusters.
    pub superweights: Vec<SuperWeight>,
    /// Number of parameters by part.
    pub bill: Bill,
}

impl SharingPlan {
    /// All layers, without their tiles.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().map(|l| &l.layer)
    }

    /// Returns the layer with this id.
    pub fn layer(&self, id: LayerId) -> &Layer {
        &self.layers[id.0].layer
    }

    /// Returns the SuperWeight with this id.
    pub fn superweight(&self, id: SuperWeightId) -> &SuperWeight {
        &self.superweights[id.0]
    }

    /// Returns the template set with this id.
    pub fn set(&self, id: SetId) -> &TemplateSet {
        &self.template_sets[id.0]
    }

    /// Number of parameters of the members without sharing.
    pub fn dense_total(&self) -> u64 {
        self.layers().map(Layer::len).sum::<u64>() + self.vectors.iter().map(|v| v.len).sum::<u64>()
    }

    /// Parameters that the budget allows and the plan does not use; `None` without a budget.
    pub fn unused(&self) -> Option<u64> {
        self.budget.map(|budget| budget.saturating_sub(self.bill.total()))
    }

    /// Rows and columns of the grid of cells that covers a rectangle, with blocks of this set.
    pub fn cells(&self, set: SetId, at: &Rect) -> [usize; 2] {
        let [rows, cols, ..] = self.set(set).block;
        [at.rows.len().div_ceil(rows), at.cols.len().div_ceil(cols)]
    }

    /// For each SuperWeight, the layers that use it and the grid of cells that each layer uses.
    pub fn users(&self) -> Vec<Users> {
        let mut users = vec![vec![]; self.superweights.len()];
        for (i, layer) in self.layers.iter().enumerate() {
            for tile in &layer.tiles {
                let cells = self.cells(self.superweight(tile.superweight).set, &tile.at);
                users[tile.superweight.0].push((LayerId(i), cells));
            }
        }
        users
    }

    /// Cells of a SuperWeight's grid, as (row, column), in the order of the rows of a group's α.
    ///
    /// These are the cells that any layer of the group uses, in row-major order. The grid of every
    /// layer starts at the first cell, so the union of the grids is a staircase.
    pub fn coefficient_cells(&self, id: SuperWeightId, group: &Group) -> Vec<[usize; 2]> {
        let superweight = self.superweight(id);
        let mut widths = vec![0; self.cells(superweight.set, &superweight.at)[0]];
        for tile in group.layers.iter().flat_map(|layer| &self.layers[layer.0].tiles) {
            if tile.superweight == id {
                let [rows, cols] = self.cells(superweight.set, &tile.at);
                widths[..rows].iter_mut().for_each(|width| *width = cols.max(*width));
            }
        }
        let widths = widths.into_iter().enumerate();
        widths.flat_map(|(row, width)| (0..width).map(move |col| [row, col])).collect()
    }

    /// Whether templates are patterns times blocks, i.e. the tiling is Kronecker.
    pub fn has_patterns(&self) -> bool {
        matches!(self.tiling, Tiling::Kronecker { .. })
    }

    /// Cells of a SuperWeight that have a parameter in its patterns: those that any layer uses.
    pub fn pattern_cells(&self, id: SuperWeightId) -> Vec<[usize; 2]> {
        let layers = self.superweight(id).layers().collect();
        self.coefficient_cells(id, &Group { layers, shape: [0, 0] })
    }

    /// Number of rows of α in a coefficient group of these layers.
    pub(crate) fn group_rows(&self, users: &Users, layers: &[LayerId]) -> usize {
        if self.has_patterns() { 1 } else { coefficient_rows(users, layers) }
    }

    /// Replaces the coefficient groups of one SuperWeight. `users` are those of the SuperWeight.
    pub(crate) fn set_groups(&mut self, id: SuperWeightId, users: &Users, groups: Partition) {
        let templates = self.set(self.superweight(id).set).templates;
        let group = |mut layers: Vec<LayerId>| {
            layers.sort();
            let rows = self.group_rows(users, &layers);
            Group { layers, shape: [rows, templates] }
        };
        let mut groups: Vec<_> = groups.into_iter().map(group).collect();
        groups.sort_by_key(|group| group.layers[0]);
        self.superweights[id.0].groups = groups;
    }
}

/// The layers that use one SuperWeight, sorted by id, each with the rows and columns of cells it
/// uses.
pub type Users = Vec<(LayerId, [usize; 2])>;

/// Number of cells that any of these layers uses. All their grids start at the first cell.
pub(crate) fn coefficient_rows(users: &Users, layers: &[LayerId]) -> usize {
    let used =
        |id: &LayerId| users.binary_search_by_key(id, |&(user, _)| user).ok().map(|at| users[at].1);
    let mut grids: Vec<[usize; 2]> = layers.iter().filter_map(used).collect();
    // From the tallest grid to the lowest: rows below the next grid are as wide as the widest so
    // far.
    grids.sort_by(|a, b| b.cmp(a));
    let mut width = 0;
    let mut cells = 0;
    for (i, &[rows, cols]) in grids.iter().enumerate() {
        let below = grids.get(i + 1).map_or(0, |next| next[0]);
        width = cols.max(width);
        cells += (rows - below) * width;
    }
    cells
}
