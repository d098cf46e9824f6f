//! Calls of a batch norm: statistics (in modes that use the batch), then normalisation.

use crate::device::buffer::{BufferId, Element};
use crate::device::call::batch_norm::{
    Affine, Apply, Backward, Moments, NormShape, Residual, Running, RunningRule, Statistics,
};
use crate::graph::NodeId;
use crate::graph::ops::batch_norm::Op;
use crate::program::emitter::{Destination, Emit, Emitter, Kept};
use crate::program::settings::NormMode;

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

impl Emit for Op {
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
