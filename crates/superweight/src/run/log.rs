//! Writes and reads `log.jsonl`: one line of JSON per event, for `jq` and for the report.
//!
//! Each line is written in one system call, so a crash leaves at most half a last line. A
//! checkpoint records the length of the log. Resuming cuts the log there, so that no epoch appears
//! twice. A line "resumed, ignore the above" was not chosen: every reader would have to handle it.
//!
//! ```text
//! {"time":1767225600.25,"event":"epoch","phase":"train","epoch":3,"loss":1.25,"top1":71.5}
//! ```

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::error::RunError;
use super::event::Event;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Time of the event in seconds since 1970 (UTC).
    pub time: f64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// What [`Log::truncate_to`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Number of bytes removed after the checkpoint.
    pub removed: u64,
    /// Number of bytes that the checkpoint recorded but the log lacks: something else shortened it.
    pub missing: u64,
}

/// The log of a run, open for appending.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens or creates a log and cuts half a last line that a crash left.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let mut log =
            Self { file: file.map_err(RunError::io("open", path))?, path: path.to_owned() };
        let length = log.length()?;
        log.cut_to_line(length)?;
        Ok(log)
    }

    /// Appends an event with the current time.
    pub fn add(&mut self, event: Event) -> Result<(), RunError> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = Line { time: (time.as_secs_f64() * 1e3).round() / 1e3, event };
        let mut text = serde_json::to_string(&line)
            .map_err(std::io::Error::from)
            .map_err(RunError::io("write", &self.path))?;
        text.push('\n');
        let before = self.length()?;
        self.file.write_all(text.as_bytes()).map_err(|error| {
            // A full disk leaves half a line; the next line must not continue it.
            let _ = self.file.set_len(before);
            RunError::io("write", &self.path)(error)
        })
    }

    /// Flushes the log to the disk and returns its length, which a checkpoint records.
    pub fn position(&mut self) -> Result<u64, RunError> {
        self.file.sync_all().map_err(RunError::io("sync", &self.path))?;
        self.length()
    }

    /// Cuts the log to the `bytes` that a checkpoint recorded; a line that ends later is cut as
    /// well.
    pub fn truncate_to(&mut self, bytes: u64) -> Result<Cut, RunError> {
        let length = self.length()?;
        let kept = self.cut_to_line(bytes.min(length))?;
        self.file.sync_all().map_err(RunError::io("sync", &self.path))?;
        Ok(Cut { removed: length - kept, missing: bytes - kept })
    }

    fn length(&self) -> Result<u64, RunError> {
        self.file.metadata().map(|file| file.len()).map_err(RunError::io("read", &self.path))
    }

    /// Cuts the log after the last whole line that ends at or before `end`.
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

/// Reads all lines of a log; half a last line is left out.
pub fn read_log(path: &Path) -> Result<Vec<Line>, RunError> {
    parse_log(path, &std::fs::read(path).map_err(RunError::io("read", path))?)
}

/// Reads all lines of a log in memory; errors name it `path`.
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
    use crate::run::{Accuracy, EvalEvent, Evaluation, ResumeEvent, StopEvent, WarningEvent};

    fn epoch(epoch: u64) -> Event {
        Event::Resume(ResumeEvent { checkpoint: epoch, phase: "train".to_owned(), epoch })
    }

    #[test]
    fn a_line_is_flat_json_and_comes_back() {
        let folder = Folder::new("log");
        let path = folder.0.join("log.jsonl");
        let mut log = Log::open(&path).unwrap();
        let accuracy = Accuracy { top1: 0.1 + 0.2, top5: 100.0, nll: 1.25 };
        let evaluation = Evaluation { images: 7, ensemble: accuracy, members: vec![accuracy] };
        let reason = StopEvent::FINISHED.to_owned();
        let events = [
            epoch(0),
            Event::Eval(EvalEvent { split: "test".to_owned(), test: Some(evaluation) }),
            Event::Warning(WarningEvent { warning: "two\nlines, \u{fc}".to_owned() }),
            Event::Stop(StopEvent { reason, checkpoint: Some(3), what: None }),
        ];
        events.iter().for_each(|event| log.add(event.clone()).unwrap());
        let lines = read_log(&path).unwrap();
        assert!(lines.iter().map(|line| &line.event).eq(&events));
        assert!(lines.windows(2).all(|pair| pair[0].time <= pair[1].time) && lines[0].time > 1.7e9);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), events.len());
        let first = text.lines().next().unwrap();
        let end = r#","event":"resume","checkpoint":0,"phase":"train","epoch":0}"#;
        assert!(first.starts_with(r#"{"time":1"#) && first.ends_with(end), "{first}");
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
        // Something shortened the log; then a checkpoint recorded a length inside a line.
        std::fs::write(&path, &whole[..10]).unwrap();
        assert_eq!(
            Log::open(&path).unwrap().truncate_to(seen).unwrap(),
            Cut { removed: 0, missing: seen }
        );
        std::fs::write(&path, &whole).unwrap();
        let cut = Log::open(&path).unwrap().truncate_to(seen - 3).unwrap();
        assert!(cut.missing > 0 && read_log(&path).unwrap().len() == 2);
    }

    const LINE: &str = r#"{"time":1.5,"event":"warning","warning":"abcd"}"#;

    #[test]
    fn a_half_line_longer_than_a_block_is_cut_and_a_bad_line_is_named() {
        let folder = Folder::new("log");
        let path = folder.0.join("log.jsonl");
        std::fs::write(&path, format!("{LINE}\n{}", "x".repeat(10_000))).unwrap();
        assert_eq!(read_log(&path).unwrap().len(), 1);
        let mut log = Log::open(&path).unwrap();
        assert_eq!(log.position().unwrap(), 48);
        std::fs::write(&path, format!("{LINE}\n{{}}\n")).unwrap();
        let error = read_log(&path).unwrap_err().to_string();
        assert!(error.contains("log.jsonl at byte 48: line 2: missing field"), "{error}");
    }
}
