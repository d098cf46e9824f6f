//! Coefficients through a softmax, as Shapeshifter Networks' search trains them: α = softmax(logits), row by row.
//!
//! The coefficient parameter holds the logits; only while members run does it hold α. So optimizer, momentum and
//! checkpoints see logits and need not know, and resuming is exact for free. The price is a visit to the host per step
//! (rows × 4 numbers), which also keeps such a step from being recorded: this is one ablation's search, not training.
//! A softmax inside the engine's mix would be one more kernel per device for the same.
//!
//! ```text
//! dL/dlogits = α ∘ (dL/dα − ⟨dL/dα, α⟩)
//! ```

use superweight_engine::{Device, Error};
use superweight_plan::{SetId, TemplateSet};

use crate::bank::{CoefficientRows, coefficients_name};
use crate::ensemble::Ensemble;

/// Runs `body` with α in place of the logits, then puts the logits back and turns dL/dα into their gradient.
pub fn through_softmax<D: Device>(
    ensemble: &mut Ensemble<D>,
    body: impl FnOnce(&mut Ensemble<D>) -> Result<(), Error>,
) -> Result<(), Error> {
    let rows = CoefficientRows::of(ensemble.plan());
    let of = |(i, set): (usize, &TemplateSet)| (SetId(i), set.templates);
    let mixed: Vec<_> = ensemble.plan().template_sets.iter().enumerate().map(of).collect();
    let mut sets = vec![];
    for (set, k) in mixed.into_iter().filter(|&(_, k)| k > 1) {
        let name = coefficients_name(set);
        let logits = ensemble.memory().parameter(&name)?;
        let mut alpha = logits.clone();
        for row in alpha.chunks_exact_mut(k).take(rows.live(set)) {
            let soft = softmax(row);
            row.copy_from_slice(&soft);
        }
        ensemble.memory_mut().set_parameter(&name, &alpha)?;
        sets.push((name, k, rows.live(set), logits, alpha));
    }
    body(ensemble)?;
    for (name, k, live, logits, alpha) in sets {
        let mut gradient = ensemble.memory().gradient(&name)?;
        for (g, a) in gradient.chunks_exact_mut(k).zip(alpha.chunks_exact(k)).take(live) {
            let along: f64 = g.iter().zip(a).map(|(g, a)| f64::from(*g) * f64::from(*a)).sum();
            g.iter_mut().zip(a).for_each(|(g, a)| *g = (f64::from(*a) * (f64::from(*g) - along)) as f32);
        }
        ensemble.memory_mut().set_gradient(&name, &gradient)?;
        ensemble.memory_mut().set_parameter(&name, &logits)?;
    }
    Ok(())
}

/// exp(x) over the sum of all, in f64.
pub(super) fn softmax(logits: &[f32]) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|&x| f64::from(x - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| (power / sum) as f32).collect()
}
