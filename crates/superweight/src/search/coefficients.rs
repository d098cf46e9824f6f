//! Similarity of the gradients with which two layers would change their shared α (Eq. 3).
//!
//! ```text
//! ψ(i, j) = cos(dL/dαᵢ, dL/dαⱼ)              over the cells p that both layers use, and all k
//!
//! dL/dαᵢ[p, k] = ⟨dL/dWᵢ on cell p, Tₖ⟩      with patterns: dL/dαᵢ[k] = ⟨dL/dWᵢ, patternₖ ⊗ Tₖ⟩
//! ```
//!
//! dL/dαᵢ is summed over an epoch for every layer i by itself. Refinement keeps one α for layers
//! whose similarity is above β.
//!
//! There is one decision per SuperWeight, not one per cell: different decisions for the cells of
//! one layer would be a second search. A SuperWeight that one layer uses, or whose set has one
//! template, needs no decision.

use std::collections::BTreeMap;

use superweight_plan::{CoefficientPairs, LayerId, Pair, SharingPlan, SuperWeightId};

use super::SearchError;
use crate::model::bank::weight_name;

/// dL/dα of one layer and one SuperWeight, summed over an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct CoefficientGradient {
    /// SuperWeight whose coefficients α are.
    pub superweight: SuperWeightId,
    /// Layer through which the loss depends on α here.
    pub layer: LayerId,
    /// Rows and columns of the grid of cells that the layer uses, and K. One cell with patterns.
    pub shape: [usize; 3],
    /// Values of dL/dα, `[row, column, k]`.
    pub values: Vec<f32>,
}

impl CoefficientGradient {
    /// Eq. 3: cosine of this gradient and another layer's, over the cells that both layers use; 0
    /// if one of them is zero on these cells.
    fn similarity(&self, other: &Self) -> f64 {
        let [rows, cols, k] = self.shape;
        let (rows, common) = (rows.min(other.shape[0]), cols.min(other.shape[1]));
        let row = |of: &Self, row: usize| row * of.shape[1] * k..(row * of.shape[1] + common) * k;
        let (mut dot, mut squares) = (0.0, [0.0; 2]);
        for r in 0..rows {
            for (a, b) in self.values[row(self, r)].iter().zip(&other.values[row(other, r)]) {
                let (a, b) = (f64::from(*a), f64::from(*b));
                dot += a * b;
                squares[0] += a * a;
                squares[1] += b * b;
            }
        }
        let [a, b] = squares.map(f64::sqrt);
        if a == 0.0 || b == 0.0 { 0.0 } else { (dot / a / b).clamp(-1.0, 1.0) }
    }
}

/// Computes Eq. 3 for all pairs of layers of each SuperWeight, as input of refinement.
///
/// # Errors
/// If a value is not finite.
pub fn coefficient_pairs(
    plan: &SharingPlan,
    gradients: &[CoefficientGradient],
) -> Result<Vec<CoefficientPairs>, SearchError> {
    let mut users = BTreeMap::<SuperWeightId, Vec<&CoefficientGradient>>::new();
    for gradient in gradients {
        if !gradient.values.iter().all(|number| number.is_finite()) {
            let layer = weight_name(plan, gradient.layer);
            return Err(SearchError::NotFinite { what: "dL/dα", layer });
        }
        users.entry(gradient.superweight).or_default().push(gradient);
    }
    let of = |(superweight, users): (SuperWeightId, Vec<&CoefficientGradient>)| {
        let mut pairs = vec![];
        for (n, b) in users.iter().enumerate() {
            pairs.extend(users[..n].iter().map(|a| Pair::new(a.layer, b.layer, a.similarity(b))));
        }
        CoefficientPairs { superweight, pairs }
    };
    Ok(users.into_iter().map(of).collect())
}

/// Pairs of a SuperWeight and a layer whose dL/dα refinement compares, with the shape of dL/dα.
///
/// These are all layers of every SuperWeight that has coefficients and more than one layer.
pub fn refinement_candidates(plan: &SharingPlan) -> Vec<(SuperWeightId, LayerId, [usize; 3])> {
    let mut candidates = vec![];
    for (i, users) in plan.users().into_iter().enumerate() {
        let superweight = &plan.superweights[i];
        if superweight.groups.is_empty() || users.len() < 2 {
            continue;
        }
        let k = plan.set(superweight.set).templates;
        candidates.extend(users.into_iter().map(|(layer, [rows, cols])| {
            let shape = if plan.has_patterns() { [1, 1, k] } else { [rows, cols, k] };
            (SuperWeightId(i), layer, shape)
        }));
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(shape: [usize; 3], values: &[f32]) -> CoefficientGradient {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        CoefficientGradient {
            superweight: SuperWeightId(0),
            layer: LayerId(0),
            shape,
            values: values.to_vec(),
        }
    }

    /// A grid of two rows of three cells and one of one row of two cells, K = 2, have the cells
    /// (0,0) and (0,1) in common.
    #[test]
    fn similarity_covers_the_cells_that_both_layers_use() {
        let large = gradient([2, 3, 2], &[1., 2., 3., 4., 9., 9., 9., 9., 9., 9., 9., 9.]);
        let small = gradient([1, 2, 2], &[2., 0., 1., 1.]);
        let expected = (2. + 3. + 4.) / (30f64.sqrt() * 6f64.sqrt());
        assert!((large.similarity(&small) - expected).abs() < 1e-15);
        assert_eq!(large.similarity(&small), small.similarity(&large));
        let opposite: Vec<f32> = small.values.iter().map(|value| -value).collect();
        assert!((small.similarity(&gradient([1, 2, 2], &opposite)) + 1.0).abs() < 1e-15);
        assert_eq!(large.similarity(&gradient([1, 1, 2], &[0., 0.])), 0.0);
    }
}
