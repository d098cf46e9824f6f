//! `swn export`: writes members as files of other programs.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use superweight::data::Normalization;
use superweight::engine::Device;
use superweight::fs::write_whole;
use superweight::infer::Trained;
use superweight::infer::export::{OnnxOptions, onnx};
use superweight::plan::MemberId;
use superweight::plan::arch::ImageShape;
use superweight::run::{Disk, safetensors};

use super::device::{self, on_device};
use super::runs::open;
use crate::args::{ExportArgs, FormatArg};

/// One file that was written.
#[derive(Serialize)]
struct Written {
    file: PathBuf,
    members: Vec<usize>,
    architectures: Vec<String>,
    /// Whether the ONNX file has an output per exit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    exits: bool,
    bytes: u64,
}

pub fn run(args: ExportArgs, out: &mut impl Write) -> Result<ExitCode> {
    ensure!(
        !args.normalize || args.format == FormatArg::Onnx,
        "--normalize: a state dict cannot hold the normalization; '--format onnx' can"
    );
    let trained = open(&args.run)?;
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let written = on_device!(device, |device| export(&device, &args, &trained))?;
    if args.on.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&written)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for Written { file, architectures, bytes, .. } in written {
        writeln!(out, "{}  {} bytes  {}", file.display(), bytes, architectures.join(", "))?;
    }
    write!(out, "{}", input(&trained, args.normalize)?)?;
    let exits = trained.plan.members[0].architecture.exits();
    if exits > 1 && args.format == FormatArg::Onnx {
        writeln!(
            out,
            "exits      {exits}: outputs logits.0 to logits.{}, each after more layers than the one before",
            exits - 1
        )?;
    }
    let heads = trained.plan.members[0].architecture.heads();
    if heads > 1 && args.format == FormatArg::Safetensors {
        let channels = heads * trained.resolved.data.shape.channels;
        let classes = trained.resolved.data.classes;
        writeln!(
            out,
            "heads      {heads}: the network takes every image {heads} times along channels, N×{channels}×…, and returns\n           \
             {heads}×{classes} logits; the prediction is the mean of the heads' probabilities"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The input that the exported members take.
fn input(trained: &Trained, normalized: bool) -> Result<String> {
    let ImageShape { channels, height, width } = trained.resolved.data.shape;
    let color = if channels == 1 { "grey" } else { "RGB" };
    let listed =
        |values: &[f32]| values.iter().map(|v| format!("{v:.2}")).collect::<Vec<_>>().join(", ");
    let Normalization { mean, std } = trained.normalization()?;
    let values = match normalized {
        true => "values from 0 to 255\n".to_owned(),
        false => format!(
            "(value from 0 to 255 − mean) / std\n           mean {}; std {}\n",
            listed(&mean),
            listed(&std)
        ),
    };
    Ok(format!("input      N×{channels}×{height}×{width}, {color}, {values}"))
}

/// Writes the requested members and returns the files.
fn export<D: Device>(device: &D, args: &ExportArgs, trained: &Trained) -> Result<Vec<Written>> {
    let count = trained.plan.members.len();
    let members = match args.member_ids.is_empty() {
        true => (0..count).collect(),
        false => args.member_ids.clone(),
    };
    for (i, &member) in members.iter().enumerate() {
        trained.member(member).context("--member-ids")?;
        ensure!(!members[..i].contains(&member), "--member-ids: {member} is given twice");
    }
    let folder = args.out.clone().unwrap_or_else(|| args.run.join("export"));
    fs::create_dir_all(&folder)
        .with_context(|| format!("--out {}: choose another folder", folder.display()))?;
    let networks = trained.networks(device, 1)?;
    let mut parts = vec![];
    for &member in &members {
        let architecture = trained.plan.members[member].build()?;
        parts.push((architecture, networks.state_dict(MemberId(member))?));
    }
    let name = |i: usize| parts[i].0.name.to_string();
    let stem = |i: usize| format!("{}-{}", members[i], brief(&name(i)));
    let mut written = vec![];
    let mut add = |file: PathBuf, members: Vec<usize>, architectures: Vec<String>| -> Result<()> {
        let bytes = fs::metadata(&file)?.len();
        let exits = args.format == FormatArg::Onnx && parts[0].0.exits.len() > 1;
        written.push(Written { file, members, architectures, exits, bytes });
        Ok(())
    };
    match args.format {
        FormatArg::Safetensors => {
            for (i, &member) in members.iter().enumerate() {
                let file = folder.join(stem(i) + ".safetensors");
                let written = safetensors::save(&Disk::default(), &file, &parts[i].1);
                written.with_context(|| {
                    format!("--out {}: choose another folder", folder.display())
                })?;
                add(file, vec![member], vec![name(i)])?;
            }
        }
        FormatArg::Onnx => {
            let normalization = if args.normalize { Some(trained.normalization()?) } else { None };
            let bytes = onnx(&parts, &OnnxOptions { normalization })?;
            let stem = match parts.len() {
                1 => stem(0),
                _ => members.iter().map(ToString::to_string).collect::<Vec<_>>().join("+"),
            };
            let file = folder.join(stem + ".onnx");
            write_whole(&file, &bytes)
                .with_context(|| format!("--out {}: choose another folder", folder.display()))?;
            add(file, members.clone(), (0..parts.len()).map(name).collect())?;
        }
    }
    Ok(written)
}

/// The start of an architecture's name, short enough for a file name: a network with its own widths
/// has a long one. The file's metadata has the whole name.
fn brief(name: &str) -> &str {
    const LONGEST: usize = 100;
    if name.len() > LONGEST { name[..LONGEST].trim_end_matches('-') } else { name }
}
