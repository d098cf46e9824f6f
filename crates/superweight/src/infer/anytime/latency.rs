//! How long every member takes, measured in turn: member 0, 1, 2, 0, 1, 2, …
//!
//! In turn and not one after another, because that is how an ensemble runs: each finds the caches as the one before left
//! them, and a slow moment of the machine falls on all alike. A subset's time in a round is the sum of its members' in
//! that round, so its p99 is measured and not a sum of p99s, which would be far too careful.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Predict, Clock};
use crate::model::Subset;
use crate::model::OutputId;

/// Median and 99th percentile, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Half of the calls took no longer.
    pub median_ms: f64,
    /// 99 of 100 calls took no longer.
    pub p99_ms: f64,
}

impl Summary {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            times[((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1]
        };
        Self { median_ms: at(0.5), p99_ms: at(0.99) }
    }
}

/// Times of every member in every round, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// `[round][member]`.
    rounds: Vec<Vec<f64>>,
    /// `[round]`: what a call takes besides its members (the images' way to the device).
    overhead: Vec<f64>,
}

impl Latencies {
    /// From times measured elsewhere.
    ///
    /// # Panics
    /// Where there is no round.
    pub fn new(rounds: Vec<Vec<f64>>, overhead: Vec<f64>) -> Self {
        assert!(
            !rounds.is_empty() && rounds.len() == overhead.len(),
            "latencies come from at least one round"
        );
        Self { rounds, overhead }
    }

    /// How many rounds were measured.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// One member by itself, without the overhead of a call.
    pub fn member(&self, member: OutputId) -> Summary {
        Summary::of(self.rounds.iter().map(|round| round[member.0]).collect())
    }

    /// A call that runs these members.
    pub fn subset(&self, subset: Subset) -> Summary {
        let time = |(round, overhead): (&Vec<f64>, &f64)| {
            overhead + subset.outputs().map(|output| round[output.0]).sum::<f64>()
        };
        Summary::of(self.rounds.iter().zip(&self.overhead).map(time).collect())
    }
}

/// Runs every member in turn, `warmup_epochs` rounds unmeasured and then until `time` has passed, at least `least` rounds.
pub fn measure<A: Predict>(
    asked: &mut A,
    clock: &impl Clock,
    images: &[f32],
    [warmup_epochs, least]: [usize; 2],
    time: Duration,
) -> Result<Latencies, A::Error> {
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    let (mut rounds, mut overhead) = (vec![], vec![]);
    let mut begin = clock.now();
    for round in 0.. {
        if round == warmup_epochs {
            begin = clock.now();
        }
        if round >= warmup_epochs + least.max(1) && clock.now() - begin >= time {
            break;
        }
        let start = clock.now();
        asked.set_images(images)?;
        let mut before = clock.now();
        let set = milliseconds(before - start);
        let mut times = Vec::with_capacity(asked.outputs().count());
        for output in (0..asked.outputs().count()).map(OutputId) {
            asked.run(output)?;
            let now = clock.now();
            times.push(milliseconds(now - before));
            before = now;
        }
        if round >= warmup_epochs {
            rounds.push(times);
            overhead.push(set);
        }
    }
    Ok(Latencies::new(rounds, overhead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sums() {
        // Member 0 is slow in one round of 100, member 1 in another: neither p99 is the sum of both.
        let round =
            |i: usize| vec![if i == 3 { 50.0 } else { 1.0 }, if i == 7 { 50.0 } else { 2.0 }];
        let latencies = Latencies::new((0..100).map(round).collect(), vec![0.5; 100]);
        assert_eq!(latencies.member(OutputId(0)), Summary { median_ms: 1.0, p99_ms: 1.0 });
        assert_eq!(latencies.subset(Subset::all(2)), Summary { median_ms: 3.5, p99_ms: 51.5 });
        assert_eq!(Summary::of(vec![4.0]), Summary { median_ms: 4.0, p99_ms: 4.0 });
    }
}
