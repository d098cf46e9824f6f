//! From pair similarities to searched clusters (paper §2.2.1): Algorithm 1 with τ, relaxed where the clusters it gives
//! cannot be paid for.
//!
//! Only layers of one starting cluster are pairs: Eq. 2 is over SuperWeights that both contain. Tiling and block stay
//! those of the plan that training started from.

use super::assign::{Assignment, Pair, assign, merges};
use super::threshold;
use crate::error::PlanError;
use crate::ids::{ClusterId, LayerId};
use crate::number::with_commas;
use crate::partition::Partition;
use crate::plan::{SharingPlan, TemplateSet, Tiling};
use crate::planner::{Clustering, PlanRequest, ROOM, Rule};

/// By how much the authors' code lowers τ until the groups fit.
const RELEASED_STEP: f64 = 0.05;

/// How clusters are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchSettings {
    /// τ: pairs more alike than this stay together.
    pub tau: f64,
    /// A grid set must keep this many templates, or as many as it can use, or as its layers have at the start, where that is
    /// fewer; else τ is relaxed.
    pub min_templates: usize,
    /// Which reading of Algorithm 1.
    pub assignment: Assignment,
}

impl SearchSettings {
    /// What is taken where nobody says. Clusters that leave a grid's last stage three templates were best in 1% of WRN-28-10.
    pub fn default_for(tiling: Tiling) -> Self {
        let min_templates = if matches!(tiling, Tiling::Grid { .. }) { ROOM } else { 8 };
        Self { tau: 0.1, min_templates, assignment: Assignment::Merge }
    }
}

/// A searched plan.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchedPlan {
    /// The new plan.
    pub plan: SharingPlan,
    /// The threshold that gave it.
    pub tau: f64,
    /// Why it is not the one asked for.
    pub relaxed: Option<String>,
}

/// Clusters of the layers shared in `start` by their similarities, and the plan they give under `request`, whose own
/// clusters and tiling are not looked at.
pub fn search(
    start: &SharingPlan,
    request: &PlanRequest,
    pairs: &[Pair],
    settings: SearchSettings,
) -> Result<SearchedPlan, PlanError> {
    let layers: Vec<LayerId> =
        start.clusters.iter().flat_map(|c| c.layers.iter().copied()).collect();
    check(start, request, pairs, &settings)?;
    let request = request.with_tiling(start.tiling);
    let floors = floors(start, settings.min_templates);
    let (mut relaxed, mut reason) = (None, String::new());
    for tau in thresholds(&layers, pairs, &settings)? {
        let partition = assign(&layers, pairs, tau, settings.assignment)?;
        match attempt(&request, partition, &floors)? {
            Ok(plan) => return Ok(SearchedPlan { plan, tau, relaxed }),
            Err(lacking) => {
                relaxed.get_or_insert(lacking.clone());
                reason = lacking;
            }
        }
    }
    Err(PlanError::NoFeasibleThreshold { reason })
}

/// τ, then every lower value that changes the clusters. The released variant is not monotone: it steps by 0.05 as the
/// authors' code does, but ends at −1.
fn thresholds(
    layers: &[LayerId],
    pairs: &[Pair],
    settings: &SearchSettings,
) -> Result<Vec<f64>, PlanError> {
    let mut thresholds = vec![settings.tau];
    match settings.assignment {
        Assignment::Merge => {
            let merges = merges(layers, pairs)?.iter().map(|pair| pair.similarity).collect();
            let all = pairs.iter().map(|pair| pair.similarity).collect();
            thresholds.extend(threshold::below(settings.tau, merges, all));
        }
        Assignment::Released => {
            let steps = ((settings.tau + 1.0) / RELEASED_STEP).clamp(0.0, 1e4).ceil() as usize;
            let step = |n: usize| (settings.tau - RELEASED_STEP * n as f64).max(-1.0);
            thresholds.extend((1..=steps).map(step));
        }
    }
    Ok(thresholds)
}

fn check(
    start: &SharingPlan,
    request: &PlanRequest,
    pairs: &[Pair],
    settings: &SearchSettings,
) -> Result<(), PlanError> {
    if !settings.tau.is_finite() {
        return Err(PlanError::Threshold { name: "τ", value: settings.tau });
    }
    if start.members != request.members {
        let problem =
            "the request has other members than the plan that training started from".to_owned();
        return Err(PlanError::Invalid { place: "members".to_owned(), problem });
    }
    let mut cluster = vec![None; start.layers.len()];
    for (i, c) in start.clusters.iter().enumerate() {
        c.layers.iter().for_each(|id| cluster[id.0] = Some(ClusterId(i)));
    }
    let of = |id: LayerId| cluster.get(id.0).copied().flatten();
    let apart = pairs.iter().find(|pair| of(pair.a).is_none() || of(pair.a) != of(pair.b));
    apart.map_or(Ok(()), |pair| {
        let problem = "only layers of one starting cluster are pairs";
        Err(PlanError::Similarity { a: pair.a, b: pair.b, value: pair.similarity, problem })
    })
}

/// Templates that the set of a layer must keep, by layer: no more than its set has where training started, so that not splitting is
/// always an answer.
fn floors(start: &SharingPlan, min_templates: usize) -> Vec<usize> {
    let mut floors = vec![min_templates; start.layers.len()];
    for set in &start.template_sets {
        for layer in &start.clusters[set.cluster.0].layers {
            floors[layer.0] = floors[layer.0].min(set.templates);
        }
    }
    floors
}

/// Sets of a grid with fewer templates than their layers must have, though they could use more, and how many these are. With patterns
/// a layer that stands alone gets by its size, so that is for sets which layers share.
fn starved<'a>(
    plan: &'a SharingPlan,
    floors: &'a [usize],
) -> impl Iterator<Item = (&'a TemplateSet, usize)> {
    let rule = Rule::of(plan.tiling);
    let layers = |set: &TemplateSet| &plan.clusters[set.cluster.0].layers;
    let asked = move |set: &TemplateSet| match plan.tiling {
        Tiling::Dense | Tiling::Nested | Tiling::Stretched | Tiling::RankOne => false,
        Tiling::Grid { .. } => true,
        Tiling::Kronecker { .. } => layers(set).len() > 1,
    };
    let sets = plan.set_costs().into_iter().zip(&plan.template_sets);
    sets.filter_map(move |(cost, set)| {
        let floor = layers(set).iter().map(|layer| floors[layer.0]).min().unwrap_or(0);
        let poor = asked(set) && set.templates < floor.min(rule.cap(&cost, plan.reserve));
        poor.then_some((set, floor))
    })
}

/// The plan, or why these clusters do not do.
fn attempt(
    request: &PlanRequest,
    partition: Partition,
    floors: &[usize],
) -> Result<Result<SharingPlan, String>, PlanError> {
    let clusters = partition.len();
    let request = PlanRequest { clusters: Clustering::Explicit(partition), ..request.clone() };
    let plan = match request.plan() {
        Ok(plan) => plan,
        Err(PlanError::BudgetTooSmall { needed, budget, .. }) => {
            let (needed, budget) = (with_commas(needed), with_commas(budget));
            return Ok(Err(format!("{clusters} clusters need {needed}, the budget is {budget}")));
        }
        Err(error) => return Err(error),
    };
    let starved =
        starved(&plan, floors).next().map(|(TemplateSet { cluster, templates, .. }, floor)| {
            format!(
                "{clusters} clusters leave cluster {cluster} only {templates} templates of {floor}"
            )
        });
    Ok(starved.map_or(Ok(plan), Err))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::{SharedRoles, TilingChoice};
    use crate::rng::mix;
    use crate::testing::members;

    fn start(names: &str, budget: u64, tiling: TilingChoice) -> (PlanRequest, SharingPlan) {
        let request = PlanRequest { tiling, ..PlanRequest::new(members(names, 100), budget) };
        let plan = request.plan().unwrap();
        (request, plan)
    }

    fn all_pairs(plan: &SharingPlan, similarity: impl Fn(LayerId, LayerId) -> f64) -> Vec<Pair> {
        let mut pairs = vec![];
        for cluster in &plan.clusters {
            for (n, &b) in cluster.layers.iter().enumerate() {
                pairs
                    .extend(cluster.layers[..n].iter().map(|&a| Pair::new(a, b, similarity(a, b))));
            }
        }
        pairs
    }

    fn partition(plan: &SharingPlan) -> Partition {
        plan.clusters.iter().map(|c| c.layers.clone()).collect()
    }

    #[test]
    fn agreeing_layers_stay_and_opposing_layers_part() {
        let (request, start) = start("wrn-28-10", 3_653_688, TilingChoice::Grid);
        let parity = |id: LayerId| id.0 % 2;
        let pairs = all_pairs(&start, |a, b| if parity(a) == parity(b) { 0.8 } else { -0.8 });
        let found =
            search(&start, &request, &pairs, SearchSettings::default_for(start.tiling)).unwrap();
        assert_eq!((found.tau, found.relaxed), (0.1, None));
        assert_eq!(found.plan.tiling, start.tiling);
        assert_eq!(found.plan.clusters.len(), 5); // and the classifier's
        assert!(
            found
                .plan
                .clusters
                .iter()
                .all(|c| c.layers.iter().all(|&l| parity(l) == parity(c.layers[0])))
        );
        found.plan.validate().unwrap();
    }

    #[test]
    fn a_threshold_that_cannot_be_paid_for_is_relaxed_to_the_largest_that_can() {
        let (request, start) = start("wrn-28-10", 365_368, TilingChoice::Grid);
        let pairs = all_pairs(&start, |a, b| {
            (mix(1, (a.0 * 100 + b.0) as u64) % 2000) as f64 / 1000.0 - 1.0
        });
        let layers: Vec<_> = start.clusters.iter().flat_map(|c| c.layers.clone()).collect();
        let settings = SearchSettings { tau: 0.999, ..SearchSettings::default_for(start.tiling) };
        let found = search(&start, &request, &pairs, settings).unwrap();
        assert!(found.relaxed.unwrap().contains("templates"));
        assert!(found.tau < 0.999 && pairs.iter().any(|p| p.similarity == found.tau));
        assert!(found.plan.template_sets.iter().all(|set| set.templates >= ROOM));
        // The used threshold gives these clusters, and the next larger similarity does not fit.
        let at = |tau| assign(&layers, &pairs, tau, Assignment::Merge).unwrap();
        let sorted = |mut p: Partition| {
            p.sort();
            p
        };
        assert_eq!(sorted(at(found.tau)), sorted(partition(&found.plan)));
        let larger =
            pairs.iter().map(|p| p.similarity).filter(|&s| s > found.tau).fold(1.0, f64::min);
        assert!(
            attempt(&request.with_tiling(start.tiling), at(larger), &floors(&start, ROOM))
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn nested_clusters_are_relaxed_by_cost() {
        let (request, start) = start("wrn-28-7,wrn-28-4,wrn-28-3", 18_000_000, TilingChoice::Auto);
        assert_eq!(start.tiling, Tiling::Nested);
        let pairs = all_pairs(&start, |a, b| 0.5 - (a.0.abs_diff(b.0)) as f64 / 100.0);
        let found = search(
            &start,
            &request,
            &pairs,
            SearchSettings { tau: 0.6, ..SearchSettings::default_for(start.tiling) },
        )
        .unwrap();
        assert!(found.relaxed.unwrap().contains("need"));
        assert!(found.plan.bill.total() <= 18_000_000);
    }

    #[test]
    fn where_nothing_fits_the_error_says_so() {
        let (request, start) = start("wrn-28-10", 365_368, TilingChoice::Grid);
        let pairs = all_pairs(&start, |_, _| -1.0);
        let error = search(&start, &request, &pairs, SearchSettings::default_for(start.tiling))
            .unwrap_err();
        assert!(matches!(error, PlanError::NoFeasibleThreshold { .. }), "{error}");
        let settings = SearchSettings {
            assignment: Assignment::Released,
            ..SearchSettings::default_for(start.tiling)
        };
        assert!(matches!(
            search(&start, &request, &pairs, settings),
            Err(PlanError::NoFeasibleThreshold { .. })
        ));
    }

    /// A fifth of a small network pays for few templates of 32×32 in one cluster: splitting would leave fewer still, and
    /// staying together is no error.
    #[test]
    fn a_start_with_few_templates_is_an_answer() {
        let (request, _) = start("wrn-10-2", 60_000, TilingChoice::Grid);
        let shared_roles = SharedRoles { classifier: Some(false), ..request.shared_roles };
        let request = PlanRequest { block: Some(32), shared_roles, ..request };
        let start = request.plan().unwrap();
        assert!(start.template_sets.iter().any(|set| set.templates < 8));
        let pairs = all_pairs(&start, |a, b| 0.01 * (a.0 + b.0) as f64 - 0.1);
        let settings =
            SearchSettings { min_templates: 8, ..SearchSettings::default_for(start.tiling) };
        let found = search(&start, &request, &pairs, settings).unwrap();
        assert!(found.relaxed.is_some() && found.tau < 0.1);
        assert_eq!(partition(&found.plan), partition(&start));
    }

    /// A classifier of two templates is no reason for others to have as few.
    #[test]
    fn a_poor_set_lowers_the_floor_of_its_own_layers_alone() {
        let (request, start) = start("wrn-16-1", 5_625, TilingChoice::Grid);
        let templates = |plan: &SharingPlan, kernel: usize| -> Vec<usize> {
            plan.template_sets
                .iter()
                .filter(|set| set.block[2] == kernel)
                .map(|set| set.templates)
                .collect()
        };
        assert_eq!((templates(&start, 1), templates(&start, 3)), (vec![2, 3], vec![4]));
        let pairs = all_pairs(&start, |a, b| (a.0 * 31 + b.0) as f64 / 1000.0 - 0.5);
        let found =
            search(&start, &request, &pairs, SearchSettings::default_for(start.tiling)).unwrap();
        assert!(found.relaxed.is_some(), "all layers alone would be too dear");
        assert!(
            templates(&found.plan, 3).iter().all(|&k| k >= ROOM),
            "{:?}",
            found.plan.template_sets
        );
        let of_two = vec![2; start.layers.len()];
        let apart = start.clusters.iter().flat_map(|c| c.layers.chunks(c.layers.len().div_ceil(2)));
        let apart: Partition = apart.map(<[LayerId]>::to_vec).collect();
        let attempt =
            |floors: &[usize]| attempt(&request.with_tiling(start.tiling), apart.clone(), floors);
        assert!(
            attempt(&of_two).unwrap().is_ok() && attempt(&floors(&start, ROOM)).unwrap().is_err()
        );
    }

    #[test]
    fn pairs_across_starting_clusters_are_refused() {
        let (request, start) = start("wrn-28-10", 3_653_688, TilingChoice::Grid);
        let (a, b) = (start.clusters[0].layers[0], start.clusters[1].layers[0]);
        let error = search(
            &start,
            &request,
            &[Pair::new(a, b, 0.5)],
            SearchSettings::default_for(start.tiling),
        )
        .unwrap_err();
        assert!(error.to_string().contains("one starting cluster"), "{error}");
    }

    /// With patterns, too, clusters may not leave what layers share too few templates; a layer alone is no such thing.
    #[test]
    fn shared_patterns_keep_their_templates() {
        let mut request = PlanRequest::new(members("wrn-16-4", 10), 60_000);
        request.tiling = TilingChoice::Kronecker;
        let start = request.plan().unwrap();
        let largest = start.clusters.iter().max_by_key(|cluster| cluster.layers.len()).unwrap();
        // In the largest cluster 0.5 inside of halves, −0.5 across, and the first layer stands alone; others agree.
        let first = largest.layers[0];
        let side = |id: LayerId| match largest.layers.contains(&id) {
            true if id == first => 2,
            true => id.0 % 2,
            false => 3,
        };
        let mut pairs = vec![];
        for layers in start.clusters.iter().map(|cluster| &cluster.layers) {
            for (n, &b) in layers.iter().enumerate() {
                let similarity = |a| if side(a) == side(b) { 0.5 } else { -0.5 };
                pairs.extend(layers[..n].iter().map(|&a| Pair::new(a, b, similarity(a))));
            }
        }
        let found = |min_templates| {
            search(
                &start,
                &request,
                &pairs,
                SearchSettings { min_templates, ..SearchSettings::default_for(start.tiling) },
            )
        };
        let free = found(1).unwrap();
        assert!(free.relaxed.is_none() && free.plan.clusters.len() == start.clusters.len() + 2);
        let shared = |plan: &SharingPlan| {
            let of = |set: &&TemplateSet| plan.clusters[set.cluster.0].layers.len() > 1;
            plan.template_sets.iter().filter(of).map(|set| set.templates).min().unwrap()
        };
        let strict = found(shared(&free.plan) + 1).unwrap();
        assert!(strict.relaxed.unwrap().contains("templates"));
        assert_eq!(strict.plan.clusters.len(), start.clusters.len());
        assert!(shared(&strict.plan) > shared(&free.plan));
    }
}
