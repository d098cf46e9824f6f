//! A folder of pictures in folders of classes as a data set: PNG and JPEG files of any size, made one size.
//!
//! ```text
//! pictures/ train/ CLASS/ …/*.png        or   pictures/ CLASS/ …/*.jpg
//!           test|val/ CLASS/ …/*.jpg          a share of every class is the test set, drawn by a seed
//! ```
//!
//! Everything is packed once and then read whole, as bytes: training draws, shifts and flips on the device, and a set that
//! does not fit into memory is beyond it. Decoding takes as many threads as there are; what comes out does not hang on them.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use superweight_plan::arch::ImageShape;

use super::dataset::{Dataset, Images, Normalisation};
use super::own::MOST_CLASSES;
use super::random::{Counter, Phase, Stream};
use super::{DataError, Picture};

const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];
/// What the folder of training pictures may be called, in small or capital letters.
const TRAIN: [&str; 2] = ["train", "training"];
/// The same of test pictures, the first that is there.
const TEST: [&str; 5] = ["test", "testing", "val", "valid", "validation"];
/// Folders in folders of a class; links may lead in circles.
const DEEPEST: usize = 16;
/// Unreadable pictures that are named.
const NAMED: usize = 10;

/// Where pictures are, and what is on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// Names of their folders, sorted.
    pub classes: Vec<String>,
    /// To learn from, with their class.
    pub train: Vec<(PathBuf, u16)>,
    /// To be judged by.
    pub test: Vec<(PathBuf, u16)>,
    /// Files that are no pictures by their names, and folders beside those of training and test pictures.
    pub passed_over: Vec<PathBuf>,
    /// Whether the test pictures were drawn from the others.
    pub drawn: bool,
}

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
    /// Looks for pictures. Where there is no folder of test pictures, `share` of every class becomes it, which `seed` draws.
    pub fn find(from: &Path, share: f64, seed: u64) -> Result<Self, DataError> {
        let wrong = |why: String| DataError::Pictures { from: from.to_owned(), why };
        let inside = subfolders(from)?;
        // Trains may be a class: then there are pictures in it and no folders.
        let part = |names: &[&str]| -> Result<Option<&PathBuf>, DataError> {
            for name in names {
                for (folder, path) in &inside {
                    if folder.eq_ignore_ascii_case(name) && !subfolders(path)?.is_empty() {
                        return Ok(Some(path));
                    }
                }
            }
            Ok(None)
        };
        let mut passed_over = vec![];
        let (train, test) = match part(&TRAIN)? {
            Some(train) => {
                let test = part(&TEST)?;
                let others = inside.iter().map(|(_, path)| path);
                passed_over.extend(others.filter(|&path| path != train && Some(path) != test).cloned());
                (train.as_path(), test)
            }
            None => (from, None),
        };
        let folders = subfolders(train)?;
        if folders.len() < 2 {
            let found = folders.len();
            return Err(DataError::Pictures {
                from: train.to_owned(),
                why: format!(
                    "folders of classes: {found}, where at least 2 are needed: pictures lie in train/CLASS/ and test/CLASS/, \
                     or in CLASS/"
                ),
            });
        }
        if folders.len() > MOST_CLASSES {
            return Err(wrong(format!(
                "{} classes, at most {MOST_CLASSES} can be told apart",
                folders.len()
            )));
        }
        let mut pictures = Self {
            classes: folders.iter().map(|(name, _)| name.clone()).collect(),
            train: vec![],
            test: vec![],
            passed_over: vec![],
            drawn: test.is_none(),
        };
        for (class, (name, path)) in folders.iter().enumerate() {
            let mut found = vec![];
            walk(path, DEEPEST, &mut found, &mut passed_over)?;
            if found.is_empty() {
                let why = format!(
                    "class '{name}' has no pictures (.png, .jpg, .jpeg): add some, or remove the folder"
                );
                return Err(DataError::Pictures { from: train.to_owned(), why });
            }
            let of_class = |path| (path, class as u16);
            match pictures.drawn {
                false => pictures.train.extend(found.into_iter().map(of_class)),
                true => {
                    let (rest, test) = divide(found, share, Counter::new(seed, Phase::Split, class as u64));
                    pictures.train.extend(rest.into_iter().map(of_class));
                    pictures.test.extend(test.into_iter().map(of_class));
                }
            }
        }
        for (name, path) in test.map_or(Ok(vec![]), |test| subfolders(test))? {
            let Some(class) = pictures.classes.iter().position(|class| *class == name) else {
                let why = format!("a class '{name}' that {} does not have", train.display());
                return Err(DataError::Pictures { from: path, why });
            };
            let mut found = vec![];
            walk(&path, DEEPEST, &mut found, &mut passed_over)?;
            pictures.test.extend(found.into_iter().map(|path| (path, class as u16)));
        }
        if pictures.test.is_empty() {
            let why = "no test pictures: give a larger share of the others (--test), or a folder of them";
            return Err(wrong(why.into()));
        }
        pictures.passed_over = passed_over;
        Ok(pictures)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.train.len() + self.test.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

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

/// Folders in a folder, sorted by name; hidden ones and what archives of Macs leave behind are none.
fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    let mut found = vec![];
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "__MACOSX" {
            if path.file_name().and_then(|name| name.to_str()).is_none() {
                let why = "a class is named by its folder, and this name is not UTF-8: rename it".to_owned();
                return Err(DataError::Pictures { from: path, why });
            }
            found.push((name, path));
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |error| DataError::read(folder, error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// All pictures in a folder and below it, in an order that hangs on names alone.
fn walk(
    folder: &Path,
    deep: usize,
    found: &mut Vec<PathBuf>,
    passed_over: &mut Vec<PathBuf>,
) -> Result<(), DataError> {
    if deep == 0 {
        let why = format!("more than {DEEPEST} folders in one another, or a link that leads in a circle");
        return Err(DataError::Pictures { from: folder.to_owned(), why });
    }
    for path in entries(folder)? {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match () {
            () if hidden => passed_over.push(path),
            () if path.is_dir() => walk(&path, deep - 1, found, passed_over)?,
            () if ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) => found.push(path),
            () => passed_over.push(path),
        }
    }
    Ok(())
}

/// What is left, and a share of them drawn by lot, both in their order; at least one is left, and one drawn where there are two.
fn divide(pictures: Vec<PathBuf>, share: f64, counter: Counter) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let count = ((pictures.len() as f64 * share).round() as usize).max(1).min(pictures.len() - 1);
    let mut lots: Vec<_> = (0..pictures.len() as u64).map(|i| (counter.draw(i, Stream::Order), i)).collect();
    lots.sort_unstable();
    let mut drawn = vec![false; pictures.len()];
    lots[..count].iter().for_each(|&(_, i)| drawn[i as usize] = true);
    let (test, rest): (Vec<_>, Vec<_>) = pictures.into_iter().zip(drawn).partition(|&(_, drawn)| drawn);
    let paths = |pictures: Vec<(PathBuf, bool)>| pictures.into_iter().map(|(path, _)| path).collect();
    (paths(rest), paths(test))
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
    use super::*;
    use crate::data::testing::{Folder, write_picture};

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 2, width: 2 };

    fn names(pictures: &[(PathBuf, u16)], from: &Path) -> Vec<(String, u16)> {
        let name = |path: &Path| path.strip_prefix(from).unwrap().display().to_string();
        pictures.iter().map(|(path, class)| (name(path), *class)).collect()
    }

    fn refused(from: &Path) -> String {
        let error = Pictures::find(from, 0.2, 0).unwrap_err().to_string();
        error.replace(&from.display().to_string(), "HERE")
    }

    fn fill(folder: &Path, files: &[&str]) {
        for (i, file) in files.iter().enumerate() {
            write_picture(&folder.join(file), [i as u8; 12]);
        }
    }

    #[test]
    fn parts_classes_and_pictures_are_found_by_name() {
        let folder = Folder::new("pictures");
        let here = &folder.0;
        fill(here, &["train/dog/b.png", "train/dog/a/0.JPG", "train/cat/z.jpeg", "val/cat/1.png"]);
        fill(here, &["train/dog/.hidden.png", "train/.cache/x.png", "train/__MACOSX/x.png"]);
        fs::write(here.join("train/dog/notes.txt"), "").unwrap();
        let found = Pictures::find(here, 0.2, 0).unwrap();
        assert_eq!(found.classes, ["cat", "dog"]);
        let train = names(&found.train, here);
        assert_eq!(
            train,
            [("train/cat/z.jpeg", 0), ("train/dog/a/0.JPG", 1), ("train/dog/b.png", 1)]
                .map(|(name, class)| (name.to_owned(), class))
        );
        assert_eq!(names(&found.test, here), [("val/cat/1.png".to_owned(), 0)]);
        assert_eq!((found.passed_over.len(), found.drawn, found.len()), (2, false, 4));
        // A test folder goes before one of validation pictures.
        fill(here, &["test/dog/1.png"]);
        assert_eq!(
            names(&Pictures::find(here, 0.2, 0).unwrap().test, here),
            [("test/dog/1.png".to_owned(), 1)]
        );
    }

    #[test]
    fn trains_may_be_a_class() {
        let folder = Folder::new("pictures-train");
        fill(&folder.0, &["train/1.png", "train/2.png", "bus/1.png", "bus/2.png"]);
        let found = Pictures::find(&folder.0, 0.5, 0).unwrap();
        assert_eq!(found.classes, ["bus", "train"]);
        assert_eq!((found.train.len(), found.test.len(), found.drawn), (2, 2, true));
    }

    #[test]
    fn parts_may_be_spelled_otherwise_and_are_not_passed_over_where_they_cannot_be_read() {
        let folder = Folder::new("pictures-spelled");
        fill(&folder.0, &["Training/a/1.png", "Training/b/1.png", "Testing/b/2.png", "extra/c/1.png"]);
        let found = Pictures::find(&folder.0, 0.5, 0).unwrap();
        assert_eq!((&found.classes[..], found.test.len()), (&["a".to_owned(), "b".to_owned()][..], 1));
        assert_eq!(found.passed_over, [folder.0.join("extra")]);
    }

    /// A pipe that nobody writes to is no picture.
    #[cfg(unix)]
    #[test]
    fn only_plain_files_are_read() {
        let folder = Folder::new("pictures-pipe");
        let pipe = folder.0.join("x.png");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = Picture::open(&pipe).unwrap_err().to_string();
        assert!(error.ends_with("expected a picture, found no plain file"), "{error}");
    }

    #[test]
    fn a_share_of_every_class_is_drawn_and_one_is_left() {
        let folder = Folder::new("pictures-share");
        let files: Vec<_> = (0..10).map(|i| format!("many/{i}.png")).chain(["few/0.png".into()]).collect();
        fill(&folder.0, &files.iter().map(String::as_str).collect::<Vec<_>>());
        let draw = |share, seed| Pictures::find(&folder.0, share, seed).unwrap();
        let [third, most] = [0.3, 0.99].map(|share| draw(share, 0));
        assert_eq!((third.train.len(), third.test.len()), (1 + 7, 3));
        assert_eq!((most.train.len(), most.test.len()), (1 + 1, 9));
        assert_eq!(draw(0.01, 0).test.len(), 1); // of the class that has more than one
        let mut all = [third.train.clone(), third.test.clone()].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 11);
        assert_eq!(draw(0.3, 0), third);
        assert!((1..5).any(|seed| draw(0.3, seed).test != third.test));
    }

    #[test]
    fn what_is_wrong_with_a_folder_is_said() {
        let folder = Folder::new("pictures-wrong");
        let here = &folder.0;
        assert!(refused(here).starts_with("HERE: folders of classes: 0, where at least 2"));
        assert_eq!(refused(&here.join("none")), "HERE could not be read");
        fill(here, &["a/1.png", "b/1.png"]);
        let none = "HERE: no test pictures: give a larger share of the others (--test), or a folder of them";
        assert_eq!(refused(here), none);
        fs::create_dir(here.join("c")).unwrap();
        assert!(refused(here).starts_with("HERE: class 'c' has no pictures (.png, .jpg, .jpeg)"));
        fill(here, &["train/a/1.png", "train/b/1.png", "test/d/1.png"]);
        assert_eq!(refused(here), "HERE/test/d: a class 'd' that HERE/train does not have");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(here.join("train/a"), here.join("train/a/again")).unwrap();
            assert!(refused(here).contains("or a link that leads in a circle"));
        }
    }

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
