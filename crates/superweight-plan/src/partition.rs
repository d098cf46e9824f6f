//! Partitions: disjoint sets of layers, and the checks that a partition given by a user must pass.

use crate::error::PlanError;
use crate::ids::LayerId;
use crate::layer::Layer;

/// Disjoint sets of layers. A layer in none of the sets is dense: it shares nothing.
pub type Partition = Vec<Vec<LayerId>>;

/// Fails if a set is empty, an id does not exist, or a layer is in two sets.
///
/// `what` names the partition in error messages, as in `clusters[2]`.
pub(crate) fn check_partition(
    layers: &[Layer],
    sets: &Partition,
    what: &str,
) -> Result<(), PlanError> {
    let mut seen = vec![false; layers.len()];
    for (i, set) in sets.iter().enumerate() {
        let place = || format!("{what}[{i}]");
        if set.is_empty() {
            return Err(PlanError::Empty { place: place() });
        }
        for &id in set {
            match seen.get_mut(id.0) {
                None => {
                    return Err(PlanError::NoSuchLayer {
                        place: place(),
                        layer: id,
                        layers: layers.len(),
                    });
                }
                Some(true) => {
                    let name = layers[id.0].name.clone();
                    return Err(PlanError::LayerTwice { place: place(), layer: id, name });
                }
                Some(unseen) => *unseen = true,
            }
        }
    }
    Ok(())
}

/// Fails if a cluster holds layers of two families (kind and kernel size).
pub(crate) fn check_families(layers: &[Layer], clusters: &Partition) -> Result<(), PlanError> {
    for (i, cluster) in clusters.iter().enumerate() {
        let first = &layers[cluster[0].0];
        if let Some(other) =
            cluster.iter().map(|id| &layers[id.0]).find(|l| l.family() != first.family())
        {
            let describe = |l: &Layer| format!("{}/{} ({})", l.member, l.name, l.family());
            return Err(PlanError::MixedCluster {
                cluster: i,
                a: describe(first),
                b: describe(other),
            });
        }
    }
    Ok(())
}
