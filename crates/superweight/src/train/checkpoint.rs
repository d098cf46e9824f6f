//! Converts an ensemble and its optimizer to the tensors of a checkpoint and back. Each shared
//! parameter is stored once.
//!
//! | file | tensors |
//! |---|---|
//! | `bank` | `templates.S` `[K, out, in, kh, kw]`, `patterns.S` `[cells, K]` with Kronecker tiling, `coefficients.S` `[rows, K]`: rows in use, without the reserve |
//! | `members` | `M.` and PyTorch's name: dense weights (OIHW, or `[out, in]`), scales, shifts, biases, running statistics |
//! | `optimizer` | momentum, under the name of its parameter |
//! | `swa` | stochastic weight average of all tensors in `bank` and `members`, while it is being formed |
//!
//! Composed weights are not stored: they follow from the other tensors.

use superweight_engine::{Device, Sgd, ohwi_to_oihw, oihw_to_ohwi};
use superweight_plan::{ClusterId, LayerId, LayerKind, SetId, SharingPlan};

use crate::engine::Error;
use crate::model::bank::{
    bank_name, coefficients_name, factors_name, live_rows, pattern_rows, patterns_name, scope,
    templates_name, weight_name,
};
use crate::model::ensemble::Ensemble;
use crate::run::{Checkpoint, RunError, Tensor, Tensors};

/// A parameter tensor: name, shape in the file, and layout.
struct Stored {
    name: String,
    shape: Vec<usize>,
    shared: bool,
    /// Dimensions `[out (or K·out), in, height, width]` of tensors that memory holds channels-last.
    channels_last: Option<[usize; 4]>,
}

impl Stored {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    fn to_file(&self, mut values: Vec<f32>) -> Tensor {
        values.truncate(self.len());
        let values = match self.channels_last {
            Some(dims) => ohwi_to_oihw(&values, dims),
            None => values,
        };
        Tensor::new(&self.shape, values)
    }

    /// Values in memory layout, with zeros for the rows in reserve.
    fn to_memory(&self, values: &[f32], room: usize) -> Vec<f32> {
        let mut values = match self.channels_last {
            Some(dims) => oihw_to_ohwi(values, dims),
            None => values.to_vec(),
        };
        values.resize(room, 0.0);
        values
    }
}

/// All parameter tensors of a plan.
fn stored(plan: &SharingPlan) -> Vec<Stored> {
    let mut all = vec![];
    let (live, patterns) = (live_rows(plan), pattern_rows(plan));
    for (i, cluster) in plan.clusters.iter().enumerate() {
        if let Some(numbers) = cluster.bank {
            let (name, shape) = (bank_name(ClusterId(i)), vec![numbers as usize]);
            all.push(Stored { name, shape, shared: true, channels_last: None });
        }
    }
    for (i, set) in plan.template_sets.iter().enumerate() {
        let ([out, inp, kh, kw], k) = (set.block, set.templates);
        if set.view.is_none() {
            all.push(Stored {
                name: templates_name(SetId(i)),
                shape: vec![k, out, inp, kh, kw],
                shared: true,
                channels_last: Some([k * out, inp, kh, kw]),
            });
        }
        let factors = plan.factor_parameters(SetId(i)) as usize;
        if factors > 0 {
            let (name, shape) = (factors_name(SetId(i)), vec![factors]);
            all.push(Stored { name, shape, shared: true, channels_last: None });
        }
        if k > 1 {
            let (name, shape) = (coefficients_name(SetId(i)), vec![live[i], k]);
            all.push(Stored { name, shape, shared: true, channels_last: None });
        }
        if patterns[i] > 0 {
            let (name, shape) = (patterns_name(SetId(i)), vec![patterns[i], k]);
            all.push(Stored { name, shape, shared: true, channels_last: None });
        }
    }
    for (i, planned) in
        plan.layers.iter().enumerate().filter(|(_, planned)| planned.tiles.is_empty())
    {
        let layer = &planned.layer;
        let dims = [layer.out, layer.inp, layer.kernel[0], layer.kernel[1]];
        let (shape, channels_last) = match layer.kind {
            LayerKind::Linear => (vec![layer.out, layer.inp], None),
            LayerKind::Conv | LayerKind::Depthwise => (dims.to_vec(), Some(dims)),
        };
        all.push(Stored {
            name: weight_name(plan, LayerId(i)),
            shape,
            shared: false,
            channels_last,
        });
    }
    for vector in &plan.vectors {
        let (name, shape) = (scope(vector.member) + &vector.name, vec![vector.len as usize]);
        all.push(Stored { name, shape, shared: false, channels_last: None });
    }
    all
}

/// Copies parameters, running statistics and momentum into a checkpoint. The caller fills in
/// `log_bytes` and `training` of the state.
pub fn capture<D: Device>(ensemble: &Ensemble<D>, optimizer: &Sgd<D>) -> Result<Checkpoint, Error> {
    let plan = ensemble.plan();
    let [bank, members] = parameters(ensemble)?;
    let mut checkpoint =
        Checkpoint { plan: plan.to_json(), bank, members, ..Checkpoint::default() };
    for tensor in stored(plan) {
        let region = ensemble.memory().layout().parameter(&tensor.name)?;
        if let Some(momentum) = optimizer.momentum(region) {
            checkpoint.optimizer.insert(&tensor.name, tensor.to_file(momentum));
        }
    }
    Ok(checkpoint)
}

/// Parameters and running statistics: those of the bank, and those of the members.
pub(super) fn parameters<D: Device>(ensemble: &Ensemble<D>) -> Result<[Tensors; 2], Error> {
    let memory = ensemble.memory();
    let [mut bank, mut members] = [Tensors::default(), Tensors::default()];
    for tensor in stored(ensemble.plan()) {
        let region = memory.layout().parameter(&tensor.name)?;
        let file = if tensor.shared { &mut bank } else { &mut members };
        file.insert(&tensor.name, tensor.to_file(memory.read(region)));
    }
    for (name, region) in memory.layout().statistics() {
        members.insert(name, Tensor::new(&[region.len], memory.read(region)));
    }
    Ok([bank, members])
}

/// Reason why a checkpoint cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A tensor is missing or has another shape.
    #[error(transparent)]
    Tensor(#[from] RunError),
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Restores parameters, momentum and running statistics from a checkpoint of the same plan.
pub fn restore<D: Device>(
    ensemble: &mut Ensemble<D>,
    optimizer: &mut Sgd<D>,
    checkpoint: &Checkpoint,
) -> Result<(), RestoreError> {
    restore_parameters(ensemble, checkpoint)?;
    for tensor in stored(ensemble.plan()) {
        let region = ensemble.memory().layout().parameter(&tensor.name)?;
        if optimizer.has_momentum() {
            let values = checkpoint.optimizer.expect::<f32>(&tensor.name, &tensor.shape)?;
            optimizer.set_momentum(region, &tensor.to_memory(values, region.len))?;
        }
    }
    Ok(())
}

/// Restores parameters and running statistics, without momentum: enough to evaluate.
pub fn restore_parameters<D: Device>(
    ensemble: &mut Ensemble<D>,
    checkpoint: &Checkpoint,
) -> Result<(), RestoreError> {
    set_parameters(ensemble, &checkpoint.bank, &checkpoint.members)
}

/// Sets parameters and running statistics that [`parameters`] has read.
pub(super) fn set_parameters<D: Device>(
    ensemble: &mut Ensemble<D>,
    bank: &Tensors,
    members: &Tensors,
) -> Result<(), RestoreError> {
    for tensor in stored(ensemble.plan()) {
        let file = if tensor.shared { bank } else { members };
        let values = file.expect::<f32>(&tensor.name, &tensor.shape)?;
        let room = ensemble.memory().layout().parameter(&tensor.name)?.len;
        ensemble.memory_mut().set_parameter(&tensor.name, &tensor.to_memory(values, room))?;
    }
    let statistics: Vec<_> = ensemble
        .memory()
        .layout()
        .statistics()
        .map(|(name, region)| (name.to_owned(), region.len))
        .collect();
    for (name, len) in statistics {
        let values = members.expect::<f32>(&name, &[len])?;
        ensemble.memory_mut().set_statistic(&name, values)?;
    }
    Ok(())
}

/// Name of the first tensor with a value that is not finite.
pub(super) fn not_finite(checkpoint: &Checkpoint) -> Option<&str> {
    let infinite = |tensor: &Tensor| match tensor.values() {
        crate::run::Values::F32(values) => values.iter().any(|value| !value.is_finite()),
        _ => false,
    };
    let Checkpoint { bank, members, optimizer, average, .. } = checkpoint;
    let files: [&Tensors; 4] = [bank, members, optimizer, average];
    files
        .into_iter()
        .flat_map(Tensors::iter)
        .find(|(_, tensor)| infinite(tensor))
        .map(|(name, _)| name)
}
