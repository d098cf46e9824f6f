//! Data with which the page runs Algorithm 1 again for any τ and β: similarities, and the cost of
//! every outcome.
//!
//! Clusters change only at thresholds where a pair merges, so there are at most as many outcomes as
//! layers. Each is planned here once, and the page reads its bill. Planning in the page would need
//! a second planner in another language. The page itself computes Algorithm 1, the nearest feasible
//! threshold, and the number of coefficients; a test compares each with the planner.

use serde::Serialize;
use superweight_plan::{
    Assignment, Bill, CoefficientPairs, LayerId, Pair, PlanError, PlanRequest, SearchSettings,
    SharingPlan, merges, search,
};

use crate::search::groups;

/// All outcomes of a search, over τ.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClusterReplay {
    /// What layers are compared by: `gradients` or `weights`.
    pub compared: &'static str,
    /// τ of the recipe.
    pub tau: f64,
    /// Initial clusters; only layers of the same one are compared.
    pub start: Vec<Vec<usize>>,
    /// ψ of the pairs of each initial cluster, as a triangle: second layer with the first, third
    /// with the first and the second, and so on. `null` where a pair was not compared.
    pub psi: Vec<Vec<Option<f64>>>,
    /// Outcomes for falling thresholds; empty if the page cannot replay the search.
    pub steps: Vec<Step>,
    /// Why the page cannot replay the search.
    pub note: Option<String>,
}

/// The clusters for a range of thresholds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// Similarity of the merge that separates this step from the one before; none for the first
    /// step, in which every layer is by itself.
    pub merge: Option<f64>,
    /// Threshold that relaxing τ to this step ends at.
    pub relaxed: f64,
    /// Number of clusters.
    pub clusters: usize,
    /// Parameters of the plan by part; none if there is no plan.
    pub bill: Option<Bill>,
    /// Smallest and largest number of templates of a set.
    pub templates: Option<[usize; 2]>,
    /// Why there is no plan.
    pub why: Option<String>,
}

/// All outcomes of a refinement, over β.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupReplay {
    /// β of the recipe.
    pub beta: f64,
    /// Number of coefficients that fit into the budget.
    pub allowed: u64,
    /// Coefficients of the SuperWeights that refinement does not decide about.
    pub others: u64,
    /// Coefficient groups of these SuperWeights.
    pub other_groups: usize,
    /// Clusters that β was measured on.
    pub clusters: Vec<Vec<usize>>,
    /// SuperWeights that refinement decides about.
    pub superweights: Vec<GroupChoice>,
    /// Why the page cannot replay the refinement.
    pub note: Option<String>,
}

/// The layers on one SuperWeight, with the pairs that merge.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupChoice {
    /// Index of the SuperWeight.
    pub id: usize,
    /// Number of templates K.
    pub templates: usize,
    /// Each layer with its rows and columns of cells; one cell for patterns, where α has one row.
    pub users: Vec<[usize; 3]>,
    /// Pairs that merge groups: two layers, ψ, and the next lower similarity of any pair. These
    /// pairs give the same groups as all pairs under every threshold.
    pub merges: Vec<(usize, usize, f64, f64)>,
}

/// Why a slider is disabled.
const RELEASED: &str = "the run used the released code's variant of Algorithm 1, whose groups depend on the order of \
                        pairs; 'swn search --replay' computes it, this page does not";

impl ClusterReplay {
    /// All outcomes of a search. `start` is the plan of the search, `request` the request for the
    /// plan of training.
    pub fn new(
        start: &SharingPlan,
        request: &PlanRequest,
        compared: &'static str,
        pairs: &[Pair],
        settings: SearchSettings,
    ) -> Result<Self, PlanError> {
        let ids = |layers: &[LayerId]| layers.iter().map(|id| id.0).collect::<Vec<_>>();
        let mut replay = Self {
            compared,
            tau: settings.tau,
            start: start.clusters.iter().map(|cluster| ids(&cluster.layers)).collect(),
            psi: triangles(start, pairs),
            steps: vec![],
            note: None,
        };
        match settings.assignment {
            Assignment::Merge => replay.steps = steps(start, request, pairs, settings)?,
            Assignment::Released => replay.note = Some(RELEASED.to_owned()),
        }
        Ok(replay)
    }
}

/// Similarities of the pairs of each initial cluster, as triangles.
fn triangles(start: &SharingPlan, pairs: &[Pair]) -> Vec<Vec<Option<f64>>> {
    let mut place = vec![None; start.layers.len()];
    for (c, cluster) in start.clusters.iter().enumerate() {
        cluster.layers.iter().enumerate().for_each(|(n, id)| place[id.0] = Some((c, n)));
    }
    let sizes = start.clusters.iter().map(|cluster| cluster.layers.len());
    let mut triangles: Vec<_> = sizes.map(|n| vec![None; n * n.saturating_sub(1) / 2]).collect();
    for pair in pairs {
        let places = [pair.a, pair.b].map(|id| place.get(id.0).copied().flatten());
        if let [Some((c, m)), Some((other, n))] = places
            && c == other
            && m != n
        {
            let (low, high) = (m.min(n), m.max(n));
            triangles[c][high * (high - 1) / 2 + low] = Some(pair.similarity);
        }
    }
    triangles
}

/// Outcomes of the search for all thresholds τ, one per range of τ with the same merges: the number
/// of clusters, and the cost of the plan or why no plan is feasible.
fn steps(
    start: &SharingPlan,
    request: &PlanRequest,
    pairs: &[Pair],
    settings: SearchSettings,
) -> Result<Vec<Step>, PlanError> {
    let layers: Vec<LayerId> =
        start.clusters.iter().flat_map(|c| c.layers.iter().copied()).collect();
    let merging = merges(&layers, pairs)?;
    let mut similarities: Vec<f64> = pairs.iter().map(|pair| pair.similarity).collect();
    similarities.sort_by(f64::total_cmp);
    let mut values: Vec<f64> =
        merging.iter().map(|pair| pair.similarity).filter(|&m| m > -1.0).collect();
    values.dedup();
    let mut all = vec![];
    for merge in [None].into_iter().chain(values.iter().copied().map(Some)) {
        let relaxed = merge.map_or(1.0, |m| next_below(&similarities, m));
        // With only these pairs the search cannot relax, so the planner returns exactly this
        // outcome.
        let above: Vec<Pair> = merging
            .iter()
            .filter(|pair| merge.is_some_and(|m| pair.similarity >= m))
            .copied()
            .collect();
        let outcome = search(start, request, &above, SearchSettings { tau: relaxed, ..settings });
        let clusters = layers.len() - above.len();
        let step = Step { merge, relaxed, clusters, bill: None, templates: None, why: None };
        all.push(match outcome {
            Ok(found) => {
                let counts = || found.plan.template_sets.iter().map(|set| set.templates);
                let templates =
                    counts().min().zip(counts().max()).map(|(least, most)| [least, most]);
                Step { bill: Some(found.plan.bill), templates, ..step }
            }
            Err(PlanError::NoFeasibleThreshold { reason }) => Step { why: Some(reason), ..step },
            Err(error) => return Err(error),
        });
    }
    Ok(all)
}

/// The largest similarity below a value, or −1.
fn next_below(sorted: &[f64], value: f64) -> f64 {
    let below = sorted.partition_point(|&s| s < value);
    sorted[..below].last().map_or(-1.0, |s| s.max(-1.0))
}

impl GroupReplay {
    /// All outcomes of a refinement. `plan` is the plan that was trained until then.
    pub fn new(
        plan: &SharingPlan,
        similarities: &[CoefficientPairs],
        beta: f64,
        assignment: Assignment,
    ) -> Result<Self, PlanError> {
        let users = plan.users();
        let mut sorted: Vec<f64> = similarities
            .iter()
            .flat_map(|given| &given.pairs)
            .map(|pair| pair.similarity)
            .collect();
        sorted.sort_by(f64::total_cmp);
        let (mut decided, mut decided_groups) = (0, 0);
        let mut superweights = vec![];
        for given in similarities {
            let superweight = plan.superweight(given.superweight);
            let templates = plan.set(superweight.set).templates;
            let users = &users[given.superweight.0];
            decided +=
                superweight.groups.iter().map(|g| (g.shape[0] * g.shape[1]) as u64).sum::<u64>();
            decided_groups += superweight.groups.len();
            let layers: Vec<LayerId> = users.iter().map(|&(layer, _)| layer).collect();
            let merge = |pair: Pair| {
                (pair.a.0, pair.b.0, pair.similarity, next_below(&sorted, pair.similarity))
            };
            superweights.push(GroupChoice {
                id: given.superweight.0,
                templates,
                users: users
                    .iter()
                    .map(
                        |&(layer, [rows, cols])| {
                            if plan.has_patterns() {
                                [layer.0, 1, 1]
                            } else {
                                [layer.0, rows, cols]
                            }
                        },
                    )
                    .collect(),
                merges: merges(&layers, &given.pairs)?.into_iter().map(merge).collect(),
            });
        }
        Ok(Self {
            beta,
            allowed: plan.bill.coefficients + plan.bill.reserved,
            others: plan.bill.coefficients - decided,
            other_groups: groups(plan) - decided_groups,
            clusters: plan
                .clusters
                .iter()
                .map(|c| c.layers.iter().map(|id| id.0).collect())
                .collect(),
            superweights,
            note: (assignment == Assignment::Released).then(|| RELEASED.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Recipe, Resolved};
    use crate::rng::Draws;
    use superweight_plan::{SuperWeightId, assign, refine};

    fn resolved() -> Resolved {
        tiled("auto")
    }

    fn tiled(tiling: &str) -> Resolved {
        let recipe = "members = ['wrn-16-2', 'wrn-10-1']\nbudget = '60K'\nsearch.min_templates = 8\n[plan]\nclusters = 'single'";
        Recipe::parse("r", recipe, &[format!("plan.tiling={tiling}")]).unwrap().resolve().unwrap()
    }

    fn random_pairs(start: &SharingPlan, draws: Draws) -> Vec<Pair> {
        let mut pairs = vec![];
        for cluster in &start.clusters {
            for (n, &b) in cluster.layers.iter().enumerate() {
                for &a in &cluster.layers[..n] {
                    let at = (a.0 * 1000 + b.0) as u64;
                    pairs.push(Pair::new(a, b, draws.signed_unit(at)));
                }
            }
        }
        pairs
    }

    /// The step for a threshold is the outcome of the planner's search with that threshold.
    #[test]
    fn the_steps_are_the_outcomes_of_every_threshold() {
        let resolved = resolved();
        let start = resolved.plan_request().unwrap().plan().unwrap();
        let request = resolved.train_request().unwrap();
        let settings = resolved.search.unwrap().settings;
        let (mut relaxed, mut kept) = (0, 0);
        for seed in 0..3 {
            let draws = Draws::new(&[seed, 77]);
            let pairs = random_pairs(&start, draws);
            let replay =
                ClusterReplay::new(&start, &request, "gradients", &pairs, settings).unwrap();
            let layers: Vec<LayerId> =
                start.clusters.iter().flat_map(|c| c.layers.clone()).collect();
            for n in 0..20 {
                let tau = draws.signed_unit(1 << 30 | n);
                let first =
                    replay.steps.iter().filter(|s| s.merge.is_none_or(|m| m > tau)).count() - 1;
                let partition = assign(&layers, &pairs, tau, Assignment::Merge).unwrap();
                assert_eq!(replay.steps[first].clusters, partition.len());
                let settings = SearchSettings { tau, ..settings };
                match search(&start, &request, &pairs, settings) {
                    Ok(found) => {
                        let fits =
                            replay.steps[first..].iter().position(|s| s.bill.is_some()).unwrap();
                        let step = &replay.steps[first + fits];
                        assert_eq!(step.bill, Some(found.plan.bill));
                        assert_eq!(found.tau, if fits == 0 { tau } else { step.relaxed });
                        assert_eq!(found.relaxed, replay.steps[first].why);
                        if fits == 0 { kept += 1 } else { relaxed += 1 }
                    }
                    Err(_) => assert!(replay.steps[first..].iter().all(|s| s.bill.is_none())),
                }
            }
        }
        assert!(relaxed > 5 && kept > 5, "both happen: {relaxed} relaxed, {kept} kept");
    }

    /// The page counts coefficients from the grids it is given; refinement's plan has the same
    /// number.
    #[test]
    fn the_page_counts_the_coefficients_of_the_refined_plan() {
        for tiling in ["grid", "kronecker"] {
            let plan = tiled(tiling).train_request().unwrap().plan().unwrap();
            let draws = Draws::new(&[3]);
            let of = |(i, users): (usize, Vec<(LayerId, [usize; 2])>)| {
                let pairs = users.iter().enumerate().flat_map(|(n, &(b, _))| {
                    users[..n].iter().map(move |&(a, _)| {
                        Pair::new(a, b, draws.signed_unit((i * 10_000 + a.0 * 100 + b.0) as u64))
                    })
                });
                CoefficientPairs { superweight: SuperWeightId(i), pairs: pairs.collect() }
            };
            // As in training, SuperWeights of a single layer are not decided about.
            let mut similarities: Vec<_> = plan.users().into_iter().enumerate().map(of).collect();
            similarities.retain(|given| !given.pairs.is_empty());
            let replay = GroupReplay::new(&plan, &similarities, 0.5, Assignment::Merge).unwrap();
            let refined = refine(&plan, &similarities, 0.5, Assignment::Merge).unwrap();
            assert_eq!(refined.relaxed, None);
            let (mut counted, mut counted_groups) = (replay.others, replay.other_groups);
            for (choice, given) in replay.superweights.iter().zip(&similarities) {
                let layers: Vec<LayerId> =
                    choice.users.iter().map(|user| LayerId(user[0])).collect();
                for part in assign(&layers, &given.pairs, 0.5, Assignment::Merge).unwrap() {
                    let grids = choice.users.iter().filter(|user| part.contains(&LayerId(user[0])));
                    let cells = grids.flat_map(|&[_, rows, cols]| {
                        (0..rows).flat_map(move |r| (0..cols).map(move |c| (r, c)))
                    });
                    let cells: std::collections::BTreeSet<_> = cells.collect();
                    counted += (cells.len() * choice.templates) as u64;
                    counted_groups += 1;
                }
            }
            assert_eq!(counted, refined.plan.bill.coefficients, "{tiling}");
            assert_eq!(counted_groups, groups(&refined.plan), "{tiling}: as the terminal counts");
        }
    }

    #[test]
    fn the_triangles_have_pairs_where_the_page_reads_them() {
        let resolved = resolved();
        let start = resolved.plan_request().unwrap().plan().unwrap();
        let pairs = random_pairs(&start, Draws::new(&[5]));
        let psi = triangles(&start, &pairs);
        let largest =
            (0..start.clusters.len()).max_by_key(|&c| start.clusters[c].layers.len()).unwrap();
        let layers = &start.clusters[largest].layers;
        let pair = pairs.iter().find(|p| (p.a, p.b) == (layers[2], layers[4])).unwrap();
        // Before row 4 there are 0 + 1 + 2 + 3 pairs.
        assert_eq!(psi[largest][6 + 2], Some(pair.similarity));
        assert_eq!(
            triangles(&start, &[])[largest],
            vec![None; layers.len() * (layers.len() - 1) / 2]
        );
    }
}
