//! Weight averages: which parameters they average, and that batch norm's statistics fit them.

use superweight_engine::Device;

use super::testing::{StopAfter, create, newest_checkpoint, resume, run_path, tiny, unbroken};
use super::{Limits, Observer, Progress, Session, StepReport, Stopped};
use crate::data::testing::Folder;
use crate::run::{Checkpoint, Disk, Event, Tensor, Values, read_log};

/// Checkpoint of a run that stops after `epochs` epochs.
fn after(epochs: u64, set: &[&str]) -> Checkpoint {
    let folder = Folder::new("after");
    let mut stop = StopAfter::new(epochs, 0);
    let limits = stop.limits.clone();
    create(Disk::default(), &folder.0, &tiny(set)).unwrap().run(&limits, &mut stop).unwrap();
    newest_checkpoint(&run_path(&folder.0)).1
}

fn values(tensor: &Tensor) -> &[f32] {
    match tensor.values() {
        Values::F32(values) => values,
        _ => panic!("parameters are f32"),
    }
}

#[test]
fn the_kept_parameters_are_the_mean_over_the_last_epochs() {
    mean_of_the_last(3, &[]);
    mean_of_the_last(
        4,
        &["plan.tiling=kronecker", "budget='90%'", "train.momentum=0", "train.nesterov=false"],
    );
    mean_of_the_last(2, &["plan.tiling=stretched", "strategy=no-search"]);
    mean_of_the_last(2, &["plan.tiling=rank-one", "strategy=no-search", "budget='120%'"]);
}

/// Averaging starts with the first epoch of the refined plan.
#[test]
fn averaging_starts_after_refinement() {
    let refined = [
        "strategy=swn",
        "plan.clusters=single",
        "budget='90%'",
        "search.epochs=1",
        "search.tau=-1",
        "search.min_templates=2",
        "refine.epoch=2",
        "refine.beta=1",
    ];
    let rows = |checkpoint: &Checkpoint| checkpoint.bank.get("coefficients.0").unwrap().shape()[0];
    let [before, after] = [1, 2].map(|epochs| rows(&after(epochs, &refined)));
    assert!(after > before, "β = 1 parts something here: {before}, {after}");
    mean_of_the_last(2, &refined);
}

fn mean_of_the_last(count: u64, set: &[&str]) {
    let folder = Folder::new("swa");
    let average = format!("train.swa_epochs={count}");
    let resolved = tiny(&[set, &[&average]].concat());
    let outcome = unbroken(&folder.0, &resolved);
    let run = run_path(&folder.0);
    let (_, swa) = newest_checkpoint(&run);
    let ends: Vec<Checkpoint> = (5 - count..=4).map(|epochs| after(epochs, set)).collect();
    let all = |checkpoint: &Checkpoint| -> Vec<(String, Vec<f32>)> {
        let all = checkpoint.bank.iter().chain(checkpoint.members.iter());
        let trained = all.filter(|(name, _)| !name.contains("running_"));
        trained.map(|(name, tensor)| (name.to_owned(), values(tensor).to_vec())).collect()
    };
    let ends: Vec<_> = ends.iter().map(all).collect();
    let mut moved = 0;
    for (i, (name, means)) in all(&swa).iter().enumerate() {
        for (j, mean) in means.iter().enumerate() {
            let of: Vec<f64> = ends.iter().map(|end| f64::from(end[i].1[j])).collect();
            let exact = of.iter().sum::<f64>() / count as f64;
            assert!((f64::from(*mean) - exact).abs() < 1e-6, "{name}[{j}]: {mean}, {exact}");
            moved += usize::from((exact - of[of.len() - 1]).abs() > 1e-5);
        }
    }
    assert!(moved > 100, "the mean is not what the last epoch ended with: {moved} numbers differ");
    assert!(swa.average.is_empty(), "the mean is the network now");
    let lines = read_log(&run.join("log.jsonl")).unwrap();
    let logged = lines.iter().filter_map(|line| match &line.event {
        Event::Epoch(done) if done.phase == "train" => Some(done.swa),
        _ => None,
    });
    assert_eq!(logged.collect::<Vec<_>>(), [0, 0, 0, count]);
    // The figures are those of the network in the folder.
    let mut session = resume(Disk::default(), &run, &resolved).unwrap();
    assert_eq!(session.run(&Limits::default(), &mut ()).unwrap().test, outcome.test);
}

/// Running statistics are those of the averaged network, whatever they were before.
#[test]
fn batch_norm_statistics_are_those_of_the_average() {
    let folder = Folder::new("recalibrated");
    let resolved = tiny(&["train.swa_epochs=2"]);
    unbroken(&folder.0, &resolved);
    let (_, kept) = newest_checkpoint(&run_path(&folder.0));
    let mut session = resume(Disk::default(), &run_path(&folder.0), &resolved).unwrap();
    let names = statistics(&session);
    let memory = session.trainer.parts_mut().0.memory_mut();
    for (name, values) in &names {
        memory.set_statistic(name, &vec![7.0; values.len()]).unwrap();
    }
    let phase = session.phase();
    session.recalibrate(&phase, &Limits::default(), &mut ()).unwrap().unwrap();
    let now = session.capture().unwrap().unwrap();
    assert_eq!((now.bank, now.members, now.optimizer), (kept.bank, kept.members, kept.optimizer));
    // They differ from those of the last epoch and from the mean over epochs.
    let [third, last] = [3, 4].map(|epochs| after(epochs, &[]));
    for (name, values) in statistics(&session) {
        let of =
            |checkpoint: &Checkpoint| self::values(checkpoint.members.get(&name).unwrap()).to_vec();
        let (third, last) = (of(&third), of(&last));
        let apart = |other: &dyn Fn(usize) -> f32| {
            (0..values.len()).any(|c| (values[c] - other(c)).abs() > 1e-4)
        };
        assert!(apart(&|c| last[c]) && apart(&|c| (third[c] + last[c]) / 2.0), "{name}");
    }
}

/// Stops a run at a step of the pass that recomputes statistics, and records the steps of that
/// pass.
#[derive(Default)]
struct StopInPass {
    at: Option<u64>,
    seen: Vec<u64>,
    limits: Limits,
}

impl Observer for StopInPass {
    fn on_progress(&mut self, progress: Progress<'_>) {
        if let Progress::Recalibrated(StepReport { epoch, epochs, step, .. }) = progress {
            assert_eq!(epoch + 1, epochs);
            self.seen.push(step);
            self.limits
                .interrupt
                .store(self.at == Some(step), std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[test]
fn a_run_stopped_while_statistics_are_recomputed_loses_only_its_last_epoch() {
    let (whole, folder) = (Folder::new("whole"), Folder::new("interrupted"));
    let resolved = tiny(&["train.swa_epochs=3"]);
    unbroken(&whole.0, &resolved);
    let mut stop = StopInPass { at: Some(2), ..StopInPass::default() };
    let limits = stop.limits.clone();
    let mut session = create(Disk::default(), &folder.0, &resolved).unwrap();
    let outcome = session.run(&limits, &mut stop).unwrap();
    assert_eq!((outcome.stopped, stop.seen.as_slice()), (Stopped::Interrupted, &[1, 2][..]));
    assert_eq!((outcome.kept.epoch, outcome.kept.swa), (3, 2));
    drop(session);
    let mut session = resume(Disk::default(), &run_path(&folder.0), &resolved).unwrap();
    let mut watch = StopInPass::default();
    session.run(&Limits::default(), &mut watch).unwrap();
    assert_eq!(newest_checkpoint(&run_path(&folder.0)), newest_checkpoint(&run_path(&whole.0)));
    assert_eq!(watch.seen, (1..=session.steps_per_epoch()).collect::<Vec<_>>());
}

/// The last epoch takes longer, because it recomputes statistics.
#[test]
fn the_last_epoch_needs_more_time() {
    let folder = Folder::new("limit");
    let mut session = create(Disk::default(), &folder.0, &tiny(&["train.swa_epochs=2"])).unwrap();
    let phase = session.phase();
    session.position.epoch_seconds = 1000.0;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(1300);
    let limits = Limits { deadline: Some(deadline), ..Limits::default() };
    for (epoch, stops) in [(2, None), (3, Some(Stopped::TimeLimit))] {
        session.position.epoch = epoch;
        assert_eq!(session.stops(&phase, &limits), stops, "before epoch {epoch}");
    }
}

fn statistics<D: Device>(session: &Session<D>) -> Vec<(String, Vec<f32>)> {
    let memory = session.trainer.ensemble().memory();
    let all = memory.layout().statistics();
    all.map(|(name, region)| (name.to_owned(), memory.read(region))).collect()
}

#[test]
fn a_checkpoint_without_its_average_is_refused() {
    let (folder, run) = (Folder::new("lost"), |folder: &Folder| run_path(&folder.0));
    let stopped = |set: &[&str]| {
        let mut stop = StopAfter::new(3, 0);
        let limits = stop.limits.clone();
        create(Disk::default(), &folder.0, &tiny(set)).unwrap().run(&limits, &mut stop).unwrap();
    };
    let goes_on = |set: &[&str]| {
        resume(Disk::default(), &run(&folder), &tiny(set))
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    stopped(&["train.swa_epochs=2"]);
    assert_eq!(goes_on(&["train.swa_epochs=2"]), Ok(()));
    let error = goes_on(&["train.swa_epochs=3"]).unwrap_err();
    assert!(error.contains("state.json: swa is 1, the recipe gives 2"), "{error}");
    // A file that its list of digests does not name is damage: the checkpoint before it is there.
    let sums = run(&folder).join("checkpoints/0003/SHA256SUMS");
    let listed = std::fs::read_to_string(&sums).unwrap();
    let lines = listed.lines().filter(|line| !line.ends_with("swa.safetensors"));
    std::fs::write(&sums, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let session = resume(Disk::default(), &run(&folder), &tiny(&["train.swa_epochs=2"])).unwrap();
    assert_eq!(session.position.epoch, 2);
    drop(session);
    // Neither named nor there.
    std::fs::remove_file(sums.with_file_name("swa.safetensors")).unwrap();
    let error = goes_on(&["train.swa_epochs=2"]).unwrap_err();
    assert!(error.contains("swa.safetensors: there is no tensor"), "{error}");
}
