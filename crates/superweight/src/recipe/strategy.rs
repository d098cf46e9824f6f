//! Strategies: one word in the recipe, one row of this table. Every method and ablation of the
//! paper is a row.
//!
//! | word | start | search by, with α | α in training | refines | paper |
//! |---|---|---|---|---|---|
//! | `swn` | usual | gradients, shared | shared | yes | ours |
//! | `no-refine` | usual | gradients, shared | shared | – | Table 1 "w/o Refine", Table 3 "Shared Coefficients" |
//! | `no-search` | single | – | own | – | Table 3 "Single SuperWeight Cluster" |
//! | `depth-binned` | depth:4 | – | own | – | Table 3 "Depth-binning" |
//! | `random` | random:4 | – | own | – | – |
//! | `all-soft` | usual | gradients, shared | own | – | Figure 7 "Not Shared" |
//! | `weight-similarity` | usual | weights, own | own | – | Table 1 "w/o Grad Sim" |
//! | `coefficient-clustering` | single | coefficients, own | own | – | Table 3 "Coefficient Clustering" |
//!
//! The *usual* start is one cluster for equal members (paper §2.2.1) and four depth bins for
//! members of different architectures (appendix). `plan.clusters` overrides it: the homogeneous
//! ensemble SWN-HO is `no-search` with `per-position` clusters.

use serde::{Deserialize, Serialize};
use superweight_plan::{Clustering, Coefficients};

/// How a run decides what is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Search clusters, reinitialise, train with shared coefficients, refine.
    #[default]
    Swn,
    /// Search clusters; coefficients stay shared.
    NoRefine,
    /// One cluster; every layer has coefficients of its own.
    NoSearch,
    /// Four depth bins; every layer has coefficients of its own.
    DepthBinned,
    /// A random partition into clusters; every layer has coefficients of its own.
    Random,
    /// Search clusters; every layer has coefficients of its own from the start of training.
    AllSoft,
    /// Clusters by the cosine of composed weights instead of gradients; coefficients per layer
    /// throughout.
    WeightSimilarity,
    /// Clusters by k-means over coefficients, as in Shapeshifter Networks; coefficients per layer.
    CoefficientClustering,
}

/// Clusters that a run starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// One cluster for equal members, else four depth bins.
    Usual,
    /// One cluster.
    Single,
    /// Four depth bins.
    Depth,
    /// A random partition into four clusters, drawn from the run's seed.
    Random,
}

/// Measure of the similarity of two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Similarity {
    /// Cosine of summed gradients of the weights (Eq. 2).
    Gradient,
    /// Cosine of the composed weights.
    Weight,
    /// Distance of coefficients, clustered by k-means.
    Coefficient,
}

impl Similarity {
    /// Limit on the templates of a set during the search. Coefficients are clustered with banks of
    /// four templates, as in Shapeshifter Networks.
    pub fn max_templates(self) -> Option<usize> {
        (self == Self::Coefficient).then_some(4)
    }
}

/// Who owns coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpha {
    /// All layers of a cluster share coefficients (hard sharing).
    Shared,
    /// Every layer has coefficients of its own (soft sharing).
    Own,
}

/// A strategy, spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Starting clusters.
    pub start: Start,
    /// Similarity that the search compares, and coefficients during the search; `None` without a
    /// search.
    pub search: Option<(Similarity, Alpha)>,
    /// Coefficients at the start of training.
    pub coefficients: Alpha,
    /// Whether coefficients are refined at epoch E.
    pub refine: bool,
}

impl Strategy {
    /// All strategies, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Swn,
        Self::NoRefine,
        Self::NoSearch,
        Self::DepthBinned,
        Self::Random,
        Self::AllSoft,
        Self::WeightSimilarity,
        Self::CoefficientClustering,
    ];

    /// Words in recipes, in the same order.
    pub(super) const WORDS: [&'static str; 8] = [
        "swn",
        "no-refine",
        "no-search",
        "depth-binned",
        "random",
        "all-soft",
        "weight-similarity",
        "coefficient-clustering",
    ];

    /// Word in recipes.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The steps of this strategy.
    pub fn method(self) -> Method {
        use Alpha::{Own, Shared};
        use Similarity::{Coefficient, Gradient, Weight};
        let row =
            |start, search, coefficients, refine| Method { start, search, coefficients, refine };
        match self {
            Self::Swn => row(Start::Usual, Some((Gradient, Shared)), Shared, true),
            Self::NoRefine => row(Start::Usual, Some((Gradient, Shared)), Shared, false),
            Self::NoSearch => row(Start::Single, None, Own, false),
            Self::DepthBinned => row(Start::Depth, None, Own, false),
            Self::Random => row(Start::Random, None, Own, false),
            Self::AllSoft => row(Start::Usual, Some((Gradient, Shared)), Own, false),
            Self::WeightSimilarity => row(Start::Usual, Some((Weight, Own)), Own, false),
            Self::CoefficientClustering => row(Start::Single, Some((Coefficient, Own)), Own, false),
        }
    }
}

impl Start {
    /// Starting clusters, where the recipe names none.
    pub fn clusters(self, heterogeneous: bool, seed: u64) -> Clustering {
        match self {
            Self::Usual if heterogeneous => Clustering::Depth(4),
            Self::Usual | Self::Single => Clustering::Single,
            Self::Depth => Clustering::Depth(4),
            Self::Random => Clustering::Random { clusters: 4, seed },
        }
    }
}

impl From<Alpha> for Coefficients {
    fn from(alpha: Alpha) -> Self {
        match alpha {
            Alpha::Shared => Self::Shared,
            Alpha::Own => Self::PerLayer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_table_equals_the_code() {
        let table =
            include_str!("strategy.rs").lines().skip_while(|line| !line.starts_with("//! |---"));
        let rows: Vec<Vec<&str>> = table
            .skip(1)
            .take_while(|line| line.starts_with("//! |"))
            .map(|line| line[5..].split('|').map(|cell| cell.trim().trim_matches('`')).collect())
            .collect();
        assert_eq!(rows.len(), Strategy::ALL.len());
        for (row, strategy) in rows.iter().zip(Strategy::ALL) {
            let method = strategy.method();
            let start = match method.start {
                Start::Usual => "usual".to_owned(),
                start => start.clusters(true, 0).to_string(),
            };
            let alpha = |alpha| match alpha {
                Alpha::Shared => "shared",
                Alpha::Own => "own",
            };
            let search = method.search.map_or("–".to_owned(), |(similarity, coefficients)| {
                format!("{similarity:?}s, {}", alpha(coefficients)).to_lowercase()
            });
            let refines = if method.refine { "yes" } else { "–" };
            let documented =
                [strategy.word(), &start, &search, alpha(method.coefficients), refines];
            assert_eq!(row[..5], documented, "{strategy:?}");
        }
    }

    #[test]
    fn words_equal_their_serialized_form() {
        for strategy in Strategy::ALL {
            let text = toml::Value::try_from(strategy).unwrap();
            assert_eq!(text.as_str(), Some(strategy.word()));
        }
    }

    #[test]
    fn the_usual_start_depends_on_the_members() {
        assert_eq!(Start::Usual.clusters(false, 3), Clustering::Single);
        assert_eq!(Start::Usual.clusters(true, 3), Clustering::Depth(4));
        assert_eq!(Start::Random.clusters(false, 3), Clustering::Random { clusters: 4, seed: 3 });
    }
}
