//! The learning rate of every step, as a pure function of epoch and step. Nothing is saved and
//! nothing is resumed.
//!
//! Epochs and steps count from 0. Step s of epoch e is step t = e·S + s of T = epochs·S.
//!
//! - *multistep* (PyTorch's `MultiStepLR`): lr·γⁿ, where n counts the milestones at or before epoch
//!   e.
//! - *constant*: lr.
//! - *warm-up*, for both: a factor (t + 1) / W over the first W steps. No step has learning rate 0,
//!   and the last step of the warm-up has the full one.
//! - *one-cycle* (PyTorch's `OneCycleLR(anneal_strategy="cos", three_phase=False)`): from
//!   lr/`div_factor` up to lr until step ρT − 1, then down to lr/(`div_factor`·`final_div_factor`)
//!   in step T − 1, both along half a cosine. PyTorch cycles momentum by default; here momentum is
//!   constant, as with `cycle_momentum=False`.
//!
//! Learning rates are computed in f64 and returned in f32 as a table for an epoch, which a device
//! indexes by its step counter.

use std::f64::consts::PI;

/// How the learning rate changes. Values are in the ranges that a [`Recipe`](crate::recipe::Recipe)
/// admits.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The learning rate falls at given epochs.
    Multistep {
        /// Learning rate at the beginning, after warm-up.
        lr: f64,
        /// Factor that each milestone multiplies the learning rate by.
        gamma: f64,
        /// First epoch of each lower learning rate, ascending.
        milestones: Vec<u64>,
        /// Epochs of linear warm-up.
        warmup_epochs: u64,
    },
    /// The learning rate is constant.
    Constant {
        /// Learning rate after warm-up.
        lr: f64,
        /// Epochs of linear warm-up.
        warmup_epochs: u64,
    },
    /// The learning rate rises once and then falls.
    OneCycle {
        /// Highest learning rate.
        lr: f64,
        /// ρ, PyTorch's `pct_start`: share of all steps in which the learning rate rises.
        pct_start: f64,
        /// PyTorch's `div_factor`: highest learning rate over the first one.
        div_factor: f64,
        /// PyTorch's `final_div_factor`: first learning rate over the last one.
        final_div_factor: f64,
    },
}

/// Length of a training phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Epochs of the phase.
    pub epochs: u64,
    /// Steps of one epoch.
    pub steps_per_epoch: u64,
}

impl Schedule {
    /// Learning rate of one step.
    pub fn at(&self, length: Length, epoch: u64, step: u64) -> f64 {
        let t = epoch * length.steps_per_epoch + step;
        let warmed = |warmup_epochs: u64| {
            let steps = warmup_epochs * length.steps_per_epoch;
            if t < steps { (t + 1) as f64 / steps as f64 } else { 1.0 }
        };
        match *self {
            Self::Multistep { lr, gamma, ref milestones, warmup_epochs } => {
                let passed = milestones.iter().filter(|&&milestone| milestone <= epoch).count();
                lr * gamma.powi(passed as i32) * warmed(warmup_epochs)
            }
            Self::Constant { lr, warmup_epochs } => lr * warmed(warmup_epochs),
            Self::OneCycle { lr, pct_start, div_factor, final_div_factor } => {
                let steps = (length.epochs * length.steps_per_epoch) as f64;
                let (first, last) = (lr / div_factor, lr / div_factor / final_div_factor);
                // Training that is too short to rise starts at the peak.
                let peak = (pct_start * steps - 1.0).max(0.0);
                let t = t as f64;
                if t < peak {
                    half_cosine(first, lr, t / peak)
                } else if steps - 1.0 > peak {
                    half_cosine(lr, last, ((t - peak) / (steps - 1.0 - peak)).min(1.0))
                } else {
                    lr
                }
            }
        }
    }

    /// Learning rates of all steps of an epoch.
    pub fn table(&self, length: Length, epoch: u64) -> Vec<f32> {
        (0..length.steps_per_epoch).map(|step| self.at(length, epoch, step) as f32).collect()
    }
}

/// Half a cosine from `start` at share 0 to `end` at share 1.
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
        steps.map(|(epoch, step)| schedule.at(length, epoch, step)).collect()
    }

    #[track_caller]
    fn near(given: &[f64], expected: &[f64]) {
        assert_eq!(given.len(), expected.len());
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
        assert!(given.iter().zip(expected).all(close), "{given:?}\n{expected:?}");
    }

    #[test]
    fn the_cifar_recipe_drops_at_the_start_of_its_epochs() {
        let schedule = Schedule::Multistep {
            lr: 0.1,
            gamma: 0.2,
            milestones: vec![60, 120, 180],
            warmup_epochs: 0,
        };
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
        for (epoch, step, lr) in cases {
            near(&[schedule.at(length, epoch, step)], &[lr]);
        }
        assert_eq!(schedule.table(length, 60), vec![0.02f32; 390]);
    }

    #[test]
    fn warm_up_is_linear_and_never_zero() {
        let milestones =
            Schedule::Multistep { lr: 1.6, gamma: 0.1, milestones: vec![3, 4], warmup_epochs: 2 };
        near(&all(&milestones, SHORT), &[0.4, 0.8, 1.2, 1.6, 1.6, 1.6, 0.16, 0.16, 0.016, 0.016]);
        let constant = Schedule::Constant { lr: 1.0, warmup_epochs: 1 };
        near(&all(&constant, SHORT), &[0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(constant.table(SHORT, 0), [0.5, 1.0]);
    }

    /// T = 10, ρ = 0.3: up from 1/25 over steps 0 to 2, down to 1/250,000 over steps 2 to 9, where
    /// step 2 + n has (1 + cos(nπ/7)) / 2 of the way left. cos(π/7) = 0.900968867902419, cos(2π/7)
    /// = 0.623489801858734, cos(3π/7) = 0.222520933956314, and cos((7−n)π/7) = −cos(nπ/7).
    #[test]
    fn one_cycle_as_computed_by_hand() {
        let schedule = Schedule::OneCycle {
            lr: 1.0,
            pct_start: 0.3,
            div_factor: 25.0,
            final_div_factor: 10_000.0,
        };
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
        // T = 8, ρ = 0.3: the peak is at 1.4; step 1 is 1/1.4 of the way up, step 2 is 0.6/5.6 of
        // the way down.
        let schedule =
            Schedule::OneCycle { lr: 2.0, pct_start: 0.3, div_factor: 2.0, final_div_factor: 4.0 };
        let given = all(&schedule, Length { epochs: 1, steps_per_epoch: 8 });
        assert!((given[1] - (2.0 - 0.5 * (1.0 + (PI / 1.4).cos()))).abs() < 1e-12, "{given:?}");
        assert!(
            (given[2] - (0.25 + 0.875 * (1.0 + (PI * 0.6 / 5.6).cos()))).abs() < 1e-12,
            "{given:?}"
        );
    }

    #[test]
    fn the_shortest_runs_have_a_rate() {
        for (pct_start, steps) in
            [(0.3, 1), (0.3, 2), (0.3, 3), (0.99, 1), (0.99, 2), (0.01, 5), (1.0, 1), (1.0, 4)]
        {
            let schedule =
                Schedule::OneCycle { lr: 0.1, pct_start, div_factor: 25.0, final_div_factor: 1e4 };
            let lrs = schedule.table(Length { epochs: 1, steps_per_epoch: steps }, 0);
            assert!(lrs.iter().all(|lr| *lr > 0.0 && *lr <= 0.1), "{pct_start} {steps} {lrs:?}");
        }
    }
}
