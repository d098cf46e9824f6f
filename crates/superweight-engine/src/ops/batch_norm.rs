//! Batch normalisation with a fused activation, over segments of the batch.
//!
//! `y = act(γ·(x − μ)/√(σ² + ε) + β)` per channel; ε = 1e-5 and momentum 0.1 as PyTorch has them, running variance
//! unbiased. The batch may consist of equal *segments*; statistics and parameters are each joint or per segment:
//!
//! | | statistics | parameters | running statistics |
//! |---|---|---|---|
//! | plain, BatchEnsemble | joint | joint | `[C]` |
//! | ghost batch norm | segment | joint | `[C]`, the mean of the segments' updates |
//! | EnsBN | segment | segment | `[S, C]` |
//! | – | joint | segment | `[C]` |
//!
//! What is kept for backward is `x` (which the layer before wrote anyway), μ and 1/√(σ²+ε). The activation's mask is
//! recomputed from `x` with the very arithmetic of the forward pass, so `y` is not read again; PyTorch's ReLU keeps `y`.
//!
//! When the statistics come from the batch every row counts, padding included: training and recalibration drop the
//! tail batch, evaluation (which pads) uses the running statistics, where rows do not see each other.

use super::activation::Activation;
use super::{BatchContext, Keeps, Operation, Write};
use crate::error::Error;
use crate::graph::check::check_size;
use crate::graph::{Graph, GraphBuilder, Node, NodeId, SlotId, SlotKind};
use crate::program::{
    Access, BufferId, Destination, Element, Emitter, InputGradient, Kept, NormMode,
};

/// Whether something is one for the whole batch or one per segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One for the whole batch.
    Joint,
    /// One per segment.
    Segment,
}

/// Options of a batch norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Activation applied to the result.
    pub activation: Activation,
    /// Equal parts the batch consists of.
    pub segments: usize,
    /// Mean and variance.
    pub statistics: Scope,
    /// Scale and shift.
    pub parameters: Scope,
    /// ε, added to the variance.
    pub epsilon: f32,
    /// Weight of the new batch in the running statistics.
    pub momentum: f32,
}

impl BatchNorm {
    /// No activation, one segment.
    pub fn plain() -> Self {
        Self {
            activation: Activation::None,
            segments: 1,
            statistics: Scope::Joint,
            parameters: Scope::Joint,
            epsilon: 1e-5,
            momentum: 0.1,
        }
    }

    /// With ReLU.
    pub fn relu() -> Self {
        Self { activation: Activation::Relu, ..Self::plain() }
    }

    /// With ReLU6.
    pub fn relu6() -> Self {
        Self { activation: Activation::Relu6, ..Self::plain() }
    }

    /// Over this many segments, with statistics and parameters as given.
    pub fn segmented(self, segments: usize, statistics: Scope, parameters: Scope) -> Self {
        Self { segments, statistics, parameters, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    options: BatchNorm,
    scale: SlotId,
    shift: SlotId,
    mean: SlotId,
    variance: SlotId,
}

impl GraphBuilder {
    /// A batch norm; its tensors are `{name}.weight`, `.bias`, `.running_mean` and `.running_var`.
    pub fn batch_norm(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        options: BatchNorm,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let shape = self.input_of(&name, x)?;
        check_size(&name, "the number of segments", options.segments)?;
        let outside =
            |what, value, expected| Error::OutOfRange { node: name.clone(), what, value, expected };
        if !(options.epsilon > 0.0 && options.epsilon.is_finite()) {
            return Err(outside("epsilon", options.epsilon, "positive"));
        }
        if !(0.0..=1.0).contains(&options.momentum) {
            return Err(outside("the momentum", options.momentum, "between 0 and 1"));
        }
        let dims = |per_segment: bool| match per_segment && options.segments > 1 {
            true => vec![options.segments, shape.channels],
            false => vec![shape.channels],
        };
        let own_parameters = options.parameters == Scope::Segment;
        let own_statistics = own_parameters && options.statistics == Scope::Segment;
        let mut slot = |what: &str, kind, own| self.slot(format!("{name}.{what}"), kind, dims(own));
        let op = Op {
            options,
            scale: slot("weight", SlotKind::Vector, own_parameters)?,
            shift: slot("bias", SlotKind::Vector, own_parameters)?,
            mean: slot("running_mean", SlotKind::Statistic, own_statistics)?,
            variance: slot("running_var", SlotKind::Statistic, own_statistics)?,
        };
        self.push(name, super::Op::BatchNorm(op), vec![x], shape)
    }
}

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
    pub fn numbers(&self) -> usize {
        self.segments * self.rows * self.channels
    }
}

impl Op {
    fn norm_shape(&self, e: &Emitter<'_>, id: NodeId) -> NormShape {
        let (_, input) = e.input(id, 0);
        NormShape {
            rows: e.batch() / self.options.segments * input.pixels(),
            segments: self.options.segments,
            channels: input.channels,
            statistics: self.options.statistics,
            parameters: self.options.parameters,
        }
    }

    fn batch_statistics(
        &self,
        e: &mut Emitter<'_>,
        id: NodeId,
        shape: NormShape,
        x: BufferId,
    ) -> Moments {
        let len = shape.statistic_sets() * shape.channels;
        let (mean, inverse) = (e.arena(Element::Float, len), e.arena(Element::Float, len));
        let running = |e: &mut Emitter<'_>, rule| Running {
            mean: e.statistic(self.mean),
            variance: e.statistic(self.variance),
            rule,
        };
        let running = match e.norm_mode() {
            NormMode::Train => Some(running(e, RunningRule::Momentum(self.options.momentum))),
            NormMode::Recalibrate => {
                let control = e.control();
                Some(running(e, RunningRule::CumulativeAverage { control }))
            }
            NormMode::BatchStatistics | NormMode::Eval => None,
        };
        e.call(id, Statistics { shape, x, mean, inverse, running, epsilon: self.options.epsilon });
        Moments::Batch { mean, inverse }
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "batch norm"
    }

    fn parameters(&self) -> Vec<SlotId> {
        vec![self.scale, self.shift]
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: true, output: false }
    }

    fn can_accumulate(&self) -> bool {
        self.options.activation == Activation::None
    }

    fn check_batch(&self, graph: &Graph, node: &Node, context: BatchContext) -> Result<(), Error> {
        let BatchContext { batch, batch_statistics, .. } = context;
        let segments = self.options.segments;
        check_segments(&node.name, batch, segments)?;
        let input = graph.input_shape(node, 0);
        let rows = if self.options.statistics == Scope::Segment { batch / segments } else { batch };
        if batch_statistics && rows * input.pixels() == 1 {
            return Err(Error::OneValuePerChannel { node: node.name.clone(), input, rows });
        }
        Ok(())
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, _) = e.input(id, 0);
        let shape = self.norm_shape(e, id);
        let moments = match e.norm_mode() {
            NormMode::Eval => Moments::Running {
                mean: e.statistic(self.mean),
                variance: e.statistic(self.variance),
                epsilon: self.options.epsilon,
            },
            _ => self.batch_statistics(e, id, shape, x),
        };
        e.keep(id, Kept::Moments(moments));
        let affine = Affine { scale: e.parameter(self.scale), shift: e.parameter(self.shift) };
        let apply = |x, residual, y, activation| Apply {
            shape,
            x,
            moments,
            affine,
            residual,
            y,
            activation,
        };
        match e.destination(id) {
            Destination::Own(y) => e.call(id, apply(Some(x), None, y, self.options.activation)),
            Destination::InPlace(y) => e.call(id, apply(None, None, y, self.options.activation)),
            Destination::Residual { add, residual, y, activation } => {
                let residual = residual.map_or(Residual::AtDestination, Residual::From);
                e.call(id, apply(Some(x), Some(residual), y, activation));
                e.activation_done(add);
            }
        }
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let (x, _) = e.input(id, 0);
        let Kept::Moments(moments) = e.kept(id) else {
            unreachable!("batch norm keeps its moments")
        };
        let affine = Affine { scale: e.parameter(self.scale), shift: e.parameter(self.shift) };
        let (dscale, write) = e.parameter_gradient(self.scale);
        let (dshift, _) = e.parameter_gradient(self.shift);
        let dx = e.input_gradient_in_place(id, 0, dy);
        let shape = self.norm_shape(e, id);
        let activation = self.options.activation;
        e.call(
            id,
            Backward { shape, x, dy, moments, affine, activation, dscale, dshift, write, dx },
        );
    }
}

/// The batch must consist of equal segments.
pub(super) fn check_segments(node: &str, batch: usize, segments: usize) -> Result<(), Error> {
    if !batch.is_multiple_of(segments) {
        return Err(Error::Segments { node: node.to_owned(), batch, segments });
    }
    Ok(())
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
