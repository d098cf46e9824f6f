//! Search: from pair similarities to clusters (paper §2.2.1).
//!
//! Algorithm 1 with τ gives the clusters. If the budget does not pay for them, or leaves them too
//! few templates, τ is lowered to the largest value whose clusters fit. Only layers of one starting
//! cluster form pairs, because Eq. 2 compares SuperWeights that both contain. Tiling and block stay
//! those of the plan that training started from.

use super::assign::{Assignment, Pair, assign, merges};
use super::threshold;
use crate::error::PlanError;
use crate::ids::{ClusterId, LayerId};
use crate::number::with_commas;
use crate::partition::Partition;
use crate::plan::{SharingPlan, TemplateSet, Tiling};
use crate::planner::{Clustering, PlanRequest, Rule, WANTED_TEMPLATES};

/// Step by which the authors' code lowers τ until the clusters fit.
const RELEASED_STEP: f64 = 0.05;

/// Settings of [`search`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchSettings {
    /// Threshold τ: layers more similar than this stay in one cluster.
    pub tau: f64,
    /// Number of templates that every set must keep with grid and Kronecker tiling; else τ is
    /// lowered.
    ///
    /// Fewer are enough if the set cannot use that many, or if its layers have fewer in the
    /// starting plan. With Kronecker tiling sets of a single layer are exempt.
    pub min_templates: usize,
    /// Variant of Algorithm 1.
    pub assignment: Assignment,
}

impl SearchSettings {
    /// Returns the defaults for a tiling.
    ///
    /// τ = 0.1. Grid sets keep 3 templates, all others 8: at 1% of WRN-28-10 clusters that left the
    /// last stage 3 grid templates were best.
    pub fn default_for(tiling: Tiling) -> Self {
        let min_templates =
            if matches!(tiling, Tiling::Grid { .. }) { WANTED_TEMPLATES } else { 8 };
        Self { tau: 0.1, min_templates, assignment: Assignment::Merge }
    }
}

/// The result of [`search`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchedPlan {
    /// Plan with the new clusters.
    pub plan: SharingPlan,
    /// Value of τ that gave these clusters.
    pub tau: f64,
    /// Why τ is lower than requested; `None` if it is not.
    pub relaxed: Option<String>,
}

/// Clusters the layers that `start` shares by their similarities, and makes a plan of these
/// clusters.
///
/// `request` gives the budget and all else but clusters and tiling, which come from the search and
/// from `start`.
///
/// # Errors
///
/// [`PlanError::NoFeasibleThreshold`] if no τ gives clusters that fit; other errors if the
/// settings, the pairs or the request are invalid.
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

/// Values of τ to try: the requested one, then every lower value that changes the clusters.
///
/// The clusters of the authors' variant can shrink as τ falls, so there τ falls by 0.05 as in their
/// code, down to −1.
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

/// Fails if τ is not finite, the members differ, or a pair is not within one starting cluster.
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
            "the members of the request are not those of the plan that training started from"
                .to_owned();
        return Err(PlanError::Invalid { place: "members".to_owned(), problem });
    }
    let mut cluster = vec![None; start.layers.len()];
    for (i, c) in start.clusters.iter().enumerate() {
        c.layers.iter().for_each(|id| cluster[id.0] = Some(ClusterId(i)));
    }
    let of = |id: LayerId| cluster.get(id.0).copied().flatten();
    let apart = pairs.iter().find(|pair| of(pair.a).is_none() || of(pair.a) != of(pair.b));
    apart.map_or(Ok(()), |pair| {
        let problem = "pairs must be within one starting cluster";
        Err(PlanError::Similarity { a: pair.a, b: pair.b, value: pair.similarity, problem })
    })
}

/// For each layer, the number of templates that its set must keep.
///
/// It is at most the number in the starting plan, so that keeping the clusters is always possible.
fn floors(start: &SharingPlan, min_templates: usize) -> Vec<usize> {
    let mut floors = vec![min_templates; start.layers.len()];
    for set in &start.template_sets {
        for layer in &start.clusters[set.cluster.0].layers {
            floors[layer.0] = floors[layer.0].min(set.templates);
        }
    }
    floors
}

/// Sets with too few templates for their layers that could use more, and the number they need.
///
/// Only for grid and Kronecker tiling. With Kronecker tiling a set of a single layer is exempt: its
/// templates follow from the size of the layer.
fn starved<'a>(
    plan: &'a SharingPlan,
    floors: &'a [usize],
) -> impl Iterator<Item = (&'a TemplateSet, usize)> {
    let rule = Rule::of(plan.tiling);
    let layers = |set: &TemplateSet| &plan.clusters[set.cluster.0].layers;
    let applies = move |set: &TemplateSet| match plan.tiling {
        Tiling::Dense | Tiling::Nested | Tiling::Stretched | Tiling::RankOne => false,
        Tiling::Grid { .. } => true,
        Tiling::Kronecker { .. } => layers(set).len() > 1,
    };
    let sets = plan.set_costs().into_iter().zip(&plan.template_sets);
    sets.filter_map(move |(cost, set)| {
        let floor = layers(set).iter().map(|layer| floors[layer.0]).min().unwrap_or(0);
        let too_few = applies(set) && set.templates < floor.min(rule.cap(&cost, plan.reserve));
        too_few.then_some((set, floor))
    })
}

/// Makes the plan of these clusters. The inner error tells why the clusters do not fit.
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
            return Ok(Err(format!(
                "{clusters} clusters need {needed} parameters, the budget is {budget}"
            )));
        }
        Err(error) => return Err(error),
    };
    let starved =
        starved(&plan, floors).next().map(|(TemplateSet { cluster, templates, .. }, floor)| {
            format!(
                "{clusters} clusters leave cluster {cluster} only {templates} of {floor} templates"
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
    fn similar_layers_stay_together_and_dissimilar_layers_split() {
        let (request, start) = start("wrn-28-10", 3_653_688, TilingChoice::Grid);
        let parity = |id: LayerId| id.0 % 2;
        let pairs = all_pairs(&start, |a, b| if parity(a) == parity(b) { 0.8 } else { -0.8 });
        let found =
            search(&start, &request, &pairs, SearchSettings::default_for(start.tiling)).unwrap();
        assert_eq!((found.tau, found.relaxed), (0.1, None));
        assert_eq!(found.plan.tiling, start.tiling);
        assert_eq!(found.plan.clusters.len(), 5); // two per kernel size, and the classifier
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
    fn tau_falls_to_the_largest_value_that_fits() {
        let (request, start) = start("wrn-28-10", 365_368, TilingChoice::Grid);
        let pairs = all_pairs(&start, |a, b| {
            (mix(1, (a.0 * 100 + b.0) as u64) % 2000) as f64 / 1000.0 - 1.0
        });
        let layers: Vec<_> = start.clusters.iter().flat_map(|c| c.layers.clone()).collect();
        let settings = SearchSettings { tau: 0.999, ..SearchSettings::default_for(start.tiling) };
        let found = search(&start, &request, &pairs, settings).unwrap();
        assert!(found.relaxed.unwrap().contains("templates"));
        assert!(found.tau < 0.999 && pairs.iter().any(|p| p.similarity == found.tau));
        assert!(found.plan.template_sets.iter().all(|set| set.templates >= WANTED_TEMPLATES));
        // The clusters are those of the reported τ, and those of the next larger similarity do not
        // fit.
        let at = |tau| assign(&layers, &pairs, tau, Assignment::Merge).unwrap();
        let sorted = |mut p: Partition| {
            p.sort();
            p
        };
        assert_eq!(sorted(at(found.tau)), sorted(partition(&found.plan)));
        let larger =
            pairs.iter().map(|p| p.similarity).filter(|&s| s > found.tau).fold(1.0, f64::min);
        assert!(
            attempt(
                &request.with_tiling(start.tiling),
                at(larger),
                &floors(&start, WANTED_TEMPLATES)
            )
            .unwrap()
            .is_err()
        );
    }

    #[test]
    fn with_nested_tiling_tau_falls_until_the_clusters_are_affordable() {
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
    fn an_error_reports_that_no_threshold_fits() {
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

    /// A fifth of a small network pays for few templates of 32×32 in one cluster. Splitting would
    /// leave even fewer, so the search keeps the cluster and does not fail.
    #[test]
    fn a_start_with_few_templates_can_be_kept() {
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

    /// A classifier with two templates does not allow other sets to have as few.
    #[test]
    fn a_small_set_lowers_only_the_floor_of_its_own_layers() {
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
        assert!(found.relaxed.is_some(), "one cluster per layer would cost too much");
        assert!(
            templates(&found.plan, 3).iter().all(|&k| k >= WANTED_TEMPLATES),
            "{:?}",
            found.plan.template_sets
        );
        let of_two = vec![2; start.layers.len()];
        let apart = start.clusters.iter().flat_map(|c| c.layers.chunks(c.layers.len().div_ceil(2)));
        let apart: Partition = apart.map(<[LayerId]>::to_vec).collect();
        let attempt =
            |floors: &[usize]| attempt(&request.with_tiling(start.tiling), apart.clone(), floors);
        assert!(
            attempt(&of_two).unwrap().is_ok()
                && attempt(&floors(&start, WANTED_TEMPLATES)).unwrap().is_err()
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

    /// With Kronecker tiling, too, shared sets must keep their templates; sets of one layer are
    /// exempt.
    #[test]
    fn shared_patterns_keep_their_templates() {
        let mut request = PlanRequest::new(members("wrn-16-4", 10), 60_000);
        request.tiling = TilingChoice::Kronecker;
        let start = request.plan().unwrap();
        let largest = start.clusters.iter().max_by_key(|cluster| cluster.layers.len()).unwrap();
        // In the largest cluster, similarity is 0.5 within two halves and −0.5 across; the first
        // layer is similar to no other. All other clusters agree.
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
