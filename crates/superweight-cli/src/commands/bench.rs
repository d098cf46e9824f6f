//! `swn bench`: measures a step and prints it as a table or as JSON. The memory that it needs is
//! printed before it runs.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use superweight::bench::{Bench, BenchRequest, Comparison, OpReport, SharedBench, StepReport};
use superweight::engine::CudaDevice;
use superweight::engine::Device;
use superweight::engine::cuda::ConvRecord;
use superweight::plan::arch::{ArchName, Architecture};
use superweight::plan::number::with_commas;
use superweight::plan::{
    Budget, Clustering, Coefficients, Member, PlanRequest, SharingPlan, check_compatible,
};

use super::device::{self, Chosen, on_device};
use super::plan::image_shape;
use crate::args::{BenchArgs, BenchCommand, BenchOptions, TuneOptions};
use crate::ui::table;

/// Rounds of `swn bench ops` per second of `--seconds`.
const ROUNDS_PER_SECOND: f64 = 4.0;

/// A measured step as `--json` prints it.
#[derive(Serialize)]
struct StepAnswer {
    members: Vec<String>,
    batch: usize,
    device: String,
    threads: Option<usize>,
    training: bool,
    step_ms: f64,
    shortest_ms: f64,
    longest_ms: f64,
    repeats: usize,
    images_per_s: f64,
    gflops: f64,
    peak_bytes: usize,
    arena_bytes: usize,
    /// Seconds from the start of the command to the end of the first step.
    start_s: f64,
    /// Peak of the allocated GPU memory.
    allocated_bytes: Option<usize>,
    /// Peak of the resident memory beyond that at the start of the command, where the system
    /// reports it.
    resident_bytes: Option<u64>,
}

/// An operation of a step as `--json` prints it.
#[derive(Serialize)]
struct OpAnswer {
    operation: &'static str,
    calls: usize,
    ms: f64,
    share: f64,
    gflops: Option<f64>,
}

pub fn run(args: BenchArgs, out: &mut impl Write) -> Result<ExitCode> {
    let (start, idle) = (Instant::now(), status_bytes("VmRSS:"));
    let options = match &args.what {
        BenchCommand::Step(options) | BenchCommand::Ops(options) => options,
        BenchCommand::Tune(tune) => &tune.bench,
    };
    seconds(options)?;
    let chosen = chosen(options)?;
    let on = Place::of(&chosen);
    match &args.what {
        BenchCommand::Step(options) => match composed(options)? {
            Some(plan) => on_device!(chosen, |device| shared(&device, &on, options, &plan, out))?,
            None => on_device!(chosen, |device| step(&device, &on, options, (start, idle), out))?,
        },
        BenchCommand::Ops(options) => on_device!(chosen, |device| ops(&device, &on, options, out))?,
        BenchCommand::Tune(options) => match chosen {
            Chosen::Cuda(device) => tune(&device, &on, options, out)?,
            Chosen::Cpu(_) => bail!(
                "--device {}: only a GPU's convolutions are tuned; give --device cuda",
                options.bench.device
            ),
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// The device of a measurement in words.
struct Place {
    device: String,
    threads: Option<usize>,
    gpu: Option<CudaDevice>,
}

impl Place {
    fn of(chosen: &Chosen) -> Self {
        match chosen {
            Chosen::Cpu(device) => {
                Self { device: "cpu".into(), threads: Some(device.threads()), gpu: None }
            }
            Chosen::Cuda(device) => {
                Self { device: device.description(), threads: None, gpu: Some(device.clone()) }
            }
        }
    }

    /// The device for the line about what is measured.
    fn words(&self) -> String {
        self.threads.map_or_else(|| self.device.clone(), |threads| format!("{threads} threads"))
    }
}

fn chosen(options: &BenchOptions) -> Result<Chosen> {
    let wanted = device::parse(&options.device)?;
    let chosen = device::open(wanted, options.threads, options.precision)?;
    if let Chosen::Cuda(device) = &chosen {
        device.set_tuning(options.tuning);
        device.recheck_tuning();
    }
    Ok(chosen)
}

fn step<D: Device>(
    device: &D,
    on: &Place,
    options: &BenchOptions,
    (start, idle): (Instant, Option<u64>),
    out: &mut impl Write,
) -> Result<()> {
    let mut bench = prepare(device, on, options, out)?;
    bench.step()?;
    let start = start.elapsed().as_secs_f64();
    let report = bench.measure(Duration::from_secs_f64(options.seconds))?;
    if options.json {
        let peak = status_bytes("VmHWM:").zip(idle).map(|(peak, idle)| peak.saturating_sub(idle));
        let answer = step_answer(options, on, &report, start, peak);
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?);
    }
    let StepReport { step_ms, range_ms: (shortest, longest), repeats, .. } = report;
    writeln!(
        out,
        "step       {step_ms:.2} ms, the median of {repeats} ({shortest:.2} to {longest:.2})"
    )?;
    writeln!(out, "start      {start:.1} s until the end of the first step")?;
    if let Some(gpu) = &on.gpu {
        writeln!(
            out,
            "allocated  {:.1} MiB of the GPU's memory at most",
            mebibytes(gpu.peak_allocated_bytes())
        )?;
    }
    writeln!(out, "images     {:.1} per second", report.images_per_s)?;
    writeln!(out, "arithmetic {:.1} GFLOP/s in convolutions and linear layers", report.gflops)?;
    Ok(())
}

/// The plan whose composed weights are measured: that of `--plan`, or one within `--budget`.
fn composed(options: &BenchOptions) -> Result<Option<SharingPlan>> {
    if let Some(path) = &options.plan {
        return super::plan::read("--plan", path).map(Some);
    }
    let Some(budget) = &options.budget else { return Ok(None) };
    let members = options.members.iter().map(|name| Ok(member(&architecture(name, options)?)));
    let members = members.collect::<Result<Vec<_>>>()?;
    let dense = PlanRequest::new(members, None);
    let budget: Budget = budget.parse().context("--budget")?;
    // With coefficients for every layer, composing takes longest.
    let request = PlanRequest {
        budget: Some(budget.resolve(dense.dense_total().context("--members")?)),
        tiling: options.tiling,
        block: options.block,
        coefficients: Coefficients::PerLayer,
        reserve: 0.0,
        ..dense
    };
    request.plan().context("--budget and --block").map(Some)
}

/// Measures a step with composed weights in turn with the step of the same members without sharing.
fn shared<D: Device>(
    device: &D,
    on: &Place,
    options: &BenchOptions,
    plan: &SharingPlan,
    out: &mut impl Write,
) -> Result<()> {
    let time = seconds(options)?;
    let apart = PlanRequest::new(plan.members.clone(), None);
    let dense = PlanRequest { clusters: Clustering::Dense, ..apart }.plan().context("--members")?;
    let members: Vec<String> =
        plan.members.iter().map(|member| member.architecture.to_string()).collect();
    let bench = SharedBench::new(device, &dense, plan, options.batch_size)
        .context("the members and --batch-size");
    let Comparison { dense_ms, shared_ms, ratio, repeats, .. } = bench?.measure(time)?;
    if options.json {
        let answer = serde_json::json!({
            "members": members, "batch": options.batch_size, "device": on.device, "threads": on.threads,
            "tiling": plan.tiling.to_string(), "numbers": plan.bill.trained(), "dense_numbers": dense.dense_total(),
            "templates": plan.template_sets, "dense_ms": dense_ms, "shared_ms": shared_ms, "ratio": ratio, "repeats": repeats,
        });
        return Ok(writeln!(out, "{answer:#}")?);
    }
    let (members, batch, on) = (members.join(", "), options.batch_size, on.words());
    writeln!(out, "what       training of {members}, batch size {batch}, {on}")?;
    let (shared, all) = (with_commas(plan.bill.trained()), with_commas(dense.dense_total()));
    let own = if options.plan.is_none() { ", coefficients for every layer" } else { "" };
    writeln!(out, "shared     {shared} parameters instead of {all}, {}{own}", plan.tiling)?;
    for set in &plan.template_sets {
        let [out_channels, in_channels, height, width] = set.block;
        let block = format!("{out_channels}×{in_channels}×{height}×{width}");
        writeln!(out, "templates  K = {} of {block}", set.templates)?;
    }
    writeln!(
        out,
        "steps      {dense_ms:.2} ms without sharing, {shared_ms:.2} ms with, medians of {repeats}"
    )?;
    Ok(writeln!(out, "ratio      {ratio:.3}, the median over pairs of steps")?)
}

/// Refuses flags that only `swn bench step` has a use for.
fn unshared(options: &BenchOptions, command: &str) -> Result<()> {
    let measured = "'swn bench step' measures what sharing costs";
    ensure!(options.plan.is_none(), "--plan: {measured}, not '{command}'");
    ensure!(options.budget.is_none(), "--budget: {measured}, not '{command}'");
    Ok(())
}

fn ops<D: Device>(
    device: &D,
    on: &Place,
    options: &BenchOptions,
    out: &mut impl Write,
) -> Result<()> {
    unshared(options, "ops")?;
    let mut bench = prepare(device, on, options, out)?;
    let rounds = (options.seconds * ROUNDS_PER_SECOND).clamp(3.0, 1000.0) as usize;
    let reports = bench.profile(rounds)?;
    if options.json {
        let answer: Vec<OpAnswer> = reports.iter().map(op_answer).collect();
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?);
    }
    let row = |report: &OpReport| {
        let gflops = report.gflops.map_or(String::new(), |g| format!("{g:.1}"));
        let (ms, share) = (format!("{:.2}", report.ms), format!("{:.1}%", 100.0 * report.share));
        vec![report.kernel.to_owned(), report.calls.to_string(), ms, share, gflops]
    };
    let rows: Vec<Vec<String>> = reports.iter().map(row).collect();
    writeln!(out, "\n{}", table::render(&["operation", "calls", "ms", "share", "GFLOP/s"], &rows))?;
    Ok(())
}

/// Compiles and allocates everything, and prints the memory that it takes.
fn prepare<D: Device>(
    device: &D,
    on: &Place,
    options: &BenchOptions,
    out: &mut impl Write,
) -> Result<Bench<D>> {
    let members = options
        .members
        .iter()
        .map(|name| architecture(name, options))
        .collect::<Result<Vec<_>>>()?;
    check_compatible(&members.iter().map(member).collect::<Vec<_>>()).context("--members")?;
    let BenchOptions { batch_size: batch, inference, packed, unfolded, .. } = *options;
    let request = BenchRequest { members, batch, training: !inference, packed, folded: !unfolded };
    let bench = Bench::new(device, &request).context("--members and --batch-size")?;
    if !options.json {
        let what = if options.inference { "inference" } else { "training" };
        let (members, batch) = (options.members.join(", "), options.batch_size);
        writeln!(out, "what       {what} of {members}, batch size {batch}, {}", on.words())?;
        let (arena, all) = (mebibytes(bench.arena_bytes()), mebibytes(bench.peak_bytes()));
        writeln!(
            out,
            "memory     {arena:.1} MiB planned for activations, {all:.1} MiB with everything else"
        )?;
    }
    Ok(bench)
}

fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Tunes the convolutions of a step that are not tuned yet, and prints the plans of all.
fn tune(
    device: &CudaDevice,
    on: &Place,
    options: &TuneOptions,
    out: &mut impl Write,
) -> Result<()> {
    if options.refresh {
        device.clear_tuning();
    }
    let options = &options.bench;
    unshared(options, "tune")?;
    prepare(device, on, options, out)?;
    let records = device.tuned();
    if options.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&records)?)?);
    }
    let row = |record: &ConvRecord| {
        let tuning = format!("{:?}", record.tuning).to_lowercase();
        let (engine, workspace) =
            (record.engine.to_string(), format!("{:.1}", mebibytes(record.workspace)));
        vec![record.conv.clone(), engine, workspace, format!("{:.1}", record.microseconds), tuning]
    };
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    let heads = ["convolution", "engine", "scratch MiB", "microseconds", "tuning"];
    Ok(writeln!(out, "\n{}", table::render(&heads, &rows))?)
}

/// The time of `--seconds`, checked.
fn seconds(options: &BenchOptions) -> Result<Duration> {
    let seconds = options.seconds;
    let fine = seconds.is_finite() && (0.0..=3600.0).contains(&seconds);
    ensure!(fine, "--seconds {seconds}: must be between 0 and 3600");
    Ok(Duration::from_secs_f64(seconds))
}

fn architecture(name: &str, options: &BenchOptions) -> Result<Architecture> {
    let name: ArchName = name.parse().context("--members")?;
    let input = match &options.input {
        Some(text) => image_shape(text)?,
        None => name.default_input(),
    };
    name.build(input, options.classes).context("--input and --classes")
}

fn member(Architecture { name, input, classes, .. }: &Architecture) -> Member {
    Member { architecture: name.clone(), input: *input, classes: *classes }
}

fn step_answer(
    options: &BenchOptions,
    on: &Place,
    report: &StepReport,
    start_s: f64,
    resident_bytes: Option<u64>,
) -> StepAnswer {
    StepAnswer {
        members: options.members.clone(),
        batch: options.batch_size,
        device: on.device.clone(),
        threads: on.threads,
        training: !options.inference,
        step_ms: report.step_ms,
        shortest_ms: report.range_ms.0,
        longest_ms: report.range_ms.1,
        repeats: report.repeats,
        images_per_s: report.images_per_s,
        gflops: report.gflops,
        peak_bytes: report.peak_bytes,
        arena_bytes: report.arena_bytes,
        start_s,
        allocated_bytes: on.gpu.as_ref().map(CudaDevice::peak_allocated_bytes),
        resident_bytes,
    }
}

/// Bytes of an entry of the process's status, on Linux.
fn status_bytes(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn op_answer(report: &OpReport) -> OpAnswer {
    OpAnswer {
        operation: report.kernel,
        calls: report.calls,
        ms: report.ms,
        share: report.share,
        gflops: report.gflops,
    }
}
