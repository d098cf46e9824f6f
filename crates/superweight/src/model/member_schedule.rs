//! Which members does a step train? The sandwich rule of Universally Slimmable Networks: the largest and the smallest
//! in every step, and of those between as many as there is room for.
//!
//! ```text
//! members_per_step = 4, seven members     step 0  L · · b · d · S
//! order of the block: d b e c a  step 1  L · · · c · e S
//!                                step 2  L a · · · d · S     the block's last step is filled from its beginning
//! ```
//!
//! In every block of steps each member between has its turn, in an order drawn anew for the block: a function of (seed,
//! phase, epoch, step), so that nothing of it is kept in checkpoints. Drawn step by step, as published, some members of a
//! short epoch would never come up.

use superweight_plan::{MemberId, SharingPlan};

use super::ensemble::multiply_adds;
use crate::data::{Counter, Phase, Stream};

/// Steps in which each of so many members has had a turn, so many in a step.
pub(crate) fn steps_per_block(members: usize, members_per_step: usize) -> u64 {
    match members.checked_sub(2) {
        Some(between) if members_per_step < members => {
            between.div_ceil(members_per_step - 2) as u64
        }
        _ => 1,
    }
}

/// Who has a turn when.
#[derive(Clone, Debug)]
pub(crate) struct MemberSchedule {
    /// Largest first.
    members: Vec<MemberId>,
    /// Of those between, in one step.
    between_per_step: usize,
    seed: u64,
    phase: Phase,
}

impl MemberSchedule {
    /// Of members from the largest to the smallest, so many in a step.
    pub fn new(members: Vec<MemberId>, members_per_step: usize, seed: u64, phase: Phase) -> Self {
        let all = members_per_step >= members.len();
        assert!(
            all || members_per_step > 2,
            "between_per_step the largest and the smallest there is one at least"
        );
        let between_per_step = if all { members.len() } else { members_per_step - 2 };
        Self { members, between_per_step, seed, phase }
    }

    /// Steps in which all members have had a turn.
    pub fn steps_per_block(&self) -> u64 {
        steps_per_block(self.members.len(), self.between_per_step + 2)
    }

    /// Split of all members' work that a step does, on average.
    pub fn work_share(&self, plan: &SharingPlan) -> f64 {
        let work = |members: &[MemberId]| -> f64 {
            members.iter().map(|&member| multiply_adds(plan, member) as f64).sum()
        };
        match &self.members[..] {
            [largest, between @ .., smallest] if self.between_per_step <= between.len() => {
                let between_per_step = work(between) * self.between_per_step as f64 / between.len() as f64;
                (work(&[*largest, *smallest]) + between_per_step) / work(&self.members)
            }
            _ => 1.0,
        }
    }

    /// The members that a step of an epoch trains, in their order in the plan.
    pub fn members_of_step(&self, epoch: u64, step: u64) -> Vec<MemberId> {
        let mut trained = match &self.members[..] {
            [largest, between @ .., smallest] if self.between_per_step <= between.len() => {
                let order = self.order(between, epoch, step / self.steps_per_block());
                let from = (step % self.steps_per_block()) as usize * self.between_per_step;
                let between_per_step = order.into_iter().cycle().skip(from).take(self.between_per_step);
                between_per_step.chain([*largest, *smallest]).collect()
            }
            all => all.to_vec(),
        };
        trained.sort_unstable();
        trained
    }

    /// Of those between, drawn for a block of steps.
    fn order(&self, between: &[MemberId], epoch: u64, block: u64) -> Vec<MemberId> {
        let counter = Counter::new(self.seed, self.phase, epoch);
        let mut order = between.to_vec();
        counter.shuffle(&mut order, block * between.len() as u64, Stream::Turn);
        order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use superweight_plan::arch::ImageShape;
    use superweight_plan::{Member, PlanRequest};

    use super::*;
    use crate::model::ensemble::by_size;

    /// Five to seven members, the largest in the middle of the plan.
    fn schedule(count: usize, members_per_step: usize) -> MemberSchedule {
        let mut members: Vec<MemberId> = (0..count).map(MemberId).collect();
        members.rotate_left(count / 2);
        MemberSchedule::new(members, members_per_step, 7, Phase::Train)
    }

    #[test]
    fn largest_and_smallest_always_and_everyone_within_a_block() {
        for count in 3..8 {
            for members_per_step in 3..count {
                let schedule = schedule(count, members_per_step);
                let ends = [schedule.members[0], schedule.members[count - 1]];
                for epoch in 0..3 {
                    for block in 0..5 {
                        let steps = block * schedule.steps_per_block()..(block + 1) * schedule.steps_per_block();
                        let mut seen = HashSet::new();
                        for step in steps {
                            let trained = schedule.members_of_step(epoch, step);
                            assert_eq!(trained.len(), members_per_step, "{trained:?}");
                            assert!(
                                trained.windows(2).all(|pair| pair[0] < pair[1]),
                                "{trained:?}"
                            );
                            assert!(ends.iter().all(|end| trained.contains(end)), "{trained:?}");
                            seen.extend(trained);
                        }
                        assert_eq!(seen.len(), count, "all have had a turn");
                    }
                }
            }
        }
    }

    #[test]
    fn as_many_as_there_are_is_everyone_in_every_step() {
        for count in 1..5 {
            for members_per_step in [count, count + 1, 64] {
                let schedule = schedule(count, members_per_step);
                assert_eq!(schedule.members_of_step(3, 5), (0..count).map(MemberId).collect::<Vec<_>>());
                assert_eq!(schedule.steps_per_block(), 1);
            }
        }
    }

    /// Five members between, two in a step: in the steps of a kind (the first, second or third of their block) each of the ten pairs
    /// comes up in a tenth, over 1,000 epochs of two blocks. χ² with 9 degrees of freedom below 38 (p = 2e-5).
    #[test]
    fn everyone_between_is_trained_as_often_with_everyone_else() {
        let schedule = schedule(7, 4);
        for of_block in 0..3 {
            let mut pairs = HashMap::new();
            for (epoch, block) in (0..1000).flat_map(|epoch| [0, 1].map(|block| (epoch, block))) {
                let mut trained = schedule.members_of_step(epoch, 3 * block + of_block);
                trained.retain(|member| {
                    *member != schedule.members[0] && *member != schedule.members[6]
                });
                *pairs.entry(trained).or_insert(0f64) += 1.0;
            }
            assert_eq!(pairs.len(), 10);
            let chi2: f64 = pairs.values().map(|n| (n - 200.0).powi(2) / 200.0).sum();
            assert!(chi2 < 38.0, "step {of_block} of a block: {chi2}: {pairs:?}");
        }
    }

    /// Of six orders of three members between, one is drawn for every block: the same order twice running in a sixth.
    #[test]
    fn every_block_has_an_order_of_its_own() {
        let schedule = schedule(5, 3);
        let block =
            |block: u64| (0..3).map(|step| schedule.members_of_step(0, 3 * block + step)).collect::<Vec<_>>();
        let again = (0..600).filter(|&n| block(n) == block(n + 1)).count();
        assert!((60..140).contains(&again), "{again} of 600, where 100 ± 9 are expected");
    }

    /// Of what a step does: measured over many steps, and reckoned.
    #[test]
    fn share_of_the_work() {
        let member = |name: &str| Member {
            architecture: name.parse().unwrap(),
            input: ImageShape::CIFAR,
            classes: 10,
        };
        let members = ["wrn-10-4", "wrn-10-3", "wrn-10-2", "wrn-10-1"].map(member).to_vec();
        let plan = PlanRequest::new(members, None).plan().unwrap();
        let schedule = MemberSchedule::new(by_size(&plan), 3, 0, Phase::Train);
        let work = |members: &[MemberId]| {
            members.iter().map(|&m| multiply_adds(&plan, m)).sum::<u64>() as f64
        };
        let done: f64 = (0..2).map(|step| work(&schedule.members_of_step(0, step))).sum();
        assert!((schedule.work_share(&plan) - done / (2.0 * work(&schedule.members))).abs() < 1e-12);
        assert_eq!(MemberSchedule::new(by_size(&plan), 4, 0, Phase::Train).work_share(&plan), 1.0);
    }

    #[test]
    fn turns_depend_on_seed_phase_epoch_and_step_alone() {
        let all = |seed, phase, epoch| -> Vec<_> {
            let schedule = MemberSchedule::new((0..7).map(MemberId).collect(), 4, seed, phase);
            (0..30).map(|step| schedule.members_of_step(epoch, step)).collect()
        };
        let one = all(1, Phase::Train, 0);
        assert_eq!(one, all(1, Phase::Train, 0));
        for other in [all(2, Phase::Train, 0), all(1, Phase::Search, 0), all(1, Phase::Train, 1)] {
            assert_ne!(one, other);
        }
    }
}
