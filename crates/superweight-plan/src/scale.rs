//! The balanced scale: a template step moves a weight as much as a plain step would.
//!
//! Layer i's weight is s·(Heᵢ/He_c)·Σ αT with s = √(K/uses), where uses counts the cells of all layers on the template
//! set, He = √(2/fan-in), and He_c is that of the set's largest fan-in; T ~ N(0, (He_c/s)²) and every α row has length
//! 1, so a weight starts with He's deviation. A dense layer (K = uses = 1) is exactly the plain network. Not taken:
//! T ~ N(0, 1) times a fixed He factor, which lost 4 points in a short run at 1%.

use crate::allocate::SetCost;
use crate::layer::LayerId;
use crate::plan::SharingPlan;

/// Fills the factor of every tile and the deviation of every set.
pub(crate) fn balance(plan: &mut SharingPlan, costs: &[SetCost]) {
    let mut smallest_he = vec![f64::INFINITY; plan.template_sets.len()];
    for layer in &plan.layers {
        for tile in &layer.tiles {
            let he = &mut smallest_he[plan.superweights[tile.superweight.0].set.0];
            *he = he.min(layer.layer.he());
        }
    }
    let s: Vec<f64> =
        plan.template_sets.iter().zip(costs).map(|(set, cost)| s(set.templates, cost.uses)).collect();
    for (i, set) in plan.template_sets.iter_mut().enumerate() {
        set.deviation = smallest_he[i] / s[i];
    }
    for layer in (0..plan.layers.len()).map(LayerId) {
        let he = plan.layer(layer).he();
        for tile in &mut plan.layers[layer.0].tiles {
            let set = plan.superweights[tile.superweight.0].set.0;
            tile.factor = s[set] * he / smallest_he[set];
        }
    }
}

fn s(templates: usize, uses: u64) -> f64 {
    (templates as f64 / uses as f64).sqrt()
}
