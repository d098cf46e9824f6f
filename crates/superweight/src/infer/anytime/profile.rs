//! The profile of a run on one device: accuracy and time of every subset of its outputs.
//!
//! For exits, the subsets are each exit and all exits up to one ([`Outputs::subsets`]). The time of
//! such a subset is that of all stages up to its last exit.
//!
//! A subset is *dominated* if another one is at least as accurate and at least as fast, and better
//! in one of the two. The file is JSON (`anytime.json` in the run's folder). It names the
//! checkpoint it was measured on; a profile of another checkpoint is refused, because accuracies
//! differ.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::latency::{Latencies, Summary};
use crate::evaluate::SubsetScores;
use crate::fs::write_whole;
use crate::model::{OutputId, Outputs, Subset};
use crate::run::Stamp;

/// Version of the file's format; other versions are refused.
pub const VERSION: u32 = 1;
/// Name of the file in the run's folder.
pub const PROFILE: &str = "anytime.json";
/// A day: the longest time that is valid in a profile. Every clock can add it.
const LONGEST_MS: f64 = 86_400_000.0;

/// Why a profile cannot be read, written or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read or written.
    #[error("{} could not be {doing}: {source}; {}", path.display(), advice(doing))]
    Io {
        /// `read` or `written`.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is not a profile, or it contradicts itself.
    #[error("{}: {what}; 'swn anytime RUN' measures again", path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

const WRITTEN: &str = "written";

fn advice(doing: &str) -> &'static str {
    if doing == WRITTEN { "make its folder writable" } else { "'swn anytime RUN' writes it" }
}

/// Accuracy and time of one subset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubsetProfile {
    /// Members or exits of the subset.
    pub members: Subset,
    /// Top-1 accuracy in percent.
    pub top1: f64,
    /// Mean negative log-likelihood.
    pub nll: f64,
    /// Expected calibration error in percent.
    pub ece: f64,
    /// Time of a call that runs the subset.
    pub time: Summary,
    /// Whether another subset is better in accuracy or time and not worse in the other.
    pub dominated: bool,
}

/// Accuracy and time of a run's outputs and their subsets on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of the format.
    pub version: u32,
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Digest of the checkpoint, which differs between runs; empty in files of older programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Description of the device.
    pub device: String,
    /// Images per call.
    pub batch_size: usize,
    /// Number of measured rounds.
    pub rounds: usize,
    /// Description of the images that accuracies are measured on.
    pub data: String,
    /// Architecture of each output.
    pub names: Vec<String>,
    /// Whether the outputs are exits of one network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exits: bool,
    /// Time of each output; of an exit, without the exits before it.
    pub members: Vec<Summary>,
    /// Every subset that may be worth running ([`Outputs::subsets`]), small ones first.
    pub subsets: Vec<SubsetProfile>,
}

impl Profile {
    /// A profile of these scores and times, with dominated subsets marked. Checkpoint, device and
    /// data are left empty.
    pub fn new(
        outputs: &Outputs,
        batch_size: usize,
        scores: &[SubsetScores],
        latencies: &Latencies,
    ) -> Self {
        let members = (0..outputs.count()).map(|m| latencies.output(OutputId(m))).collect();
        let entry = |scored: &SubsetScores| {
            let (scores, time) = (scored.scores(), latencies.subset(outputs.needed(scored.subset)));
            let (top1, nll, ece) = (100.0 * scores.top1, scores.nll, 100.0 * scores.ece);
            SubsetProfile { members: scored.subset, top1, nll, ece, time, dominated: false }
        };
        let mut subsets: Vec<_> = scores.iter().map(entry).collect();
        let points: Vec<_> =
            subsets.iter().map(|subset| (subset.top1, subset.time.median_ms)).collect();
        for (subset, dominated) in subsets.iter_mut().zip(dominated(&points)) {
            subset.dominated = dominated;
        }
        Self {
            version: VERSION,
            checkpoint: 0,
            digest: String::new(),
            device: String::new(),
            batch_size,
            rounds: latencies.rounds(),
            data: String::new(),
            names: outputs.names().to_vec(),
            exits: outputs.nested(),
            members,
            subsets,
        }
    }

    /// The outputs that were measured.
    pub fn outputs(&self) -> Outputs {
        Outputs::new(self.names.clone(), self.exits)
    }

    /// Number and digest of the checkpoint that was measured.
    pub fn stamp(&self) -> Stamp {
        Stamp { number: self.checkpoint, digest: self.digest.clone() }
    }

    /// Why the profile cannot be used for a run with these outputs and this newest checkpoint; none
    /// if it can.
    pub fn contradiction(&self, outputs: &Outputs, newest: &Stamp) -> Option<String> {
        outputs.contradiction(&self.outputs()).or_else(|| newest.contradiction(&self.stamp()))
    }

    /// Entry of a subset.
    pub fn subset(&self, subset: Subset) -> Option<&SubsetProfile> {
        self.subsets.iter().find(|entry| entry.members == subset)
    }

    /// Writes the file, atomically.
    pub fn save(&self, path: &Path) -> Result<(), ProfileError> {
        let text = serde_json::to_string_pretty(self).expect("a profile is JSON") + "\n";
        write_whole(path, text.as_bytes()).map_err(|source| ProfileError::Io {
            doing: WRITTEN,
            path: path.to_owned(),
            source,
        })
    }

    /// Reads and checks the file.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let failed = |source| ProfileError::Io { doing: "read", path: path.to_owned(), source };
        Self::from_json(path, &fs::read_to_string(path).map_err(failed)?)
    }

    /// Reads and checks a profile in memory; `path` is for errors.
    pub fn from_json(path: &Path, text: &str) -> Result<Self, ProfileError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let malformed = |what: String| ProfileError::Malformed { path: path.to_owned(), what };
        let found: Version =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        if found.version != VERSION {
            let what = format!("version {}; this program reads version {VERSION}", found.version);
            return Err(malformed(what));
        }
        let profile: Self =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let mut listed: Vec<_> = profile.subsets.iter().map(|subset| subset.members).collect();
        listed.sort();
        let outputs = profile.outputs();
        let mut every = outputs.subsets().map_err(|error| malformed(error.to_string()))?;
        every.sort();
        let (members, words) = (outputs.count(), outputs.words());
        if profile.exits && outputs.names().iter().any(|name| *name != outputs.names()[0]) {
            return Err(malformed("it has exits of several networks".to_owned()));
        }
        if members == 0 || profile.members.len() != members {
            let times = profile.members.len();
            return Err(malformed(format!(
                "it has times of {times} {words} and names of {members}"
            )));
        }
        if listed != every {
            let found = listed.len();
            return Err(malformed(format!(
                "its {found} subsets are not the {} of {members} {words}",
                every.len()
            )));
        }
        let times = profile.members.iter().chain(profile.subsets.iter().map(|subset| &subset.time));
        let valid = |time: &Summary| {
            [time.median_ms, time.p99_ms].iter().all(|t| (0.0..=LONGEST_MS).contains(t))
        };
        let valid_share = |subset: &SubsetProfile| (0.0..=100.0).contains(&subset.top1);
        if !{ times }.all(valid) || !profile.subsets.iter().all(valid_share) {
            return Err(malformed("a time or an accuracy is out of range".to_owned()));
        }
        Ok(profile)
    }
}

/// For points (accuracy, time): whether another point is at least as good in both and better in
/// one. Of equal points, the first is not dominated.
fn dominated(points: &[(f64, f64)]) -> Vec<bool> {
    let beaten = |(i, &(accuracy, time)): (usize, &(f64, f64))| {
        points.iter().enumerate().any(|(j, &(a, t))| {
            let no_worse = a >= accuracy && t <= time;
            no_worse && (a > accuracy || t < time || j < i)
        })
    };
    points.iter().enumerate().map(beaten).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;
    use crate::evaluate::{Predictions, evaluate_subsets};

    fn profile() -> Profile {
        let third = 3f32.ln();
        let logits = vec![vec![third, 0.0, third, 0.0], vec![0.0, 0.0, 0.0, third]];
        let outputs = Outputs::new(vec!["a".into(), "b".into()], false);
        let predictions = Predictions::new(2, vec![0, 1], logits).unwrap();
        let scores = evaluate_subsets(&predictions, &outputs.subsets().unwrap());
        let latencies = Latencies::new(vec![vec![1.0, 4.0]; 10], vec![0.0; 10]);
        Profile::new(&outputs, 1, &scores, &latencies)
    }

    #[test]
    fn points_that_no_other_point_beats_are_not_dominated() {
        let points = [(0.7, 1.0), (0.8, 2.0), (0.75, 3.0), (0.8, 2.0), (0.7, 0.9), (0.9, 9.0)];
        assert_eq!(dominated(&points), [true, false, true, true, false, false]);
    }

    /// The time of an exit includes the exits before it, and so does that of all exits up to it.
    #[test]
    fn the_time_of_an_exit_includes_earlier_exits() {
        let outputs = Outputs::new(vec!["a".into(); 3], true);
        let logits = (0..3).map(|m| vec![m as f32, 1.0, 0.5, m as f32]).collect();
        let scores = evaluate_subsets(
            &Predictions::new(2, vec![0, 1], logits).unwrap(),
            &outputs.subsets().unwrap(),
        );
        let latencies = Latencies::new(vec![vec![4.0, 1.0, 2.0]; 10], vec![0.5; 10]);
        let profile = Profile::new(&outputs, 1, &scores, &latencies);
        let times: Vec<_> = profile.subsets.iter().map(|subset| subset.time.median_ms).collect();
        assert_eq!(times, [4.5, 5.5, 7.5, 5.5, 7.5]);
        assert_eq!(
            profile.members.iter().map(|time| time.median_ms).collect::<Vec<_>>(),
            [4.0, 1.0, 2.0]
        );
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(Profile::from_json(Path::new("p"), &text).unwrap(), profile);
        let other = text.replacen("\"exits\":true,", "", 1);
        assert!(Profile::from_json(Path::new("p"), &other).is_err(), "members have other subsets");
    }

    #[test]
    fn files_read_back_and_damaged_ones_are_refused() {
        let folder = Folder::new("profile");
        let path = folder.0.join("anytime.json");
        let written = profile();
        written.save(&path).unwrap();
        assert_eq!(Profile::load(&path).unwrap(), written);
        let text = fs::read_to_string(&path).unwrap();
        let error = |text: &str| Profile::from_json(&path, text).unwrap_err().to_string();
        assert!(
            error(&text.replacen("\"version\": 1", "\"version\": 2", 1))
                .contains("version 2; this program")
        );
        assert!(
            error(&text.replacen("\"p99_ms\": 4.0", "\"p99_ms\": -4.0", 1))
                .contains("out of range")
        );
        assert!(
            error(&text.replacen("\"p99_ms\": 4.0", "\"p99_ms\": 1e300", 1))
                .contains("out of range")
        );
        assert!(error("{}").contains("missing field"));
        assert!(error(&text[..text.len() / 2]).contains("EOF"));
        let mut many = written.clone();
        many.exits = true;
        many.names = vec!["a".into(); 100];
        many.members = vec![written.members[0]; 100];
        many.subsets.clear();
        assert!(error(&serde_json::to_string(&many).unwrap()).contains("100 exits: their subsets"));
        many.exits = false;
        assert!(
            error(&serde_json::to_string(&many).unwrap()).contains("100 members: their subsets")
        );
        let mut fewer = written.clone();
        fewer.subsets.pop();
        assert!(
            error(&serde_json::to_string(&fewer).unwrap())
                .contains("its 2 subsets are not the 3 of 2 members")
        );
    }
}
