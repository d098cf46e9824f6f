//! The data sets that are known by name: files, sizes, digests, addresses, means and deviations.
//!
//! A set is recognised by the SHA-256 of its *unpacked* files in the standard layout, whatever it came in: CIFAR's
//! binary archive, its python archive (converted), `.gz` files compressed by someone else. Publishers give MD5 digests
//! of their archives; the unpacked contents of those archives have the digests below.
//!
//! Means and deviations are in 0–255: for CIFAR the usual published ones, for the others measured once over the training
//! images (MNIST: the usual 0.1307 and 0.3081).

use superweight_plan::arch::ImageShape;

use super::classes;
use crate::data::images::{Normalization, Split};
use crate::data::DataError;

/// How the files of a set are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Records of `label_bytes` (the last one counts) and the image, channel by channel.
    Cifar {
        /// 1 for CIFAR-10; 2 for CIFAR-100, coarse and fine.
        label_bytes: usize,
        /// Where the python layout has its files.
        python_folder: &'static str,
    },
    /// A file of images, then a file of labels, per part.
    Idx,
    /// Compiled into the program.
    Embedded,
}

/// A file of a data set in the standard layout.
#[derive(Clone, Copy, Debug)]
pub struct FileEntry {
    /// Without folder.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Of its contents, in hexadecimal.
    pub sha256: &'static str,
    /// What it holds.
    pub part: Split,
    /// The same images in the python layout.
    pub python: Option<&'static str>,
}

/// A data set that is known by name.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As it is typed.
    pub name: &'static str,
    /// Its folder within the data folder.
    pub folder: &'static str,
    /// How its files are written.
    pub layout: Layout,
    /// In the order they are read.
    pub files: &'static [FileEntry],
    /// What is downloaded; the last part is the file name.
    pub addresses: &'static [&'static str],
    /// Of every image.
    pub shape: ImageShape,
    /// Names of the classes.
    pub classes: &'static [&'static str],
    /// Training and test images.
    pub images: (usize, usize),
    /// Means and deviations.
    pub normalization: Normalization,
}

impl Entry {
    /// What it is, apart from its files.
    pub fn describe(&self) -> Description {
        Description {
            name: self.name.to_owned(),
            shape: self.shape,
            classes: self.classes.iter().map(|&name| name.to_owned()).collect(),
            images: self.images,
            normalization: self.normalization.clone(),
        }
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(in crate::data) fn file_names(&self) -> String {
        self.files.iter().map(|file| file.name).collect::<Vec<_>>().join(", ")
    }
}

/// What a set is, apart from its images.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// As it is typed.
    pub name: String,
    /// Of every image.
    pub shape: ImageShape,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Training and test images.
    pub images: (usize, usize),
    /// Means and deviations of the training images.
    pub normalization: Normalization,
}

/// The entry of that name.
pub fn find(name: &str) -> Result<&'static Entry, DataError> {
    let known = || CATALOGUE.map(|entry| entry.name).join(", ");
    let entry = CATALOGUE.into_iter().find(|entry| entry.name == name);
    entry.ok_or_else(|| DataError::Unknown { name: name.to_owned(), known: known() })
}

/// Whether a name, or the folder it would have, is a known set's.
pub(in crate::data) fn is_taken(name: &str) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    CATALOGUE.iter().any(|entry| is(entry.name) || is(entry.folder))
}

/// Every data set that is known by name.
pub static CATALOGUE: [&Entry; 5] =
    [&FASHION_MNIST_10K, &FASHION_MNIST, &MNIST, &CIFAR10, &CIFAR100];

const SMALL: ImageShape = ImageShape { channels: 1, height: 28, width: 28 };

static FASHION_MNIST_10K: Entry = Entry {
    name: "fashion-mnist-10k",
    folder: "",
    layout: Layout::Embedded,
    files: &[],
    addresses: &[],
    shape: SMALL,
    classes: &classes::FASHION_MNIST,
    images: (8_000, 2_000),
    normalization: Normalization::fixed(&[73.0376], &[90.1854]),
};

static FASHION_MNIST: Entry = Entry {
    name: "fashion-mnist",
    folder: "fashion-mnist",
    layout: Layout::Idx,
    files: &idx_files([
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ]),
    addresses: &[
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
    ],
    shape: SMALL,
    classes: &classes::FASHION_MNIST,
    images: (60_000, 10_000),
    normalization: Normalization::fixed(&[72.9404], &[90.0212]),
};

/// From the Common Visual Data Foundation: the original address asks for a password.
static MNIST: Entry = Entry {
    name: "mnist",
    folder: "mnist",
    layout: Layout::Idx,
    files: &idx_files([
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ]),
    addresses: &[
        "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
        "https://storage.googleapis.com/cvdf-datasets/mnist/train-labels-idx1-ubyte.gz",
        "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-images-idx3-ubyte.gz",
        "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz",
    ],
    shape: SMALL,
    classes: &classes::MNIST,
    images: (60_000, 10_000),
    normalization: Normalization::fixed(&[33.3184], &[78.5675]),
};

const fn idx_files(sha256: [&'static str; 4]) -> [FileEntry; 4] {
    const fn file(name: &'static str, bytes: u64, part: Split, sha256: &'static str) -> FileEntry {
        FileEntry { name, bytes, sha256, part, python: None }
    }
    [
        file("train-images-idx3-ubyte", 16 + 60_000 * 784, Split::Train, sha256[0]),
        file("train-labels-idx1-ubyte", 8 + 60_000, Split::Train, sha256[1]),
        file("t10k-images-idx3-ubyte", 16 + 10_000 * 784, Split::Test, sha256[2]),
        file("t10k-labels-idx1-ubyte", 8 + 10_000, Split::Test, sha256[3]),
    ]
}

const CIFAR10_BATCH: FileEntry = FileEntry {
    name: "data_batch_1.bin",
    bytes: 10_000 * 3073,
    sha256: "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    part: Split::Train,
    python: Some("data_batch_1"),
};

static CIFAR10: Entry = Entry {
    name: "cifar-10",
    folder: "cifar-10-batches-bin",
    layout: Layout::Cifar { label_bytes: 1, python_folder: "cifar-10-batches-py" },
    files: &[
        CIFAR10_BATCH,
        FileEntry {
            name: "data_batch_2.bin",
            sha256: "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            python: Some("data_batch_2"),
            ..CIFAR10_BATCH
        },
        FileEntry {
            name: "data_batch_3.bin",
            sha256: "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            python: Some("data_batch_3"),
            ..CIFAR10_BATCH
        },
        FileEntry {
            name: "data_batch_4.bin",
            sha256: "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            python: Some("data_batch_4"),
            ..CIFAR10_BATCH
        },
        FileEntry {
            name: "data_batch_5.bin",
            sha256: "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            python: Some("data_batch_5"),
            ..CIFAR10_BATCH
        },
        FileEntry {
            name: "test_batch.bin",
            sha256: "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            python: Some("test_batch"),
            part: Split::Test,
            ..CIFAR10_BATCH
        },
    ],
    addresses: &["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"],
    shape: ImageShape::CIFAR,
    classes: &classes::CIFAR10,
    images: (50_000, 10_000),
    normalization: Normalization::fixed(&[125.3, 123.0, 113.9], &[63.0, 62.1, 66.7]),
};

static CIFAR100: Entry = Entry {
    name: "cifar-100",
    folder: "cifar-100-binary",
    layout: Layout::Cifar { label_bytes: 2, python_folder: "cifar-100-python" },
    files: &[
        FileEntry {
            name: "train.bin",
            bytes: 50_000 * 3074,
            sha256: "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
            part: Split::Train,
            python: Some("train"),
        },
        FileEntry {
            name: "test.bin",
            bytes: 10_000 * 3074,
            sha256: "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
            part: Split::Test,
            python: Some("test"),
        },
    ],
    addresses: &["https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"],
    shape: ImageShape::CIFAR,
    classes: &classes::CIFAR100,
    images: (50_000, 10_000),
    normalization: Normalization::fixed(&[129.3, 124.1, 112.4], &[68.2, 65.4, 70.4]),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_consistent() {
        for entry in CATALOGUE {
            let channels = entry.shape.channels;
            assert_eq!(
                (entry.normalization.mean.len(), entry.normalization.deviation.len()),
                (channels, channels)
            );
            assert!(std::ptr::eq(find(entry.name).unwrap(), entry));
            for file in entry.files {
                assert_eq!(file.sha256.len(), 64);
                assert_eq!(entry.files.iter().filter(|other| other.name == file.name).count(), 1);
                assert_eq!(
                    entry.files.iter().filter(|other| other.sha256 == file.sha256).count(),
                    1
                );
            }
            let pixels = channels * entry.shape.height * entry.shape.width;
            let record = match entry.layout {
                Layout::Cifar { label_bytes, .. } => pixels + label_bytes,
                Layout::Idx => pixels + 1,
                Layout::Embedded => continue,
            };
            let headers = if entry.layout == Layout::Idx { 2 * (16 + 8) } else { 0 };
            assert_eq!(
                entry.bytes(),
                ((entry.images.0 + entry.images.1) * record + headers) as u64
            );
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        assert_eq!(
            find("cifar100").unwrap_err().to_string(),
            "unknown data set 'cifar100': there are fashion-mnist-10k, fashion-mnist, mnist, cifar-10, cifar-100; \
             'swn data pack' makes one of pictures"
        );
    }
}
