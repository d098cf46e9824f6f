//! A run as people watch it: a head, a line per epoch, and on a terminal a bar with the time that is left.
//!
//! Lines go to the output, the bar to the error output: it vanishes, they stay. Own code instead of a crate of bars: it
//! is one line that is written again.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use superweight::plan::SharingPlan;
use superweight::plan::number::with_commas;
use superweight::recipe::schedule::Schedule;
use superweight::search::{Threshold, groups};
use superweight::train::{
    DecayGroup, Decided, EpochReport, Evaluation, Observer, Progress, Ready, Stage, StepReport,
};

use crate::duration;
use crate::size::megabytes;

/// Time between two looks of the bar.
const REFRESH: Duration = Duration::from_millis(100);
/// Characters of the bar itself.
const WIDTH: usize = 24;

/// Draws what a run tells.
pub struct Screen<'a, W: Write> {
    /// None where nothing is wanted.
    lines: Option<&'a mut W>,
    bar: Option<Bar>,
}

impl<'a, W: Write> Screen<'a, W> {
    pub fn new(lines: Option<&'a mut W>, terminal: bool) -> Self {
        Self { lines, bar: terminal.then(Bar::default) }
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        if self.bar.as_mut().is_some_and(|bar| std::mem::take(&mut bar.visible)) {
            eprint!("\r\x1b[2K");
        }
    }

    /// A line that stays. Training goes on where nobody can read it: the log has everything.
    pub fn line(&mut self, text: &str) {
        self.clear();
        if let Some(lines) = &mut self.lines {
            let _ = writeln!(lines, "{text}").and_then(|()| lines.flush());
        }
    }
}

impl<W: Write> Observer for Screen<'_, W> {
    fn on_progress(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Ready(ready) => head(&ready).iter().for_each(|line| self.line(line)),
            Progress::Step(step) => {
                if let Some(bar) = &mut self.bar {
                    bar.train(step);
                }
            }
            Progress::Recalibrated(step) => {
                if let Some(bar) = &mut self.bar {
                    bar.recalibrate(step);
                }
            }
            Progress::Epoch(report) => {
                self.line(&epoch(report));
                if report.averaged > 1 {
                    let of = count(report.averaged as usize, "epoch");
                    self.line(&format!("averaged   {of}; what is kept and evaluated is the mean"));
                }
            }
            Progress::Decided(decided) => decision(decided).iter().for_each(|line| self.line(line)),
            Progress::Warning(warning) => self.line(&format!("warning: {warning}")),
            Progress::Saved(_) | Progress::Tested(_) => {}
        }
    }
}

fn head(ready: &Ready<'_>) -> Vec<String> {
    let plan = ready.plan;
    let members: Vec<_> =
        plan.members.iter().map(|member| member.architecture.to_string()).collect();
    let [train, held_out, test] = ready.images.map(|images| with_commas(images as u64));
    let steps = with_commas(ready.steps_per_epoch);
    let mut lines = vec![
        format!("run        {}", ready.folder.display()),
        format!("members    {}, {}", members.join(", "), plan.tiling),
        format!("numbers    {}", bill(plan)),
        format!("decayed    {}", weight_decay(ready.groups, true)),
        format!("undecayed  {}", weight_decay(ready.groups, false)),
        format!(
            "images     {train} to train on, {held_out} held out, {test} to test; {steps} steps an epoch"
        ),
    ];
    if let Some((name, bytes)) = ready.on_disk {
        let size = megabytes(bytes);
        lines.push(format!(
            "           {size} on disk, read as they are drawn; whole? 'swn data verify {name}'"
        ));
    }
    if let Some(refined) = ready.given {
        let then = refined.map_or("nothing is searched or refined".into(), |epoch| {
            format!("nothing is searched, coefficients are refined after epoch {epoch}")
        });
        lines.insert(2, format!("plan       given; {then}"));
    }
    if let Schedule::Multistep { lr, factor, at, .. } = ready.schedule {
        let after = |(i, epoch): (i32, &u64)| {
            format!("{} after epoch {epoch}", significant(lr * factor.powi(i)))
        };
        let all: Vec<_> = [lr.to_string()].into_iter().chain((1..).zip(at).map(after)).collect();
        lines.push(format!("lr       {}", filled(listed(&all))));
    }
    let exits = plan.members[0].architecture.exits();
    if exits > 1 {
        lines.push(format!(
            "exits      {exits}: each learns from labels, of their losses the mean is shown"
        ));
    }
    let heads = plan.members[0].architecture.heads();
    if heads > 1 {
        let times = match ready.repeats {
            1 => "once".to_owned(),
            repeats => format!("{repeats} times"),
        };
        lines.push(format!(
            "heads      {heads}: as many images at once, each of a step {times} for every head"
        ));
    }
    if ready.members_per_step < members.len() {
        let between = ready.members_per_step - 2;
        let (step, all) = (ready.members_per_step, members.len());
        lines.push(format!("turns      a step trains {step} of {all} members: the largest, the smallest and {between} between"));
    }
    if let Some(teacher) = ready.teacher {
        let name = &members[teacher.0];
        lines.push(format!(
            "distillation  member {teacher}, {name}, learns from labels, the others from its probabilities"
        ));
    }
    match ready.average {
        0 => {}
        1 => lines.push(
            "average    of one epoch: its end is kept, with batch norm's statistics taken anew"
                .into(),
        ),
        last => lines.push(format!(
            "average    the mean over the ends of the last {} epochs is kept",
            with_commas(last)
        )),
    }
    if let Some((number, position)) = ready.resumed {
        let (phase, epoch) = (position.phase, position.epoch);
        lines.push(format!(
            "resumed    from checkpoint {number}, after epoch {epoch} of phase {phase}"
        ));
    }
    lines
}

/// What was decided, why, and what it costs.
fn decision(Decided { stage, before, decision, anew }: &Decided) -> Vec<String> {
    let plan = &decision.plan;
    let Threshold { name, asked, used, relaxed } = &decision.threshold;
    let by = format!("{name} = {}", number(*used));
    let mut lines = match stage {
        Stage::Search => {
            let sizes: Vec<_> =
                plan.clusters.iter().map(|cluster| cluster.layers.len().to_string()).collect();
            let layers: usize = before.clusters.iter().map(|cluster| cluster.layers.len()).sum();
            let alone = plan.clusters.len() == layers && before.clusters.len() < layers;
            let hint = format!(
                "           no two layers share; a smaller {} keeps more of them together",
                key(name)
            );
            let mut lines = vec![
                format!(
                    "searched   {layers} layers: {} {} {}, by {by}",
                    count(before.clusters.len(), "cluster"),
                    becomes(before.clusters.len()),
                    count(plan.clusters.len(), "cluster"),
                ),
                wrapped("clusters of ", &sizes, " layers"),
            ];
            lines.extend(alone.then_some(hint));
            lines
        }
        Stage::Train => vec![format!(
            "refined    {} of coefficients {} {}, by {by}; {} coefficients become {}",
            count(groups(before), "group"),
            becomes(groups(before)),
            with_commas(groups(plan) as u64),
            with_commas(before.bill.coefficients),
            with_commas(plan.bill.coefficients),
        )],
    };
    if let Some(reason) = relaxed {
        lines.push(format!("relaxed    {name} = {} was asked for: {reason}", number(*asked)));
    }
    lines.push(format!("numbers    {}", bill(plan)));
    if *anew {
        lines.push("           everything starts anew".to_owned());
    }
    lines
}

/// The recipe's word for a threshold.
fn key(name: &str) -> &'static str {
    if name == "k" { "search.clusters" } else { "search.tau" }
}

fn becomes(n: usize) -> &'static str {
    if n == 1 { "becomes" } else { "become" }
}

fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", with_commas(n as u64), if n == 1 { "" } else { "s" })
}

/// A threshold: as typed, or four digits of a similarity.
fn number(x: f64) -> String {
    let short = format!("{x:.4}");
    if x.to_string().len() <= short.len() { x.to_string() } else { short }
}

/// With three digits that count.
fn significant(x: f64) -> f64 {
    format!("{x:.2e}").parse().unwrap_or(x)
}

/// One line, cut where it would be too long.
fn wrapped(before: &str, items: &[String], after: &str) -> String {
    const ROOM: usize = 60;
    let mut text = items.join(" ");
    if text.len() > ROOM {
        text.truncate(text[..ROOM].rfind(' ').unwrap_or(ROOM));
        text += " …";
    }
    format!("           {before}{text}{after}")
}

fn bill(plan: &SharingPlan) -> String {
    let (trained, dense) = (with_commas(plan.bill.trained()), with_commas(plan.dense_total()));
    let reserved = match plan.bill.reserved {
        0 => String::new(),
        reserved => format!(", {} kept for refinement", with_commas(reserved)),
    };
    let budget = match (plan.budget, plan.unused()) {
        (Some(budget), Some(unused)) => {
            format!("; budget {}, {} left over", with_commas(budget), with_commas(unused))
        }
        _ => String::new(),
    };
    format!("{trained} trained{reserved}{budget}\n           {dense} without sharing")
}

/// What is decayed and by how much, or what is not.
fn weight_decay(groups: &[DecayGroup], decayed: bool) -> String {
    let mut alike: Vec<(f64, Vec<String>)> = vec![];
    for group in groups.iter().filter(|group| (group.weight_decay > 0.0) == decayed) {
        let (by, shown) =
            (significant(group.weight_decay), format!("{} {}", with_commas(group.numbers), group.kind.name()));
        match alike.iter_mut().find(|(other, _)| *other == by) {
            Some((_, all)) => all.push(shown),
            None => alike.push((by, vec![shown])),
        }
    }
    let parts = alike.into_iter().flat_map(|(by, mut all)| {
        let last = all.len() - 1;
        all.iter_mut()
            .enumerate()
            .for_each(|(i, shown)| *shown += if i == last { ";" } else { "," });
        if decayed {
            all[0] = format!("by {by}: {}", all[0]);
        }
        all
    });
    let text = filled(parts);
    text.strip_suffix(';').unwrap_or("nothing").to_owned()
}

/// With commas between them.
fn listed(parts: &[String]) -> impl Iterator<Item = String> {
    let last = parts.len().saturating_sub(1);
    parts
        .iter()
        .enumerate()
        .map(move |(i, part)| if i < last { format!("{part},") } else { part.clone() })
}

/// Side by side, on as many lines as it takes.
fn filled(parts: impl Iterator<Item = String>) -> String {
    const ROOM: usize = 86;
    let mut lines: Vec<String> = vec![];
    for part in parts {
        match lines.last_mut().filter(|line| line.len() + 1 + part.len() <= ROOM) {
            Some(line) => *line += &format!(" {part}"),
            None => lines.push(part),
        }
    }
    lines.join("\n           ")
}

fn epoch(report: &EpochReport) -> String {
    let EpochReport { phase, epoch, epochs, train, validation, test, .. } = report;
    let width = epochs.to_string().len();
    let mut line = format!("{phase} {:>width$}/{epochs}  loss {:.4}", epoch + 1, train.loss);
    if train.losses.len() > 1 {
        line += &format!(" ({})", range(train.losses.iter().copied(), 3));
    }
    for (part, seen) in [("held out", validation), ("test", test)] {
        line += &seen.as_ref().map_or(String::new(), |seen| format!("  {part} {}", scores(seen)));
    }
    let time = duration::show(Duration::from_secs_f64(train.seconds));
    line + &format!(
        "  lr {:.2e}  {} img/s  {time}",
        train.lr,
        with_commas(train.images_per_s as u64)
    )
}

fn scores(seen: &Evaluation) -> String {
    let members = match seen.members.len() {
        1 => String::new(),
        _ => format!(" ({})", range(seen.members.iter().map(|member| member.top1), 1)),
    };
    format!("{:.2}%{members}", seen.ensemble.top1)
}

/// Lowest and highest: as wide for ten members as for two.
fn range(values: impl Iterator<Item = f64> + Clone, digits: usize) -> String {
    let (low, high) =
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
    format!("{low:.digits$}–{high:.digits$}")
}

/// The line that is written again.
#[derive(Default)]
struct Bar {
    visible: bool,
    drawn: Option<Instant>,
    /// Which steps are being done, when the first of them was, and which it was.
    first: Option<(Steps, Instant, u64)>,
}

/// Steps of one pace.
#[derive(Clone, Copy, PartialEq)]
enum Steps {
    Of(Stage),
    /// Forward only.
    Recalibration,
}

impl Bar {
    fn train(&mut self, step: StepReport) {
        let StepReport { stage, epoch, epochs, step, steps } = step;
        let what = format!("{stage} {}/{epochs}", epoch + 1);
        self.draw(&what, step, steps, Steps::Of(stage), (epoch * steps + step, epochs * steps));
    }

    fn recalibrate(&mut self, StepReport { step, steps, .. }: StepReport) {
        self.draw("batch norm of the mean", step, steps, Steps::Recalibration, (step, steps));
    }

    /// A bar of `step` in `steps`, and the time until all steps of their pace are done.
    fn draw(&mut self, what: &str, step: u64, steps: u64, pace: Steps, (done, all): (u64, u64)) {
        let now = Instant::now();
        let left = self.left(now, pace, done, all);
        if self.drawn.is_some_and(|drawn| now - drawn < REFRESH) && step < steps {
            return;
        }
        (self.drawn, self.visible) = (Some(now), true);
        let time = left.map_or("…".to_owned(), duration::show);
        let full = (WIDTH as u64 * step / steps.max(1)) as usize;
        let bar = "#".repeat(full) + &"-".repeat(WIDTH - full);
        eprint!("\r\x1b[2K{what} [{bar}] {step}/{steps}, {time} left");
        let _ = io::stderr().flush();
    }

    /// By the steps of this pace that this process has seen; a run may go on in the middle of a phase.
    fn left(&mut self, now: Instant, pace: Steps, done: u64, all: u64) -> Option<Duration> {
        let known = self.first.filter(|&(of, _, first)| of == pace && first <= done);
        let (_, start, first) = *self.first.insert(known.unwrap_or((pace, now, done)));
        let seen = done - first;
        (seen > 0).then(|| (now - start).mul_f64((all - done) as f64 / seen as f64))
    }
}

#[cfg(test)]
mod tests {
    use superweight::model::ensemble::ParameterKind;

    use super::*;

    /// A search that goes on has come further than the training after it, whose steps are counted anew.
    #[test]
    fn the_time_left_is_by_steps_of_the_same_pace() {
        let (mut bar, start) = (Bar::default(), Instant::now());
        let second = |n| start + Duration::from_secs(n);
        let [search, train] = [Stage::Search, Stage::Train].map(Steps::Of);
        assert_eq!(bar.left(second(0), search, 500, 600), None);
        assert_eq!(bar.left(second(2), search, 510, 600), Some(Duration::from_secs(18)));
        assert_eq!(bar.left(second(20), train, 1, 100), None);
        assert_eq!(bar.left(second(24), train, 3, 100), Some(Duration::from_secs(194)));
        assert_eq!(bar.left(second(30), Steps::Recalibration, 1, 10), None);
        assert_eq!(bar.left(second(31), Steps::Recalibration, 2, 10), Some(Duration::from_secs(8)));
    }

    #[test]
    fn what_is_decayed_takes_as_many_lines_as_it_needs() {
        let group = |kind, numbers, weight_decay| DecayGroup { kind, numbers, weight_decay };
        assert_eq!(weight_decay(&[], true), "nothing");
        let few = [
            group(ParameterKind::Templates, 1000, 5e-4),
            group(ParameterKind::Coefficients, 20, 0.0),
            group(ParameterKind::BatchNorm, 300, 0.1),
            group(ParameterKind::Classifier, 4, 0.000_500_01),
        ];
        assert_eq!(
            weight_decay(&few, true),
            "by 0.0005: 1,000 templates, 4 classifier; by 0.1: 300 batch norm"
        );
        assert_eq!(weight_decay(&few, false), "20 coefficients");
        let many = ParameterKind::ALL.map(|kind| group(kind, 1_234_567, 5e-4));
        let text = weight_decay(&many, true);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= 98), "{text}");
        assert_eq!(text.matches("1,234,567 ").count(), many.len());
        assert!(!text.ends_with(';') && text.lines().all(|line| !line.ends_with(' ')));
    }
}
