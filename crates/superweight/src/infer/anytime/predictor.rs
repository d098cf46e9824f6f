//! Predictions within a deadline: which members run, and when they stop.
//!
//! 1. Among the subsets whose p99 fits the deadline, the most accurate is chosen; among equals, the
//!    one with the lower NLL.
//! 2. Its members run cheapest first, so that an overrun costs the most expensive one. The clock is
//!    read before each: a member whose p99 would end after the deadline does not start, and neither
//!    do the members after it.
//! 3. The prediction is the mean of their probabilities.
//!
//! Exits run in their order, including those before the chosen ones. If the time is up before all
//! chosen outputs have run, the prediction is that of the most accurate subset of those that have.
//!
//! The first member always runs: a late prediction counts as missed, but is still returned.

use std::time::Duration;

use thiserror::Error as ThisError;

use super::clock::Clock;
use super::predict::Predict;
use super::profile::{Profile, SubsetProfile};
use crate::model::{OutputId, Outputs, Subset};
use crate::probability::MeanProbabilities;

/// Why there is no prediction within a deadline.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum AnytimeError<E> {
    /// A member failed to run.
    #[error(transparent)]
    Members(E),
    /// The deadline is shorter than the p99 of the fastest subset.
    #[error(
        "a deadline of {:.3} ms cannot be met: the fastest {kind} needs {:.3} ms (p99 on this device; 'swn anytime' measures again)",
        deadline.as_micros() as f64 / 1e3,
        shortest.as_nanos().div_ceil(1000) as f64 / 1e3
    )]
    TooShort {
        /// `member` or `exit`.
        kind: &'static str,
        /// The requested deadline.
        deadline: Duration,
        /// The p99 of the fastest subset.
        shortest: Duration,
    },
    /// The profile was measured with other members.
    #[error(
        "the profile is of {profiled} and the run has {found}: 'swn anytime RUN' measures again"
    )]
    OtherProfile {
        /// Outputs that were measured.
        profiled: Outputs,
        /// Outputs of the run.
        found: Outputs,
    },
}

/// A prediction within a deadline.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// Mean probabilities `[image][class]` of the subset.
    pub probabilities: Vec<f64>,
    /// Outputs whose mean this is.
    pub subset: Subset,
    /// Outputs that were chosen beforehand.
    pub chosen: Subset,
    /// Time from the call to its end.
    pub used: Duration,
    /// Whether the call took longer than the deadline.
    pub missed: bool,
}

/// Counts over the predictions of a [`Predictor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of predictions.
    pub predictions: u64,
    /// Number of predictions that were later than the deadline.
    pub missed: u64,
    /// Number of predictions of another subset than the chosen one, because time was short.
    pub cut_short: u64,
}

/// Members with their profile and a clock.
#[derive(Debug)]
pub struct Predictor<A, C> {
    networks: A,
    clock: C,
    profile: Profile,
    classes: usize,
    counts: Counts,
}

impl<A: Predict, C: Clock> Predictor<A, C> {
    /// A predictor from members and the profile that was measured with them.
    ///
    /// # Errors
    /// [`AnytimeError::OtherProfile`] if the profile has other members.
    pub fn new(
        networks: A,
        clock: C,
        profile: Profile,
        classes: usize,
    ) -> Result<Self, AnytimeError<A::Error>> {
        let profiled = profile.outputs();
        match profiled == *networks.outputs() {
            true => Ok(Self { networks, clock, profile, classes, counts: Counts::default() }),
            false => {
                Err(AnytimeError::OtherProfile { profiled, found: networks.outputs().clone() })
            }
        }
    }

    /// Counts over the predictions so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The profile of the members.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The subset that would run for a deadline.
    pub fn choose(&self, deadline: Duration) -> Result<Subset, AnytimeError<A::Error>> {
        // Times are rounded to whole nanoseconds, as deadlines are.
        let needs = |subset: &SubsetProfile| Duration::from_secs_f64(subset.time.p99_ms / 1e3);
        self.best(|subset| needs(subset) <= deadline).ok_or_else(|| {
            let shortest = self.profile.subsets.iter().map(needs).min().unwrap_or(Duration::MAX);
            AnytimeError::TooShort { kind: self.networks.outputs().word(), deadline, shortest }
        })
    }

    /// The most accurate of the subsets that satisfy a condition.
    fn best(&self, among: impl Fn(&SubsetProfile) -> bool) -> Option<Subset> {
        let able = self.profile.subsets.iter().filter(|subset| among(subset));
        let best = able.max_by(|a, b| a.top1.total_cmp(&b.top1).then(b.nll.total_cmp(&a.nll)));
        best.map(|subset| subset.members)
    }

    /// A prediction for normalized images, within a deadline that begins with the call.
    pub fn predict(
        &mut self,
        images: &[f32],
        deadline: Duration,
    ) -> Result<Prediction, AnytimeError<A::Error>> {
        let begin = self.clock.now();
        let chosen = self.choose(deadline)?;
        let outputs = self.networks.outputs();
        let mut order: Vec<OutputId> = outputs.needed(chosen).outputs().collect();
        let cost = |output: OutputId| self.profile.members[output.0];
        if !outputs.nested() {
            order.sort_by(|&a, &b| cost(a).median_ms.total_cmp(&cost(b).median_ms));
        }
        self.networks.set_images(images).map_err(AnytimeError::Members)?;
        let mut done: Vec<(OutputId, Vec<f32>)> = vec![];
        for output in order {
            let end = self.clock.now() - begin + Duration::from_secs_f64(cost(output).p99_ms / 1e3);
            if !done.is_empty() && end > deadline {
                break;
            }
            done.push((output, self.networks.run(output).map_err(AnytimeError::Members)?));
        }
        let ran = done.iter().fold(Subset::EMPTY, |ran, &(output, _)| ran.with(output));
        let subset = match chosen.is_within(ran) {
            true => chosen,
            false => self.best(|subset| subset.members.is_within(ran)).unwrap_or(ran),
        };
        let mut mean = MeanProbabilities::new(self.classes);
        for (_, logits) in done.iter().filter(|&&(output, _)| subset.contains(output)) {
            mean.add(logits);
        }
        let probabilities = mean.finish();
        let used = self.clock.now() - begin;
        let missed = used > deadline;
        self.counts.predictions += 1;
        self.counts.missed += u64::from(missed);
        self.counts.cut_short += u64::from(subset != chosen);
        Ok(Prediction { probabilities, subset, chosen, used, missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::{Predictions, evaluate_subsets};
    use crate::infer::anytime::{Latencies, measure};
    use std::cell::{Cell, RefCell};
    use std::convert::Infallible;

    /// A clock that advances only while a member runs.
    #[derive(Default)]
    struct World {
        now: Cell<u64>,
        ran: RefCell<Vec<usize>>,
    }

    impl Clock for World {
        fn now(&self) -> Duration {
            Duration::from_micros(self.now.get())
        }
    }

    struct Fakes<'a> {
        outputs: Outputs,
        world: &'a World,
        microseconds: [u64; 3],
    }

    impl Predict for Fakes<'_> {
        type Error = Infallible;

        fn outputs(&self) -> &Outputs {
            &self.outputs
        }

        fn set_images(&mut self, _: &[f32]) -> Result<(), Infallible> {
            Ok(())
        }

        fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Infallible> {
            self.world.now.set(self.world.now.get() + self.microseconds[output.0]);
            self.world.ran.borrow_mut().push(output.0);
            Ok(if output.0 == 1 { vec![3f32.ln(), 0.0] } else { vec![0.0, 0.0] })
        }
    }

    fn three(exits: bool) -> Outputs {
        Outputs::new(vec!["a".to_owned(); 3], exits)
    }

    /// Members of 4, 1 and 2 ms. Larger subsets are more accurate, and of equal sizes the slower
    /// ones.
    fn predictor<'a>(world: &'a World, now: [u64; 3]) -> Predictor<Fakes<'a>, &'a World> {
        let profiled = measure(
            &mut Fakes { outputs: three(false), world, microseconds: [4000, 1000, 2000] },
            world,
            &[],
            [1, 20],
            Duration::ZERO,
        );
        let Ok(latencies) = profiled;
        world.ran.borrow_mut().clear();
        let logits = vec![vec![0.0; 4]; 3];
        let outputs = three(false);
        let predictions = Predictions::new(2, vec![0, 1], logits).unwrap();
        let scores = evaluate_subsets(&predictions, &outputs.subsets().unwrap());
        let mut profile = Profile::new(&outputs, 1, &scores, &latencies);
        for subset in &mut profile.subsets {
            subset.top1 = 0.5 + 0.1 * subset.members.len() as f64 + subset.time.median_ms / 1000.0;
        }
        Predictor::new(Fakes { outputs, world, microseconds: now }, world, profile, 2).unwrap()
    }

    fn members_of(subset: Subset) -> Vec<usize> {
        subset.into()
    }

    #[test]
    fn the_best_subset_that_fits_runs_cheapest_first() {
        for (deadline, expected) in
            [(1, vec![1]), (2, vec![2]), (3, vec![1, 2]), (6, vec![2, 0]), (7, vec![1, 2, 0])]
        {
            let world = World::default();
            let mut predictor = predictor(&world, [4000, 1000, 2000]);
            let prediction = predictor.predict(&[], Duration::from_millis(deadline)).unwrap();
            assert_eq!(*world.ran.borrow(), expected, "{deadline} ms");
            assert_eq!(
                prediction.used,
                Duration::from_millis(deadline),
                "the chosen members use the whole deadline"
            );
            assert_eq!((prediction.subset, prediction.missed), (prediction.chosen, false));
        }
    }

    #[test]
    fn a_member_that_would_end_too_late_does_not_start() {
        let world = World::default();
        // Member 1 takes 3 ms instead of 1. Member 2 (2 ms) ends at 5, before 7; member 0 would end
        // at 9.
        let mut predictor = predictor(&world, [4000, 3000, 2000]);
        let prediction = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!(
            (members_of(prediction.chosen), members_of(prediction.subset)),
            (vec![0, 1, 2], vec![1, 2])
        );
        assert_eq!((prediction.used, prediction.missed), (Duration::from_millis(5), false));
        // (3/4 + 1/2) / 2 for the first class.
        assert!((prediction.probabilities[0] - 0.625).abs() < 1e-7);
        assert_eq!(predictor.counts(), Counts { predictions: 1, missed: 0, cut_short: 1 });
    }

    #[test]
    fn a_member_that_takes_too_long_is_a_missed_deadline() {
        let world = World::default();
        let mut predictor = predictor(&world, [4000, 9000, 2000]);
        let prediction = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!((members_of(prediction.subset), prediction.missed), (vec![1], true));
        assert_eq!(predictor.counts(), Counts { predictions: 1, missed: 1, cut_short: 1 });
    }

    #[test]
    fn a_deadline_shorter_than_any_subset_is_refused_before_anything_runs() {
        for deadline in [0, 999] {
            let world = World::default();
            let mut predictor = predictor(&world, [4000, 1000, 2000]);
            let error =
                predictor.predict(&[], Duration::from_micros(deadline)).unwrap_err().to_string();
            assert!(error.contains("the fastest member needs 1.000 ms"), "{error}");
            assert!(world.ran.borrow().is_empty());
            assert_eq!(predictor.counts(), Counts::default());
        }
        // The message never shows equal numbers: the deadline is rounded down, the needed time up.
        let world = World::default();
        let mut predictor = predictor(&world, [4000, 1000, 2000]);
        predictor.profile.subsets[1].time.p99_ms = 1.0004;
        let error = predictor.choose(Duration::from_nanos(1_000_399)).unwrap_err().to_string();
        assert!(
            error.contains("1.000 ms cannot be met: the fastest member needs 1.001 ms"),
            "{error}"
        );
        assert_eq!(
            predictor.choose(Duration::from_nanos(1_000_400)).unwrap(),
            Subset::one(OutputId(1))
        );
    }

    /// Exits that take 4, 1 and 2 ms after the exit before. The last is the most accurate, then the
    /// mean of all three, then that of the first two.
    fn exits<'a>(world: &'a World, now: [u64; 3]) -> Predictor<Fakes<'a>, &'a World> {
        let outputs = three(true);
        let predictions = Predictions::new(2, vec![0, 1], vec![vec![0.0; 4]; 3]).unwrap();
        let scores = evaluate_subsets(&predictions, &outputs.subsets().unwrap());
        let latencies = Latencies::new(vec![vec![4.0, 1.0, 2.0]; 20], vec![0.0; 20]);
        let mut profile = Profile::new(&outputs, 1, &scores, &latencies);
        for subset in &mut profile.subsets {
            subset.top1 = [50.0, 60.0, 90.0, 70.0, 80.0][match &members_of(subset.members)[..] {
                [one] => *one,
                [0, 1] => 3,
                _ => 4,
            }];
        }
        Predictor::new(Fakes { outputs, world, microseconds: now }, world, profile, 2).unwrap()
    }

    #[test]
    fn exits_run_in_their_order_and_the_chosen_ones_predict() {
        // Exit 1 predicts 3/4 for the first class, the others 1/2.
        for (deadline, ran, chosen, first) in [
            (4, vec![0], vec![0], 0.5),
            (6, vec![0, 1], vec![0, 1], 0.625),
            (7, vec![0, 1, 2], vec![2], 0.5),
        ] {
            let world = World::default();
            let prediction = exits(&world, [4000, 1000, 2000])
                .predict(&[], Duration::from_millis(deadline))
                .unwrap();
            assert_eq!(
                (&*world.ran.borrow(), members_of(prediction.chosen)),
                (&ran, chosen),
                "{deadline} ms"
            );
            assert!((prediction.probabilities[0] - first).abs() < 1e-7, "{deadline} ms");
            assert_eq!((prediction.subset, prediction.missed), (prediction.chosen, false));
        }
    }

    #[test]
    fn if_no_chosen_exit_is_reached_the_best_of_those_that_ran_predict() {
        let world = World::default();
        // Exit 1 takes 2 ms instead of 1: the last would end at 8.
        let mut predictor = exits(&world, [4000, 2000, 2000]);
        let prediction = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!(
            (members_of(prediction.chosen), members_of(prediction.subset)),
            (vec![2], vec![0, 1])
        );
        assert_eq!((prediction.used, prediction.missed), (Duration::from_millis(6), false));
        assert!((prediction.probabilities[0] - 0.625).abs() < 1e-7);
        assert_eq!(predictor.counts(), Counts { predictions: 1, missed: 0, cut_short: 1 });
        // If exit 1 is worse than exit 0, its result is unused.
        for subset in
            predictor.profile.subsets.iter_mut().filter(|subset| subset.members != Subset::all(1))
        {
            subset.top1 = if subset.members == Subset::one(OutputId(2)) { 90.0 } else { 40.0 };
        }
        let prediction = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!(
            (members_of(prediction.chosen), members_of(prediction.subset)),
            (vec![2], vec![0])
        );
        assert!((prediction.probabilities[0] - 0.5).abs() < 1e-7);
        let error = predictor.predict(&[], Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("the fastest exit needs 4.000 ms"), "{error}");
    }

    #[test]
    fn a_profile_of_other_members_is_refused() {
        let world = World::default();
        let of_members = predictor(&world, [1, 1, 1]).profile().clone();
        let mut of_fewer = of_members.clone();
        of_fewer.names.pop();
        let mut of_others = of_members.clone();
        of_others.names[1] = "b".to_owned();
        let of_exits = exits(&world, [1, 1, 1]).profile().clone();
        for (profile, fits) in
            [(of_members, true), (of_fewer, false), (of_others, false), (of_exits, false)]
        {
            let networks = Fakes { outputs: three(false), world: &world, microseconds: [1; 3] };
            let of = profile.outputs().to_string();
            match Predictor::new(networks, &world, profile, 2) {
                Ok(_) => assert!(fits, "{of}"),
                Err(error) => {
                    let message = error.to_string();
                    assert!(
                        !fits && message.contains(&format!("is of {of} and the run has a, a, a")),
                        "{message}"
                    );
                }
            }
        }
    }
}
