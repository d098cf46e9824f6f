//! The learning rate of every step, as a pure function: nothing to save, nothing to resume.
//!
//! Epochs and steps count from 0; step s of epoch e is step t = e·S + s of T = epochs·S.
//!
//! - *drops*: rate·factorⁿ, n = drops at or before epoch e;
//! - *constant*: rate;
//! - *warm-up* (of both): times (t + 1) / W over the first W steps, so that no step has rate 0 and the last one of the
//!   warm-up has all of it;
//! - *one-cycle*: PyTorch's `OneCycleLR(anneal_strategy="cos", three_phase=False)`: from rate/start to rate until step
//!   ρT − 1, then down to rate/(start·end) in step T − 1, both along half a cosine. PyTorch also cycles
//!   momentum by default; here it stays, as with `cycle_momentum=False`.
//!
//! Rates are computed in f64 and handed out in f32, as a table for an epoch: a device indexes it by its step counter.

use std::f64::consts::PI;

/// How the rate moves. Numbers are those that a [`Recipe`](crate::recipe::Recipe) admits.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Falls at given epochs.
    Drops {
        /// At the beginning.
        rate: f64,
        /// What it is multiplied by.
        factor: f64,
        /// First epoch of each lower rate, ascending.
        at: Vec<u64>,
        /// Epochs of linear warm-up.
        warm_up: u64,
    },
    /// Stays.
    Constant {
        /// Always.
        rate: f64,
        /// Epochs of linear warm-up.
        warm_up: u64,
    },
    /// Rises, then falls.
    OneCycle {
        /// At the peak.
        rate: f64,
        /// ρ, PyTorch's `pct_start`: share of all steps in which it rises.
        rise: f64,
        /// PyTorch's `div_factor`: the first rate is the peak's divided by it.
        start_divisor: f64,
        /// PyTorch's `final_div_factor`: the last rate is the first one's divided by it.
        end_divisor: f64,
    },
}

/// How long training is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Of the whole phase.
    pub epochs: u64,
    /// Of one epoch.
    pub steps_per_epoch: u64,
}

impl Schedule {
    /// The rate of a step of an epoch.
    pub fn rate(&self, length: Length, epoch: u64, step: u64) -> f64 {
        let t = epoch * length.steps_per_epoch + step;
        let warmed = |warm_up: u64| {
            let steps = warm_up * length.steps_per_epoch;
            if t < steps { (t + 1) as f64 / steps as f64 } else { 1.0 }
        };
        match *self {
            Self::Drops { rate, factor, ref at, warm_up } => {
                let fallen = at.iter().filter(|&&drop| drop <= epoch).count();
                rate * factor.powi(fallen as i32) * warmed(warm_up)
            }
            Self::Constant { rate, warm_up } => rate * warmed(warm_up),
            Self::OneCycle { rate, rise, start_divisor, end_divisor } => {
                let steps = (length.epochs * length.steps_per_epoch) as f64;
                let (first, last) = (rate / start_divisor, rate / start_divisor / end_divisor);
                // Where training is too short to rise, it begins at the peak.
                let peak = (rise * steps - 1.0).max(0.0);
                let t = t as f64;
                if t < peak {
                    half_cosine(first, rate, t / peak)
                } else if steps - 1.0 > peak {
                    half_cosine(rate, last, ((t - peak) / (steps - 1.0 - peak)).min(1.0))
                } else {
                    rate
                }
            }
        }
    }

    /// The rates of all steps of an epoch.
    pub fn rates(&self, length: Length, epoch: u64) -> Vec<f32> {
        (0..length.steps_per_epoch).map(|step| self.rate(length, epoch, step) as f32).collect()
    }
}

/// From `start` at 0 to `end` at 1.
fn half_cosine(start: f64, end: f64, share: f64) -> f64 {
    end + (start - end) / 2.0 * (1.0 + (PI * share).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Length = Length { epochs: 5, steps_per_epoch: 2 };

    fn all(schedule: &Schedule, length: Length) -> Vec<f64> {
        let steps =
            (0..length.epochs).flat_map(|e| (0..length.steps_per_epoch).map(move |s| (e, s)));
        steps.map(|(epoch, step)| schedule.rate(length, epoch, step)).collect()
    }

    #[track_caller]
    fn near(given: &[f64], expected: &[f64]) {
        assert_eq!(given.len(), expected.len());
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
        assert!(given.iter().zip(expected).all(close), "{given:?}\n{expected:?}");
    }

    #[test]
    fn the_cifar_recipe_drops_at_the_start_of_its_epochs() {
        let schedule =
            Schedule::Drops { rate: 0.1, factor: 0.2, at: vec![60, 120, 180], warm_up: 0 };
        let length = Length { epochs: 200, steps_per_epoch: 390 };
        let cases = [
            (0, 0, 0.1),
            (59, 389, 0.1),
            (60, 0, 0.02),
            (119, 389, 0.02),
            (120, 0, 0.004),
            (179, 389, 0.004),
            (180, 0, 0.0008),
            (199, 389, 0.0008),
        ];
        for (epoch, step, rate) in cases {
            near(&[schedule.rate(length, epoch, step)], &[rate]);
        }
        assert_eq!(schedule.rates(length, 60), vec![0.02f32; 390]);
    }

    #[test]
    fn warm_up_is_linear_and_never_zero() {
        let drops = Schedule::Drops { rate: 1.6, factor: 0.1, at: vec![3, 4], warm_up: 2 };
        near(&all(&drops, SHORT), &[0.4, 0.8, 1.2, 1.6, 1.6, 1.6, 0.16, 0.16, 0.016, 0.016]);
        let constant = Schedule::Constant { rate: 1.0, warm_up: 1 };
        near(&all(&constant, SHORT), &[0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(constant.rates(SHORT, 0), [0.5, 1.0]);
    }

    /// T = 10, ρ = 0.3: up from 1/25 over steps 0 to 2, down to 1/250,000 over steps 2 to 9, where step 2 + n has
    /// (1 + cos(nπ/7)) / 2 of the way left. cos(π/7) = 0.900968867902419, cos(2π/7) = 0.623489801858734,
    /// cos(3π/7) = 0.222520933956314, and cos((7−n)π/7) = −cos(nπ/7).
    #[test]
    fn one_cycle_as_computed_by_hand() {
        let schedule =
            Schedule::OneCycle { rate: 1.0, rise: 0.3, start_divisor: 25.0, end_divisor: 10_000.0 };
        let last = 4e-6;
        let [a, b, c] = [0.900968867902419, 0.623489801858734, 0.222520933956314];
        let down = [a, b, c, -c, -b, -a].map(|cos| last + (1.0 - last) * (1.0 + cos) / 2.0);
        let given = all(&schedule, SHORT);
        near(&given[..3], &[0.04, 0.52, 1.0]);
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(given[3..9].iter().zip(&down).all(close), "{given:?}\n{down:?}");
        assert!((given[9] - last).abs() < 1e-15);
    }

    #[test]
    fn one_cycle_peaks_between_steps_where_the_peak_is_no_step() {
        // T = 8, ρ = 0.3: the peak is at 1.4; step 1 is 1/1.4 of the way up, step 2 is 0.6/5.6 of the way down.
        let schedule =
            Schedule::OneCycle { rate: 2.0, rise: 0.3, start_divisor: 2.0, end_divisor: 4.0 };
        let given = all(&schedule, Length { epochs: 1, steps_per_epoch: 8 });
        assert!((given[1] - (2.0 - 0.5 * (1.0 + (PI / 1.4).cos()))).abs() < 1e-12, "{given:?}");
        assert!(
            (given[2] - (0.25 + 0.875 * (1.0 + (PI * 0.6 / 5.6).cos()))).abs() < 1e-12,
            "{given:?}"
        );
    }

    #[test]
    fn the_shortest_runs_have_a_rate() {
        for (rise, steps) in
            [(0.3, 1), (0.3, 2), (0.3, 3), (0.99, 1), (0.99, 2), (0.01, 5), (1.0, 1), (1.0, 4)]
        {
            let schedule =
                Schedule::OneCycle { rate: 0.1, rise, start_divisor: 25.0, end_divisor: 1e4 };
            let rates = schedule.rates(Length { epochs: 1, steps_per_epoch: steps }, 0);
            assert!(
                rates.iter().all(|rate| *rate > 0.0 && *rate <= 0.1),
                "{rise} {steps} {rates:?}"
            );
        }
    }
}
