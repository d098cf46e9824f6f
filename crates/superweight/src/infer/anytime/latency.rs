//! Latency of every member, measured in turn: member 0, 1, 2, 0, 1, 2, …
//!
//! Members run in turn because that is how an ensemble runs: each one finds the caches as the one
//! before left them, and a slow moment of the machine affects all members equally. A subset's time
//! in a round is the sum of its members' times in that round. Its p99 is therefore measured; the
//! sum of the members' p99s would be far too pessimistic.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::predict::Predict;
use crate::model::{OutputId, Subset};

/// Median and 99th percentile of a time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Median time.
    pub median_ms: f64,
    /// 99th percentile of the time.
    pub p99_ms: f64,
}

impl Summary {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            times[((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1]
        };
        Self { median_ms: quantile(0.5), p99_ms: quantile(0.99) }
    }
}

/// Time of every output in every round, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// Times `[round][output]`.
    rounds: Vec<Vec<f64>>,
    /// Time of each round outside its outputs: the copy of the images to the device.
    overhead: Vec<f64>,
}

impl Latencies {
    /// Latencies from times `[round][output]` and the overhead of each round.
    ///
    /// # Panics
    /// If there is no round, or if the numbers of rounds differ.
    pub fn new(rounds: Vec<Vec<f64>>, overhead: Vec<f64>) -> Self {
        assert!(
            !rounds.is_empty() && rounds.len() == overhead.len(),
            "latencies come from at least one round"
        );
        Self { rounds, overhead }
    }

    /// Number of measured rounds.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Time of one output, without the overhead of a call.
    pub fn output(&self, output: OutputId) -> Summary {
        Summary::of(self.rounds.iter().map(|round| round[output.0]).collect())
    }

    /// Time of a call that runs these outputs, with its overhead.
    pub fn subset(&self, subset: Subset) -> Summary {
        let time = |(round, overhead): (&Vec<f64>, &f64)| {
            overhead + subset.outputs().map(|output| round[output.0]).sum::<f64>()
        };
        Summary::of(self.rounds.iter().zip(&self.overhead).map(time).collect())
    }
}

/// Runs every output in turn: `warmup` rounds that are not measured, then rounds until `time` has
/// passed, at least `least` of them.
pub fn measure<A: Predict>(
    networks: &mut A,
    clock: &impl Clock,
    images: &[f32],
    [warmup, least]: [usize; 2],
    time: Duration,
) -> Result<Latencies, A::Error> {
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    let (mut rounds, mut overhead) = (vec![], vec![]);
    let mut begin = clock.now();
    for round in 0.. {
        if round == warmup {
            begin = clock.now();
        }
        if round >= warmup + least.max(1) && clock.now() - begin >= time {
            break;
        }
        let start = clock.now();
        networks.set_images(images)?;
        let mut before = clock.now();
        let set = milliseconds(before - start);
        let mut times = Vec::with_capacity(networks.outputs().count());
        for output in (0..networks.outputs().count()).map(OutputId) {
            networks.run(output)?;
            let now = clock.now();
            times.push(milliseconds(now - before));
            before = now;
        }
        if round >= warmup {
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
    fn the_percentile_of_a_subset_is_that_of_its_sums() {
        // Member 0 is slow in one round of 100, member 1 in another: neither p99 is the sum of
        // both.
        let round =
            |i: usize| vec![if i == 3 { 50.0 } else { 1.0 }, if i == 7 { 50.0 } else { 2.0 }];
        let latencies = Latencies::new((0..100).map(round).collect(), vec![0.5; 100]);
        assert_eq!(latencies.output(OutputId(0)), Summary { median_ms: 1.0, p99_ms: 1.0 });
        assert_eq!(latencies.subset(Subset::all(2)), Summary { median_ms: 3.5, p99_ms: 51.5 });
        assert_eq!(Summary::of(vec![4.0]), Summary { median_ms: 4.0, p99_ms: 4.0 });
    }
}
