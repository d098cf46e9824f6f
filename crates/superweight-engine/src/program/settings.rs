//! Compile settings of a program: batch size, mode of batch norm, backward pass.

/// Statistics that batch norm uses, and how it updates the running statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NormMode {
    /// Uses batch statistics and updates the running statistics with the momentum.
    Train,
    /// Uses the running statistics.
    Eval,
    /// Uses batch statistics and leaves the running statistics unchanged. Needed for weights
    /// without running statistics, such as an interpolation of two trained networks.
    BatchStatistics,
    /// Uses batch statistics and sets the running statistics to their average over a pass, as for
    /// universally slimmable networks.
    Recalibrate,
}

/// Compile settings of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Number of images per run.
    pub batch: usize,
    /// Mode of batch norm.
    pub norm: NormMode,
    /// Whether to compute gradients. With [`NormMode::Eval`] the statistics are constants.
    pub backward: bool,
    /// Whether parameter gradients are added to the existing ones, to sum over several batches or
    /// graphs.
    pub accumulate: bool,
    /// Whether to compute the gradient of each input, readable as `{input}.gradient`.
    pub input_gradients: bool,
}

impl Settings {
    /// Forward and backward pass, updating the running statistics.
    pub fn train(batch: usize) -> Self {
        Self {
            batch,
            norm: NormMode::Train,
            backward: true,
            accumulate: false,
            input_gradients: false,
        }
    }

    /// Forward pass with the running statistics.
    pub fn evaluate(batch: usize) -> Self {
        Self { norm: NormMode::Eval, backward: false, ..Self::train(batch) }
    }

    /// Forward pass with batch statistics that changes no running statistic.
    pub fn batch_statistics(batch: usize) -> Self {
        Self { norm: NormMode::BatchStatistics, ..Self::evaluate(batch) }
    }

    /// Forward pass with batch statistics that averages them into the running statistics.
    pub fn recalibrate(batch: usize) -> Self {
        Self { norm: NormMode::Recalibrate, ..Self::evaluate(batch) }
    }
}
