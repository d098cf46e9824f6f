//! A strategy is one word in the recipe and one row here: every method and ablation of the paper as data.
//!
//! | word | start | search by, with α | training's α | refines | paper |
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
//! The *usual* start is one cluster where all members are alike (paper §2.2.1) and four depth bins where they are not
//! (appendix). `plan.clusters` overrides it: the homogeneous ensemble SWN-HO is `no-search` on `per-position`.

use serde::{Deserialize, Serialize};
use superweight_plan::{Clustering, Coefficients};

/// How sharing is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Search, re-initialize, hard-shared start, refine.
    #[default]
    Swn,
    /// Search, hard-shared throughout.
    NoRefine,
    /// One cluster, own coefficients per layer.
    NoSearch,
    /// Four depth bins, own coefficients.
    DepthBinned,
    /// A random partition, own coefficients.
    Random,
    /// Searched clusters, own coefficients from the start.
    AllSoft,
    /// Clusters by the cosine of the weights instead of their gradients, own coefficients throughout.
    WeightSimilarity,
    /// Clusters by k-means over coefficients as Shapeshifter Networks find them, own coefficients.
    CoefficientClustering,
}

/// Which clusters there are before anything is known about the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// One where all members are alike, else four depth bins.
    Usual,
    /// One.
    Single,
    /// Four depth bins.
    Depth,
    /// A random partition into four, by the run's seed.
    Random,
}

/// What makes two layers alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Similarity {
    /// Summed gradients of their weights (Eq. 2).
    Gradient,
    /// Their weights.
    Weight,
    /// Their coefficients, clustered by k-means.
    Coefficient,
}

impl Similarity {
    /// Most templates of a set while searching: coefficients are clustered on one bank of 4, as Shapeshifter Networks are.
    pub fn max_templates(self) -> Option<usize> {
        (self == Self::Coefficient).then_some(4)
    }
}

/// Whether layers of a cluster begin with the same coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpha {
    /// Hard sharing.
    Shared,
    /// Soft sharing.
    Own,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Starting clusters.
    pub start: Start,
    /// How clusters are searched, and the coefficients of the search; none without a search.
    pub search: Option<(Similarity, Alpha)>,
    /// Coefficients at the start of training.
    pub coefficients: Alpha,
    /// Whether coefficients are refined at epoch E.
    pub refine: bool,
}

impl Strategy {
    /// All, in the order of the table.
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

    /// Its words, in the same order.
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

    /// As it is typed.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// What it means.
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
    /// The clusters, where the recipe names none.
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
    fn the_table_above_is_what_the_code_says() {
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
            let said = [strategy.word(), &start, &search, alpha(method.coefficients), refines];
            assert_eq!(row[..5], said, "{strategy:?}");
        }
    }

    #[test]
    fn words_are_those_of_the_files() {
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
