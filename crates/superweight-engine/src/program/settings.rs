//! How a graph is to be run: batch size, what batch norm does, whether there is a backward pass.

/// Where batch norm takes its statistics from, and whether the running ones change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormMode {
    /// From the batch; the running statistics follow with the momentum.
    Train,
    /// From the running statistics.
    Eval,
    /// From the batch; the running statistics stay (weights in between two trained ones have none).
    BatchStatistics,
    /// From the batch; the running statistics become the average over a pass (universally slimmable networks).
    Recalibrate,
}

/// How a graph is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Images per run.
    pub batch: usize,
    /// What batch norm does.
    pub norm: NormMode,
    /// Whether gradients are computed. With [`NormMode::Eval`] the statistics are frozen.
    pub backward: bool,
    /// Add to the parameters' gradients instead of replacing them: several batches, several graphs.
    pub accumulate: bool,
    /// Also compute the gradient of each input, readable as `{input}.gradient`.
    pub input_gradients: bool,
}

impl Settings {
    /// Forward and backward, running statistics updated.
    pub fn train(batch: usize) -> Self {
        Self {
            batch,
            norm: NormMode::Train,
            backward: true,
            accumulate: false,
            input_gradients: false,
        }
    }

    /// Forward with the running statistics; keeps nothing for a backward pass.
    pub fn evaluate(batch: usize) -> Self {
        Self { norm: NormMode::Eval, backward: false, ..Self::train(batch) }
    }

    /// Forward with the statistics of the batch, changing nothing.
    pub fn batch_statistics(batch: usize) -> Self {
        Self { norm: NormMode::BatchStatistics, ..Self::evaluate(batch) }
    }

    /// Forward with the statistics of the batch, averaging them over a pass.
    pub fn recalibrate(batch: usize) -> Self {
        Self { norm: NormMode::Recalibrate, ..Self::evaluate(batch) }
    }
}
