//! The members that each training step trains: the sandwich rule of Universally Slimmable Networks.
//!
//! Every step trains the largest and the smallest member, and as many of the middle members as
//! `members_per_step` allows. Example: seven members L a b c d e S with four per step, where the
//! random order of the block is d b e c a:
//!
//! ```text
//! step 0   L · b · d · S
//! step 1   L · · c · e S
//! step 2   L a · · d · S    the last step of a block is filled from the beginning of the order
//! ```
//!
//! Every middle member is trained at least once per block of steps. The order is drawn for each
//! block as a function of (seed, phase, epoch, block), so checkpoints store nothing of it. The
//! published rule draws members for every step independently; some members of a short epoch would
//! then never be trained.

use superweight_plan::{MemberId, SharingPlan};

use super::ensemble::multiply_adds;
use crate::data::{Counter, Phase, Stream};

/// Number of steps in which each of `members` members is trained at least once.
pub(crate) fn steps_per_block(members: usize, members_per_step: usize) -> u64 {
    match members.checked_sub(2) {
        Some(middle) if members_per_step < members => middle.div_ceil(members_per_step - 2) as u64,
        _ => 1,
    }
}

/// Assignment of members to the steps of one training phase.
#[derive(Clone, Debug)]
pub(crate) struct MemberSchedule {
    /// Members, largest first.
    members: Vec<MemberId>,
    /// Number of middle members that a step trains; all members if every step trains all.
    middle_per_step: usize,
    seed: u64,
    phase: Phase,
}

impl MemberSchedule {
    /// A schedule for `members`, given from the largest to the smallest.
    ///
    /// # Panics
    /// If a step trains fewer than three members, and not all of them.
    pub fn new(members: Vec<MemberId>, members_per_step: usize, seed: u64, phase: Phase) -> Self {
        let all = members_per_step >= members.len();
        assert!(
            all || members_per_step > 2,
            "a step trains the largest, the smallest and at least one other member"
        );
        let middle_per_step = if all { members.len() } else { members_per_step - 2 };
        Self { members, middle_per_step, seed, phase }
    }

    /// Number of steps in which every member is trained at least once.
    pub fn steps_per_block(&self) -> u64 {
        steps_per_block(self.members.len(), self.middle_per_step + 2)
    }

    /// Mean multiply-adds of a step, as a share of those of a step that trains all members.
    pub fn work_share(&self, plan: &SharingPlan) -> f64 {
        let work = |members: &[MemberId]| -> f64 {
            members.iter().map(|&member| multiply_adds(plan, member) as f64).sum()
        };
        match &self.members[..] {
            [largest, middle @ .., smallest] if self.middle_per_step <= middle.len() => {
                let mean = work(middle) * self.middle_per_step as f64 / middle.len() as f64;
                (work(&[*largest, *smallest]) + mean) / work(&self.members)
            }
            _ => 1.0,
        }
    }

    /// Members that a step of an epoch trains, in the order of the plan.
    pub fn members_of_step(&self, epoch: u64, step: u64) -> Vec<MemberId> {
        let mut trained = match &self.members[..] {
            [largest, middle @ .., smallest] if self.middle_per_step <= middle.len() => {
                let order = self.order(middle, epoch, step / self.steps_per_block());
                let first = (step % self.steps_per_block()) as usize * self.middle_per_step;
                let chosen = order.into_iter().cycle().skip(first).take(self.middle_per_step);
                chosen.chain([*largest, *smallest]).collect()
            }
            all => all.to_vec(),
        };
        trained.sort_unstable();
        trained
    }

    /// The middle members in the random order of one block of steps.
    fn order(&self, middle: &[MemberId], epoch: u64, block: u64) -> Vec<MemberId> {
        let counter = Counter::new(self.seed, self.phase, epoch);
        let mut order = middle.to_vec();
        counter.shuffle(&mut order, block * middle.len() as u64, Stream::Turn);
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

    /// A schedule of `count` members whose largest member stands in the middle of the plan.
    fn schedule(count: usize, members_per_step: usize) -> MemberSchedule {
        let mut members: Vec<MemberId> = (0..count).map(MemberId).collect();
        members.rotate_left(count / 2);
        MemberSchedule::new(members, members_per_step, 7, Phase::Train)
    }

    #[test]
    fn every_step_trains_largest_and_smallest_and_every_block_trains_all() {
        for count in 3..8 {
            for members_per_step in 3..count {
                let schedule = schedule(count, members_per_step);
                let ends = [schedule.members[0], schedule.members[count - 1]];
                for epoch in 0..3 {
                    for block in 0..5 {
                        let steps = block * schedule.steps_per_block()
                            ..(block + 1) * schedule.steps_per_block();
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
                        assert_eq!(seen.len(), count, "the block trains every member");
                    }
                }
            }
        }
    }

    #[test]
    fn a_step_with_room_for_all_members_trains_all() {
        for count in 1..5 {
            for members_per_step in [count, count + 1, 64] {
                let schedule = schedule(count, members_per_step);
                assert_eq!(
                    schedule.members_of_step(3, 5),
                    (0..count).map(MemberId).collect::<Vec<_>>()
                );
                assert_eq!(schedule.steps_per_block(), 1);
            }
        }
    }

    /// With five middle members and two per step there are ten pairs. Over 1,000 epochs of two
    /// blocks each pair is trained in a tenth of the first, second and third steps of blocks: χ²
    /// with 9 degrees of freedom stays below 38 (p = 2e-5).
    #[test]
    fn all_pairs_of_middle_members_are_trained_equally_often() {
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

    /// Three middle members have six orders, so a sixth of the blocks repeat the order before.
    #[test]
    fn every_block_draws_its_own_order() {
        let schedule = schedule(5, 3);
        let block = |block: u64| {
            (0..3).map(|step| schedule.members_of_step(0, 3 * block + step)).collect::<Vec<_>>()
        };
        let again = (0..600).filter(|&n| block(n) == block(n + 1)).count();
        assert!((60..140).contains(&again), "{again} of 600, where 100 ± 9 are expected");
    }

    /// The formula agrees with the multiply-adds counted over one block of steps.
    #[test]
    fn work_share_equals_the_counted_share() {
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
        assert!(
            (schedule.work_share(&plan) - done / (2.0 * work(&schedule.members))).abs() < 1e-12
        );
        assert_eq!(MemberSchedule::new(by_size(&plan), 4, 0, Phase::Train).work_share(&plan), 1.0);
    }

    #[test]
    fn the_schedule_depends_on_seed_phase_and_epoch() {
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
