//! Puts layers into clusters: the layers of a cluster may use the same templates.
//!
//! A cluster holds layers of one family (kind and kernel size), unless its templates are read from
//! a bank. Depth bins and random partitions divide every family but the 1×1 layers, which stay in
//! one cluster: a residual network has few of them, between the bins. [`SharedRoles`] decides
//! whether stem and classifier are in clusters at all.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::PlanError;
use crate::ids::LayerId;
use crate::layer::{Layer, Role};
use crate::partition::{Partition, check_families, check_partition};
use crate::rng::mix;

/// How layers are put into clusters before gradients are known.
///
/// Read from text: `single`, `depth:4`, `random:4`, `random:4:SEED`, `per-layer`, `per-position`,
/// `dense`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clustering {
    /// One cluster per family. Search starts from it for single networks.
    #[default]
    Single,
    /// This many bins of equal relative depth per family. Search starts from it for ensembles of
    /// different networks.
    Depth(usize),
    /// A random partition of every family.
    Random {
        /// Number of clusters per family; 1×1 layers stay in one cluster.
        clusters: usize,
        /// Seed of the partition.
        seed: u64,
    },
    /// Every layer in its own cluster.
    PerLayer,
    /// The l-th layer of every member in one cluster. For ensembles of equal networks.
    PerPosition,
    /// No clusters: plain networks and deep ensembles.
    Dense,
    /// These clusters. Layers in none of them are dense.
    Explicit(Partition),
}

/// Which layers share besides those of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedRoles {
    /// Whether the convolution that reads the image shares.
    pub stem: bool,
    /// Whether the linear layer that computes the logits shares. `None`: if that makes it smaller.
    ///
    /// It has no other layer to share templates with, so only grid and Kronecker tiling make it
    /// smaller (to a seventh of its parameters at 1% of WRN-28-10).
    pub classifier: Option<bool>,
}

impl SharedRoles {
    /// Whether a layer with this role shares; a classifier only if that is decided.
    fn admits(&self, role: Role) -> bool {
        match role {
            Role::Stem => self.stem,
            Role::Body => true,
            Role::Classifier => self.classifier.unwrap_or(false),
        }
    }
}

impl Clustering {
    /// Clusters of layers that each belong to one family.
    ///
    /// Linear layers come first, then depthwise ones, then convolutions from large to small
    /// kernels. Within a family shallow clusters come first.
    ///
    /// # Errors
    ///
    /// If explicit clusters overlap, name unknown layers, or mix families.
    pub fn partition(
        &self,
        layers: &[Layer],
        shared_roles: SharedRoles,
    ) -> Result<Partition, PlanError> {
        if let Self::Explicit(clusters) = self {
            check_partition(layers, clusters, "clusters")?;
            check_families(layers, clusters)?;
            return Ok(clusters.clone());
        }
        let mut families = BTreeMap::<_, Vec<LayerId>>::new();
        for (i, layer) in
            layers.iter().enumerate().filter(|(_, layer)| shared_roles.admits(layer.role))
        {
            families.entry(layer.family()).or_default().push(LayerId(i));
        }
        let families = families.into_iter().rev();
        self.partition_each(layers, families.map(|(family, ids)| (ids, family.is_split())))
    }

    /// Clusters that may hold layers of all families, for templates that are read from banks.
    ///
    /// # Errors
    ///
    /// If explicit clusters overlap or name unknown layers.
    pub fn partition_across(
        &self,
        layers: &[Layer],
        shared_roles: SharedRoles,
    ) -> Result<Partition, PlanError> {
        let all = layers.iter().enumerate().filter(|(_, layer)| shared_roles.admits(layer.role));
        let all: Vec<_> = all.map(|(i, _)| LayerId(i)).collect();
        self.partition_each(layers, [(all, true)].into_iter().filter(|(ids, _)| !ids.is_empty()))
    }

    /// Clusters within each list of layers. The flag tells whether depth bins and random partitions
    /// divide the list.
    fn partition_each(
        &self,
        layers: &[Layer],
        lists: impl Iterator<Item = (Vec<LayerId>, bool)>,
    ) -> Result<Partition, PlanError> {
        match self {
            Self::Explicit(clusters) => {
                check_partition(layers, clusters, "clusters")?;
                return Ok(clusters.clone());
            }
            Self::Dense => return Ok(vec![]),
            _ => {}
        }
        let mut clusters = vec![];
        for (ids, split) in lists {
            let keys: Vec<usize> = match self {
                Self::Depth(bins) if split => positions(layers, &ids)
                    .into_iter()
                    .map(|(position, of)| position * bins / of)
                    .collect(),
                Self::Random { clusters, seed } if split => random_bins(&ids, *clusters, *seed),
                Self::PerLayer => (0..ids.len()).collect(),
                Self::PerPosition => {
                    positions(layers, &ids).into_iter().map(|(position, _)| position).collect()
                }
                _ => vec![0; ids.len()],
            };
            let mut bins = BTreeMap::<usize, Vec<LayerId>>::new();
            for (&id, key) in ids.iter().zip(keys) {
                bins.entry(key).or_default().push(id);
            }
            clusters.extend(bins.into_values());
        }
        Ok(clusters)
    }
}

/// For each layer, its position among its member's layers in `family`, and how many those are.
fn positions(layers: &[Layer], family: &[LayerId]) -> Vec<(usize, usize)> {
    let mut counts = BTreeMap::new();
    let place = |id: &LayerId| {
        let count = counts.entry(layers[id.0].member).or_insert(0);
        *count += 1;
        *count - 1
    };
    let places: Vec<usize> = family.iter().map(place).collect();
    family.iter().zip(places).map(|(id, place)| (place, counts[&layers[id.0].member])).collect()
}

/// Assigns a random bin to every layer. The first layers of a random order get one bin each, so
/// that none is empty.
fn random_bins(family: &[LayerId], bins: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..family.len()).collect();
    order.sort_by_key(|&i| (mix(seed, family[i].0 as u64), i));
    let mut keys: Vec<usize> =
        family.iter().map(|id| (mix(!seed, id.0 as u64) % bins as u64) as usize).collect();
    order.iter().take(bins).enumerate().for_each(|(bin, &i)| keys[i] = bin);
    keys
}

impl FromStr for Clustering {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let wrong = || PlanError::Clustering { text: text.to_owned() };
        let count = |n: &str| {
            n.parse::<usize>().ok().filter(|n| (1..=100_000).contains(n)).ok_or_else(wrong)
        };
        let parts: Vec<&str> = text.split(':').collect();
        Ok(match parts[..] {
            ["single"] => Self::Single,
            ["depth", bins] => Self::Depth(count(bins)?),
            ["random", clusters] => Self::Random { clusters: count(clusters)?, seed: 0 },
            ["random", clusters, seed] => Self::Random {
                clusters: count(clusters)?,
                seed: seed.parse().map_err(|_| wrong())?,
            },
            ["per-layer"] => Self::PerLayer,
            ["per-position"] => Self::PerPosition,
            ["dense"] => Self::Dense,
            _ => return Err(wrong()),
        })
    }
}

impl fmt::Display for Clustering {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Single => write!(f, "single"),
            Self::Depth(bins) => write!(f, "depth:{bins}"),
            Self::Random { clusters, seed: 0 } => write!(f, "random:{clusters}"),
            Self::Random { clusters, seed } => write!(f, "random:{clusters}:{seed}"),
            Self::PerLayer => write!(f, "per-layer"),
            Self::PerPosition => write!(f, "per-position"),
            Self::Dense => write!(f, "dense"),
            Self::Explicit(_) => write!(f, "given"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Family, Tensors};
    use crate::testing::members;

    fn partition(names: &str, clustering: &str) -> (Vec<Layer>, Partition) {
        let layers = Tensors::of(&members(names, 100)).unwrap().layers;
        let partition = clustering
            .parse::<Clustering>()
            .unwrap()
            .partition(&layers, SharedRoles::default())
            .unwrap();
        (layers, partition)
    }

    fn sizes(partition: &Partition) -> Vec<usize> {
        partition.iter().map(Vec::len).collect()
    }

    #[test]
    fn depth_bins_are_equal_in_every_member_and_leave_1x1_together() {
        let (layers, clusters) = partition("wrn-28-10,wrn-16-4", "depth:4");
        assert_eq!(sizes(&clusters), [9, 9, 9, 9, 6]);
        let names =
            |c: usize| clusters[c].iter().map(|id| layers[id.0].name.as_str()).collect::<Vec<_>>();
        let stage = |n| format!("block{n}.");
        assert!(names(0).iter().all(|name| name.starts_with(&stage(1))));
        assert!(names(3).iter().all(|name| name.starts_with(&stage(3))));
        assert!(names(4).iter().all(|name| name.ends_with("convShortcut.weight")));
    }

    #[test]
    fn stem_and_classifier_are_dense_by_default() {
        let (layers, clusters) = partition("wrn-10-1", "single");
        assert_eq!(sizes(&clusters), [6, 2]);
        let all = Clustering::Single
            .partition(&layers, SharedRoles { stem: true, classifier: Some(true) })
            .unwrap();
        assert_eq!(all.iter().flatten().count(), layers.len());
    }

    #[test]
    fn families_never_share_a_cluster() {
        let (layers, clusters) = partition("mobilenet-v2,wrn-28-5", "single");
        let families: Vec<Family> = clusters.iter().map(|c| layers[c[0].0].family()).collect();
        let names: Vec<String> = families.iter().map(Family::to_string).collect();
        assert_eq!(names, ["3×3 depthwise", "3×3", "1×1"]);
    }

    #[test]
    fn per_position_joins_members_and_per_layer_separates_layers() {
        let (_, clusters) = partition("wrn-28-5,wrn-28-5,wrn-28-5,wrn-28-5", "per-position");
        assert_eq!(sizes(&clusters), [4; 27]);
        let (_, clusters) = partition("wrn-28-5,wrn-28-5", "per-layer");
        assert_eq!(sizes(&clusters), [1; 54]);
        let (_, clusters) = partition("wrn-28-5", "dense");
        assert!(clusters.is_empty());
    }

    #[test]
    fn random_partitions_have_no_empty_cluster_and_follow_the_seed() {
        for k in [1, 4, 23, 24] {
            let (_, clusters) = partition("wrn-28-10", &format!("random:{k}:3"));
            assert_eq!(clusters.len(), k + 1);
        }
        let of = |seed| partition("wrn-28-10", &format!("random:4:{seed}")).1;
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn explicit_clusters_are_checked() {
        let (layers, _) = partition("wrn-10-2", "single");
        let explicit = |sets: &[&[usize]]| {
            let sets = sets.iter().map(|s| s.iter().map(|&i| LayerId(i)).collect()).collect();
            Clustering::Explicit(sets).partition(&layers, SharedRoles::default())
        };
        assert!(explicit(&[&[1, 2]]).is_ok());
        assert!(matches!(explicit(&[&[1], &[1]]), Err(PlanError::LayerTwice { .. })));
        assert!(matches!(explicit(&[&[99]]), Err(PlanError::NoSuchLayer { .. })));
        assert!(matches!(explicit(&[&[]]), Err(PlanError::Empty { .. })));
        assert!(matches!(explicit(&[&[1, 3]]), Err(PlanError::MixedCluster { .. })));
    }

    #[test]
    fn names_print_as_they_parse() {
        for text in
            ["single", "depth:4", "random:3", "random:3:7", "per-layer", "per-position", "dense"]
        {
            assert_eq!(text.parse::<Clustering>().unwrap().to_string(), text);
        }
        for text in ["", "depth", "depth:0", "depth:x", "random:2:-1", "singles", "depth:4:4"] {
            assert!(text.parse::<Clustering>().is_err(), "{text}");
        }
    }
}
