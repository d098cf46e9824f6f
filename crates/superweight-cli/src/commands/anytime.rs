//! `swn anytime`: time of every member, worth of every subset, a profile for `swn predict`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use superweight::infer::anytime::{PROFILE, Profile, SystemClock, measure};
use superweight::data::standard_folder;
use superweight::engine::Device;
use superweight::evaluate::{evaluate_subsets, subset_name};
use superweight::infer::{Trained, normalize};
use superweight::model::Outputs;

use super::check_writable;
use super::device::{self, on_device};
use super::eval::{images, open, stale_report};
use crate::args::AnytimeArgs;
use crate::table;

/// Rounds before any counts, and at least so many that do: a p99 needs a hundred.
const ROUNDS: [usize; 2] = [5, 100];
/// Images of a step of the pass that accuracies come from.
const PASS_BATCH: usize = 128;

pub fn run(args: AnytimeArgs, out: &mut impl Write) -> Result<ExitCode> {
    ensure!(args.batch.iter().all(|&batch| batch > 0), "--batch: at least one image");
    ensure!(
        args.seconds.is_finite() && (0.0..=3600.0).contains(&args.seconds),
        "--seconds {}: must be between 0 and 3600",
        args.seconds
    );
    let trained = open(&args.run)?;
    let path = args.run.join(PROFILE);
    check_writable(&path)
        .with_context(|| format!("{}: make its folder writable", path.display()))?;
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let where_ = device.describe();
    let mut made: Vec<Profile> = vec![];
    let told = |profile: Profile| -> Result<()> {
        if made.is_empty() {
            profile.save(&path)?;
        }
        if !args.on.json {
            if made.is_empty() {
                writeln!(
                    out,
                    "run        {}, checkpoint {}",
                    args.run.display(),
                    trained.stamp.number
                )?;
                writeln!(out, "accuracy   on {}", profile.data)?;
                writeln!(out, "device     {where_}, load {}", load())?;
            }
            writeln!(
                out,
                "\nbatch {}, {} rounds\n{}",
                profile.batch,
                profile.rounds,
                text(&profile)
            )?;
            out.flush()?;
        }
        made.push(profile);
        Ok(())
    };
    on_device!(device, |device| profiles(&device, &where_, &args, &trained, told))?;
    if args.on.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&made)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "profile    {} (batch {})", path.display(), made[0].batch)?;
    write!(out, "{}", stale_report(&args.run))?;
    Ok(ExitCode::SUCCESS)
}

/// One for every `--batch`, told as soon as it is measured.
pub(super) fn profiles<D: Device>(
    device: &D,
    where_: &str,
    args: &AnytimeArgs,
    trained: &Trained,
    mut told: impl FnMut(Profile) -> Result<()>,
) -> Result<()> {
    let outputs = Outputs::of(&trained.plan);
    let subsets = outputs.subsets()?;
    let data = trained.dataset(&standard_folder()?)?;
    let images = images(trained, &data, args.held_out, args.images)?;
    let normalization = trained.normalization()?;
    let predictions = trained.networks(device, PASS_BATCH.min(images.len()))?.predict(
        &images,
        &normalization,
        |_| (),
    )?;
    let scores = evaluate_subsets(&predictions, &subsets);
    let part = if args.held_out { "held-out" } else { "test" };
    for &batch in &args.batch {
        let networks = trained.networks_by_exit(device, batch);
        let mut networks = networks.with_context(|| format!("--batch {batch}"))?;
        let len = networks.image_len();
        let mut input = vec![];
        let pixels = images.pixels.iter().copied().cycle().take(batch * len).collect::<Vec<_>>();
        normalize(&pixels, &normalization, &mut input);
        let time = Duration::from_secs_f64(args.seconds);
        let latencies = measure(&mut networks, &SystemClock::default(), &input, ROUNDS, time)
            .with_context(|| format!("--batch {batch}"))?;
        told(Profile {
            checkpoint: trained.stamp.number,
            digest: trained.stamp.digest.clone(),
            device: where_.to_owned(),
            data: format!("{} {part} images of {}", images.len(), trained.resolved.data.name),
            ..Profile::new(&outputs, batch, &scores, &latencies)
        })?;
    }
    Ok(())
}

/// Quickest first; what another subset beats is marked.
fn text(profile: &Profile) -> String {
    let mut subsets: Vec<_> = profile.subsets.iter().collect();
    subsets.sort_by(|a, b| a.time.median_ms.total_cmp(&b.time.median_ms));
    let row = |subset: &&superweight::infer::anytime::SubsetProfile| {
        vec![
            subset_name(subset.members, &profile.outputs()),
            format!("{:.3}", subset.time.median_ms),
            format!("{:.3}", subset.time.p99_ms),
            format!("{:.2}", subset.top1),
            format!("{:.4}", subset.nll),
            format!("{:.2}", subset.ece),
            if subset.dominated { "dominated" } else { "" }.to_owned(),
        ]
    };
    let rows: Vec<_> = subsets.iter().map(row).collect();
    table::render(
        &[profile.outputs().words(), "median ms", "p99 ms", "top-1", "NLL", "ECE", ""],
        &rows,
    )
}

/// How busy the machine is, where the system says so.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|word| !word.is_empty()).unwrap_or("unknown").to_owned()
}
