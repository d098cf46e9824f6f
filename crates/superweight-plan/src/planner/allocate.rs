//! How many templates each set gets: the number K of every set, from costs and a budget alone.
//!
//! *Nested* (paper §2.1.1): one template each, then round robin from shallow to deep up to [`ROUND_ROBIN`], then
//! beyond while the budget lasts; never more than the layers that use the set, past which templates cannot make layers
//! more different. *Grid* and *patterned* (Kronecker): K ≥ 2 for all sets, each capped at min(uses, numbers in a block), past
//! which blocks are linearly dependent (patterns could still differ; larger blocks are chosen instead), and where a set would have more
//! numbers than the weights it makes; numbers in proportion to √(weights made): if what a set gets wrong is as much as
//! the weights that a number of it makes, Σ weights/numbers is least there. A layer that stands alone then costs little.
//! Templates are bought one by one, whichever lowers this sum the most for its price; of those that are dear one more is
//! tried.
//!
//! Coefficients exist where K ≥ 2, one row of K per cell; with patterns a template has a number per cell besides its block,
//! and α one row per group of layers. They are charged at max(live, reserve × own): `own` is the
//! count if every layer had its own, which refinement may need later.

use crate::plan::{Ledger, MOST_TEMPLATES, SetCost, Tiling};

/// Nested sets grow evenly up to this many templates before any grows further (as in the authors' code).
pub(crate) const ROUND_ROBIN: usize = 8;

/// Where a template costs more than this share of the budget, it is also tried to buy another before others have theirs: it may
/// be worth more than what it costs them.
const DEAR: f64 = 0.01;

/// Which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A set per SuperWeight.
    Nested,
    /// A set per cluster.
    Grid,
    /// The same, of templates that are patterns times blocks.
    Patterned,
}

impl Rule {
    /// The rule of a tiling.
    pub fn of(tiling: Tiling) -> Self {
        match tiling {
            Tiling::Dense | Tiling::Nested | Tiling::Stretched | Tiling::RankOne => Self::Nested,
            Tiling::Grid { .. } => Self::Grid,
            Tiling::Kronecker { .. } => Self::Patterned,
        }
    }

    /// Fewest templates a set can have. A set of one cell is dense: one template, no coefficient.
    pub fn least(self, set: &SetCost) -> usize {
        match self {
            Rule::Nested => 1,
            Rule::Grid | Rule::Patterned => set.uses.min(2) as usize,
        }
    }

    /// Most templates that are of use to a set.
    ///
    /// (Cells of a single number would be capped at one template, but a grid needs two: there the least wins.)
    pub fn cap(self, set: &SetCost, reserve: f64) -> usize {
        let useful = match self {
            Rule::Nested => set.uses as usize,
            Rule::Grid | Rule::Patterned => {
                let all = (set.weights as f64 / self.each(set, reserve)) as usize;
                (set.uses.min(set.block) as usize).min(all).max(self.least(set))
            }
        };
        useful.min(MOST_TEMPLATES)
    }

    /// Numbers that a template of the set brings with it: its own, and with a grid a coefficient for every row. (With patterns a
    /// row is of a whole layer, and its coefficient next to nothing.)
    pub fn each(self, set: &SetCost, reserve: f64) -> f64 {
        match self {
            Rule::Patterned => (set.block + set.pattern) as f64,
            Rule::Nested | Rule::Grid => {
                set.block as f64 + (set.live_rows as f64).max(reserve * set.own_rows as f64)
            }
        }
    }
}

/// The smallest K of every set, and what they cost.
pub(crate) fn least(rule: Rule, sets: &[SetCost], reserve: f64) -> (Vec<usize>, u64) {
    let counts: Vec<_> = sets.iter().map(|set| rule.least(set)).collect();
    let cost = Ledger::of(sets, &counts).total(reserve);
    (counts, cost)
}

/// K of every set within `available` numbers; `None` if not even the least fits.
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
    let purse = Purse { rule, sets, available, reserve, ledger: Ledger::of(sets, &counts), counts };
    Some(match rule {
        Rule::Nested => nested(purse),
        Rule::Grid | Rule::Patterned => by_weights(purse),
    })
}

fn nested(mut purse: Purse) -> Vec<usize> {
    let mut order: Vec<usize> = (0..purse.sets.len()).collect();
    order.sort_by(|&i, &j| purse.sets[i].depth.total_cmp(&purse.sets[j].depth).then(i.cmp(&j)));
    for limit in [ROUND_ROBIN, usize::MAX] {
        // A round gives every set below the limit one more, if it still fits; the last round gives nothing.
        while order.iter().filter(|&&i| purse.counts[i] < limit && purse.buy(i)).count() > 0 {}
    }
    purse.counts
}

fn by_weights(mut purse: Purse) -> Vec<usize> {
    let shared = |numbers: f64| -> Vec<usize> {
        let count = |set: &SetCost| {
            let templates = numbers * (set.weights as f64).sqrt() / purse.each(set);
            (templates as usize).clamp(purse.rule.least(set), purse.rule.cap(set, purse.reserve))
        };
        purse.sets.iter().map(count).collect()
    };
    let fits = |numbers: f64| {
        Ledger::of(purse.sets, &shared(numbers)).total(purse.reserve) <= purse.available
    };
    let (mut low, mut high) = (0.0, 1.0);
    while fits(high) && high < f64::from(u32::MAX) {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        *(if fits(middle) { &mut low } else { &mut high }) = middle;
    }
    // Half of it surely belongs to each; the rest is bought.
    purse.set(shared(low / 2.0));
    let bought = purse.clone().spent();
    let least = (DEAR * purse.available as f64) as u64;
    let dear =
        (0..purse.sets.len()).filter(|&set| !bought.at_cap(set) && bought.price(set) > least);
    let with_one_more = dear.filter_map(|set| {
        let mut other = purse.clone();
        let mut counts = other.counts.clone();
        counts[set] = bought.counts[set] + 1;
        other.set(counts);
        (other.ledger.total(other.reserve) <= other.available).then(|| other.spent())
    });
    let best = with_one_more.min_by(|a, b| a.wrong().total_cmp(&b.wrong()));
    best.filter(|best| best.wrong() < bought.wrong()).unwrap_or(bought).counts
}

/// A budget being spent.
#[derive(Clone)]
struct Purse<'a> {
    rule: Rule,
    sets: &'a [SetCost],
    available: u64,
    reserve: f64,
    counts: Vec<usize>,
    ledger: Ledger,
}

impl Purse<'_> {
    fn with_one_more(&self, set: usize) -> Ledger {
        self.ledger.changed(&self.sets[set], self.counts[set], self.counts[set] + 1)
    }

    fn set(&mut self, counts: Vec<usize>) {
        self.ledger = Ledger::of(self.sets, &counts);
        self.counts = counts;
    }

    /// With as many more templates as can be paid.
    fn spent(mut self) -> Self {
        while let Some(set) = self.missed_most() {
            self.buy(set);
        }
        self
    }

    /// Σ weights/numbers: what all sets get wrong.
    fn wrong(&self) -> f64 {
        let sets = self.sets.iter().zip(&self.counts);
        sets.map(|(set, &k)| set.weights as f64 / (k as f64 * self.each(set))).sum()
    }

    fn each(&self, set: &SetCost) -> f64 {
        self.rule.each(set, self.reserve)
    }

    fn price(&self, set: usize) -> u64 {
        self.with_one_more(set).total(self.reserve) - self.ledger.total(self.reserve)
    }

    fn at_cap(&self, set: usize) -> bool {
        self.counts[set] >= self.rule.cap(&self.sets[set], self.reserve)
    }

    /// One more template for a set, if it may have it and it fits.
    fn buy(&mut self, set: usize) -> bool {
        let after = self.with_one_more(set);
        let bought = !self.at_cap(set) && after.total(self.reserve) <= self.available;
        if bought {
            self.counts[set] += 1;
            self.ledger = after;
        }
        bought
    }

    /// The set for which another template is worth most, of those that may have one and can pay for it.
    fn missed_most(&self) -> Option<usize> {
        let left = self.available - self.ledger.total(self.reserve);
        let open = (0..self.sets.len()).filter(|&set| !self.at_cap(set) && self.price(set) <= left);
        open.max_by(|&i, &j| self.worth(i).total_cmp(&self.worth(j)).then(j.cmp(&i)))
    }

    /// By how much [`Purse::wrong`] falls for every number that another template of a set costs.
    fn worth(&self, set: usize) -> f64 {
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
    fn nested_goes_round_from_shallow_to_deep() {
        let sets = [set(100, 9, 0.9), set(100, 9, 0.1), set(100, 1, 0.0)];
        // Three templates; the next two cost 100 + 2 rows of 9 each; only users count.
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
    fn sets_of_a_grid_get_numbers_by_the_root_of_the_weights_they_make() {
        // Sixteen times the weights: four times the numbers, of 1,700 and 200 a template.
        let sets = [set(100, 1_600, 0.0), set(100, 100, 0.0)];
        // 34,000 and 8,400 of 42,500; neither is at its cap of 100.
        assert_eq!(allocate(Rule::Grid, &sets, 42_500, 1.0).unwrap(), [20, 42]);
    }

    /// WRN-28-10 at 1% in blocks of 8, classifier, 3×3 and 1×1: bought one by one the second has four templates when its turn comes
    /// again, and 63,416 numbers for a fifth are gone.
    #[test]
    fn a_dear_template_may_be_worth_more_than_many_cheap_ones() {
        let sets = [set(64, 1_040, 1.0), set(576, 62_840, 0.0), set(64, 4_040, 0.0)];
        assert_eq!(allocate(Rule::Grid, &sets, 346_884, 1.0).unwrap(), [8, 5, 5]);
        assert_eq!(allocate(Rule::Grid, &sets, 330_000, 1.0).unwrap()[1], 4);
    }

    #[test]
    fn what_a_grid_has_left_over_goes_where_it_is_missed_most() {
        // A large set that cannot have a third template does not leave all of its price to the cheapest, which could take 97: 40,800
        // and 8,000 of 49,000 numbers, where the root of 17 times the weights asks for four times as many.
        let sets =
            [set(100, 50_000, 0.0), set(100, 5_000, 0.0), set(100, 300, 0.0), set(7, 1, 0.0)];
        let counts = allocate(Rule::Grid, &sets, 2 * 50_100 + 49_000 + 7, 1.0).unwrap();
        assert_eq!(counts, [2, 8, 20, 1]);
        // With room for all: no more numbers than weights, 50,000·100 of the first in 50,100 a template.
        assert_eq!(allocate(Rule::Grid, &sets, 1 << 40, 1.0).unwrap(), [99, 98, 75, 1]);
        // Shared coefficients are cheap: there it is the block that ends it.
        assert_eq!(allocate(Rule::Grid, &sets, 1 << 40, 0.0).unwrap(), [100, 100, 100, 1]);
        let fewest = 2 * (50_100 + 5_100 + 400) + 7;
        assert_eq!(allocate(Rule::Grid, &sets, fewest, 1.0).unwrap(), [2, 2, 2, 1]);
        assert_eq!(allocate(Rule::Grid, &sets, fewest - 1, 1.0), None);
    }

    #[test]
    fn patterned_sets_get_numbers_by_the_root_of_the_weights_they_make() {
        // 256 times the weights: 16 times the numbers, of 200 and 100 a template.
        let sets = [
            SetCost { pattern: 100, ..set(100, 25_600, 0.0) },
            SetCost { pattern: 20, ..set(80, 125, 0.0) },
        ];
        let counts = allocate(Rule::Patterned, &sets, 17_000, 0.0).unwrap();
        let numbers = [200 * counts[0], 100 * counts[1]];
        assert!((14..=18).contains(&(numbers[0] / numbers[1])), "{counts:?}");
        // With room for all: independent templates, and no more numbers than weights.
        assert_eq!(allocate(Rule::Patterned, &sets, 1 << 40, 0.0).unwrap(), [100, 80]);
        let narrow = [SetCost { pattern: 20, ..set(80, 30, 0.0) }];
        assert_eq!(allocate(Rule::Patterned, &narrow, 1 << 40, 0.0).unwrap(), [24]);
        let cut = [SetCost { weights: 1_250, ..narrow[0] }];
        assert_eq!(allocate(Rule::Patterned, &cut, 1 << 40, 0.0).unwrap(), [12]);
    }

    #[test]
    fn never_over_and_never_a_template_short() {
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
