//! Refinement (paper §2.2.2): layers whose coefficient gradients disagree get coefficients of their own.
//!
//! One decision per SuperWeight: Algorithm 1 with β over the layers that use it, within the groups that there are: a plan may
//! come with some, and what has parted stays apart. The groups together may cost what the
//! plan charged for coefficients, live and reserved; where they would cost more, β is lowered to the largest similarity
//! at which they fit. Templates, tiles and factors stay, so a split right after which every group holds a copy of the
//! shared α changes no weight.

use super::assign::{Assignment, Pair, assign};
use crate::error::PlanError;
use crate::ids::{LayerId, SuperWeightId};
use crate::number::with_commas;
use crate::plan::{SharingPlan, Users};

/// How alike the coefficient gradients of the layers on one SuperWeight are (Eq. 3).
#[derive(Clone, Debug, PartialEq)]
pub struct CoefficientPairs {
    /// Which SuperWeight.
    pub superweight: SuperWeightId,
    /// Pairs of layers that use it.
    pub pairs: Vec<Pair>,
}

/// A refined plan.
#[derive(Clone, Debug, PartialEq)]
pub struct RefinedPlan {
    /// The same plan with new coefficient groups.
    pub plan: SharingPlan,
    /// The threshold that gave them.
    pub beta: f64,
    /// Why it is not the one asked for.
    pub relaxed: Option<String>,
}

/// New coefficient groups for every SuperWeight given; the others keep theirs.
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
                _ => true, // of a layer that does not use it, which is refused
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

    let asked = at(beta)?;
    if fits(&asked) {
        return Ok(RefinedPlan { plan: asked, beta, relaxed: None });
    }
    let relaxed = format!(
        "the groups would have {} coefficients, the plan has room for {}",
        with_commas(asked.bill.coefficients),
        with_commas(allowed)
    );
    let lower = lower_thresholds(similarities, beta);
    let first = match assignment {
        // Every merge saves coefficients: what fits at one threshold fits at all lower ones.
        Assignment::Merge => {
            let (mut low, mut high) = (0, lower.len());
            while low < high {
                let middle = (low + high) / 2;
                if fits(&at(lower[middle])?) { high = middle } else { low = middle + 1 }
            }
            low
        }
        // Here a lower threshold may cost more.
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

/// Similarities below β, falling, then −1: at these the groups may change.
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
    fn groups_follow_beta_and_the_bill_keeps_the_budget() {
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
    fn without_reserve_nothing_splits_and_missing_pairs_are_an_error() {
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
    fn what_has_parted_stays_apart() {
        let plan = PlanRequest::new(members("wrn-28-10", 100), 3_653_688).plan().unwrap();
        let parted =
            refine(&plan, &similarities(&plan, random), 0.5, Assignment::Merge).unwrap().plan;
        assert_ne!(parted, plan);
        let alike =
            refine(&parted, &similarities(&parted, |_, _| 1.0), 0.9, Assignment::Merge).unwrap();
        assert_eq!(alike.plan, parted);
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
    fn the_released_variant_gets_the_largest_beta_that_fits() {
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
    fn a_threshold_that_is_no_number_is_refused() {
        let plan = PlanRequest::new(members("wrn-28-10", 100), 3_653_688).plan().unwrap();
        for beta in [f64::NAN, f64::INFINITY] {
            let error =
                refine(&plan, &similarities(&plan, random), beta, Assignment::Merge).unwrap_err();
            assert!(matches!(error, PlanError::Threshold { .. }), "{error}");
        }
    }

    #[test]
    fn foreign_superweights_are_refused() {
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
