//! The random numbers of one image, drawn in sequence.

use crate::rng::Draws;

/// Rate from which Poisson numbers are drawn by transformed rejection; below it, by a product of
/// uniform numbers.
const LARGE_RATE: f64 = 10.0;

/// A sequence of draws.
pub(super) struct Dice {
    draws: Draws,
    next: u64,
}

impl Dice {
    pub fn new(draws: Draws) -> Self {
        Self { draws, next: 0 }
    }

    fn index(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Uniform number in (0, 1).
    pub fn unit(&mut self) -> f64 {
        let bits = self.draws.under(1).bits(self.index());
        ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform number between two bounds.
    pub fn uniform(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Standard normal number.
    pub fn normal(&mut self) -> f64 {
        self.draws.normal(self.index())
    }

    /// Uniform integer in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// Poisson number: Knuth's product for small rates, Hörmann's PTRS (1993) for large ones, as in
    /// numpy.
    pub fn poisson(&mut self, rate: f64) -> f64 {
        if rate <= 0.0 {
            return 0.0;
        }
        if rate < LARGE_RATE {
            let (floor, mut product, mut count) = ((-rate).exp(), self.unit(), 0.0);
            while product > floor {
                product *= self.unit();
                count += 1.0;
            }
            return count;
        }
        let (root, log) = (rate.sqrt(), rate.ln());
        let b = 0.931 + 2.53 * root;
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let accept = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let (u, v) = (self.unit() - 0.5, self.unit());
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
            if us >= 0.07 && v <= accept {
                return k;
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            let left = v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln();
            if left <= k * log - rate - log_factorial(k) {
                return k;
            }
        }
    }
}

/// ln k!, by Stirling's series from k = 9 on.
fn log_factorial(k: f64) -> f64 {
    if k < 9.0 {
        return (2..=k as u64).map(|i| (i as f64).ln()).sum();
    }
    let x = k + 1.0;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * x)
        - 1.0 / (360.0 * x.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of a Poisson distribution are its rate; its skewness is 1/√rate.
    #[test]
    fn poisson_numbers_have_their_moments_on_both_sides_of_the_limit() {
        for rate in [0.3, 4.0, 9.9, 10.1, 77.0, 480.0] {
            let dice = &mut Dice::new(Draws::new(&[5]));
            let values: Vec<f64> = (0..60_000).map(|_| dice.poisson(rate)).collect();
            let moment =
                |f: &dyn Fn(f64) -> f64| values.iter().map(|&v| f(v)).sum::<f64>() / 60_000.0;
            let mean = moment(&|v| v);
            let variance = moment(&|v| (v - mean).powi(2));
            let skewness = moment(&|v| (v - mean).powi(3)) / variance.powf(1.5);
            assert!((mean / rate - 1.0).abs() < 0.02, "{rate}: mean {mean}");
            assert!((variance / rate - 1.0).abs() < 0.03, "{rate}: variance {variance}");
            assert!((skewness - 1.0 / rate.sqrt()).abs() < 0.08, "{rate}: skewness {skewness}");
        }
    }

    #[test]
    fn stirlings_series_equals_the_factorial() {
        let exact: f64 = (2..=20u64).map(|i| (i as f64).ln()).sum();
        assert!((log_factorial(20.0) - exact).abs() < 1e-8);
    }
}
