//! Kernel calls of `batch_norm`.

use crate::device::buffer::{Access, BufferId, InputGradient, Write};
use crate::graph::ops::activation::Activation;
use crate::graph::ops::batch_norm::Scope;

/// How rows, segments and channels lie in a normalised activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormShape {
    /// Rows (pixels of all images) in a segment.
    pub rows: usize,
    /// Segments.
    pub segments: usize,
    /// Channels.
    pub channels: usize,
    /// Scope of mean and variance.
    pub statistics: Scope,
    /// Scope of scale and shift.
    pub parameters: Scope,
}

impl NormShape {
    /// Sets of statistics of the batch.
    pub fn statistic_sets(&self) -> usize {
        if self.statistics == Scope::Segment { self.segments } else { 1 }
    }

    /// Sets of scale and shift.
    pub fn parameter_sets(&self) -> usize {
        if self.parameters == Scope::Segment { self.segments } else { 1 }
    }

    /// Sets of running statistics.
    pub fn running_sets(&self) -> usize {
        self.statistic_sets().min(self.parameter_sets())
    }

    /// Numbers in the activation.
    pub fn len(&self) -> usize {
        self.segments * self.rows * self.channels
    }
}

/// Where mean and deviation come from.
#[derive(Clone, Copy, Debug)]
pub enum Moments {
    /// This batch: mean and `1/√(σ²+ε)`, one per statistics set and channel.
    Batch {
        /// μ.
        mean: BufferId,
        /// `1/√(σ²+ε)`.
        inverse: BufferId,
    },
    /// The running statistics.
    Running {
        /// Running mean.
        mean: BufferId,
        /// Running variance.
        variance: BufferId,
        /// ε.
        epsilon: f32,
    },
}

impl Moments {
    fn operands(&self) -> [(BufferId, Access); 2] {
        let (Moments::Batch { mean, inverse: second }
        | Moments::Running { mean, variance: second, .. }) = *self;
        [(mean, Access::Read), (second, Access::Read)]
    }
}

/// γ and β, one per parameter set and channel.
#[derive(Clone, Copy, Debug)]
pub struct Affine {
    /// γ.
    pub scale: BufferId,
    /// β.
    pub shift: BufferId,
}

/// How the running statistics take in a batch.
#[derive(Clone, Copy, Debug)]
pub enum RunningRule {
    /// `running ← (1−m)·running + m·batch`.
    Momentum(f32),
    /// `running ← running + (batch − running)/k` for the k-th batch of a pass; k is the control word
    /// [`crate::Control::BatchOfPass`].
    CumulativeAverage {
        /// The control words.
        control: BufferId,
    },
}

/// Running statistics to update.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// Running mean.
    pub mean: BufferId,
    /// Running variance.
    pub variance: BufferId,
    /// How.
    pub rule: RunningRule,
}

/// μ and `1/√(σ²+ε)` of the batch; updates the running statistics.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Rows, segments, channels.
    pub shape: NormShape,
    /// Input.
    pub x: BufferId,
    /// μ.
    pub mean: BufferId,
    /// `1/√(σ²+ε)`.
    pub inverse: BufferId,
    /// Running statistics to update.
    pub running: Option<Running>,
    /// ε.
    pub epsilon: f32,
}

impl Statistics {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all =
            vec![(self.x, Access::Read), (self.mean, Access::Write), (self.inverse, Access::Write)];
        if let Some(Running { mean, variance, rule }) = self.running {
            all.extend([(mean, Access::Update), (variance, Access::Update)]);
            if let RunningRule::CumulativeAverage { control } = rule {
                all.push((control, Access::Read));
            }
        }
        all
    }
}

/// Something added before the activation.
#[derive(Clone, Copy, Debug)]
pub enum Residual {
    /// It lies at the destination already.
    AtDestination,
    /// It lies elsewhere.
    From(BufferId),
}

/// `y = act(γ·(x − μ)/σ + β + residual)`.
#[derive(Clone, Debug)]
pub struct Apply {
    /// Rows, segments, channels.
    pub shape: NormShape,
    /// Input; `None`: it lies at the destination.
    pub x: Option<BufferId>,
    /// μ and σ.
    pub moments: Moments,
    /// γ and β.
    pub affine: Affine,
    /// Added before the activation.
    pub residual: Option<Residual>,
    /// Output.
    pub y: BufferId,
    /// The activation.
    pub activation: Activation,
}

impl Apply {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let update = self.x.is_none() || matches!(self.residual, Some(Residual::AtDestination));
        let mut all = vec![(self.y, if update { Access::Update } else { Access::Write })];
        all.extend(self.x.map(|x| (x, Access::Read)));
        all.extend(self.moments.operands());
        all.extend([(self.affine.scale, Access::Read), (self.affine.shift, Access::Read)]);
        if let Some(Residual::From(residual)) = self.residual {
            all.push((residual, Access::Read));
        }
        all
    }
}

/// Gradients of input, γ and β. With `dz = dy·act′`, sums over a statistics set of M rows:
///
/// `dβ = Σdz`, `dγ = Σdz·x̂`, `dx = (γ·dz − Σ(γ·dz)/M − x̂·Σ(γ·dz·x̂)/M)/σ`; the two sums vanish from `dx` where
/// the statistics are the running ones.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Rows, segments, channels.
    pub shape: NormShape,
    /// Input of the forward pass.
    pub x: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// μ and σ.
    pub moments: Moments,
    /// γ and β.
    pub affine: Affine,
    /// The activation.
    pub activation: Activation,
    /// Gradient of γ.
    pub dscale: BufferId,
    /// Gradient of β.
    pub dshift: BufferId,
    /// Replace or accumulate the gradients of γ and β.
    pub write: Write,
    /// Gradient of the input, where it is needed.
    pub dx: Option<InputGradient>,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let in_place = matches!(self.dx, Some(InputGradient::InPlace));
        let mut all = vec![(self.x, Access::Read)];
        all.push((self.dy, if in_place { Access::Update } else { Access::Read }));
        all.extend(self.moments.operands());
        all.extend([(self.affine.scale, Access::Read), (self.affine.shift, Access::Read)]);
        all.extend([(self.dscale, self.write.access()), (self.dshift, self.write.access())]);
        if let Some(InputGradient::To(dx, write)) = self.dx {
            all.push((dx, write.access()));
        }
        all
    }
}
