//! Tuned plans on disk: one line of JSON each, by GPU, driver, cuDNN version and convolution.
//!
//! The file is rewritten under a temporary name and renamed, so a crash leaves the old or the new
//! file. The cache only saves time. An unreadable line is skipped with a warning. If the file
//! cannot be written, the next process tunes again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::conv::Conv;
use super::engine::Choice;
use crate::cuda::lock::lock;
use crate::cuda::tuning::{ConvRecord, Machine, Tuning};

const FILE: &str = "convolutions.jsonl";

impl ConvRecord {
    pub(super) fn choice(&self) -> Choice {
        Choice { engine: self.engine, knobs: self.knobs.clone() }
    }

    /// Returns true if both records are for the same convolution and machine.
    fn is_of_same(&self, other: &Self) -> bool {
        self.conv == other.conv && self.machine == other.machine
    }

    /// Compares a second measurement with the recorded time.
    pub(super) fn compare(&self, microseconds: f64) -> Comparison {
        match microseconds / self.microseconds {
            ratio if ratio < MUCH_FASTER => Comparison::Disturbed,
            ratio if ratio <= AS_FAST => Comparison::Confirmed,
            _ => Comparison::Open,
        }
    }
}

/// Below this ratio to the recorded time, tuning shared the GPU with other work. Tuned beside
/// another process, backward passes were recorded at 1.6 to 2.5 times their own time, and steps of
/// WRN-28-10 took 5% longer with the chosen plans (H200).
const MUCH_FASTER: f64 = 0.8;
/// Up to this ratio the record is confirmed, although both measurements may have shared the GPU
/// with the same work.
const AS_FAST: f64 = 1.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Much faster now: the plan was chosen while other work ran, so it may be a poor one.
    Disturbed,
    /// As fast as recorded.
    Confirmed,
    /// Slower now, probably because of other work: to be measured again.
    Open,
}

/// Records of all machines that share a folder.
#[derive(Debug)]
pub(super) struct Cache {
    path: Option<PathBuf>,
    machine: Machine,
    records: Mutex<Vec<ConvRecord>>,
}

impl Cache {
    /// Reads existing records. Without a folder the cache lasts as long as the process.
    pub(super) fn open(folder: Option<&Path>, machine: Machine) -> Self {
        let path = folder.map(|folder| folder.join(FILE));
        let records = path.as_deref().map(read).unwrap_or_default();
        Self { path, machine, records: Mutex::new(records) }
    }

    pub(super) fn get(&self, conv: &Conv) -> Option<ConvRecord> {
        let name = conv.to_string();
        lock(&self.records).iter().find(|r| r.conv == name && r.machine == self.machine).cloned()
    }

    /// Records of this machine.
    pub(super) fn records(&self) -> Vec<ConvRecord> {
        lock(&self.records).iter().filter(|r| r.machine == self.machine).cloned().collect()
    }

    /// Stores a newly tuned plan.
    pub(super) fn put(
        &self,
        conv: &Conv,
        choice: &Choice,
        workspace: usize,
        microseconds: f64,
        tuning: Tuning,
    ) {
        self.keep(ConvRecord {
            machine: self.machine.clone(),
            conv: conv.to_string(),
            engine: choice.engine,
            knobs: choice.knobs.clone(),
            workspace,
            microseconds,
            tuning,
            confirmed: false,
        });
    }

    /// Stores that a record was confirmed.
    pub(super) fn confirm(&self, record: &ConvRecord) {
        self.keep(ConvRecord { confirmed: true, ..record.clone() });
    }

    /// Merges a record into the current file. Records that other processes wrote meanwhile replace
    /// older ones in memory.
    fn keep(&self, record: ConvRecord) {
        let mut records = lock(&self.records);
        if let Some(path) = &self.path {
            let mut all = read(path);
            records.retain(|own| all.iter().all(|other| !own.is_of_same(other)));
            all.append(&mut records);
            *records = all;
        }
        replace(&mut records, record);
        self.save(&records);
    }

    /// Deletes the records of this machine.
    pub(super) fn forget(&self) {
        let mut records = lock(&self.records);
        records.retain(|record| record.machine != self.machine);
        self.save(&records);
    }

    fn save(&self, records: &[ConvRecord]) {
        let Some(path) = &self.path else { return };
        if let Err(error) = write(path, records) {
            eprintln!("warning: tuned plans are not saved: {}: {error}", path.display());
        }
    }
}

fn replace(records: &mut Vec<ConvRecord>, new: ConvRecord) {
    records.retain(|old| !old.is_of_same(&new));
    records.push(new);
}

fn read(path: &Path) -> Vec<ConvRecord> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return vec![],
        Err(error) => {
            eprintln!("warning: tuned plans cannot be read: {}: {error}", path.display());
            return vec![];
        }
    };
    let (records, damaged) = parse(&bytes);
    if damaged > 0 {
        eprintln!("warning: {}: {damaged} damaged lines are ignored", path.display());
    }
    records
}

/// Parses records. Returns the last record of each convolution, and the number of invalid lines.
pub fn parse(bytes: &[u8]) -> (Vec<ConvRecord>, usize) {
    let text = String::from_utf8_lossy(bytes);
    let (mut records, mut damaged) = (vec![], 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(record) => replace(&mut records, record),
            Err(_) => damaged += 1,
        }
    }
    (records, damaged)
}

fn write(path: &Path, records: &[ConvRecord]) -> io::Result<()> {
    let lines: String = records
        .iter()
        .map(|record| serde_json::to_string(record).map(|line| line + "\n"))
        .collect::<Result<_, _>>()?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, lines)?;
    fs::rename(&temporary, path).inspect_err(|_| _ = fs::remove_file(&temporary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::cudnn::Direction;
    use crate::cuda::precision::Precision;
    use crate::device::buffer::Write;
    use crate::geometry::ConvGeometry;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("superweight-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn machine(driver: i32) -> Machine {
        Machine { gpu: "NVIDIA H200".into(), driver, cudnn: 91_400 }
    }

    fn conv(batch: usize) -> Conv {
        let geometry = ConvGeometry {
            batch,
            input: [32, 32],
            in_channels: 160,
            out_channels: 160,
            kernel: [3, 3],
            stride: [1, 1],
            padding: [1, 1],
            groups: 1,
        };
        Conv {
            geometry,
            direction: Direction::Forward,
            write: Write::Set,
            precision: Precision::Bf16,
            epilogue: None,
        }
    }

    fn choice(engine: i64) -> Choice {
        Choice { engine, knobs: vec![(2, 0), (13, 1)] }
    }

    #[test]
    fn tuned_plans_are_found_on_the_same_machine_only() {
        let folder = folder("cache-machines");
        let cache = Cache::open(Some(&folder), machine(13_000));
        cache.put(&conv(128), &choice(62), 131, 116.5, Tuning::Quick);
        // Another process that opened the file earlier adds to it rather than replacing it, and
        // reads what this one stored.
        let other = Cache::open(None, machine(13_000));
        let other = Cache { path: cache.path.clone(), ..other };
        other.put(&conv(64), &choice(45), 0, 60.25, Tuning::Full);
        cache.put(&conv(128), &choice(62), 131, 115.5, Tuning::Quick);
        other.put(&conv(16), &choice(45), 0, 20.0, Tuning::Full);
        assert_eq!(
            Cache::open(Some(&folder), machine(13_000)).get(&conv(128)).unwrap().microseconds,
            115.5
        );
        let again = Cache::open(Some(&folder), machine(13_000));
        let found = again.get(&conv(128)).unwrap();
        assert_eq!(
            (found.choice(), found.workspace, found.tuning),
            (choice(62), 131, Tuning::Quick)
        );
        assert_eq!(again.get(&conv(64)).unwrap().microseconds, 60.25);
        assert_eq!(again.get(&conv(32)), None);
        assert_eq!(Cache::open(Some(&folder), machine(13_010)).get(&conv(128)), None);
        again.put(&conv(128), &choice(22), 0, 110.0, Tuning::Full);
        assert_eq!(Cache::open(Some(&folder), machine(13_000)).records().len(), 3);
        again.forget();
        assert!(Cache::open(Some(&folder), machine(13_000)).records().is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    /// A line without the field is unconfirmed. A confirmed record is confirmed for every process.
    #[test]
    fn a_second_measurement_confirms_or_rejects_a_record() {
        let folder = folder("cache-comparisons");
        let cache = Cache::open(Some(&folder), machine(13_000));
        cache.put(&conv(128), &choice(62), 131, 200.0, Tuning::Quick);
        let path = folder.join(FILE);
        let line = fs::read_to_string(&path).unwrap();
        assert!(line.contains(",\"confirmed\":false"), "{line}");
        fs::write(&path, line.replace(",\"confirmed\":false", "")).unwrap();
        let again = Cache::open(Some(&folder), machine(13_000));
        let record = again.get(&conv(128)).unwrap();
        assert!(!record.confirmed);
        let comparisons =
            [95.0, 155.0, 165.0, 200.0, 215.0, 225.0, 1e6].map(|now| record.compare(now));
        use Comparison::*;
        assert_eq!(
            comparisons,
            [Disturbed, Disturbed, Confirmed, Confirmed, Confirmed, Open, Open]
        );
        again.confirm(&record);
        let last = Cache::open(Some(&folder), machine(13_000)).records();
        assert_eq!(last, [ConvRecord { confirmed: true, ..record }]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_damaged_lines_are_lost() {
        let folder = folder("cache-damage");
        let cache = Cache::open(Some(&folder), machine(13_000));
        cache.put(&conv(128), &choice(62), 131, 116.5, Tuning::Quick);
        let path = folder.join(FILE);
        let good = fs::read_to_string(&path).unwrap();
        let torn = [
            b"\xff\xfe\x00 not JSON\n{\"gpu\":1}\n".as_slice(),
            good.as_bytes(),
            &good.as_bytes()[..40],
        ];
        fs::write(&path, torn.concat()).unwrap();
        assert_eq!(Cache::open(Some(&folder), machine(13_000)).records().len(), 1);
        // A folder in place of the file can be neither read nor replaced, and still nothing fails.
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("full")).unwrap();
        let blocked = Cache::open(Some(&folder), machine(13_000));
        blocked.put(&conv(1), &choice(1), 0, 1.0, Tuning::Quick);
        assert_eq!(blocked.records().len(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
