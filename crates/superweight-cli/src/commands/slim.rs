//! `swn slim`: a trained network's own widths, for as little work as asked.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use superweight::data::{Dataset, Images, Split, standard_folder};
use superweight::engine::Device;
use superweight::ensemble::by_size;
use superweight::infer::{InferError, Trained};
use superweight::plan::arch::{ArchName, Architecture};
use superweight::plan::number::grouped;
use superweight::plan::{Budget, Member, MemberId, Scale};
use superweight::slim::{Progress, Slimmed, Slimming};

use super::device::{self, on_device};
use super::eval::open;
use crate::args::SlimArgs;
use crate::duration;
use crate::signals::{INTERRUPTED, watched_limits};
use crate::table;
use crate::ticker::Ticker;

/// Everything that is printed.
#[derive(Serialize)]
struct Answer {
    run: PathBuf,
    checkpoint: u64,
    member: usize,
    architecture: ArchName,
    images: usize,
    /// `held-out` or `training`.
    part: &'static str,
    /// What each width is of.
    widths: Vec<String>,
    /// The whole and what came down to the work that was asked for, in this order.
    networks: Vec<Network>,
    /// All networks on the way.
    way: Vec<Slimmed>,
    interrupted: bool,
}

#[derive(Serialize)]
struct Network {
    /// As typed; nothing for the whole.
    to: Option<String>,
    architecture: ArchName,
    numbers: u64,
    #[serde(flatten)]
    slimmed: Slimmed,
}

/// Work that was asked for.
struct Target {
    typed: String,
    work: u64,
}

pub fn run(args: SlimArgs, out: &mut impl Write) -> Result<ExitCode> {
    let trained = open(&args.run)?;
    let members = trained.plan.members.len();
    let member = args.member.map_or_else(|| by_size(&trained.plan)[0], MemberId);
    let known = InferError::NoMember { member: member.0, members };
    ensure!(member.0 < members, "--member {member}: {known}");
    let whole = trained.plan.members[member.0].build()?;
    let targets = targets(&args.to, &trained.plan.members[member.0], &whole)?;
    if trained.resolved.plan.scale != Some(Scale::Corner) {
        eprintln!(
            "note: the run was not trained in several widths, so its last channels matter as much as its first \
             (recipes/figure-3/universally-slimmable-cifar-100.toml is)"
        );
    }
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let answer = on_device!(device, |device| slim(&device, &args, &trained, member, &whole, &targets))?;
    match args.on.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?,
        false => write!(out, "{}", text(&answer))?,
    }
    if answer.interrupted {
        eprintln!("stopped    interrupted");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

/// The most work first.
fn targets(typed: &[String], member: &Member, whole: &Architecture) -> Result<Vec<Target>> {
    let all = whole.counts().multiply_adds;
    let target = |typed: &String| {
        let work = match typed.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            true => typed.parse::<Budget>().map(|budget| budget.resolve(all)).ok(),
            false => {
                let other = Member { architecture: typed.parse()?, ..member.clone() };
                Some(other.build()?.counts().multiply_adds)
            }
        };
        match work {
            None => bail!("write a share (50%), a count of multiply-adds (1.5G) or a network (wrn-28-4)"),
            Some(work) if work >= all => {
                bail!("{} multiply-adds; {} has no more than {}", grouped(work), whole.name, grouped(all))
            }
            Some(work) => Ok(Target { typed: typed.clone(), work }),
        }
    };
    let each = typed.iter().map(|typed| target(typed).with_context(|| format!("--to {typed}")));
    let mut targets = each.collect::<Result<Vec<_>>>()?;
    targets.sort_by_key(|target| std::cmp::Reverse(target.work));
    Ok(targets)
}

fn slim<D: Device>(
    device: &D,
    args: &SlimArgs,
    trained: &Trained,
    member: MemberId,
    whole: &Architecture,
    targets: &[Target],
) -> Result<Answer> {
    let data = trained.dataset(&standard_folder()?)?;
    let (images, part) = images(trained, &data, args.images as usize)?;
    let batch = (args.batch as usize).min(images.len());
    let numbers = trained.networks(device, batch)?.state_dict(member)?;
    let slimming =
        Slimming { architecture: whole, numbers: &numbers, step: args.step.map(|step| step as usize) };
    let (all, least) = (whole.counts().multiply_adds, slimming.least_work());
    let work = targets.last().map_or(all, |target| target.work);
    if let Some(Target { typed, work }) = targets.last().filter(|target| target.work < least) {
        let (work, most, share) = (grouped(*work), grouped(least), 100.0 * least as f64 / all as f64);
        let advice = if args.step == Some(1) { "" } else { "; --step 1 takes single channels" };
        let name = &whole.name;
        bail!(
            "--to {typed}: {work} multiply-adds; {name} comes down to {most} ({share:.1}%) at the least{advice}"
        );
    }
    let limits = watched_limits()?;
    let ticker = Ticker::new();
    let mut now = all;
    let see = |progress: Progress| {
        if let Progress::Taken(slimmed) = progress {
            now = slimmed.multiply_adds;
        }
        let share = |work: u64| 100.0 * work as f64 / all as f64;
        let done = (all - now) as f64 / (all - work) as f64;
        ticker.show(|| match now {
            now if now == all => "trying the first channels".to_owned(),
            _ => format!(
                "{:.1}% of the work, down to {:.1}%: {} left",
                share(now),
                share(work),
                duration::show(ticker.left(done))
            ),
        });
        if limits.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let way = slimming.run(device, &images, &trained.normalisation()?, batch, work, see);
    ticker.clear();
    let way = way?;
    let network = |to: Option<String>, slimmed: &Slimmed| {
        let architecture =
            if to.is_some() { whole.name.slimmed(slimmed.widths.clone()) } else { whole.name.clone() };
        let numbers = whole.clone().with_widths(architecture.clone(), &slimmed.widths).counts().total();
        Network { to, architecture, numbers, slimmed: slimmed.clone() }
    };
    let reached = targets.iter().filter_map(|target| {
        let slimmed = way.iter().find(|slimmed| slimmed.multiply_adds <= target.work)?;
        Some(network(Some(target.typed.clone()), slimmed))
    });
    let networks: Vec<_> = way.iter().take(1).map(|whole| network(None, whole)).chain(reached).collect();
    Ok(Answer {
        run: args.run.clone(),
        checkpoint: trained.number,
        member: member.0,
        architecture: whole.name.clone(),
        images: images.len(),
        part,
        widths: whole.widths().into_iter().map(|width| width.name).collect(),
        interrupted: networks.len() <= targets.len(),
        networks,
        way,
    })
}

/// As many training images of every class, of those that were held out where there are such: a smaller draw is a part of a larger.
fn images(trained: &Trained, data: &Dataset, count: usize) -> Result<(Images, &'static str)> {
    let settings = &trained.resolved.data;
    let (most, part) = match settings.validation {
        0 => (data.train.len().saturating_sub(1), "training"),
        held_out => (held_out, "held-out"),
    };
    if part == "training" {
        eprintln!("note: the run held no images out, so widths are judged by images that it was trained on");
    }
    let split =
        Split::hold_out(&data.train.labels, data.classes.len(), count.min(most), settings.split_seed)?;
    let chosen = split.validation.iter().map(|&image| image as usize);
    let mut pixels = Vec::with_capacity(split.validation.len() * data.image_len());
    chosen.clone().for_each(|image| pixels.extend_from_slice(data.train.image(image)));
    let labels = chosen.map(|image| data.train.labels[image]).collect();
    Ok((Images { pixels: pixels.into(), labels }, part))
}

fn text(answer: &Answer) -> String {
    let Answer { run, checkpoint, member, architecture, images, part, .. } = answer;
    let mut text = format!("run        {}, checkpoint {checkpoint}\n", run.display());
    text += &format!(
        "slimmed    member {member}, {architecture}, by {} {part} images\n\n",
        grouped(*images as u64)
    );
    let all = answer.networks[0].slimmed.multiply_adds as f64;
    let row = |network: &Network| {
        let Slimmed { multiply_adds, figures, .. } = &network.slimmed;
        vec![
            network.to.clone().unwrap_or_else(|| "whole".to_owned()),
            grouped(*multiply_adds),
            format!("{:.1}%", 100.0 * *multiply_adds as f64 / all),
            grouped(network.numbers),
            format!("{:.2}", figures.top1),
            format!("{:.4}", figures.nll),
        ]
    };
    let rows: Vec<_> = answer.networks.iter().map(row).collect();
    text += &table::render(&["down to", "multiply-adds", "", "numbers", "top-1", "NLL"], &rows);
    text += "  with the whole network's numbers, batch norm on the statistics of the batch\n\n";
    let row = |(i, name): (usize, &String)| {
        let channels = answer.networks.iter().map(|network| network.slimmed.widths[i].to_string());
        [name.clone()].into_iter().chain(channels).collect()
    };
    let rows: Vec<Vec<String>> = answer.widths.iter().enumerate().map(row).collect();
    let whole = "whole".to_owned();
    let to = answer.networks.iter().map(|network| network.to.as_ref().unwrap_or(&whole).as_str());
    let header: Vec<&str> = ["channels from"].into_iter().chain(to).collect();
    text += &table::render(&header, &rows);
    for (i, network) in answer.networks.iter().skip(1).enumerate() {
        let word = if i == 0 { "\nnext       " } else { "           " };
        text += &format!("{word}swn train RECIPE --set members={}\n", network.architecture);
    }
    text
}
