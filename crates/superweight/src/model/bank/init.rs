//! Initial values of all parameters and running statistics.
//!
//! Every value is a function of the seed and of its place in its tensor, so that neither the order
//! of computation nor the device matters.
//!
//! | parameters | initial values |
//! |---|---|
//! | templates, or the bank they are read from | N(0, std²), std from the plan ([`Scale`]) |
//! | patterns, or coefficients without patterns | rows of the plan's norm |
//! | coefficients with patterns | ± the plan's gain |
//! | rank-one factors | N(1, ¼), as in BatchEnsemble |
//! | dense convolutions | N(0, 2 / fan-in) |
//! | dense linear weights, biases | U(±1/√in) as in PyTorch, 0 |
//! | batch norm | scale 1, shift 0, running mean 0, running variance 1 |
//!
//! Rows of a set are orthogonal if there are at most K, else they have random directions. All sets
//! with K templates that read one bank count as one set here.
//!
//! [`Scale`]: superweight_plan::Scale

use superweight_engine::{Device, Error, Memory, oihw_to_ohwi};
use superweight_plan::{
    ClusterId, LayerId, LayerKind, SetId, SharingPlan, TemplateSet, VectorKind,
};

use super::names::{
    bank_name, coefficients_name, factors_name, patterns_name, scope, templates_name, weight_name,
};
use super::rows::Rows;
use super::rows::pattern_rows;
use crate::rng::Draws;

/// Standard deviation of rank-one factors around one.
const FACTOR_STD: f64 = 0.5;

/// Use of random values, as part of their key.
#[derive(Clone, Copy)]
enum Purpose {
    Templates = 1,
    Coefficients = 2,
    Dense = 3,
    Signs = 4,
}

/// Sets every parameter and running statistic to its initial value.
pub fn initialize<D: Device>(
    plan: &SharingPlan,
    memory: &mut Memory<D>,
    seed: u64,
) -> Result<(), Error> {
    let draws = |purpose: Purpose, index: usize| Draws::new(&[seed, purpose as u64, index as u64]);
    let (rows, patterns) = (Rows::coefficients(plan), pattern_rows(plan));
    for (i, cluster) in plan.clusters.iter().enumerate() {
        let (normal, of) = (draws(Purpose::Templates, i), |set: &&TemplateSet| set.cluster.0 == i);
        if let (Some(len), Some(set)) = (cluster.bank, plan.template_sets.iter().find(of)) {
            let bank: Vec<f32> = (0..len).map(|n| (set.std * normal.normal(n)) as f32).collect();
            memory.set_parameter(&bank_name(ClusterId(i)), &bank)?;
        }
    }
    for (i, set) in plan.template_sets.iter().enumerate() {
        if set.view.is_none() {
            let normal = draws(Purpose::Templates, i);
            let places = 0..set.templates as u64 * set.block_len();
            let templates: Vec<f32> = places.map(|n| (set.std * normal.normal(n)) as f32).collect();
            memory.set_parameter(&templates_name(SetId(i)), &templates)?;
        }
        if plan.factor_parameters(SetId(i)) > 0 {
            let normal = draws(Purpose::Coefficients, i);
            let factor = |n| (1.0 + FACTOR_STD * normal.normal(n)) as f32;
            let factors: Vec<f32> = (0..plan.factor_parameters(SetId(i))).map(factor).collect();
            memory.set_parameter(&factors_name(SetId(i)), &factors)?;
        }
        if set.templates > 1 {
            let (id, k) = (SetId(i), set.templates);
            let rows_of_norm = |own: usize| -> Vec<f32> {
                let (first, before, others) = sets_of_same_bank(plan, &rows, i);
                let unit = unit_rows(own + others, k, draws(Purpose::Coefficients, first));
                let unit = unit[before * k..(before + own) * k].iter();
                unit.map(|a| (f64::from(*a) * set.row_norm) as f32).collect()
            };
            let mut alpha = match patterns[i] {
                0 => rows_of_norm(rows.live(id)),
                cells => {
                    memory.set_parameter(&patterns_name(id), &rows_of_norm(cells))?;
                    let signs = draws(Purpose::Signs, i);
                    let gain = |n| set.gain.copysign(signs.signed_unit(n)) as f32;
                    (0..(rows.live(id) * k) as u64).map(gain).collect()
                }
            };
            alpha.resize(rows.capacity(id) * k, 0.0);
            memory.set_parameter(&coefficients_name(id), &alpha)?;
        }
    }
    for (i, planned) in
        plan.layers.iter().enumerate().filter(|(_, planned)| planned.tiles.is_empty())
    {
        let (layer, draws) = (&planned.layer, draws(Purpose::Dense, i));
        let values: Vec<f32> = match layer.kind {
            LayerKind::Linear => {
                let bound = 1.0 / (layer.inp as f64).sqrt();
                (0..layer.len()).map(|n| (bound * draws.signed_unit(n)) as f32).collect()
            }
            LayerKind::Conv | LayerKind::Depthwise => {
                (0..layer.len()).map(|n| (layer.he_std() * draws.normal(n)) as f32).collect()
            }
        };
        let dims = [layer.out, layer.inp, layer.kernel[0], layer.kernel[1]];
        memory.set_parameter(&weight_name(plan, LayerId(i)), &oihw_to_ohwi(&values, dims))?;
    }
    for vector in &plan.vectors {
        let value = if vector.kind == VectorKind::NormScale { 1.0 } else { 0.0 };
        memory.set_parameter(
            &(scope(vector.member) + &vector.name),
            &vec![value; vector.len as usize],
        )?;
    }
    let statistics: Vec<_> =
        memory.layout().statistics().map(|(name, region)| (name.to_owned(), region.len)).collect();
    for (name, len) in statistics {
        let value = if name.ends_with(".running_var") { 1.0 } else { 0.0 };
        memory.set_statistic(&name, &vec![value; len])?;
    }
    Ok(())
}

/// Sets of as many templates that read the same bank as set `i`: the index of the first, the rows
/// of those before set `i`, and the rows of all except set `i`.
///
/// Their coefficients are initialized together, as the rows of one set. A set with templates of its
/// own is initialized by itself: `(i, 0, 0)`.
fn sets_of_same_bank(plan: &SharingPlan, rows: &Rows, i: usize) -> (usize, usize, usize) {
    let set = &plan.template_sets[i];
    let same =
        |other: &TemplateSet| (other.cluster, other.templates) == (set.cluster, set.templates);
    let all = plan
        .template_sets
        .iter()
        .enumerate()
        .filter(|(_, other)| set.view.is_some() && same(other));
    let (mut first, mut before, mut others) = (i, 0, 0);
    for (n, live) in all.map(|(n, _)| (n, rows.live(SetId(n)))).filter(|&(n, _)| n != i) {
        first = first.min(n);
        before += if n < i { live } else { 0 };
        others += live;
    }
    (first, before, others)
}

/// Returns `rows` unit vectors of length `k`, orthonormal (by Gram–Schmidt, twice, in f64) if there
/// are at most `k`, else in random directions.
fn unit_rows(rows: usize, k: usize, draws: Draws) -> Vec<f32> {
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut v: Vec<f64> = (0..k).map(|n| draws.normal((row * k + n) as u64)).collect();
        if rows <= k {
            for _ in 0..2 {
                for other in &basis {
                    let along = dot(&v, other);
                    v.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
                }
            }
        }
        let length = dot(&v, &v).sqrt();
        v.iter_mut().for_each(|x| *x /= length);
        basis.push(v);
    }
    basis.into_iter().flatten().map(|x| x as f32).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_unit_vectors_and_orthogonal_if_there_are_at_most_k() {
        for (rows, k) in [(1, 2), (5, 5), (7, 30), (40, 3)] {
            let alpha = unit_rows(rows, k, Draws::new(&[rows as u64]));
            let row = |r: usize| {
                alpha[r * k..(r + 1) * k].iter().map(|x| f64::from(*x)).collect::<Vec<_>>()
            };
            for a in 0..rows {
                assert!((dot(&row(a), &row(a)) - 1.0).abs() < 1e-6);
                for b in (0..a).filter(|_| rows <= k) {
                    assert!(dot(&row(a), &row(b)).abs() < 1e-6);
                }
            }
        }
    }
}
