//! Coefficients as products of patterns and gains, on the CPU. They are few compared with the
//! cells, so plain loops suffice, with one row per task.

use rayon::prelude::*;

use super::region::{at, at_mut};
use crate::device::buffer::Region;
use crate::device::mix::{MixFactors, MixGradients};

/// Rows of coefficients that use each pattern and each gain.
#[derive(Debug)]
pub(in crate::cpu) struct Factors {
    factors: MixFactors,
    k: usize,
    of_gain: Vec<u32>,
    /// `None` if the gradients of patterns are not needed.
    of_pattern: Option<(Vec<u32>, Vec<u32>)>,
}

impl Factors {
    pub fn new(factors: &MixFactors, k: usize, wanted: MixGradients) -> Self {
        let of_gain = factors.by_gain(factors.gains.len / k);
        let both = wanted == MixGradients::Both;
        let of_pattern = both.then(|| factors.by_pattern(factors.patterns.len / k));
        Self { factors: factors.clone(), k, of_gain, of_pattern }
    }

    /// Computes the coefficients.
    pub fn multiply(&self, parameters: &mut [f32], coefficients: Region) {
        let k = self.k;
        let mut alpha = vec![0.0; coefficients.len];
        let (patterns, gains) =
            (at(parameters, self.factors.patterns), at(parameters, self.factors.gains));
        alpha.par_chunks_mut(k).zip(&self.factors.rows).for_each(|(alpha, &[p, g])| {
            let both = row(patterns, p, k).iter().zip(row(gains, g, k));
            alpha.iter_mut().zip(both).for_each(|(alpha, (p, g))| *alpha = p * g);
        });
        at_mut(parameters, coefficients).copy_from_slice(&alpha);
    }

    /// Computes the gradients of patterns and gains from the gradient of the coefficients.
    pub fn backward(&self, parameters: &[f32], gradients: &mut [f32], coefficients: Region) {
        let (k, MixFactors { patterns, gains, rows }) = (self.k, &self.factors);
        let dalpha = at(gradients, coefficients);
        let (pattern_values, gain_values) = (at(parameters, *patterns), at(parameters, *gains));
        let mut dgains = vec![0.0; gains.len];
        dgains.par_chunks_mut(k).enumerate().for_each(|(gain, sum)| {
            for alpha in self.of_gain[gain]..self.of_gain[gain + 1] {
                let pattern = row(pattern_values, rows[alpha as usize][0], k);
                add_product(sum, row(dalpha, alpha, k), pattern);
            }
        });
        let dpatterns = self.of_pattern.as_ref().map(|(order, starts)| {
            let mut dpatterns = vec![0.0; patterns.len];
            dpatterns.par_chunks_mut(k).enumerate().for_each(|(pattern, sum)| {
                for &alpha in &order[starts[pattern] as usize..starts[pattern + 1] as usize] {
                    let gain = row(gain_values, rows[alpha as usize][1], k);
                    add_product(sum, row(dalpha, alpha, k), gain);
                }
            });
            dpatterns
        });
        at_mut(gradients, *gains).copy_from_slice(&dgains);
        if let Some(dpatterns) = dpatterns {
            at_mut(gradients, *patterns).copy_from_slice(&dpatterns);
        }
    }
}

fn row(values: &[f32], index: u32, k: usize) -> &[f32] {
    &values[index as usize * k..][..k]
}

fn add_product(sum: &mut [f32], a: &[f32], b: &[f32]) {
    sum.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
}
