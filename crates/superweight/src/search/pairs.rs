//! How alike are two layers? Eq. 2: the cosine of their summed gradients over the corner that both have.
//!
//! ```text
//! ψ(i, j) = ⟨dWᵢ, dWⱼ⟩ / (|dWᵢ|·|dWⱼ|)      dot and norms over [:min o, :min i], in f64
//! ```
//!
//! Only layers of one starting cluster are pairs. What is kept of a pair is its dot and its norms: from these every
//! threshold can be tried later, and gradients are never saved. The same formula over composed weights is the ablation
//! "w/o Grad Sim".
//!
//! A norm belongs to a layer and a corner, of which there are few, so that a pair costs one product. Products go to as
//! many threads as there are; each is summed in a fixed order, so that threads change nothing. (rayon would do; these
//! thirty lines are its only use in this crate.)

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use superweight_plan::{LayerId, Pair, SharingPlan};

use super::SearchError;
use crate::model::bank::weight_name;

/// Numbers of some layers' weights (or gradients of them), as the engine has them: OHWI.
pub type LayerTensors = BTreeMap<LayerId, Vec<f32>>;

/// Sums that run side by side, then are added in order.
const LANES: usize = 8;

/// What is known of two layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairStatistic {
    /// One layer.
    pub a: LayerId,
    /// The other, of the same starting cluster.
    pub b: LayerId,
    /// ⟨dWᵢ, dWⱼ⟩ over the corner that both have.
    pub dot: f64,
    /// |dWᵢ|² and |dWⱼ|² over it.
    pub squares: [f64; 2],
}

impl PairStatistic {
    /// ψ in [−1, 1]; 0 where a gradient is zero.
    pub fn similarity(&self) -> f64 {
        let [a, b] = self.squares.map(f64::sqrt);
        if a == 0.0 || b == 0.0 { 0.0 } else { (self.dot / a / b).clamp(-1.0, 1.0) }
    }

    /// As Algorithm 1 takes it.
    pub fn pair(&self) -> Pair {
        Pair::new(self.a, self.b, self.similarity())
    }
}

/// All pairs of layers of one cluster of `plan`, in the order of clusters and layers; `what` is for errors.
///
/// # Panics
/// Where the numbers of a clustered layer are missing or are not as many as its weight has.
pub fn compare_layers(
    plan: &SharingPlan,
    numbers: &LayerTensors,
    what: &'static str,
) -> Result<Vec<PairStatistic>, SearchError> {
    let of = |id: LayerId| -> Weight<'_> {
        let layer = plan.layer(id);
        let numbers = numbers.get(&id).map_or(&[][..], Vec::as_slice);
        assert_eq!(numbers.len() as u64, layer.len(), "every clustered layer has its numbers");
        Weight { numbers, positions: layer.kernel_area(), shape: [layer.out, layer.inp] }
    };
    let mut pairs = vec![];
    for cluster in &plan.clusters {
        for (n, &b) in cluster.layers.iter().enumerate() {
            if !of(b).numbers.iter().all(|number| number.is_finite()) {
                return Err(SearchError::NotFinite { what, layer: weight_name(plan, b) });
            }
            pairs.extend(cluster.layers[..n].iter().map(|&a| (a, b)));
        }
    }
    let corner = |a: LayerId, b: LayerId| {
        let (a, b) = (of(a).shape, of(b).shape);
        [a[0].min(b[0]), a[1].min(b[1])]
    };
    // Products of different layers, and of a layer with itself: once per corner.
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

/// `[out, positions, in]`.
#[derive(Clone, Copy)]
struct Weight<'a> {
    numbers: &'a [f32],
    positions: usize,
    shape: [usize; 2],
}

impl Weight<'_> {
    /// The first input channels of one output channel at one position.
    fn run(&self, row: usize, position: usize, cols: usize) -> &[f32] {
        &self.numbers[(row * self.positions + position) * self.shape[1]..][..cols]
    }
}

fn dot(a: Weight<'_>, b: Weight<'_>, [rows, cols]: [usize; 2]) -> f64 {
    let mut sums = [0.0; LANES];
    for row in 0..rows {
        for position in 0..a.positions {
            add_products(&mut sums, a.run(row, position, cols), b.run(row, position, cols));
        }
    }
    sums.iter().sum()
}

/// Σ a·b in f64, [`LANES`] at a time.
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

/// `f` of every job, in their order.
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
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a product does not panic"))
            .collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
