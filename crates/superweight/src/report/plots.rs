//! Every figure of the page as an SVG file.

use std::fs;
use std::path::{Path, PathBuf};

use super::comparison::Comparison;
use super::document::Report;
use super::error::ReportError;
use super::gather::RunView;
use super::svg::{Canvas, Chart, diverging, hue, range};
use crate::fs::write_whole;
use crate::model::Outputs;

/// Writes every figure of a report into a folder and returns the paths. With several runs, file
/// names begin with the run's index.
pub(super) fn write(report: &Report, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    fs::create_dir_all(folder)
        .map_err(|source| ReportError::Write { path: folder.to_owned(), source })?;
    let mut paths = vec![];
    for (name, svg) in figures(report) {
        let path = folder.join(format!("{name}.svg"));
        write_whole(&path, svg.as_bytes())
            .map_err(|source| ReportError::Write { path: path.clone(), source })?;
        paths.push(path);
    }
    Ok(paths)
}

/// Names and SVG texts of all figures.
pub(super) fn figures(report: &Report) -> Vec<(String, String)> {
    let mut all = vec![];
    for (i, run) in report.runs.iter().enumerate() {
        let number = if report.runs.len() > 1 { format!("{i:02}-") } else { String::new() };
        all.extend(of_run(run).into_iter().map(|(name, svg)| (number.clone() + name, svg)));
    }
    if let Some(comparison) = &report.comparison {
        all.extend(together(&report.runs));
        all.extend(compared(comparison));
    }
    all
}

/// Figures of one run.
fn of_run(run: &RunView) -> Vec<(&'static str, String)> {
    let mut all = vec![("cluster-map", cluster_map(run))];
    all.extend(conflict_matrix(run).map(|svg| ("conflict-matrix", svg)));
    for (name, metric, words) in [
        ("accuracy", "top1", "top-1 accuracy (%)"),
        ("nll", "nll", "NLL"),
        ("loss", "loss", "training loss"),
    ] {
        all.extend(curves(run, metric, words).map(|svg| (name, svg)));
    }
    if let Some(evaluation) = &run.evaluation {
        all.extend(evaluation.latency.as_ref().map(|_| ("anytime", anytime(&[run]))));
        all.extend(reliability(run).map(|svg| ("reliability", svg)));
        all.extend(corruptions(run).map(|svg| ("corruptions", svg)));
        all.extend(interpolation(run).map(|svg| ("interpolation", svg)));
    }
    all
}

fn outputs(run: &RunView) -> Outputs {
    Outputs::of_networks(&run.about.members)
}

/// Name of an output, with its index if others have the same architecture.
fn member_name(run: &RunView, member: usize) -> String {
    if outputs(run).nested() {
        return format!("exit {member}");
    }
    let name = run.about.members.get(member).map_or("member", String::as_str);
    match run.about.members.iter().filter(|other| *other == name).count() {
        1 => name.to_owned(),
        _ => format!("{name} #{member}"),
    }
}

/// Every layer of every member, with the color and number of its cluster.
fn cluster_map(run: &RunView) -> String {
    const CELL: f64 = 22.0;
    const HEAD: f64 = 110.0;
    const LANE: f64 = 44.0;
    let sharing = &run.sharing;
    let count = |m: usize| sharing.layers.iter().filter(|layer| layer.member == m).count();
    let longest = (0..sharing.members.len()).map(count).max().unwrap_or(0);
    let size = [HEAD + longest as f64 * CELL + 8.0, sharing.members.len() as f64 * LANE + 10.0];
    let mut canvas = Canvas::new(size[0], size[1]);
    // Clusters of several layers have a color, in their order.
    let mut colors = vec![None; sharing.clusters.len()];
    let shared = (0..colors.len()).filter(|&c| sharing.clusters[c].len() > 1);
    for (n, c) in shared.enumerate() {
        colors[c] = Some(hue(n));
    }
    for (m, name) in sharing.members.iter().enumerate() {
        let top = 8.0 + m as f64 * LANE;
        canvas.text([4.0, top + 20.0], "start", name, r#"font-weight="bold""#);
        let row = sharing.layers.iter().filter(|layer| layer.member == m);
        for (n, layer) in row.enumerate() {
            let low = layer.kind == "conv" && layer.shape[2] * layer.shape[3] == 1;
            let height = if low { 20.0 } else { 32.0 };
            let at = [HEAD + n as f64 * CELL, top + 32.0 - height, CELL - 2.0, height];
            match layer.cluster {
                Some(cluster) => {
                    canvas.rect(at, colors[cluster].unwrap_or("#c9cbd1"), r#"rx="3""#);
                    let dark = matches!(
                        colors[cluster],
                        Some("#4c3fb0" | "#882255" | "#117733" | "#aa4499")
                    );
                    let ink = format!(
                        r#"font-size="10" fill="{}""#,
                        if dark { "white" } else { "black" }
                    );
                    canvas.text(
                        [at[0] + CELL / 2.0 - 1.0, at[1] + height / 2.0 + 4.0],
                        "middle",
                        cluster,
                        &ink,
                    );
                }
                None => canvas.rect(at, "none", r##"stroke="#888" stroke-dasharray="2 2" rx="3""##),
            }
        }
    }
    canvas.finish()
}

/// Similarities of every two layers, sorted by cluster.
fn conflict_matrix(run: &RunView) -> Option<String> {
    let search = run.search.as_ref()?;
    let mut cluster_of = vec![usize::MAX; run.sharing.layers.len()];
    for (c, layers) in run.sharing.clusters.iter().enumerate() {
        layers.iter().for_each(|&id| cluster_of[id] = c);
    }
    let mut order: Vec<usize> = search.start.iter().flatten().copied().collect();
    order.sort_by_key(|&id| (cluster_of.get(id).copied(), id));
    let cell = (560.0 / order.len().max(1) as f64).clamp(3.0, 20.0);
    let side = cell * order.len() as f64 + 8.0;
    let mut canvas = Canvas::new(side, side);
    let mut place = vec![None; run.sharing.layers.len()];
    order.iter().enumerate().for_each(|(n, &id)| place[id] = Some(n));
    for (layers, psi) in search.start.iter().zip(&search.psi) {
        for (j, &b) in layers.iter().enumerate() {
            for (i, &a) in layers[..=j].iter().enumerate() {
                let value = if i == j { Some(1.0) } else { psi[j * (j - 1) / 2 + i] };
                let (Some(value), Some(x), Some(y)) = (value, place[a], place[b]) else { continue };
                let at =
                    |x: usize, y: usize| [4.0 + x as f64 * cell, 4.0 + y as f64 * cell, cell, cell];
                canvas.rect(at(x, y), &diverging(value), "");
                if i != j {
                    canvas.rect(at(y, x), &diverging(value), "");
                }
            }
        }
    }
    Some(canvas.finish())
}

/// Training curves of one metric, on the first split that has a line.
fn curves(run: &RunView, metric: &str, words: &str) -> Option<String> {
    let curves = run.curves.as_ref()?;
    let lines = |split: &str| -> Vec<_> {
        curves
            .series
            .iter()
            .filter(|s| s.metric == metric && s.split == split && s.points.len() > 1)
            .collect()
    };
    let (split, lines) = ["validation", "test", "train"]
        .into_iter()
        .map(|split| (split, lines(split)))
        .find(|(_, lines)| !lines.is_empty())?;
    // The search has an axis of its own, which a figure for a paper does not need.
    let phase = curves.phases.iter().rev().find(|phase| phase.phase == "train")?;
    let inside = |p: &&(f64, f64)| p.0 > phase.from && p.0 <= phase.to;
    let points = || lines.iter().flat_map(|line| line.points.iter().filter(inside));
    let on = match split {
        "validation" => "validation images",
        "test" => "test images",
        _ => "training images",
    };
    let title = format!("{}, {on}", run.name);
    let x = [phase.from, phase.to];
    let mut chart = Chart::new(&title, "epoch", words, x, range(points().map(|p| p.1)));
    for line in &lines {
        let (name, color, width) = match line.member {
            Some(member) => (member_name(run, member), hue(member), 1.6),
            None => (outputs(run).combined_name().to_owned(), "black", 2.6),
        };
        let points: Vec<_> = line.points.iter().filter(inside).copied().collect();
        chart.series(&name, &points, color, width);
    }
    Some(chart.finish())
}

/// Accuracy against latency, one color per run. Lines join the subsets that no other subset beats.
fn anytime(runs: &[&RunView]) -> String {
    let of =
        |run: &&RunView| run.evaluation.as_ref().and_then(|evaluation| evaluation.latency.clone());
    let all: Vec<_> = runs.iter().filter_map(|run| Some((run.name.clone(), of(run)?))).collect();
    let points = || all.iter().flat_map(|(_, latency)| &latency.subsets);
    let most = points().map(|p| p.ms).fold(0.0, f64::max) * 1.05;
    let mut chart = Chart::new(
        "Anytime",
        "latency (ms)",
        "top-1 (%)",
        [0.0, most],
        range(points().map(|p| p.top1)),
    );
    for (i, (name, latency)) in all.iter().enumerate() {
        let mut front: Vec<_> =
            latency.subsets.iter().filter(|s| s.front).map(|s| (s.ms, s.top1)).collect();
        front.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart.series(name, &front, hue(i), 2.0);
        for subset in latency.subsets.iter().filter(|subset| !subset.front) {
            let at = chart.place([subset.ms, subset.top1]);
            chart.canvas.circle(at, 3.0, &format!(r#"fill="none" stroke="{}""#, hue(i)));
        }
    }
    chart.finish()
}

/// Reliability diagram of all outputs together.
fn reliability(run: &RunView) -> Option<String> {
    let ensemble = run.evaluation.as_ref()?.ensemble().filter(|all| !all.bins.is_empty())?;
    let mut chart =
        Chart::new(&run.name, "confidence (%)", "accuracy (%)", [0.0, 100.0], [0.0, 100.0]);
    let width = 100.0 / ensemble.bins.len() as f64;
    for (i, bin) in ensemble.bins.iter().enumerate().filter(|(_, bin)| bin.images > 0) {
        let [x, y] = chart.place([i as f64 * width, bin.accuracy]);
        let [right, bottom] = chart.place([(i + 1) as f64 * width, 0.0]);
        chart.canvas.rect([x + 1.0, y, right - x - 2.0, bottom - y], hue(0), "");
    }
    let (from, to) = (chart.place([0.0, 0.0]), chart.place([100.0, 100.0]));
    chart.canvas.path(&[from, to], r#"stroke="black" stroke-dasharray="4 3""#);
    Some(chart.finish())
}

/// Accuracy for every corruption and severity.
fn corruptions(run: &RunView) -> Option<String> {
    let corruptions = run.evaluation.as_ref()?.corruptions.as_ref()?;
    let most = corruptions.kinds.iter().map(|kind| kind.top1.len()).max()?;
    let mut canvas =
        Canvas::new(150.0 + most as f64 * 56.0, 30.0 + corruptions.kinds.len() as f64 * 22.0);
    for severity in 0..most {
        canvas.text([178.0 + severity as f64 * 56.0, 18.0], "middle", severity + 1, "");
    }
    for (row, kind) in corruptions.kinds.iter().enumerate() {
        let y = 26.0 + row as f64 * 22.0;
        canvas.text([142.0, y + 15.0], "end", &kind.name, "");
        for (column, top1) in kind.top1.iter().enumerate() {
            let Some(top1) = top1 else { continue };
            let x = 150.0 + column as f64 * 56.0;
            canvas.rect([x, y, 54.0, 20.0], &diverging(top1 / 100.0), "");
            let ink = if *top1 > 55.0 { "white" } else { "black" };
            canvas.text(
                [x + 27.0, y + 14.0],
                "middle",
                format!("{top1:.1}"),
                &format!(r#"font-size="11" fill="{ink}""#),
            );
        }
    }
    Some(canvas.finish())
}

/// Accuracy between two members.
fn interpolation(run: &RunView) -> Option<String> {
    let lines = &run.evaluation.as_ref()?.interpolations;
    let values = lines.iter().flat_map(|line| &line.points).map(|p| p.1);
    let mut chart =
        Chart::new(&run.name, "from one member to another", "top-1 (%)", [0.0, 1.0], range(values));
    for (i, line) in lines.iter().enumerate() {
        chart.series(&format!("{} to {}", line.from, line.to), &line.points, hue(i), 1.8);
    }
    (!lines.is_empty()).then(|| chart.finish())
}

/// Anytime curves of all runs in one figure, if several have one.
fn together(runs: &[RunView]) -> Option<(String, String)> {
    let timed = |run: &&RunView| {
        run.evaluation.as_ref().is_some_and(|evaluation| evaluation.latency.is_some())
    };
    let timed: Vec<_> = runs.iter().filter(timed).collect();
    (timed.len() > 1).then(|| ("anytime".to_owned(), anytime(&timed)))
}

/// Figures of ablations and sweeps.
fn compared(comparison: &Comparison) -> Vec<(String, String)> {
    let top1 =
        |row: usize| comparison.rows[row].measure("top1").map(|m| (m.mean, m.std.unwrap_or(0.0)));
    let mut all = vec![];
    for (n, ablation) in comparison.ablations.iter().enumerate() {
        let named = ablation.rows.iter().zip(&ablation.names);
        let bars: Vec<_> = named.filter_map(|(&row, name)| Some((name, top1(row)?))).collect();
        let ends = bars.iter().flat_map(|(_, (mean, std))| [mean - std, mean + std]);
        let [low, high] = range(ends);
        let mut chart =
            Chart::new(&ablation.title, "", "top-1 (%)", [0.0, bars.len() as f64], [low, high]);
        for (i, (name, (mean, std))) in bars.iter().enumerate() {
            let [x, y] = chart.place([i as f64 + 0.15, *mean]);
            let [right, bottom] = chart.place([i as f64 + 0.85, low]);
            chart.canvas.rect([x, y, right - x, bottom - y], hue(i), "");
            let (from, to) = (
                chart.place([i as f64 + 0.5, mean - std]),
                chart.place([i as f64 + 0.5, mean + std]),
            );
            chart.canvas.path(&[from, to], r#"stroke="black" stroke-width="1.5""#);
            chart.name(name, hue(i));
        }
        all.push((format!("ablation-{n:02}"), chart.finish()));
    }
    for (n, sweep) in comparison.sweeps.iter().enumerate() {
        let points: Vec<_> =
            sweep.points.iter().filter_map(|&(at, row)| Some((at, top1(row)?.0))).collect();
        let (x, y) = (range(points.iter().map(|p| p.0)), range(points.iter().map(|p| p.1)));
        let mut chart = Chart::new(&sweep.title, &sweep.key, "top-1 (%)", x, y);
        chart.series(&sweep.key, &points, hue(0), 2.0);
        all.push((format!("sweep-{n:02}"), chart.finish()));
    }
    all
}
