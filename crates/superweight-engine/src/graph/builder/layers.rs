//! Builder methods, one per operation. Each checks its shape rule at once and names the node when
//! it fails.

use crate::error::Error;
use crate::graph::NodeId;
use crate::graph::builder::GraphBuilder;
use crate::graph::check::{check_size, window_output};
use crate::graph::ops::activation::Activation;
use crate::graph::ops::batch_norm::{BatchNorm, Scope};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::loss::CrossEntropy;
use crate::graph::ops::pool::Pool2d;
use crate::graph::ops::{
    Op, activation, add, batch_norm, channel_scale, concat, conv, external, linear, loss, pool,
    softmax,
};
use crate::graph::slot::SlotKind;
use crate::shape::Shape;

impl GraphBuilder {
    /// Adds a convolution. Its weight is the tensor `{name}.weight`, in OHWI order.
    pub fn conv(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        options: Conv2d,
    ) -> Result<NodeId, Error> {
        self.any_conv(name.into(), x, options, None)
    }

    /// Adds `act(conv(x) + bias)`, a convolution with a folded batch norm. Its tensors are
    /// `{name}.weight` (OHWI) and `{name}.bias`. It has no backward pass.
    pub fn folded_conv(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        options: Conv2d,
        activation: Activation,
    ) -> Result<NodeId, Error> {
        self.any_conv(name.into(), x, options, Some(activation))
    }

    fn any_conv(
        &mut self,
        name: String,
        x: NodeId,
        options: Conv2d,
        folded: Option<Activation>,
    ) -> Result<NodeId, Error> {
        let input = self.input_of(&name, x)?;
        let shape = conv::shape_rule(&name, input, &options)?;
        let [kh, kw] = options.kernel;
        let dims = vec![options.out_channels, kh, kw, input.channels / options.groups];
        let weight = self.slot(format!("{name}.weight"), SlotKind::Weight, dims)?;
        let folded = match folded {
            // The bias has the weight's precision, because the kernels that take a bias require it.
            Some(activation) => {
                let bias = self.slot(
                    format!("{name}.bias"),
                    SlotKind::Weight,
                    vec![options.out_channels],
                )?;
                Some((bias, activation))
            }
            None => None,
        };
        self.push(name, Op::Conv(conv::Op { options, weight, folded }), vec![x], shape)
    }

    /// Adds a linear layer. Its tensors are `{name}.weight`, `[out, in]`, and, if `bias` is set,
    /// `{name}.bias`.
    pub fn linear(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        out_features: usize,
        bias: bool,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        let shape = linear::shape_rule(&name, input, out_features)?;
        let weight = self.slot(
            format!("{name}.weight"),
            SlotKind::Weight,
            vec![out_features, input.channels],
        )?;
        let bias = match bias {
            true => {
                Some(self.slot(format!("{name}.bias"), SlotKind::Vector, vec![out_features])?)
            }
            false => None,
        };
        self.push(name, Op::Linear(linear::Op { out_features, weight, bias }), vec![x], shape)
    }

    /// Adds a batch norm. Its tensors are `{name}.weight`, `.bias`, `.running_mean` and
    /// `.running_var`.
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
        let op = batch_norm::Op {
            options,
            scale: slot("weight", SlotKind::Vector, own_parameters)?,
            shift: slot("bias", SlotKind::Vector, own_parameters)?,
            mean: slot("running_mean", SlotKind::Statistic, own_statistics)?,
            variance: slot("running_var", SlotKind::Statistic, own_statistics)?,
        };
        self.push(name, Op::BatchNorm(op), vec![x], shape)
    }

    /// Adds a scale per segment and channel. Its tensor is `{name}.weight`, `[segments, channels]`.
    pub fn channel_scale(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        segments: usize,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let shape = self.input_of(&name, x)?;
        check_size(&name, "the number of segments", segments)?;
        let scale =
            self.slot(format!("{name}.weight"), SlotKind::Vector, vec![segments, shape.channels])?;
        self.push(name, Op::ChannelScale(channel_scale::Op { segments, scale }), vec![x], shape)
    }

    /// Adds an elementwise activation.
    pub fn activation(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        activation: Activation,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let shape = self.input_of(&name, x)?;
        self.push(name, Op::Activation(activation::Op { activation }), vec![x], shape)
    }

    /// Adds the sum of two nodes of the same shape, followed by an activation.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        a: NodeId,
        b: NodeId,
        activation: Activation,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let (lhs, rhs) = (self.input_of(&name, a)?, self.input_of(&name, b)?);
        if lhs != rhs {
            return Err(Error::ShapeMismatch { node: name, op: "add", lhs, rhs });
        }
        self.push(name, Op::Add(add::Op { activation }), vec![a, b], lhs)
    }

    /// Adds the concatenation of nodes of equal height and width along the channels.
    pub fn concat(&mut self, name: impl Into<String>, inputs: &[NodeId]) -> Result<NodeId, Error> {
        let name = name.into();
        let Some((&first, rest)) = inputs.split_first() else {
            return Err(Error::NoInputs { node: name, op: "concat" });
        };
        let mut shape = self.input_of(&name, first)?;
        for &input in rest {
            let (lhs, rhs) = (shape, self.input_of(&name, input)?);
            if (lhs.height, lhs.width) != (rhs.height, rhs.width) {
                return Err(Error::ShapeMismatch { node: name, op: "concat", lhs, rhs });
            }
            shape.channels += rhs.channels;
        }
        self.push(name, Op::Concat(concat::Op), inputs.to_vec(), shape)
    }

    /// Adds maximum or average pooling over windows.
    pub fn pool(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        options: Pool2d,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        let Pool2d { kernel, stride, padding, .. } = options;
        let [height, width] = window_output(&name, input, kernel, stride, padding)?;
        if (0..2).any(|d| 2 * padding[d] > kernel[d]) {
            return Err(Error::PaddingTooLarge { node: name, kernel, padding });
        }
        let shape = Shape::new(height, width, input.channels);
        self.push(name, Op::Pool(pool::Op { options }), vec![x], shape)
    }

    /// Adds the average over all pixels of an image. The result is a vector.
    pub fn global_average_pool(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        self.push(
            name,
            Op::GlobalAveragePool(pool::GlobalOp),
            vec![x],
            Shape::vector(input.channels),
        )
    }

    /// Adds a softmax over a vector of logits.
    pub fn softmax(&mut self, name: impl Into<String>, x: NodeId) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        if input.pixels() != 1 {
            return Err(Error::NotAVector { node: name, op: "softmax", input });
        }
        self.push(name, Op::Softmax(softmax::Op), vec![x], input)
    }

    /// Adds a cross-entropy loss on a vector of logits. Its [`crate::Metrics`] are readable under
    /// `name`.
    pub fn cross_entropy(
        &mut self,
        name: impl Into<String>,
        logits: NodeId,
        options: CrossEntropy,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, logits)?;
        if input.pixels() != 1 {
            return Err(Error::NotAVector { node: name, op: "cross-entropy", input });
        }
        check_size(&name, "the number of segments", options.segments)?;
        check_size(&name, "the number of heads", options.heads)?;
        let outside = |what, value, expected| {
            Err(Error::OutOfRange { node: name.clone(), what, value, expected })
        };
        if !(0.0..=1.0).contains(&options.smoothing) {
            return outside("label smoothing", options.smoothing, "between 0 and 1");
        }
        if !input.channels.is_multiple_of(options.heads) {
            return outside("the number of heads", options.heads as f32, "a divisor of the logits");
        }
        if !options.weight.is_finite() {
            return outside("the weight", options.weight, "finite");
        }
        self.push(name, Op::CrossEntropy(loss::Op { options }), vec![logits], Shape::vector(1))
    }

    /// Adds `weight` times the gradient stored under `name` to the gradient of `x`.
    pub fn external_gradient(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        weight: f32,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        self.input_of(&name, x)?;
        if !weight.is_finite() {
            return Err(Error::OutOfRange {
                node: name,
                what: "the weight",
                value: weight,
                expected: "finite",
            });
        }
        self.push(name, Op::ExternalGradient(external::Op { weight }), vec![x], Shape::vector(1))
    }
}
