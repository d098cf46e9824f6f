//! Batch norms folded into the convolutions before them, once training is over.
//!
//! ```text
//! γ·(w∗x − μ)/σ + β  =  (γ/σ·w)∗x + (β − γ·μ/σ)
//! ```
//!
//! A batch norm folds where it alone reads a convolution: every second one of a wide residual network and the one after its stem (the others stand
//! before their convolution, after a sum), all of a ResNet or MobileNet. The folded weights are tensors of their own beside
//! the trained ones, so a member can still be exported, and folding again after a change is right.

use superweight_engine::{BatchNorm, Device, Error, Memory};
use superweight_plan::arch::{Architecture, Op};

/// For each node the batch norm that folds into it.
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

/// What a folded convolution is called.
pub(crate) fn folded_name(conv: &str) -> String {
    format!("{conv}.folded")
}

/// Writes a member's folded weights from its weights, batch norms and running statistics as they are now.
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
    fn what_folds() {
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
