//! What is shared, as the page draws it: layers with their tiles, and the SuperWeights and template
//! sets behind them.
//!
//! Coefficients are pictures here: a window of every α in 8 bits, as large as [`ROOM`] allows. An
//! ensemble has up to millions of coefficients, and the page has to open at once.

use serde::Serialize;
use superweight_plan::{Bill, Rect, SetId, SharingPlan};

use super::base64;
use crate::model::bank::coefficients_name;
use crate::run::{Tensors, Values};

/// Bytes that all pictures of coefficients together may have.
const ROOM: usize = 400_000;
/// Windows of an α in rows and columns, largest first. The first one with which all pictures fit
/// into [`ROOM`] is used.
const WINDOWS: [[usize; 2]; 6] = [[64, 64], [32, 64], [24, 32], [12, 24], [6, 16], [2, 8]];

/// A sharing plan, with the coefficients of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sharing {
    /// Name of the tiling, such as `grid 16×16` or `nested`.
    pub tiling: String,
    /// Architectures of the members.
    pub members: Vec<String>,
    /// All convolution and linear weights.
    pub layers: Vec<LayerView>,
    /// Layers of each cluster.
    pub clusters: Vec<Vec<usize>>,
    /// Template sets.
    pub sets: Vec<SetView>,
    /// SuperWeights: rectangles of corner matrices.
    pub superweights: Vec<SuperWeightView>,
    /// Number of parameters by part.
    pub bill: Bill,
    /// Parameter budget.
    pub budget: Option<u64>,
    /// Number of parameters without sharing.
    pub dense_total: u64,
}

/// A layer with its tiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayerView {
    /// Member of the layer.
    pub member: usize,
    /// Name of the layer in PyTorch.
    pub name: String,
    /// `conv`, `depthwise` or `linear`.
    pub kind: String,
    /// Output channels, input channels, kernel height and width.
    pub shape: [usize; 4],
    /// Position of the layer in its member.
    pub depth: usize,
    /// Cluster of the layer; none for a dense layer.
    pub cluster: Option<usize>,
    /// Tiles that the layer's weight is composed of.
    pub tiles: Vec<TileView>,
}

/// A SuperWeight in a layer: its index, first and last row, first and last column, factor.
pub type TileView = (usize, [usize; 4], f64);

/// A template set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SetView {
    /// Cluster whose layers use the set.
    pub cluster: usize,
    /// Output channels, input channels, kernel height and width of a template.
    pub block: [usize; 4],
    /// Number of templates K.
    pub templates: usize,
    /// Parameters of the bank that the templates are read from, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bank: Option<u64>,
    /// Whether the templates are multiplied by factors per output and input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub factors: bool,
    /// Output and input channels of the slices that the templates are stretched from, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<[usize; 2]>,
}

/// A SuperWeight with its coefficient groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SuperWeightView {
    /// Template set of the SuperWeight.
    pub set: usize,
    /// First and last row, first and last column in the corner matrix of its cluster.
    pub at: [usize; 4],
    /// Coefficient groups; empty if there is one template.
    pub groups: Vec<GroupView>,
}

/// Layers that use the same α.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupView {
    /// The layers.
    pub layers: Vec<usize>,
    /// Rows (cells) and columns (templates) of α.
    pub shape: [usize; 2],
    /// A picture of α; none without a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<Alpha>,
}

/// The first rows and columns of an α as bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Alpha {
    /// Number of rows and columns in the picture.
    pub shown: [usize; 2],
    /// Coefficient that the byte 127 stands for.
    pub most: f32,
    /// Signed bytes in base64.
    pub bytes: String,
}

impl Sharing {
    /// The view of a plan, with the coefficients of a bank if there is one.
    pub fn new(plan: &SharingPlan, bank: Option<&Tensors>) -> Self {
        let mut cluster = vec![None; plan.layers.len()];
        for (i, c) in plan.clusters.iter().enumerate() {
            c.layers.iter().for_each(|id| cluster[id.0] = Some(i));
        }
        let layers = plan.layers.iter().zip(cluster).map(|(planned, cluster)| {
            let layer = &planned.layer;
            LayerView {
                member: layer.member.0,
                name: layer.name.clone(),
                kind: format!("{:?}", layer.kind).to_lowercase(),
                shape: [layer.out, layer.inp, layer.kernel[0], layer.kernel[1]],
                depth: layer.depth,
                cluster,
                tiles: planned
                    .tiles
                    .iter()
                    .map(|t| (t.superweight.0, corners(&t.at), t.factor))
                    .collect(),
            }
        });
        let set = |set: &superweight_plan::TemplateSet| SetView {
            cluster: set.cluster.0,
            block: set.block,
            templates: set.templates,
            factors: plan.factor_parameters(SetId(0)) > 0,
            bank: plan.clusters[set.cluster.0].bank,
            from: set.view.as_ref().and_then(|view| view.from),
        };
        Self {
            tiling: plan.tiling.to_string(),
            members: plan.members.iter().map(|member| member.architecture.to_string()).collect(),
            layers: layers.collect(),
            clusters: plan
                .clusters
                .iter()
                .map(|c| c.layers.iter().map(|id| id.0).collect())
                .collect(),
            sets: plan.template_sets.iter().map(set).collect(),
            superweights: superweights(plan, bank),
            bill: plan.bill,
            budget: plan.budget,
            dense_total: plan.dense_total(),
        }
    }
}

/// First and last row, first and last column.
fn corners(at: &Rect) -> [usize; 4] {
    [at.rows.start, at.rows.end, at.cols.start, at.cols.end]
}

/// All SuperWeights with pictures of their coefficients.
fn superweights(plan: &SharingPlan, bank: Option<&Tensors>) -> Vec<SuperWeightView> {
    let window = window(plan);
    // In a set's α, rows are stored SuperWeight by SuperWeight, group by group.
    let mut next_row = vec![0; plan.template_sets.len()];
    let all = plan.superweights.iter().map(|superweight| {
        let SetId(set) = superweight.set;
        let alpha = bank.and_then(|bank| coefficients(bank, superweight.set));
        let groups = superweight.groups.iter().map(|group| {
            let [rows, templates] = group.shape;
            let first = next_row[set] * templates;
            next_row[set] += rows;
            let numbers = alpha.and_then(|alpha| alpha.get(first..first + rows * templates));
            GroupView {
                layers: group.layers.iter().map(|id| id.0).collect(),
                shape: group.shape,
                alpha: numbers.map(|numbers| picture(numbers, templates, window)),
            }
        });
        SuperWeightView { set, at: corners(&superweight.at), groups: groups.collect() }
    });
    all.collect()
}

/// Coefficients of a template set in a bank.
fn coefficients(bank: &Tensors, set: SetId) -> Option<&[f32]> {
    match bank.get(&coefficients_name(set))?.values() {
        Values::F32(numbers) => Some(numbers),
        _ => None,
    }
}

/// The largest window with which the pictures of all groups fit into [`ROOM`].
fn window(plan: &SharingPlan) -> [usize; 2] {
    let groups = || plan.superweights.iter().flat_map(|superweight| &superweight.groups);
    let size = |[rows, cols]: [usize; 2]| -> usize {
        groups().map(|g| g.shape[0].min(rows) * g.shape[1].min(cols) * 4 / 3 + 60).sum()
    };
    let fits = WINDOWS.into_iter().find(|&window| size(window) <= ROOM);
    fits.unwrap_or([0, 0])
}

/// A picture of the first rows and columns of an α.
fn picture(numbers: &[f32], templates: usize, [rows, cols]: [usize; 2]) -> Alpha {
    let cols = cols.min(templates);
    let shown: Vec<&[f32]> = numbers.chunks(templates).take(rows).map(|row| &row[..cols]).collect();
    let most = shown.iter().flat_map(|row| row.iter()).fold(0f32, |most, a| most.max(a.abs()));
    let byte = |a: &f32| if most > 0.0 { (a / most * 127.0).round() as i8 as u8 } else { 0 };
    let bytes: Vec<u8> = shown.iter().flat_map(|row| row.iter().map(byte)).collect();
    Alpha { shown: [shown.len(), cols], most, bytes: base64::encode(&bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Tensor;

    #[test]
    fn a_group_shows_the_rows_of_its_alpha() {
        let recipe = "members = ['wrn-10-1']\nbudget = '50%'\n[plan]\ntiling = 'grid'\nblock = 8";
        let no_overrides: [&str; 0] = [];
        let resolved =
            crate::recipe::Recipe::parse("r", recipe, &no_overrides).unwrap().resolve().unwrap();
        let plan = resolved.plan_request().unwrap().plan().unwrap();
        let mut bank = Tensors::default();
        let mut rows = vec![0; plan.template_sets.len()];
        for superweight in &plan.superweights {
            rows[superweight.set.0] += superweight.groups.iter().map(|g| g.shape[0]).sum::<usize>();
        }
        for (i, set) in plan.template_sets.iter().enumerate() {
            // Every coefficient of row r is r + 1, so the largest value of a window is in its last
            // row.
            let numbers =
                (0..rows[i]).flat_map(|r| vec![r as f32 + 1.0; set.templates]).collect::<Vec<_>>();
            bank.insert(
                &coefficients_name(SetId(i)),
                Tensor::new(&[rows[i], set.templates], numbers),
            );
        }
        let sharing = Sharing::new(&plan, Some(&bank));
        let mut before = vec![0; plan.template_sets.len()];
        let mut seen = 0;
        for superweight in &sharing.superweights {
            for group in &superweight.groups {
                let alpha = group.alpha.as_ref().unwrap();
                let last = before[superweight.set] + alpha.shown[0];
                assert_eq!(alpha.most, last as f32, "the last row shown is the largest");
                before[superweight.set] += group.shape[0];
                seen += 1;
            }
        }
        assert!(seen > 2);
        let bare = Sharing::new(&plan, None);
        assert!(bare.superweights.iter().flat_map(|s| &s.groups).all(|g| g.alpha.is_none()));
    }

    #[test]
    fn a_picture_keeps_signs_in_eight_bits() {
        let alpha = picture(&[0.5, -1.0, 0.0, 0.25, 9.0, 9.0], 3, [1, 2]);
        assert_eq!(alpha, Alpha { shown: [1, 2], most: 1.0, bytes: base64::encode(&[64, 129]) });
    }
}
