//! Reads what `swn eval` and `swn anytime` wrote into a run folder.
//!
//! | file | contents |
//! |---|---|
//! | `evaluation/test.json`, else `evaluation/validation.json` | figures of every subset, corrupted sets, interpolation |
//! | `anytime.json` | time and accuracy of every subset |
//!
//! Figures of an older checkpoint, or of some of the images, are shown with a note; they are not
//! the run's result.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use superweight_plan::number::with_commas;

use super::error::ReportError;
use super::evaluation::{
    BinView, CorruptionRow, Corruptions, Evaluation, Interpolation, Latency, LatencyView,
    SubsetView,
};

use crate::data::EvalSplit;
use crate::evaluate::{Bin, CorruptionsRecord, EvaluationRecord, Figures, SubsetReport};
use crate::infer::anytime::{PROFILE, Profile, SubsetProfile};
use crate::model::Outputs;
use crate::model::Subset;
use crate::run::Stamp;

/// Number of corruptions in the paper's mean.
const STANDARD_TYPES: usize = 15;
/// Splits with an evaluation, the preferred one first, and their descriptions.
const SPLITS: [(EvalSplit, &str); 2] =
    [(EvalSplit::Test, "the test set"), (EvalSplit::Validation, "the validation images")];

/// The newest checkpoint of a run and its outputs.
pub(super) struct Newest<'a> {
    pub stamp: Option<&'a Stamp>,
    pub outputs: &'a Outputs,
    /// Number of test images, if the log states it.
    pub test: Option<u64>,
}

/// Reads all evaluations of a run; none if there are none.
pub(super) fn read(run: &Path, newest: &Newest<'_>) -> Result<Option<Evaluation>, ReportError> {
    let mut evaluation = None;
    for (split, on) in SPLITS {
        let path = run.join("evaluation").join(format!("{}.json", split.name()));
        if let Some(text) = text(&path)? {
            let again = format!("'swn eval {}{}' evaluates again", run.display(), split.flag());
            let wrong = |what: String| ReportError::File {
                file: path.clone(),
                what: format!("{what}; {again}"),
            };
            let record: EvaluationRecord =
                serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            let of = Outputs::new(record.members.clone(), record.exits);
            let stamp = Stamp { number: record.checkpoint, digest: record.digest.clone() };
            newest.check(&of, &stamp).map_err(wrong)?;
            check_subsets(&record, &of).map_err(wrong)?;
            let images = newest.test.filter(|_| split == EvalSplit::Test);
            evaluation = Some(view(record, split.name(), on, newest.number(), images));
            break;
        }
    }
    let path = run.join(PROFILE);
    if let Some(text) = text(&path)? {
        let again = format!("'swn anytime {}' measures again", run.display());
        let wrong = |what: String| ReportError::File {
            file: path.clone(),
            what: format!("{what}; {again}"),
        };
        let profile = Profile::from_json(&path, &text).map_err(ReportError::Profile)?;
        newest.check(&profile.outputs(), &profile.stamp()).map_err(wrong)?;
        let older = older(profile.checkpoint, newest.number());
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

    /// Checks that figures with these outputs and this checkpoint can be of this run. An older
    /// checkpoint is allowed.
    fn check(&self, outputs: &Outputs, stamp: &Stamp) -> Result<(), String> {
        let of_another_run = || {
            let newest = self.stamp.filter(|newest| newest.number == stamp.number)?;
            newest.contradiction(stamp)
        };
        self.outputs.contradiction(outputs).or_else(of_another_run).map_or(Ok(()), Err)
    }
}

/// Checks that a record has figures of known outputs only, and of all outputs together.
fn check_subsets(record: &EvaluationRecord, outputs: &Outputs) -> Result<(), String> {
    let corrupted = record.corruptions.iter().flat_map(|all| {
        let sets = all.sets.iter().flat_map(|set| &set.report.subsets);
        sets.chain(all.averages.iter().flat_map(|average| &average.subsets))
    });
    let subsets = record.report.subsets.iter().chain(corrupted).map(|entry| entry.members);
    let (count, words, all) = (outputs.count(), outputs.words(), Subset::all(outputs.count()));
    let unknown = |members: String| Err(format!("it has {words} {members}, the run has {count}"));
    if let Some(subset) = { subsets }.find(|subset| !subset.is_within(all)) {
        return unknown(subset.to_string());
    }
    let mut ends = record.interpolation.iter().flat_map(|line| line.members);
    if let Some(member) = ends.find(|&end| end >= count) {
        return unknown(member.to_string());
    }
    match record.report.figures(all) {
        Some(_) => Ok(()),
        None => Err(format!("it has no figures of all {count} {words} together")),
    }
}

/// Contents of a file; none if it does not exist.
fn text(path: &Path) -> Result<Option<String>, ReportError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReportError::File { file: path.to_owned(), what: error.to_string() }),
        Ok(text) => Ok(Some(text)),
    }
}

/// A note on the checkpoint if figures are of an older one.
fn older(of: u64, newest: Option<u64>) -> String {
    match newest {
        Some(newest) if of != newest => {
            format!(" (checkpoint {of}; the newest is {newest})")
        }
        _ => String::new(),
    }
}

/// An evaluation as the page draws it.
fn view(
    record: EvaluationRecord,
    split: &str,
    on: &str,
    newest: Option<u64>,
    test_images: Option<u64>,
) -> Evaluation {
    let images = record.report.images as u64;
    let older = older(record.checkpoint, newest);
    let all = test_images.filter(|&all| images < all);
    let some = all.map(|all| format!(" (some of {})", with_commas(all))).unwrap_or_default();
    let partial = !older.is_empty() || all.is_some();
    let lines = record.interpolation.into_iter().map(|line| Interpolation {
        from: line.members[0],
        to: line.members[1],
        points: line.points.into_iter().map(|point| (point.t, point.figures.top1)).collect(),
    });
    Evaluation {
        split: split.to_owned(),
        on: on.to_owned() + &older + &some,
        images,
        partial,
        subsets: record.report.subsets.into_iter().filter_map(subset).collect(),
        diversity: record.report.diversity,
        corruptions: record.corruptions.map(corruptions),
        latency: None,
        interpolations: lines.collect(),
    }
}

/// A value; none if it is not finite.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// The scores of a subset; none if its accuracy is not finite.
fn subset(read: SubsetReport) -> Option<SubsetView> {
    let bin = |bin: Bin| {
        let (confidence, accuracy) = bin.means().unwrap_or_default();
        BinView { images: bin.images, confidence: 100.0 * confidence, accuracy: 100.0 * accuracy }
    };
    let Figures { top1, top5, nll, ece } = read.figures;
    Some(SubsetView {
        members: read.members,
        top1: finite(top1)?,
        top5: finite(top5),
        nll: finite(nll),
        ece: finite(ece),
        bins: read.reliability.into_iter().map(bin).collect(),
    })
}

/// Time and accuracy of a subset.
fn timed(read: SubsetProfile) -> LatencyView {
    let SubsetProfile { members, top1, time, .. } = read;
    LatencyView { members, ms: time.median_ms, p99: Some(time.p99_ms), top1, front: false }
}

/// Figures of all outputs together: the largest subset.
fn ensemble(subsets: &[SubsetReport]) -> Option<Figures> {
    subsets.iter().max_by_key(|subset| subset.members.len()).map(|subset| subset.figures)
}

/// Accuracy of all outputs together under each corruption.
fn corruptions(read: CorruptionsRecord) -> Corruptions {
    let mut kinds: Vec<CorruptionRow> = vec![];
    for set in &read.sets {
        let name = set.kind.name().replace(['-', '_'], " ");
        let at = kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            kinds.push(CorruptionRow { name, top1: vec![] });
            kinds.len() - 1
        });
        // Severities are 1 to 5; any other is not drawn.
        if let Some(column) = set.severity.get().checked_sub(1).filter(|column| *column < 5) {
            let (row, column) = (&mut kinds[at].top1, usize::from(column));
            row.resize(row.len().max(column + 1), None);
            row[column] = ensemble(&set.report.subsets).and_then(|all| finite(all.top1));
        }
    }
    let mean = read.averages.iter().find(|average| average.types == STANDARD_TYPES);
    let mean = mean.and_then(|average| ensemble(&average.subsets));
    Corruptions {
        source: read.source,
        kinds,
        mean_top1: mean.and_then(|mean| finite(mean.top1)),
        mean_nll: mean.and_then(|mean| finite(mean.nll)),
        mean_ece: mean.and_then(|mean| finite(mean.ece)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;

    /// A record as `swn eval --corruptions … --interpolate 0,1` writes it, shortened.
    const TEST: &str = r#"{ "run": "runs/a", "checkpoint": 5, "data": "cifar-10", "split": "test", "members": ["a", "a"],
        "images": 100, "subsets": [
          { "members": [0], "top1": 50.0, "top5": 90.0, "nll": 1.5, "ece": 3.0 },
          { "members": [0, 1], "top1": 60.0, "top5": 95.0, "nll": null, "ece": 2.0,
            "reliability": [{ "images": 0, "correct": 0, "confidence": 0.0 }, { "images": 4, "correct": 3, "confidence": 3.4 }] }],
        "diversity": 0.8, "corruptions": { "source": "regenerated", "seed": 0, "averages": [
            { "types": 17, "severities": 1, "subsets": [{ "members": [0, 1], "top1": 1.0 }] },
            { "types": 15, "severities": 1, "subsets": [{ "members": [0], "top1": 2.0 }, { "members": [0, 1], "top1": 40.0 }] }],
          "sets": [{ "type": "gaussian_noise", "severity": 3, "images": 100, "subsets": [{ "members": [0, 1], "top1": 33.0 }], "diversity": null }] },
        "interpolation": { "members": [0, 1], "points": [{ "t": 0.0, "top1": 50.0, "nll": 1.0 }, { "t": 1.0, "top1": 51.0 }] },
        "pass_seconds": 1.0, "subsets_seconds": 0.1 }"#;
    const ANYTIME: &str = r#"{ "version": 1, "checkpoint": 6, "device": "cpu, 2 threads", "batch_size": 1, "rounds": 100, "data": "test",
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
    fn records_and_profiles_are_read() {
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

    /// Files of other runs are refused with a message that names outputs, checkpoint or members.
    #[test]
    fn files_of_other_runs_are_refused() {
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
        let message = error([TEST, &profile], &exits).unwrap();
        assert!(
            message.contains("test.json: of a, a, the run has 2 exits of a; 'swn eval"),
            "{message}"
        );
        let message = error(
            [&TEST.replace("\"images\": 100,", "\"images\": 100, \"exits\": true,"), &profile],
            &exits,
        );
        assert!(
            message
                .unwrap()
                .contains("anytime.json: of a, a, the run has 2 exits of a; 'swn anytime")
        );
        let with = |text: &str, digest: &str| {
            text.replacen(
                "\"checkpoint\": 5,",
                &format!("\"checkpoint\": 5, \"digest\": \"{digest}\","),
                1,
            )
        };
        assert_eq!(error([&with(TEST, "2ab"), &with(&profile, "2ab")], &two()), None);
        let message = error([&with(TEST, "2ac"), &profile], &two()).unwrap();
        assert!(
            message.contains("test.json: of checkpoint 5 of another run; 'swn eval"),
            "{message}"
        );
        let message = error([TEST, &with(&profile, "2ac")], &two()).unwrap();
        assert!(
            message.contains("anytime.json: of checkpoint 5 of another run; 'swn anytime"),
            "{message}"
        );
        for (from, to, expected) in [
            (
                "\"members\": [0], \"top1\": 50.0",
                "\"members\": [2], \"top1\": 50.0",
                "it has members 2, the run has 2",
            ),
            (
                "\"interpolation\": { \"members\": [0, 1]",
                "\"interpolation\": { \"members\": [0, 9]",
                "it has members 9, the run has 2",
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
            let message = error([&TEST.replacen(from, to, 1), &profile], &two()).unwrap();
            assert!(message.contains(expected), "{message}");
        }
        let message = error([TEST, &ANYTIME[..100]], &two()).unwrap();
        assert!(message.contains("anytime.json: EOF"), "{message}");
        fs::rename(&paths[0], folder.0.join("evaluation/validation.json")).unwrap();
        let newest = Newest { stamp: Some(&stamp), outputs: &exits, test: None };
        let message = read(&folder.0, &newest).unwrap_err().to_string();
        assert!(
            message.contains("validation.json: of a, a, ")
                && message.contains(" --validation' evaluates again"),
            "{message}"
        );
    }
}
