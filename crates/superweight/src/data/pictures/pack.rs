//! Packs pictures as a data set: decodes them, resizes them to one size and measures their
//! normalization.
//!
//! Images are written to files that may be larger than memory. All cores decode; the result does
//! not depend on their number.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use superweight_engine::MappedFile;
use superweight_plan::arch::ImageShape;

use super::own::{FILES, HEADER, OwnSet, header};
use crate::data::DataError;
use crate::data::bytes::Bytes;
use crate::data::dataset::Dataset;
use crate::data::images::{Images, Normalization};
use crate::data::sources::staging::{Staging, unwritable};
use crate::data::{Picture, Pictures};
use crate::fs::{read_at, write_at};

/// Number of unreadable pictures that an error names.
const NAMED: usize = 10;

/// A packed data set in a hidden folder, which is removed when this is dropped without
/// [`keep`](Self::keep).
#[derive(Debug)]
pub struct Packed {
    /// All pictures that were readable, in files of the hidden folder.
    pub data: Dataset,
    /// Errors of the unreadable pictures, if those were left out on request.
    pub skipped: Vec<DataError>,
    /// Number of test images that equal a training image byte for byte.
    pub duplicates: usize,
    /// Median height and median width of the pictures.
    pub median: (usize, usize),
    /// The data folder, which contains the hidden folder.
    to: PathBuf,
    staging: Staging,
}

impl Packed {
    /// Moves the data set to its place in the data folder, atomically, and returns its folder. An
    /// existing data set of that name is replaced only if `replace` is true.
    pub fn keep(self, replace: bool) -> Result<PathBuf, DataError> {
        OwnSet::check_place(&self.data.name, &self.to, replace)?;
        OwnSet::keep(&self.data, self.staging, &self.to, replace)
    }
}

impl Pictures {
    /// Decodes all pictures and resizes them to `shape`, into a hidden folder of the data folder
    /// `to`. `progress` is called on any thread with the number of finished pictures, and returns
    /// whether to continue.
    ///
    /// # Errors
    /// Fails if pictures cannot be read, unless `skip` is true, which leaves them out.
    pub fn pack(
        &self,
        name: &str,
        shape: ImageShape,
        skip: bool,
        to: &Path,
        progress: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<Packed, DataError> {
        let done = AtomicUsize::new(0);
        let step = || progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        let staging = Staging::new(to, name)?;
        let mut train = Decoded::new(&self.train, shape, &staging.path.join(FILES[0]), &step)?;
        let mut test = Decoded::new(&self.test, shape, &staging.path.join(FILES[2]), &step)?;
        let mut failed = std::mem::take(&mut train.failed);
        failed.append(&mut test.failed);
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
            if !train.images.labels.contains(&(class as u16)) {
                let from = self.train.iter().find(|(_, of)| usize::from(*of) == class);
                let from = from.and_then(|(path, _)| path.parent()).unwrap_or(Path::new(""));
                let why =
                    format!("no training picture of class '{name}' can be read{}", first(&failed));
                return Err(DataError::Pictures { from: from.to_owned(), why });
            }
        }
        if test.images.is_empty() {
            let from = self.test[0].0.parent().unwrap_or(Path::new("")).to_owned();
            return Err(DataError::Pictures {
                from,
                why: format!("no test picture can be read{}", first(&failed)),
            });
        }
        let duplicates = count_duplicates(&train, &test);
        let (mut heights, mut widths): (Vec<_>, Vec<_>) =
            train.sizes.iter().chain(&test.sizes).copied().unzip();
        let normalization = normalization(&train.counts);
        let (classes, train, test) = (self.classes.clone(), train.images, test.images);
        let data = Dataset { name: name.to_owned(), shape, classes, train, test, normalization };
        let middle = |sizes: &mut Vec<usize>| {
            sizes.sort_unstable();
            sizes[sizes.len() / 2]
        };
        let median = (middle(&mut heights), middle(&mut widths));
        Ok(Packed { data, skipped: failed, duplicates, median, to: to.to_owned(), staging })
    }
}

/// Resized pictures in their order, without the unreadable ones.
struct Decoded {
    images: Images,
    failed: Vec<DataError>,
    /// Hash of every image.
    hashes: Vec<u64>,
    /// Original height and width of every picture, in any order.
    sizes: Vec<(usize, usize)>,
    /// Histogram of the values of each channel.
    counts: Vec<[u64; 256]>,
}

/// Results that the threads share.
struct Found {
    /// Hash of each picture; `None` for unreadable ones.
    hashes: Vec<Option<u64>>,
    sizes: Vec<(usize, usize)>,
    counts: Vec<[u64; 256]>,
    failed: Vec<(usize, DataError)>,
    unwritten: Option<io::Error>,
    interrupted: bool,
}

impl Decoded {
    fn new(
        pictures: &[(PathBuf, u16)],
        shape: ImageShape,
        path: &Path,
        step: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self, DataError> {
        let size = shape.channels * shape.height * shape.width;
        let place = |image: usize| (HEADER + image * size) as u64;
        let unwritable = |error| unwritable(path, error);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(unwritable)?;
        let no_counts = vec![[0; 256]; shape.channels];
        let found = Mutex::new(Found {
            hashes: vec![None; pictures.len()],
            sizes: vec![],
            counts: no_counts.clone(),
            failed: vec![],
            unwritten: None,
            interrupted: false,
        });
        let next = AtomicUsize::new(0);
        let take = || {
            let i = next.fetch_add(1, Ordering::Relaxed);
            Some((i, pictures.get(i)?))
        };
        let lock = || found.lock().expect("no thread panics while it holds the lock");
        let work = || {
            let mut counts = no_counts.clone();
            while let Some((i, (path, _))) = take() {
                match open(path) {
                    Ok(picture) => {
                        let image = picture.fit(shape);
                        let (hash, written) = (hash(&image), write_at(&file, &image, place(i)));
                        for pixel in image.chunks_exact(shape.channels) {
                            pixel
                                .iter()
                                .zip(&mut counts)
                                .for_each(|(&v, counts)| counts[usize::from(v)] += 1);
                        }
                        let mut found = lock();
                        found.hashes[i] = Some(hash);
                        found.sizes.push((picture.height, picture.width));
                        if let Err(error) = written {
                            found.unwritten.get_or_insert(error);
                            next.store(pictures.len(), Ordering::Relaxed);
                        }
                    }
                    Err(error) => lock().failed.push((i, error)),
                }
                if !step() {
                    lock().interrupted = true;
                    next.store(pictures.len(), Ordering::Relaxed);
                }
            }
            for (all, counts) in lock().counts.iter_mut().zip(counts) {
                all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        let Found { hashes, sizes, counts, mut failed, unwritten, interrupted } =
            found.into_inner().expect("no thread panics while it holds the lock");
        if let Some(error) = unwritten {
            return Err(unwritable(error));
        }
        if interrupted {
            return Err(DataError::Interrupted);
        }
        failed.sort_by_key(|&(i, _)| i);
        let there = || hashes.iter().enumerate().filter_map(|(i, &hash)| Some((i, hash?)));
        let labels: Vec<u16> = there().map(|(i, _)| pictures[i].1).collect();
        // Readable images move down over the gaps of unreadable ones.
        let close = || {
            let mut image = vec![0; size];
            for (to, (from, _)) in there().enumerate().filter(|&(to, (from, _))| to != from) {
                read_at(&file, &mut image, place(from))?;
                write_at(&file, &image, place(to))?;
            }
            file.set_len(place(labels.len()))?;
            write_at(&file, &header(shape, labels.len()), 0)?;
            file.sync_all()
        };
        close().map_err(unwritable)?;
        let mapped = MappedFile::new(&file, HEADER, labels.len() * size);
        let pixels = Bytes::File(Arc::new(mapped.map_err(|error| DataError::read(path, error))?));
        let hashes = there().map(|(_, hash)| hash).collect();
        let failed = failed.into_iter().map(|(_, error)| error).collect();
        Ok(Self { images: Images { pixels, labels }, failed, hashes, sizes, counts })
    }
}

/// Decodes a picture; a panic of the decoder counts as an unreadable picture.
fn open(path: &Path) -> Result<Picture, DataError> {
    let read = catch_unwind(|| Picture::open(path));
    read.unwrap_or_else(|_| {
        Err(DataError::malformed(path, 0, "a picture", "data that stop its decoder"))
    })
}

/// The first of several errors, as the end of a message.
fn first(failed: &[DataError]) -> String {
    failed.first().map_or(String::new(), |error| format!(": {}", error.with_cause()))
}

/// Hash of the pixels.
fn hash(image: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish()
}

/// Number of test images that equal a training image.
fn count_duplicates(train: &Decoded, test: &Decoded) -> usize {
    let mut known: HashMap<u64, Vec<usize>> = HashMap::new();
    train.hashes.iter().enumerate().for_each(|(i, &hash)| known.entry(hash).or_default().push(i));
    let is_known = |&(i, hash): &(usize, &u64)| {
        let image = test.images.image(i);
        known.get(hash).is_some_and(|like| like.iter().any(|&j| train.images.image(j) == image))
    };
    test.hashes.iter().enumerate().filter(is_known).count()
}

/// Mean and standard deviation of each channel from its histogram.
fn normalization(counts: &[[u64; 256]]) -> Normalization {
    let of_channel = |counts: &[u64; 256]| {
        let total = counts.iter().sum::<u64>() as f64;
        let mean_of = |value: &dyn Fn(f64) -> f64| -> f64 {
            counts.iter().enumerate().map(|(v, &n)| value(v as f64) * n as f64).sum::<f64>() / total
        };
        let mean = mean_of(&|v| v);
        let std = mean_of(&|v| (v - mean).powi(2)).sqrt();
        // A channel of one value is not divided by 0.
        (mean as f32, if std > 0.0 { std as f32 } else { 1.0 })
    };
    let (mean, std): (Vec<f32>, Vec<f32>) = counts.iter().map(of_channel).unzip();
    Normalization { mean: mean.into(), std: std.into() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::testing::{Folder, Tmpfs, write_picture};

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 2, width: 2 };

    #[test]
    fn packing_keeps_the_order_and_measures_the_images() {
        let folder = Folder::new("pictures-pack");
        let here = &folder.0;
        let pixels = |i: u8| std::array::from_fn(|p| 20 * i + p as u8);
        for i in 0..8 {
            write_picture(
                &here.join(format!("train/{}/{i}.png", ["a", "b"][usize::from(i / 4)])),
                pixels(i),
            );
        }
        write_picture(&here.join("test/a/seen.png"), pixels(6));
        write_picture(&here.join("test/b/new.png"), pixels(10));
        let found = Pictures::find(here, 0.2, 0).unwrap();
        let done = AtomicUsize::new(0);
        let progress = |n| {
            done.fetch_max(n, Ordering::Relaxed);
            true
        };
        let packed = found.pack("ab", SHAPE, false, here, &progress).unwrap();
        let Packed { data, skipped, duplicates, median, .. } = &packed;
        assert_eq!((done.into_inner(), skipped.len(), *duplicates, *median), (10, 0, 1, (2, 2)));
        assert_eq!(data.train.labels, [0, 0, 0, 0, 1, 1, 1, 1]);
        for i in 0..8 {
            assert_eq!(data.train.image(usize::from(i)), pixels(i));
        }
        let channel: Vec<f64> =
            data.train.pixels.iter().skip(1).step_by(3).map(|&v| v.into()).collect();
        let mean = channel.iter().sum::<f64>() / 32.0;
        let std = (channel.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 32.0).sqrt();
        let measured = [data.normalization.mean[1], data.normalization.std[1]];
        assert_eq!(measured, [mean as f32, std as f32]);
        // A gray image of one value.
        let plain = normalization(&[std::array::from_fn(|v| if v == 7 { 12 } else { 0 })]);
        assert_eq!((plain.mean[0], plain.std[0]), (7.0, 1.0));

        let (train, test) = (data.train.clone(), data.test.clone());
        let target = packed.keep(false).unwrap();
        let kept = Dataset::open("ab", here).unwrap();
        assert_eq!((&kept.train, &kept.test), (&train, &test));
        fs::remove_dir_all(target).unwrap();

        fs::write(here.join("train/a/1.png"), "no picture").unwrap();
        fs::write(here.join("train/b/5.png"), "").unwrap();
        let error = found.pack("ab", SHAPE, false, here, &|_| true).unwrap_err().to_string();
        assert!(error.starts_with("2 of 10 pictures cannot be read:\n  "), "{error}");
        assert!(
            error.contains(
                "train/a/1.png, byte 0: expected a PNG, JPEG, WebP or GIF picture, found none of their signatures"
            ),
            "{error}"
        );
        let left = found.pack("ab", SHAPE, true, here, &|_| true).unwrap();
        assert_eq!(left.skipped.len(), 2);
        assert_eq!(left.data.train.labels, [0, 0, 0, 1, 1, 1]);
        for (place, i) in [0, 2, 3, 4, 6, 7].into_iter().enumerate() {
            assert_eq!(left.data.train.image(place), pixels(i));
        }
        left.keep(false).unwrap();
        assert_eq!(Dataset::open("ab", here).unwrap().train.labels, [0, 0, 0, 1, 1, 1]);
        for i in [0, 2, 3] {
            fs::write(here.join(format!("train/a/{i}.png")), "").unwrap();
        }
        let error = found.pack("ab", SHAPE, true, here, &|_| true).unwrap_err().to_string();
        assert!(
            error.contains("train/a: no training picture of class 'a' can be read: "),
            "{error}"
        );
        assert!(
            error.contains(
                "0.png, byte 0: expected a PNG, JPEG, WebP or GIF picture, found an empty file"
            ),
            "{error}"
        );
        assert!(matches!(
            found.pack("x", SHAPE, true, here, &|_| false),
            Err(DataError::Interrupted)
        ));
        assert!(
            fs::read_dir(here)
                .unwrap()
                .flatten()
                .all(|entry| !entry.file_name().to_string_lossy().starts_with(".x"))
        );
    }

    #[test]
    fn a_full_disk_is_an_error_and_nothing_stays_on_it() {
        let folder = Folder::new("pictures-full");
        let pictures = folder.0.join("pictures");
        for i in 0..8 {
            let class = ["a", "b"][usize::from(i / 4)];
            write_picture(&pictures.join(format!("{class}/{i}.png")), [i; 12]);
        }
        let Some(disk) = Tmpfs::mount(&folder.0.join("disk"), "size=64k") else {
            eprintln!("skipped: a tmpfs can be mounted by root only");
            return;
        };
        let found = Pictures::find(&pictures, 0.25, 0).unwrap();
        let shape = ImageShape { channels: 3, height: 100, width: 100 };
        let error = found.pack("ab", shape, false, &disk.0, &|_| true).unwrap_err();
        let DataError::Io { source, path, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(path.ends_with("train-images.npy"), "{error}");
        assert_eq!(fs::read_dir(&disk.0).unwrap().count(), 0);
        found.pack("ab", SHAPE, false, &disk.0, &|_| true).unwrap().keep(false).unwrap();
    }
}
