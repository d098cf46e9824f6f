//! Pictures made one size and put into memory, with what is measured of them.
//!
//! Everything is packed once and then read whole, as bytes: training draws, shifts and flips on the device, and a set that
//! does not fit into memory is beyond it. Decoding takes as many threads as there are; what comes out does not hang on them.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use superweight_plan::arch::ImageShape;

use super::dataset::{Dataset, Images, Normalisation};
use super::{DataError, Picture, Pictures};

/// Unreadable pictures that are named.
const NAMED: usize = 10;

/// What became of pictures.
#[derive(Debug)]
pub struct Packed {
    /// All that could be read.
    pub data: Dataset,
    /// What could not be, where that was asked for.
    pub skipped: Vec<DataError>,
    /// Test images that are training images too, byte for byte.
    pub twice: usize,
    /// Height and width that half of the pictures have at most, each by itself.
    pub median: (usize, usize),
}

impl Pictures {
    /// Reads all of them and makes them one size. `progress` is told how many are done, from any thread.
    ///
    /// One that cannot be read is an error, which names the first of them, or left out if `skip` says so.
    pub fn pack(
        &self,
        name: &str,
        shape: ImageShape,
        skip: bool,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Packed, DataError> {
        let done = AtomicUsize::new(0);
        let step = || progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        let sizes = Mutex::new(vec![]);
        let (train, mut failed) = decode(&self.train, shape, &sizes, &step)?;
        let (test, failed_too) = decode(&self.test, shape, &sizes, &step)?;
        failed.extend(failed_too);
        if !failed.is_empty() && !skip {
            let mut first = String::new();
            for error in failed.iter().take(NAMED) {
                let _ = write!(first, "\n  {}", error.with_cause());
            }
            if failed.len() > NAMED {
                let _ = write!(first, "\n  and {} more", failed.len() - NAMED);
            }
            return Err(DataError::Unreadable { count: failed.len(), of: self.len(), first });
        }
        for (class, name) in self.classes.iter().enumerate() {
            if !train.labels.contains(&(class as u16)) {
                let from = self.train.iter().find(|(_, of)| usize::from(*of) == class);
                let from = from.and_then(|(path, _)| path.parent()).unwrap_or(Path::new(""));
                let why = format!("no training picture of class '{name}' can be read");
                return Err(DataError::Pictures { from: from.to_owned(), why });
            }
        }
        if test.is_empty() {
            let from = self.test[0].0.parent().unwrap_or(Path::new("")).to_owned();
            return Err(DataError::Pictures { from, why: "no test picture can be read".into() });
        }
        let twice = count_twice(&train, &test);
        let normalisation = normalisation(&train.pixels, shape.channels);
        let classes = self.classes.clone();
        let data = Dataset { name: name.to_owned(), shape, classes, train, test, normalisation };
        let (mut heights, mut widths): (Vec<_>, Vec<_>) =
            sizes.into_inner().expect("nobody panics here").into_iter().unzip();
        let middle = |sizes: &mut Vec<usize>| {
            sizes.sort_unstable();
            sizes[sizes.len() / 2]
        };
        let median = (middle(&mut heights), middle(&mut widths));
        Ok(Packed { data, skipped: failed, twice, median })
    }
}

/// Pictures made one size, in their order; those that cannot be read are left out.
fn decode(
    pictures: &[(PathBuf, u16)],
    shape: ImageShape,
    sizes: &Mutex<Vec<(usize, usize)>>,
    step: &(dyn Fn() + Sync),
) -> Result<(Images, Vec<DataError>), DataError> {
    let size = shape.channels * shape.height * shape.width;
    let mut pixels = vec![];
    let bytes = size.saturating_mul(pictures.len());
    if pixels.try_reserve_exact(bytes).is_err() {
        let from = pictures[0].0.parent().unwrap_or(Path::new("")).to_owned();
        let why = format!("{bytes} bytes of images are more than there is memory: choose a smaller --size");
        return Err(DataError::Pictures { from, why });
    }
    pixels.resize(bytes, 0);
    let next = Mutex::new(pictures.iter().zip(pixels.chunks_exact_mut(size)).enumerate());
    let failed = Mutex::new(vec![]);
    let work = || loop {
        let taken = next.lock().expect("nobody panics here").next();
        let Some((i, ((path, _), to))) = taken else { return };
        match Picture::open(path) {
            Ok(picture) => {
                to.copy_from_slice(&picture.fit(shape));
                sizes.lock().expect("nobody panics here").push((picture.height, picture.width));
            }
            Err(error) => failed.lock().expect("nobody panics here").push((i, error)),
        }
        step();
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut failed = failed.into_inner().expect("nobody panics here");
    failed.sort_by_key(|&(i, _)| i);
    let mut labels: Vec<u16> = pictures.iter().map(|&(_, class)| class).collect();
    // Those that are left move down over those that failed.
    let (mut gone, mut kept) = (failed.iter().map(|&(i, _)| i).peekable(), 0);
    for i in 0..pictures.len() {
        if gone.next_if_eq(&i).is_none() {
            pixels.copy_within(i * size..(i + 1) * size, kept * size);
            labels[kept] = labels[i];
            kept += 1;
        }
    }
    pixels.truncate(kept * size);
    labels.truncate(kept);
    Ok((Images { pixels, labels }, failed.into_iter().map(|(_, error)| error).collect()))
}

/// Test images that are training images too.
fn count_twice(train: &Images, test: &Images) -> usize {
    let hash = |image: &[u8]| {
        let mut hasher = DefaultHasher::new();
        image.hash(&mut hasher);
        hasher.finish()
    };
    let mut known: HashMap<u64, Vec<usize>> = HashMap::new();
    (0..train.len()).for_each(|i| known.entry(hash(train.image(i))).or_default().push(i));
    let twice = |i: &usize| {
        let image = test.image(*i);
        known.get(&hash(image)).is_some_and(|like| like.iter().any(|&j| train.image(j) == image))
    };
    (0..test.len()).filter(twice).count()
}

/// Of every channel, from how often each of its 256 values is there.
fn normalisation(pixels: &[u8], channels: usize) -> Normalisation {
    let mut counts = vec![[0u64; 256]; channels];
    for pixel in pixels.chunks_exact(channels) {
        pixel.iter().zip(&mut counts).for_each(|(&v, counts)| counts[usize::from(v)] += 1);
    }
    let total = (pixels.len() / channels) as f64;
    let sum = |counts: &[u64; 256], value: &dyn Fn(f64) -> f64| -> f64 {
        counts.iter().enumerate().map(|(v, &n)| value(v as f64) * n as f64).sum::<f64>() / total
    };
    let of_channel = |counts: &[u64; 256]| {
        let mean = sum(counts, &|v| v);
        let deviation = sum(counts, &|v| (v - mean).powi(2)).sqrt();
        // One colour only: nothing to divide by.
        (mean as f32, if deviation > 0.0 { deviation as f32 } else { 1.0 })
    };
    let (mean, deviation): (Vec<f32>, Vec<f32>) = counts.iter().map(of_channel).unzip();
    Normalisation { mean: mean.into(), deviation: deviation.into() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::testing::{Folder, write_picture};

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 2, width: 2 };

    #[test]
    fn packing_keeps_the_order_and_measures_what_is_there() {
        let folder = Folder::new("pictures-pack");
        let here = &folder.0;
        let pixels = |i: u8| std::array::from_fn(|p| 20 * i + p as u8);
        for i in 0..8 {
            write_picture(&here.join(format!("train/{}/{i}.png", ["a", "b"][usize::from(i / 4)])), pixels(i));
        }
        write_picture(&here.join("test/a/seen.png"), pixels(6));
        write_picture(&here.join("test/b/new.png"), pixels(10));
        let found = Pictures::find(here, 0.2, 0).unwrap();
        let done = AtomicUsize::new(0);
        let progress = |n| {
            done.fetch_max(n, Ordering::Relaxed);
        };
        let Packed { data, skipped, twice, median } = found.pack("ab", SHAPE, false, &progress).unwrap();
        assert_eq!((done.into_inner(), skipped.len(), twice, median), (10, 0, 1, (2, 2)));
        assert_eq!(data.train.labels, [0, 0, 0, 0, 1, 1, 1, 1]);
        for i in 0..8 {
            assert_eq!(data.train.image(usize::from(i)), pixels(i));
        }
        let channel: Vec<f64> = data.train.pixels.iter().skip(1).step_by(3).map(|&v| v.into()).collect();
        let mean = channel.iter().sum::<f64>() / 32.0;
        let deviation = (channel.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 32.0).sqrt();
        let found_numbers = [data.normalisation.mean[1], data.normalisation.deviation[1]];
        assert_eq!(found_numbers, [mean as f32, deviation as f32]);
        // Grey, and of one colour: nothing is divided by 0.
        let plain = normalisation(&[7; 12], 1);
        assert_eq!((plain.mean[0], plain.deviation[0]), (7.0, 1.0));

        fs::write(here.join("train/a/1.png"), "no picture").unwrap();
        fs::write(here.join("train/b/5.png"), "").unwrap();
        let error = found.pack("ab", SHAPE, false, &|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("2 of 10 pictures cannot be read:\n  "), "{error}");
        assert!(
            error.contains("train/a/1.png, byte 0: expected a PNG or JPEG picture, found neither"),
            "{error}"
        );
        let left = found.pack("ab", SHAPE, true, &|_| ()).unwrap();
        assert_eq!(left.skipped.len(), 2);
        assert_eq!(left.data.train.labels, [0, 0, 0, 1, 1, 1]);
        for (place, i) in [0, 2, 3, 4, 6, 7].into_iter().enumerate() {
            assert_eq!(left.data.train.image(place), pixels(i));
        }
        for i in [0, 2, 3] {
            fs::write(here.join(format!("train/a/{i}.png")), "").unwrap();
        }
        let error = found.pack("ab", SHAPE, true, &|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("train/a: no training picture of class 'a' can be read"), "{error}");
    }
}
