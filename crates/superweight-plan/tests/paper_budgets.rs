//! Every budget of the paper can be met, and is nearly used up.

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
fn met_and_used() {
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
fn nested_minima_are_those_counted_by_hand() {
    let fixed = 432 + 17_952 + 64_100; // stem, batch norm, classifier
    assert_eq!(nested_min_budget("wrn-28-10", "single"), 3_973_684);
    assert_eq!(nested_min_budget("wrn-28-10", "single"), 3_891_200 + fixed);
    assert_eq!(nested_min_budget("wrn-28-10", "depth:4"), 8_729_600 + fixed);
    assert_eq!(nested_min_budget("wrn-28-10", "per-layer"), 36_536_884);
}

/// K of every set, and the block.
fn sets(plan: &SharingPlan) -> Vec<(usize, [usize; 4])> {
    plan.template_sets.iter().map(|set| (set.templates, set.block)).collect()
}

/// A grid for WRN-28-10 in one cluster a kernel size. With blocks of 8 its 3×3 layers have 62,840
/// cells, its shortcuts 4,040, its classifier 13 × 80; stem, batch norm and bias are 18,484
/// numbers.
fn grid(budget: u64, block: Option<usize>) -> SharingPlan {
    let request = request("wrn-28-10", 100, budget, "single");
    PlanRequest { tiling: TilingChoice::Grid, block, ..request }.plan().unwrap()
}

#[test]
fn grids_of_table_1_are_those_counted_by_hand() {
    // 5 × (576 + 62,840 own rows) + 5 × (64 + 4,040) + 8 × (64 + 1,040) of 346,884 numbers; the 452
    // left are less than any template costs.
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
    // 14 × (2,304 + 15,710 own rows) + 24 × (256 + 1,010) of 282,884 numbers; a fifteenth would
    // cost 14 of the 24.
    assert_eq!(dense_classifier(365_368, 16), [(14, [16, 16, 3, 3]), (24, [16, 16, 1, 1])]);
    // 249 × (9,216 + 4,045) + 200 × (1,024 + 265) of 3,571,204. By the root of its weights the
    // second would have 219, but 200 are 257,800 numbers for 258,560 weights.
    assert_eq!(dense_classifier(3_653_688, 32), [(249, [32, 32, 3, 3]), (200, [32, 32, 1, 1])]);
}

#[test]
fn a_grid_takes_the_smallest_block_with_room_for_three_templates() {
    let tiling = |budget| grid(budget, None).tiling;
    // 3 × (576 + 62,840 + 64 + 4,040 + 64 + 1,040) + 18,484; of blocks of 16 3 × (2,304 + 15,710 +
    // 256 + 1,010 + 256 + 280).
    assert_eq!(tiling(224_356), Tiling::Grid { block: 8 });
    assert_eq!(tiling(224_355), Tiling::Grid { block: 16 });
    assert_eq!(tiling(77_932), Tiling::Grid { block: 16 });
    assert_eq!(tiling(77_931), Tiling::Grid { block: 32 });
    assert_eq!(grid(3_653_688, Some(16)).tiling, Tiling::Grid { block: 16 });
    // Where no grid has room patterns have; a grid that is asked for takes what fits.
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
fn the_tiling_rule_turns_at_half_the_budget() {
    let tiling = |budget| request("wrn-28-10", 100, budget, "single").plan().unwrap().tiling;
    assert_eq!(tiling(2 * 3_973_684), Tiling::Nested);
    assert_eq!(tiling(2 * 3_973_684 - 1), Tiling::Grid { block: 8 });
    assert_eq!(tiling(365_368), Tiling::Grid { block: 8 });
    // Where there is nothing to share, blocks would only take away.
    let alone = |budget| request("wrn-28-10", 100, budget, "per-layer").plan().unwrap().tiling;
    assert_eq!(alone(36_536_884), Tiling::Nested);
    assert_ne!(alone(36_536_883), Tiling::Nested);
    let total = request("wrn-10-1", 10, 1, "single").dense_total().unwrap();
    let small = |budget| request("wrn-10-1", 10, budget, "single").plan().unwrap().tiling;
    assert_eq!(small(total), Tiling::Nested);
    assert_eq!(small(total - 1), Tiling::Grid { block: 8 });
}

/// A classifier that could take part is nothing to be nested.
#[test]
fn where_only_a_classifier_could_share_the_rest_is_dense() {
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
fn a_classifier_takes_part_where_blocks_make_it_smaller() {
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
    // 1%: a fifth of 64,000 weights. 10%: as many numbers as weights, and nothing left for anybody
    // else.
    let [one, ten] = [365_368, 3_653_688].map(|budget| {
        [None, Some(true)].map(|share| classifier(TilingChoice::Kronecker, budget, share))
    });
    assert!(one[0].0 && one[0] == one[1]);
    assert!(!ten[0].0 && ten[1].0);
    assert!(ten[0].1.templates + 64_000 > ten[1].1.templates);
    // A grid: 8 × 1,104 of 64,000, and 57 × 1,104 at 10%, all that are fewer than its weights.
    assert!(
        [365_368, 3_653_688].iter().all(|&budget| classifier(TilingChoice::Grid, budget, None).0)
    );
}

#[test]
fn the_minimum_is_sharp_for_every_tiling() {
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
    // Nested, K = layers that use the set: as many template numbers as the layers have, more where
    // tiles are clipped.
    let shared: u64 =
        plan.layers.iter().filter(|l| !l.tiles.is_empty()).map(|l| l.layer.len()).sum();
    assert_eq!((plan.tiling, plan.bill.templates), (Tiling::Nested, shared));
}

#[test]
fn a_plain_layer_keeps_hes_deviation() {
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
    // A budget for a few second templates: the shallowest SuperWeights get them.
    let members = "wrn-16-4,wrn-16-4";
    let minimum =
        request(members, 10, 1, "per-position").survey().unwrap().nested_min_budget.unwrap();
    let mut nested = PlanRequest {
        tiling: TilingChoice::Nested,
        ..request(members, 10, minimum + 100_000, "per-position")
    };
    // Deep clusters first, so that the order of the sets is not that of depth.
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
    // Once a set could not be paid for, only cheaper ones deeper down may still have been: the
    // first is among the paid.
    assert!(by_depth.iter().take(3).all(|(_, k)| *k == 2), "{by_depth:?}");
    assert!(by_depth.iter().rev().take(3).all(|(_, k)| *k == 1), "{by_depth:?}");
}

#[test]
fn explicit_coefficients_group_layers_wherever_they_meet() {
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
                alone => vec![alone],
            };
            assert_eq!(ids, expected);
        }
    }
    let twice = Coefficients::Explicit(vec![vec![LayerId(1)], vec![LayerId(1)]]);
    let request = PlanRequest { coefficients: twice, ..request("wrn-16-4", 10, 600_000, "single") };
    assert!(matches!(request.plan(), Err(PlanError::LayerTwice { .. })));
}

#[test]
fn absurd_sizes_are_refused_and_large_ones_are_quick() {
    let absurd = request("wrn-28-10000", 10, 1_000, "single");
    assert!(matches!(absurd.survey(), Err(PlanError::TooLarge { .. })));
    // What the planner writes, the reader reads: many templates, many cells.
    for (names, block) in [("wrn-28-40", 1), ("wrn-28-100", 400)] {
        let request = request(names, 10, 1_000_000_000_000, "single");
        let request = PlanRequest { tiling: TilingChoice::Grid, block: Some(block), ..request };
        let plan = request.plan().unwrap();
        assert_eq!(SharingPlan::from_json(&plan.to_json()).unwrap(), plan);
    }
}

/// Shapeshifter Networks' search: one bank of four templates, however much the budget would pay
/// for.
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
fn patterned_blocks_make_templates_small_and_use_the_budget_up() {
    let patterned = |budget: u64| PlanRequest {
        tiling: TilingChoice::Kronecker,
        ..request("wrn-28-10", 100, budget, "single")
    };
    // (640/b)² numbers of a pattern and 9·b² of a block are fewest together, among powers of two,
    // for b = 16.
    for budget in [365_368, 3_653_688] {
        assert_eq!(patterned(budget).plan().unwrap().tiling, Tiling::Kronecker { block: 16 });
    }
    // As many templates as are independent would leave half of this.
    let plan = patterned(18_268_442).plan().unwrap();
    assert_eq!(plan.tiling, Tiling::Kronecker { block: 32 });
    assert!(plan.unused().unwrap() < 20_000, "{:?}", plan.unused());
}

/// Shapeshifter Networks in one bank: the largest layers of WRN-28-10 are stretched at 10%, most at
/// 1%; every number is used.
#[test]
fn shapeshifter_networks_use_their_budget_up() {
    for (budget, stretched) in [(3_653_688, 7), (365_368, 16)] {
        let request = request("wrn-28-10", 100, budget, "single");
        let request = PlanRequest { tiling: TilingChoice::Stretched, reserve: 0.0, ..request };
        let plan = request.plan().unwrap();
        assert_eq!(plan.tiling, Tiling::Stretched);
        assert_eq!((plan.clusters.len(), plan.unused()), (1, Some(0)));
        let views = plan.template_sets.iter().filter_map(|set| set.view.as_ref());
        assert_eq!(views.filter(|view| view.from.is_some()).count(), stretched);
        // What is left over at the end of the bank is seen by some.
        assert!(
            plan.unused_bank_parameters() * 100 < plan.bill.templates,
            "{}",
            plan.unused_bank_parameters()
        );
        // Stem and batch norms have owners; the classifier is in the bank.
        assert_eq!(plan.bill.dense + plan.bill.batch_norm, 432 + 17_952);
        assert_eq!(plan.bill.classifier, 100);
        assert_eq!(plan.bill.templates, plan.clusters[0].bank.unwrap());
    }
}

/// BatchEnsemble: four WRN-28-10 have the numbers of one, and for each layer of each member as many
/// factors as it has outputs and inputs.
#[test]
fn a_batch_ensemble_is_one_network_and_factors() {
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
    // Batch norms and the classifier's biases are each member's own.
    assert_eq!(
        (plan.bill.batch_norm, plan.bill.classifier, plan.bill.dense),
        (4 * 17_952, 4 * 100, 0)
    );
    assert_eq!(request.survey().unwrap().min_budget, plan.bill.total());
    assert!(plan.layers.iter().flat_map(|layer| &layer.tiles).all(|tile| tile.factor == 1.0));
    let apart = PlanRequest { clusters: Clustering::Single, ..request };
    assert_eq!(apart.plan().unwrap().clusters.len(), 11, "one for each shape");
}

/// The smallest budget is the smallest where coefficients are clustered on four templates, too.
#[test]
fn the_smallest_budget_of_a_bank_of_four_templates_is_one() {
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
fn exits_are_of_a_network_alone() {
    let plan = |names: &str| PlanRequest::new(members(names, 10), None).plan();
    let mut alone = plan("msdnet-2-1").unwrap();
    assert_eq!((alone.dense_total(), alone.validate()), (405_945, Ok(())));
    for beside in ["msdnet-2-1,wrn-10-1", "wrn-10-1,msdnet-2-1", "msdnet-2-1,msdnet-2-1"] {
        assert_eq!(plan(beside), Err(PlanError::Exits("msdnet-2-1".to_owned())), "{beside}");
    }
    alone.members.push(members("wrn-10-1", 10).remove(0));
    let error = alone.validate().unwrap_err().to_string();
    assert!(error.contains("msdnet-2-1 has exits of its own: choose it alone"), "{error}");
}

#[test]
fn members_see_as_many_images_at_once() {
    let plan = |names: &str| PlanRequest::new(members(names, 10), None).plan();
    for alike in ["mimo-2-wrn-10-1,mimo-2-cnn-8", "wrn-10-1,cnn-8"] {
        plan(alike).unwrap().validate().unwrap();
    }
    for different in ["wrn-10-1,mimo-2-wrn-10-1", "mimo-2-wrn-10-1,mimo-3-wrn-10-1"] {
        assert!(matches!(plan(different), Err(PlanError::Heads { .. })), "{different}");
    }
    let mut changed = plan("mimo-2-wrn-10-1,mimo-2-wrn-10-1").unwrap();
    changed.members[1].architecture = "wrn-10-1".parse().unwrap();
    let error = changed.validate().unwrap_err().to_string();
    assert!(
        error.contains("members") && error.contains("see different numbers of images at once"),
        "{error}"
    );
}
