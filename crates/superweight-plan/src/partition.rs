//! Disjoint sets of layers, and what must hold of them.

use crate::error::PlanError;
use crate::ids::LayerId;
use crate::layer::Layer;

/// Disjoint sets of layers; a layer in none of them is dense.
pub type Partition = Vec<Vec<LayerId>>;

/// Every id exists and stands in one set only; no set is empty.
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
