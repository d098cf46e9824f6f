//! `swn data pack`: pictures of the user's own as a data set. What is odd about them is said; nothing has its place before all are read.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use superweight::data::{DataError, Dataset, Normalization, OwnSet, Packed, Pictures};
use superweight::plan::arch::ImageShape;
use superweight::plan::number::with_commas;

use super::folder;
use crate::args::PackArgs;
use crate::duration;
use crate::signals::{INTERRUPTED, watched_limits};
use crate::size::megabytes;
use crate::table;
use crate::ticker::Ticker;

/// Of every class, where there is no folder of test pictures.
const TEST_SHARE: f64 = 0.2;
/// Bytes of images whose digests take a while.
const LARGE: u64 = 2 << 30;
/// Pictures left out that are named.
const NAMED: usize = 20;
/// Most classes that are listed.
const TABLE: usize = 20;

pub fn run(args: PackArgs, out: &mut impl Write) -> Result<ExitCode> {
    let to = folder(args.to)?;
    OwnSet::check_place(&args.name, &to, args.replace)?;
    let shape = ImageShape {
        channels: if args.grey { 1 } else { 3 },
        height: args.size.0,
        width: args.size.1,
    };
    let share = args.test.map_or(TEST_SHARE, |share| share.0);
    let from = || format!("--from {}", args.from.display());
    let pictures = Pictures::find(&args.from, share, args.seed).with_context(from)?;
    if let (Some(_), false) = (args.test, pictures.drawn) {
        bail!(
            "--test: {} has a folder of test pictures, which are the test set",
            args.from.display()
        );
    }
    OwnSet::check_writable(&args.name, &to)?;
    let total = pictures.len();
    eprintln!("reading {} pictures of {} classes", with_commas(total as u64), pictures.classes.len());
    let ticker = Ticker::new();
    let limits = watched_limits()?;
    let show = |done| {
        ticker.show(|| {
            let left = duration::show(ticker.left(done as f64 / total as f64));
            let [done, total] = [done, total].map(|count| with_commas(count as u64));
            format!("{done} of {total} pictures, {left} left")
        });
        !limits.interrupted()
    };
    let packed = pictures.pack(&args.name, shape, args.skip_unreadable, &to, &show);
    ticker.clear();
    let packed = match packed {
        Err(DataError::Interrupted) => {
            eprintln!("stopped    interrupted: nothing was packed");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        // What is wrong with the place is not the pictures' fault.
        Err(error @ DataError::Io { doing: "written", .. }) => return Err(error.into()),
        packed => packed.with_context(from)?,
    };
    for warning in warnings(&pictures, &packed) {
        eprintln!("warning: {warning}");
    }
    let (data, skipped, twice, median) =
        (packed.data.clone(), packed.skipped.len(), packed.twice, packed.median);
    let bytes = (data.train.pixels.len() + data.test.pixels.len()) as u64;
    if bytes > LARGE {
        eprintln!("taking digests of {}", megabytes(bytes));
    }
    let target = packed.keep(args.replace)?;
    let description = data.description();
    let (train, test) = description.images;
    if args.json {
        let Normalization { mean, deviation } = &description.normalization;
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
        format!(" (about {}% of every class, by lot)", 100.0 * share)
    } else {
        String::new()
    };
    writeln!(
        out,
        "set        {}: {channels}×{height}×{width} images of {classes} classes, {size}",
        args.name
    )?;
    writeln!(out, "images     {train} to train on, {test} to test by{drawn}")?;
    let (rows, columns) = median;
    writeln!(out, "pictures   half of them at most {rows} pixels high and {columns} wide, before")?;
    writeln!(out, "folder     {}", target.display())?;
    // The recipe has batches of 32, and holds a tenth out.
    let few = match data.train.len() * 9 / 10 {
        few @ 0..32 => format!(" --set train.batch_size={}", few.max(1)),
        _ => String::new(),
    };
    match &*args.name {
        "imagenet" => writeln!(out, "next       swn train recipes/table-1/imagenet-10-swn.toml")?,
        name => {
            writeln!(out, "next       swn train recipes/pictures.toml --set data.name={name}{few}")?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How many images each class has, where there are few of them; else the fewest and the most.
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
            "classes    {} images each to train on, {} to test by\n",
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

/// What a user should know before training on it.
fn warnings(pictures: &Pictures, packed: &Packed) -> Vec<String> {
    let Packed { data, skipped, twice, .. } = packed;
    let mut said: Vec<String> = skipped
        .iter()
        .take(NAMED)
        .map(|error| format!("left out: {}", error.with_cause()))
        .collect();
    if skipped.len() > NAMED {
        said.push(format!("{} more were left out", skipped.len() - NAMED));
    }
    if let Some(first) = pictures.passed_over.first() {
        let others = pictures.passed_over.len() - 1;
        let others = if others > 0 {
            format!(" and {} others", with_commas(others as u64))
        } else {
            String::new()
        };
        said.push(format!(
            "passed over: {}{others}: neither pictures (.png, .jpg, .jpeg) nor a part that is used",
            first.display()
        ));
    }
    if let Some((a, b)) = &pictures.alike {
        said.push(format!("'{a}' and '{b}' have the same folders in them: if they are parts and no classes, name them train and test"));
    }
    let tested = |class: &usize| data.test.labels.contains(&(*class as u16));
    let untested: Vec<_> = (0..data.classes.len()).filter(|class| !tested(class)).collect();
    if let Some(&first) = untested.first() {
        let (name, others) = (&data.classes[first], untested.len() - 1);
        let others =
            if others > 0 { format!(" and of {others} other classes") } else { String::new() };
        said.push(format!("there are no test pictures of '{name}'{others}"));
    }
    if *twice > 0 {
        said.push(format!(
            "{twice} of the test images are among the training images too: figures say less than they seem to"
        ));
    }
    said
}
