//! Partitions of the layers into clusters: which layers may draw on the same templates.
//!
//! Layers of different families (kernel size, depthwise, linear) never share, but for those that look at a bank of numbers. Depth bins and random partitions
//! split every family but 1×1, whose layers stay together: there are few in a residual network, and they lie
//! between the bins. Stem and classifier take part only when asked.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::PlanError;
use crate::ids::LayerId;
use crate::layer::{Layer, Role};
use crate::partition::{Partition, check_families, check_partition};
use crate::rng::mix;

/// How layers are put into clusters before anything is known about gradients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Clustering {
    /// One cluster per family: where search starts for single networks.
    #[default]
    Single,
    /// Equal bins of relative depth in every member: where search starts for heterogeneous ensembles.
    Depth(usize),
    /// A random partition.
    Random {
        /// Clusters per family, 1×1 apart.
        clusters: usize,
        /// Decides which.
        seed: u64,
    },
    /// Every layer by itself.
    PerLayer,
    /// Layer l of every member together: the homogeneous ensemble.
    PerPosition,
    /// Nothing shared: plain networks and deep ensembles.
    Dense,
    /// Exactly these; layers not named are dense.
    Explicit(Partition),
}

/// Which layers besides the body take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedRoles {
    /// The convolution that reads the image.
    pub stem: bool,
    /// The layer that gives the logits. It has no second layer to share templates with, so only blocks make it smaller: where nobody
    /// says, it takes part where they do (a seventh of its numbers at 1% of WRN-28-10).
    pub classifier: Option<bool>,
}

impl SharedRoles {
    fn admits(&self, role: Role) -> bool {
        match role {
            Role::Stem => self.stem,
            Role::Body => true,
            Role::Classifier => self.classifier.unwrap_or(false),
        }
    }
}

impl Clustering {
    /// The clusters of these layers: linear, depthwise, then convolutions from large to small kernels; shallow clusters
    /// first.
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

    /// The clusters where layers of all families may be together: those that look at a bank of numbers.
    pub fn partition_across(
        &self,
        layers: &[Layer],
        shared_roles: SharedRoles,
    ) -> Result<Partition, PlanError> {
        let all = layers.iter().enumerate().filter(|(_, layer)| shared_roles.admits(layer.role));
        let all: Vec<_> = all.map(|(i, _)| LayerId(i)).collect();
        self.partition_each(layers, [(all, true)].into_iter().filter(|(ids, _)| !ids.is_empty()))
    }

    /// Clusters within each of these lists, of which some are not split by depth or lot.
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

/// Where each layer stands among its member's layers of the same family, and how many those are.
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

/// A bin per layer; the first `bins` layers of a random order get one each, so that none is empty.
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
    fn stem_and_classifier_stay_out_unless_asked() {
        let (layers, clusters) = partition("wrn-10-1", "single");
        assert_eq!(sizes(&clusters), [6, 2]);
        let all = Clustering::Single
            .partition(&layers, SharedRoles { stem: true, classifier: Some(true) })
            .unwrap();
        assert_eq!(all.iter().flatten().count(), layers.len());
    }

    #[test]
    fn families_are_kept_apart() {
        let (layers, clusters) = partition("mobilenet-v2,wrn-28-5", "single");
        let families: Vec<Family> = clusters.iter().map(|c| layers[c[0].0].family()).collect();
        let names: Vec<String> = families.iter().map(Family::to_string).collect();
        assert_eq!(names, ["3×3 depthwise", "3×3", "1×1"]);
    }

    #[test]
    fn positions_join_the_members_and_layers_stand_alone() {
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
    fn words_print_as_they_parse() {
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
