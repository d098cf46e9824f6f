//! `swn slim`: narrower widths of a trained network, for a target of multiply-adds.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use superweight::data::{Images, standard_folder};
use superweight::engine::Device;
use superweight::infer::Trained;
use superweight::infer::slim::{Progress, Slimmed, Slimming, is_slimmable};
use superweight::model::ensemble::by_size;
use superweight::plan::arch::{ArchName, Architecture};
use superweight::plan::number::with_commas;
use superweight::plan::{Budget, Member, MemberId};
use superweight::run::Tensors;

use super::device::{self, on_device};
use super::runs::{note_disk, open};
use crate::args::SlimArgs;
use crate::ui::progress::ProgressLine;
use crate::ui::signals::{INTERRUPTED, watched_limits};
use crate::ui::{duration, table, typed};

/// Number of images without `--images`.
const IMAGES: usize = 2000;

/// Everything that is printed.
#[derive(Serialize)]
struct Answer {
    run: PathBuf,
    checkpoint: u64,
    member: usize,
    architecture: ArchName,
    images: usize,
    /// `validation` or `train`.
    split: &'static str,
    /// Layer of each width.
    widths: Vec<String>,
    /// The whole network, then the networks that meet the targets.
    networks: Vec<Network>,
    /// All networks on the way to the last target.
    way: Vec<Slimmed>,
    /// Targets that were not reached because the command was stopped.
    missed: Vec<String>,
}

#[derive(Serialize)]
struct Network {
    /// The target as typed; `None` for the whole network.
    target: Option<String>,
    architecture: ArchName,
    parameters: u64,
    #[serde(flatten)]
    slimmed: Slimmed,
}

/// A target of multiply-adds.
struct Target {
    typed: String,
    multiply_adds: u64,
}

pub fn run(args: SlimArgs, out: &mut impl Write) -> Result<ExitCode> {
    let trained = open(&args.run)?;
    let member = match args.member_id {
        Some(member) => trained.member(member).context("--member-id")?,
        None => by_size(&trained.plan)[0],
    };
    let whole = trained.plan.members[member.0].build()?;
    ensure!(
        whole.exits.len() == 1,
        "{}: {} has {} exits; 'swn slim' takes networks with one output only",
        args.run.display(),
        whole.name,
        whole.exits.len()
    );
    let targets = targets(&args, &trained.plan.members[member.0], &whole)?;
    if !is_slimmable(&trained.plan, member) {
        eprintln!(
            "note: {} was not trained together with narrower networks that are corners of it, so its last channels matter as much \
             as its first (recipes/figure-3/universally-slimmable-cifar-100.toml trains such networks)",
            whole.name
        );
    }
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let answer =
        on_device!(device, |device| slim(&device, &args, &trained, member, &whole, &targets))?;
    match args.on.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?,
        false if answer.networks.is_empty() => {}
        false => write!(out, "{}", text(&answer))?,
    }
    if answer.missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    out.flush()?;
    eprintln!("stopped    interrupted before it reached {}", answer.missed.join(", "));
    Ok(ExitCode::from(INTERRUPTED))
}

/// Parses and checks the targets; the largest comes first.
fn targets(args: &SlimArgs, member: &Member, whole: &Architecture) -> Result<Vec<Target>> {
    let all = whole.counts().multiply_adds;
    let least = Slimming { architecture: whole, parameters: &Tensors::default(), step: step(args) }
        .least_work();
    let target = |typed: String| {
        let forms =
            "write a fraction (50%), a count of multiply-adds (1.5G) or a network (wrn-28-4)";
        let multiply_adds = match (typed.parse::<Budget>(), typed.parse::<ArchName>()) {
            (Ok(budget), _) => budget.resolve(all),
            (_, Ok(architecture)) => {
                Member { architecture, ..member.clone() }.build()?.counts().multiply_adds
            }
            (Err(no_count), _) if typed.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                bail!("{}; {forms}", no_count.reason())
            }
            (_, Err(no_network)) => bail!("{forms}; {no_network}"),
        };
        let (name, wanted) = (&whole.name, with_commas(multiply_adds));
        ensure!(
            multiply_adds < all,
            "{wanted} multiply-adds are not fewer than those of {name}, {}",
            with_commas(all)
        );
        let advice = if args.step == Some(1) { "" } else { "; --step 1 removes single channels" };
        let share = 100.0 * least as f64 / all as f64;
        ensure!(
            multiply_adds >= least,
            "{wanted} multiply-adds are too few: {name} needs at least {} ({share:.1}%){advice}",
            with_commas(least)
        );
        Ok(Target { typed, multiply_adds })
    };
    let each = args.target.iter().flat_map(|typed| listed(typed));
    let each = each.map(|typed| target(typed.clone()).with_context(|| format!("--target {typed}")));
    let mut targets = each.collect::<Result<Vec<_>>>()?;
    targets.sort_by_key(|target| std::cmp::Reverse(target.multiply_adds));
    Ok(targets)
}

/// Splits at commas, except at those between groups of three digits.
fn listed(typed: &str) -> Vec<String> {
    let mut parts: Vec<String> = vec![];
    for part in typed.split(',').map(str::trim) {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let thousands = part.len() == 3 && digits(part);
        match parts.last_mut() {
            Some(last) if thousands && digits(&last.replace(',', "")) => {
                *last += &format!(",{part}")
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

fn step(args: &SlimArgs) -> Option<usize> {
    args.step.map(|step| step as usize)
}

fn slim<D: Device>(
    device: &D,
    args: &SlimArgs,
    trained: &Trained,
    member: MemberId,
    whole: &Architecture,
    targets: &[Target],
) -> Result<Answer> {
    let (images, split) = images(trained, args)?;
    let batch = (args.batch_size as usize).min(images.len());
    let parameters = trained.networks(device, 1)?.state_dict(member)?;
    let slimming = Slimming { architecture: whole, parameters: &parameters, step: step(args) };
    let all = whole.counts().multiply_adds;
    let last = targets.last().map_or(all, |target| target.multiply_adds);
    let limits = watched_limits()?;
    let line = ProgressLine::new();
    let mut now = all;
    let see = |progress: Progress| {
        if let Progress::Step(slimmed) = progress {
            now = slimmed.multiply_adds;
        }
        let share = |multiply_adds: u64| 100.0 * multiply_adds as f64 / all as f64;
        let done = (all - now) as f64 / (all - last) as f64;
        line.show(|| match now {
            now if now == all => "trying the first channels".to_owned(),
            _ => format!(
                "{:.1}% of the multiply-adds, target {:.1}%: {} left",
                share(now),
                share(last),
                duration::show(line.left(done))
            ),
        });
        if limits.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let way = slimming.run(device, &images, &trained.normalization()?, batch, last, see);
    line.clear();
    let way = way?;
    if way.first().is_some_and(|whole| whole.figures.nll.is_nan()) {
        bail!("{}: the logits of member {member} are not finite", args.run.display());
    }
    let network = |target: Option<String>, slimmed: &Slimmed| {
        let slim = || whole.name.slimmed(slimmed.widths.clone());
        let architecture = if target.is_some() { slim() } else { whole.name.clone() };
        let parameters = architecture.build(whole.input, whole.classes)?.counts().total();
        Ok(Network { target, architecture, parameters, slimmed: slimmed.clone() })
    };
    let mut networks =
        way.iter().take(1).map(|whole| network(None, whole)).collect::<Result<Vec<_>>>()?;
    let mut missed = vec![];
    for Target { typed, multiply_adds } in targets {
        match way.iter().find(|slimmed| slimmed.multiply_adds <= *multiply_adds) {
            Some(slimmed) => networks.push(network(Some(typed.clone()), slimmed)?),
            None => missed.push(typed.clone()),
        }
    }
    // An interrupted search has a narrower network too.
    if let Some(last) = way.last().filter(|last| !missed.is_empty() && last.multiply_adds < all) {
        networks.push(network(Some("so far".to_owned()), last)?);
    }
    Ok(Answer {
        run: args.run.clone(),
        checkpoint: trained.stamp.number,
        member: member.0,
        architecture: whole.name.clone(),
        images: images.len(),
        split,
        widths: whole.widths().into_iter().map(|width| width.name).collect(),
        missed,
        networks,
        way,
    })
}

/// Images to measure the loss on, equally many of every class: validation images, or training
/// images if there are none.
fn images(trained: &Trained, args: &SlimArgs) -> Result<(Images, &'static str)> {
    let data = trained.dataset(&standard_folder()?)?;
    note_disk(&data);
    let (most, split) = match trained.resolved.data.validation {
        0 => (data.train.len().saturating_sub(1), "train"),
        validation => (validation, "validation"),
    };
    if split == "train" {
        eprintln!(
            "note: the run has no validation images ('swn train --validation 10%' makes some), so the loss is measured on \
             images that it was trained on"
        );
    }
    let count = match args.images {
        Some(images) if images as usize > most => {
            bail!("--images {images}: there are {} {split} images", with_commas(most as u64))
        }
        Some(images) => images as usize,
        None => most.min(IMAGES),
    };
    ensure!(count > 1, "the run has one validation image; at least two are needed");
    Ok((trained.validation_images(&data, count)?, split))
}

fn text(answer: &Answer) -> String {
    let Answer { run, checkpoint, member, architecture, images, split, .. } = answer;
    let mut text = format!("run        {}, checkpoint {checkpoint}\n", run.display());
    text += &format!(
        "slimmed    member {member}, {architecture}, by the loss on {} {split} images\n\n",
        with_commas(*images as u64)
    );
    let all = answer.networks[0].slimmed.multiply_adds as f64;
    let row = |network: &Network| {
        let Slimmed { multiply_adds, figures, .. } = &network.slimmed;
        vec![
            network.target.clone().unwrap_or_else(|| "whole".to_owned()),
            with_commas(*multiply_adds),
            format!("{:.1}%", 100.0 * *multiply_adds as f64 / all),
            with_commas(network.parameters),
            format!("{:.2}", figures.top1),
            format!("{:.4}", figures.nll),
        ]
    };
    let rows: Vec<_> = answer.networks.iter().map(row).collect();
    text += &table::render(&["target", "multiply-adds", "", "parameters", "top-1", "NLL"], &rows);
    text += "  with the whole network's weights; batch norm uses the statistics of the batch\n\n";
    let row = |(i, name): (usize, &String)| {
        let channels = answer.networks.iter().map(|network| network.slimmed.widths[i].to_string());
        [name.clone()].into_iter().chain(channels).collect()
    };
    let rows: Vec<Vec<String>> = answer.widths.iter().enumerate().map(row).collect();
    let whole = "whole".to_owned();
    let targets =
        answer.networks.iter().map(|network| network.target.as_ref().unwrap_or(&whole).as_str());
    let header: Vec<&str> = ["channels from"].into_iter().chain(targets).collect();
    text += &table::render(&header, &rows);
    let mut next: Vec<&Network> = answer.networks.iter().skip(1).collect();
    next.dedup_by_key(|network| &network.architecture);
    for (i, network) in next.into_iter().enumerate() {
        let head = if i == 0 { "\nnext       " } else { "           " };
        let train = typed(&format!("train RECIPE --set members={}", network.architecture));
        text += &format!("{head}{train}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn commas_separate_all_but_thousands() {
        for (typed, parts) in [
            ("50%,wrn-28-4", vec!["50%", "wrn-28-4"]),
            ("169,464", vec!["169,464"]),
            ("1,169,464,50%", vec!["1,169,464", "50%"]),
            ("60%,169,464", vec!["60%", "169,464"]),
            ("1.5G,200M", vec!["1.5G", "200M"]),
            ("50,25", vec!["50", "25"]),
            ("100,500M, 3%", vec!["100", "500M", "3%"]),
            ("", vec![""]),
        ] {
            assert_eq!(listed(typed), parts, "{typed}");
        }
    }
}
