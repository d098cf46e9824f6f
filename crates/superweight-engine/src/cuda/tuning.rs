//! Tuning as users of the device see it.

use super::CudaDevice;
use super::cudnn::{ConvRecord, Tuning};

impl CudaDevice {
    /// How much time convolutions prepared from now on may take to choose their plans. [`Tuning::Heuristic`] until set; what
    /// was tuned before, by any process, is used at every level.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.context.dnn.set_tuning(tuning);
    }

    /// The tuned convolutions that are known for this GPU, driver and cuDNN.
    pub fn tuned(&self) -> Vec<ConvRecord> {
        self.context.dnn.records()
    }

    /// Forgets them, on disk too: whatever is prepared next is tuned anew. Programs already compiled keep their plans.
    pub fn forget_tuned(&self) {
        self.context.dnn.refresh();
    }
}
