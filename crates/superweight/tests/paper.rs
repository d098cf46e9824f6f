//! The paper's figures were written down twice: in `paper.toml`, for reports, and in the heads of
//! the recipes, for people. They agree, and every row that can be run has its recipe. Plain
//! networks have no strategy that would name their row: `results/rows.toml` does.

use std::fs;
use std::path::{Path, PathBuf};

use superweight::plan::Budget;
use superweight::recipe::{Recipe, Resolved};
use superweight::report::PaperRow;
use superweight::report::paper;
use superweight::report::published::load_rows;

fn recipes(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(recipes(&path)),
            false if path.extension().is_some_and(|end| end == "toml") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

fn is_row(row: &PaperRow, resolved: &Resolved) -> bool {
    let names = |members: &mut Vec<String>| members.sort();
    let (mut theirs, mut ours) =
        (row.members.clone(), resolved.members.iter().map(ToString::to_string).collect());
    names(&mut theirs);
    names(&mut ours);
    let clusters = resolved.plan.clusters.to_string();
    let start = match &row.clusters {
        Some(wanted) => *wanted == clusters,
        None => row.strategy.as_deref() != Some("no-search") || clusters == "single",
    };
    theirs == ours
        && start
        && row.is_tiled(&resolved.plan.tiling.to_string())
        && row.data == resolved.data.name
        && row.strategy.as_deref() == Some(resolved.strategy.word())
        && row.budget.parse::<Budget>().unwrap() == resolved.budget
}

#[test]
fn recipes_and_rows_say_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let rows: Vec<PaperRow> = paper().into_iter().filter(|row| row.strategy.is_some()).collect();
    let listed = load_rows(&folder.with_file_name("results")).unwrap();
    let mut seen = vec![false; rows.len()];
    let mut compared = 0;
    for path in recipes(&folder) {
        let text = fs::read_to_string(&path).unwrap();
        let none: [&str; 0] = [];
        let resolved = Recipe::load(&path, &none).unwrap().resolve().unwrap();
        let mut values = vec![];
        for (row, seen) in rows.iter().zip(&mut seen).filter(|(row, _)| is_row(row, &resolved)) {
            *seen = true;
            values.extend(
                ["top1", "diversity"]
                    .into_iter()
                    .filter_map(|name| row.value(name))
                    .map(|(value, _)| value),
            );
        }
        for row in listed.iter().filter(|row| row.resolved.name == resolved.name) {
            values.extend(
                row.paper.iter().filter_map(|paper| paper.value("top1")).map(|(value, _)| value),
            );
        }
        // "# …: WRN-28-10 on CIFAR-100 with 10% of its parameters. Paper: 78.94."
        let comment: String =
            text.lines().take_while(|line| line.starts_with('#')).map(|line| &line[1..]).collect();
        let Some((_, said)) = comment.split_once("Paper: ") else { continue };
        let number: String = said
            .chars()
            .skip_while(|c| c.is_alphabetic() || *c == ' ')
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        let Ok(number) = number.trim_end_matches('.').parse::<f64>() else { continue };
        assert!(
            values.contains(&number),
            "{}: the recipe says {number}, the rows {values:?}",
            path.display()
        );
        compared += 1;
    }
    let missing: Vec<_> =
        rows.iter().zip(seen).filter(|(_, seen)| !seen).map(|(row, _)| row).collect();
    assert!(missing.is_empty(), "no recipe for {missing:#?}");
    assert!(compared > 30, "only {compared} recipes name a figure of the paper");
}

#[test]
fn values_are_found_by_measure() {
    let rows = paper();
    let row = |table: &str, method: &str| {
        rows.iter().find(|row| row.table == table && row.method == method).unwrap()
    };
    assert_eq!(row("Table 3", "SWN-HE").value("top1 of wrn-28-4"), Some((79.7, Some(0.08))));
    assert_eq!(row("Table 2", "SWN-HE").value("nll"), Some((0.663, Some(0.001))));
    assert_eq!(row("Table 2", "MIMO").value("nll"), Some((0.69, None)));
    assert_eq!(row("Table 2", "BatchEnsemble + EnsBN").value("nll"), None);
    assert_eq!(row("Table 1", "SSN").value("top1 of wrn-28-10"), None);
}
