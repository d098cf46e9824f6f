//! [`SearchProbe`]: gathers what a search compares. That is gradients during its last batches, or
//! weights or coefficients at its end.

use superweight_engine::{Device, Error};
use superweight_plan::LayerId;

use super::SearchError;
use super::means::means;
use super::pairs::{LayerTensors, compare_layers};
use super::statistics::{Compared, SearchStatistics};
use super::sums::WeightGradientSums;
use crate::model::bank::weight_name;
use crate::model::ensemble::Ensemble;
use crate::recipe::Similarity;

/// Gathers the statistics of a search at its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum SearchProbe<D: Device> {
    /// Sums gradients, for their cosine (Eq. 2).
    Gradients(WeightGradientSums<D>),
    /// Reads the composed weights, for their cosine.
    Weights,
    /// Reads the coefficients α, for k-means.
    Coefficients,
}

impl<D: Device> SearchProbe<D> {
    /// Prepares a probe for this similarity.
    pub fn new(similarity: Similarity, ensemble: &Ensemble<D>) -> Result<Self, Error> {
        Ok(match similarity {
            Similarity::Gradient => {
                Self::Gradients(WeightGradientSums::new(ensemble.plan(), ensemble.memory())?)
            }
            Similarity::Weight => Self::Weights,
            Similarity::Coefficient => Self::Coefficients,
        })
    }

    /// Adds the gradients of one of the last batches, after its backward pass.
    pub fn observe(&mut self, ensemble: &Ensemble<D>) {
        if let Self::Gradients(sums) = self {
            sums.observe(ensemble.memory());
        }
    }

    /// Returns the statistics at the end of the search.
    ///
    /// # Errors
    /// If a gradient, weight or coefficient is not finite.
    pub fn finish(self, ensemble: &mut Ensemble<D>) -> Result<SearchStatistics, SearchError> {
        let plan = ensemble.plan().clone();
        let compared = match self {
            Self::Gradients(sums) => {
                Compared::Gradients(compare_layers(&plan, &sums.read(), "Σ dL/dW")?)
            }
            Self::Weights => {
                Compared::Weights(compare_layers(&plan, &weights(ensemble)?, "the weight")?)
            }
            Self::Coefficients => Compared::Coefficients(means(&plan, ensemble.memory())?),
        };
        Ok(SearchStatistics { plan, compared })
    }
}

/// Composes and reads the weights of all clustered layers; those in memory are older.
fn weights<D: Device>(ensemble: &mut Ensemble<D>) -> Result<LayerTensors, Error> {
    ensemble.compose()?;
    let plan = ensemble.plan();
    let layers = plan.clusters.iter().flat_map(|cluster| &cluster.layers);
    let of = |&id: &LayerId| Ok((id, ensemble.memory().parameter(&weight_name(plan, id))?));
    layers.map(of).collect()
}
