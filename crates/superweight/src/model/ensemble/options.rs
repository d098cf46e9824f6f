//! [`EnsembleOptions`]: the programs that an ensemble is compiled with.

/// Settings with which an ensemble is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct EnsembleOptions {
    /// Rows of a batch. A row is one image, or with MIMO one image per head.
    pub batch: usize,
    /// Rows over which batch norm computes its statistics in training; divides the batch.
    pub bn_batch_size: usize,
    /// Whether to compile training programs beside the evaluation programs.
    pub training: bool,
    /// Whether to compile programs that compute the statistics of batch norm again
    /// ([`Ensemble::recalibrate`](super::Ensemble::recalibrate)).
    pub recalibrated: bool,
    /// Label smoothing of every member's training loss.
    pub smoothing: f32,
    /// Whether only the largest member learns from labels, and the others from its probabilities.
    pub distillation: bool,
    /// Weight decay of composed linear weights in training.
    pub classifier_decay: f32,
    /// Whether evaluation programs fold batch norms into convolutions where possible. This is
    /// faster and equal up to rounding.
    pub folded: bool,
    /// Whether every exit of a network has an evaluation program of its own, which continues after
    /// that of the exit before it. Prediction within a deadline uses this.
    pub by_exit: bool,
}

impl EnsembleOptions {
    /// Settings for training and evaluation, with batch norm over the whole batch and without label
    /// smoothing, distillation or weight decay of composed weights.
    pub fn train(batch: usize) -> Self {
        Self {
            batch,
            bn_batch_size: batch,
            training: true,
            recalibrated: false,
            smoothing: 0.0,
            distillation: false,
            classifier_decay: 0.0,
            folded: false,
            by_exit: false,
        }
    }

    /// Settings for evaluation only.
    pub fn evaluate(batch: usize) -> Self {
        Self { training: false, ..Self::train(batch) }
    }

    /// Settings for fast inference: evaluation with folded batch norms.
    pub fn infer(batch: usize) -> Self {
        Self { folded: true, ..Self::evaluate(batch) }
    }
}
