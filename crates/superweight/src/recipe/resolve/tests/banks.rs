//! Strategies and keys for stretched and rank-one tiling.

use super::resolve;

#[test]
fn layers_that_look_at_banks_are_compared_by_coefficients_or_not_at_all() {
    let tiled = |tiling: &str, strategy: &str| {
        resolve(
            &format!(
                "budget = '100M'\nstrategy = '{strategy}'\nplan = {{ tiling = '{tiling}', block = 8 }}"
            ),
            &[],
        )
    };
    for (tiling, strategy, others) in [
        ("stretched", "swn", "no-search, depth-binned, random or coefficient-clustering"),
        (
            "stretched",
            "weight-similarity",
            "no-search, depth-binned, random or coefficient-clustering",
        ),
        ("rank-one", "no-refine", "no-search"),
        ("rank-one", "coefficient-clustering", "no-search"),
    ] {
        let error = tiled(tiling, strategy).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("r.toml:3:19: plan.tiling: strategy = \"{strategy}\"")),
            "{error}"
        );
        assert!(
            error.contains(&format!("allowed: strategy = {others} with this tiling")),
            "{error}"
        );
    }
    for (tiling, strategy) in [("stretched", "coefficient-clustering"), ("rank-one", "no-search")] {
        let resolved = tiled(tiling, strategy).unwrap();
        assert_eq!(
            (resolved.plan.tiling.to_string(), resolved.plan.block),
            (tiling.to_owned(), None)
        );
    }
}
