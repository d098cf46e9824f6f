//! The budgets of the paper are feasible and nearly used up, with sizes checked by hand.

mod common;

use common::{members, request};
use superweight_plan::{
    Clustering, Coefficients, LayerId, PlanError, PlanRequest, Role, SharedRoles, SharingPlan,
    Tiling, TilingChoice,
};

const HETEROGENEOUS: &str = "wrn-34-8,wrn-28-12,wrn-28-10,wrn-28-8";
const HOMOGENEOUS: &str = "wrn-28-5,wrn-28-5,wrn-28-5,wrn-28-5";
const LARGE: &str = "wrn-28-10,wrn-28-10,wrn-28-10,wrn-28-10";
const MULTI_WIDTH: &str = "wrn-28-7,wrn-28-4,wrn-28-3";
const MULTI_DEPTH_WIDTH: &str = "wrn-28-7,wrn-28-4,wrn-16-7,wrn-16-4";

#[test]
fn every_budget_is_met_and_nearly_used_up() {
    for (names, classes, budget, clusters) in [
        ("wrn-28-10", 100, 365_368, "single"),
        ("wrn-28-10", 100, 3_653_688, "single"),
        ("wrn-50-2", 1000, 3_444_162, "single"),
        ("wrn-50-2", 1000, 6_888_324, "single"),
        (HOMOGENEOUS, 100, 7_000_000, "single"),
        (HOMOGENEOUS, 100, 15_000_000, "single"),
        (HOMOGENEOUS, 100, 36_500_000, "single"),
        (HOMOGENEOUS, 100, 7_000_000, "per-position"),
        (HOMOGENEOUS, 100, 15_000_000, "per-position"),
        (HOMOGENEOUS, 100, 36_500_000, "per-position"),
        (HETEROGENEOUS, 100, 7_000_000, "single"),
        (HETEROGENEOUS, 100, 15_000_000, "single"),
        (HETEROGENEOUS, 100, 36_500_000, "single"),
        (HETEROGENEOUS, 100, 7_000_000, "depth:4"),
        (HETEROGENEOUS, 100, 15_000_000, "depth:4"),
        (HETEROGENEOUS, 100, 36_500_000, "depth:4"),
        (LARGE, 100, 36_500_000, "per-position"),
        (LARGE, 100, 120_000_000, "per-position"),
        (MULTI_WIDTH, 100, 18_000_000, "single"),
        (MULTI_WIDTH, 100, 18_000_000, "depth:4"),
        (MULTI_DEPTH_WIDTH, 100, 18_000_000, "single"),
        (MULTI_DEPTH_WIDTH, 100, 18_000_000, "depth:4"),
        ("mobilenet-v2,wrn-28-5", 100, 9_000_000, "single"),
        ("mobilenet-v2,wrn-28-5", 100, 9_000_000, "depth:4"),
    ] {
        let plan = request(names, classes, budget, clusters).plan().unwrap();
        plan.validate().unwrap();
        let unused = plan.unused().unwrap();
        let share = unused as f64 / budget as f64;
        println!(
            "{names} {budget} {clusters}: {} unused {unused} ({:.2}%)",
            plan.tiling,
            100.0 * share
        );
        assert!(
            plan.bill.total() + unused == budget && share < 0.03,
            "{names} at {budget} with {clusters}: {share}"
        );
    }
}

fn nested_min_budget(names: &str, clusters: &str) -> u64 {
    let survey = request(names, 100, 3_653_688, clusters).survey().unwrap();
    survey.nested_min_budget.unwrap()
}

#[test]
fn smallest_nested_budgets_match_counts_by_hand() {
    let fixed = 432 + 17_952 + 64_100; // stem, batch norm, classifier
    assert_eq!(nested_min_budget("wrn-28-10", "single"), 3_973_684);
    assert_eq!(nested_min_budget("wrn-28-10", "single"), 3_891_200 + fixed);
    assert_eq!(nested_min_budget("wrn-28-10", "depth:4"), 8_729_600 + fixed);
    assert_eq!(nested_min_budget("wrn-28-10", "per-layer"), 36_536_884);
}

/// Number of templates and block of every set.
fn sets(plan: &SharingPlan) -> Vec<(usize, [usize; 4])> {
    plan.template_sets.iter().map(|set| (set.templates, set.block)).collect()
}

/// A grid plan of WRN-28-10 with one cluster per kernel size.
///
/// With blocks of 8 the 3×3 layers have 62,840 cells, the shortcuts 4,040, and the classifier 13 ×
/// 80. Stem, batch norm and bias have 18,484 parameters.
fn grid(budget: u64, block: Option<usize>) -> SharingPlan {
    let request = request("wrn-28-10", 100, budget, "single");
    PlanRequest { tiling: TilingChoice::Grid, block, ..request }.plan().unwrap()
}

#[test]
fn grids_of_table_1_match_counts_by_hand() {
    // 5 × (576 + 62,840 own rows) + 5 × (64 + 4,040) + 8 × (64 + 1,040) of 346,884 parameters; the
    // remaining 452 are less than any template costs.
    let plan = grid(365_368, None);
    assert_eq!(plan.tiling, Tiling::Grid { block: 8 });
    assert_eq!(sets(&plan), [(8, [8, 8, 1, 1]), (5, [8, 8, 3, 3]), (5, [8, 8, 1, 1])]);
    let dense_classifier = |budget, block| {
        let shared_roles = SharedRoles { classifier: Some(false), ..SharedRoles::default() };
        let request = request("wrn-28-10", 100, budget, "single");
        let block = Some(block);
        sets(
            &PlanRequest { tiling: TilingChoice::Grid, block, shared_roles, ..request }
                .plan()
                .unwrap(),
        )
    };
    // 14 × (2,304 + 15,710 own rows) + 24 × (256 + 1,010) of 282,884 parameters; a fifteenth
    // template for the first set would cost the second 14 of its 24.
    assert_eq!(dense_classifier(365_368, 16), [(14, [16, 16, 3, 3]), (24, [16, 16, 1, 1])]);
    // 249 × (9,216 + 4,045) + 200 × (1,024 + 265) of 3,571,204 parameters. In proportion to
    // √weights the second set would have 219, but 200 already are 257,800 parameters for 258,560
    // weights.
    assert_eq!(dense_classifier(3_653_688, 32), [(249, [32, 32, 3, 3]), (200, [32, 32, 1, 1])]);
}

#[test]
fn a_grid_has_the_smallest_block_that_allows_three_templates() {
    let tiling = |budget| grid(budget, None).tiling;
    // Blocks of 8 need 3 × (576 + 62,840 + 64 + 4,040 + 64 + 1,040) + 18,484 parameters, blocks of
    // 16 3 × (2,304 + 15,710 + 256 + 1,010 + 256 + 280) + 18,484.
    assert_eq!(tiling(224_356), Tiling::Grid { block: 8 });
    assert_eq!(tiling(224_355), Tiling::Grid { block: 16 });
    assert_eq!(tiling(77_932), Tiling::Grid { block: 16 });
    assert_eq!(tiling(77_931), Tiling::Grid { block: 32 });
    assert_eq!(grid(3_653_688, Some(16)).tiling, Tiling::Grid { block: 16 });
    // Where no grid allows three templates, the choice is Kronecker; a requested grid takes what
    // fits.
    let auto = |budget| request("wrn-28-10", 100, budget, "single").plan().unwrap().tiling;
    let room = 65_446; // 3 × (9,216 + 4,045 + 1,024 + 265 + 1,024 + 80)
    assert_eq!(
        (auto(room), tiling(room)),
        (Tiling::Grid { block: 32 }, Tiling::Grid { block: 32 })
    );
    assert!(matches!(auto(room - 1), Tiling::Kronecker { .. }));
    assert_eq!(tiling(room - 1), Tiling::Grid { block: 32 });
}

#[test]
fn nested_is_chosen_from_twice_its_smallest_budget() {
    let tiling = |budget| request("wrn-28-10", 100, budget, "single").plan().unwrap().tiling;
    assert_eq!(tiling(2 * 3_973_684), Tiling::Nested);
    assert_eq!(tiling(2 * 3_973_684 - 1), Tiling::Grid { block: 8 });
    assert_eq!(tiling(365_368), Tiling::Grid { block: 8 });
    // A budget for all weights needs no sharing, so nested is chosen.
    let unshared = |budget| request("wrn-28-10", 100, budget, "per-layer").plan().unwrap().tiling;
    assert_eq!(unshared(36_536_884), Tiling::Nested);
    assert_ne!(unshared(36_536_883), Tiling::Nested);
    let total = request("wrn-10-1", 10, 1, "single").dense_total().unwrap();
    let small = |budget| request("wrn-10-1", 10, budget, "single").plan().unwrap().tiling;
    assert_eq!(small(total), Tiling::Nested);
    assert_eq!(small(total - 1), Tiling::Grid { block: 8 });
}

/// With no other layer to share, the plan is dense, not nested.
#[test]
fn a_network_where_only_the_classifier_could_share_is_dense() {
    let request = |budget| request("cnn-2", 100, budget, "single");
    let total = request(1).dense_total().unwrap();
    for (budget, tiling) in [(total, Tiling::Dense), (2 * total, Tiling::Dense)] {
        let plan = request(budget).plan().unwrap();
        assert_eq!((plan.tiling, plan.bill.total()), (tiling, total));
        assert_eq!(SharingPlan::from_json(&plan.to_json()).unwrap(), plan);
    }
    assert!(request(total - 1).plan().unwrap().tiling.block().is_some());
}

#[test]
fn the_classifier_shares_where_that_makes_it_smaller() {
    let classifier = |tiling, budget, share: Option<bool>| {
        let request = request("wrn-28-10", 100, budget, "single");
        let shared_roles = SharedRoles { classifier: share, ..SharedRoles::default() };
        let plan = PlanRequest { tiling, shared_roles, ..request }.plan().unwrap();
        let found =
            plan.layers.iter().find(|planned| planned.layer.role == Role::Classifier).unwrap();
        (!found.tiles.is_empty(), plan.bill)
    };
    for tiling in [TilingChoice::Nested, TilingChoice::Grid, TilingChoice::Kronecker] {
        let takes_part = |share| classifier(tiling, 20_000_000, share).0;
        assert!(takes_part(Some(true)) && !takes_part(Some(false)), "{tiling:?}");
        assert_eq!(takes_part(None), tiling == TilingChoice::Grid, "{tiling:?}");
    }
    // At 1% a Kronecker classifier has a fifth as many parameters as its 64,000 weights. At 10% it
    // would have as many, at the expense of the other layers.
    let [one, ten] = [365_368, 3_653_688].map(|budget| {
        [None, Some(true)].map(|share| classifier(TilingChoice::Kronecker, budget, share))
    });
    assert!(one[0].0 && one[0] == one[1]);
    assert!(!ten[0].0 && ten[1].0);
    assert!(ten[0].1.templates + 64_000 > ten[1].1.templates);
    // A grid classifier has 8 × 1,104 parameters at 1%, and at 10% 57 × 1,104, the most below
    // 64,000.
    assert!(
        [365_368, 3_653_688].iter().all(|&budget| classifier(TilingChoice::Grid, budget, None).0)
    );
}

#[test]
fn the_smallest_budget_is_exact_for_every_tiling() {
    for (names, clusters) in
        [("wrn-28-10", "single"), (MULTI_WIDTH, "depth:4"), ("cnn-4-8-8", "per-layer")]
    {
        for tiling in
            [TilingChoice::Auto, TilingChoice::Nested, TilingChoice::Grid, TilingChoice::Kronecker]
        {
            for block in [None, Some(5)] {
                let with =
                    |budget| PlanRequest { tiling, block, ..request(names, 100, budget, clusters) };
                let minimum = with(1).survey().unwrap().min_budget;
                let plan = with(minimum).plan().unwrap();
                plan.validate().unwrap();
                match with(minimum - 1).plan() {
                    Err(PlanError::BudgetTooSmall { needed, .. }) => assert_eq!(needed, minimum),
                    other => panic!("{names} {tiling:?} {block:?}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_dense_plan_is_the_plain_network() {
    let plan =
        PlanRequest { clusters: Clustering::Dense, ..PlanRequest::new(members(LARGE, 100), None) };
    let plan = plan.plan().unwrap();
    plan.validate().unwrap();
    assert_eq!((plan.tiling, plan.bill.total()), (Tiling::Dense, 4 * 36_536_884));
    assert_eq!(plan.bill.dense, 4 * 36_454_832);
    assert!(plan.template_sets.is_empty());
    let short = PlanRequest {
        budget: Some(4 * 36_536_884 - 1),
        clusters: Clustering::Dense,
        ..request(LARGE, 100, 1, "dense")
    };
    assert!(matches!(short.plan(), Err(PlanError::BudgetTooSmall { needed: 146_147_536, .. })));
}

#[test]
fn without_a_budget_every_set_is_at_its_cap() {
    let plan = PlanRequest::new(members("wrn-16-2", 10), None).plan().unwrap();
    plan.validate().unwrap();
    // Nested with K = number of layers that use the set: as many template parameters as weights.
    // (More if tiles are clipped, which they are not here.)
    let shared: u64 =
        plan.layers.iter().filter(|l| !l.tiles.is_empty()).map(|l| l.layer.len()).sum();
    assert_eq!((plan.tiling, plan.bill.templates), (Tiling::Nested, shared));
}

#[test]
fn composed_layers_start_with_hes_std() {
    for clusters in ["per-layer", "single", "depth:2"] {
        let plan = request("wrn-16-4,wrn-10-2", 10, 2_000_000, clusters).plan().unwrap();
        for planned in &plan.layers {
            for tile in &planned.tiles {
                let set = plan.set(plan.superweight(tile.superweight).set);
                let weight = tile.factor * set.std * set.row_norm * set.gain;
                assert!((weight / planned.layer.he_std() - 1.0).abs() < 1e-12);
            }
        }
    }
    let plan = request("wrn-10-1", 10, 100_000, "per-layer").plan().unwrap();
    assert!(plan.layers.iter().flat_map(|l| &l.tiles).all(|tile| tile.factor == 1.0));
}

#[test]
fn nested_templates_go_from_shallow_to_deep() {
    // The budget pays for a few second templates: the shallowest SuperWeights get them.
    let members = "wrn-16-4,wrn-16-4";
    let minimum =
        request(members, 10, 1, "per-position").survey().unwrap().nested_min_budget.unwrap();
    let mut nested = PlanRequest {
        tiling: TilingChoice::Nested,
        ..request(members, 10, minimum + 100_000, "per-position")
    };
    // Reverse the clusters, so that the order of the sets is not that of depth.
    let mut partition = nested.survey().unwrap().partition;
    partition.reverse();
    nested.clusters = Clustering::Explicit(partition);
    let plan = nested.plan().unwrap();
    let by_depth: Vec<(usize, usize)> = {
        let mut sets: Vec<_> = plan
            .superweights
            .iter()
            .map(|s| {
                (
                    plan.layer(plan.clusters[plan.set(s.set).cluster.0].layers[0]).depth,
                    plan.set(s.set).templates,
                )
            })
            .collect();
        sets.sort();
        sets
    };
    let doubled = by_depth.iter().filter(|(_, k)| *k == 2).count();
    assert!(doubled > 2 && doubled < by_depth.len());
    // After the first set that does not fit, only cheaper, deeper sets can get a second template.
    assert!(by_depth.iter().take(3).all(|(_, k)| *k == 2), "{by_depth:?}");
    assert!(by_depth.iter().rev().take(3).all(|(_, k)| *k == 1), "{by_depth:?}");
}

#[test]
fn explicit_coefficients_group_layers_in_every_superweight() {
    let sets = vec![vec![LayerId(1), LayerId(2)], vec![LayerId(5), LayerId(4)]];
    let coefficients = Coefficients::Explicit(sets);
    let plan =
        PlanRequest { coefficients, ..request("wrn-16-4", 10, 600_000, "single") }.plan().unwrap();
    plan.validate().unwrap();
    for superweight in plan.superweights.iter().filter(|s| !s.groups.is_empty()) {
        let users: Vec<_> = superweight.groups.iter().flat_map(|g| &g.layers).collect();
        for group in &superweight.groups {
            let ids: Vec<_> = group.layers.iter().map(|id| id.0).collect();
            let meets = |pair: [usize; 2]| pair.iter().all(|&id| users.contains(&&LayerId(id)));
            let expected = match ids[0] {
                1 | 2 if meets([1, 2]) => vec![1, 2],
                4 | 5 if meets([4, 5]) => vec![4, 5],
                ungrouped => vec![ungrouped],
            };
            assert_eq!(ids, expected);
        }
    }
    let twice = Coefficients::Explicit(vec![vec![LayerId(1)], vec![LayerId(1)]]);
    let request = PlanRequest { coefficients: twice, ..request("wrn-16-4", 10, 600_000, "single") };
    assert!(matches!(request.plan(), Err(PlanError::LayerTwice { .. })));
}

#[test]
fn huge_members_are_refused_and_large_plans_can_be_read() {
    let absurd = request("wrn-28-10000", 10, 1_000, "single");
    assert!(matches!(absurd.survey(), Err(PlanError::TooLarge { .. })));
    // Plans with many templates and many cells survive a round trip.
    for (names, block) in [("wrn-28-40", 1), ("wrn-28-100", 400)] {
        let request = request(names, 10, 1_000_000_000_000, "single");
        let request = PlanRequest { tiling: TilingChoice::Grid, block: Some(block), ..request };
        let plan = request.plan().unwrap();
        assert_eq!(SharingPlan::from_json(&plan.to_json()).unwrap(), plan);
    }
}

/// Shapeshifter Networks cluster coefficients of four templates, even if the budget pays for more.
#[test]
fn a_limit_on_templates_holds_in_every_set() {
    let free = request("wrn-28-10,wrn-16-4", 100, 5_000_000, "single");
    for tiling in [TilingChoice::Grid, TilingChoice::Nested] {
        let request = PlanRequest {
            tiling,
            max_templates: Some(4),
            budget: Some(40_000_000),
            ..free.clone()
        };
        let plan = request.plan().unwrap();
        plan.validate().unwrap();
        assert_eq!(plan.template_sets.iter().map(|set| set.templates).max(), Some(4));
        let least = PlanRequest { max_templates: Some(0), ..request }.plan().unwrap();
        assert!(least.template_sets.iter().all(|set| set.templates <= 2));
    }
}

#[test]
fn kronecker_blocks_make_templates_small_and_use_up_the_budget() {
    let patterned = |budget: u64| PlanRequest {
        tiling: TilingChoice::Kronecker,
        ..request("wrn-28-10", 100, budget, "single")
    };
    // A template has (640/b)² parameters in its pattern and 9·b² in its block. Among powers of two
    // the sum is smallest for b = 16.
    for budget in [365_368, 3_653_688] {
        assert_eq!(patterned(budget).plan().unwrap().tiling, Tiling::Kronecker { block: 16 });
    }
    // With blocks of 16, as many templates as are independent would leave half of this budget.
    let plan = patterned(18_268_442).plan().unwrap();
    assert_eq!(plan.tiling, Tiling::Kronecker { block: 32 });
    assert!(plan.unused().unwrap() < 20_000, "{:?}", plan.unused());
}

/// In one bank, the largest layers of WRN-28-10 are stretched at 10%, and most layers at 1%.
#[test]
fn stretched_plans_use_up_their_budget() {
    for (budget, stretched) in [(3_653_688, 7), (365_368, 16)] {
        let request = request("wrn-28-10", 100, budget, "single");
        let request = PlanRequest { tiling: TilingChoice::Stretched, reserve: 0.0, ..request };
        let plan = request.plan().unwrap();
        assert_eq!(plan.tiling, Tiling::Stretched);
        assert_eq!((plan.clusters.len(), plan.unused()), (1, Some(0)));
        let views = plan.template_sets.iter().filter_map(|set| set.view.as_ref());
        assert_eq!(views.filter(|view| view.from.is_some()).count(), stretched);
        // Nearly every parameter of the bank is read by some layer.
        assert!(
            plan.unused_bank_parameters() * 100 < plan.bill.templates,
            "{}",
            plan.unused_bank_parameters()
        );
        // Stem and batch norms are not shared; the classifier reads the bank.
        assert_eq!(plan.bill.dense + plan.bill.batch_norm, 432 + 17_952);
        assert_eq!(plan.bill.classifier, 100);
        assert_eq!(plan.bill.templates, plan.clusters[0].bank.unwrap());
    }
}

/// BatchEnsemble: four WRN-28-10 cost one, plus a factor per output and input of every layer of
/// every member.
#[test]
fn a_rank_one_plan_costs_one_network_and_factors() {
    let one = request("wrn-28-10", 100, u64::MAX, "dense").plan().unwrap();
    let factors: usize = one.layers().map(|layer| layer.out + layer.inp).sum();
    let request = PlanRequest {
        tiling: TilingChoice::RankOne,
        shared_roles: SharedRoles { stem: true, classifier: None },
        ..request(LARGE, 100, 37_000_000, "per-position")
    };
    let plan = request.plan().unwrap();
    assert_eq!(plan.bill.templates, one.layers().map(|layer| layer.len()).sum::<u64>());
    assert_eq!(plan.bill.coefficients, 4 * factors as u64);
    // Every member has its own batch norms and classifier biases.
    assert_eq!(
        (plan.bill.batch_norm, plan.bill.classifier, plan.bill.dense),
        (4 * 17_952, 4 * 100, 0)
    );
    assert_eq!(request.survey().unwrap().min_budget, plan.bill.total());
    assert!(plan.layers.iter().flat_map(|layer| &layer.tiles).all(|tile| tile.factor == 1.0));
    let apart = PlanRequest { clusters: Clustering::Single, ..request };
    assert_eq!(apart.plan().unwrap().clusters.len(), 11, "one cluster per shape");
}

/// The reported minimum is exact also with a fixed number of templates.
#[test]
fn the_smallest_budget_of_a_bank_with_four_templates_is_exact() {
    for clusters in ["single", "depth:4"] {
        let of = |budget| PlanRequest {
            tiling: TilingChoice::Stretched,
            max_templates: Some(4),
            ..request("wrn-10-1", 10, budget, clusters)
        };
        let minimum = of(1).survey().unwrap().min_budget;
        assert_eq!(of(minimum).plan().unwrap().bill.total(), minimum);
        let error = of(minimum - 1).plan().unwrap_err();
        assert!(
            matches!(error, PlanError::BudgetTooSmall { needed, .. } if needed == minimum),
            "{error}"
        );
    }
}

#[test]
fn a_network_with_exits_must_be_the_only_member() {
    let plan = |names: &str| PlanRequest::new(members(names, 10), None).plan();
    let mut single = plan("msdnet-2-1").unwrap();
    assert_eq!((single.dense_total(), single.validate()), (405_945, Ok(())));
    for beside in ["msdnet-2-1,wrn-10-1", "wrn-10-1,msdnet-2-1", "msdnet-2-1,msdnet-2-1"] {
        assert_eq!(plan(beside), Err(PlanError::Exits("msdnet-2-1".to_owned())), "{beside}");
    }
    single.members.push(members("wrn-10-1", 10).remove(0));
    let error = single.validate().unwrap_err().to_string();
    assert!(error.contains("msdnet-2-1 has early exits: plan it without other members"), "{error}");
}

#[test]
fn members_must_read_the_same_number_of_images() {
    let plan = |names: &str| PlanRequest::new(members(names, 10), None).plan();
    for same in ["mimo-2-wrn-10-1,mimo-2-cnn-8", "wrn-10-1,cnn-8"] {
        plan(same).unwrap().validate().unwrap();
    }
    for different in ["wrn-10-1,mimo-2-wrn-10-1", "mimo-2-wrn-10-1,mimo-3-wrn-10-1"] {
        assert!(matches!(plan(different), Err(PlanError::Heads { .. })), "{different}");
    }
    let mut changed = plan("mimo-2-wrn-10-1,mimo-2-wrn-10-1").unwrap();
    changed.members[1].architecture = "wrn-10-1".parse().unwrap();
    let error = changed.validate().unwrap_err().to_string();
    assert!(
        error.contains("members") && error.contains("read different numbers of images at once"),
        "{error}"
    );
}
