//! Several runs beside each other and beside the paper: means over seeds, differences, ablations, sweeps.
//!
//! Runs that differ in nothing but seed and name are one row, those of one given plan too; the same seed again is another row. Rows that differ in the strategy alone (and what follows
//! from it) are an ablation; rows that differ in one other number are a sweep over it. Nobody has to say so: the
//! resolved recipes do.

pub(crate) mod paper;

use std::collections::BTreeMap;

use serde::Serialize;

use super::gather::RunView;
use super::comparison::paper::{PaperRow, paper};

/// Everything about more than one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Rows of the table.
    pub rows: Vec<Row>,
    /// Of other people's methods in the same settings, where none of the runs is one: from the paper alone.
    pub beside: Vec<Beside>,
    /// Rows that differ in their strategy.
    pub ablations: Vec<Ablation>,
    /// Rows that differ in a number.
    pub sweeps: Vec<Sweep>,
}

/// Runs that differ in their seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Networks, data, budget, strategy, epochs.
    pub label: String,
    /// The table and row of the paper that it is.
    pub paper: Option<String>,
    /// Positions in the report.
    pub runs: Vec<usize>,
    /// Their seeds.
    pub seeds: Vec<u64>,
    /// As recipes write it.
    pub strategy: String,
    /// What was measured.
    pub measures: Vec<Measure>,
}

/// One figure of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// `top1`, `nll`, `ece`, `corrupted_top1`, `diversity`, `numbers`, `top1 of wrn-28-7`, …
    pub name: String,
    /// One per run that has it.
    pub values: Vec<f64>,
    /// Of these.
    pub mean: f64,
    /// Of a sample (n − 1); none for one run.
    pub deviation: Option<f64>,
    /// What the paper has.
    pub paper: Option<f64>,
    /// And its error.
    pub paper_error: Option<f64>,
    /// Mean minus paper.
    pub difference: Option<f64>,
}

/// A method of the paper that was not run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// Table and method.
    pub label: String,
    /// Data, networks and budget.
    pub setting: String,
    /// By measure.
    pub values: Vec<(String, f64, Option<f64>)>,
}

/// Strategies beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ablation {
    /// What they have in common.
    pub title: String,
    /// Rows of the table.
    pub rows: Vec<usize>,
    /// The strategy of each, and what else tells it from others of that strategy.
    pub names: Vec<String>,
}

/// A number that was varied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The recipe's key.
    pub key: String,
    /// What is common.
    pub title: String,
    /// Value of the key, row of the table; rising.
    pub points: Vec<(f64, usize)>,
}

/// Keys of a resolved recipe that do not tell rows apart.
const SEEDS: [&str; 3] = ["name", "seed", "seeds"];
/// What a strategy brings with it.
const OF_STRATEGY: [&str; 4] = ["strategy", "search.", "refine.", "plan.clusters"];
/// The order of the table's columns.
const ORDER: [&str; 9] = [
    "top1",
    "top5",
    "nll",
    "ece",
    "corrupted_top1",
    "corrupted_nll",
    "corrupted_ece",
    "diversity",
    "numbers",
];

/// A resolved recipe as keys and values.
pub(crate) type Keys = BTreeMap<String, toml::Value>;

impl Comparison {
    /// Of more than one run; none else.
    pub fn new(runs: &[RunView]) -> Option<Self> {
        if runs.len() < 2 {
            return None;
        }
        let groups = rows_of(runs.iter().map(|run| {
            let mut keys = keys(&run.about.resolved);
            if let Some(given) = &run.about.given {
                // Every run keeps its own copy of the plan: what it says counts, not where it lies.
                keys.insert("plan.file".to_owned(), given.clone().into());
                keys.insert("strategy".to_owned(), run.about.strategy.clone().into());
            }
            if let Some(so_far) = so_far(run) {
                // No seed of a finished row, and no point of a sweep.
                keys.insert("epochs so far".to_owned(), so_far.into());
            }
            (keys, run.about.seed)
        }));
        let paper = paper();
        let mut rows: Vec<Row> = groups.iter().map(|(_, of)| Row::new(runs, of, &paper)).collect();
        let labels: Vec<String> = rows.iter().map(|row| row.label.clone()).collect();
        for (row, (keys, of)) in rows.iter_mut().zip(&groups) {
            // The same once more, or what a label does not say; or one of several given plans.
            let alike = |(other, label): &(&(Keys, Vec<usize>), &String)| {
                **label == row.label
                    || keys.contains_key("plan.file") && other.0.contains_key("plan.file")
            };
            if groups.iter().zip(&labels).filter(alike).count() > 1 {
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

/// Runs that differ in nothing but their seed, by number, in the order they came in. A second run of the same seed adds
/// nothing to a mean over seeds (another program may have made it): it begins a row of its own.
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
            let (mean, deviation) = mean_and_deviation(&values);
            let in_paper = rows.iter().find_map(|row| row.value(&name));
            Measure {
                paper: in_paper.map(|(value, _)| value),
                paper_error: in_paper.and_then(|(_, error)| error),
                difference: in_paper.map(|(value, _)| mean - value),
                name,
                values,
                mean,
                deviation,
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

    /// A measure by name.
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }
}

/// `7 of 8` where a run is not finished.
fn so_far(run: &RunView) -> Option<String> {
    let (done, all) = (run.headline.epochs, run.about.epochs);
    (done < all).then(|| format!("{done} of {all}"))
}

/// Mean, and deviation of a sample where there is more than one.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

/// Everything about a run that is one number. What evaluation measured comes before what the log has; held-out images
/// are never put where the test set belongs.
pub(super) fn measured(run: &RunView) -> Vec<(String, f64)> {
    let mut all = vec![];
    let name = |member: usize| format!("top1 of {}", run.about.members[member]);
    let unlike = |member: usize| {
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
                for member in (0..members).filter(|&member| unlike(member)) {
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
                    .filter(|(member, _)| *member < members && unlike(*member));
                all.extend(each.map(|(member, top1)| (name(member), *top1)));
            }
        }
        (None, Some(accuracy)) => all.push((format!("{} top1", accuracy.split), accuracy.ensemble)),
        (None, None) => {}
    }
    all.push(("numbers".to_owned(), run.headline.trained as f64));
    if run.headline.seconds > 0.0 {
        all.push(("seconds".to_owned(), run.headline.seconds));
    }
    all
}

/// `4 × wrn-28-5 on cifar-100 in 36,500,000`.
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

/// All keys of a resolved recipe, but for the seeds.
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

fn of_strategy(key: &str) -> bool {
    OF_STRATEGY
        .iter()
        .any(|prefix| key == *prefix || (prefix.ends_with('.') && key.starts_with(prefix)))
}

fn text(keys: &Keys, key: &str) -> String {
    keys.get(key).map(|value| value.to_string().replace('"', "")).unwrap_or_default()
}

fn title(keys: &Keys) -> String {
    format!("{} on {}, {}", text(keys, "members"), text(keys, "data.name"), text(keys, "budget"))
}

/// Groups of rows that are equal but for what a strategy decides, with more than one strategy.
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

/// `swn`, or `swn, search.tau 0.3` where there is another `swn` beside it.
fn ablation_name(rows: &[&Keys], among: &[usize], row: usize) -> String {
    let strategy = text(rows[row], "strategy");
    let mut name = strategy.clone();
    for (key, value) in rows[row] {
        let alike = among.iter().filter(|&&other| text(rows[other], "strategy") == strategy);
        if { alike }.any(|&other| rows[other].get(key).is_some_and(|theirs| theirs != value)) {
            name += &format!(", {key} {}", value.to_string().replace('"', ""));
        }
    }
    name
}

/// For every key with numbers: groups of rows that are equal but for it.
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
    fn seeds_are_a_row_and_the_same_seed_again_is_another() {
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
    fn a_sweep_has_two_values() {
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
