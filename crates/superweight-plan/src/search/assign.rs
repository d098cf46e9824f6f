//! Algorithm 1: priority-queue group assignment (paper, appendix).
//!
//! Pairs of layers in falling similarity; while it exceeds the threshold the groups of the two are merged, then every
//! layer still alone stays alone. That is to say: the groups are the connected components of the graph whose edges are
//! the pairs above the threshold, whatever the order, so one pass of union-find does it without a queue. Order matters
//! in two places, which sort: the merges themselves ([`merges`], what a threshold has to pass to change anything) and
//! the variant of the authors' released code ([`Assignment::Released`]), which never merges two groups.

use serde::{Deserialize, Serialize};

use crate::error::PlanError;
use crate::ids::LayerId;
use crate::partition::Partition;

/// How alike two layers are: cosine of their gradients (Eq. 2 or Eq. 3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// One layer.
    pub a: LayerId,
    /// The other.
    pub b: LayerId,
    /// ψ in [−1, 1].
    pub similarity: f64,
}

impl Pair {
    /// A pair, in either order.
    pub fn new(a: LayerId, b: LayerId, similarity: f64) -> Self {
        Self { a, b, similarity }
    }

    fn ordered(&self) -> (LayerId, LayerId) {
        (self.a.min(self.b), self.a.max(self.b))
    }
}

/// Which reading of Algorithm 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assignment {
    /// The paper's: groups merge.
    #[default]
    Merge,
    /// The authors' released code: where both layers have a group, the second layer changes over to the first's and
    /// leaves its own group behind. For comparison.
    Released,
}

/// Groups of `layers` under `threshold`: each sorted, all in the order of their first layer. Layers in no pair stay
/// single. A similarity that is not finite, or a pair of a layer with itself or with one not in `layers`, is an error.
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

/// The pairs at which two groups become one as the threshold falls, in falling similarity; ties by layer ids. Groups
/// under a threshold are the components of the merges above it, so only these values can matter to a threshold.
pub fn merges(layers: &[LayerId], pairs: &[Pair]) -> Result<Vec<Pair>, PlanError> {
    let index = Index::new(layers);
    let mut sets = UnionFind::new(layers.len());
    let edges = falling(index.edges(pairs)?);
    let merging = edges.into_iter().filter(|&(a, b, _)| sets.union(a, b));
    Ok(merging
        .map(|(a, b, similarity)| Pair::new(index.ids[a], index.ids[b], similarity))
        .collect())
}

/// Two positions in the sorted layers, and the similarity.
type Edge = (usize, usize, f64);

fn falling(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_by(|x, y| y.2.total_cmp(&x.2).then((x.0, x.1).cmp(&(y.0, y.1))));
    edges
}

fn released(layers: usize, queue: Vec<Edge>, threshold: f64) -> Vec<usize> {
    let mut label: Vec<Option<usize>> = vec![None; layers];
    let mut groups = layers; // labels past the layers' own positions
    for (a, b, _) in queue.into_iter().take_while(|edge| edge.2 > threshold) {
        let group = label[a].or(label[b]).unwrap_or_else(|| {
            groups += 1;
            groups
        });
        (label[a], label[b]) = (Some(group), Some(group));
    }
    label.into_iter().enumerate().map(|(i, group)| group.unwrap_or(i)).collect()
}

/// Layer ids by position.
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

    fn edges(&self, pairs: &[Pair]) -> Result<Vec<Edge>, PlanError> {
        pairs
            .iter()
            .map(|pair| {
                let (a, b) = pair.ordered();
                let wrong =
                    |problem| PlanError::Similarity { a, b, value: pair.similarity, problem };
                if !pair.similarity.is_finite() {
                    return Err(wrong(
                        "similarities are finite numbers; a zero gradient counts as 0",
                    ));
                }
                if a == b {
                    return Err(wrong("a layer makes no pair with itself"));
                }
                let at = |id| {
                    self.ids
                        .binary_search(&id)
                        .map_err(|_| wrong("a layer that is not to be grouped"))
                };
                Ok((at(a)?, at(b)?, pair.similarity))
            })
            .collect()
    }

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

    /// Whether the two were apart.
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

    /// The paper's pseudocode, word for word: a list of groups, searched and rebuilt at every pop.
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
        // A layer in no pair never enters the paper's queue; ours stays single.
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
    fn merges_are_the_only_thresholds_that_matter() {
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
    fn the_threshold_itself_does_not_merge() {
        assert_eq!(groups(2, &[pair(0, 1, 0.1)], 0.1), [[0], [1]]);
        assert_eq!(groups(2, &[pair(0, 1, 0.1)], 0.0999), [[0, 1]]);
    }

    #[test]
    fn nothing_in_nothing_out() {
        assert!(groups(0, &[], 0.0).is_empty());
        assert_eq!(groups(3, &[], 0.0), [[0], [1], [2]]);
    }

    #[test]
    fn bad_similarities_are_named() {
        for (bad, problem) in [
            (pair(0, 1, f64::NAN), "finite"),
            (pair(0, 1, f64::INFINITY), "finite"),
            (pair(1, 1, 0.5), "itself"),
            (pair(0, 7, 0.5), "not to be grouped"),
        ] {
            let error = assign(&ids(2), &[bad], 0.0, Assignment::Merge).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn the_released_variant_moves_one_layer_and_never_merges() {
        // {0,1} and {2,3} form; then 1–2 moves layer 2 over and leaves 3 behind.
        let pairs = [pair(0, 1, 0.9), pair(2, 3, 0.8), pair(1, 2, 0.7)];
        let released = assign(&ids(4), &pairs, 0.1, Assignment::Released).unwrap();
        assert_eq!(released, [vec![LayerId(0), LayerId(1), LayerId(2)], vec![LayerId(3)]]);
        assert_eq!(groups(4, &pairs, 0.1), [[0, 1, 2, 3]]);
    }
}
