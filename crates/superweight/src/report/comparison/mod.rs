//! Comparison of several runs with each other and with the paper: means over seeds, differences,
//! ablations, sweeps.
//!
//! Runs that differ only in seed and name are one row; so are runs from one plan file. A second run
//! of the same seed starts another row. Rows that differ only in the strategy and its settings are
//! an ablation; rows that differ in one other number are a sweep over it. All of this follows from
//! the resolved recipes.

pub(crate) mod paper;

use std::collections::BTreeMap;

use serde::Serialize;

use self::paper::{PaperRow, paper};
use super::gather::RunView;

/// Comparison of more than one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Rows of the table.
    pub rows: Vec<Row>,
    /// Methods of the paper in the same settings that none of the runs is.
    pub beside: Vec<Beside>,
    /// Groups of rows that differ in their strategy.
    pub ablations: Vec<Ablation>,
    /// Groups of rows that differ in one number.
    pub sweeps: Vec<Sweep>,
}

/// Runs that differ only in their seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// Networks, data, budget, strategy and epochs.
    pub label: String,
    /// Table and row of the paper that these runs reproduce, if there is one.
    pub paper: Option<String>,
    /// Indices of the runs in the report.
    pub runs: Vec<usize>,
    /// Seed of each run.
    pub seeds: Vec<u64>,
    /// Strategy in the recipe's word.
    pub strategy: String,
    /// Figures over the runs.
    pub measures: Vec<Measure>,
}

/// One figure of a row, over its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Measure {
    /// Name of the figure: `top1`, `nll`, `ece`, `corrupted_top1`, `diversity`, `parameters`, `top1
    /// of wrn-28-7` and others.
    pub name: String,
    /// Value of each run that has the figure.
    pub values: Vec<f64>,
    /// Mean of the values.
    pub mean: f64,
    /// Standard deviation of a sample (n − 1); none for one run.
    pub std: Option<f64>,
    /// Value in the paper.
    pub paper: Option<f64>,
    /// Error in the paper.
    pub paper_error: Option<f64>,
    /// Mean minus the paper's value.
    pub difference: Option<f64>,
}

/// A method of the paper that is not among the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Beside {
    /// Table and method.
    pub label: String,
    /// Data, networks and budget.
    pub setting: String,
    /// Figures that the paper gives for the method: name, value, and error if the paper states it.
    pub values: Vec<(String, f64, Option<f64>)>,
}

/// Rows with different strategies and otherwise equal settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ablation {
    /// Settings that the rows have in common.
    pub title: String,
    /// Indices of the rows in the table.
    pub rows: Vec<usize>,
    /// Strategy of each row, with the settings that distinguish it from rows of the same strategy.
    pub names: Vec<String>,
}

/// Rows that differ in one number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sweep {
    /// Key of the number in the recipe.
    pub key: String,
    /// Settings that the rows have in common.
    pub title: String,
    /// Value of the key and index of the row, by increasing value.
    pub points: Vec<(f64, usize)>,
}

/// Keys of a resolved recipe that do not distinguish rows.
const SEEDS: [&str; 3] = ["name", "seed", "seeds"];
/// Keys that a strategy decides.
const OF_STRATEGY: [&str; 4] = ["strategy", "search.", "refine.", "plan.clusters"];
/// Order of the figures in the table.
const ORDER: [&str; 9] = [
    "top1",
    "top5",
    "nll",
    "ece",
    "corrupted_top1",
    "corrupted_nll",
    "corrupted_ece",
    "diversity",
    "parameters",
];

/// A resolved recipe as a flat map.
pub(crate) type Keys = BTreeMap<String, toml::Value>;

impl Comparison {
    /// Compares the runs; none if there is only one.
    pub fn new(runs: &[RunView]) -> Option<Self> {
        if runs.len() < 2 {
            return None;
        }
        let groups = rows_of(runs.iter().map(|run| {
            let mut keys = keys(&run.about.resolved);
            if let Some(given) = &run.about.given {
                // Every run keeps its own copy of the plan file, so its contents distinguish runs
                // and not its path.
                keys.insert("plan.file".to_owned(), given.clone().into());
                keys.insert("strategy".to_owned(), run.about.strategy.clone().into());
            }
            if let Some(so_far) = so_far(run) {
                // An unfinished run is neither a seed of a finished row nor a point of a sweep.
                keys.insert("epochs so far".to_owned(), so_far.into());
            }
            (keys, run.about.seed)
        }));
        let paper = paper();
        let mut rows: Vec<Row> = groups.iter().map(|(_, of)| Row::new(runs, of, &paper)).collect();
        let labels: Vec<String> = rows.iter().map(|row| row.label.clone()).collect();
        for (row, (keys, of)) in rows.iter_mut().zip(&groups) {
            // Rows with equal labels, and rows from different plan files, get a run's name.
            let similar = |(other, label): &(&(Keys, Vec<usize>), &String)| {
                **label == row.label
                    || keys.contains_key("plan.file") && other.0.contains_key("plan.file")
            };
            if groups.iter().zip(&labels).filter(similar).count() > 1 {
                row.label += &format!(" ({})", runs[of[0]].name);
            }
        }
        let all: Vec<&Keys> = groups.iter().map(|(keys, _)| keys).collect();
        Some(Self {
            rows,
            beside: beside(runs, &paper),
            ablations: ablations(&all),
            sweeps: sweeps(&all),
        })
    }
}

/// Groups the runs that differ only in their seed, by index, in the order given. A second run of
/// the same seed starts a new row: it may come from another version of the program, and adds
/// nothing to a mean over seeds.
fn rows_of(runs: impl Iterator<Item = (Keys, u64)>) -> Vec<(Keys, Vec<usize>)> {
    let mut rows: Vec<(Keys, Vec<usize>, Vec<u64>)> = vec![];
    for (i, (keys, seed)) in runs.enumerate() {
        match rows.iter_mut().find(|(known, _, seeds)| *known == keys && !seeds.contains(&seed)) {
            Some((_, of, seeds)) => {
                of.push(i);
                seeds.push(seed);
            }
            None => rows.push((keys, vec![i], vec![seed])),
        }
    }
    rows.into_iter().map(|(keys, of, _)| (keys, of)).collect()
}

impl Row {
    fn new(runs: &[RunView], of: &[usize], paper: &[PaperRow]) -> Self {
        let first = &runs[of[0]];
        let rows: Vec<&PaperRow> = paper.iter().filter(|row| row.row_of(first)).collect();
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for &i in of {
            for (name, value) in measured(&runs[i]) {
                values.entry(name).or_default().push(value);
            }
        }
        let measure = |(name, values): (String, Vec<f64>)| {
            let (mean, std) = mean_and_std(&values);
            let in_paper = rows.iter().find_map(|row| row.value(&name));
            Measure {
                paper: in_paper.map(|(value, _)| value),
                paper_error: in_paper.and_then(|(_, error)| error),
                difference: in_paper.map(|(value, _)| mean - value),
                name,
                values,
                mean,
                std,
            }
        };
        let mut measures: Vec<Measure> = values.into_iter().map(measure).collect();
        let place =
            |name: &str| ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len());
        measures.sort_by_key(|measure| place(&measure.name));
        let names: Vec<_> =
            rows.iter().map(|row| format!("{}: {}", row.table, row.method)).collect();
        Self {
            label: {
                let epochs = so_far(first).unwrap_or_else(|| first.about.epochs.to_string());
                format!("{}, {}, {epochs} epochs", setting(first), first.about.strategy)
            },
            paper: (!names.is_empty()).then(|| names.join("; ")),
            runs: of.to_vec(),
            seeds: of.iter().map(|&i| runs[i].about.seed).collect(),
            strategy: first.about.strategy.clone(),
            measures,
        }
    }

    /// A figure by name.
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }
}

/// `7 of 8` epochs for a run that is not finished.
fn so_far(run: &RunView) -> Option<String> {
    let (done, all) = (run.headline.epochs, run.about.epochs);
    (done < all).then(|| format!("{done} of {all}"))
}

/// Mean, and the standard deviation of a sample of more than one value.
pub(crate) fn mean_and_std(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

/// All single-number figures of a run. Figures of an evaluation replace those of the log. Figures
/// on validation images never have the name of a test figure.
pub(super) fn measured(run: &RunView) -> Vec<(String, f64)> {
    let mut all = vec![];
    let name = |member: usize| format!("top1 of {}", run.about.members[member]);
    let is_unique = |member: usize| {
        run.about.members.iter().filter(|other| **other == run.about.members[member]).count() == 1
    };
    let tested = run
        .evaluation
        .as_ref()
        .filter(|evaluation| evaluation.split == "test" && !evaluation.partial);
    let evaluated =
        tested.and_then(|evaluation| evaluation.ensemble().map(|all| (evaluation, all)));
    let members = run.about.members.len();
    match (evaluated, &run.headline.accuracy) {
        (Some((evaluation, ensemble)), _) => {
            let scores = [("top5", ensemble.top5), ("nll", ensemble.nll), ("ece", ensemble.ece)];
            all.push(("top1".to_owned(), ensemble.top1));
            all.extend(
                scores.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))),
            );
            if members > 1 {
                for member in (0..members).filter(|&member| is_unique(member)) {
                    all.extend(evaluation.member(member).map(|scores| (name(member), scores.top1)));
                }
            }
            all.extend(evaluation.diversity.map(|value| ("diversity".to_owned(), value)));
            if let Some(c) = &evaluation.corruptions {
                let means = [("top1", c.mean_top1), ("nll", c.mean_nll), ("ece", c.mean_ece)];
                all.extend(
                    means
                        .into_iter()
                        .filter_map(|(name, value)| Some((format!("corrupted_{name}"), value?))),
                );
            }
        }
        (None, Some(accuracy)) if accuracy.split == "test" => {
            all.push(("top1".to_owned(), accuracy.ensemble));
            if members > 1 {
                let each = accuracy
                    .members
                    .iter()
                    .enumerate()
                    .filter(|(member, _)| *member < members && is_unique(*member));
                all.extend(each.map(|(member, top1)| (name(member), *top1)));
            }
        }
        (None, Some(accuracy)) => all.push((format!("{} top1", accuracy.split), accuracy.ensemble)),
        (None, None) => {}
    }
    all.push(("parameters".to_owned(), run.headline.trained as f64));
    if run.headline.seconds > 0.0 {
        all.push(("seconds".to_owned(), run.headline.seconds));
    }
    all
}

/// Short description, such as `4 × wrn-28-5 on cifar-100 in 36,500,000`.
fn setting(run: &RunView) -> String {
    let mut counts: Vec<(&str, usize)> = vec![];
    for member in &run.about.members {
        match counts.iter_mut().find(|(name, _)| name == member) {
            Some((_, count)) => *count += 1,
            None => counts.push((member, 1)),
        }
    }
    let name = |&(name, count): &(&str, usize)| match count {
        1 => name.to_owned(),
        n => format!("{n} × {name}"),
    };
    let members: Vec<_> = counts.iter().map(name).collect();
    let budget = run.sharing.budget.map(superweight_plan::number::with_commas);
    let budget = budget.map(|budget| format!(" in {budget}")).unwrap_or_default();
    format!("{} on {}{budget}", members.join(" + "), run.about.data)
}

/// Methods of the paper in the settings of the runs that none of the runs is.
fn beside(runs: &[RunView], paper: &[PaperRow]) -> Vec<Beside> {
    let ran = |row: &PaperRow| runs.iter().any(|run| row.row_of(run));
    let others =
        paper.iter().filter(|row| row.strategy.is_none() || (row.tiling.is_some() && !ran(row)));
    let of = |row: &PaperRow| {
        let run = runs.iter().find(|run| row.setting_of(run))?;
        let one =
            |name: &String| row.value(name).map(|(value, error)| (name.clone(), value, error));
        let values = row.values.keys().filter_map(one).collect();
        Some(Beside {
            label: format!("{}: {}", row.table, row.method),
            setting: setting(run),
            values,
        })
    };
    others.filter_map(of).collect()
}

/// All keys of a resolved recipe, except name and seeds.
pub(crate) fn keys(resolved: &str) -> Keys {
    fn flatten(prefix: &str, table: toml::Table, keys: &mut Keys) {
        for (key, value) in table {
            let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(table) => flatten(&name, table, keys),
                value => drop(keys.insert(name, value)),
            }
        }
    }
    let mut keys = Keys::new();
    flatten("", resolved.parse().unwrap_or_default(), &mut keys);
    keys.retain(|key, _| !SEEDS.contains(&key.as_str()));
    keys
}

/// Whether the strategy decides a key.
fn of_strategy(key: &str) -> bool {
    OF_STRATEGY
        .iter()
        .any(|prefix| key == *prefix || (prefix.ends_with('.') && key.starts_with(prefix)))
}

/// Value of a key as text; empty if it is missing.
fn text(keys: &Keys, key: &str) -> String {
    keys.get(key).map(|value| value.to_string().replace('"', "")).unwrap_or_default()
}

/// Settings that rows have in common, in words.
fn title(keys: &Keys) -> String {
    let members = text(keys, "members").replace(['[', ']'], "").replace(", ", " + ");
    format!("{members} on {}, {}", text(keys, "data.name"), text(keys, "budget"))
}

/// Groups of rows with equal settings and more than one strategy.
fn ablations(rows: &[&Keys]) -> Vec<Ablation> {
    let common = |keys: &Keys| {
        let mut keys = keys.clone();
        keys.retain(|key, _| !of_strategy(key));
        keys
    };
    let mut found: Vec<(Keys, Vec<usize>)> = vec![];
    for (i, keys) in rows.iter().enumerate() {
        let common = common(keys);
        match found.iter_mut().find(|(known, _)| *known == common) {
            Some((_, of)) => of.push(i),
            None => found.push((common, vec![i])),
        }
    }
    let strategies = |of: &[usize]| {
        let mut words: Vec<_> = of.iter().map(|&i| text(rows[i], "strategy")).collect();
        words.sort();
        words.dedup();
        words.len()
    };
    let found = found.into_iter().filter(|(_, of)| strategies(of) > 1);
    let ablation = |(common, of): (Keys, Vec<usize>)| Ablation {
        title: title(&common),
        names: of.iter().map(|&row| ablation_name(rows, &of, row)).collect(),
        rows: of,
    };
    found.map(ablation).collect()
}

/// Name of a row in an ablation: `swn`, or `swn, search.tau 0.3` if there is another `swn` row.
fn ablation_name(rows: &[&Keys], among: &[usize], row: usize) -> String {
    let strategy = text(rows[row], "strategy");
    let mut name = strategy.clone();
    for (key, value) in rows[row] {
        let same = among.iter().filter(|&&other| text(rows[other], "strategy") == strategy);
        if { same }.any(|&other| rows[other].get(key).is_some_and(|theirs| theirs != value)) {
            name += &format!(", {key} {}", value.to_string().replace('"', ""));
        }
    }
    name
}

/// For every numeric key, groups of rows that are equal except for it.
fn sweeps(rows: &[&Keys]) -> Vec<Sweep> {
    let number =
        |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
    let mut varied: Vec<&String> = rows
        .iter()
        .flat_map(|keys| keys.iter())
        .filter(|(key, value)| {
            number(value).is_some()
                && rows.iter().any(|other| other.get(*key).is_some_and(|v| v != *value))
        })
        .map(|(key, _)| key)
        .collect();
    varied.sort();
    varied.dedup();
    let mut sweeps = vec![];
    for key in varied {
        let mut found: Vec<(Keys, Vec<(f64, usize)>)> = vec![];
        for (i, keys) in rows.iter().enumerate() {
            let Some(at) = keys.get(key).and_then(number) else { continue };
            let mut common = (*keys).clone();
            common.remove(key);
            match found.iter_mut().find(|(known, _)| *known == common) {
                Some((_, points)) => points.push((at, i)),
                None => found.push((common, vec![(at, i)])),
            }
        }
        let varies = |points: &[(f64, usize)]| points.iter().any(|(at, _)| *at != points[0].0);
        for (keys, mut points) in found.into_iter().filter(|(_, points)| varies(points)) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            sweeps.push(Sweep {
                key: key.clone(),
                title: format!("{}, {}", title(&keys), text(&keys, "strategy")),
                points,
            });
        }
    }
    sweeps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_different_seeds_are_one_row_and_a_second_run_of_a_seed_starts_another() {
        let recipe = |tau: f64| Keys::from([("search.tau".to_owned(), tau.into())]);
        let runs = [
            (recipe(0.1), 0),
            (recipe(0.2), 0),
            (recipe(0.1), 1),
            (recipe(0.1), 0),
            (recipe(0.1), 2),
        ];
        let rows = rows_of(runs.into_iter());
        let expected =
            [(recipe(0.1), vec![0, 2, 4]), (recipe(0.2), vec![1]), (recipe(0.1), vec![3])];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_sweep_needs_two_values_of_one_key() {
        let recipe = |tau: f64, beta: f64| {
            Keys::from([
                ("search.tau".to_owned(), tau.into()),
                ("refine.beta".to_owned(), beta.into()),
            ])
        };
        let twice = [&recipe(0.1, 0.9), &recipe(0.1, 0.9), &recipe(0.2, 0.5)];
        assert!(
            sweeps(&twice).is_empty(),
            "the same run twice, and one that differs in two numbers"
        );
        let found = sweeps(&[&recipe(0.2, 0.9), &recipe(0.1, 0.9)]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].key.as_str(), &found[0].points),
            ("search.tau", &vec![(0.1, 1), (0.2, 0)])
        );
    }
}
