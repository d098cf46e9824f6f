//! What `swn eval` and `swn anytime` left in a run folder, read.
//!
//! | file | holds |
//! |---|---|
//! | `evaluation/test.json`, else `evaluation/held-out.json` | figures of every subset, corrupted sets, interpolation |
//! | `anytime.json` | time and worth of every subset |
//!
//! Only what is drawn is read; what else the files have is theirs. A file of another checkpoint than the newest, or of a part of
//! the images, is shown, and the page says of which; it is not the run's result.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use superweight_plan::number::with_commas;

use super::ReportError;
use super::evaluation::{
    BinView, CorruptionRow, Corruptions, Evaluation, Interpolation, Latency, LatencyView,
    SubsetView,
};

use crate::infer::anytime::{PROFILE, Profile, SubsetProfile};
use crate::model::Subset;
use crate::data::EvalSplit;
use crate::run::Stamp;
use crate::model::Outputs;

/// Corruptions that the paper averages over.
const STANDARD_TYPES: usize = 15;
/// Files with figures, the better one first.
const PARTS: [(EvalSplit, &str); 2] =
    [(EvalSplit::Test, "the test set"), (EvalSplit::Validation, "the held-out images")];

#[derive(Deserialize)]
struct Answer {
    checkpoint: Option<u64>,
    #[serde(default)]
    digest: String,
    members: Vec<String>,
    #[serde(default)]
    exits: bool,
    images: u64,
    subsets: Vec<Scores>,
    diversity: Option<f64>,
    corruptions: Option<CorruptedSets>,
    interpolation: Option<Line>,
}

#[derive(Deserialize)]
struct Scores {
    members: Subset,
    top1: Option<f64>,
    top5: Option<f64>,
    nll: Option<f64>,
    ece: Option<f64>,
    #[serde(default)]
    reliability: Vec<Bin>,
}

#[derive(Deserialize)]
struct Bin {
    images: u64,
    correct: u64,
    /// Summed over the images.
    confidence: f64,
}

#[derive(Deserialize)]
struct CorruptedSets {
    source: String,
    sets: Vec<CorruptedSet>,
    averages: Vec<Average>,
}

#[derive(Deserialize)]
struct CorruptedSet {
    #[serde(rename = "type")]
    kind: String,
    severity: usize,
    subsets: Vec<Scores>,
}

#[derive(Deserialize)]
struct Average {
    types: usize,
    subsets: Vec<Scores>,
}

#[derive(Deserialize)]
struct Line {
    members: [usize; 2],
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    t: f64,
    top1: f64,
}

/// The newest checkpoint of a run, and who answers.
pub(super) struct Newest<'a> {
    pub stamp: Option<&'a Stamp>,
    pub outputs: &'a Outputs,
    /// Its test images.
    pub test: Option<u64>,
}

/// Everything that was evaluated; none where nothing was.
pub(super) fn read(run: &Path, newest: &Newest<'_>) -> Result<Option<Evaluation>, ReportError> {
    let mut evaluation = None;
    for (split, on) in PARTS {
        let path = run.join("evaluation").join(format!("{}.json", split.name()));
        if let Some(text) = text(&path)? {
            let again = format!("'swn eval {}{}' makes it anew", run.display(), split.flag());
            let wrong = |what: String| ReportError::File {
                file: path.clone(),
                what: format!("{what}; {again}"),
            };
            let answer: Answer =
                serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            let of = Outputs::new(answer.members.clone(), answer.exits);
            let stamp =
                answer.checkpoint.map(|number| Stamp { number, digest: answer.digest.clone() });
            newest.knows(&of, stamp).map_err(wrong)?;
            answer.is_of(&of).map_err(wrong)?;
            let images = newest.test.filter(|_| split == EvalSplit::Test);
            evaluation = Some(view(answer, split.name(), on, newest.number(), images));
            break;
        }
    }
    let path = run.join(PROFILE);
    if let Some(text) = text(&path)? {
        let again = format!("'swn anytime {}' makes it anew", run.display());
        let wrong = |what: String| ReportError::File {
            file: path.clone(),
            what: format!("{what}; {again}"),
        };
        let profile = Profile::from_json(&path, &text).map_err(ReportError::Profile)?;
        newest.knows(&profile.outputs(), Some(profile.stamp())).map_err(wrong)?;
        let older = older(Some(profile.checkpoint), newest.number());
        let mut latency = Latency {
            device: profile.device + &older,
            batch_size: profile.batch_size as u64,
            subsets: profile.subsets.into_iter().map(timed).collect(),
        };
        latency.mark_front();
        evaluation.get_or_insert_with(Evaluation::default).latency = Some(latency);
    }
    Ok(evaluation)
}

impl Newest<'_> {
    fn number(&self) -> Option<u64> {
        self.stamp.map(|stamp| stamp.number)
    }

    /// Whether figures can be of this run: of whom it has, and of no other run's checkpoint. Older ones may be.
    fn knows(&self, of: &Outputs, stamp: Option<Stamp>) -> Result<(), String> {
        let of_others = || {
            let (newest, said) =
                self.stamp.zip(stamp).filter(|(newest, said)| newest.number == said.number)?;
            newest.contradiction(&said)
        };
        self.outputs.contradiction(of).or_else(of_others).map_or(Ok(()), Err)
    }
}

impl Answer {
    /// Whether it speaks of these and no other, and of all of them together.
    fn is_of(&self, outputs: &Outputs) -> Result<(), String> {
        let corrupted = self.corruptions.iter().flat_map(|all| {
            let sets = all.sets.iter().flat_map(|set| &set.subsets);
            sets.chain(all.averages.iter().flat_map(|average| &average.subsets))
        });
        let subsets = self.subsets.iter().chain(corrupted).map(|scores| scores.members);
        let (count, words, all) = (outputs.count(), outputs.words(), Subset::all(outputs.count()));
        let unknown = |who: String| Err(format!("it speaks of {words} {who}, the run has {count}"));
        if let Some(stranger) = { subsets }.find(|subset| !subset.is_within(all)) {
            return unknown(stranger.to_string());
        }
        let mut ends = self.interpolation.iter().flat_map(|line| line.members);
        if let Some(stranger) = ends.find(|&end| end >= count) {
            return unknown(stranger.to_string());
        }
        match self.subsets.iter().any(|scores| scores.members == all) {
            true => Ok(()),
            false => Err(format!("it has no figures of all {count} {words} together")),
        }
    }
}

/// A file, where it is.
fn text(path: &Path) -> Result<Option<String>, ReportError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReportError::File { file: path.to_owned(), what: error.to_string() }),
        Ok(text) => Ok(Some(text)),
    }
}

/// What to say of files that are older than the run.
fn older(of: Option<u64>, newest: Option<u64>) -> String {
    match (of, newest) {
        (Some(of), Some(newest)) if of != newest => {
            format!(" (checkpoint {of}; the newest is {newest})")
        }
        _ => String::new(),
    }
}

fn view(
    answer: Answer,
    split: &str,
    on: &str,
    newest: Option<u64>,
    images: Option<u64>,
) -> Evaluation {
    let of = older(answer.checkpoint, newest);
    let few = images.filter(|&images| answer.images < images);
    let some = few.map(|images| format!(" (some of {})", with_commas(images))).unwrap_or_default();
    let partial = !of.is_empty() || few.is_some();
    let on = on.to_owned() + &of + &some;
    let lines = answer.interpolation.into_iter().map(|line| Interpolation {
        from: line.members[0],
        to: line.members[1],
        points: line.points.into_iter().map(|point| (point.t, point.top1)).collect(),
    });
    Evaluation {
        split: split.to_owned(),
        on,
        images: answer.images,
        partial,
        subsets: answer.subsets.into_iter().filter_map(subset).collect(),
        diversity: answer.diversity,
        corruptions: answer.corruptions.map(corruptions),
        latency: None,
        interpolations: lines.collect(),
    }
}

fn subset(read: Scores) -> Option<SubsetView> {
    let bin = |bin: Bin| match bin.images {
        0 => BinView::default(),
        n => BinView {
            images: n,
            confidence: 100.0 * bin.confidence / n as f64,
            accuracy: 100.0 * bin.correct as f64 / n as f64,
        },
    };
    Some(SubsetView {
        members: read.members,
        top1: read.top1?,
        top5: read.top5,
        nll: read.nll,
        ece: read.ece,
        bins: read.reliability.into_iter().map(bin).collect(),
    })
}

fn timed(read: SubsetProfile) -> LatencyView {
    let SubsetProfile { members, top1, time, .. } = read;
    LatencyView { members, ms: time.median_ms, p99: Some(time.p99_ms), top1, front: false }
}

/// The largest subset there is: all members.
fn all(subsets: &[Scores]) -> Option<&Scores> {
    subsets.iter().max_by_key(|subset| subset.members.len())
}

fn corruptions(read: CorruptedSets) -> Corruptions {
    let mut kinds: Vec<CorruptionRow> = vec![];
    for set in &read.sets {
        let name = set.kind.replace(['-', '_'], " ");
        let at = kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            kinds.push(CorruptionRow { name, top1: vec![] });
            kinds.len() - 1
        });
        // Severities are 1 to 5; what is not is no column.
        if let Some(column) = set.severity.checked_sub(1).filter(|column| *column < 5) {
            let row = &mut kinds[at].top1;
            row.resize(row.len().max(column + 1), None);
            row[column] = all(&set.subsets).and_then(|subset| subset.top1);
        }
    }
    let mean = read.averages.iter().find(|average| average.types == STANDARD_TYPES);
    let mean = mean.and_then(|average| all(&average.subsets));
    Corruptions {
        source: read.source,
        kinds,
        mean_top1: mean.and_then(|mean| mean.top1),
        mean_nll: mean.and_then(|mean| mean.nll),
        mean_ece: mean.and_then(|mean| mean.ece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;

    /// As `swn eval --corruptions … --interpolate 0,1` writes it, shortened.
    const TEST: &str = r#"{ "run": "runs/a", "checkpoint": 5, "data": "cifar-10", "part": "test", "members": ["a", "a"],
        "images": 100, "subsets": [
          { "members": [0], "top1": 50.0, "top5": 90.0, "nll": 1.5, "ece": 3.0 },
          { "members": [0, 1], "top1": 60.0, "top5": 95.0, "nll": null, "ece": 2.0,
            "reliability": [{ "images": 0, "correct": 0, "confidence": 0.0 }, { "images": 4, "correct": 3, "confidence": 3.4 }] }],
        "diversity": 0.8, "corruptions": { "source": "regenerated", "seed": 0, "averages": [
            { "types": 17, "severities": 1, "subsets": [{ "members": [0, 1], "top1": 1.0 }] },
            { "types": 15, "severities": 1, "subsets": [{ "members": [0], "top1": 2.0 }, { "members": [0, 1], "top1": 40.0 }] }],
          "sets": [{ "type": "gaussian-noise", "severity": 3, "images": 100, "subsets": [{ "members": [0, 1], "top1": 33.0 }], "diversity": null }] },
        "interpolation": { "members": [0, 1], "points": [{ "t": 0.0, "top1": 50.0, "nll": 1.0 }, { "t": 1.0, "top1": 51.0 }] },
        "pass_seconds": 1.0, "subsets_seconds": 0.1 }"#;
    const ANYTIME: &str = r#"{ "version": 1, "checkpoint": 6, "device": "cpu, 2 threads", "batch": 1, "rounds": 100, "data": "test",
        "names": ["a", "a"], "members": [{ "median_ms": 2.0, "p99_ms": 3.0 }, { "median_ms": 2.5, "p99_ms": 3.0 }], "subsets": [
          { "members": [0], "top1": 50.0, "nll": 1.0, "ece": 1.0, "time": { "median_ms": 2.0, "p99_ms": 3.0 }, "dominated": false },
          { "members": [1], "top1": 49.0, "nll": 1.0, "ece": 1.0, "time": { "median_ms": 2.5, "p99_ms": 3.0 }, "dominated": true },
          { "members": [0, 1], "top1": 60.0, "nll": 1.0, "ece": 1.0, "time": { "median_ms": 4.5, "p99_ms": 6.0 }, "dominated": false }] }"#;

    fn two() -> Outputs {
        Outputs::new(vec!["a".to_owned(); 2], false)
    }

    fn stamp(number: u64) -> Stamp {
        Stamp { number, digest: "2ab".to_owned() }
    }

    #[test]
    fn files_of_the_commands_are_read() {
        let folder = Folder::new("evaluated");
        let read_as = |number: Option<u64>, test: Option<u64>| {
            let stamp = number.map(stamp);
            read(&folder.0, &Newest { stamp: stamp.as_ref(), outputs: &two(), test }).unwrap()
        };
        assert_eq!(read_as(None, None), None);
        fs::create_dir(folder.0.join("evaluation")).unwrap();
        fs::write(folder.0.join("evaluation/test.json"), TEST).unwrap();
        fs::write(folder.0.join(PROFILE), ANYTIME).unwrap();
        let of = |newest, images| {
            let found = read_as(newest, images).unwrap();
            (found.on, found.partial)
        };
        assert_eq!(of(Some(5), Some(100)), ("the test set".to_owned(), false));
        assert_eq!(of(Some(5), Some(2_000)), ("the test set (some of 2,000)".to_owned(), true));
        let found = read_as(Some(6), Some(100)).unwrap();
        assert_eq!(
            (found.on.as_str(), found.partial),
            ("the test set (checkpoint 5; the newest is 6)", true)
        );
        let ensemble = found.ensemble().unwrap();
        assert_eq!((ensemble.top1, ensemble.nll), (60.0, None));
        assert_eq!(ensemble.bins[1], BinView { images: 4, confidence: 85.0, accuracy: 75.0 });
        let corrupted = found.corruptions.unwrap();
        assert_eq!(
            (corrupted.mean_top1, corrupted.kinds[0].name.as_str()),
            (Some(40.0), "gaussian noise")
        );
        assert_eq!(corrupted.kinds[0].top1, [None, None, Some(33.0)]);
        assert_eq!(found.interpolations[0].points, [(0.0, 50.0), (1.0, 51.0)]);
        let latency = found.latency.unwrap();
        assert_eq!(
            (latency.device.as_str(), latency.subsets[0].p99),
            ("cpu, 2 threads", Some(3.0))
        );
        assert_eq!([0, 1, 2].map(|i| latency.subsets[i].front), [true, false, true]);
    }

    /// What belongs to another run, or to none, is said to: by whom it is of, its checkpoint and whom it speaks of.
    #[test]
    fn files_of_other_runs_are_refused_by_their_name() {
        let folder = Folder::new("evaluated-others");
        fs::create_dir(folder.0.join("evaluation")).unwrap();
        let paths = ["evaluation/test.json", PROFILE].map(|name| folder.0.join(name));
        let stamp = stamp(5);
        let error = |texts: [&str; 2], outputs: &Outputs| {
            paths.iter().zip(texts).for_each(|(path, text)| fs::write(path, text).unwrap());
            let newest = Newest { stamp: Some(&stamp), outputs, test: None };
            read(&folder.0, &newest).err().map(|error| error.to_string())
        };
        let profile = ANYTIME.replace("\"checkpoint\": 6", "\"checkpoint\": 5");
        assert_eq!(error([TEST, &profile], &two()), None);
        let exits = Outputs::new(vec!["a".to_owned(); 2], true);
        let said = error([TEST, &profile], &exits).unwrap();
        assert!(said.contains("test.json: of a, a, the run has 2 exits of a; 'swn eval"), "{said}");
        let said = error(
            [&TEST.replace("\"images\": 100,", "\"images\": 100, \"exits\": true,"), &profile],
            &exits,
        );
        assert!(
            said.unwrap().contains("anytime.json: of a, a, the run has 2 exits of a; 'swn anytime")
        );
        let with = |text: &str, digest: &str| {
            text.replacen(
                "\"checkpoint\": 5,",
                &format!("\"checkpoint\": 5, \"digest\": \"{digest}\","),
                1,
            )
        };
        assert_eq!(error([&with(TEST, "2ab"), &with(&profile, "2ab")], &two()), None);
        let said = error([&with(TEST, "2ac"), &profile], &two()).unwrap();
        assert!(said.contains("test.json: of checkpoint 5 of another run; 'swn eval"), "{said}");
        let said = error([TEST, &with(&profile, "2ac")], &two()).unwrap();
        assert!(
            said.contains("anytime.json: of checkpoint 5 of another run; 'swn anytime"),
            "{said}"
        );
        for (from, to, expected) in [
            (
                "\"members\": [0], \"top1\": 50.0",
                "\"members\": [2], \"top1\": 50.0",
                "it speaks of members 2, the run has 2",
            ),
            (
                "\"interpolation\": { \"members\": [0, 1]",
                "\"interpolation\": { \"members\": [0, 9]",
                "it speaks of members 9, the run has 2",
            ),
            (
                "\"members\": [0, 1], \"top1\": 60.0",
                "\"members\": [1], \"top1\": 60.0",
                "it has no figures of all 2 members together",
            ),
            (
                "\"members\": [0], \"top1\": 50.0",
                "\"members\": [0, 0], \"top1\": 50.0",
                "a subset has 0 twice",
            ),
        ] {
            let said = error([&TEST.replacen(from, to, 1), &profile], &two()).unwrap();
            assert!(said.contains(expected), "{said}");
        }
        let said = error([TEST, &ANYTIME[..100]], &two()).unwrap();
        assert!(said.contains("anytime.json: EOF"), "{said}");
        fs::rename(&paths[0], folder.0.join("evaluation/held-out.json")).unwrap();
        let newest = Newest { stamp: Some(&stamp), outputs: &exits, test: None };
        let said = read(&folder.0, &newest).unwrap_err().to_string();
        assert!(
            said.contains("held-out.json: of a, a, ") && said.contains(" --held-out' makes it"),
            "{said}"
        );
    }
}
