//! The plan: for every layer of every member, how its weight is put together from trainable numbers.
//!
//! ```text
//! layer ──tiles──► SuperWeights ──set──► template set: K templates of one block, its own or looked at in a bank
//!                       └──groups──► one α per group of layers: K numbers per cell, or K in all (Kronecker)
//! ```
//!
//! Search only ever writes plans, training only ever reads one. A plan is a JSON file that can be written by hand:
//! nothing in it has to come from this crate's planner, but everything in it is checked when it is read
//! ([`SharingPlan::from_json`]).

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::rect::Rect;
use crate::ids::{ClusterId, LayerId, SetId, SuperWeightId};
use crate::layer::{Layer, Member, Vector};
use crate::partition::Partition;

/// The version this crate writes and reads.
pub const VERSION: u32 = 1;

/// No set has more templates than this: far more than are of use, far fewer than would overflow a count.
pub(crate) const MOST_TEMPLATES: usize = 1 << 20;

/// Sides a grid's block may have.
pub(crate) const BLOCKS: RangeInclusive<usize> = 1..=4096;

/// How SuperWeights are made of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Tiling {
    /// Nothing is shared.
    Dense,
    /// A template is as large as its SuperWeight.
    Nested,
    /// A SuperWeight is a grid of cells of at most `block` × `block` channels.
    Grid {
        /// b.
        block: usize,
    },
    /// The same grid, but a template is as large as its SuperWeight: template k is pattern ⊗ block, one number per cell
    /// times one block. Patterns are trained and belong to the SuperWeight; a layer's coefficients are K numbers.
    Kronecker {
        /// b.
        block: usize,
    },
    /// Templates are as large as their layer and looked at in a bank of numbers that its cluster shares, stretched where that
    /// is smaller (Shapeshifter Networks).
    Stretched,
    /// Layers of one shape look at one matrix, each through factors of its own for every output and every input (BatchEnsemble).
    #[serde(rename = "rank-one")]
    RankOne,
}

impl Tiling {
    /// Side of a grid's blocks.
    pub fn block(self) -> Option<usize> {
        match self {
            Self::Dense | Self::Nested | Self::Stretched | Self::RankOne => None,
            Self::Grid { block } | Self::Kronecker { block } => Some(block),
        }
    }

    /// Whether templates are looked at in a bank that their cluster has.
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

/// A layer with its tiles; a layer without tiles is dense, its weight stored whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedLayer {
    /// The layer.
    pub layer: Layer,
    /// What it is composed of; together they cover the weight exactly once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<Tile>,
}

/// A SuperWeight as one layer uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tile {
    /// Which one.
    pub superweight: SuperWeightId,
    /// Where in the layer: the SuperWeight's rectangle, clipped to the layer.
    pub at: Rect,
    /// What the composed numbers are multiplied by: see [`Scale`](crate::Scale), the same for all tiles of a layer on one set.
    pub factor: f64,
}

/// Layers of one family that may draw on the same templates; of all families where these are looked at in a bank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Sorted.
    pub layers: Vec<LayerId>,
    /// Numbers in the bank that its templates are looked at in, where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<u64>,
}

/// K templates of one block shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateSet {
    /// Whose layers use it.
    pub cluster: ClusterId,
    /// Output channels, input channels, kernel height and width of one template.
    pub block: [usize; 4],
    /// K.
    pub templates: usize,
    /// Standard deviation the templates start with.
    #[serde(alias = "deviation")]
    pub std: f64,
    /// Length that a row of coefficients starts with; of patterns, where there are such.
    #[serde(default = "one", alias = "length")]
    pub row_norm: f64,
    /// Size of every coefficient at the start where there are patterns.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub gain: f64,
    /// Where in its cluster's bank the templates are, where they have no numbers of their own; `deviation` is the bank's then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
}

/// Templates as they are looked at in a bank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// First number of each template.
    pub at: Vec<u64>,
    /// Output and input channels that each is stretched from, bilinearly over `[out, in·kh·kw]`; the block's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<[usize; 2]>,
}

impl View {
    /// Output and input channels in the bank of a template of this block.
    pub fn source(&self, [rows, cols, ..]: [usize; 4]) -> [usize; 2] {
        self.from.unwrap_or([rows, cols])
    }
}

/// Of plans written before there was a choice.
fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(number: &f64) -> bool {
    *number == 1.0
}

impl TemplateSet {
    /// Numbers in one template.
    pub fn block_len(&self) -> u64 {
        self.block.iter().map(|&d| d as u64).product()
    }
}

/// A rectangle of a cluster's corner matrix, composed as cells of its template set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuperWeight {
    /// What it is made of.
    pub set: SetId,
    /// Where it lies in the corner matrix.
    pub at: Rect,
    /// Which layers use which coefficients; empty where the set has one template.
    pub groups: Vec<Group>,
}

impl SuperWeight {
    /// The layers of all groups.
    pub fn layers(&self) -> impl Iterator<Item = LayerId> {
        self.groups.iter().flat_map(|group| group.layers.iter().copied())
    }
}

/// Layers that use one α of one SuperWeight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Sorted.
    pub layers: Vec<LayerId>,
    /// Shape of α: cells that one of the layers uses (row by row), K; one row where there are patterns.
    pub shape: [usize; 2],
}

/// Every trainable number, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bill {
    /// Template numbers, patterns and banks included.
    pub templates: u64,
    /// Coefficients that exist now, and factors.
    pub coefficients: u64,
    /// Coefficients that refinement may add.
    pub reserved: u64,
    /// Scales and shifts.
    pub batch_norm: u64,
    /// Linear layers with one owner, and biases.
    pub classifier: u64,
    /// Stem and everything else that is not shared.
    pub dense: u64,
}

impl Bill {
    /// Every part by its name in the file.
    pub(crate) fn parts(&self) -> [(&'static str, u64); 6] {
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

    /// What counts against the budget.
    pub fn total(&self) -> u64 {
        self.trained() + self.reserved
    }

    /// Numbers that exist and are trained now.
    pub fn trained(&self) -> u64 {
        self.templates + self.coefficients + self.batch_norm + self.classifier + self.dense
    }
}

/// Which layers share what. See the module's head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharingPlan {
    /// [`VERSION`].
    pub version: u32,
    /// The networks.
    pub members: Vec<Member>,
    /// Never exceeded by `bill.total()`; none for plans without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// SharedRoles of the coefficients that every layer of its own would need, kept for refinement.
    pub reserve: f64,
    /// How SuperWeights are made.
    pub tiling: Tiling,
    /// All convolution and linear weights.
    pub layers: Vec<PlannedLayer>,
    /// All other trainable tensors, each with one owner.
    pub vectors: Vec<Vector>,
    /// Disjoint sets of layers.
    pub clusters: Vec<Cluster>,
    /// Trainable templates.
    pub template_sets: Vec<TemplateSet>,
    /// What layers are made of.
    pub superweights: Vec<SuperWeight>,
    /// Every trainable number.
    pub bill: Bill,
}

impl SharingPlan {
    /// The layers alone.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().map(|l| &l.layer)
    }

    /// A layer by id.
    pub fn layer(&self, id: LayerId) -> &Layer {
        &self.layers[id.0].layer
    }

    /// A SuperWeight by id.
    pub fn superweight(&self, id: SuperWeightId) -> &SuperWeight {
        &self.superweights[id.0]
    }

    /// A template set by id.
    pub fn set(&self, id: SetId) -> &TemplateSet {
        &self.template_sets[id.0]
    }

    /// Trainable numbers of the members if nothing were shared.
    pub fn dense_total(&self) -> u64 {
        self.layers().map(Layer::len).sum::<u64>() + self.vectors.iter().map(|v| v.len).sum::<u64>()
    }

    /// Budget minus bill.
    pub fn unused(&self) -> Option<u64> {
        self.budget.map(|budget| budget.saturating_sub(self.bill.total()))
    }

    /// Rows and columns of cells that a tile of this extent takes up.
    pub fn cells(&self, set: SetId, at: &Rect) -> [usize; 2] {
        let [rows, cols, ..] = self.set(set).block;
        [at.rows.len().div_ceil(rows), at.cols.len().div_ceil(cols)]
    }

    /// Layers that use each SuperWeight, with the cells they use, in the order of the layers.
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

    /// The cells of a SuperWeight that belong to the rows of a group's α, as (row, column) in the SuperWeight's grid:
    /// those that one of its layers uses, row by row. Clipped grids all start at the first cell, so their union is a
    /// staircase.
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

    /// Whether templates are patterns times blocks.
    pub fn has_patterns(&self) -> bool {
        matches!(self.tiling, Tiling::Kronecker { .. })
    }

    /// The cells of a SuperWeight that have a number in each of its patterns: those that one of its layers uses.
    pub fn pattern_cells(&self, id: SuperWeightId) -> Vec<[usize; 2]> {
        let layers = self.superweight(id).layers().collect();
        self.coefficient_cells(id, &Group { layers, shape: [0, 0] })
    }

    /// Rows of the α that these layers would use together.
    pub(crate) fn group_rows(&self, users: &Users, layers: &[LayerId]) -> usize {
        if self.has_patterns() { 1 } else { coefficient_rows(users, layers) }
    }

    /// Replaces the coefficient groups of one SuperWeight, whose users are given.
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

/// The layers that use a SuperWeight, sorted, with the rows and columns of cells each uses.
pub type Users = Vec<(LayerId, [usize; 2])>;

/// Cells that one of the layers uses: the union of grids which all start at the first cell.
pub(crate) fn coefficient_rows(users: &Users, layers: &[LayerId]) -> usize {
    let used =
        |id: &LayerId| users.binary_search_by_key(id, |&(user, _)| user).ok().map(|at| users[at].1);
    let mut grids: Vec<[usize; 2]> = layers.iter().filter_map(used).collect();
    grids.sort_by(|a, b| b.cmp(a)); // tall first, so that a grid adds to what is above the next
    let mut width = 0;
    let mut cells = 0;
    for (i, &[rows, cols]) in grids.iter().enumerate() {
        let below = grids.get(i + 1).map_or(0, |next| next[0]);
        width = cols.max(width);
        cells += (rows - below) * width;
    }
    cells
}
