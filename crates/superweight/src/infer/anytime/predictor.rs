//! Which members run before a deadline, and when they stop.
//!
//! 1. Among the subsets whose p99 fits the deadline, the most accurate is chosen (of equals the one of lower NLL).
//! 2. Its members run cheapest first. Before each the clock is read: one whose p99 would end after the deadline is not
//!    begun, and neither are the ones after it.
//! 3. The answer is the mean of their probabilities.
//!
//! Exits run in their order, those that were not chosen on the way to those that were. Where time is up before all that were
//! chosen have run, the most accurate subset of those that have answers.
//!
//! Cheapest first, so that whatever is cut off is the dearest. The first member always runs: a late answer is counted as
//! missed; no answer helps nobody.

use std::time::Duration;

use superweight_engine::{Device, Error};
use thiserror::Error as ThisError;

use super::{Clock, Profile, SubsetProfile};
use crate::model::Subset;
use crate::probability::softmax;
use crate::infer::Networks;
use crate::model::{OutputId, Outputs};

/// Something that can be asked for the logits of one output.
pub trait Predict {
    /// What can go wrong.
    type Error;
    /// Who can be asked.
    fn outputs(&self) -> &Outputs;
    /// The image (or images) that they see next.
    fn set_images(&mut self, images: &[f32]) -> Result<(), Self::Error>;
    /// One's logits; the time of the call is its time. Exits are asked in their order.
    fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Self::Error>;
}

impl<D: Device> Predict for Networks<D> {
    type Error = Error;

    fn outputs(&self) -> &Outputs {
        self.outputs()
    }

    fn set_images(&mut self, images: &[f32]) -> Result<(), Error> {
        self.set_images(images)
    }

    fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Error> {
        self.run(output)
    }
}

/// Why there is no answer.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum AnytimeError<E> {
    /// The members themselves.
    #[error(transparent)]
    Members(E),
    /// Not even the quickest member fits.
    #[error(
        "a deadline of {:.3} ms cannot be kept: the quickest {who} needs {:.3} ms (p99 on this device; 'swn anytime' measures again)",
        deadline.as_micros() as f64 / 1e3,
        shortest.as_nanos().div_ceil(1000) as f64 / 1e3
    )]
    TooShort {
        /// Member or exit.
        who: &'static str,
        /// As asked.
        deadline: Duration,
        /// What it would take.
        shortest: Duration,
    },
    /// A profile of other members.
    #[error(
        "the profile is of {profiled} and the run has {found}: 'swn anytime RUN' makes it anew"
    )]
    OtherProfile {
        /// Whose it is.
        profiled: Outputs,
        /// Who is there.
        found: Outputs,
    },
}

/// What was said, by whom, and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Mean probabilities `[image][class]` of those that answered.
    pub probabilities: Vec<f64>,
    /// Whose answer it is.
    pub answered: Subset,
    /// Whose it was to be.
    pub chosen: Subset,
    /// From the call to its end.
    pub used: Duration,
    /// Whether that was longer than the deadline.
    pub missed: bool,
}

/// How the calls so far went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Calls with an answer.
    pub given: u64,
    /// Those after the deadline.
    pub missed: u64,
    /// Those where others answered than were chosen, for want of time.
    pub cut_short: u64,
}

/// Members, what they cost, and a clock.
#[derive(Debug)]
pub struct Predictor<A, C> {
    asked: A,
    clock: C,
    profile: Profile,
    classes: usize,
    answers: Answers,
}

impl<A: Predict, C: Clock> Predictor<A, C> {
    /// Members and the profile measured of them.
    pub fn new(
        asked: A,
        clock: C,
        profile: Profile,
        classes: usize,
    ) -> Result<Self, AnytimeError<A::Error>> {
        let profiled = profile.outputs();
        match profiled == *asked.outputs() {
            true => Ok(Self { asked, clock, profile, classes, answers: Answers::default() }),
            false => Err(AnytimeError::OtherProfile { profiled, found: asked.outputs().clone() }),
        }
    }

    /// How the calls so far went.
    pub fn answers(&self) -> Answers {
        self.answers
    }

    /// What the members cost.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The subset that would run.
    pub fn choose(&self, deadline: Duration) -> Result<Subset, AnytimeError<A::Error>> {
        // As whole nanoseconds, as deadlines are.
        let needs = |subset: &SubsetProfile| Duration::from_secs_f64(subset.time.p99_ms / 1e3);
        self.best(|subset| needs(subset) <= deadline).ok_or_else(|| {
            let shortest = self.profile.subsets.iter().map(needs).min().unwrap_or(Duration::MAX);
            AnytimeError::TooShort { who: self.asked.outputs().word(), deadline, shortest }
        })
    }

    /// The most accurate of some subsets.
    fn best(&self, among: impl Fn(&SubsetProfile) -> bool) -> Option<Subset> {
        let able = self.profile.subsets.iter().filter(|subset| among(subset));
        let best = able.max_by(|a, b| a.top1.total_cmp(&b.top1).then(b.nll.total_cmp(&a.nll)));
        best.map(|subset| subset.members)
    }

    /// An answer within the deadline, which begins now. The images are decoded and normalized already.
    pub fn predict(
        &mut self,
        images: &[f32],
        deadline: Duration,
    ) -> Result<Answer, AnytimeError<A::Error>> {
        let begin = self.clock.now();
        let chosen = self.choose(deadline)?;
        let outputs = self.asked.outputs();
        let mut order: Vec<OutputId> = outputs.needed(chosen).outputs().collect();
        let cost = |output: OutputId| self.profile.members[output.0];
        if !outputs.nested() {
            order.sort_by(|&a, &b| cost(a).median_ms.total_cmp(&cost(b).median_ms));
        }
        self.asked.set_images(images).map_err(AnytimeError::Members)?;
        let mut heard: Vec<(OutputId, Vec<f32>)> = vec![];
        for output in order {
            let end = self.clock.now() - begin + Duration::from_secs_f64(cost(output).p99_ms / 1e3);
            if !heard.is_empty() && end > deadline {
                break;
            }
            heard.push((output, self.asked.run(output).map_err(AnytimeError::Members)?));
        }
        let ran = heard.iter().fold(Subset::EMPTY, |ran, &(output, _)| ran.with(output));
        let answered = match chosen.is_within(ran) {
            true => chosen,
            false => self.best(|subset| subset.members.is_within(ran)).unwrap_or(ran),
        };
        let (mut sum, mut one) = (vec![], vec![0.0; self.classes]);
        for (_, logits) in heard.iter().filter(|&&(output, _)| answered.contains(output)) {
            sum.resize(logits.len(), 0.0);
            for (logits, sum) in logits.chunks(self.classes).zip(sum.chunks_mut(self.classes)) {
                softmax(logits, &mut one);
                sum.iter_mut().zip(&one).for_each(|(sum, p)| *sum += p);
            }
        }
        sum.iter_mut().for_each(|p| *p /= answered.len() as f64);
        let used = self.clock.now() - begin;
        let missed = used > deadline;
        self.answers.given += 1;
        self.answers.missed += u64::from(missed);
        self.answers.cut_short += u64::from(answered != chosen);
        Ok(Answer { probabilities: sum, answered, chosen, used, missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::anytime::{Latencies, measure};
    use crate::evaluate::{Predictions, evaluate_subsets};
    use std::cell::{Cell, RefCell};
    use std::convert::Infallible;

    /// Time passes where a member runs, and nowhere else.
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

    /// Members of 4, 1 and 2 ms; more members are right more often, and of two as many the dearer ones.
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
            let answer = predictor.predict(&[], Duration::from_millis(deadline)).unwrap();
            assert_eq!(*world.ran.borrow(), expected, "{deadline} ms");
            assert_eq!(answer.used, Duration::from_millis(deadline), "every time is used up");
            assert_eq!((answer.answered, answer.missed), (answer.chosen, false));
        }
    }

    #[test]
    fn what_would_no_longer_fit_is_not_begun() {
        let world = World::default();
        // Member 1 takes 3 ms instead of 1: then 2 (2 ms) would end at 5, still before 7; 0 (4 ms) would end at 9.
        let mut predictor = predictor(&world, [4000, 3000, 2000]);
        let answer = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!(
            (members_of(answer.chosen), members_of(answer.answered)),
            (vec![0, 1, 2], vec![1, 2])
        );
        assert_eq!((answer.used, answer.missed), (Duration::from_millis(5), false));
        // (3/4 + 1/2) / 2 for the first class.
        assert!((answer.probabilities[0] - 0.625).abs() < 1e-7);
        assert_eq!(predictor.answers(), Answers { given: 1, missed: 0, cut_short: 1 });
    }

    #[test]
    fn a_member_that_takes_too_long_is_a_missed_deadline() {
        let world = World::default();
        let mut predictor = predictor(&world, [4000, 9000, 2000]);
        let answer = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!((members_of(answer.answered), answer.missed), (vec![1], true));
        assert_eq!(predictor.answers(), Answers { given: 1, missed: 1, cut_short: 1 });
    }

    #[test]
    fn a_deadline_that_nothing_fits_is_refused_before_anything_runs() {
        for deadline in [0, 999] {
            let world = World::default();
            let mut predictor = predictor(&world, [4000, 1000, 2000]);
            let error =
                predictor.predict(&[], Duration::from_micros(deadline)).unwrap_err().to_string();
            assert!(error.contains("the quickest member needs 1.000 ms"), "{error}");
            assert!(world.ran.borrow().is_empty());
            assert_eq!(predictor.answers(), Answers::default());
        }
        // Never the same number twice: what is asked is rounded down, what it takes up.
        let world = World::default();
        let mut predictor = predictor(&world, [4000, 1000, 2000]);
        predictor.profile.subsets[1].time.p99_ms = 1.0004;
        let error = predictor.choose(Duration::from_nanos(1_000_399)).unwrap_err().to_string();
        assert!(
            error.contains("1.000 ms cannot be kept: the quickest member needs 1.001 ms"),
            "{error}"
        );
        assert_eq!(
            predictor.choose(Duration::from_nanos(1_000_400)).unwrap(),
            Subset::one(OutputId(1))
        );
    }

    /// Exits that take 4, 1 and 2 ms from the one before; the last is the best, then the mean of the first two.
    fn exits<'a>(world: &'a World, now: [u64; 3]) -> Predictor<Fakes<'a>, &'a World> {
        let outputs = three(true);
        let predictions = Predictions::new(2, vec![0, 1], vec![vec![0.0; 4]; 3]).unwrap();
        let scores = evaluate_subsets(&predictions, &outputs.subsets().unwrap());
        let latencies = Latencies::new(vec![vec![4.0, 1.0, 2.0]; 20], vec![0.0; 20]);
        let mut profile = Profile::new(&outputs, 1, &scores, &latencies);
        for subset in &mut profile.subsets {
            subset.top1 = [50.0, 60.0, 90.0, 70.0, 80.0][match &members_of(subset.members)[..] {
                [alone] => *alone,
                [0, 1] => 3,
                _ => 4,
            }];
        }
        Predictor::new(Fakes { outputs, world, microseconds: now }, world, profile, 2).unwrap()
    }

    #[test]
    fn exits_run_in_their_order_and_the_chosen_ones_answer() {
        // Member 1 says 3/4 for the first class, the others 1/2.
        for (deadline, ran, chosen, first) in [
            (4, vec![0], vec![0], 0.5),
            (6, vec![0, 1], vec![0, 1], 0.625),
            (7, vec![0, 1, 2], vec![2], 0.5),
        ] {
            let world = World::default();
            let answer = exits(&world, [4000, 1000, 2000])
                .predict(&[], Duration::from_millis(deadline))
                .unwrap();
            assert_eq!(
                (&*world.ran.borrow(), members_of(answer.chosen)),
                (&ran, chosen),
                "{deadline} ms"
            );
            assert!((answer.probabilities[0] - first).abs() < 1e-7, "{deadline} ms");
            assert_eq!((answer.answered, answer.missed), (answer.chosen, false));
        }
    }

    #[test]
    fn where_no_chosen_exit_is_reached_the_best_of_those_that_ran_answer() {
        let world = World::default();
        // Exit 1 takes 2 ms instead of 1: the last would end at 8.
        let mut predictor = exits(&world, [4000, 2000, 2000]);
        let answer = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!((members_of(answer.chosen), members_of(answer.answered)), (vec![2], vec![0, 1]));
        assert_eq!((answer.used, answer.missed), (Duration::from_millis(6), false));
        assert!((answer.probabilities[0] - 0.625).abs() < 1e-7);
        assert_eq!(predictor.answers(), Answers { given: 1, missed: 0, cut_short: 1 });
        // Where the second is worse than the first, it has run for nothing.
        for subset in
            predictor.profile.subsets.iter_mut().filter(|subset| subset.members != Subset::all(1))
        {
            subset.top1 = if subset.members == Subset::one(OutputId(2)) { 90.0 } else { 40.0 };
        }
        let answer = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!((members_of(answer.chosen), members_of(answer.answered)), (vec![2], vec![0]));
        assert!((answer.probabilities[0] - 0.5).abs() < 1e-7);
        let error = predictor.predict(&[], Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("the quickest exit needs 4.000 ms"), "{error}");
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
            let asked = Fakes { outputs: three(false), world: &world, microseconds: [1; 3] };
            let whose = profile.outputs().to_string();
            match Predictor::new(asked, &world, profile, 2) {
                Ok(_) => assert!(fits, "{whose}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        !fits && said.contains(&format!("is of {whose} and the run has a, a, a")),
                        "{said}"
                    );
                }
            }
        }
    }
}
