//! Which members does a step train? The sandwich rule of Universally Slimmable Networks: the largest and the smallest
//! in every step, and of those between as many as there is room for.
//!
//! ```text
//! at_once = 4, seven members     step 0  L · · b · d · S
//! order of the block: d b e c a  step 1  L · · · c · e S
//!                                step 2  L a · · · d · S     the block's last step is filled from its beginning
//! ```
//!
//! In every block of steps each member between has its turn, in an order drawn anew for the block: a function of (seed,
//! phase, epoch, step), so that nothing of it is kept in checkpoints. Drawn step by step, as published, some members of a
//! short epoch would never come up.

use superweight_plan::MemberId;

use crate::data::{Counter, Phase, Stream};

/// Who has a turn when.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Largest first.
    members: Vec<MemberId>,
    /// Of those between, in one step.
    beside: usize,
    seed: u64,
    phase: Phase,
}

impl Turns {
    /// Of members from the largest to the smallest, so many in a step.
    pub fn new(members: Vec<MemberId>, at_once: usize, seed: u64, phase: Phase) -> Self {
        let all = at_once >= members.len();
        assert!(all || at_once > 2, "beside the largest and the smallest there is one at least");
        let beside = if all { members.len() } else { at_once - 2 };
        Self { members, beside, seed, phase }
    }

    /// Steps in which all members have had a turn.
    pub fn block(&self) -> u64 {
        let between = self.members.len().saturating_sub(2);
        if self.beside > between { 1 } else { between.div_ceil(self.beside) as u64 }
    }

    /// The members that a step of an epoch trains, in their order in the plan.
    pub fn of(&self, epoch: u64, step: u64) -> Vec<MemberId> {
        let mut trained = match &self.members[..] {
            [largest, between @ .., smallest] if self.beside <= between.len() => {
                let order = self.order(between, epoch, step / self.block());
                let from = (step % self.block()) as usize * self.beside;
                let beside = order.into_iter().cycle().skip(from).take(self.beside);
                beside.chain([*largest, *smallest]).collect()
            }
            all => all.to_vec(),
        };
        trained.sort_unstable();
        trained
    }

    /// Of those between, drawn for a block of steps (Fisher–Yates).
    fn order(&self, between: &[MemberId], epoch: u64, block: u64) -> Vec<MemberId> {
        let counter = Counter::new(self.seed, self.phase, epoch);
        let mut order = between.to_vec();
        for i in (1..order.len()).rev() {
            let index = block * between.len() as u64 + i as u64;
            order.swap(i, counter.below(index, Stream::Turn, i as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// Five to seven members, the largest in the middle of the plan.
    fn turns(count: usize, at_once: usize) -> Turns {
        let mut members: Vec<MemberId> = (0..count).map(MemberId).collect();
        members.rotate_left(count / 2);
        Turns::new(members, at_once, 7, Phase::Train)
    }

    #[test]
    fn largest_and_smallest_always_and_everyone_within_a_block() {
        for count in 3..8 {
            for at_once in 3..count {
                let turns = turns(count, at_once);
                let ends = [turns.members[0], turns.members[count - 1]];
                for epoch in 0..3 {
                    for block in 0..5 {
                        let steps = block * turns.block()..(block + 1) * turns.block();
                        let mut seen = HashSet::new();
                        for step in steps {
                            let trained = turns.of(epoch, step);
                            assert_eq!(trained.len(), at_once, "{trained:?}");
                            assert!(trained.windows(2).all(|pair| pair[0] < pair[1]), "{trained:?}");
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
            for at_once in [count, count + 1, 64] {
                let turns = turns(count, at_once);
                assert_eq!(turns.of(3, 5), (0..count).map(MemberId).collect::<Vec<_>>());
                assert_eq!(turns.block(), 1);
            }
        }
    }

    /// Each of the ten pairs of five members between comes up in a tenth of the steps: χ² with 9 degrees of freedom below 38
    /// (p = 2e-5). Two of a block's three steps are drawn without the other having a say; the third is half of what is left.
    #[test]
    fn everyone_between_is_trained_as_often_with_everyone_else() {
        let turns = turns(7, 4);
        let (mut pairs, mut alone) = (HashMap::new(), HashMap::new());
        for epoch in 0..3000 {
            // The first step of an epoch: draws of other epochs are independent.
            let mut trained = turns.of(epoch, 0);
            trained.retain(|member| *member != turns.members[0] && *member != turns.members[6]);
            trained.iter().for_each(|&member| *alone.entry(member).or_insert(0) += 1);
            *pairs.entry(trained).or_insert(0f64) += 1.0;
        }
        assert_eq!((pairs.len(), alone.len()), (10, 5));
        let chi2: f64 = pairs.values().map(|n| (n - 300.0).powi(2) / 300.0).sum();
        assert!(chi2 < 38.0, "{chi2}: {pairs:?}");
    }

    #[test]
    fn turns_depend_on_seed_phase_epoch_and_step_alone() {
        let all = |seed, phase, epoch| -> Vec<_> {
            let turns = Turns::new((0..7).map(MemberId).collect(), 4, seed, phase);
            (0..30).map(|step| turns.of(epoch, step)).collect()
        };
        let one = all(1, Phase::Train, 0);
        assert_eq!(one, all(1, Phase::Train, 0));
        for other in [all(2, Phase::Train, 0), all(1, Phase::Search, 0), all(1, Phase::Train, 1)] {
            assert_ne!(one, other);
        }
    }
}
