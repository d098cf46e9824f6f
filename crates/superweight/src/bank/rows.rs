//! Where coefficients lie: the rows of a set's α, SuperWeight after SuperWeight, group after group, cell after cell.

use std::collections::HashMap;

use superweight_plan::{Group, LayerId, SetId, SharingPlan, SuperWeightId};

use super::superweights_of;

/// Rows of one group.
#[derive(Debug)]
struct GroupRows {
    /// Its first row.
    first: usize,
    /// Row of each row of cells, counted from `first`: groups use staircases of cells.
    starts: Vec<usize>,
}

/// The coefficient rows of a plan.
#[derive(Debug)]
pub(crate) struct CoefficientRows {
    groups: HashMap<(SuperWeightId, LayerId), usize>,
    rows: Vec<GroupRows>,
    live: Vec<usize>,
    capacity: Vec<usize>,
}

impl CoefficientRows {
    /// Those of the plan's groups.
    pub fn of(plan: &SharingPlan) -> Self {
        Self::under(plan, |id| plan.superweight(id).groups.clone())
    }

    /// Those there would be if every layer had its own.
    pub fn own(plan: &SharingPlan) -> Self {
        let users = plan.users();
        Self::under(plan, |id| match plan.superweight(id).groups.first() {
            None => vec![],
            Some(Group { shape: [_, k], .. }) => {
                let alone = |&(layer, [down, across]): &(LayerId, [usize; 2])| Group {
                    layers: vec![layer],
                    shape: [down * across, *k],
                };
                users[id.0].iter().map(alone).collect()
            }
        })
    }

    fn under(plan: &SharingPlan, groups: impl Fn(SuperWeightId) -> Vec<Group>) -> Self {
        let mut this = Self { groups: HashMap::new(), rows: vec![], live: vec![], capacity: vec![] };
        let users = plan.users();
        for set in (0..plan.template_sets.len()).map(SetId) {
            let (mut live, mut own) = (0, 0);
            for id in superweights_of(plan, set) {
                own += users[id.0].iter().map(|(_, [down, across])| down * across).sum::<usize>();
                for group in groups(id) {
                    let cells = plan.coefficient_cells(id, &group);
                    let down = cells.last().map_or(0, |cell| cell[0] + 1);
                    let starts = (0..down).map(|r| cells.partition_point(|cell| cell[0] < r)).collect();
                    this.groups.extend(group.layers.iter().map(|&layer| ((id, layer), this.rows.len())));
                    this.rows.push(GroupRows { first: live, starts });
                    live += cells.len();
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

    /// The row that makes a cell of a SuperWeight for a layer; 0 where there are no coefficients: the set is one block.
    pub fn row(&self, superweight: SuperWeightId, layer: LayerId, [r, c]: [usize; 2]) -> usize {
        self.groups.get(&(superweight, layer)).map_or(0, |&group| {
            let GroupRows { first, starts } = &self.rows[group];
            first + starts[r] + c
        })
    }
}
