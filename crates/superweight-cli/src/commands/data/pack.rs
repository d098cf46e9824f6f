//! `swn data pack`: makes a data set from the user's pictures.
//!
//! Prints warnings about pictures that look wrong. The set gets its name only after all pictures
//! are read.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use superweight::data::{DataError, Dataset, Normalization, OwnSet, Packed, Pictures};
use superweight::plan::arch::ImageShape;
use superweight::plan::number::with_commas;

use super::folder::folder;
use crate::args::PackArgs;
use crate::ui::progress::ProgressLine;
use crate::ui::signals::{INTERRUPTED, watched_limits};
use crate::ui::size::megabytes;
use crate::ui::{duration, table, typed};

/// Fraction of every class that becomes the test set, without a folder of test pictures.
const TEST_FRACTION: f64 = 0.2;
/// Bytes of images from which computing digests takes long enough to print a line.
const LARGE: u64 = 2 << 30;
/// Most pictures left out that are named.
const NAMED: usize = 20;
/// Most classes that are listed by name.
const TABLE: usize = 20;

pub fn run(args: PackArgs, out: &mut impl Write) -> Result<ExitCode> {
    let to = folder(args.out)?;
    OwnSet::check_place(&args.name, &to, args.replace)?;
    let shape = ImageShape {
        channels: if args.grey { 1 } else { 3 },
        height: args.size.0,
        width: args.size.1,
    };
    let fraction = args.test.map_or(TEST_FRACTION, |fraction| fraction.0);
    let from = || "--from";
    let pictures = Pictures::find(&args.from, fraction, args.seed).with_context(from)?;
    if let (Some(_), false) = (args.test, pictures.drawn) {
        bail!(
            "--test: {} has a folder of test pictures, which becomes the test set: leave --test out",
            args.from.display()
        );
    }
    OwnSet::check_writable(&args.name, &to)?;
    let total = pictures.len();
    eprintln!(
        "reading {} pictures of {} classes",
        with_commas(total as u64),
        pictures.classes.len()
    );
    let line = ProgressLine::new();
    let limits = watched_limits()?;
    let show = |done| {
        line.show(|| {
            let left = duration::show(line.left(done as f64 / total as f64));
            let [done, total] = [done, total].map(|count| with_commas(count as u64));
            format!("{done} of {total} pictures, {left} left")
        });
        !limits.interrupted()
    };
    let packed = pictures.pack(&args.name, shape, args.skip_unreadable, &to, &show);
    line.clear();
    let packed = match packed {
        Err(DataError::Interrupted) => {
            eprintln!("stopped    interrupted: nothing was packed");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        // An error of the target folder is not about --from.
        Err(error @ DataError::Io { doing: "written", .. }) => return Err(error.into()),
        packed => packed.with_context(from)?,
    };
    for warning in warnings(&pictures, &packed) {
        eprintln!("warning: {warning}");
    }
    let (data, skipped, twice, median) =
        (packed.data.clone(), packed.skipped.len(), packed.duplicates, packed.median);
    let bytes = (data.train.pixels.len() + data.test.pixels.len()) as u64;
    if bytes > LARGE {
        eprintln!("computing digests of {}", megabytes(bytes));
    }
    let target = packed.keep(args.replace)?;
    let description = data.description();
    let (train, test) = description.images;
    if args.json {
        let Normalization { mean, std: deviation } = &description.normalization;
        let answer = json!({
            "name": args.name, "folder": target, "train": train, "test": test, "test_drawn": pictures.drawn,
            "shape": [shape.channels, shape.height, shape.width], "classes": description.classes,
            "mean": mean, "deviation": deviation, "bytes": bytes,
            "skipped": skipped, "passed_over": pictures.passed_over.len(), "test_seen_in_training": twice,
        });
        writeln!(out, "{answer:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let ImageShape { channels, height, width } = shape;
    write!(out, "{}", classes(&data))?;
    let [train, test] = [train, test].map(|images| with_commas(images as u64));
    let (classes, size) = (description.classes.len(), megabytes(bytes));
    let drawn = if pictures.drawn {
        format!(" (about {}% of every class, drawn at random)", 100.0 * fraction)
    } else {
        String::new()
    };
    writeln!(
        out,
        "set        {}: {channels}×{height}×{width} images of {classes} classes, {size}",
        args.name
    )?;
    writeln!(out, "images     {train} for training, {test} for testing{drawn}")?;
    let (rows, columns) = median;
    writeln!(out, "pictures   median size {rows}×{columns} pixels (height × width)")?;
    writeln!(out, "folder     {}", target.display())?;
    // The recipe has batches of 32 and uses a tenth of the training images for validation.
    let few = match data.train.len() * 9 / 10 {
        few @ 0..32 => format!(" --set train.batch_size={}", few.max(1)),
        _ => String::new(),
    };
    match &*args.name {
        "imagenet" => {
            writeln!(out, "next       {}", typed("train recipes/table-1/imagenet-10-swn.toml"))?
        }
        name => {
            let train = typed(&format!("train recipes/pictures.toml --set data.name={name}{few}"));
            writeln!(out, "next       {train}")?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Number of images of each class; for many classes the lowest and the highest number.
fn classes(data: &Dataset) -> String {
    let count = |labels: &[u16]| {
        let mut counts = vec![0; data.classes.len()];
        labels.iter().for_each(|&class| counts[usize::from(class)] += 1);
        counts
    };
    let (train, test): (Vec<usize>, Vec<usize>) =
        (count(&data.train.labels), count(&data.test.labels));
    if data.classes.len() > TABLE {
        let range = |counts: &[usize]| {
            let ends = counts.iter().min().zip(counts.iter().max());
            ends.map_or(String::new(), |(least, most)| format!("{least} to {most}"))
        };
        return format!(
            "classes    {} images each for training, {} for testing\n",
            range(&train),
            range(&test)
        );
    }
    let row = |(class, name): (usize, &String)| {
        vec![name.clone(), train[class].to_string(), test[class].to_string()]
    };
    let rows: Vec<_> = data.classes.iter().enumerate().map(row).collect();
    format!("{}\n", table::render(&["class", "train", "test"], &rows))
}

/// Warnings about pictures that were left out, files that were passed over, folders that may be
/// splits, classes without test images, and test images that are also training images.
fn warnings(pictures: &Pictures, packed: &Packed) -> Vec<String> {
    let Packed { data, skipped, duplicates: twice, .. } = packed;
    let mut warnings: Vec<String> = skipped
        .iter()
        .take(NAMED)
        .map(|error| format!("left out: {}", error.with_cause()))
        .collect();
    if skipped.len() > NAMED {
        warnings.push(format!("{} more pictures were left out", skipped.len() - NAMED));
    }
    if let Some(first) = pictures.passed_over.first() {
        let others = pictures.passed_over.len() - 1;
        let others = if others > 0 {
            format!(" and {} others", with_commas(others as u64))
        } else {
            String::new()
        };
        warnings.push(format!(
            "not read: {}{others}: neither a picture (.png, .jpg, .webp, .gif) nor a folder that is used",
            first.display()
        ));
    }
    if let Some((a, b)) = &pictures.same_subfolders {
        warnings.push(format!("'{a}' and '{b}' contain folders of the same names: if they are splits and not classes, name them train and test"));
    }
    let tested = |class: &usize| data.test.labels.contains(&(*class as u16));
    let untested: Vec<_> = (0..data.classes.len()).filter(|class| !tested(class)).collect();
    if let Some(&first) = untested.first() {
        let (name, others) = (&data.classes[first], untested.len() - 1);
        let others =
            if others > 0 { format!(" and of {others} other classes") } else { String::new() };
        warnings.push(format!("there are no test pictures of '{name}'{others}"));
    }
    if *twice > 0 {
        warnings.push(format!(
            "{twice} of the test images are also training images: accuracies on the test images will be too high"
        ));
    }
    warnings
}
