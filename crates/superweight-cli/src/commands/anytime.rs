//! `swn anytime`: times every member, evaluates every subset, and keeps a profile for `swn
//! predict`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use superweight::data::standard_folder;
use superweight::engine::Device;
use superweight::evaluate::{evaluate_subsets, subset_name};
use superweight::infer::anytime::{PROFILE, Profile, SubsetProfile, SystemClock, measure};
use superweight::infer::{Trained, normalize};

use super::check_writable;
use super::device::{self, on_device};
use super::eval::stale_report;
use super::runs::{images, open, split};
use crate::args::AnytimeArgs;
use crate::ui::table;

/// Rounds of warm-up, and the least number of rounds after it: a 99th percentile needs a hundred.
const ROUNDS: [usize; 2] = [5, 100];
/// Images per step of the pass that gives the accuracies.
const PASS_BATCH: usize = 128;

pub fn run(args: AnytimeArgs, out: &mut impl Write) -> Result<ExitCode> {
    ensure!(args.batch_size.iter().all(|&size| size > 0), "--batch-size: at least one image");
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
    let place = device.describe();
    let mut measured: Vec<Profile> = vec![];
    let report = |profile: Profile| -> Result<()> {
        let first = measured.is_empty();
        if first {
            profile.save(&path)?;
        }
        if !args.on.json {
            if first {
                write!(out, "{}", heading(&args.run, &trained, &profile, &place))?;
            }
            let (batch, rounds) = (profile.batch_size, profile.rounds);
            writeln!(out, "\nbatch size {batch}, {rounds} rounds\n{}", text(&profile))?;
            out.flush()?;
        }
        measured.push(profile);
        Ok(())
    };
    on_device!(device, |device| profiles(&device, &place, &args, &trained, report))?;
    if args.on.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&measured)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "profile    {} (batch size {})", path.display(), measured[0].batch_size)?;
    write!(out, "{}", stale_report(&args.run))?;
    Ok(ExitCode::SUCCESS)
}

fn heading(run: &Path, trained: &Trained, profile: &Profile, place: &str) -> String {
    format!(
        "run        {}, checkpoint {}\naccuracy   on {}\ndevice     {place}, load {}\n",
        run.display(),
        trained.stamp.number,
        profile.data,
        load()
    )
}

/// Measures a profile for every `--batch-size` and passes each to `report` as soon as it is
/// complete.
pub(super) fn profiles<D: Device>(
    device: &D,
    place: &str,
    args: &AnytimeArgs,
    trained: &Trained,
    mut report: impl FnMut(Profile) -> Result<()>,
) -> Result<()> {
    let outputs = trained.outputs();
    let subsets = outputs.subsets()?;
    let data = trained.dataset(&standard_folder()?)?;
    let split = split(args.validation);
    let images = images(trained, &data, split, args.images)?;
    let normalization = trained.normalization()?;
    let predictions = trained.networks(device, PASS_BATCH.min(images.len()))?.predict(
        &images,
        &normalization,
        |_| (),
    )?;
    let scores = evaluate_subsets(&predictions, &subsets);
    for &batch in &args.batch_size {
        let flag = || format!("--batch-size {batch}");
        let mut networks = trained.networks_by_exit(device, batch).with_context(flag)?;
        let len = networks.image_len();
        let mut input = vec![];
        let pixels = images.pixels.iter().copied().cycle().take(batch * len).collect::<Vec<_>>();
        normalize(&pixels, &normalization, &mut input);
        let time = Duration::from_secs_f64(args.seconds);
        let latencies = measure(&mut networks, &SystemClock::default(), &input, ROUNDS, time)
            .with_context(flag)?;
        report(Profile {
            checkpoint: trained.stamp.number,
            digest: trained.stamp.digest.clone(),
            device: place.to_owned(),
            data: format!(
                "{} {} images of {}",
                images.len(),
                split.name(),
                trained.resolved.data.name
            ),
            ..Profile::new(&outputs, batch, &scores, &latencies)
        })?;
    }
    Ok(())
}

/// A row per subset, the fastest first. A subset is marked if another is as fast and as accurate.
fn text(profile: &Profile) -> String {
    let mut subsets: Vec<_> = profile.subsets.iter().collect();
    subsets.sort_by(|a, b| a.time.median_ms.total_cmp(&b.time.median_ms));
    let outputs = profile.outputs();
    let row = |subset: &&SubsetProfile| {
        vec![
            subset_name(subset.members, &outputs),
            format!("{:.3}", subset.time.median_ms),
            format!("{:.3}", subset.time.p99_ms),
            format!("{:.2}", subset.top1),
            format!("{:.4}", subset.nll),
            format!("{:.2}", subset.ece),
            if subset.dominated { "dominated" } else { "" }.to_owned(),
        ]
    };
    let rows: Vec<_> = subsets.iter().map(row).collect();
    table::render(&[outputs.words(), "median ms", "p99 ms", "top-1", "NLL", "ECE", ""], &rows)
}

/// Load of the machine over the last minute, where the system reports it.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|word| !word.is_empty()).unwrap_or("unknown").to_owned()
}
