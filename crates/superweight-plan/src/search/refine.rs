//! Refinement: layers whose coefficient gradients disagree get their own coefficients (paper
//! §2.2.2).
//!
//! For each SuperWeight, Algorithm 1 with β groups the layers that use it. Layers in different
//! groups of the plan are never put together again. The groups may cost all coefficients that the
//! plan paid for, live and reserved. If they would cost more, β is lowered to the largest
//! similarity at which they fit. Templates, tiles and factors stay. So if every new group starts
//! with a copy of the α that it shared before, no weight changes.

use super::assign::{Assignment, Pair, assign};
use crate::error::PlanError;
use crate::ids::{LayerId, SuperWeightId};
use crate::number::with_commas;
use crate::plan::{SharingPlan, Users};

/// Similarities of the coefficient gradients of the layers that use one SuperWeight (Eq. 3).
#[derive(Clone, Debug, PartialEq)]
pub struct CoefficientPairs {
    /// The SuperWeight.
    pub superweight: SuperWeightId,
    /// Pairs of layers that use the SuperWeight.
    pub pairs: Vec<Pair>,
}

/// The result of [`refine`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RefinedPlan {
    /// Plan with the new coefficient groups.
    pub plan: SharingPlan,
    /// Value of β that gave these groups.
    pub beta: f64,
    /// Why β is lower than requested; `None` if it is not.
    pub relaxed: Option<String>,
}

/// Makes new coefficient groups for the SuperWeights in `similarities`; all others keep theirs.
///
/// # Errors
///
/// [`PlanError::NoFeasibleThreshold`] if no β gives groups that fit; other errors if β is not
/// finite, a SuperWeight is unknown or given twice, or a pair is invalid.
pub fn refine(
    plan: &SharingPlan,
    similarities: &[CoefficientPairs],
    beta: f64,
    assignment: Assignment,
) -> Result<RefinedPlan, PlanError> {
    if !beta.is_finite() {
        return Err(PlanError::Threshold { name: "β", value: beta });
    }
    let users = users(plan, similarities)?;
    let allowed = plan.bill.coefficients + plan.bill.reserved;
    let at = |beta: f64| -> Result<SharingPlan, PlanError> {
        let mut refined = plan.clone();
        for (given, users) in similarities.iter().zip(&users) {
            let layers: Vec<_> = users.iter().map(|&(layer, _)| layer).collect();
            let groups = &plan.superweight(given.superweight).groups;
            let group =
                |layer: LayerId| groups.iter().position(|group| group.layers.contains(&layer));
            let together = |pair: &&Pair| match (group(pair.a), group(pair.b)) {
                (Some(a), Some(b)) => a == b,
                _ => true, // a layer that does not use the SuperWeight: `assign` refuses the pair
            };
            let pairs: Vec<_> = given.pairs.iter().filter(together).copied().collect();
            refined.set_groups(
                given.superweight,
                users,
                assign(&layers, &pairs, beta, assignment)?,
            );
        }
        refined.bill = refined.count();
        Ok(refined)
    };
    let fits = |refined: &SharingPlan| refined.bill.coefficients <= allowed;

    let requested = at(beta)?;
    if fits(&requested) {
        return Ok(RefinedPlan { plan: requested, beta, relaxed: None });
    }
    let relaxed = format!(
        "the groups would have {} coefficients, the plan has room for {}",
        with_commas(requested.bill.coefficients),
        with_commas(allowed)
    );
    let lower = lower_thresholds(similarities, beta);
    let first = match assignment {
        // Every merge saves coefficients, so all thresholds below one that fits also fit.
        Assignment::Merge => {
            let (mut low, mut high) = (0, lower.len());
            while low < high {
                let middle = (low + high) / 2;
                if fits(&at(lower[middle])?) { high = middle } else { low = middle + 1 }
            }
            low
        }
        // In this variant a lower threshold can cost more, so try them one after another.
        Assignment::Released => {
            let mut tried = 0;
            while tried < lower.len() && !fits(&at(lower[tried])?) {
                tried += 1;
            }
            tried
        }
    };
    match lower.get(first) {
        Some(&beta) => Ok(RefinedPlan { plan: at(beta)?, beta, relaxed: Some(relaxed) }),
        None => {
            let coarsest = at(lower.last().copied().unwrap_or(beta))?.bill.coefficients;
            let (needed, allowed) = (with_commas(coarsest), with_commas(allowed));
            let reason =
                format!("the groups have {needed} coefficients, the plan has room for {allowed}");
            Err(PlanError::NoFeasibleThreshold { reason })
        }
    }
}

/// Users of each given SuperWeight. Fails if one is unknown, given twice, or without coefficients.
fn users(plan: &SharingPlan, similarities: &[CoefficientPairs]) -> Result<Vec<Users>, PlanError> {
    let all = plan.users();
    let mut seen = vec![false; all.len()];
    let of = |(i, given): (usize, &CoefficientPairs)| {
        let id = given.superweight;
        let wrong =
            |problem: String| PlanError::Invalid { place: format!("similarities[{i}]"), problem };
        let superweight = plan
            .superweights
            .get(id.0)
            .ok_or_else(|| wrong(format!("there is no SuperWeight {id}")))?;
        if superweight.groups.is_empty() {
            return Err(wrong(format!("SuperWeight {id} has one template and no coefficients")));
        }
        if std::mem::replace(&mut seen[id.0], true) {
            return Err(wrong(format!("SuperWeight {id} is given twice")));
        }
        Ok(all[id.0].clone())
    };
    similarities.iter().enumerate().map(of).collect()
}

/// Similarities below β in falling order, then −1: the thresholds at which groups can change.
fn lower_thresholds(similarities: &[CoefficientPairs], beta: f64) -> Vec<f64> {
    let all = similarities.iter().flat_map(|given| &given.pairs).map(|pair| pair.similarity);
    let mut lower: Vec<f64> = all.chain([-1.0]).filter(|&s| s < beta && s >= -1.0).collect();
    lower.sort_by(|a, b| b.total_cmp(a));
    lower.dedup();
    lower
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::PlanRequest;
    use crate::rng::mix;
    use crate::testing::members;

    fn similarities(
        plan: &SharingPlan,
        similarity: impl Fn(LayerId, LayerId) -> f64,
    ) -> Vec<CoefficientPairs> {
        let users = plan.users();
        let given = |(i, users): (usize, &Vec<(LayerId, [usize; 2])>)| {
            let pairs = users
                .iter()
                .enumerate()
                .flat_map(|(n, &(b, _))| users[..n].iter().map(move |&(a, _)| (a, b)));
            let pairs = pairs.map(|(a, b)| Pair::new(a, b, similarity(a, b))).collect();
            CoefficientPairs { superweight: SuperWeightId(i), pairs }
        };
        let all = users.iter().enumerate().map(given);
        all.filter(|g| !plan.superweight(g.superweight).groups.is_empty()).collect()
    }

    fn random(a: LayerId, b: LayerId) -> f64 {
        (mix(5, (a.0 * 1000 + b.0) as u64) % 2001) as f64 / 1000.0 - 1.0
    }

    #[test]
    fn refined_plans_keep_the_budget_at_every_beta() {
        for (names, budget) in
            [("wrn-28-10", 3_653_688), ("wrn-28-7,wrn-28-4,wrn-28-3", 18_000_000)]
        {
            let plan = PlanRequest::new(members(names, 100), budget).plan().unwrap();
            for beta in [-1.0, 0.0, 0.5, 0.95, 2.0] {
                let refined =
                    refine(&plan, &similarities(&plan, random), beta, Assignment::Merge).unwrap();
                refined.plan.validate().unwrap();
                assert_eq!(
                    (refined.beta, &refined.relaxed),
                    (beta, &None),
                    "reserve 1.0 pays for every group"
                );
                assert!(refined.plan.bill.total() <= budget);
                assert_eq!(refined.plan.template_sets, plan.template_sets);
            }
            let shared =
                refine(&plan, &similarities(&plan, |_, _| 1.0), 0.9, Assignment::Merge).unwrap();
            assert_eq!(shared.plan, plan);
            let own =
                refine(&plan, &similarities(&plan, |_, _| 0.0), 0.9, Assignment::Merge).unwrap();
            assert_eq!(own.plan.bill.reserved, 0);
        }
    }

    #[test]
    fn beta_falls_until_the_groups_fit_the_reserve() {
        let mut request = PlanRequest::new(members("wrn-28-10", 100), 3_653_688);
        request.reserve = 0.3;
        let plan = request.plan().unwrap();
        let given = similarities(&plan, random);
        let refined = refine(&plan, &given, 0.999, Assignment::Merge).unwrap();
        assert!(refined.relaxed.is_some());
        assert!(refined.plan.bill.coefficients > plan.bill.coefficients);
        assert!(refined.plan.bill.total() <= 3_653_688);
        let larger =
            given.iter().flat_map(|g| &g.pairs).map(|p| p.similarity).filter(|&s| s > refined.beta);
        let next = refine(&plan, &given, larger.fold(1.0, f64::min), Assignment::Merge).unwrap();
        assert_eq!(next.beta, refined.beta, "the next larger similarity does not fit");
    }

    #[test]
    fn without_a_reserve_nothing_splits() {
        let mut request = PlanRequest::new(members("wrn-28-10", 100), 3_653_688);
        request.reserve = 0.0;
        let plan = request.plan().unwrap();
        let refined = refine(&plan, &similarities(&plan, random), 0.9, Assignment::Merge).unwrap();
        assert_eq!(refined.plan, plan);
        let none: Vec<_> = similarities(&plan, random)
            .into_iter()
            .map(|g| CoefficientPairs { pairs: vec![], ..g })
            .collect();
        let error = refine(&plan, &none, 0.9, Assignment::Merge).unwrap_err();
        assert!(matches!(error, PlanError::NoFeasibleThreshold { .. }), "{error}");
    }

    #[test]
    fn separate_groups_never_merge_again() {
        let plan = PlanRequest::new(members("wrn-28-10", 100), 3_653_688).plan().unwrap();
        let parted =
            refine(&plan, &similarities(&plan, random), 0.5, Assignment::Merge).unwrap().plan;
        assert_ne!(parted, plan);
        let unchanged =
            refine(&parted, &similarities(&parted, |_, _| 1.0), 0.9, Assignment::Merge).unwrap();
        assert_eq!(unchanged.plan, parted);
        let foreign = |given: CoefficientPairs| CoefficientPairs {
            pairs: given.pairs.into_iter().map(|pair| Pair { b: LayerId(0), ..pair }).collect(),
            ..given
        };
        let foreign: Vec<_> = similarities(&plan, random).into_iter().map(foreign).collect();
        assert!(matches!(
            refine(&plan, &foreign, 0.9, Assignment::Merge),
            Err(PlanError::Similarity { .. })
        ));
    }

    #[test]
    fn the_released_variant_finds_the_largest_beta_that_fits() {
        let mut request = PlanRequest::new(members("wrn-16-4", 10), 300_000);
        request.reserve = 0.4;
        let plan = request.plan().unwrap();
        let allowed = plan.bill.coefficients + plan.bill.reserved;
        for seed in 0..12 {
            let given = similarities(&plan, |a, b| {
                (mix(seed, (a.0 * 99 + b.0) as u64) % 41) as f64 / 20.0 - 1.0
            });
            let cost = |beta: f64| {
                let mut plan = plan.clone();
                for (given, users) in given.iter().zip(users(&plan, &given).unwrap()) {
                    let layers: Vec<_> = users.iter().map(|u| u.0).collect();
                    let groups = assign(&layers, &given.pairs, beta, Assignment::Released).unwrap();
                    plan.set_groups(given.superweight, &users, groups);
                }
                plan.count().coefficients
            };
            let mut all: Vec<f64> =
                given.iter().flat_map(|g| &g.pairs).map(|pair| pair.similarity).collect();
            all.sort_by(|a, b| b.total_cmp(a));
            let best = all.into_iter().chain([-1.0]).find(|&beta| cost(beta) <= allowed);
            match refine(&plan, &given, 2.0, Assignment::Released) {
                Ok(refined) => assert_eq!(Some(refined.beta), best, "seed {seed}"),
                Err(error) => assert!(best.is_none(), "{error}"),
            }
        }
    }

    #[test]
    fn a_threshold_that_is_not_finite_is_refused() {
        let plan = PlanRequest::new(members("wrn-28-10", 100), 3_653_688).plan().unwrap();
        for beta in [f64::NAN, f64::INFINITY] {
            let error =
                refine(&plan, &similarities(&plan, random), beta, Assignment::Merge).unwrap_err();
            assert!(matches!(error, PlanError::Threshold { .. }), "{error}");
        }
    }

    #[test]
    fn unknown_and_repeated_superweights_are_refused() {
        let plan = PlanRequest::new(members("wrn-28-10", 100), 3_653_688).plan().unwrap();
        let given = |id| CoefficientPairs { superweight: SuperWeightId(id), pairs: vec![] };
        for bad in [vec![given(999)], vec![given(0), given(0)]] {
            assert!(matches!(
                refine(&plan, &bad, 0.5, Assignment::Merge),
                Err(PlanError::Invalid { .. })
            ));
        }
    }
}
