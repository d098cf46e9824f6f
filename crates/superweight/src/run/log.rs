//! `log.jsonl`: one line per event, written once, in one piece, for `jq` and for the report.
//!
//! A line is handed to the system whole, so that a crash leaves at most half a last line. A checkpoint notes how long the
//! log was; resuming cuts it there, so that no epoch stands in it twice. Not a line saying "resumed, forget the above":
//! every reader would have to know.
//!
//! ```text
//! {"time":1767225600.25,"event":"epoch","phase":"train","epoch":3,"loss":1.25,"top1":71.5}
//! ```

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::RunError;
use super::event::Event;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seconds since 1970, UTC.
    pub time: f64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What [`Log::truncate_to`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Bytes after the checkpoint that are gone.
    pub removed: u64,
    /// Bytes that the checkpoint had seen and that are not there: someone else shortened the log.
    pub missing: u64,
}

/// The log of a run, open for more.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens or makes a log; half a last line, left by a crash, is cut.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let mut log =
            Self { file: file.map_err(RunError::io("open", path))?, path: path.to_owned() };
        let length = log.length()?;
        log.cut_to_line(length)?;
        Ok(log)
    }

    /// Adds a line, with the time.
    pub fn add(&mut self, event: Event) -> Result<(), RunError> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = Line { time: (time.as_secs_f64() * 1e3).round() / 1e3, event };
        let mut text = serde_json::to_string(&line)
            .map_err(std::io::Error::from)
            .map_err(RunError::io("write", &self.path))?;
        text.push('\n');
        let before = self.length()?;
        self.file.write_all(text.as_bytes()).map_err(|error| {
            // Half a line on a full disk: the next one must not be glued to it.
            let _ = self.file.set_len(before);
            RunError::io("write", &self.path)(error)
        })
    }

    /// How long it is, once on the disk: for the state of a checkpoint.
    pub fn position(&mut self) -> Result<u64, RunError> {
        self.file.sync_all().map_err(RunError::io("sync", &self.path))?;
        self.length()
    }

    /// Cuts what came after a checkpoint that had seen `bytes`; where that is inside a line, the line too.
    pub fn truncate_to(&mut self, bytes: u64) -> Result<Cut, RunError> {
        let length = self.length()?;
        let kept = self.cut_to_line(bytes.min(length))?;
        self.file.sync_all().map_err(RunError::io("sync", &self.path))?;
        Ok(Cut { removed: length - kept, missing: bytes - kept })
    }

    fn length(&self) -> Result<u64, RunError> {
        self.file.metadata().map(|file| file.len()).map_err(RunError::io("read", &self.path))
    }

    /// Cuts to the last end of a line at or before `end`.
    fn cut_to_line(&mut self, mut end: u64) -> Result<u64, RunError> {
        let mut block = [0; 4096];
        while end > 0 {
            let begin = end.saturating_sub(block.len() as u64);
            let bytes = &mut block[..(end - begin) as usize];
            let read =
                self.file.seek(SeekFrom::Start(begin)).and_then(|_| self.file.read_exact(bytes));
            read.map_err(RunError::io("read", &self.path))?;
            if let Some(newline) = bytes.iter().rposition(|&byte| byte == b'\n') {
                end = begin + newline as u64 + 1;
                break;
            }
            end = begin;
        }
        if end != self.length()? {
            self.file.set_len(end).map_err(RunError::io("cut", &self.path))?;
        }
        Ok(end)
    }
}

/// The lines of a log; half a last line is left out.
pub fn read_log(path: &Path) -> Result<Vec<Line>, RunError> {
    parse_log(path, &std::fs::read(path).map_err(RunError::io("read", path))?)
}

/// The same of a log that is in memory; `path` is for errors.
pub fn parse_log(path: &Path, text: &[u8]) -> Result<Vec<Line>, RunError> {
    let mut offset = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n').take_while(|line| line.ends_with(b"\n"))
    {
        lines.push(serde_json::from_slice(line).map_err(|error| RunError::Malformed {
            file: path.to_owned(),
            offset,
            what: format!("line {}: {error}", lines.len() + 1),
        })?);
        offset += line.len() as u64;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;

    fn epoch(epoch: u64) -> Event {
        let metrics = Facts::from([("loss", 1.25 / (epoch + 1) as f64)]).metrics;
        Event::Epoch { phase: "train".to_owned(), epoch, metrics }
    }

    #[test]
    fn a_line_is_flat_json_and_comes_back() {
        let folder = Folder::new("log");
        let path = folder.0.join("log.jsonl");
        let mut log = Log::open(&path).unwrap();
        let events = [
            Event::Start(Facts::from([("seed", 7)])),
            epoch(0),
            Event::Search(Facts::default()),
            Event::Refine(Facts::from([("groups", serde_json::json!([3, 4]))])),
            Event::Eval(Facts::from([("top1", 0.1 + 0.2)])),
            Event::Stop { reason: "finished".to_owned(), metrics: Metrics::new() },
        ];
        events.iter().for_each(|event| log.add(event.clone()).unwrap());
        let lines = read_log(&path).unwrap();
        assert!(lines.iter().map(|line| &line.event).eq(&events));
        assert!(lines.windows(2).all(|pair| pair[0].time <= pair[1].time) && lines[0].time > 1.7e9);
        let text = std::fs::read_to_string(&path).unwrap();
        let second = text.lines().nth(1).unwrap();
        assert!(
            second.ends_with(r#","event":"epoch","phase":"train","epoch":0,"loss":1.25}"#),
            "{second}"
        );
        let diverged = Event::Eval(Facts::from([("loss", f64::NAN)]));
        assert_eq!(serde_json::to_string(&diverged).unwrap(), r#"{"event":"eval","loss":null}"#);
    }

    #[test]
    fn resuming_cuts_to_the_checkpoint() {
        let folder = Folder::new("log");
        let path = folder.0.join("log.jsonl");
        let mut log = Log::open(&path).unwrap();
        (0..3).for_each(|number| log.add(epoch(number)).unwrap());
        let seen = log.position().unwrap();
        (3..5).for_each(|number| log.add(epoch(number)).unwrap());
        let whole = std::fs::read(&path).unwrap();
        drop(log);
        for torn in [0, 1, 20] {
            std::fs::write(&path, &whole[..whole.len() - torn]).unwrap();
            let mut log = Log::open(&path).unwrap();
            let lines = if torn == 0 { 5 } else { 4 };
            assert_eq!(read_log(&path).unwrap().len(), lines);
            let cut = log.truncate_to(seen).unwrap();
            assert_eq!(cut.missing, 0);
            assert_eq!(std::fs::read(&path).unwrap(), whole[..seen as usize]);
            assert_eq!(log.truncate_to(seen).unwrap(), Cut::default());
            log.add(epoch(3)).unwrap();
            assert_eq!(read_log(&path).unwrap()[3].event, epoch(3));
        }
        // Someone shortened it; a place inside a line.
        std::fs::write(&path, &whole[..10]).unwrap();
        assert_eq!(
            Log::open(&path).unwrap().truncate_to(seen).unwrap(),
            Cut { removed: 0, missing: seen }
        );
        std::fs::write(&path, &whole).unwrap();
        let cut = Log::open(&path).unwrap().truncate_to(seen - 3).unwrap();
        assert!(cut.missing > 0 && read_log(&path).unwrap().len() == 2);
    }

    #[test]
    fn a_half_line_longer_than_a_block_is_cut_and_a_bad_line_is_named() {
        let folder = Folder::new("log");
        let path = folder.0.join("log.jsonl");
        std::fs::write(
            &path,
            format!("{}\n{}", r#"{"time":1.5,"event":"search"}"#, "x".repeat(10_000)),
        )
        .unwrap();
        assert_eq!(read_log(&path).unwrap().len(), 1);
        let mut log = Log::open(&path).unwrap();
        assert_eq!(log.position().unwrap(), 30);
        std::fs::write(&path, "{\"time\":1.5,\"event\":\"search\"}\n{}\n").unwrap();
        let error = read_log(&path).unwrap_err().to_string();
        assert!(error.contains("log.jsonl at byte 30: line 2: missing field"), "{error}");
    }
}
