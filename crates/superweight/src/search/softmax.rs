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

use crate::model::bank::{coefficients_name, live_rows};
use crate::model::ensemble::Ensemble;

/// Logits put aside while α is in their place.
#[derive(Debug)]
pub struct SoftmaxCoefficients {
    sets: Vec<Set>,
}

#[derive(Debug)]
struct Set {
    name: String,
    k: usize,
    logits: Vec<f32>,
    alpha: Vec<f32>,
    /// Numbers of the rows in use.
    live: usize,
}

impl SoftmaxCoefficients {
    /// Puts α in place of the logits.
    pub fn apply<D: Device>(ensemble: &mut Ensemble<D>) -> Result<Self, Error> {
        let live = live_rows(ensemble.plan());
        let of =
            |(i, set): (usize, &TemplateSet)| (coefficients_name(SetId(i)), set.templates, live[i]);
        let all: Vec<_> = ensemble.plan().template_sets.iter().enumerate().map(of).collect();
        let mut sets = vec![];
        for (name, k, rows) in all.into_iter().filter(|&(_, k, _)| k > 1) {
            let logits = ensemble.memory().parameter(&name)?;
            let mut alpha = logits.clone();
            for row in alpha.chunks_exact_mut(k).take(rows) {
                let soft = softmax(row);
                row.copy_from_slice(&soft);
            }
            ensemble.memory_mut().set_parameter(&name, &alpha)?;
            sets.push(Set { name, k, logits, alpha, live: rows * k });
        }
        Ok(Self { sets })
    }

    /// Turns dL/dα into the gradient of the logits.
    pub fn backward<D: Device>(&self, ensemble: &mut Ensemble<D>) -> Result<(), Error> {
        for Set { name, k, alpha, live, .. } in &self.sets {
            let mut gradient = ensemble.memory().gradient(name)?;
            for (g, a) in gradient[..*live].chunks_exact_mut(*k).zip(alpha.chunks_exact(*k)) {
                let along: f64 = g.iter().zip(a).map(|(g, a)| f64::from(*g) * f64::from(*a)).sum();
                g.iter_mut()
                    .zip(a)
                    .for_each(|(g, a)| *g = (f64::from(*a) * (f64::from(*g) - along)) as f32);
            }
            ensemble.memory_mut().set_gradient(name, &gradient)?;
        }
        Ok(())
    }

    /// Puts the logits back.
    pub fn restore<D: Device>(self, ensemble: &mut Ensemble<D>) -> Result<(), Error> {
        self.sets
            .iter()
            .try_for_each(|set| ensemble.memory_mut().set_parameter(&set.name, &set.logits))
    }
}

/// exp(x) over the sum of all, in f64.
pub(super) fn softmax(logits: &[f32]) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|&x| f64::from(x - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| (power / sum) as f32).collect()
}
