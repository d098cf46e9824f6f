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
use serde::de::DeserializeOwned;

use superweight_plan::number::grouped;

use super::ReportError;
use super::evaluation::{
    BinView, CorruptionRow, Corruptions, Evaluation, Interpolation, Latency, LatencyView, SubsetView,
};

/// Corruptions that the paper averages over.
const STANDARD_TYPES: usize = 15;
/// Files with figures, the better one first.
const PARTS: [(&str, &str); 2] = [("test", "the test set"), ("held-out", "the held-out images")];

#[derive(Deserialize)]
struct Answer {
    checkpoint: Option<u64>,
    images: u64,
    subsets: Vec<Subset>,
    diversity: Option<f64>,
    corruptions: Option<CorruptedSets>,
    interpolation: Option<Line>,
}

#[derive(Deserialize)]
struct Subset {
    members: Vec<usize>,
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
    right: u64,
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
    subsets: Vec<Subset>,
}

#[derive(Deserialize)]
struct Average {
    types: usize,
    subsets: Vec<Subset>,
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

#[derive(Deserialize)]
struct Profile {
    checkpoint: Option<u64>,
    device: String,
    batch: u64,
    subsets: Vec<Timed>,
}

#[derive(Deserialize)]
struct Timed {
    members: Vec<usize>,
    top1: f64,
    time: Time,
}

#[derive(Deserialize)]
struct Time {
    median_ms: f64,
    p99_ms: Option<f64>,
}

/// Everything that was evaluated; none where nothing was. `newest` is the run's newest checkpoint, `test` how many test images it
/// has, `members` how many networks.
pub(super) fn read(
    run: &Path,
    newest: Option<u64>,
    test: Option<u64>,
    members: usize,
) -> Result<Option<Evaluation>, ReportError> {
    let mut evaluation = None;
    for (part, on) in PARTS {
        let path = run.join("evaluation").join(format!("{part}.json"));
        if let Some(answer) = load::<Answer>(&path)? {
            let images = test.filter(|_| part == "test");
            evaluation = Some(view(answer, part, on, newest, images));
            break;
        }
    }
    let path = run.join("anytime.json");
    if let Some(profile) = load::<Profile>(&path)? {
        let older = older(profile.checkpoint, newest);
        let mut latency = Latency {
            device: profile.device + &older,
            batch: profile.batch,
            subsets: profile.subsets.into_iter().map(timed).collect(),
        };
        latency.mark_front();
        evaluation.get_or_insert_with(Evaluation::default).latency = Some(latency);
    }
    let stranger = |all: &Evaluation| {
        let timed =
            all.latency.iter().flat_map(|latency| &latency.subsets).flat_map(|subset| &subset.members);
        let lines = all.interpolations.iter().flat_map(|line| [&line.from, &line.to]);
        let seen = all.subsets.iter().flat_map(|subset| &subset.members).chain(timed).chain(lines);
        seen.copied().find(|&member| member >= members)
    };
    match evaluation.as_ref().and_then(stranger) {
        Some(member) => {
            let what =
                format!("its evaluation speaks of member {member}, the run has {members}; evaluate it anew");
            Err(ReportError::File { file: run.to_owned(), what })
        }
        None => Ok(evaluation),
    }
}

fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReportError> {
    let wrong = |what: String| ReportError::File { file: path.to_owned(), what };
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(error.to_string())),
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| wrong(format!("{error}; 'swn eval' and 'swn anytime' make such files anew"))),
    }
}

/// What to say of files that are older than the run.
fn older(of: Option<u64>, newest: Option<u64>) -> String {
    match (of, newest) {
        (Some(of), Some(newest)) if of != newest => format!(" (checkpoint {of}; the newest is {newest})"),
        _ => String::new(),
    }
}

fn view(answer: Answer, part: &str, on: &str, newest: Option<u64>, images: Option<u64>) -> Evaluation {
    let of = older(answer.checkpoint, newest);
    let few = images.filter(|&images| answer.images < images);
    let some = few.map(|images| format!(" (some of {})", grouped(images))).unwrap_or_default();
    let partial = !of.is_empty() || few.is_some();
    let on = on.to_owned() + &of + &some;
    let lines = answer.interpolation.into_iter().map(|line| Interpolation {
        from: line.members[0],
        to: line.members[1],
        points: line.points.into_iter().map(|point| (point.t, point.top1)).collect(),
    });
    Evaluation {
        part: part.to_owned(),
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

fn subset(read: Subset) -> Option<SubsetView> {
    let bin = |bin: Bin| match bin.images {
        0 => BinView::default(),
        n => BinView {
            images: n,
            confidence: 100.0 * bin.confidence / n as f64,
            accuracy: 100.0 * bin.right as f64 / n as f64,
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

fn timed(read: Timed) -> LatencyView {
    let Timed { members, top1, time } = read;
    LatencyView { members, ms: time.median_ms, p99: time.p99_ms, top1, front: false }
}

/// The largest subset there is: all members.
fn all(subsets: &[Subset]) -> Option<&Subset> {
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
            "reliability": [{ "images": 0, "right": 0, "confidence": 0.0 }, { "images": 4, "right": 3, "confidence": 3.4 }] }],
        "diversity": 0.8, "corruptions": { "source": "regenerated", "seed": 0, "averages": [
            { "types": 17, "severities": 1, "subsets": [{ "members": [0, 1], "top1": 1.0 }] },
            { "types": 15, "severities": 1, "subsets": [{ "members": [0], "top1": 2.0 }, { "members": [0, 1], "top1": 40.0 }] }],
          "sets": [{ "type": "gaussian-noise", "severity": 3, "images": 100, "subsets": [{ "members": [0, 1], "top1": 33.0 }], "diversity": null }] },
        "interpolation": { "members": [0, 1], "points": [{ "t": 0.0, "top1": 50.0, "nll": 1.0 }, { "t": 1.0, "top1": 51.0 }] },
        "pass_seconds": 1.0, "subsets_seconds": 0.1 }"#;
    const ANYTIME: &str = r#"{ "version": 1, "checkpoint": 6, "device": "cpu, 2 threads", "batch": 1, "rounds": 100, "data": "test",
        "names": ["a", "a"], "members": [], "subsets": [
          { "members": [0], "top1": 50.0, "nll": 1.0, "ece": 1.0, "time": { "median_ms": 2.0, "p99_ms": 3.0 }, "dominated": false },
          { "members": [1], "top1": 49.0, "nll": 1.0, "ece": 1.0, "time": { "median_ms": 2.5, "p99_ms": 3.0 }, "dominated": true }] }"#;

    #[test]
    fn files_of_the_commands_are_read() {
        let folder = Folder::new("evaluated");
        assert_eq!(read(&folder.0, None, None, 2).unwrap(), None);
        fs::create_dir(folder.0.join("evaluation")).unwrap();
        fs::write(folder.0.join("evaluation/test.json"), TEST).unwrap();
        fs::write(folder.0.join("anytime.json"), ANYTIME).unwrap();
        let of = |newest, images| {
            let found = read(&folder.0, newest, images, 2).unwrap().unwrap();
            (found.on, found.partial)
        };
        assert_eq!(of(Some(5), Some(100)), ("the test set".to_owned(), false));
        assert_eq!(of(Some(5), Some(2_000)), ("the test set (some of 2,000)".to_owned(), true));
        let found = read(&folder.0, Some(6), Some(100), 2).unwrap().unwrap();
        assert_eq!(
            (found.on.as_str(), found.partial),
            ("the test set (checkpoint 5; the newest is 6)", true)
        );
        let ensemble = found.ensemble().unwrap();
        assert_eq!((ensemble.top1, ensemble.nll), (60.0, None));
        assert_eq!(ensemble.bins[1], BinView { images: 4, confidence: 85.0, accuracy: 75.0 });
        let corrupted = found.corruptions.unwrap();
        assert_eq!((corrupted.mean_top1, corrupted.kinds[0].name.as_str()), (Some(40.0), "gaussian noise"));
        assert_eq!(corrupted.kinds[0].top1, [None, None, Some(33.0)]);
        assert_eq!(found.interpolations[0].points, [(0.0, 50.0), (1.0, 51.0)]);
        let latency = found.latency.unwrap();
        assert_eq!((latency.device.as_str(), latency.subsets[0].p99), ("cpu, 2 threads", Some(3.0)));
        assert_eq!([latency.subsets[0].front, latency.subsets[1].front], [true, false]);
        // Of another run, and damaged.
        let error = read(&folder.0, None, None, 1).unwrap_err().to_string();
        assert!(error.contains("member 1, the run has 1"), "{error}");
        fs::write(folder.0.join("anytime.json"), &ANYTIME[..100]).unwrap();
        let error = read(&folder.0, None, None, 2).unwrap_err().to_string();
        assert!(error.contains("anytime.json: EOF"), "{error}");
    }
}
