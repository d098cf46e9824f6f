//! Where rows of K numbers lie: those of a set, SuperWeight after SuperWeight, group after group, cell after cell.
//!
//! What makes a cell is one row of the mix. Without patterns that row is trained and is α itself; with them it is a row of
//! patterns times the one row that α has for the group:
//!
//! | rows | a row per | trained |
//! |---|---|---|
//! | [`MixRows::cells`] | group and cell | without patterns |
//! | [`Rows::coefficients`] | group and cell; with patterns, group | always |
//! | [`Rows::patterns`] | SuperWeight and cell | with patterns |

use std::collections::HashMap;

use superweight_plan::{Group, LayerId, SetId, SharingPlan, SuperWeight, SuperWeightId};

/// Rows of one group.
#[derive(Debug)]
struct GroupRows {
    /// Its first row.
    first: usize,
    /// Row of each row of cells, counted from `first`: groups use staircases of cells. Empty where all cells have one row.
    starts: Vec<usize>,
}

/// Rows of a plan.
#[derive(Debug)]
pub(crate) struct Rows {
    groups: HashMap<(SuperWeightId, LayerId), usize>,
    rows: Vec<GroupRows>,
    live: Vec<usize>,
    capacity: Vec<usize>,
}

impl Rows {
    /// The rows of α.
    pub fn coefficients(plan: &SharingPlan) -> Self {
        Self::under(plan, !plan.has_patterns(), |id| plan.superweight(id).groups.clone())
    }

    /// The rows of patterns, where there are such.
    pub fn patterns(plan: &SharingPlan) -> Self {
        let all = |superweight: &SuperWeight| {
            let layers: Vec<_> = superweight.layers().collect();
            if layers.is_empty() { vec![] } else { vec![Group { layers, shape: [0, 0] }] }
        };
        Self::under(plan, true, |id| all(plan.superweight(id)))
    }

    fn under(
        plan: &SharingPlan,
        each_cell: bool,
        groups: impl Fn(SuperWeightId) -> Vec<Group>,
    ) -> Self {
        let mut this =
            Self { groups: HashMap::new(), rows: vec![], live: vec![], capacity: vec![] };
        let users = plan.users();
        for set in (0..plan.template_sets.len()).map(SetId) {
            let (mut live, mut own) = (0, 0);
            for id in superweights_of(plan, set) {
                let rows_of = |(_, [down, across]): &(LayerId, [usize; 2])| {
                    if each_cell { down * across } else { 1 }
                };
                own += users[id.0].iter().map(rows_of).sum::<usize>();
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
            this.capacity.push(if plan.reserve > 0.0 { own.max(live) } else { live });
        }
        this
    }

    /// Rows in use.
    pub fn live(&self, set: SetId) -> usize {
        self.live[set.0]
    }

    /// Rows there is room for.
    pub fn capacity(&self, set: SetId) -> usize {
        self.capacity[set.0]
    }

    /// The row of a cell of a SuperWeight for a layer; 0 where there are none: the set is one block.
    pub fn row(&self, superweight: SuperWeightId, layer: LayerId, [r, c]: [usize; 2]) -> usize {
        self.groups.get(&(superweight, layer)).map_or(0, |&group| {
            let GroupRows { first, starts } = &self.rows[group];
            first + starts.get(r).map_or(0, |start| start + c)
        })
    }
}

/// What cells are mixed by, a row per group and cell, and the rows of α that has a part in them: without patterns the same.
#[derive(Debug)]
pub(crate) struct MixRows {
    pub cells: Rows,
    pub coefficients: Rows,
}

impl MixRows {
    /// Of the plan's groups.
    pub fn of(plan: &SharingPlan) -> Self {
        let cells = Rows::under(plan, true, |id| plan.superweight(id).groups.clone());
        Self { cells, coefficients: Rows::coefficients(plan) }
    }

    /// If every layer were a group.
    pub fn own(plan: &SharingPlan) -> Self {
        let own = |each_cell| Rows::under(plan, each_cell, |id| alone(plan.superweight(id)));
        Self { cells: own(true), coefficients: own(!plan.has_patterns()) }
    }
}

/// A group per layer.
fn alone(superweight: &SuperWeight) -> Vec<Group> {
    let mut groups: Vec<_> =
        superweight.layers().map(|layer| Group { layers: vec![layer], shape: [0, 0] }).collect();
    groups.sort_by_key(|group| group.layers[0]);
    groups
}

/// Rows of every set's coefficients that are in use; room for more may follow them.
pub fn live_rows(plan: &SharingPlan) -> Vec<usize> {
    let rows = Rows::coefficients(plan);
    (0..plan.template_sets.len()).map(|i| rows.live(SetId(i))).collect()
}

/// Rows of every set's patterns; 0 where it has none.
pub fn pattern_rows(plan: &SharingPlan) -> Vec<usize> {
    let rows = Rows::patterns(plan);
    let has = |set: &superweight_plan::TemplateSet| plan.has_patterns() && set.templates > 1;
    plan.template_sets
        .iter()
        .enumerate()
        .map(|(i, set)| if has(set) { rows.live(SetId(i)) } else { 0 })
        .collect()
}

/// Which SuperWeights are made of each set.
pub(super) fn superweights_of(
    plan: &SharingPlan,
    set: SetId,
) -> impl Iterator<Item = SuperWeightId> + '_ {
    let all = plan.superweights.iter().enumerate();
    all.filter(move |(_, superweight)| superweight.set == set).map(|(i, _)| SuperWeightId(i))
}
