//! The profile: every subset of members with its accuracy and its time on one device, and which are worth running. Of exits
//! each one and all up to it ([`Outputs`]); the time of such a subset is that of all stages up to its last exit.
//!
//! A subset is *dominated* where another is at least as accurate and at least as quick, and better in one of the two. The
//! file is JSON (`anytime.json` in the run's folder) with the checkpoint it was measured on: another checkpoint has other
//! accuracies, and a profile of it is refused.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::latency::{Latencies, Summary};
use crate::model::Subset;
use crate::evaluate::SubsetScores;
use crate::fs::write_whole;
use crate::run::Stamp;
use crate::model::{OutputId, Outputs};

/// Of the file; other versions are refused.
pub const VERSION: u32 = 1;
/// Its name in the run's folder.
pub const PROFILE: &str = "anytime.json";
/// A day: no call takes longer, and clocks can add it.
const LONGEST_MS: f64 = 86_400_000.0;

/// Why a profile cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The system said no.
    #[error("{} could not be {doing}: {source}; {}", path.display(), advice(doing))]
    Io {
        /// read or written.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// As the system says it.
        source: std::io::Error,
    },
    /// Not a profile, or one that does not agree with itself.
    #[error("{}: {what}; 'swn anytime RUN' makes it anew", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// In words.
        what: String,
    },
}

const WRITTEN: &str = "written";

fn advice(doing: &str) -> &'static str {
    if doing == WRITTEN { "make its folder writable" } else { "'swn anytime RUN' makes it" }
}

/// One subset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubsetProfile {
    /// Which members.
    pub members: Subset,
    /// Images it got right, in percent.
    pub top1: f64,
    /// Negative log-likelihood.
    pub nll: f64,
    /// Expected calibration error, in percent.
    pub ece: f64,
    /// Time of a call.
    pub time: Summary,
    /// Whether another subset is better in one way and no worse in the other.
    pub dominated: bool,
}

/// What is known of a run's subsets on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The version of the format.
    pub version: u32,
    /// Of the checkpoint.
    pub checkpoint: u64,
    /// By which it is told from checkpoints of other runs; none in files of older programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// What it was measured on, in words.
    pub device: String,
    /// Images of a call.
    pub batch: usize,
    /// Rounds measured.
    pub rounds: usize,
    /// Images that accuracies are of, in words.
    pub data: String,
    /// Architectures of the members.
    pub names: Vec<String>,
    /// Whether these are exits of one network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exits: bool,
    /// Time of each member by itself, of an exit without those before it.
    pub members: Vec<Summary>,
    /// Every subset that is worth a look ([`Outputs::subsets`]), small ones first.
    pub subsets: Vec<SubsetProfile>,
}

impl Profile {
    /// Puts scores and times together and marks what is dominated.
    pub fn new(
        outputs: &Outputs,
        batch: usize,
        scores: &[SubsetScores],
        latencies: &Latencies,
    ) -> Self {
        let members = (0..outputs.count()).map(|m| latencies.member(OutputId(m))).collect();
        let one = |scored: &SubsetScores| {
            let (scores, time) = (scored.scores(), latencies.subset(outputs.needed(scored.subset)));
            let (top1, nll, ece) = (100.0 * scores.top1, scores.nll, 100.0 * scores.ece);
            SubsetProfile { members: scored.subset, top1, nll, ece, time, dominated: false }
        };
        let mut subsets: Vec<_> = scores.iter().map(one).collect();
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
            batch,
            rounds: latencies.rounds(),
            data: String::new(),
            names: outputs.names().to_vec(),
            exits: outputs.nested(),
            members,
            subsets,
        }
    }

    /// Whose it is.
    pub fn outputs(&self) -> Outputs {
        Outputs::new(self.names.clone(), self.exits)
    }

    /// Of which checkpoint.
    pub fn stamp(&self) -> Stamp {
        Stamp { number: self.checkpoint, digest: self.digest.clone() }
    }

    /// Why it is of no use for a run: it is of others than those who answer there, or of another checkpoint than the newest.
    pub fn contradiction(&self, outputs: &Outputs, newest: &Stamp) -> Option<String> {
        outputs.contradiction(&self.outputs()).or_else(|| newest.contradiction(&self.stamp()))
    }

    /// A subset's entry.
    pub fn subset(&self, subset: Subset) -> Option<&SubsetProfile> {
        self.subsets.iter().find(|entry| entry.members == subset)
    }

    /// Writes the file, whole or not at all.
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

    /// Reads and checks a profile that is in memory; `path` is for errors.
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
            return Err(malformed("exits of several networks".to_owned()));
        }
        if members == 0 || profile.members.len() != members {
            let times = profile.members.len();
            return Err(malformed(format!(
                "its times are of {times} {words}, its names of {members}"
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
        let sound = |time: &Summary| {
            [time.median_ms, time.p99_ms].iter().all(|t| (0.0..=LONGEST_MS).contains(t))
        };
        let share = |subset: &SubsetProfile| (0.0..=100.0).contains(&subset.top1);
        if !{ times }.all(sound) || !profile.subsets.iter().all(share) {
            return Err(malformed("a time or an accuracy is no such number".to_owned()));
        }
        Ok(profile)
    }
}

/// Of points (accuracy, time): whether another is as good in both and better in one. Of equal points the first stays.
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
    fn the_front_is_what_nothing_beats() {
        let points = [(0.7, 1.0), (0.8, 2.0), (0.75, 3.0), (0.8, 2.0), (0.7, 0.9), (0.9, 9.0)];
        assert_eq!(dominated(&points), [true, false, true, true, false, false]);
    }

    /// An exit takes what those before it take, and so does the mean of all up to it.
    #[test]
    fn exits_are_timed_to_their_end() {
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
                .contains("no such number")
        );
        assert!(
            error(&text.replacen("\"p99_ms\": 4.0", "\"p99_ms\": 1e300", 1))
                .contains("no such number")
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
