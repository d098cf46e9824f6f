//! Checks whether deadlines are kept: profiles the members of a run, then makes many predictions
//! with deadlines in one process.
//!
//! ```text
//! cargo run --release -p superweight --example deadlines -- RUN 1000
//! ```
//!
//! The image is decoded and members are loaded before the clock starts. For every deadline the
//! program prints which members ran, the share of predictions in time, and their median time beside
//! that of the profile. Predictions with different deadlines alternate, so that a slow moment of
//! the machine affects all.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use superweight::engine::CpuDevice;
use superweight::evaluate::{Predictions, evaluate_subsets};
use superweight::infer::Trained;
use superweight::infer::anytime::{Predictor, Profile, SystemClock, measure};
use superweight::model::Subset;

/// Ratio of a deadline to the 99th percentile of the time in the profile.
const SLACK: f64 = 1.5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, calls] = &arguments[..] else { return Err("usage: deadlines RUN CALLS".into()) };
    let (trained, calls) = (Trained::open(Path::new(run))?, calls.parse::<usize>()?);
    let mut networks = trained.networks(&CpuDevice::new(0)?, 1)?;
    let image = vec![0.25; networks.image_len()];
    let latencies = measure(
        &mut networks,
        &SystemClock::default(),
        &image,
        [20, 1000],
        Duration::from_secs(5),
    )?;
    // Only times matter here. More members count as more accurate.
    let (outputs, classes) = (networks.outputs().clone(), networks.classes());
    let members = outputs.count();
    let predictions = Predictions::new(classes, vec![0], vec![vec![0.0; classes]; members])?;
    let scores = evaluate_subsets(&predictions, &outputs.subsets()?);
    let mut profile = Profile::new(&outputs, 1, &scores, &latencies);
    profile.subsets.iter_mut().for_each(|subset| subset.top1 = subset.members.len() as f64);
    let deadline = |subset: Subset| {
        let time = profile.subset(subset).expect("every subset is there").time;
        (Duration::from_secs_f64(SLACK * time.p99_ms / 1e3), time)
    };
    let mut by_size: Vec<Subset> = vec![];
    for size in 1..=members {
        let of_size = profile.subsets.iter().filter(|subset| subset.members.len() == size);
        let quickest = of_size.min_by(|a, b| a.time.p99_ms.total_cmp(&b.time.p99_ms));
        by_size.extend(quickest.map(|subset| subset.members));
    }
    let deadlines: Vec<_> = by_size.into_iter().map(deadline).collect();
    println!("load {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    let mut predictor = Predictor::new(networks, SystemClock::default(), profile, classes)?;
    let mut rows = vec![(vec![], 0, Subset::EMPTY); deadlines.len()];
    for _ in 0..calls {
        for ((deadline, _), (times, missed, ran)) in deadlines.iter().zip(&mut rows) {
            let answer = predictor.predict(&image, *deadline)?;
            times.push(answer.used.as_secs_f64() * 1e3);
            *missed += usize::from(answer.missed);
            *ran = if ran.is_empty() { answer.chosen } else { *ran };
        }
    }
    for ((deadline, _), (times, missed, ran)) in deadlines.iter().zip(&mut rows) {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        let profiled =
            predictor.profile().subset(*ran).expect("every subset is there").time.median_ms;
        let kept = 100.0 * (calls - *missed) as f64 / calls as f64;
        println!(
            "deadline {:8.3} ms: members {ran:<8} {kept:6.2}% of {calls} kept, median {median:.3} ms, profile {profiled:.3} ms ({:+.1}%)",
            deadline.as_secs_f64() * 1e3,
            100.0 * (median / profiled - 1.0)
        );
    }
    println!("{:?}, load {}", predictor.counts(), std::fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}
