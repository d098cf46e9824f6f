//! Training of coefficients through a softmax, as in the search of Shapeshifter Networks.
//!
//! ```text
//! α = softmax(logits), row by row          dL/dlogits = α ∘ (dL/dα − ⟨dL/dα, α⟩)
//! ```
//!
//! The coefficient tensor holds the logits, except while members run, when it holds α. The
//! optimizer, its momentum and checkpoints therefore handle logits like any parameter, and resuming
//! is exact. The cost is a copy of the coefficients to the host and back in every step, which also
//! prevents recording the step. Only the search of one ablation does this. A softmax inside the
//! engine's mix would need one more kernel per device.

use superweight_engine::{Device, Error};
use superweight_plan::{SetId, TemplateSet};

use crate::model::bank::{coefficients_name, live_rows};
use crate::model::ensemble::Ensemble;

/// Coefficients of an ensemble while α replaces the logits; it keeps the logits meanwhile.
#[derive(Debug)]
pub struct SoftmaxCoefficients {
    sets: Vec<SetCoefficients>,
}

/// Logits and α of one template set.
#[derive(Debug)]
struct SetCoefficients {
    name: String,
    k: usize,
    logits: Vec<f32>,
    alpha: Vec<f32>,
    /// Length of the rows in use: their number times K.
    live: usize,
}

impl SoftmaxCoefficients {
    /// Replaces the logits in memory by α.
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
            sets.push(SetCoefficients { name, k, logits, alpha, live: rows * k });
        }
        Ok(Self { sets })
    }

    /// Replaces dL/dα in memory by the gradient of the logits.
    pub fn backward<D: Device>(&self, ensemble: &mut Ensemble<D>) -> Result<(), Error> {
        for SetCoefficients { name, k, alpha, live, .. } in &self.sets {
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

    /// Puts the logits back in memory.
    pub fn restore<D: Device>(self, ensemble: &mut Ensemble<D>) -> Result<(), Error> {
        self.sets
            .iter()
            .try_for_each(|set| ensemble.memory_mut().set_parameter(&set.name, &set.logits))
    }
}

/// Softmax of one row, computed in f64.
pub(super) fn softmax(logits: &[f32]) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|&x| f64::from(x - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| (power / sum) as f32).collect()
}
