//! Search for the fastest plan of a convolution within a time limit.
//!
//! It first measures the proposals of the heuristics. A full search then varies the knobs of the
//! two best engines one after another (coordinate descent). The winner must agree with the first
//! proposal and with itself. Not used: engines that compile their kernel at run time and that the
//! heuristics do not propose for a plain convolution. On WRN-28-10's three large shapes the best of
//! the 12–65 kernels tried took 1.01–1.71 times as long (`docs/decisions/0015`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::conv::Conv;
use super::engine::{Choice, Config, Knob, MODES, knobs, proposals};
use super::graph::{Graph, Target};
use super::plan::Plan;
use super::timing::Bench;
use crate::cuda::tuning::Tuning;
use crate::error::CudaError;

/// Replays per candidate. Finalists get several rounds in turns, because a warm GPU slows down.
pub(super) const REPEATS: usize = 5;
const FINAL_ROUNDS: usize = 5;
const FINALISTS: usize = 4;
/// Knobs with more values are tried near their current value only.
const FEW_VALUES: i64 = 24;
/// Number of engines whose knobs are varied.
const VARIED_ENGINES: usize = 2;

impl Tuning {
    /// Time limit per convolution.
    pub(super) fn limit(self) -> Duration {
        match self {
            Tuning::Heuristic => Duration::ZERO,
            Tuning::Quick => Duration::from_secs(1),
            Tuning::Full => Duration::from_secs(4),
        }
    }
}

/// Result of a search.
pub(super) struct Found {
    pub(super) plan: Plan,
    /// Median time of a run.
    pub(super) microseconds: f64,
    /// All configurations that ran, with their times.
    #[cfg_attr(not(test), expect(dead_code, reason = "tables of measurements are made by tests"))]
    pub(super) times: HashMap<Choice, f64>,
}

/// Finds the best plan within a tuning level and a time limit.
pub(super) fn best(
    bench: &Bench<'_>,
    target: &Target,
    graph: &Arc<Graph>,
    conv: &Conv,
    tuning: Tuning,
    limit: Duration,
) -> Result<Found, CudaError> {
    let mut search = Search {
        bench,
        target,
        graph,
        conv,
        deadline: Instant::now() + limit,
        tried: HashSet::new(),
        times: HashMap::new(),
        ran: vec![],
        refusal: String::from("no proposal of the heuristics is deterministic and precise enough"),
    };
    search.try_proposals();
    if tuning == Tuning::Full {
        search.vary_knobs()?;
    }
    search.finish()
}

struct Search<'a> {
    bench: &'a Bench<'a>,
    target: &'a Target,
    graph: &'a Arc<Graph>,
    conv: &'a Conv,
    deadline: Instant,
    tried: HashSet<Choice>,
    times: HashMap<Choice, f64>,
    /// Plans in the order tried. The others are compared with the first.
    ran: Vec<(f64, Plan)>,
    refusal: String,
}

impl Search<'_> {
    /// At least one plan must run; after that the deadline applies.
    fn over(&self) -> bool {
        !self.ran.is_empty() && Instant::now() >= self.deadline
    }

    fn best_time(&self) -> f64 {
        self.ran.iter().map(|(time, _)| *time).fold(f64::INFINITY, f64::min)
    }

    fn attempt(&mut self, config: Config) {
        if !self.tried.insert(config.choice.clone()) {
            return;
        }
        let choice = config.choice.clone();
        let timed = Plan::new(self.target, self.graph, config)
            .and_then(|plan| Ok((self.bench.measure(&plan, self.best_time(), REPEATS)?, plan)));
        match timed {
            Ok((time, plan)) => {
                self.times.insert(choice, time);
                self.ran.push((time, plan));
            }
            Err(error) => self.refusal = error.to_string(),
        }
    }

    fn attempt_choice(&mut self, choice: &Choice) {
        if !self.tried.contains(choice) {
            match Config::new(self.target, self.graph, choice, self.conv.precision) {
                Ok(config) => self.attempt(config),
                Err(_) => _ = self.tried.insert(choice.clone()),
            }
        }
    }

    fn try_proposals(&mut self) {
        for (index, mode) in MODES.into_iter().enumerate() {
            if index + 1 == MODES.len() && !self.ran.is_empty() {
                return;
            }
            match proposals(self.target, self.graph, mode, self.conv.precision) {
                Ok(configs) => {
                    for config in configs {
                        if self.over() {
                            return;
                        }
                        self.attempt(config);
                    }
                }
                Err(error) => self.refusal = error.to_string(),
            }
        }
    }

    /// Varies one knob after another of the best configuration of each of the best engines, until
    /// none helps.
    fn vary_knobs(&mut self) -> Result<(), CudaError> {
        for mut choice in self.best_of_engines() {
            let knobs = knobs(self.target, self.graph, choice.engine)?;
            let mut improved = true;
            while improved && !self.over() {
                improved = false;
                for knob in &knobs {
                    let Some(at) = choice.knobs.iter().position(|(kind, _)| *kind == knob.kind)
                    else {
                        continue;
                    };
                    for value in values(knob, choice.knobs[at].1) {
                        if self.over() {
                            return Ok(());
                        }
                        let mut other = choice.clone();
                        other.knobs[at].1 = value;
                        self.attempt_choice(&other);
                        let time = |c: &Choice| self.times.get(c).copied().unwrap_or(f64::INFINITY);
                        if time(&other) < time(&choice) {
                            choice = other;
                            improved = true;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Fastest configuration of each engine, fastest engine first.
    fn best_of_engines(&self) -> Vec<Choice> {
        let mut ranked: Vec<_> = self.times.iter().collect();
        ranked.sort_by(|a, b| a.1.total_cmp(b.1).then_with(|| a.0.knobs.cmp(&b.0.knobs)));
        let mut best: Vec<Choice> = vec![];
        for (choice, _) in ranked {
            if best.len() < VARIED_ENGINES && best.iter().all(|other| other.engine != choice.engine)
            {
                best.push(choice.clone());
            }
        }
        best
    }

    /// Measures the finalists again at length. Returns the fastest that agrees.
    fn finish(mut self) -> Result<Found, CudaError> {
        if self.ran.is_empty() {
            return Err(CudaError::call(
                format!("planning the convolution {}", self.conv),
                self.refusal,
            ));
        }
        let mut order: Vec<usize> = (0..self.ran.len()).collect();
        order.sort_by(|&a, &b| self.ran[a].0.total_cmp(&self.ran[b].0));
        let mut rounds: Vec<(Vec<f64>, usize)> =
            order.iter().take(FINALISTS).map(|&index| (vec![], index)).collect();
        for _ in 0..FINAL_ROUNDS {
            for (times, index) in &mut rounds {
                times.push(self.bench.measure(&self.ran[*index].1, f64::INFINITY, REPEATS)?);
            }
        }
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let mut finalists: Vec<_> =
            rounds.into_iter().map(|(times, index)| (median(times), index)).collect();
        finalists.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The first proposal is last in the list. If it does not agree with itself, no plan does.
        finalists.push((self.ran[0].0, 0));
        for (microseconds, index) in finalists {
            if self.bench.agrees(&self.ran[index].1, &self.ran[0].1)? {
                let plan = self.ran.swap_remove(index).1;
                return Ok(Found { plan, microseconds, times: self.times });
            }
            eprintln!(
                "warning: {}: {} gives wrong results and is not used",
                self.conv,
                self.ran[index].1.choice()
            );
        }
        Err(CudaError::call(
            format!("planning the convolution {}", self.conv),
            "no plan gives the same result twice",
        ))
    }
}

/// Values of a knob worth trying: all if they are few, otherwise those near the current value.
fn values(knob: &Knob, at: i64) -> Vec<i64> {
    match (knob.most - knob.least) / knob.stride <= FEW_VALUES {
        true => (knob.least..=knob.most).step_by(knob.stride as usize).collect(),
        false => {
            let near = [at / 2, at - 1, at + 1, at + 2, at * 2, 1, 2, 3, 4, 6, 8, 12, 16];
            let mut near: Vec<i64> =
                near.into_iter().filter(|v| (knob.least..=knob.most).contains(v)).collect();
            near.sort_unstable();
            near.dedup();
            near
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ranges_are_tried_near_the_current_value() {
        let knob = |kind, least, most| Knob { kind, least, most, stride: 1 };
        assert_eq!(values(&knob(2, 0, 3), 1), [0, 1, 2, 3]);
        assert_eq!(values(&knob(2, 0, 23), 5).len(), 24);
        let split_k = values(&knob(17, 1, 2048), 10);
        assert!(
            [5, 9, 11, 20].iter().all(|v| split_k.contains(v)) && split_k.len() < 24,
            "{split_k:?}"
        );
        assert!(values(&knob(17, 1, 128), 1).iter().all(|v| (1..=128).contains(v)));
    }
}
