//! The bytes of images, in memory or mapped from a file that may be larger than memory.

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};

use superweight_engine::{MappedFile, Pixels};

use super::error::DataError;

/// Environment variable with the largest size of a packed data set that is held in memory, in MiB.
const VARIABLE: &str = "SWN_IMAGES_MIB";
/// Limit if neither the variable nor the system states one.
const DEFAULT_LIMIT: u64 = 4 << 30;

/// Bytes of images, `[image][row][column][channel]`.
#[derive(Clone)]
pub enum Bytes {
    /// Bytes in memory.
    Memory(Vec<u8>),
    /// A mapped file, whose pages are read on access.
    File(Arc<MappedFile>),
}

impl Bytes {
    /// Returns the bytes for writing, copied into memory if they are in a file.
    pub fn make_mut(&mut self) -> &mut Vec<u8> {
        if let Self::File(file) = self {
            *self = Self::Memory(file.bytes().to_vec());
        }
        match self {
            Self::Memory(bytes) => bytes,
            Self::File(_) => unreachable!("the lines above copied it into memory"),
        }
    }

    /// Whether the bytes are in memory.
    pub fn in_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::File(file) => file.bytes(),
        }
    }
}

impl Pixels for Bytes {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn in_memory(&self) -> bool {
        self.in_memory()
    }

    fn prefetch(&self, range: Range<usize>) {
        if let Self::File(file) = self {
            file.prefetch(range);
        }
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Memory(vec![])
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Memory(bytes)
    }
}

impl FromIterator<u8> for Bytes {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        Self::Memory(bytes.into_iter().collect())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.in_memory() { "in memory" } else { "in a file" };
        write!(f, "{} bytes {place}", self.len())
    }
}

/// Largest size in bytes of a packed data set that is held in memory: `SWN_IMAGES_MIB`, otherwise
/// half of the memory that the machine has or that the process may use.
pub(super) fn memory_limit() -> Result<u64, DataError> {
    match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(value) => parse_mib(&value.to_string_lossy()),
        None => {
            let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
            let allowed = allowed(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
            Ok(total(&read("/proc/meminfo"))
                .into_iter()
                .chain(allowed)
                .min()
                .map_or(DEFAULT_LIMIT, |memory| memory / 2))
        }
    }
}

/// Number of bytes in a value of the environment variable.
fn parse_mib(value: &str) -> Result<u64, DataError> {
    let bytes = value.trim().parse().ok().and_then(|mib: u64| mib.checked_mul(1 << 20));
    bytes.ok_or_else(|| DataError::Variable {
        name: VARIABLE,
        value: value.to_owned(),
        expected: "a number of MiB",
    })
}

/// Smallest memory limit in bytes of the control groups of this process (Linux). Containers have
/// less memory than their machine.
fn allowed(root: &Path, groups: &str) -> Option<u64> {
    let of_group = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) =
            (fields.next()?, fields.next()?, fields.next()?.trim_start_matches('/'));
        let (base, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // Inside a container, the path may be that of the machine; then the container's group is
        // the root.
        let limits = [base.join(path), base].into_iter().filter_map(|folder| {
            fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok()
        });
        limits.min()
    };
    groups.lines().filter_map(of_group).min()
}

/// Total memory in bytes according to `/proc/meminfo` (Linux).
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;

    #[test]
    fn the_variable_and_meminfo_are_parsed() {
        assert_eq!(parse_mib(" 3 ").unwrap(), 3 << 20);
        assert_eq!(parse_mib("0").unwrap(), 0);
        for wrong in ["3G", "-1", "99999999999999999999", "18446744073709551615"] {
            let error = parse_mib(wrong).unwrap_err().to_string();
            assert_eq!(error, format!("SWN_IMAGES_MIB={wrong}: a number of MiB is expected"));
        }
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       24612345 kB\n"), Some(24_612_345 * 1024));
        assert_eq!(total("MemTotal: much"), None);
    }

    #[test]
    fn limits_of_control_groups_count() {
        let folder = Folder::new("memory-groups");
        let write = |file: &str, text: &str| {
            let file = folder.0.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let allowed = |groups: &str| allowed(&folder.0, groups);
        assert_eq!(allowed("0::/a/b\n3:cpu:/a\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(allowed("0::/a/b\n"), None);
        write("memory.max", "5000\n");
        assert_eq!(allowed("0::/a/b\n"), Some(5000));
        write("a/b/memory.max", "3000\n");
        assert_eq!(allowed("0::/a/b\n"), Some(3000));
        write("memory/c/memory.limit_in_bytes", "2000\n");
        assert_eq!(allowed("4:cpu,memory:/c\n0::/a/b\n"), Some(2000));
        assert_eq!(allowed("4:cpu,memories:/c\nnonsense\n"), None);
    }
}
