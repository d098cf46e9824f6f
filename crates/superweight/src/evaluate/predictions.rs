//! Files of predictions: the logits of every output for every image, and the classes they predict.
//!
//! | file | holds | 10,000 images, 100 classes |
//! |---|---|---|
//! | `NAME.safetensors` | labels, logits of each member in f32: every figure, bit for bit | 4 MB a member |
//! | `NAME.classes.safetensors.gz` | labels, class per image of every member and ensemble: top-1 and diversity | 8 KB, 3 to 5 KB a row |
//!
//! The full file has logits and not probabilities. The log-likelihood of a confident network needs
//! more precision than f32 has just below 1, and f16 would change the NLL in its fourth digit. A
//! row of the small file is (class − label) mod classes, which is mostly 0 and therefore compresses
//! well.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use thiserror::Error;

use super::metrics::diversity;
use crate::fs::write_whole;
use crate::model::OutputId;
use crate::model::Subset;
use crate::probability::{MeanProbabilities, most_probable};
use crate::run::{Disk, RunError, Tensor, Tensors, Values, safetensors};

/// Largest size of an unpacked file of classes that is read: more than the 50,000 validation images
/// of ImageNet in 1,023 ensembles.
const CLASSES_LIMIT: u64 = 1 << 28;

/// Images whose probabilities are in memory at once.
const IMAGES_AT_ONCE: usize = 256;

/// Why predictions cannot be read, written or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// A file, or a tensor in it, cannot be read or written.
    #[error(transparent)]
    File(#[from] RunError),
    /// Labels and logits that contradict each other.
    #[error("predictions of {images} images and {classes} classes: {what}")]
    Shape {
        /// Number of labels.
        images: usize,
        /// Number of classes.
        classes: usize,
        /// What is wrong.
        what: String,
    },
}

/// Logits of every output of a run, for all images of one set.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    /// Metadata of the file: data set, corruption, checkpoint.
    pub about: BTreeMap<String, String>,
    classes: usize,
    labels: Vec<u16>,
    members: Vec<Vec<f32>>,
}

impl Predictions {
    /// Predictions from the labels and the logits `[image][class]` of each output.
    pub fn new(
        classes: usize,
        labels: Vec<u16>,
        members: Vec<Vec<f32>>,
    ) -> Result<Self, PredictionError> {
        let wrong = |what: String| PredictionError::Shape { images: labels.len(), classes, what };
        if classes == 0 || labels.is_empty() || members.is_empty() {
            return Err(wrong(format!(
                "there is nothing to evaluate in {} outputs",
                members.len()
            )));
        }
        let bad = |logits: &Vec<f32>| classes.checked_mul(labels.len()) != Some(logits.len());
        if let Some(member) = members.iter().position(bad) {
            return Err(wrong(format!("member.{member} has {} logits", members[member].len())));
        }
        if let Some(label) = labels.iter().find(|&&label| usize::from(label) >= classes) {
            return Err(wrong(format!("label {label} is not a class")));
        }
        let not_finite = |logits: &Vec<f32>| logits.iter().any(|logit| !logit.is_finite());
        if let Some(member) = members.iter().position(not_finite) {
            return Err(wrong(format!("member.{member} has a logit that is not a number")));
        }
        Ok(Self { about: BTreeMap::new(), classes, labels, members })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of outputs: members, or exits of one network.
    pub fn outputs(&self) -> usize {
        self.members.len()
    }

    /// Label of every image.
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// Logits of one output for one image.
    pub fn logits(&self, member: OutputId, image: usize) -> &[f32] {
        &self.members[member.0][image * self.classes..][..self.classes]
    }

    /// The class that a subset's mean probabilities predict for every image.
    pub fn classes_of(&self, subset: Subset) -> Vec<u16> {
        let mut classes = Vec::with_capacity(self.labels.len());
        // In blocks: the probabilities of all of ImageNet's validation images would take 400 MB.
        for first in (0..self.labels.len()).step_by(IMAGES_AT_ONCE) {
            let last = self.labels.len().min(first + IMAGES_AT_ONCE);
            let mut mean = MeanProbabilities::new(self.classes);
            let block = first * self.classes..last * self.classes;
            subset.outputs().for_each(|output| mean.add(&self.members[output.0][block.clone()]));
            let predicted = mean.finish();
            classes.extend(predicted.chunks_exact(self.classes).map(|p| most_probable(p) as u16));
        }
        classes
    }

    /// Diversity of all outputs; see [`diversity`].
    pub fn diversity(&self) -> Option<f64> {
        let of = |member| self.classes_of(Subset::one(OutputId(member)));
        let rows: Vec<_> = (0..self.outputs()).map(of).collect();
        diversity(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), &self.labels)
    }

    /// Predicted classes of every output and of all together, for the small file.
    pub fn to_classes(&self) -> Classes {
        let one = (0..self.outputs()).map(|member| Subset::one(OutputId(member)));
        let all = (self.outputs() > 1).then(|| Subset::all(self.outputs()));
        let rows = one.chain(all).map(|subset| (subset, self.classes_of(subset))).collect();
        Classes {
            about: self.about.clone(),
            classes: self.classes,
            labels: self.labels.clone(),
            rows,
        }
    }

    /// Writes the full file, atomically.
    pub fn save(&self, path: &Path) -> Result<(), PredictionError> {
        let mut tensors = Tensors::about(self.about.clone());
        let labels = self.labels.iter().map(|&label| label.into()).collect::<Vec<u32>>();
        tensors.insert("labels", Tensor::new(&[labels.len()], labels));
        for (member, logits) in self.members.iter().enumerate() {
            let shape = [self.labels.len(), self.classes];
            tensors.insert(&member_name(member), Tensor::new(&shape, logits.clone()));
        }
        Ok(safetensors::save(&Disk::default(), path, &tensors)?)
    }

    /// Reads the full file.
    pub fn load(path: &Path) -> Result<Self, PredictionError> {
        Self::from_tensors(path, safetensors::load(path)?)
    }

    /// Reads the full file from memory; `path` is for errors.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, PredictionError> {
        Self::from_tensors(path, safetensors::from_bytes(path, bytes)?)
    }

    fn from_tensors(path: &Path, tensors: Tensors) -> Result<Self, PredictionError> {
        let labels = read_labels(path, &tensors)?;
        let first = tensors.get(&member_name(0)).map_or(&[][..], |tensor| tensor.shape());
        let classes = first.get(1).copied().unwrap_or(0);
        let mut members = vec![];
        while members.is_empty() || tensors.get(&member_name(members.len())).is_some() {
            let logits =
                tensors.expect::<f32>(&member_name(members.len()), &[labels.len(), classes])?;
            members.push(logits.to_vec());
        }
        let made = Self::new(classes, labels, members).map_err(|error| match error {
            PredictionError::File(error) => error,
            PredictionError::Shape { what, .. } => malformed(path, what),
        })?;
        Ok(Self { about: tensors.metadata, ..made })
    }
}

fn member_name(member: usize) -> String {
    format!("member.{member}")
}

fn read_labels(path: &Path, tensors: &Tensors) -> Result<Vec<u16>, RunError> {
    let count = tensors.get("labels").map_or(0, |tensor| tensor.values().len());
    let too_large = |_| malformed(path, "a label above 65,535".to_owned());
    let labels = tensors.expect::<u32>("labels", &[count])?.iter();
    labels.map(|&label| label.try_into().map_err(too_large)).collect()
}

/// Error of a file whose contents are wrong.
fn malformed(path: &Path, what: String) -> RunError {
    RunError::Malformed { file: path.to_owned(), offset: 0, what }
}

/// Predicted class of every image, for single outputs and some ensembles: top-1 accuracy and
/// diversity follow from these.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// Metadata of the file: data set, corruption, checkpoint.
    pub about: BTreeMap<String, String>,
    /// Number of classes.
    pub classes: usize,
    /// Label of every image.
    pub labels: Vec<u16>,
    /// Predicted class of every image, by subset of the outputs.
    pub rows: BTreeMap<Subset, Vec<u16>>,
}

impl Classes {
    /// Share of images that a subset classifies correctly; none for a subset without a row.
    pub fn top1(&self, subset: Subset) -> Option<f64> {
        let correct = |row: &Vec<u16>| row.iter().zip(&self.labels).filter(|(a, b)| a == b).count();
        self.rows.get(&subset).map(|row| correct(row) as f64 / self.labels.len() as f64)
    }

    /// Writes the small file, atomically.
    pub fn save(&self, path: &Path) -> Result<(), PredictionError> {
        let mut tensors = Tensors::about(self.about.clone());
        tensors.metadata.insert("classes".to_owned(), self.classes.to_string());
        let tensor = |row: Vec<u16>| match self.classes <= 256 {
            true => Tensor::new(&[row.len()], row.iter().map(|&v| v as u8).collect::<Vec<_>>()),
            false => Tensor::new(&[row.len()], row.iter().map(|&v| v.into()).collect::<Vec<u32>>()),
        };
        tensors.insert("labels", tensor(self.labels.clone()));
        for (subset, row) in &self.rows {
            let from_label = |(&class, &label): (&u16, &u16)| {
                ((usize::from(class) + self.classes - usize::from(label)) % self.classes) as u16
            };
            let row = row.iter().zip(&self.labels).map(from_label).collect();
            tensors.insert(&format!("offset.{subset}"), tensor(row));
        }
        let mut packed = GzEncoder::new(vec![], Compression::best());
        let failed = |source| RunError::Io { doing: "write", path: path.to_owned(), source };
        let bytes = safetensors::to_bytes(&tensors).and_then(|bytes| {
            packed.write_all(&bytes)?;
            packed.finish()
        });
        Ok(bytes.and_then(|bytes| write_whole(path, &bytes)).map_err(failed)?)
    }

    /// Reads the small file.
    pub fn load(path: &Path) -> Result<Self, PredictionError> {
        let failed = |source| RunError::Io { doing: "read", path: path.to_owned(), source };
        Self::from_bytes(path, &fs::read(path).map_err(failed)?)
    }

    /// Reads the small file from memory; `path` is for errors.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, PredictionError> {
        let mut unpacked = vec![];
        let read = GzDecoder::new(bytes).take(CLASSES_LIMIT + 1).read_to_end(&mut unpacked);
        read.map_err(|error| malformed(path, format!("not a gzip file: {error}")))?;
        if unpacked.len() as u64 > CLASSES_LIMIT {
            return Err(malformed(path, format!("more than {CLASSES_LIMIT} bytes unpacked")).into());
        }
        let mut tensors = safetensors::from_bytes(path, &unpacked)?;
        let classes =
            tensors.metadata.remove("classes").and_then(|text| text.parse::<usize>().ok());
        let classes = classes.filter(|count| (1..=1 << 16).contains(count));
        let classes = classes
            .ok_or_else(|| malformed(path, "its metadata has no number of classes".to_owned()))?;
        let mut labels = vec![];
        let mut offsets = BTreeMap::new();
        for (name, tensor) in tensors.iter() {
            let row = small_numbers(tensor.values(), classes).ok_or_else(|| {
                malformed(path, format!("'{name}' has a value that is not below {classes}"))
            })?;
            match name.strip_prefix("offset.").map(subset_of) {
                None if name == "labels" => labels = row,
                Some(Some(subset)) => drop(offsets.insert(subset, row)),
                _ => return Err(malformed(path, format!("unknown tensor '{name}'")).into()),
            }
        }
        let mut rows = BTreeMap::new();
        for (subset, row) in offsets {
            if row.len() != labels.len() {
                let what = format!("{} classes for {subset}, {} labels", row.len(), labels.len());
                return Err(malformed(path, what).into());
            }
            let class = |(&offset, &label): (&u16, &u16)| {
                ((usize::from(offset) + usize::from(label)) % classes) as u16
            };
            rows.insert(subset, row.iter().zip(&labels).map(class).collect());
        }
        Ok(Self { about: tensors.metadata, classes, labels, rows })
    }
}

/// Values of an integer tensor; none if one is not below `below`, or the tensor is of another type.
fn small_numbers(values: &Values, below: usize) -> Option<Vec<u16>> {
    let row: Vec<usize> = match values {
        Values::U8(values) => values.iter().map(|&v| v.into()).collect(),
        Values::U32(values) => values.iter().map(|&v| v as usize).collect(),
        _ => return None,
    };
    row.into_iter().map(|v| u16::try_from(v).ok().filter(|_| v < below)).collect()
}

fn subset_of(text: &str) -> Option<Subset> {
    let members = text.split('+').map(|member| member.parse::<usize>().ok());
    members.collect::<Option<Vec<_>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;
    use crate::rng::Draws;

    fn predictions(images: usize, classes: usize) -> Predictions {
        let labels: Vec<u16> = (0..images).map(|i| (i * 7 % classes) as u16).collect();
        let member = |m: u64| {
            let draws = Draws::new(&[m]);
            let logit = |i: usize| {
                let right = i % classes == usize::from(labels[i / classes]);
                (2.0 * draws.normal(i as u64) + if right { 6.0 } else { 0.0 }) as f32
            };
            (0..images * classes).map(logit).collect()
        };
        let mut it =
            Predictions::new(classes, labels.clone(), (0..3).map(member).collect()).unwrap();
        it.about.insert("data".to_owned(), "made up".to_owned());
        it
    }

    #[test]
    fn both_files_read_back_and_give_the_same_top1() {
        for classes in [10, 300] {
            let folder = Folder::new("predictions");
            let full = predictions(200, classes);
            full.save(&folder.0.join("p.safetensors")).unwrap();
            assert_eq!(Predictions::load(&folder.0.join("p.safetensors")).unwrap(), full);
            let small = full.to_classes();
            small.save(&folder.0.join("p.gz")).unwrap();
            assert_eq!(Classes::load(&folder.0.join("p.gz")).unwrap(), small);
            for scored in crate::evaluate::evaluate_subsets(&full, &Subset::every(full.outputs())) {
                let expected =
                    small.rows.contains_key(&scored.subset).then(|| scored.scores().top1);
                assert_eq!(small.top1(scored.subset), expected, "{}", scored.subset);
            }
        }
    }

    /// Labels have 6.6 bits each and do not compress; a network with 80% correct predictions adds a
    /// third of that.
    #[test]
    fn the_small_file_of_a_cifar_100_run_is_small() {
        let folder = Folder::new("predictions-size");
        let mut one = predictions(10_000, 100);
        one.labels = (0..10_000).map(|i| (Draws::new(&[9]).bits(i) % 100) as u16).collect();
        one.members.truncate(1);
        for (image, &label) in one.labels.clone().iter().enumerate() {
            let right = !Draws::new(&[10]).bits(image as u64).is_multiple_of(5);
            one.members[0][image * 100 + usize::from(label)] += if right { 50.0 } else { -50.0 };
        }
        one.to_classes().save(&folder.0.join("p.gz")).unwrap();
        let bytes = fs::metadata(folder.0.join("p.gz")).unwrap().len();
        assert!(bytes < 15_000, "{bytes} bytes");
    }

    #[test]
    fn contradictory_and_damaged_predictions_are_refused() {
        let error = |labels: Vec<u16>, members| {
            Predictions::new(2, labels, members).unwrap_err().to_string()
        };
        assert!(error(vec![0], vec![]).contains("there is nothing to evaluate in 0 outputs"));
        assert!(error(vec![0], vec![vec![0.0; 3]]).contains("member.0 has 3 logits"));
        assert!(error(vec![2], vec![vec![0.0; 2]]).contains("label 2 is not a class"));
        assert!(error(vec![1], vec![vec![0.0, f32::NAN]]).contains("not a number"));
        let folder = Folder::new("predictions-damage");
        let path = folder.0.join("p.gz");
        predictions(50, 10).to_classes().save(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            assert!(Classes::from_bytes(&path, &whole[..length]).is_err(), "{length} bytes");
        }
    }
}
