//! The known data sets: files, sizes, digests, addresses and normalization.
//!
//! A data set is verified by the SHA-256 of its *uncompressed* files in the standard layout. So it
//! may come from CIFAR's binary archive, its Python archive (converted), or `.gz` files of any
//! program. Publishers give MD5 digests of their archives; the contents of those archives have the
//! digests below.
//!
//! Means and standard deviations are in 0–255. Those of CIFAR are the usual published ones; the
//! others were measured once over the training images (MNIST: the usual 0.1307 and 0.3081).

use superweight_plan::arch::ImageShape;

use super::classes;
use crate::data::DataError;
use crate::data::images::{Normalization, Split};

/// Format of the files of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Records of label bytes, of which the last is the class, and the image, channel by channel.
    Cifar {
        /// Number of label bytes: 1 for CIFAR-10; 2 for CIFAR-100, coarse and fine.
        label_bytes: usize,
        /// Folder of the files in the Python layout.
        python_folder: &'static str,
    },
    /// A file of images, then a file of labels, per split.
    Idx,
    /// No files; the images are in the program.
    Embedded,
}

/// A file of a data set in the standard layout.
#[derive(Clone, Copy, Debug)]
pub struct FileEntry {
    /// Name without folder.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of its contents, in hexadecimal.
    pub sha256: &'static str,
    /// Split that its images belong to.
    pub split: Split,
    /// Name of the file with the same images in the Python layout.
    pub python: Option<&'static str>,
}

/// A known data set.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name on the command line and in recipes.
    pub name: &'static str,
    /// Name of its folder in the data folder.
    pub folder: &'static str,
    /// Format of its files.
    pub layout: Layout,
    /// Files in the order in which they are read.
    pub files: &'static [FileEntry],
    /// Addresses of downloads; the last component is the file name.
    pub addresses: &'static [&'static str],
    /// Shape of every image.
    pub shape: ImageShape,
    /// Names of the classes.
    pub classes: &'static [&'static str],
    /// Number of training and of test images.
    pub images: (usize, usize),
    /// Normalization of the pixels.
    pub normalization: Normalization,
}

impl Entry {
    /// Everything about the data set but its files.
    pub fn describe(&self) -> Description {
        Description {
            name: self.name.to_owned(),
            shape: self.shape,
            classes: self.classes.iter().map(|&name| name.to_owned()).collect(),
            images: self.images,
            normalization: self.normalization.clone(),
        }
    }

    /// Size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Names of all files, for error messages.
    pub(in crate::data) fn file_names(&self) -> String {
        self.files.iter().map(|file| file.name).collect::<Vec<_>>().join(", ")
    }
}

/// Everything about a data set but its images.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name on the command line and in recipes.
    pub name: String,
    /// Shape of every image.
    pub shape: ImageShape,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Number of training and of test images.
    pub images: (usize, usize),
    /// Normalization of the pixels.
    pub normalization: Normalization,
}

/// Finds a known data set by name.
pub fn find(name: &str) -> Result<&'static Entry, DataError> {
    let known = || CATALOG.map(|entry| entry.name).join(", ");
    let entry = CATALOG.into_iter().find(|entry| entry.name == name);
    entry.ok_or_else(|| DataError::Unknown { name: name.to_owned(), known: known() })
}

/// Whether a known data set has this name, or uses it for its folder.
pub(in crate::data) fn is_taken(name: &str) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    CATALOG.iter().any(|entry| is(entry.name) || is(entry.folder))
}

/// All known data sets.
pub static CATALOG: [&Entry; 5] = [&FASHION_MNIST_10K, &FASHION_MNIST, &MNIST, &CIFAR10, &CIFAR100];

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

/// MNIST from the Common Visual Data Foundation; the original address needs a password.
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
    const fn file(name: &'static str, bytes: u64, split: Split, sha256: &'static str) -> FileEntry {
        FileEntry { name, bytes, sha256, split, python: None }
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
    split: Split::Train,
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
            split: Split::Test,
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
            split: Split::Train,
            python: Some("train"),
        },
        FileEntry {
            name: "test.bin",
            bytes: 10_000 * 3074,
            sha256: "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
            split: Split::Test,
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
        for entry in CATALOG {
            let channels = entry.shape.channels;
            assert_eq!(
                (entry.normalization.mean.len(), entry.normalization.std.len()),
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
    fn an_unknown_name_is_an_error_with_all_names() {
        assert_eq!(
            find("cifar100").unwrap_err().to_string(),
            "unknown data set 'cifar100': there are fashion-mnist-10k, fashion-mnist, mnist, cifar-10, cifar-100; \
             'swn data pack' makes one of pictures"
        );
    }
}
