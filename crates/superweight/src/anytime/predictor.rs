//! Which members run before a deadline, and when they stop.
//!
//! 1. Among the subsets whose p99 fits the deadline, the most accurate is chosen (of equals the one of lower NLL).
//! 2. Its members run cheapest first. Before each the clock is read: one whose p99 would end after the deadline is not
//!    begun, and neither are the ones after it.
//! 3. The answer is the mean of the probabilities of those that ran.
//!
//! Exits run in their order, those that were not chosen on the way to those that were; where time is up before that, the last
//! that ran has the word.
//!
//! Cheapest first, so that whatever is cut off is the dearest. The first member always runs: a late answer is counted as
//! missed; no answer helps nobody.

use std::time::Duration;

use superweight_engine::{Device, Error};
use superweight_plan::MemberId;
use thiserror::Error as ThisError;

use super::{Clock, Profile};
use crate::evaluate::{Subset, softmax};
use crate::infer::Networks;

/// Something that can be asked for the logits of one member.
pub trait Asked {
    /// What can go wrong.
    type Error;
    /// How many members.
    fn members(&self) -> usize;
    /// The image (or images) that members see next.
    fn set_images(&mut self, images: &[f32]) -> Result<(), Self::Error>;
    /// A member's logits; the time of the call is the time of the member. Exits are asked in their order.
    fn run(&mut self, member: MemberId) -> Result<Vec<f32>, Self::Error>;
}

impl<D: Device> Asked for Networks<D> {
    type Error = Error;

    fn members(&self) -> usize {
        self.voices().count()
    }

    fn set_images(&mut self, images: &[f32]) -> Result<(), Error> {
        self.set_images(images)
    }

    fn run(&mut self, member: MemberId) -> Result<Vec<f32>, Error> {
        self.run(member)
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
        "a deadline of {:.3} ms cannot be kept: the quickest {who} needs {shortest_ms:.3} ms (p99 on this device; 'swn anytime' measures again)",
        deadline.as_secs_f64() * 1e3
    )]
    TooShort {
        /// Member or exit.
        who: &'static str,
        /// As asked.
        deadline: Duration,
        /// What it would take.
        shortest_ms: f64,
    },
    /// A profile of other members.
    #[error(
        "the profile is of {profiled} members and the run has {members}: 'swn anytime RUN' makes it anew"
    )]
    OtherProfile {
        /// Members it is of.
        profiled: usize,
        /// Members there are.
        members: usize,
    },
}

/// What was said, by whom, and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Mean probabilities `[image][class]` of the members that ran.
    pub probabilities: Vec<f64>,
    /// The members that ran.
    pub ran: Subset,
    /// The members that were to run.
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
    /// Those where a member that was chosen did not run.
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

impl<A: Asked, C: Clock> Predictor<A, C> {
    /// Members and the profile measured of them.
    pub fn new(asked: A, clock: C, profile: Profile, classes: usize) -> Result<Self, AnytimeError<A::Error>> {
        let (profiled, members) = (profile.names.len(), asked.members());
        match profiled == members {
            true => Ok(Self { asked, clock, profile, classes, answers: Answers::default() }),
            false => Err(AnytimeError::OtherProfile { profiled, members }),
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
        let limit = deadline.as_secs_f64() * 1e3;
        let fitting = self.profile.subsets.iter().filter(|subset| subset.time.p99_ms <= limit);
        let best = fitting.max_by(|a, b| a.top1.total_cmp(&b.top1).then(b.nll.total_cmp(&a.nll)));
        best.map(|subset| subset.members).ok_or_else(|| {
            let shortest = self.profile.subsets.iter().map(|subset| subset.time.p99_ms);
            let who = self.profile.voices().word();
            AnytimeError::TooShort { who, deadline, shortest_ms: shortest.fold(f64::INFINITY, f64::min) }
        })
    }

    /// An answer within the deadline, which begins now. The images are decoded and normalised already.
    pub fn predict(&mut self, images: &[f32], deadline: Duration) -> Result<Answer, AnytimeError<A::Error>> {
        let begin = self.clock.now();
        let chosen = self.choose(deadline)?;
        let voices = self.profile.voices();
        let mut order: Vec<MemberId> = voices.needed(chosen).members().collect();
        let cost = |member: MemberId| self.profile.members[member.0];
        if !voices.nested() {
            order.sort_by(|&a, &b| cost(a).median_ms.total_cmp(&cost(b).median_ms));
        }
        self.asked.set_images(images).map_err(AnytimeError::Members)?;
        let mut heard: Vec<(MemberId, Vec<f32>)> = vec![];
        for member in order {
            let end = self.clock.now() - begin + Duration::from_secs_f64(cost(member).p99_ms / 1e3);
            if !heard.is_empty() && end > deadline {
                break;
            }
            heard.push((member, self.asked.run(member).map_err(AnytimeError::Members)?));
        }
        match heard.iter().any(|&(member, _)| chosen.contains(member)) {
            true => heard.retain(|&(member, _)| chosen.contains(member)),
            false => drop(heard.drain(..heard.len() - 1)),
        }
        let (mut sum, mut one, mut ran) = (vec![], vec![0.0; self.classes], Subset::EMPTY);
        for (member, logits) in heard {
            sum.resize(logits.len(), 0.0);
            for (logits, sum) in logits.chunks(self.classes).zip(sum.chunks_mut(self.classes)) {
                softmax(logits, &mut one);
                sum.iter_mut().zip(&one).for_each(|(sum, p)| *sum += p);
            }
            ran = ran.with(member);
        }
        sum.iter_mut().for_each(|p| *p /= ran.len() as f64);
        let used = self.clock.now() - begin;
        let missed = used > deadline;
        self.answers.given += 1;
        self.answers.missed += u64::from(missed);
        self.answers.cut_short += u64::from(ran != chosen);
        Ok(Answer { probabilities: sum, ran, chosen, used, missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anytime::{Latencies, measure};
    use crate::evaluate::{Predictions, evaluate_subsets};
    use crate::voices::Voices;
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
        world: &'a World,
        microseconds: [u64; 3],
    }

    impl Asked for Fakes<'_> {
        type Error = Infallible;

        fn members(&self) -> usize {
            3
        }

        fn set_images(&mut self, _: &[f32]) -> Result<(), Infallible> {
            Ok(())
        }

        fn run(&mut self, member: MemberId) -> Result<Vec<f32>, Infallible> {
            self.world.now.set(self.world.now.get() + self.microseconds[member.0]);
            self.world.ran.borrow_mut().push(member.0);
            Ok(if member.0 == 1 { vec![3f32.ln(), 0.0] } else { vec![0.0, 0.0] })
        }
    }

    /// Members of 4, 1 and 2 ms; more members are right more often, and of two as many the dearer ones.
    fn predictor<'a>(world: &'a World, now: [u64; 3]) -> Predictor<Fakes<'a>, &'a World> {
        let profiled = measure(
            &mut Fakes { world, microseconds: [4000, 1000, 2000] },
            world,
            &[],
            [1, 20],
            Duration::ZERO,
        );
        let Ok(latencies) = profiled;
        world.ran.borrow_mut().clear();
        let logits = vec![vec![0.0; 4]; 3];
        let voices = Voices::new(vec![String::new(); 3], false);
        let predictions = Predictions::new(2, vec![0, 1], logits).unwrap();
        let scores = evaluate_subsets(&predictions, &voices.subsets().unwrap());
        let mut profile = Profile::new(&voices, 1, &scores, &latencies);
        for subset in &mut profile.subsets {
            subset.top1 = 0.5 + 0.1 * subset.members.len() as f64 + subset.time.median_ms / 1000.0;
        }
        Predictor::new(Fakes { world, microseconds: now }, world, profile, 2).unwrap()
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
            assert_eq!((answer.ran, answer.missed), (answer.chosen, false));
        }
    }

    #[test]
    fn what_would_no_longer_fit_is_not_begun() {
        let world = World::default();
        // Member 1 takes 3 ms instead of 1: then 2 (2 ms) would end at 5, still before 7; 0 (4 ms) would end at 9.
        let mut predictor = predictor(&world, [4000, 3000, 2000]);
        let answer = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!((members_of(answer.chosen), members_of(answer.ran)), (vec![0, 1, 2], vec![1, 2]));
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
        assert_eq!((members_of(answer.ran), answer.missed), (vec![1], true));
        assert_eq!(predictor.answers(), Answers { given: 1, missed: 1, cut_short: 1 });
    }

    #[test]
    fn a_deadline_that_nothing_fits_is_refused_before_anything_runs() {
        for deadline in [0, 999] {
            let world = World::default();
            let mut predictor = predictor(&world, [4000, 1000, 2000]);
            let error = predictor.predict(&[], Duration::from_micros(deadline)).unwrap_err().to_string();
            assert!(error.contains("the quickest member needs 1.000 ms"), "{error}");
            assert!(world.ran.borrow().is_empty());
            assert_eq!(predictor.answers(), Answers::default());
        }
    }

    /// Exits that take 4, 1 and 2 ms from the one before; the last is the best, then the mean of the first two.
    fn exits<'a>(world: &'a World, now: [u64; 3]) -> Predictor<Fakes<'a>, &'a World> {
        let members = predictor(world, now);
        let voices = Voices::new(vec![String::new(); 3], true);
        let predictions = Predictions::new(2, vec![0, 1], vec![vec![0.0; 4]; 3]).unwrap();
        let scores = evaluate_subsets(&predictions, &voices.subsets().unwrap());
        let latencies = Latencies::new(vec![vec![4.0, 1.0, 2.0]; 20], vec![0.0; 20]);
        let mut profile = Profile::new(&voices, 1, &scores, &latencies);
        for subset in &mut profile.subsets {
            subset.top1 = [50.0, 60.0, 90.0, 70.0, 80.0][match &members_of(subset.members)[..] {
                [alone] => *alone,
                [0, 1] => 3,
                _ => 4,
            }];
        }
        Predictor::new(members.asked, world, profile, 2).unwrap()
    }

    #[test]
    fn exits_run_in_their_order_and_the_chosen_ones_answer() {
        // Member 1 says 3/4 for the first class, the others 1/2.
        for (deadline, ran, chosen, first) in
            [(4, vec![0], vec![0], 0.5), (6, vec![0, 1], vec![0, 1], 0.625), (7, vec![0, 1, 2], vec![2], 0.5)]
        {
            let world = World::default();
            let answer =
                exits(&world, [4000, 1000, 2000]).predict(&[], Duration::from_millis(deadline)).unwrap();
            assert_eq!((&*world.ran.borrow(), members_of(answer.chosen)), (&ran, chosen), "{deadline} ms");
            assert!((answer.probabilities[0] - first).abs() < 1e-7, "{deadline} ms");
            assert_eq!((answer.ran, answer.missed), (answer.chosen, false));
        }
    }

    #[test]
    fn where_no_chosen_exit_is_reached_the_last_that_ran_answers() {
        let world = World::default();
        // Exit 1 takes 2 ms instead of 1: the last would end at 8.
        let mut predictor = exits(&world, [4000, 2000, 2000]);
        let answer = predictor.predict(&[], Duration::from_millis(7)).unwrap();
        assert_eq!((members_of(answer.chosen), members_of(answer.ran)), (vec![2], vec![1]));
        assert_eq!((answer.used, answer.missed), (Duration::from_millis(6), false));
        assert!((answer.probabilities[0] - 0.75).abs() < 1e-7);
        assert_eq!(predictor.answers(), Answers { given: 1, missed: 0, cut_short: 1 });
        let error = predictor.predict(&[], Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("the quickest exit needs 4.000 ms"), "{error}");
    }

    #[test]
    fn a_profile_of_other_members_is_refused() {
        let world = World::default();
        let mut profile = predictor(&world, [1, 1, 1]).profile().clone();
        profile.names.pop();
        let asked = Fakes { world: &world, microseconds: [1; 3] };
        assert!(Predictor::new(asked, &world, profile, 2).is_err());
    }
}
