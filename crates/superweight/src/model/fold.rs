//! Folds batch norms into the convolutions before them, for inference.
//!
//! ```text
//! γ·(w∗x − μ)/σ + β  =  (γ/σ·w)∗x + (β − γ·μ/σ)
//! ```
//!
//! A batch norm folds if it is the only reader of a convolution. In a ResNet or MobileNet all of
//! them fold. In a wide residual network every second one folds, and the one after the stem; the
//! others follow a sum and stand before their convolution.
//!
//! Folded weights are separate tensors beside the trained ones. A member can therefore still be
//! exported, and [`fold`] can run again after the weights have changed.

use superweight_engine::{BatchNorm, Device, Error, Memory};
use superweight_plan::arch::{Architecture, Op};

/// For each node, the index of the batch norm that folds into it.
pub(crate) fn folding_norms(architecture: &Architecture) -> Vec<Option<usize>> {
    let nodes = &architecture.nodes;
    let reads =
        |reader: usize, node: usize| nodes[reader].inputs.iter().any(|input| input.0 == node);
    let fold = |node: usize| {
        let mut readers = (node + 1..nodes.len()).filter(|&reader| reads(reader, node));
        let reader = readers.next()?;
        let folds =
            matches!((nodes[node].op, nodes[reader].op), (Op::Conv { .. }, Op::BatchNorm { .. }));
        (folds && readers.next().is_none()).then_some(reader)
    };
    (0..nodes.len()).map(fold).collect()
}

/// Name of the folded form of a convolution.
pub(crate) fn folded_name(conv: &str) -> String {
    format!("{conv}.folded")
}

/// Writes the folded weights of a member from its current weights, batch norms and running
/// statistics. `scope` is the prefix of the member's tensor names.
pub(crate) fn fold<D: Device>(
    architecture: &Architecture,
    scope: &str,
    memory: &mut Memory<D>,
) -> Result<(), Error> {
    let epsilon = f64::from(BatchNorm::plain().epsilon);
    for (node, norm) in folding_norms(architecture).into_iter().enumerate() {
        let Some(norm) = norm else { continue };
        let [conv, norm] =
            [node, norm].map(|node| format!("{scope}{}", architecture.nodes[node].name));
        let of = |tensor: &str| format!("{norm}.{tensor}");
        let (gamma, beta) = (memory.parameter(&of("weight"))?, memory.parameter(&of("bias"))?);
        let mean = memory.statistic(&of("running_mean"))?;
        let variance = memory.statistic(&of("running_var"))?;
        let mut weight = memory.parameter(&format!("{conv}.weight"))?;
        let filter = weight.len() / gamma.len();
        let mut bias = vec![0.0; gamma.len()];
        for (channel, weights) in weight.chunks_exact_mut(filter).enumerate() {
            let scale = f64::from(gamma[channel]) / (f64::from(variance[channel]) + epsilon).sqrt();
            weights.iter_mut().for_each(|w| *w = (f64::from(*w) * scale) as f32);
            bias[channel] = (f64::from(beta[channel]) - f64::from(mean[channel]) * scale) as f32;
        }
        memory.set_parameter(&(folded_name(&conv) + ".weight"), &weight)?;
        memory.set_parameter(&(folded_name(&conv) + ".bias"), &bias)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use superweight_plan::arch::ArchName;

    use super::*;

    #[test]
    fn number_of_batch_norms_that_fold() {
        for (name, folded, of) in
            [("wrn-28-10", 13, 25), ("resnet-50", 53, 53), ("mobilenet-v2", 52, 52)]
        {
            let name: ArchName = name.parse().unwrap();
            let architecture = name.build(name.default_input(), 10).unwrap();
            let norms =
                architecture.nodes.iter().filter(|node| matches!(node.op, Op::BatchNorm { .. }));
            let fold = folding_norms(&architecture).into_iter().flatten().count();
            assert_eq!((fold, norms.count()), (folded, of), "{name}");
        }
    }
}
