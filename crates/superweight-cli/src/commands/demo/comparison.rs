//! The comparison at the end of the demo: both runs are evaluated and timed as `swn eval` and `swn
//! anytime` do it.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use superweight::engine::Device;
use superweight::evaluate::Predictions;
use superweight::infer::Trained;
use superweight::infer::anytime::{PROFILE, Profile, SubsetProfile};
use superweight::model::Subset;
use superweight::model::ensemble::member_parameters;
use superweight::plan::number::with_commas;
use superweight::plan::{MemberId, SharingPlan};

use crate::args::{AnytimeArgs, DemoArgs, EvalArgs, OnArgs};
use crate::commands::anytime::profiles;
use crate::commands::eval::evaluate;
use crate::commands::search::cluster_table;
use crate::ui::table;

/// Seconds for which the members of a run are timed.
const SECONDS: f64 = 1.5;

/// A row of the table.
struct Row {
    name: String,
    parameters: u64,
    top1: f64,
    /// Median time for one image, with weights composed beforehand.
    milliseconds: f64,
}

/// The results of the demo.
pub struct Comparison {
    rows: Vec<Row>,
    plan: SharingPlan,
    images: String,
    pair: Pair,
}

/// Two classifiers on the same images (a paired comparison).
struct Pair {
    images: usize,
    /// Number of images that only the shared ensemble classifies correctly.
    ensemble: usize,
    /// Number of images that only the plain network classifies correctly.
    plain: usize,
}

impl Pair {
    /// Counts from the predictions in the runs' folders.
    fn of(runs: [&Path; 2]) -> Result<Self> {
        let correct = |run: &Path| -> Result<Vec<bool>> {
            let found = Predictions::load(&run.join("evaluation/test.safetensors"))?;
            let classes = found.classes_of(Subset::all(found.outputs()));
            Ok(classes.iter().zip(found.labels()).map(|(class, label)| class == label).collect())
        };
        let (shared, plain) = (correct(runs[0])?, correct(runs[1])?);
        let only = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| **a && !**b).count();
        Ok(Self {
            images: shared.len(),
            ensemble: only(&shared, &plain),
            plain: only(&plain, &shared),
        })
    }

    /// Percentage points by which the ensemble is ahead, and their standard deviation over draws of
    /// the test images.
    fn points(&self) -> (f64, f64) {
        let [images, ensemble, plain] = [self.images, self.ensemble, self.plain].map(|n| n as f64);
        let ahead = ensemble - plain;
        let std = (ensemble + plain - ahead * ahead / images).sqrt();
        (100.0 * ahead / images, 100.0 * std / images)
    }

    fn to_text(&self) -> String {
        let (ahead, std) = self.points();
        format!(
            "correct only in the ensemble: {} images, only in the plain network: {}; {ahead:+.2} ± {std:.2} points",
            self.ensemble, self.plain
        )
    }
}

impl Comparison {
    /// Compares the shared run and the plain one. Their evaluations and profiles are kept in their
    /// folders.
    pub fn new<D: Device>(
        device: &D,
        place: &str,
        args: &DemoArgs,
        runs: [&Path; 2],
    ) -> Result<Self> {
        let [(shared, profile), (plain, plain_profile)] = [
            measure(device, place, args, runs[0]).with_context(|| runs[0].display().to_string())?,
            measure(device, place, args, runs[1]).with_context(|| runs[1].display().to_string())?,
        ];
        let mut rows = rows(&shared.plan, &profile);
        rows.extend(self::rows(&plain.plan, &plain_profile));
        Ok(Self { rows, plan: shared.plan, images: profile.data, pair: Pair::of(runs)? })
    }

    pub fn to_text(&self) -> String {
        let row = |row: &Row| {
            let Row { name, parameters, top1, milliseconds } = row;
            vec![
                name.clone(),
                with_commas(*parameters),
                format!("{top1:.2}%"),
                format!("{milliseconds:.2}"),
            ]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        format!(
            "{}\non {}; milliseconds for one image\n{}\n\nlayers that share templates\n{}",
            table::render(&["", "parameters", "top-1", "ms"], &rows),
            self.images,
            self.pair.to_text(),
            cluster_table(&self.plan),
        )
    }

    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            let Row { name, parameters, top1, milliseconds } = row;
            json!({ "name": name, "parameters": parameters, "top1": top1, "milliseconds": milliseconds })
        };
        let (ahead, std) = self.pair.points();
        json!({
            "on": self.images,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "only_correct": { "ensemble": self.pair.ensemble, "plain": self.pair.plain },
            "ahead": { "points": ahead, "std": std },
        })
    }
}

/// Evaluates and times a run, and keeps evaluation and profile in its folder.
fn measure<D: Device>(
    device: &D,
    place: &str,
    args: &DemoArgs,
    run: &Path,
) -> Result<(Trained, Profile)> {
    let on = || OnArgs { device: args.on.device.clone(), threads: args.on.threads, json: false };
    let trained = Trained::open(run)?;
    evaluate(device, &EvalArgs::of(run, on()), &trained)?;
    let timed = AnytimeArgs { seconds: SECONDS, ..AnytimeArgs::of(run, on()) };
    let mut made = vec![];
    profiles(device, place, &timed, &trained, |profile| {
        made.push(profile);
        Ok(())
    })?;
    let profile = made.swap_remove(0);
    profile.save(&run.join(PROFILE))?;
    Ok((trained, profile))
}

/// Rows of a run: its ensemble first, then its members.
fn rows(plan: &SharingPlan, profile: &Profile) -> Vec<Row> {
    let members = plan.members.len();
    let mut subsets: Vec<&SubsetProfile> = profile.subsets.iter().collect();
    subsets.retain(|subset| [1, members].contains(&subset.members.outputs().count()));
    subsets.sort_by_key(|subset| std::cmp::Reverse(subset.members.outputs().count()));
    let row = |subset: &&SubsetProfile| {
        let outputs: Vec<usize> = subset.members.outputs().map(|output| output.0).collect();
        let (name, parameters) = match (members, &outputs[..]) {
            (1, &[m]) => (format!("plain {}", plan.members[m].architecture), plan.bill.trained()),
            (_, &[m]) => (
                format!("  {}", plan.members[m].architecture),
                member_parameters(plan, MemberId(m)),
            ),
            _ => ("shared ensemble".to_owned(), plan.bill.trained()),
        };
        Row { name, parameters, top1: subset.top1, milliseconds: subset.time.median_ms }
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
