//! Mean coefficients of every layer, by which the search of Shapeshifter Networks clusters layers.
//!
//! In Shapeshifter Networks a layer has one α ∈ R⁴ over one bank. Here a layer has one row of α per
//! cell, so its α is the mean of its rows on the template set of the first SuperWeight of its
//! cluster. With grid tiling that set covers the whole layer, with nested tiling the corner that
//! all layers have. (A single corner cell of a grid would represent a layer by 1 of its 400 cells.)
//!
//! Layers with 1×1 kernels stay together, as in every partition by depth or at random; the paper
//! clusters 3×3 layers. Layers that read a bank have one α each and are clustered whatever their
//! kernels.

use superweight_engine::{Device, Memory};
use superweight_plan::{Cluster, ClusterId, LayerId, SetId, SharingPlan, SuperWeightId};

use super::SearchError;
use super::softmax::softmax;
use crate::model::bank::{Rows, coefficients_name};

/// Layers that k-means clusters, each with the K of the template set on which it is compared.
pub(super) fn clustered(plan: &SharingPlan) -> Result<Vec<(LayerId, usize)>, SearchError> {
    let mut all = vec![];
    for (i, cluster) in
        plan.clusters.iter().enumerate().filter(|(_, cluster)| is_split(plan, cluster))
    {
        let k = plan.set(first_set(plan, cluster.layers[0])).templates;
        if k < 2 {
            return Err(SearchError::NoCoefficients { cluster: ClusterId(i) });
        }
        all.extend(cluster.layers.iter().map(|&layer| (layer, k)));
    }
    Ok(all)
}

/// Whether k-means splits a cluster of the starting plan.
pub(super) fn is_split(plan: &SharingPlan, cluster: &Cluster) -> bool {
    let layers = &cluster.layers;
    layers.len() > 1 && (cluster.bank.is_some() || plan.layer(layers[0]).kernel != [1, 1])
}

/// Template set of the first SuperWeight of a layer's cluster, which all layers of the cluster use.
fn first_set(plan: &SharingPlan, layer: LayerId) -> SetId {
    let first = plan.layers[layer.0].tiles.iter().map(|tile| tile.superweight).min();
    plan.superweight(first.expect("a clustered layer has tiles")).set
}

/// Computes the mean coefficients of every clustered layer. The coefficients are in memory as
/// logits of a softmax.
///
/// # Errors
/// If a cluster has no coefficients, or a mean is not finite.
pub fn means<D: Device>(
    plan: &SharingPlan,
    memory: &Memory<D>,
) -> Result<Vec<(LayerId, Vec<f64>)>, SearchError> {
    let rows = Rows::coefficients(plan);
    let mut means = vec![];
    for (layer, k) in clustered(plan)? {
        let set = first_set(plan, layer);
        let logits = memory.parameter(&coefficients_name(set))?;
        let (mut mean, mut count) = (vec![0.0; k], 0);
        for tile in plan.layers[layer.0]
            .tiles
            .iter()
            .filter(|tile| plan.superweight(tile.superweight).set == set)
        {
            let [down, across] = plan.cells(set, &tile.at);
            let id: SuperWeightId = tile.superweight;
            for cell in (0..down).flat_map(|r| (0..across).map(move |c| [r, c])) {
                let row = rows.row(id, layer, cell);
                let alpha = softmax(&logits[row * k..(row + 1) * k]);
                mean.iter_mut().zip(alpha).for_each(|(sum, a)| *sum += f64::from(a));
                count += 1;
            }
        }
        mean.iter_mut().for_each(|sum| *sum /= f64::from(count));
        if !mean.iter().all(|number| number.is_finite()) {
            let layer = crate::model::bank::weight_name(plan, layer);
            return Err(SearchError::NotFinite { what: "mean α", layer });
        }
        means.push((layer, mean));
    }
    Ok(means)
}

#[cfg(test)]
mod tests {
    use superweight_plan::{Member, PlanRequest, TilingChoice};

    use super::*;

    /// Most layers of a bottleneck network are 1×1. With a bank they are clustered too.
    #[test]
    fn all_layers_of_a_bank_are_clustered() {
        let architecture: superweight_plan::arch::ArchName = "wrn-50-2".parse().unwrap();
        let input = architecture.default_input();
        let member = Member { architecture, input, classes: 10 };
        let request = |tiling| PlanRequest {
            tiling,
            max_templates: Some(4),
            ..PlanRequest::new(vec![member.clone()], 6_000_000)
        };
        let of = |tiling| clustered(&request(tiling).plan().unwrap()).unwrap();
        assert!(of(TilingChoice::Stretched).iter().all(|&(_, k)| k == 4));
        assert_eq!(
            [TilingChoice::Stretched, TilingChoice::Grid].map(|tiling| of(tiling).len()),
            [53, 16]
        );
    }
}
