//! Finds pictures in folders of classes and divides them into training and test pictures.
//!
//! ```text
//! pictures/ train/ CLASS/ …/*.png        or   pictures/ CLASS/ …/*.jpg
//!           test|val/ CLASS/ …/*.jpg          test set: a fraction of every class, drawn by a seed
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::format::is_picture;
use super::own::MAX_CLASSES;
use crate::data::DataError;
use crate::data::random::{Counter, Phase, Stream};

/// Names of the folder of training pictures, in lower or upper case, with or without `set` at the
/// end.
const TRAIN: [&str; 2] = ["train", "training"];
/// Names of the folder of test pictures; the first that exists is used.
const TEST: [&str; 5] = ["test", "testing", "val", "valid", "validation"];
/// Deepest nesting of folders in a class, a limit for links that lead in circles.
const MAX_DEPTH: usize = 16;

/// Pictures that were found, with their classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// Names of the classes, sorted.
    pub classes: Vec<String>,
    /// Training pictures with the indices of their classes.
    pub train: Vec<(PathBuf, u16)>,
    /// Test pictures with the indices of their classes.
    pub test: Vec<(PathBuf, u16)>,
    /// Files whose endings are not those of pictures, and folders beside those of training and test
    /// pictures.
    pub passed_over: Vec<PathBuf>,
    /// Whether the test pictures were drawn from all pictures.
    pub drawn: bool,
    /// Two classes with the same subfolders: they may be training and test pictures under other
    /// names.
    pub same_subfolders: Option<(String, String)>,
}

impl Pictures {
    /// Finds pictures in a folder. Without a folder of test pictures, the fraction `test` of every
    /// class, drawn by `seed`, becomes the test set.
    ///
    /// Pictures in formats that are not read (BMP, HEIC, …) are found too: packing reports them.
    pub fn find(from: &Path, test_fraction: f64, seed: u64) -> Result<Self, DataError> {
        let SplitFolders { train, test, mut passed_over, same_subfolders } =
            SplitFolders::find(from)?;
        let folders = subfolders(&train)?;
        let wrong = |why: String| DataError::Pictures { from: train.clone(), why };
        match folders.len() {
            0 | 1 => {
                return Err(wrong(format!(
                    "folders of classes: {}, where at least 2 are needed: pictures lie in train/CLASS/ and test/CLASS/, or in CLASS/",
                    folders.len()
                )));
            }
            2..=MAX_CLASSES => {}
            many => {
                return Err(wrong(format!(
                    "{many} classes, where at most {MAX_CLASSES} are possible"
                )));
            }
        }
        let mut pictures = Self {
            classes: folders.iter().map(|(name, _)| name.clone()).collect(),
            train: vec![],
            test: vec![],
            passed_over: vec![],
            drawn: test.is_none(),
            same_subfolders,
        };
        for (class, (name, path)) in folders.iter().enumerate() {
            let mut found = vec![];
            walk(path, MAX_DEPTH, &mut found, &mut passed_over)?;
            if found.is_empty() {
                let what =
                    "has no pictures (.png, .jpg, .webp, .gif): add some, or remove the folder";
                return Err(wrong(format!("class '{name}' {what}")));
            }
            let of_class = |path| (path, class as u16);
            match pictures.drawn {
                false => pictures.train.extend(found.into_iter().map(of_class)),
                true => {
                    let (rest, test) = divide(
                        found,
                        test_fraction,
                        Counter::new(seed, Phase::Split, class as u64),
                    );
                    pictures.train.extend(rest.into_iter().map(of_class));
                    pictures.test.extend(test.into_iter().map(of_class));
                }
            }
        }
        for (name, path) in test.map_or(Ok(vec![]), |test| subfolders(&test))? {
            let Some(class) = pictures.classes.iter().position(|class| *class == name) else {
                let why = format!("a class '{name}' that {} does not have", train.display());
                return Err(DataError::Pictures { from: path, why });
            };
            let mut found = vec![];
            walk(&path, MAX_DEPTH, &mut found, &mut passed_over)?;
            pictures.test.extend(found.into_iter().map(|path| (path, class as u16)));
        }
        if pictures.test.is_empty() {
            let why =
                "no test pictures: give a larger share of the others (--test), or a folder of them";
            return Err(wrong(why.into()));
        }
        pictures.passed_over = passed_over;
        Ok(pictures)
    }

    /// Number of pictures.
    pub fn len(&self) -> usize {
        self.train.len() + self.test.len()
    }

    /// Whether there are no pictures.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The folders of training and test pictures.
struct SplitFolders {
    train: PathBuf,
    test: Option<PathBuf>,
    /// Folders beside the two.
    passed_over: Vec<PathBuf>,
    /// Two classes with the same subfolders.
    same_subfolders: Option<(String, String)>,
}

impl SplitFolders {
    fn find(from: &Path) -> Result<Self, DataError> {
        let inside = subfolders(from)?;
        let Some(train) = inside.iter().find(|(name, _)| is_called(name, &TRAIN)) else {
            return Self::one(from, &inside);
        };
        // A class may be named train: then the folder has pictures and no folders.
        if subfolders(&train.1)?.is_empty() {
            return Self::one(from, &inside);
        }
        let test =
            TEST.iter().find_map(|test| inside.iter().find(|(name, _)| is_called(name, &[test])));
        if let Some((_, test)) = test
            && subfolders(test)?.is_empty()
        {
            let why = "no folders of classes, where test pictures are looked for: make them, or rename this one";
            return Err(DataError::Pictures { from: test.clone(), why: why.into() });
        }
        let others = inside.iter().filter(|&other| other != train && Some(other) != test);
        let passed_over = others.map(|(_, path)| path.clone()).collect();
        Ok(Self {
            train: train.1.clone(),
            test: test.map(|(_, path)| path.clone()),
            passed_over,
            same_subfolders: None,
        })
    }

    /// Treats `from` as a folder of classes.
    fn one(from: &Path, inside: &[(String, PathBuf)]) -> Result<Self, DataError> {
        let names = |path: &Path| -> Result<Vec<String>, DataError> {
            Ok(subfolders(path)?.into_iter().map(|(name, _)| name).collect())
        };
        let mut same_subfolders = None;
        if let [(a, first), (b, second), ..] = inside {
            let classes = names(first)?;
            same_subfolders =
                (classes.len() > 1 && classes == names(second)?).then(|| (a.clone(), b.clone()));
        }
        Ok(Self { train: from.to_owned(), test: None, passed_over: vec![], same_subfolders })
    }
}

/// Whether a folder has one of these names, up to case, punctuation and `set` at the end.
fn is_called(folder: &str, names: &[&str]) -> bool {
    let plain: String =
        folder.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.strip_suffix("set").unwrap_or(&plain);
    names.contains(&plain)
}

/// Folders in a folder, sorted by name. Hidden folders are left out, and `__MACOSX`, which archives
/// of macOS contain.
fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    let mut found = vec![];
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "__MACOSX" {
            continue;
        }
        // A link to a missing drive is an error: the class would be missing otherwise.
        if fs::metadata(&path).map_err(|error| DataError::read(&path, error))?.is_dir() {
            if path.file_name().and_then(|name| name.to_str()).is_none() {
                let why = "a class is named by its folder, and this name is not UTF-8: rename it"
                    .to_owned();
                return Err(DataError::Pictures { from: path, why });
            }
            found.push((name, path));
        }
    }
    Ok(found)
}

/// Sorted paths in a folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |error| DataError::read(folder, error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths =
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Collects all pictures in a folder and below it, in an order that depends on names only.
fn walk(
    folder: &Path,
    deep: usize,
    found: &mut Vec<PathBuf>,
    passed_over: &mut Vec<PathBuf>,
) -> Result<(), DataError> {
    if deep == 0 {
        let why = format!(
            "more than {MAX_DEPTH} folders in one another, or a link that leads in a circle"
        );
        return Err(DataError::Pictures { from: folder.to_owned(), why });
    }
    for path in entries(folder)? {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        match () {
            () if hidden => passed_over.push(path),
            () if path.is_dir() => walk(&path, deep - 1, found, passed_over)?,
            () if is_picture(&path) => found.push(path),
            () => passed_over.push(path),
        }
    }
    Ok(())
}

/// Draws a fraction of pictures at random. Returns the rest and the drawn ones, both in their
/// order. At least one picture remains, and at least one is drawn if there are two.
fn divide(pictures: Vec<PathBuf>, fraction: f64, counter: Counter) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let count = (pictures.len() as f64 * fraction).round() as usize;
    let count = count.max(1).min(pictures.len() - 1);
    let mut draws: Vec<_> =
        (0..pictures.len() as u64).map(|i| (counter.draw(i, Stream::Order), i)).collect();
    draws.sort_unstable();
    let mut drawn = vec![false; pictures.len()];
    draws[..count].iter().for_each(|&(_, i)| drawn[i as usize] = true);
    let (test, rest): (Vec<_>, Vec<_>) =
        pictures.into_iter().zip(drawn).partition(|&(_, drawn)| drawn);
    let paths =
        |pictures: Vec<(PathBuf, bool)>| pictures.into_iter().map(|(path, _)| path).collect();
    (paths(rest), paths(test))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Picture;
    use crate::data::testing::{Folder, write_picture};

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
    fn splits_classes_and_pictures_are_found_by_name() {
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
        // A folder named test goes before one named val.
        fill(here, &["test/dog/1.png"]);
        assert_eq!(
            names(&Pictures::find(here, 0.2, 0).unwrap().test, here),
            [("test/dog/1.png".to_owned(), 1)]
        );
    }

    #[test]
    fn a_class_may_be_named_train() {
        let folder = Folder::new("pictures-train");
        fill(&folder.0, &["train/1.png", "train/2.png", "bus/1.png", "bus/2.png"]);
        let found = Pictures::find(&folder.0, 0.5, 0).unwrap();
        assert_eq!(found.classes, ["bus", "train"]);
        assert_eq!((found.train.len(), found.test.len(), found.drawn), (2, 2, true));
    }

    #[test]
    fn folders_of_splits_may_have_other_names() {
        let folder = Folder::new("pictures-spelled");
        fill(
            &folder.0,
            &["Training/a/1.png", "Training/b/1.png", "Testing/b/2.png", "extra/c/1.png"],
        );
        let found = Pictures::find(&folder.0, 0.5, 0).unwrap();
        assert_eq!(
            (&found.classes[..], found.test.len()),
            (&["a".to_owned(), "b".to_owned()][..], 1)
        );
        assert_eq!(found.passed_over, [folder.0.join("extra")]);
        let other = Folder::new("pictures-set");
        fill(&other.0, &["training_set/a/1.png", "training_set/b/1.png", "Test-Set/b/2.png"]);
        assert!(!Pictures::find(&other.0, 0.5, 0).unwrap().drawn);
        fs::rename(other.0.join("training_set"), other.0.join("one")).unwrap();
        fill(&other.0, &["Test-Set/a/2.png"]);
        let same = Pictures::find(&other.0, 0.5, 0).unwrap().same_subfolders;
        assert_eq!(same, Some(("Test-Set".to_owned(), "one".to_owned())));
    }

    /// Training pictures never replace test pictures silently.
    #[cfg(unix)]
    #[test]
    fn a_test_folder_that_cannot_be_used_is_an_error() {
        let folder = Folder::new("pictures-test");
        fill(&folder.0, &["train/a/1.png", "train/a/2.png", "train/b/1.png", "test/1.png"]);
        assert!(refused(&folder.0).starts_with("HERE/test: no folders of classes"));
        fs::remove_dir_all(folder.0.join("test")).unwrap();
        std::os::unix::fs::symlink("/no/such/drive", folder.0.join("test")).unwrap();
        assert_eq!(refused(&folder.0), "HERE/test could not be read");
    }

    /// Reading a pipe without a writer would block.
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
    fn a_fraction_of_every_class_is_drawn_and_one_picture_remains() {
        let folder = Folder::new("pictures-share");
        let files: Vec<_> =
            (0..10).map(|i| format!("many/{i}.png")).chain(["few/0.png".into()]).collect();
        fill(&folder.0, &files.iter().map(String::as_str).collect::<Vec<_>>());
        let draw = |share, seed| Pictures::find(&folder.0, share, seed).unwrap();
        let [third, most] = [0.3, 0.99].map(|share| draw(share, 0));
        assert_eq!((third.train.len(), third.test.len()), (1 + 7, 3));
        assert_eq!((most.train.len(), most.test.len()), (1 + 1, 9));
        assert_eq!(draw(0.01, 0).test.len(), 1); // from the class with more than one picture
        let mut all = [third.train.clone(), third.test.clone()].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 11);
        assert_eq!(draw(0.3, 0), third);
        assert!((1..5).any(|seed| draw(0.3, seed).test != third.test));
    }

    #[test]
    fn errors_name_the_folder_and_the_problem() {
        let folder = Folder::new("pictures-wrong");
        let here = &folder.0;
        assert!(refused(here).starts_with("HERE: folders of classes: 0, where at least 2"));
        assert_eq!(refused(&here.join("none")), "HERE could not be read");
        fill(here, &["a/1.png", "b/1.png"]);
        let none = "HERE: no test pictures: give a larger share of the others (--test), or a folder of them";
        assert_eq!(refused(here), none);
        fs::create_dir(here.join("c")).unwrap();
        assert!(
            refused(here).starts_with("HERE: class 'c' has no pictures (.png, .jpg, .webp, .gif)")
        );
        fill(here, &["train/a/1.png", "train/b/1.png", "test/d/1.png"]);
        assert_eq!(refused(here), "HERE/test/d: a class 'd' that HERE/train does not have");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(here.join("train/a"), here.join("train/a/again")).unwrap();
            assert!(refused(here).contains("or a link that leads in a circle"));
        }
    }
}
