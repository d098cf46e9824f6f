//! Indices of the rows of K coefficients (or patterns) in the tensor of each template set.
//!
//! The rows of a set are ordered by SuperWeight, then by coefficient group, then by cell. One row
//! mixes one cell. Without patterns that row is trained and is a row of α. With patterns it is a
//! product: the cell's row of patterns times the group's only row of α.
//!
//! | rows | one row per | trained |
//! |---|---|---|
//! | [`MixRows::cells`] | group and cell | without patterns |
//! | [`Rows::coefficients`] | group and cell; with patterns, group | always |
//! | [`Rows::patterns`] | SuperWeight and cell | with patterns |

use std::collections::HashMap;

use superweight_plan::{Group, LayerId, SetId, SharingPlan, SuperWeight, SuperWeightId};

/// Rows of one coefficient group.
#[derive(Debug)]
struct GroupRows {
    /// Index of the group's first row in its set.
    first: usize,
    /// For each row of the grid of cells, the index of its first cell, relative to `first`. The
    /// cells of a group form a staircase. Empty if the group has one row for all cells.
    starts: Vec<usize>,
}

/// Row indices of all template sets of a plan.
#[derive(Debug)]
pub(crate) struct Rows {
    groups: HashMap<(SuperWeightId, LayerId), usize>,
    rows: Vec<GroupRows>,
    /// Number of rows in use, per set.
    live: Vec<usize>,
    /// Number of rows with space in the tensor, per set.
    capacity: Vec<usize>,
}

impl Rows {
    /// Rows of the coefficients α.
    pub fn coefficients(plan: &SharingPlan) -> Self {
        Self::of_groups(plan, !plan.has_patterns(), |id| plan.superweight(id).groups.clone())
    }

    /// Rows of the patterns: one group per SuperWeight, whose layers all use the same patterns.
    pub fn patterns(plan: &SharingPlan) -> Self {
        let all = |superweight: &SuperWeight| {
            let layers: Vec<_> = superweight.layers().collect();
            if layers.is_empty() { vec![] } else { vec![Group { layers, shape: [0, 0] }] }
        };
        Self::of_groups(plan, true, |id| all(plan.superweight(id)))
    }

    /// Rows for these groups of every SuperWeight: one row per cell (`each_cell`), or one per
    /// group.
    fn of_groups(
        plan: &SharingPlan,
        each_cell: bool,
        groups: impl Fn(SuperWeightId) -> Vec<Group>,
    ) -> Self {
        let mut this =
            Self { groups: HashMap::new(), rows: vec![], live: vec![], capacity: vec![] };
        let users = plan.users();
        for set in (0..plan.template_sets.len()).map(SetId) {
            let (mut live, mut per_layer) = (0, 0);
            for id in superweights_of(plan, set) {
                let rows_of = |(_, [down, across]): &(LayerId, [usize; 2])| {
                    if each_cell { down * across } else { 1 }
                };
                per_layer += users[id.0].iter().map(rows_of).sum::<usize>();
                for group in groups(id) {
                    let (mut starts, mut rows) = (vec![], 1);
                    if each_cell {
                        let cells = plan.coefficient_cells(id, &group);
                        let down = cells.last().map_or(0, |cell| cell[0] + 1);
                        starts =
                            (0..down).map(|r| cells.partition_point(|cell| cell[0] < r)).collect();
                        rows = cells.len();
                    }
                    this.groups
                        .extend(group.layers.iter().map(|&layer| ((id, layer), this.rows.len())));
                    this.rows.push(GroupRows { first: live, starts });
                    live += rows;
                }
            }
            this.live.push(live);
            this.capacity.push(if plan.reserve > 0.0 { per_layer.max(live) } else { live });
        }
        this
    }

    /// Number of rows of a set that are in use.
    pub fn live(&self, set: SetId) -> usize {
        self.live[set.0]
    }

    /// Number of rows of a set that its tensor has space for, including those that refinement may
    /// add.
    pub fn capacity(&self, set: SetId) -> usize {
        self.capacity[set.0]
    }

    /// Index of the row that mixes a cell of a SuperWeight in a layer; 0 for a set with one
    /// template, which has no rows.
    pub fn row(&self, superweight: SuperWeightId, layer: LayerId, [r, c]: [usize; 2]) -> usize {
        self.groups.get(&(superweight, layer)).map_or(0, |&group| {
            let GroupRows { first, starts } = &self.rows[group];
            first + starts.get(r).map_or(0, |start| start + c)
        })
    }
}

/// Rows that mix cells, and the rows of α that they are made of. Without patterns both are the
/// same.
#[derive(Debug)]
pub(crate) struct MixRows {
    /// One row per group and cell.
    pub cells: Rows,
    /// Rows of α.
    pub coefficients: Rows,
}

impl MixRows {
    /// Rows for the coefficient groups of the plan.
    pub fn of_plan(plan: &SharingPlan) -> Self {
        let cells = Rows::of_groups(plan, true, |id| plan.superweight(id).groups.clone());
        Self { cells, coefficients: Rows::coefficients(plan) }
    }

    /// Rows for a plan in which every layer is a coefficient group of its own.
    pub fn per_layer(plan: &SharingPlan) -> Self {
        let rows = |each_cell| {
            Rows::of_groups(plan, each_cell, |id| one_group_per_layer(plan.superweight(id)))
        };
        Self { cells: rows(true), coefficients: rows(!plan.has_patterns()) }
    }
}

/// Returns one group per layer of a SuperWeight, sorted by layer.
fn one_group_per_layer(superweight: &SuperWeight) -> Vec<Group> {
    let mut groups: Vec<_> =
        superweight.layers().map(|layer| Group { layers: vec![layer], shape: [0, 0] }).collect();
    groups.sort_by_key(|group| group.layers[0]);
    groups
}

/// Number of coefficient rows in use, per set. The tensor may have space for more after them.
pub fn live_rows(plan: &SharingPlan) -> Vec<usize> {
    let rows = Rows::coefficients(plan);
    (0..plan.template_sets.len()).map(|i| rows.live(SetId(i))).collect()
}

/// Number of rows of patterns, per set; 0 for a set without patterns.
pub fn pattern_rows(plan: &SharingPlan) -> Vec<usize> {
    let rows = Rows::patterns(plan);
    let has = |set: &superweight_plan::TemplateSet| plan.has_patterns() && set.templates > 1;
    plan.template_sets
        .iter()
        .enumerate()
        .map(|(i, set)| if has(set) { rows.live(SetId(i)) } else { 0 })
        .collect()
}

/// Ids of the SuperWeights that are mixed from a set.
pub(super) fn superweights_of(
    plan: &SharingPlan,
    set: SetId,
) -> impl Iterator<Item = SuperWeightId> + '_ {
    let all = plan.superweights.iter().enumerate();
    all.filter(move |(_, superweight)| superweight.set == set).map(|(i, _)| SuperWeightId(i))
}
