//! Who is better and how fast: accuracy from the runs' test sets, milliseconds measured here and now.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use superweight::anytime::{Latencies, SystemClock, measure};
use superweight::engine::Device;
use superweight::ensemble::member_numbers;
use superweight::evaluate::Subset;
use superweight::infer::Trained;
use superweight::plan::number::grouped;
use superweight::plan::{MemberId, SharingPlan};
use superweight::train::{Evaluation, Outcome};

use crate::commands::search::cluster_table;
use crate::table;

/// Unmeasured rounds and the fewest measured ones.
const ROUNDS: [usize; 2] = [5, 20];
/// How long a run's members are measured.
const TIME: Duration = Duration::from_millis(1500);

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
    images: usize,
}

impl Verdict {
    /// Of the shared run and the plain one.
    pub fn new<D: Device>(device: &D, runs: [(&Path, &Outcome); 2]) -> Result<Self> {
        let mut rows = vec![];
        let mut seen = None;
        for (run, outcome) in runs {
            let test = outcome.test.as_ref().context("a run that finished has looked at its test set")?;
            let trained = Trained::open(run)?;
            let latencies = latencies(device, &trained)?;
            rows.extend(rows_of(&trained.plan, test, &latencies));
            seen.get_or_insert((trained.plan, test.images));
        }
        let (plan, images) = seen.expect("two runs were looked at");
        Ok(Self { rows, plan, images })
    }

    pub fn to_text(&self) -> String {
        let row = |row: &Row| {
            let Row { name, numbers, top1, milliseconds } = row;
            vec![name.clone(), grouped(*numbers), format!("{top1:.2}%"), format!("{milliseconds:.2}")]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        format!(
            "\ntest set, {} images, each seen once; milliseconds for one image\n{}\nwho shares with whom\n{}",
            grouped(self.images as u64),
            table::render(&["", "numbers", "top-1", "ms"], &rows),
            cluster_table(&self.plan),
        )
    }

    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            let Row { name, numbers, top1, milliseconds } = row;
            json!({ "name": name, "numbers": numbers, "top1": top1, "milliseconds": milliseconds })
        };
        json!({ "images": self.images, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

/// Every member's time for one image.
fn latencies<D: Device>(device: &D, trained: &Trained) -> Result<Latencies> {
    let mut networks = trained.networks(device, 1)?;
    let image = vec![0.5; networks.image_len()];
    Ok(measure(&mut networks, &SystemClock::default(), &image, ROUNDS, TIME)?)
}

fn rows_of(plan: &SharingPlan, test: &Evaluation, latencies: &Latencies) -> Vec<Row> {
    let members = plan.members.len();
    let member = |m: usize| Row {
        name: format!("{}{}", if members > 1 { "  member " } else { "plain " }, plan.members[m].architecture),
        numbers: member_numbers(plan, MemberId(m)),
        top1: test.members[m].top1,
        milliseconds: latencies.member(MemberId(m)).median_ms,
    };
    let ensemble = (members > 1).then(|| Row {
        name: "shared ensemble".to_owned(),
        numbers: plan.bill.trained(),
        top1: test.ensemble.top1,
        milliseconds: latencies.subset(Subset::all(members)).median_ms,
    });
    ensemble.into_iter().chain((0..members).map(member)).collect()
}
