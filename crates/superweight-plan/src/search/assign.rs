//! Algorithm 1 of the paper's appendix: priority-queue group assignment.
//!
//! Pairs of layers are taken in falling order of similarity. While the similarity exceeds the
//! threshold, the groups of the two layers are merged; every layer that is left forms its own
//! group. The result does not depend on the order: the groups are the connected components of the
//! graph whose edges are the pairs above the threshold. So one pass of union-find computes it,
//! without a queue. Order matters in two places, which sort: the list of merges ([`merges`]), and
//! the variant of the authors' code ([`Assignment::Released`]), which never merges two groups.

use serde::{Deserialize, Serialize};

use crate::error::PlanError;
use crate::ids::LayerId;
use crate::partition::Partition;

/// The similarity of two layers: the cosine of their gradients (Eq. 2 or Eq. 3 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// One layer of the pair.
    pub a: LayerId,
    /// The other layer of the pair.
    pub b: LayerId,
    /// Similarity ψ, from −1 to 1.
    pub similarity: f64,
}

impl Pair {
    /// Creates a pair. The order of the layers does not matter.
    pub fn new(a: LayerId, b: LayerId, similarity: f64) -> Self {
        Self { a, b, similarity }
    }

    /// The layers, the smaller id first.
    fn ordered(&self) -> (LayerId, LayerId) {
        (self.a.min(self.b), self.a.max(self.b))
    }
}

/// The variant of Algorithm 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assignment {
    /// The paper's: a pair above the threshold merges the groups of its layers.
    #[default]
    Merge,
    /// The authors' code, for comparison: if both layers have a group, the second layer moves to
    /// the group of the first, and the rest of its own group stays behind.
    Released,
}

/// Groups layers: pairs more similar than `threshold` end up in one group.
///
/// Every group is sorted, and groups are in the order of their first layer. A layer in no pair
/// forms its own group.
///
/// # Errors
///
/// [`PlanError::Similarity`] if a similarity is not finite, or a pair holds the same layer twice or
/// a layer that is not in `layers`.
pub fn assign(
    layers: &[LayerId],
    pairs: &[Pair],
    threshold: f64,
    how: Assignment,
) -> Result<Partition, PlanError> {
    let index = Index::new(layers);
    let edges = index.edges(pairs)?;
    let labels = match how {
        Assignment::Merge => {
            let mut sets = UnionFind::new(layers.len());
            for &(a, b, similarity) in &edges {
                if similarity > threshold {
                    sets.union(a, b);
                }
            }
            (0..layers.len()).map(|i| sets.find(i)).collect()
        }
        Assignment::Released => released(layers.len(), falling(edges), threshold),
    };
    Ok(index.groups(&labels))
}

/// Lists the pairs that merge two groups as the threshold falls, the most similar first.
///
/// Ties are in the order of layer ids. Pairs that are not in this list never change the groups of
/// [`Assignment::Merge`], so all thresholds between two listed similarities give the same groups.
///
/// # Errors
///
/// As for [`assign`].
pub fn merges(layers: &[LayerId], pairs: &[Pair]) -> Result<Vec<Pair>, PlanError> {
    let index = Index::new(layers);
    let mut sets = UnionFind::new(layers.len());
    let edges = falling(index.edges(pairs)?);
    let merging = edges.into_iter().filter(|&(a, b, _)| sets.union(a, b));
    Ok(merging
        .map(|(a, b, similarity)| Pair::new(index.ids[a], index.ids[b], similarity))
        .collect())
}

/// Positions of two layers in the sorted list of layers, and their similarity.
type Edge = (usize, usize, f64);

/// Sorts edges by falling similarity, ties by position.
fn falling(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_by(|x, y| y.2.total_cmp(&x.2).then((x.0, x.1).cmp(&(y.0, y.1))));
    edges
}

/// Group labels by the authors' code. `queue` is in falling order.
fn released(layers: usize, queue: Vec<Edge>, threshold: f64) -> Vec<usize> {
    let mut label: Vec<Option<usize>> = vec![None; layers];
    let mut groups = layers; // labels of groups come after those of single layers
    for (a, b, _) in queue.into_iter().take_while(|edge| edge.2 > threshold) {
        let group = label[a].or(label[b]).unwrap_or_else(|| {
            groups += 1;
            groups
        });
        (label[a], label[b]) = (Some(group), Some(group));
    }
    label.into_iter().enumerate().map(|(i, group)| group.unwrap_or(i)).collect()
}

/// Layer ids in rising order, without duplicates.
struct Index {
    ids: Vec<LayerId>,
}

impl Index {
    fn new(layers: &[LayerId]) -> Self {
        let mut ids = layers.to_vec();
        ids.sort();
        ids.dedup();
        Self { ids }
    }

    /// Checks pairs and turns their ids into positions.
    fn edges(&self, pairs: &[Pair]) -> Result<Vec<Edge>, PlanError> {
        pairs
            .iter()
            .map(|pair| {
                let (a, b) = pair.ordered();
                let wrong =
                    |problem| PlanError::Similarity { a, b, value: pair.similarity, problem };
                if !pair.similarity.is_finite() {
                    return Err(wrong("similarities must be finite; use 0 for a zero gradient"));
                }
                if a == b {
                    return Err(wrong("a pair needs two different layers"));
                }
                let at = |id| {
                    self.ids.binary_search(&id).map_err(|_| {
                        wrong("the pair has a layer that is not among those to be grouped")
                    })
                };
                Ok((at(a)?, at(b)?, pair.similarity))
            })
            .collect()
    }

    /// Collects layers with equal labels.
    fn groups(&self, labels: &[usize]) -> Partition {
        let mut slots = std::collections::HashMap::new();
        let mut groups = Partition::new();
        for (&id, label) in self.ids.iter().zip(labels) {
            let slot = *slots.entry(label).or_insert_with(|| {
                groups.push(vec![]);
                groups.len() - 1
            });
            groups[slot].push(id);
        }
        groups
    }
}

/// Disjoint sets with path halving. The representative is the smallest member of a set.
struct UnionFind {
    parent: Vec<usize>,
}

impl UnionFind {
    fn new(n: usize) -> Self {
        Self { parent: (0..n).collect() }
    }

    fn find(&mut self, mut i: usize) -> usize {
        while self.parent[i] != i {
            self.parent[i] = self.parent[self.parent[i]];
            i = self.parent[i];
        }
        i
    }

    /// Merges two sets; returns whether they were different.
    fn union(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b)] = a.min(b);
        a != b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;

    fn ids(n: usize) -> Vec<LayerId> {
        (0..n).map(LayerId).collect()
    }

    fn pair(a: usize, b: usize, similarity: f64) -> Pair {
        Pair::new(LayerId(a), LayerId(b), similarity)
    }

    fn groups(n: usize, pairs: &[Pair], threshold: f64) -> Vec<Vec<usize>> {
        let groups = assign(&ids(n), pairs, threshold, Assignment::Merge).unwrap();
        groups.iter().map(|g| g.iter().map(|id| id.0).collect()).collect()
    }

    /// The paper's pseudocode line by line: a list of groups, searched and rebuilt at every pop.
    fn pseudocode(layers: usize, pairs: &[Pair], epsilon: f64) -> Vec<Vec<usize>> {
        let mut queue = pairs.to_vec();
        let mut g: Vec<Vec<usize>> = vec![];
        while !queue.is_empty() {
            let top = (0..queue.len())
                .max_by(|&i, &j| queue[i].similarity.total_cmp(&queue[j].similarity))
                .unwrap();
            let Pair { a, b, similarity } = queue.remove(top);
            let find =
                |g: &[Vec<usize>], layer: usize| g.iter().position(|group| group.contains(&layer));
            let (in_a, in_b) = (find(&g, a.0), find(&g, b.0));
            if similarity > epsilon {
                match (in_a, in_b) {
                    (Some(x), Some(y)) if x == y => {}
                    (Some(x), Some(y)) => {
                        let merged = [g[x].clone(), g[y].clone()].concat();
                        g.remove(x.max(y));
                        g.remove(x.min(y));
                        g.push(merged);
                    }
                    (Some(x), None) => g[x].push(b.0),
                    (None, Some(y)) => g[y].push(a.0),
                    (None, None) => g.push(vec![a.0, b.0]),
                }
            } else {
                for (layer, group) in [(a.0, in_a), (b.0, in_b)] {
                    if group.is_none() {
                        g.push(vec![layer]);
                    }
                }
            }
        }
        // A layer in no pair never enters the paper's queue; here it forms its own group.
        for layer in 0..layers {
            if !g.iter().any(|group| group.contains(&layer)) {
                g.push(vec![layer]);
            }
        }
        g.iter_mut().for_each(|group| group.sort());
        g.sort();
        g
    }

    #[test]
    fn equals_the_papers_pseudocode() {
        for seed in 0..400 {
            let draw = |n: u64| mix(seed, n);
            let layers = 1 + (draw(0) % 12) as usize;
            let mut pairs = vec![];
            for (n, (a, b)) in (0..layers).flat_map(|a| (0..a).map(move |b| (a, b))).enumerate() {
                let n = 10 + 2 * n as u64;
                if draw(n) % 4 != 0 {
                    // A coarse grid of values, so that ties and zeros are common.
                    pairs.push(pair(a, b, (draw(n + 1) % 9) as f64 / 4.0 - 1.0));
                }
            }
            let threshold = (draw(1) % 9) as f64 / 4.0 - 1.0;
            assert_eq!(
                groups(layers, &pairs, threshold),
                pseudocode(layers, &pairs, threshold),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn only_merges_change_the_groups() {
        for seed in 0..200 {
            let pairs: Vec<_> = (0..8)
                .flat_map(|a| (0..a).map(move |b| (a, b)))
                .map(|(a, b)| pair(a, b, (mix(seed, (a * 8 + b) as u64) % 7) as f64 / 3.0 - 1.0))
                .collect();
            let merges = merges(&ids(8), &pairs).unwrap();
            assert!(merges.is_sorted_by(|x, y| x.similarity >= y.similarity));
            for threshold in [-1.5, -1.0, -0.5, 0.0, 1.0 / 3.0, 0.9, 1.0] {
                assert_eq!(groups(8, &pairs, threshold), groups(8, &merges, threshold));
            }
        }
    }

    #[test]
    fn a_similarity_equal_to_the_threshold_does_not_merge() {
        assert_eq!(groups(2, &[pair(0, 1, 0.1)], 0.1), [[0], [1]]);
        assert_eq!(groups(2, &[pair(0, 1, 0.1)], 0.0999), [[0, 1]]);
    }

    #[test]
    fn layers_without_pairs_stay_single() {
        assert!(groups(0, &[], 0.0).is_empty());
        assert_eq!(groups(3, &[], 0.0), [[0], [1], [2]]);
    }

    #[test]
    fn invalid_pairs_are_refused() {
        for (bad, problem) in [
            (pair(0, 1, f64::NAN), "finite"),
            (pair(0, 1, f64::INFINITY), "finite"),
            (pair(1, 1, 0.5), "two different layers"),
            (pair(0, 7, 0.5), "not among those to be grouped"),
        ] {
            let error = assign(&ids(2), &[bad], 0.0, Assignment::Merge).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn the_released_variant_moves_one_layer_and_never_merges() {
        // {0, 1} and {2, 3} form; then the pair 1–2 moves layer 2 over and leaves 3 behind.
        let pairs = [pair(0, 1, 0.9), pair(2, 3, 0.8), pair(1, 2, 0.7)];
        let released = assign(&ids(4), &pairs, 0.1, Assignment::Released).unwrap();
        assert_eq!(released, [vec![LayerId(0), LayerId(1), LayerId(2)], vec![LayerId(3)]]);
        assert_eq!(groups(4, &pairs, 0.1), [[0, 1, 2, 3]]);
    }
}
