//! Writes and reads one checkpoint: a folder of files and a list of their digests.
//!
//! ```text
//! plan.json  bank.safetensors  members.safetensors  optimizer.safetensors  [swa.safetensors]
//! state.json  SHA256SUMS
//! ```
//!
//! `SHA256SUMS` has the format of `sha256sum --check`, so both this program and that tool notice
//! bits that changed on the disk. A digest inside `state.json` could not cover that file itself.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::disk::Disk;
use super::error::RunError;
use super::safetensors;
use super::tensors::Tensors;

const SUMS: &str = "SHA256SUMS";
const PLAN: &str = "plan.json";
const STATE: &str = "state.json";
const BANK: &str = "bank.safetensors";
const MEMBERS: &str = "members.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const SWA: &str = "swa.safetensors";

/// Everything that training needs to continue bit for bit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// The sharing plan as JSON (`plan.json`).
    pub plan: String,
    /// Templates and coefficients; each shared parameter is stored once.
    pub bank: Tensors,
    /// Parameters and statistics that belong to one member: batch norm, classifiers.
    pub members: Tensors,
    /// State of the optimizer: momentum.
    pub optimizer: Tensors,
    /// Stochastic weight average so far: mean parameters over epochs. Empty, and without a file,
    /// while there is none.
    pub average: Tensors,
    /// Position of training: phase, epoch, counters.
    pub state: State,
}

/// Which files of a checkpoint a reader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// All of them, to continue training.
    Complete,
    /// Plan, parameters and state, to use the networks: without optimizer and weight average.
    Parameters,
}

/// The contents of `state.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Length of the log in bytes when the checkpoint was written.
    pub log_bytes: u64,
    /// Position of training, in a form that the training module defines.
    pub training: serde_json::Value,
}

/// Version of the files; the program refuses any other.
const VERSION: u32 = 1;

/// `state.json` as it is written.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    #[serde(flatten)]
    state: &'a State,
}

/// The version alone, which is read before the rest.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Checkpoint {
    /// Writes the files into an empty folder and flushes each; the list of digests comes last.
    pub(super) fn write(&self, disk: &Disk, folder: &Path) -> Result<(), RunError> {
        let mut sums = String::new();
        let mut put = |name: &str, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let path = folder.join(name);
            let written = disk.create_file(&path).and_then(|file| {
                let mut file = Hashed { inner: file, sha256: Sha256::new() };
                write(&mut file)?;
                sums += &format!("{}  {name}\n", hex(file.sha256));
                file.inner.sync()
            });
            written.map_err(RunError::io("write", &path))
        };
        put(PLAN, &|to| to.write_all(self.plan.as_bytes()))?;
        for (name, tensors) in
            [(BANK, &self.bank), (MEMBERS, &self.members), (OPTIMIZER, &self.optimizer)]
        {
            put(name, &|mut to| safetensors::write(&mut to, tensors))?;
        }
        if !self.average.is_empty() {
            put(SWA, &|mut to| safetensors::write(&mut to, &self.average))?;
        }
        let mut state =
            serde_json::to_string_pretty(&Written { version: VERSION, state: &self.state })
                .map_err(io::Error::from)
                .map_err(RunError::io("write", &folder.join(STATE)))?;
        state.push('\n');
        put(STATE, &|to| to.write_all(state.as_bytes()))?;
        let path = folder.join(SUMS);
        disk.write_file(&path, sums.as_bytes()).map_err(RunError::io("write", &path))
    }

    /// Reads a folder and compares every file that it reads with its digest. Returns the checkpoint
    /// and the SHA-256 of `SHA256SUMS`.
    pub(super) fn read(folder: &Path, contents: Contents) -> Result<(Self, String), RunError> {
        let path = folder.join(SUMS);
        let sums = fs::read_to_string(&path).map_err(RunError::io("read", &path))?;
        let all = hex(Sha256::new().chain_update(&sums));
        let sums = Sums { list: &sums, path: &path };
        let text = |name: &str| {
            let path = folder.join(name);
            let (mut file, _) = sums.open(&path)?;
            let mut text = Vec::new();
            file.read_to_end(&mut text).map_err(RunError::io("read", &path))?;
            sums.check(name, &path, file)?;
            let not_text = |error: std::string::FromUtf8Error| RunError::Malformed {
                offset: error.utf8_error().valid_up_to() as u64,
                what: "not UTF-8".to_owned(),
                file: path,
            };
            String::from_utf8(text).map_err(not_text)
        };
        let tensors = |name: &str| {
            let path = folder.join(name);
            let (mut file, length) = sums.open(&path)?;
            let tensors = safetensors::read(&path, &mut file, length)?;
            sums.check(name, &path, file).map(|()| tensors)
        };
        let (plan, state) = (text(PLAN)?, text(STATE)?);
        let malformed = |what| RunError::Malformed { file: folder.join(STATE), offset: 0, what };
        let Version { version } =
            serde_json::from_str(&state).map_err(|error| malformed(error.to_string()))?;
        if version != VERSION {
            return Err(RunError::Version {
                file: folder.join(STATE),
                found: version,
                supported: VERSION,
            });
        }
        let state = serde_json::from_str(&state).map_err(|error| malformed(error.to_string()))?;
        let (bank, members) = (tensors(BANK)?, tensors(MEMBERS)?);
        let mut checkpoint = Self { plan, bank, members, state, ..Self::default() };
        if contents == Contents::Complete {
            if !folder.join(OPTIMIZER).exists() {
                return Err(RunError::NoOptimizer { file: folder.join(OPTIMIZER) });
            }
            checkpoint.optimizer = tensors(OPTIMIZER)?;
            if sums.lists(SWA) || folder.join(SWA).exists() {
                checkpoint.average = tensors(SWA)?;
            }
        }
        Ok((checkpoint, all))
    }
}

/// The lines of `SHA256SUMS`.
struct Sums<'a> {
    list: &'a str,
    path: &'a Path,
}

impl Sums<'_> {
    fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.list.lines().filter_map(|line| line.split_once("  "))
    }

    fn lists(&self, name: &str) -> bool {
        self.lines().any(|(_, listed)| listed == name)
    }

    fn open(&self, path: &Path) -> Result<(Hashed<fs::File>, u64), RunError> {
        let (inner, length) = safetensors::open(path)?;
        Ok((Hashed { inner, sha256: Sha256::new() }, length))
    }

    /// Compares the digest of a file that was read to its end with the listed one.
    fn check(&self, name: &str, path: &Path, file: Hashed<fs::File>) -> Result<(), RunError> {
        let (expected, _) = self.lines().find(|(_, listed)| *listed == name).ok_or_else(|| {
            RunError::Malformed {
                file: self.path.to_owned(),
                offset: 0,
                what: format!("there is no line for {name}"),
            }
        })?;
        let found = hex(file.sha256);
        match found == expected {
            true => Ok(()),
            false => Err(RunError::Digest {
                file: path.to_owned(),
                expected: expected.to_owned(),
                found,
            }),
        }
    }
}

/// A reader or writer that also computes the SHA-256 of all bytes.
struct Hashed<T> {
    inner: T,
    sha256: Sha256,
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Hashed<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.sha256.update(&bytes[..read]);
        Ok(read)
    }
}

fn hex(sha256: Sha256) -> String {
    sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;

    #[test]
    fn files_of_another_version_are_refused() {
        let folder = Folder::new("checkpoint");
        let path = |name| folder.0.join(name);
        Checkpoint::default().write(&Disk::default(), &folder.0).unwrap();
        assert_eq!(
            Checkpoint::read(&folder.0, Contents::Complete).unwrap().0,
            Checkpoint::default()
        );
        let old = fs::read_to_string(path(STATE)).unwrap();
        assert!(old.starts_with("{\n  \"version\": 1,\n  \"log_bytes\": 0,"), "{old}");
        let new = old.replace("\"version\": 1", "\"version\": 2");
        let digest = |text: &str| hex(Sha256::new().chain_update(text));
        let sums = fs::read_to_string(path(SUMS)).unwrap().replace(&digest(&old), &digest(&new));
        fs::write(path(STATE), &new).unwrap();
        fs::write(path(SUMS), &sums).unwrap();
        let error = Checkpoint::read(&folder.0, Contents::Complete).unwrap_err().to_string();
        assert!(
            error.contains("state.json has version 2, this program reads version 1"),
            "{error}"
        );
        // Parameters can be read without the optimizer; training cannot continue without it.
        let optimizer = fs::read(path(OPTIMIZER)).unwrap();
        fs::remove_file(path(OPTIMIZER)).unwrap();
        fs::write(path(STATE), &old).unwrap();
        fs::write(path(SUMS), sums.replace(&digest(&new), &digest(&old))).unwrap();
        assert!(Checkpoint::read(&folder.0, Contents::Parameters).is_ok());
        let error = Checkpoint::read(&folder.0, Contents::Complete).unwrap_err();
        assert!(matches!(error, RunError::NoOptimizer { .. }), "{error}");
        fs::write(path(OPTIMIZER), optimizer).unwrap();
        // The list lacks a file.
        let without: String = sums.lines().filter(|line| !line.ends_with(PLAN)).collect();
        fs::write(path(SUMS), without).unwrap();
        let error = Checkpoint::read(&folder.0, Contents::Complete).unwrap_err().to_string();
        assert!(error.ends_with("there is no line for plan.json"), "{error}");
    }
}
