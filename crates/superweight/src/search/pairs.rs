//! Similarity of two layers: the cosine of their summed gradients (Eq. 2).
//!
//! ```text
//! ψ(i, j) = ⟨dWᵢ, dWⱼ⟩ / (|dWᵢ|·|dWⱼ|)      over the corner [:min out, :min in], in f64
//! ```
//!
//! dW is Σ dL/dW over the last epoch of the search, or over its last `search.batches` batches. The
//! corner is the part of the weight that both layers have. Only layers of one starting cluster form
//! pairs. The same formula over composed weights is the ablation "w/o Grad Sim".
//!
//! The dot product and the norms of every pair are kept, so that any threshold can be tried later
//! without the gradients, which are not saved.
//!
//! There are few different corners per layer, and a norm is computed once per corner, so that a
//! pair costs about one product. Products are distributed over all threads. Each is summed in a
//! fixed order, so that the number of threads does not change the result. (rayon could replace the
//! thirty lines that do this; they would be its only use in this crate.)

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use superweight_plan::{LayerId, Pair, SharingPlan};

use super::SearchError;
use crate::model::bank::weight_name;

/// Weights or weight gradients of some layers, in the engine's order OHWI.
pub type LayerTensors = BTreeMap<LayerId, Vec<f32>>;

/// Number of partial sums of a product, which are added in order at the end.
const LANES: usize = 8;

/// Dot product and norms of two layers' gradients (or weights).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairStatistic {
    /// First layer, i.
    pub a: LayerId,
    /// Second layer, j, of the same starting cluster.
    pub b: LayerId,
    /// ⟨dWᵢ, dWⱼ⟩ over the corner that both layers have.
    pub dot: f64,
    /// |dWᵢ|² and |dWⱼ|² over the corner that both layers have.
    pub squares: [f64; 2],
}

impl PairStatistic {
    /// Eq. 2: the similarity ψ in [−1, 1]; 0 if a gradient is zero.
    pub fn similarity(&self) -> f64 {
        let [a, b] = self.squares.map(f64::sqrt);
        if a == 0.0 || b == 0.0 { 0.0 } else { (self.dot / a / b).clamp(-1.0, 1.0) }
    }

    /// The pair with its similarity, as input of Algorithm 1.
    pub fn pair(&self) -> Pair {
        Pair::new(self.a, self.b, self.similarity())
    }
}

/// Compares all pairs of layers of the same cluster of `plan`, in the order of clusters and layers.
/// `what` names the tensors in errors.
///
/// # Errors
/// If a value is not finite.
///
/// # Panics
/// If the tensor of a clustered layer is missing or has another length than its weight.
pub fn compare_layers(
    plan: &SharingPlan,
    tensors: &LayerTensors,
    what: &'static str,
) -> Result<Vec<PairStatistic>, SearchError> {
    let of = |id: LayerId| -> Weight<'_> {
        let layer = plan.layer(id);
        let values = tensors.get(&id).map_or(&[][..], Vec::as_slice);
        assert_eq!(values.len() as u64, layer.len(), "the tensor of {id} has its weight's length");
        Weight { values, positions: layer.kernel_area(), shape: [layer.out, layer.inp] }
    };
    let mut pairs = vec![];
    for cluster in &plan.clusters {
        for (n, &b) in cluster.layers.iter().enumerate() {
            if !of(b).values.iter().all(|value| value.is_finite()) {
                return Err(SearchError::NotFinite { what, layer: weight_name(plan, b) });
            }
            pairs.extend(cluster.layers[..n].iter().map(|&a| (a, b)));
        }
    }
    let corner = |a: LayerId, b: LayerId| {
        let (a, b) = (of(a).shape, of(b).shape);
        [a[0].min(b[0]), a[1].min(b[1])]
    };
    // Products of two layers, and of a layer with itself, once per corner.
    let mut products: Vec<(LayerId, LayerId, [usize; 2])> = vec![];
    for &(a, b) in &pairs {
        let corner = corner(a, b);
        products.extend([(a, b, corner), (a, a, corner), (b, b, corner)]);
    }
    products.sort();
    products.dedup();
    let values = in_parallel(&products, |&(a, b, corner)| dot(of(a), of(b), corner));
    let value: HashMap<_, f64> = products.into_iter().zip(values).collect();
    let statistic = |(a, b)| {
        let corner = corner(a, b);
        let product = |a, b| value[&(a, b, corner)];
        PairStatistic { a, b, dot: product(a, b), squares: [product(a, a), product(b, b)] }
    };
    Ok(pairs.into_iter().map(statistic).collect())
}

/// A tensor of a layer, `[out, positions, in]`.
#[derive(Clone, Copy)]
struct Weight<'a> {
    values: &'a [f32],
    /// Number of kernel positions.
    positions: usize,
    /// Output and input channels.
    shape: [usize; 2],
}

impl Weight<'_> {
    /// The first `cols` input channels of one output channel at one kernel position.
    fn run(&self, row: usize, position: usize, cols: usize) -> &[f32] {
        &self.values[(row * self.positions + position) * self.shape[1]..][..cols]
    }
}

/// Dot product of the corners of two tensors.
fn dot(a: Weight<'_>, b: Weight<'_>, [rows, cols]: [usize; 2]) -> f64 {
    let mut sums = [0.0; LANES];
    for row in 0..rows {
        for position in 0..a.positions {
            add_products(&mut sums, a.run(row, position, cols), b.run(row, position, cols));
        }
    }
    sums.iter().sum()
}

/// Adds a·b to the partial sums in f64, [`LANES`] elements at a time.
fn add_products(sums: &mut [f64; LANES], a: &[f32], b: &[f32]) {
    let (wide_a, wide_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = wide_a.remainder().iter().zip(wide_b.remainder());
    rest.zip(&mut *sums).for_each(|((a, b), sum)| *sum += f64::from(*a) * f64::from(*b));
    for (a, b) in wide_a.zip(wide_b) {
        for lane in 0..LANES {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
}

/// Applies `f` to every job on all threads; returns the results in the order of the jobs.
fn in_parallel<T: Sync, R: Send>(jobs: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = vec![];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return done };
            done.push((index, f(job)));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no job panics")).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
