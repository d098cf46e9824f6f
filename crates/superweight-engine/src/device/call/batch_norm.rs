//! Kernel calls of batch norm.

use crate::device::buffer::{Access, BufferId, InputGradient, Write};
use crate::graph::ops::activation::Activation;
use crate::graph::ops::batch_norm::Scope;

/// Sizes of a normalised activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormShape {
    /// Number of rows (pixels of all images) per segment.
    pub rows: usize,
    /// Number of segments.
    pub segments: usize,
    /// Number of channels.
    pub channels: usize,
    /// Scope of mean and variance.
    pub statistics: Scope,
    /// Scope of scale and shift.
    pub parameters: Scope,
}

impl NormShape {
    /// Number of sets of batch statistics.
    pub fn statistic_sets(&self) -> usize {
        if self.statistics == Scope::Segment { self.segments } else { 1 }
    }

    /// Number of sets of scale and shift.
    pub fn parameter_sets(&self) -> usize {
        if self.parameters == Scope::Segment { self.segments } else { 1 }
    }

    /// Number of sets of running statistics.
    pub fn running_sets(&self) -> usize {
        self.statistic_sets().min(self.parameter_sets())
    }

    /// Number of elements of the activation.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.segments * self.rows * self.channels
    }
}

/// Source of mean and standard deviation.
#[derive(Clone, Copy, Debug)]
pub enum Moments {
    /// Statistics of this batch, one per statistics set and channel.
    Batch {
        /// Mean μ.
        mean: BufferId,
        /// Inverse standard deviation `1/√(σ²+ε)`.
        inverse: BufferId,
    },
    /// Running statistics.
    Running {
        /// Running mean.
        mean: BufferId,
        /// Running variance.
        variance: BufferId,
        /// ε, added to the variance.
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

/// Scale γ and shift β, one per parameter set and channel.
#[derive(Clone, Copy, Debug)]
pub struct Affine {
    /// Scale γ.
    pub scale: BufferId,
    /// Shift β.
    pub shift: BufferId,
}

/// How a batch updates the running statistics.
#[derive(Clone, Copy, Debug)]
pub enum RunningRule {
    /// `running ← (1−m)·running + m·batch`.
    Momentum(f32),
    /// `running ← running + (batch − running)/k` for the k-th batch of a pass. k is the control
    /// word [`crate::Control::BatchOfPass`].
    CumulativeAverage {
        /// Control words.
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
    /// Update rule.
    pub rule: RunningRule,
}

/// Computes μ and `1/√(σ²+ε)` of the batch and updates the running statistics.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Sizes of the activation.
    pub shape: NormShape,
    /// Input.
    pub x: BufferId,
    /// Output: mean μ.
    pub mean: BufferId,
    /// Output: inverse standard deviation `1/√(σ²+ε)`.
    pub inverse: BufferId,
    /// Running statistics to update, if any.
    pub running: Option<Running>,
    /// ε, added to the variance.
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

/// A residual that is added before the activation.
#[derive(Clone, Copy, Debug)]
pub enum Residual {
    /// The residual is already in the output buffer.
    AtDestination,
    /// The residual is in another buffer.
    From(BufferId),
}

/// `y = act(γ·(x − μ)/σ + β + residual)`.
#[derive(Clone, Debug)]
pub struct Apply {
    /// Sizes of the activation.
    pub shape: NormShape,
    /// Input. `None` if the input is already in `y`.
    pub x: Option<BufferId>,
    /// Mean and standard deviation.
    pub moments: Moments,
    /// Scale γ and shift β.
    pub affine: Affine,
    /// Residual added before the activation.
    pub residual: Option<Residual>,
    /// Output.
    pub y: BufferId,
    /// Activation applied to the result.
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

/// Computes the gradients of the input, γ and β. With `dz = dy·act′`, over a statistics set of M
/// rows:
///
/// `dβ = Σdz`, `dγ = Σdz·x̂`, `dx = (γ·dz − Σ(γ·dz)/M − x̂·Σ(γ·dz·x̂)/M)/σ`. With running
/// statistics the two sums vanish from `dx`.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Sizes of the activation.
    pub shape: NormShape,
    /// Input of the forward pass.
    pub x: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Mean and standard deviation.
    pub moments: Moments,
    /// Scale γ and shift β.
    pub affine: Affine,
    /// Activation of the forward pass.
    pub activation: Activation,
    /// Gradient of γ.
    pub dscale: BufferId,
    /// Gradient of β.
    pub dshift: BufferId,
    /// Whether the gradients of γ and β are overwritten or accumulated.
    pub write: Write,
    /// Gradient of the input, if it is needed.
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
