//! Should layers that share α go on sharing it? Eq. 3: the cosine of what each of them asks of it.
//!
//! ```text
//! dL/dαᵢ[p, k] = ⟨dL/dWᵢ on cell p, Tₖ⟩      ψ(i, j) = cosine of the vectors over the cells both have, all k
//! ```
//!
//! With patterns α has one row: dL/dαᵢ[k] = ⟨dL/dWᵢ, patternₖ ⊗ Tₖ⟩.
//!
//! One decision per SuperWeight, never per cell: α is one thing, and cells of one layer going different ways would be a
//! second search. A SuperWeight that one layer uses, or whose set has one template, has nothing to decide.

use std::collections::BTreeMap;

use superweight_plan::{CoefficientPairs, LayerId, Pair, SharingPlan, SuperWeightId};

use super::SearchError;
use crate::model::bank::weight_name;

/// What one layer asks of the coefficients of one SuperWeight, summed over an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct CoefficientGradient {
    /// Whose coefficients.
    pub superweight: SuperWeightId,
    /// Who asks.
    pub layer: LayerId,
    /// Rows and columns of cells that the layer uses, from the first cell on, and K; one cell with patterns.
    pub shape: [usize; 3],
    /// dL/dα, `[row, column, k]`.
    pub values: Vec<f32>,
}

impl CoefficientGradient {
    /// Cosine with another layer's over the cells that both have; 0 where one is zero there.
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

/// Similarities of all pairs of layers on each SuperWeight, as refinement takes them.
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

/// Which (SuperWeight, layer) have a say in refinement, with the shape of their dL/dα: all users of every SuperWeight
/// that has coefficients and more than one user.
pub fn refinement_candidates(plan: &SharingPlan) -> Vec<(SuperWeightId, LayerId, [usize; 3])> {
    let mut refinement_candidates = vec![];
    for (i, users) in plan.users().into_iter().enumerate() {
        let superweight = &plan.superweights[i];
        if superweight.groups.is_empty() || users.len() < 2 {
            continue;
        }
        let k = plan.set(superweight.set).templates;
        refinement_candidates.extend(users.into_iter().map(|(layer, [rows, cols])| {
            let shape = if plan.has_patterns() { [1, 1, k] } else { [rows, cols, k] };
            (SuperWeightId(i), layer, shape)
        }));
    }
    refinement_candidates
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

    /// Two rows of three cells against one row of two cells, K = 2: cells (0,0) and (0,1) are what both have.
    #[test]
    fn only_cells_that_both_have_count() {
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
