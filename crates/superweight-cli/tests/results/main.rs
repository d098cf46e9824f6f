//! The figures of `results/`, counted again; and small runs that are published, put into the table
//! and damaged.

#[path = "../common/mod.rs"]
mod common;
mod publish;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use superweight::data::Augment;
use superweight::evaluate::Classes;
use superweight::model::{OutputId, Subset};
use superweight::plan::{Clustering, SharingPlan};
use superweight::recipe::Strategy;
use superweight::recipe::schedule::Schedule;
use superweight::report::published::{self, Published, RowRequest, load_rows, open_all};

/// Epochs of the paper's recipe for CIFAR, stated here independently of the program.
const EPOCHS: u64 = 200;

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results")
}

/// Top-1 in percent of some members, from the predictions alone.
fn count(classes: &Classes, members: &[usize]) -> f64 {
    let subset = members.iter().fold(Subset::EMPTY, |subset, &m| subset.with(OutputId(m)));
    let row = &classes.rows[&subset];
    let correct = row.iter().zip(&classes.labels).filter(|(class, label)| class == label).count();
    100.0 * correct as f64 / classes.labels.len() as f64
}

/// Counts every figure that a row of the table needs, independently of the program.
fn recount(folder: &Path) {
    let name = folder.display();
    let text = fs::read_to_string(folder.join("run.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    let classes = Classes::load(&folder.join("predictions.gz")).unwrap();
    let members = record["members"].as_array().unwrap().len();
    let top1 = &record["top1"];
    for (m, recorded) in top1["members"].as_array().unwrap().iter().enumerate() {
        assert_eq!(recorded.as_f64().unwrap(), count(&classes, &[m]), "{name}: member {m}");
    }
    // A single network may have several exits.
    let answered = top1["members"].as_array().unwrap().len();
    assert!(
        answered == members || (members == 1 && answered > 1),
        "{name}: {answered} of {members}"
    );
    let all: Vec<usize> = (0..answered).collect();
    assert_eq!(top1["ensemble"].as_f64().unwrap(), count(&classes, &all), "{name}: ensemble");
    let plan =
        SharingPlan::from_json(&fs::read_to_string(folder.join("plan.json")).unwrap()).unwrap();
    assert_eq!(record["total"].as_u64().unwrap(), plan.bill.total(), "{name}");
    if let Some(budget) = record["budget"].as_u64() {
        assert!(
            plan.bill.total() <= budget,
            "{name}: {} parameters in {budget}",
            plan.bill.total()
        );
    }
}

/// The runs that the table compares with the paper: those that it links to before "Not run".
fn in_the_table(results: &Path, table: &str) -> Vec<PathBuf> {
    let final_part = table.split("### Not run").next().unwrap();
    let links = final_part.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let runs = links.map(|link| results.join(link)).filter(|path| path.join("run.json").is_file());
    let mut runs: Vec<_> = runs.collect();
    runs.sort();
    runs.dedup();
    runs
}

/// Checks the results: every figure is counted, every run has the epochs of its row and keeps its
/// budget, and the README has the generated table.
fn hold(results: &Path) -> Result<usize, String> {
    let runs = open_all(results).map_err(|error| error.to_string())?;
    let rows = load_rows(results).map_err(|error| error.to_string())?;
    let table = published::table(results, &rows, &runs);
    let finals = in_the_table(results, &table);
    assert_eq!(finals.len(), runs.iter().filter(|run| finals.contains(&run.folder)).count());
    for folder in &finals {
        recount(folder);
        let record: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
        let row = rows.iter().find(|row| record["row"] == row.resolved.name[..]).unwrap();
        assert_eq!(record["epochs"]["train"], row.epochs, "{}", folder.display());
        assert_eq!(
            (&record["split"], &record["images"]["validation"]),
            (&"test".into(), &0.into())
        );
    }
    let readme = fs::read_to_string(results.join("README.md")).unwrap();
    match published::insert(&readme, &table) {
        Some(now) if now == readme => Ok(finals.len()),
        Some(_) => Err("README.md is not what 'swn results table results' makes now".to_owned()),
        None => Err("README.md has no place for the table".to_owned()),
    }
}

#[test]
fn committed_results_hold() {
    hold(&committed()).unwrap_or_else(|why| {
        panic!(
            "{why}: 'cargo run -p superweight-cli -- results table results --out results/README.md'"
        )
    });
}

/// The links of a document's text whose words are an accuracy, `[79.13](results/…)`, with the line.
fn linked_figures(text: &str) -> Vec<(&str, &str, &str)> {
    let mut found = vec![];
    for line in text.lines() {
        for (at, _) in line.match_indices("](") {
            let (before, after) = (&line[..at], &line[at + 2..]);
            let Some((_, figure)) = before.rsplit_once('[') else { continue };
            let Some((_, run)) = after.split(')').next().unwrap().split_once("results/") else {
                continue;
            };
            let digits = figure.split_once('.').is_some_and(|(_, digits)| digits.len() == 2);
            if digits && figure.parse::<f64>().is_ok() {
                found.push((figure, run, line));
            }
        }
    }
    found
}

/// Every figure of the README and of the reproduction that links to a published run is counted
/// again from the run's predictions. In a row of the README's table, the second cell is the run's
/// parameters.
#[test]
fn documents_show_what_was_measured() {
    let readme = include_str!("../../../../README.md");
    let documents = [readme, include_str!("../../../../docs/reproduction.md")];
    let (mut figures, mut rows) = (0, 0);
    for (figure, run, line) in documents.into_iter().flat_map(linked_figures) {
        let run = Published::open(&committed().join(run)).unwrap();
        let classes = Classes::load(&run.folder.join("predictions.gz")).unwrap();
        let members: Vec<usize> = (0..run.record.members.len()).collect();
        assert_eq!(figure, format!("{:.2}", count(&classes, &members)), "{line}");
        figures += 1;
        if let (true, Some(cells)) = (readme.contains(line), line.strip_prefix("| ")) {
            let millions = run.record.total as f64 / 1e6;
            let digits = match millions {
                ..1.0 => 3,
                1.0..10.0 => 2,
                _ => 1,
            };
            let parameters = cells.split(" | ").nth(1).unwrap();
            assert_eq!(parameters, format!("{millions:.digits$}M"), "{line}");
            rows += 1;
        }
    }
    assert!(figures >= 8 && rows >= 6, "{figures} figures, {rows} of them in the README's table");
}

/// The recipe of the paper's appendix: batch size 128, SGD with Nesterov momentum 0.9, learning
/// rate 0.1 times 0.2 at each milestone, weight decay 5e-4, flips and crops by 4 pixels, and the
/// paper's τ. Single networks and ensembles of equal members have their last milestone at 180 and
/// batch norm over 64 images; other ensembles have it at 160 and batch norm over 128. Single
/// networks that share have one late milestone and average the weights after it, which was better
/// on validation images (`docs/reproduction.md`).
///
/// All but some rows have cutout. The appendix names it for ensembles only, but the commands that
/// the authors released use it for single networks too. On the test images the narrow network is
/// 2.2 points below the paper without it and 0.4 with it (one seed). Rows that the paper compares
/// with prior work have no cutout: plain networks and the ensembles of equal members in Table 2.
///
/// Rows with another number of epochs are prior work's, trained as published.
#[test]
fn every_row_has_the_papers_training_except_for_its_last_epochs() {
    let rows = load_rows(&committed()).unwrap();
    assert!(rows.len() >= 13 && rows.is_sorted_by_key(|row| row.item));
    let of_prior_work = |row: &&RowRequest| row.epochs != EPOCHS;
    assert_eq!(
        rows.iter().filter(of_prior_work).count(),
        4,
        "BatchEnsemble and MIMO, two data sets each"
    );
    for row in rows.iter().filter(of_prior_work) {
        let (name, train) = (&row.resolved.name, &row.resolved.train);
        assert_eq!(
            (row.epochs, train.epochs, train.batch_size, train.weight_decay),
            (250, 250, 128, 6e-4),
            "{name}"
        );
        let multistep = Schedule::Multistep {
            lr: 0.1,
            gamma: 0.2,
            milestones: vec![100, 200, 225],
            warmup_epochs: 1,
        };
        assert_eq!((&train.schedule, train.swa_epochs), (&multistep, 0), "{name}");
        assert_eq!((row.resolved.data.augment.cutout, row.resolved.test_every), (0, 0), "{name}");
        assert_eq!(row.paper.as_ref().unwrap().table, "Table 2", "{name}");
    }
    for row in rows.iter().filter(|row| !of_prior_work(row)) {
        let (name, resolved) = (&row.resolved.name, &row.resolved);
        let (train, equal) = (&resolved.train, !resolved.heterogeneous());
        assert_eq!(
            (train.epochs, train.batch_size, train.bn_batch_size),
            (EPOCHS, 128, if equal { 64 } else { 128 }),
            "{name}"
        );
        assert_eq!(
            (train.momentum, train.nesterov, train.weight_decay),
            (0.9, true, 5e-4),
            "{name}"
        );
        assert_eq!(train.label_smoothing, 0.0, "{name}");
        let shares_alone =
            resolved.members.len() == 1 && resolved.plan.clusters != Clustering::Dense;
        let (milestones, swa_epochs) = match (equal, shares_alone) {
            (_, true) => (vec![132], 52),
            (true, _) => (vec![60, 120, 180], 0),
            (false, _) => (vec![60, 120, 160], 0),
        };
        let multistep = Schedule::Multistep { lr: 0.1, gamma: 0.2, milestones, warmup_epochs: 0 };
        assert_eq!((&train.schedule, train.swa_epochs), (&multistep, swa_epochs), "{name}");
        // Comparisons with prior work have no cutout: plain networks and equal members.
        let prior_work = row.paper.as_ref().is_some_and(|paper| paper.table == "Table 2") && equal;
        let augment = Augment { cutout: if prior_work { 0 } else { 16 }, ..Augment::CIFAR };
        assert_eq!((resolved.data.augment, resolved.data.validation), (augment, 0), "{name}");
        assert_eq!(resolved.test_every, 0, "{name}: the test set is read at the end only");
        let request = resolved.plan_request().unwrap();
        if let Some(search) = &resolved.search {
            let epochs = if resolved.strategy == Strategy::CoefficientClustering { 15 } else { 20 };
            assert_eq!(
                (search.epochs, search.lr, search.settings.tau),
                (epochs, 0.1, 0.1),
                "{name}"
            );
        }
        assert_eq!(resolved.refine.as_ref().map(|refine| refine.epoch).unwrap_or(10), 10, "{name}");
        assert_eq!(resolved.strategy == Strategy::Swn, resolved.refine.is_some(), "{name}");
        assert!(request.plan().unwrap().bill.total() <= request.budget.unwrap(), "{name}");
        let minutes = row.expected_minutes;
        assert!(
            minutes.is_none_or(|minutes| (1.0..30.0).contains(&minutes)),
            "{name}: {minutes:?}"
        );
    }
}
