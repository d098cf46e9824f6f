//! Allocates templates: the number K of every template set, from costs and a budget.
//!
//! *Nested* (paper §2.1.1): every set gets one template; then sets get one more in turn, from
//! shallow to deep, up to [`ROUND_ROBIN`] each, and beyond that while the budget lasts. A set never
//! gets more templates than layers use it: more could not make the layers more different.
//!
//! *Grid* and *patterned* (Kronecker): every set gets at least two. K is at most min(uses,
//! parameters in a block), because more blocks are linearly dependent. (With Kronecker tiling the
//! patterns could still differ, but a larger block is chosen instead.) K is also limited so that a
//! set has no more parameters than the weights it makes.
//!
//! The parameters of a set are in proportion to √weights. Suppose that the error of a set grows
//! with the number of weights that each of its parameters makes; then this allocation minimizes the
//! total error Σ weights/parameters, and a layer that shares with no other costs little. Templates
//! are bought one by one, each where it lowers the error most for its price. For expensive
//! templates, buying one more is also tried before the other sets get theirs.

use crate::plan::{Ledger, MAX_TEMPLATES, SetCost, Tiling};

/// Number of templates up to which all nested sets grow in turn, as in the authors' code.
pub(crate) const ROUND_ROBIN: usize = 8;

/// Price, as a fraction of the budget, above which a template is expensive.
///
/// Buying one more of these is also tried first: it can be worth more than what it costs the
/// others.
const EXPENSIVE: f64 = 0.01;

/// The rule by which a tiling allocates templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// One set per SuperWeight, and for tilings without a choice.
    Nested,
    /// One set per cluster.
    Grid,
    /// One set per cluster, of blocks that are multiplied by patterns.
    Patterned,
}

impl Rule {
    /// Returns the rule of a tiling.
    pub fn of(tiling: Tiling) -> Self {
        match tiling {
            Tiling::Dense | Tiling::Nested | Tiling::Stretched | Tiling::RankOne => Self::Nested,
            Tiling::Grid { .. } => Self::Grid,
            Tiling::Kronecker { .. } => Self::Patterned,
        }
    }

    /// Smallest number of templates of a set. A set that makes one cell needs one, and no
    /// coefficient.
    pub fn least(self, set: &SetCost) -> usize {
        match self {
            Rule::Nested => 1,
            Rule::Grid | Rule::Patterned => set.uses.min(2) as usize,
        }
    }

    /// Largest number of templates that is useful to a set.
    ///
    /// Never below [`least`](Self::least), even if the limits above give less for tiny cells.
    pub fn cap(self, set: &SetCost, reserve: f64) -> usize {
        let useful = match self {
            Rule::Nested => set.uses as usize,
            Rule::Grid | Rule::Patterned => {
                let all = (set.weights as f64 / self.each(set, reserve)) as usize;
                (set.uses.min(set.block) as usize).min(all).max(self.least(set))
            }
        };
        useful.min(MAX_TEMPLATES)
    }

    /// Parameters that one more template adds to the set, coefficients included.
    ///
    /// With Kronecker tiling coefficients are left out: there is one per group of layers, which is
    /// next to nothing.
    pub fn each(self, set: &SetCost, reserve: f64) -> f64 {
        match self {
            Rule::Patterned => (set.block + set.pattern) as f64,
            Rule::Nested | Rule::Grid => {
                set.block as f64 + (set.live_rows as f64).max(reserve * set.own_rows as f64)
            }
        }
    }
}

/// Smallest number of templates of every set, and their cost.
pub(crate) fn least(rule: Rule, sets: &[SetCost], reserve: f64) -> (Vec<usize>, u64) {
    let counts: Vec<_> = sets.iter().map(|set| rule.least(set)).collect();
    let cost = Ledger::of(sets, &counts).total(reserve);
    (counts, cost)
}

/// Number of templates of every set within `available` parameters; `None` if that is too few.
pub(crate) fn allocate(
    rule: Rule,
    sets: &[SetCost],
    available: u64,
    reserve: f64,
) -> Option<Vec<usize>> {
    let (counts, cost) = least(rule, sets, reserve);
    if cost > available {
        return None;
    }
    let allocation =
        Allocation { rule, sets, available, reserve, ledger: Ledger::of(sets, &counts), counts };
    Some(match rule {
        Rule::Nested => nested(allocation),
        Rule::Grid | Rule::Patterned => by_weights(allocation),
    })
}

/// Buys templates in turn, from shallow to deep sets.
fn nested(mut allocation: Allocation) -> Vec<usize> {
    let mut order: Vec<usize> = (0..allocation.sets.len()).collect();
    order.sort_by(|&i, &j| {
        allocation.sets[i].depth.total_cmp(&allocation.sets[j].depth).then(i.cmp(&j))
    });
    for limit in [ROUND_ROBIN, usize::MAX] {
        // A round buys one template for every set below the limit that can pay; stop when none can.
        while order.iter().filter(|&&i| allocation.counts[i] < limit && allocation.buy(i)).count()
            > 0
        {}
    }
    allocation.counts
}

/// Buys templates so that the parameters of sets are in proportion to √weights.
fn by_weights(mut allocation: Allocation) -> Vec<usize> {
    let counts_for = |parameters: f64| -> Vec<usize> {
        let count = |set: &SetCost| {
            let templates = parameters * (set.weights as f64).sqrt() / allocation.each(set);
            (templates as usize)
                .clamp(allocation.rule.least(set), allocation.rule.cap(set, allocation.reserve))
        };
        allocation.sets.iter().map(count).collect()
    };
    let fits = |parameters: f64| {
        Ledger::of(allocation.sets, &counts_for(parameters)).total(allocation.reserve)
            <= allocation.available
    };
    let (mut low, mut high) = (0.0, 1.0);
    while fits(high) && high < f64::from(u32::MAX) {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        *(if fits(middle) { &mut low } else { &mut high }) = middle;
    }
    // Every set gets half of that share; the rest is bought one by one.
    allocation.set(counts_for(low / 2.0));
    let bought = allocation.clone().filled();
    let least = (EXPENSIVE * allocation.available as f64) as u64;
    let expensive =
        (0..allocation.sets.len()).filter(|&set| !bought.at_cap(set) && bought.price(set) > least);
    let with_one_more = expensive.filter_map(|set| {
        let mut other = allocation.clone();
        let mut counts = other.counts.clone();
        counts[set] = bought.counts[set] + 1;
        other.set(counts);
        (other.ledger.total(other.reserve) <= other.available).then(|| other.filled())
    });
    let best = with_one_more.min_by(|a, b| a.error().total_cmp(&b.error()));
    best.filter(|best| best.error() < bought.error()).unwrap_or(bought).counts
}

/// An allocation in progress: the templates bought so far and the budget.
#[derive(Clone)]
struct Allocation<'a> {
    rule: Rule,
    sets: &'a [SetCost],
    available: u64,
    reserve: f64,
    counts: Vec<usize>,
    ledger: Ledger,
}

impl Allocation<'_> {
    /// Costs after buying one more template for a set.
    fn with_one_more(&self, set: usize) -> Ledger {
        self.ledger.changed(&self.sets[set], self.counts[set], self.counts[set] + 1)
    }

    /// Replaces all numbers of templates.
    fn set(&mut self, counts: Vec<usize>) {
        self.ledger = Ledger::of(self.sets, &counts);
        self.counts = counts;
    }

    /// Buys templates until none fits.
    fn filled(mut self) -> Self {
        while let Some(set) = self.best_purchase() {
            self.buy(set);
        }
        self
    }

    /// Estimated total error, Σ weights/parameters.
    fn error(&self) -> f64 {
        let sets = self.sets.iter().zip(&self.counts);
        sets.map(|(set, &k)| set.weights as f64 / (k as f64 * self.each(set))).sum()
    }

    /// Parameters that one more template adds to a set.
    fn each(&self, set: &SetCost) -> f64 {
        self.rule.each(set, self.reserve)
    }

    /// What one more template for a set costs.
    fn price(&self, set: usize) -> u64 {
        self.with_one_more(set).total(self.reserve) - self.ledger.total(self.reserve)
    }

    /// Whether a set has as many templates as are useful.
    fn at_cap(&self, set: usize) -> bool {
        self.counts[set] >= self.rule.cap(&self.sets[set], self.reserve)
    }

    /// Buys one more template for a set; returns whether it is useful and fits.
    fn buy(&mut self, set: usize) -> bool {
        let after = self.with_one_more(set);
        let bought = !self.at_cap(set) && after.total(self.reserve) <= self.available;
        if bought {
            self.counts[set] += 1;
            self.ledger = after;
        }
        bought
    }

    /// The set whose next template lowers the error most for its price; `None` if none fits.
    fn best_purchase(&self) -> Option<usize> {
        let left = self.available - self.ledger.total(self.reserve);
        let open = (0..self.sets.len()).filter(|&set| !self.at_cap(set) && self.price(set) <= left);
        open.max_by(|&i, &j| {
            self.error_decrease(i).total_cmp(&self.error_decrease(j)).then(j.cmp(&i))
        })
    }

    /// Decrease of the estimated error per parameter of the next template of a set.
    fn error_decrease(&self, set: usize) -> f64 {
        let (cost, k) = (&self.sets[set], self.counts[set] as f64);
        cost.weights as f64 / (k * (k + 1.0) * self.each(cost).powi(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;

    fn set(block: u64, uses: u64, depth: f64) -> SetCost {
        SetCost {
            block,
            pattern: 0,
            uses,
            weights: block * uses,
            live_rows: 1,
            own_rows: uses,
            depth,
        }
    }

    #[test]
    fn nested_buys_in_turn_from_shallow_to_deep() {
        let sets = [set(100, 9, 0.9), set(100, 9, 0.1), set(100, 1, 0.0)];
        // Three templates cost 300. A second one for a set of 9 layers costs 100 + 2·9
        // coefficients. The third set has one layer, so it never gets a second template.
        assert_eq!(allocate(Rule::Nested, &sets, 300, 1.0).unwrap(), [1, 1, 1]);
        assert_eq!(allocate(Rule::Nested, &sets, 418, 1.0).unwrap(), [1, 2, 1]);
        assert_eq!(allocate(Rule::Nested, &sets, 536, 1.0).unwrap(), [2, 2, 1]);
        assert_eq!(allocate(Rule::Nested, &sets, 10_000, 1.0).unwrap(), [9, 9, 1]);
        assert_eq!(allocate(Rule::Nested, &sets, 299, 1.0), None);
    }

    #[test]
    fn nested_fills_up_to_eight_before_going_beyond() {
        let sets = [set(1000, 20, 0.0), set(10, 20, 1.0)];
        let counts = allocate(Rule::Nested, &sets, 8 * 1010 + 200, 0.0).unwrap();
        assert_eq!(counts, [8, 20]);
    }

    #[test]
    fn grid_parameters_are_in_proportion_to_root_weights() {
        // 16 times the weights: 4 times the parameters, at 1,700 and 200 per template.
        let sets = [set(100, 1_600, 0.0), set(100, 100, 0.0)];
        // 34,000 and 8,400 of 42,500; neither set is at its cap of 100.
        assert_eq!(allocate(Rule::Grid, &sets, 42_500, 1.0).unwrap(), [20, 42]);
    }

    /// WRN-28-10 at 1% with blocks of 8: classifier, 3×3 and 1×1 layers. Bought one by one, the 3×3
    /// set stays at four templates, because the 63,416 parameters for a fifth are spent on the
    /// others.
    #[test]
    fn one_expensive_template_can_be_better_than_many_cheap_ones() {
        let sets = [set(64, 1_040, 1.0), set(576, 62_840, 0.0), set(64, 4_040, 0.0)];
        assert_eq!(allocate(Rule::Grid, &sets, 346_884, 1.0).unwrap(), [8, 5, 5]);
        assert_eq!(allocate(Rule::Grid, &sets, 330_000, 1.0).unwrap()[1], 4);
    }

    #[test]
    fn the_rest_of_a_grid_budget_goes_where_it_helps_most() {
        // The first set cannot pay for a third template. What is left does not all go to the third
        // set, which could use 97 templates: the others get 40,800 and 8,000 of 49,000 parameters,
        // about 4 to 1 for 17 times the weights.
        let sets =
            [set(100, 50_000, 0.0), set(100, 5_000, 0.0), set(100, 300, 0.0), set(7, 1, 0.0)];
        let counts = allocate(Rule::Grid, &sets, 2 * 50_100 + 49_000 + 7, 1.0).unwrap();
        assert_eq!(counts, [2, 8, 20, 1]);
        // With room for all, no more parameters than weights: 50,000·100 for the first set, at
        // 50,100 per template.
        assert_eq!(allocate(Rule::Grid, &sets, 1 << 40, 1.0).unwrap(), [99, 98, 75, 1]);
        // Shared coefficients are cheap, so the cap is the number of parameters in a block.
        assert_eq!(allocate(Rule::Grid, &sets, 1 << 40, 0.0).unwrap(), [100, 100, 100, 1]);
        let fewest = 2 * (50_100 + 5_100 + 400) + 7;
        assert_eq!(allocate(Rule::Grid, &sets, fewest, 1.0).unwrap(), [2, 2, 2, 1]);
        assert_eq!(allocate(Rule::Grid, &sets, fewest - 1, 1.0), None);
    }

    #[test]
    fn patterned_parameters_are_in_proportion_to_root_weights() {
        // 256 times the weights: 16 times the parameters, at 200 and 100 per template.
        let sets = [
            SetCost { pattern: 100, ..set(100, 25_600, 0.0) },
            SetCost { pattern: 20, ..set(80, 125, 0.0) },
        ];
        let counts = allocate(Rule::Patterned, &sets, 17_000, 0.0).unwrap();
        let parameters = [200 * counts[0], 100 * counts[1]];
        assert!((14..=18).contains(&(parameters[0] / parameters[1])), "{counts:?}");
        // With room for all: independent templates, and no more parameters than weights.
        assert_eq!(allocate(Rule::Patterned, &sets, 1 << 40, 0.0).unwrap(), [100, 80]);
        let narrow = [SetCost { pattern: 20, ..set(80, 30, 0.0) }];
        assert_eq!(allocate(Rule::Patterned, &narrow, 1 << 40, 0.0).unwrap(), [24]);
        let cut = [SetCost { weights: 1_250, ..narrow[0] }];
        assert_eq!(allocate(Rule::Patterned, &cut, 1 << 40, 0.0).unwrap(), [12]);
    }

    #[test]
    fn the_budget_is_kept_and_no_affordable_template_is_missing() {
        for seed in 0..500 {
            let draw = |n: u64, m: u64| mix(seed, n) % m;
            let sets: Vec<_> = (0..1 + draw(0, 6))
                .map(|s| {
                    let uses = 1 + draw(10 * s + 1, 30);
                    let live_rows = 1 + draw(10 * s + 2, uses);
                    let pattern = [0, draw(10 * s + 5, 40)][draw(10 * s + 6, 2) as usize];
                    SetCost {
                        live_rows,
                        pattern,
                        ..set(1 + draw(10 * s + 3, 900), uses, draw(10 * s + 4, 5) as f64)
                    }
                })
                .collect();
            let reserve = draw(7, 5) as f64 / 4.0;
            for rule in [Rule::Nested, Rule::Grid, Rule::Patterned] {
                let (_, needed) = least(rule, &sets, reserve);
                let available = needed + draw(8, 20_000);
                let counts = allocate(rule, &sets, available, reserve).unwrap();
                let ledger = Ledger::of(&sets, &counts);
                assert!(ledger.total(reserve) <= available);
                for (i, set) in sets.iter().enumerate() {
                    assert!((rule.least(set)..=rule.cap(set, reserve)).contains(&counts[i]));
                    let more = ledger.changed(set, counts[i], counts[i] + 1).total(reserve);
                    let cheapest = rule == Rule::Nested
                        || sets.iter().zip(&counts).all(|(other, &k)| {
                            k >= rule.cap(other, reserve)
                                || ledger.changed(other, k, k + 1).total(reserve) >= more
                        });
                    assert!(
                        counts[i] == rule.cap(set, reserve) || !cheapest || more > available,
                        "seed {seed}"
                    );
                }
                assert!(needed == 0 || allocate(rule, &sets, needed - 1, reserve).is_none());
            }
        }
    }
}
