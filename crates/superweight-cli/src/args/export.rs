//! What can be typed after `swn export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::common::OnArgs;

/// Write members for other programs: a PyTorch state dict, or ONNX.
///
/// Weights are composed and written in full: a program that reads the file needs no knowledge of
/// SuperWeights.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Format of the files.
    #[arg(long, value_enum, alias = "to")]
    pub format: FormatArg,

    /// Indices of the members to write, separated by commas [default: all].
    #[arg(long, alias = "members", value_name = "NUMBERS", value_delimiter = ',')]
    pub member_ids: Vec<usize>,

    /// Put the normalization into the ONNX graph, so that it takes values from 0 to 255.
    #[arg(long, alias = "normalise")]
    pub normalize: bool,

    /// Folder for the files [default: RUN/export].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub on: OnArgs,
}

/// A file format of trained members.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// A state dict per member, with PyTorch's names and layout.
    Safetensors,
    /// One graph; of several members its output is the mean of their probabilities.
    Onnx,
}

const EXAMPLES: &str = "\
Examples:
  swn export runs/three --member-ids 0,2 --format safetensors
  swn export runs/three --format onnx --normalize";
