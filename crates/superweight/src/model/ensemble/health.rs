//! Layers and channels of an ensemble that contribute almost nothing.

use superweight_engine::{Device, Error};
use superweight_plan::{LayerId, MemberId, VectorKind};

use super::members::Ensemble;
use crate::model::bank::{scope, weight_name};

/// Absolute batch-norm scale below which a channel counts as a zero channel; scales start at 1.
pub const ZERO_SCALE: f32 = 0.01;

/// Root mean square of a weight, relative to the standard deviation of He's initialization, below
/// which the layer contributes almost nothing.
///
/// Weights that batch norm follows may shrink to a tenth without any effect.
pub const NEAR_ZERO_WEIGHT: f64 = 1e-3;

impl<D: Device> Ensemble<D> {
    /// Share of a member's batch-norm channels whose absolute scale is below [`ZERO_SCALE`].
    ///
    /// If weight decay has removed the shift as well, such a channel is constant, and no gradient
    /// through the ReLU brings it back.
    pub fn zero_channels(&self, member: MemberId) -> Result<f64, Error> {
        let vectors = self.plan().vectors.iter();
        let scales = vectors
            .filter(|vector| vector.member == member && vector.kind == VectorKind::NormScale);
        let (mut zero, mut all) = (0, 0);
        for vector in scales {
            let scale = self.memory.parameter(&(scope(member) + &vector.name))?;
            zero += scale.iter().filter(|scale| scale.abs() < ZERO_SCALE).count();
            all += scale.len();
        }
        Ok(zero as f64 / all.max(1) as f64)
    }

    /// Layers whose weights, as [`Ensemble::compose`] last wrote them, are smaller than
    /// [`NEAR_ZERO_WEIGHT`].
    pub fn near_zero_layers(&self) -> Result<Vec<LayerId>, Error> {
        let mut near_zero = vec![];
        for (i, planned) in self.plan().layers.iter().enumerate() {
            let weight = self.memory.parameter(&weight_name(self.plan(), LayerId(i)))?;
            let square =
                weight.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / weight.len() as f64;
            if square.sqrt() < NEAR_ZERO_WEIGHT * planned.layer.he_std() {
                near_zero.push(LayerId(i));
            }
        }
        Ok(near_zero)
    }
}
