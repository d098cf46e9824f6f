//! Who is better and how fast: both runs evaluated and timed here and now, through what `swn eval` and `swn anytime` do.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use superweight::infer::anytime::{PROFILE, Profile, SubsetProfile};
use superweight::engine::Device;
use superweight::model::ensemble::member_numbers;
use superweight::evaluate::Predictions;
use superweight::model::Subset;
use superweight::infer::Trained;
use superweight::plan::number::with_commas;
use superweight::plan::{MemberId, SharingPlan};

use crate::args::{AnytimeArgs, DemoArgs, EvalArgs, OnArgs};
use crate::commands::anytime::profiles;
use crate::commands::eval::evaluate;
use crate::commands::search::cluster_table;
use crate::table;

/// How long a run's members are timed.
const SECONDS: f64 = 1.5;

/// A row of the table.
struct Row {
    name: String,
    numbers: u64,
    top1: f64,
    /// Of one image, weights composed beforehand.
    milliseconds: f64,
}

/// What the demo found.
pub struct Verdict {
    rows: Vec<Row>,
    plan: SharingPlan,
    images: String,
    pair: Pair,
}

/// Two classifiers on the same images: what their difference is known by.
struct Pair {
    images: usize,
    /// Images that only the shared ensemble is right about.
    ensemble: usize,
    /// Images that only the plain network is right about.
    plain: usize,
}

impl Pair {
    /// From the predictions that evaluating left in the folders.
    fn of(runs: [&Path; 2]) -> Result<Self> {
        let right = |run: &Path| -> Result<Vec<bool>> {
            let found = Predictions::load(&run.join("evaluation/test.safetensors"))?;
            let answers = found.classes_of(Subset::all(found.outputs()));
            Ok(answers.iter().zip(found.labels()).map(|(answer, label)| answer == label).collect())
        };
        let (shared, plain) = (right(runs[0])?, right(runs[1])?);
        let only = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| **a && !**b).count();
        Ok(Self {
            images: shared.len(),
            ensemble: only(&shared, &plain),
            plain: only(&plain, &shared),
        })
    }

    /// Points that the ensemble is ahead by, and the deviation of that were other images drawn.
    fn points(&self) -> (f64, f64) {
        let [images, ensemble, plain] = [self.images, self.ensemble, self.plain].map(|n| n as f64);
        let ahead = ensemble - plain;
        let deviation = (ensemble + plain - ahead * ahead / images).sqrt();
        (100.0 * ahead / images, 100.0 * deviation / images)
    }

    fn to_text(&self) -> String {
        let (ahead, deviation) = self.points();
        format!(
            "only the ensemble is right {} times, only the plain network {}: {ahead:+.2} ± {deviation:.2} points",
            self.ensemble, self.plain
        )
    }
}

impl Verdict {
    /// Of the shared run and the plain one. Their figures and profiles are kept in their folders.
    pub fn new<D: Device>(
        device: &D,
        where_: &str,
        args: &DemoArgs,
        runs: [&Path; 2],
    ) -> Result<Self> {
        let [(shared, profile), (plain, alone)] = [
            look(device, where_, args, runs[0]).with_context(|| runs[0].display().to_string())?,
            look(device, where_, args, runs[1]).with_context(|| runs[1].display().to_string())?,
        ];
        let mut rows = rows(&shared.plan, &profile);
        rows.extend(self::rows(&plain.plan, &alone));
        Ok(Self { rows, plan: shared.plan, images: profile.data, pair: Pair::of(runs)? })
    }

    pub fn to_text(&self) -> String {
        let row = |row: &Row| {
            let Row { name, numbers, top1, milliseconds } = row;
            vec![
                name.clone(),
                with_commas(*numbers),
                format!("{top1:.2}%"),
                format!("{milliseconds:.2}"),
            ]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        format!(
            "{}\non {}; milliseconds for one image\n{}\n\nwho shares with whom\n{}",
            table::render(&["", "numbers", "top-1", "ms"], &rows),
            self.images,
            self.pair.to_text(),
            cluster_table(&self.plan),
        )
    }

    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            let Row { name, numbers, top1, milliseconds } = row;
            json!({ "name": name, "numbers": numbers, "top1": top1, "milliseconds": milliseconds })
        };
        let (ahead, deviation) = self.pair.points();
        json!({
            "on": self.images,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "right_alone": { "ensemble": self.pair.ensemble, "plain": self.pair.plain },
            "ahead": { "points": ahead, "deviation": deviation },
        })
    }
}

/// Evaluates and times a run, and keeps what was found.
fn look<D: Device>(
    device: &D,
    where_: &str,
    args: &DemoArgs,
    run: &Path,
) -> Result<(Trained, Profile)> {
    let on = || OnArgs { device: args.on.device.clone(), threads: args.on.threads, json: false };
    let trained = Trained::open(run)?;
    evaluate(device, &EvalArgs::of(run, on()), &trained)?;
    let timed = AnytimeArgs { seconds: SECONDS, ..AnytimeArgs::of(run, on()) };
    let mut made = vec![];
    profiles(device, where_, &timed, &trained, |profile| {
        made.push(profile);
        Ok(())
    })?;
    let profile = made.swap_remove(0);
    profile.save(&run.join(PROFILE))?;
    Ok((trained, profile))
}

/// The ensemble first, then its members.
fn rows(plan: &SharingPlan, profile: &Profile) -> Vec<Row> {
    let members = plan.members.len();
    let mut subsets: Vec<&SubsetProfile> = profile.subsets.iter().collect();
    subsets.retain(|subset| [1, members].contains(&subset.members.outputs().count()));
    subsets.sort_by_key(|subset| std::cmp::Reverse(subset.members.outputs().count()));
    let row = |subset: &&SubsetProfile| {
        let alone: Vec<usize> = subset.members.outputs().map(|output| output.0).collect();
        let (name, numbers) = match (members, &alone[..]) {
            (1, &[m]) => (format!("plain {}", plan.members[m].architecture), plan.bill.trained()),
            (_, &[m]) => {
                (format!("  {}", plan.members[m].architecture), member_numbers(plan, MemberId(m)))
            }
            _ => ("shared ensemble".to_owned(), plan.bill.trained()),
        };
        Row { name, numbers, top1: subset.top1, milliseconds: subset.time.median_ms }
    };
    subsets.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_known_by_the_images_on_which_two_disagree() {
        let pair = Pair { images: 200, ensemble: 9, plain: 7 };
        let (ahead, deviation) = pair.points();
        // By hand: each image adds +1, −1 or 0; 16 of 200 are not 0, their sum is 2.
        let variance = 16.0 / 200.0 - (2.0 / 200.0f64).powi(2);
        assert!((ahead - 1.0).abs() < 1e-12);
        assert!((deviation - 100.0 * (variance / 200.0).sqrt()).abs() < 1e-12);
    }
}
