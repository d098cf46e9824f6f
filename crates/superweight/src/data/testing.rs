//! Fixtures for tests: tiny data sets, archives, pickles, a server and a small disk.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use superweight_plan::arch::ImageShape;

use super::Dataset;
use super::images::{Images, Normalization, Split};
use super::sources::catalog::{Entry, FileEntry, Layout};
use super::sources::verify::hex_sha256;

/// A folder for one test, removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("superweight-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A PNG file with these pixels.
pub fn png_of(width: u32, height: u32, color: png::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

/// Writes a PNG picture of 2×2 pixels and creates its folder.
pub fn write_picture(path: &Path, pixels: [u8; 12]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, png_of(2, 2, png::ColorType::Rgb, &pixels)).unwrap();
}

/// A small file system in memory, unmounted when dropped.
pub struct Tmpfs(pub PathBuf);

impl Tmpfs {
    /// Mounts the file system; `None` without the permission.
    pub fn mount(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
        done.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }

    pub fn make_read_only(&self) {
        assert!(
            Command::new("mount")
                .args(["-o", "remount,ro"])
                .arg(&self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A data set with the contents of its files.
pub struct Fixture {
    pub entry: Entry,
    pub files: Vec<(&'static str, Vec<u8>)>,
}

const SHAPE: ImageShape = ImageShape { channels: 3, height: 4, width: 4 };

impl Fixture {
    pub fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        for (name, bytes) in &self.files {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }

    pub fn label(&self, image: usize) -> u16 {
        (image * 3 % 5) as u16
    }

    /// The files in the Python layout.
    pub fn python(&self) -> Vec<(&'static str, Vec<u8>)> {
        let pickle = |(name, bytes): &(&'static str, Vec<u8>)| {
            let records: Vec<_> = bytes.chunks_exact(50).collect();
            let [coarse, fine] =
                [0, 1].map(|at| records.iter().map(|r| r[at].into()).collect::<Vec<i32>>());
            let pixels: Vec<u8> = records.iter().flat_map(|r| &r[2..]).copied().collect();
            let labels: [(&str, &[i32]); 2] = [("fine_labels", &fine), ("coarse_labels", &coarse)];
            (name.trim_end_matches(".bin"), pickled(&labels, records.len(), 48, &pixels, 7))
        };
        self.files
            .iter()
            .map(pickle)
            .map(|(name, bytes)| (&*String::from(name).leak(), bytes))
            .collect()
    }
}

fn fixture(layout: Layout, files: [(&'static str, Split, Vec<u8>); 4], entry: Entry) -> Fixture {
    let files: Vec<_> = files.into_iter().filter(|(_, _, bytes)| !bytes.is_empty()).collect();
    let entry_of = |(name, split, bytes): &(&'static str, Split, Vec<u8>)| FileEntry {
        name,
        bytes: bytes.len() as u64,
        sha256: hex_sha256(&[bytes]).leak(),
        split: *split,
        python: name.strip_suffix(".bin"),
    };
    let entries = files.iter().map(entry_of).collect::<Vec<_>>().leak();
    Fixture {
        entry: Entry { layout, files: entries, ..entry },
        files: files.into_iter().map(|(name, _, bytes)| (name, bytes)).collect(),
    }
}

const TINY: Entry = Entry {
    name: "tiny-cifar",
    folder: "tiny-cifar-binary",
    layout: Layout::Embedded,
    files: &[],
    addresses: &["https://example.org/tiny.tar.gz"],
    shape: SHAPE,
    classes: &["a", "b", "c", "d", "e"],
    images: (20, 10),
    normalization: Normalization::fixed(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]),
};

/// A CIFAR layout with 20 training and 10 test images of 3×4×4.
pub fn cifar_entry() -> Fixture {
    let records = |images: usize| -> Vec<u8> {
        let record = |i: usize| {
            [vec![9, (i * 3 % 5) as u8], (0..48).map(|p| (i * 48 + p) as u8).collect()].concat()
        };
        (0..images).flat_map(record).collect()
    };
    let layout = Layout::Cifar { label_bytes: 2, python_folder: "tiny-cifar-python" };
    let none = ("", Split::Test, vec![]);
    let files = [
        ("train.bin", Split::Train, records(20)),
        ("test.bin", Split::Test, records(10)),
        none.clone(),
        none,
    ];
    fixture(layout, files, TINY)
}

/// An IDX layout with 20 training and 10 test images of 1×4×4.
pub fn idx_entry() -> Fixture {
    let images = |n: u8| {
        [vec![0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 4, 0, 0, 0, 4], vec![n; 16 * n as usize]].concat()
    };
    let labels =
        |n: u8| [vec![0, 0, 8, 1, 0, 0, 0, n], (0..n).map(|i| i * 3 % 5).collect()].concat();
    let files = [
        ("train-images-idx3-ubyte", Split::Train, images(20)),
        ("train-labels-idx1-ubyte", Split::Train, labels(20)),
        ("t10k-images-idx3-ubyte", Split::Test, images(10)),
        ("t10k-labels-idx1-ubyte", Split::Test, labels(10)),
    ];
    let shape = ImageShape { channels: 1, ..SHAPE };
    let normalization = Normalization::fixed(&[1.0], &[2.0]);
    fixture(
        Layout::Idx,
        files,
        Entry { name: "tiny-idx", folder: "tiny-idx", shape, normalization, ..TINY },
    )
}

/// A data set in memory whose images all differ.
pub fn dataset(train: usize, test: usize) -> Dataset {
    let images = |n: usize, salt: usize| Images {
        pixels: (0..n * 48).map(|p| ((p * 31 + p / 48 * 7 + salt) % 251) as u8).collect(),
        labels: (0..n).map(|i| (i % 5) as u16).collect(),
    };
    Dataset {
        name: "tiny".to_owned(),
        shape: SHAPE,
        classes: TINY.classes.iter().map(|&class| class.to_owned()).collect(),
        train: images(train, 0),
        test: images(test, 100),
        normalization: TINY.normalization,
    }
}

/// A tar archive in the format of `tar --format=ustar`.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = vec![];
    for (name, bytes) in files {
        let mut header = vec![0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// Gzip-compressed bytes.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A pickle of `{'filenames': [...], 'batch_label': ..., NAME: [labels], 'data': array}` as Python
/// 2's cPickle writes it in protocol 2, with `chunk` list items at a time (cPickle takes 1000).
pub fn pickled(
    labels: &[(&str, &[i32])],
    rows: usize,
    columns: usize,
    pixels: &[u8],
    chunk: usize,
) -> Vec<u8> {
    let mut out = b"\x80\x02}q\x01(".to_vec();
    let short = |out: &mut Vec<u8>, text: &[u8]| {
        out.extend([b'U', text.len() as u8]);
        out.extend_from_slice(text);
    };
    let int = |n: i32| match n {
        0..=255 => vec![b'K', n as u8],
        256..=65535 => [vec![b'M'], (n as u16).to_le_bytes().to_vec()].concat(),
        _ => [vec![b'J'], n.to_le_bytes().to_vec()].concat(),
    };
    short(&mut out, b"filenames");
    out.extend(b"q\x02]q\x03(");
    for row in 0..rows {
        short(&mut out, format!("image_s_{row:06}.png").as_bytes());
        out.extend([b'r', row as u8, 1, 0, 0]);
    }
    out.push(b'e');
    for (name, labels) in labels {
        short(&mut out, name.as_bytes());
        out.extend(b"q\x04]q\x05");
        for labels in labels.chunks(chunk) {
            match labels {
                [one] => out.extend([int(*one), vec![b'a']].concat()),
                _ => {
                    out.push(b'(');
                    labels.iter().for_each(|&label| out.extend(int(label)));
                    out.push(b'e');
                }
            }
        }
    }
    short(&mut out, b"data");
    out.extend(b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09(K\x01");
    out.extend([int(rows as i32), int(columns as i32)].concat());
    out.extend(b"\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
    out.extend((pixels.len() as u32).to_le_bytes());
    out.extend_from_slice(pixels);
    out.extend(b"tb");
    short(&mut out, b"batch_label");
    short(&mut out, b"training batch 1 of 5");
    out.extend(b"q\x0cu.");
    out
}

/// Address of a server that answers one request and ends.
pub fn serve_once(status: &'static str, body: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
    });
    format!("http://{address}/file")
}

/// A data set of three classes with 5 training and 3 test images of 3×2×4.
pub fn birds() -> Dataset {
    let images = |count: usize, from: usize| Images {
        pixels: (0..count * 24).map(|p| (from + p * 7) as u8).collect(),
        labels: (0..count).map(|i| (i % 3) as u16).collect(),
    };
    Dataset {
        name: "birds".into(),
        shape: ImageShape { channels: 3, height: 2, width: 4 },
        classes: ["crow", "heron", "owl"].map(String::from).into(),
        train: images(5, 0),
        test: images(3, 100),
        normalization: Normalization {
            mean: vec![0.1, 2.5, 1e-3].into(),
            std: vec![1.0, 2.0, 0.3].into(),
        },
    }
}
