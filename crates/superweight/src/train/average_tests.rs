//! Means of epochs: what they are of, and that batch norm fits them.

use superweight_engine::Device;

use super::testing::{StopAfter, create, numbers, resume, run_path, tiny, unbroken};
use super::{Limits, Session, Stopped};
use crate::data::testing::Folder;
use crate::run::{Checkpoint, Disk, Event, Tensor, Values, read_log};

/// Stopped after so many epochs.
fn after(epochs: u64, set: &[&str]) -> Checkpoint {
    let folder = Folder::new("after");
    let mut stop = StopAfter::new(epochs, 0);
    let limits = stop.limits.clone();
    create(Disk::default(), &folder.0, &tiny(set)).unwrap().run(&limits, &mut stop).unwrap();
    numbers(&run_path(&folder.0)).1
}

fn values(tensor: Option<&Tensor>) -> &[f32] {
    match tensor.expect("all have the same tensors").values() {
        Values::F32(values) => values,
        _ => panic!("trained numbers are f32"),
    }
}

fn is_statistic(name: &str) -> bool {
    name.contains("running_")
}

#[test]
fn what_is_kept_is_the_mean_of_what_the_last_epochs_end_with() {
    let [second, third, last] = [2, 3, 4].map(|epochs| after(epochs, &[]));
    let folder = Folder::new("averaged");
    let outcome = unbroken(&folder.0, &tiny(&["train.average=3"]));
    let (_, averaged) = numbers(&run_path(&folder.0));
    let files = |checkpoint: &Checkpoint| [checkpoint.bank.clone(), checkpoint.members.clone()];
    let [second, third, last] = [second, third, last].map(|checkpoint| files(&checkpoint));
    let mut moved = 0;
    for (i, file) in files(&averaged).iter().enumerate() {
        for (name, mean) in file.iter().filter(|(name, _)| !is_statistic(name)) {
            let of = |file: &[crate::run::Tensors; 2]| values(file[i].get(name)).to_vec();
            let (a, b, c) = (of(&second), of(&third), of(&last));
            for (j, mean) in values(Some(mean)).iter().enumerate() {
                let exact = (f64::from(a[j]) + f64::from(b[j]) + f64::from(c[j])) / 3.0;
                assert!((f64::from(*mean) - exact).abs() < 1e-6, "{name}[{j}]: {mean}, {exact}");
                moved += usize::from((mean - c[j]).abs() > 1e-6);
            }
        }
    }
    assert!(moved > 100, "the mean is not what the last epoch ended with: {moved} numbers differ");
    assert!(averaged.average.is_empty(), "the mean is the network now");
    let lines = read_log(&run_path(&folder.0).join("log.jsonl")).unwrap();
    let said: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::Epoch { metrics, .. } => Some(metrics.get("averaged").cloned()),
            _ => None,
        })
        .collect();
    assert_eq!(said, [None, None, None, Some(3.into())]);
    // What was measured is what lies in the folder.
    let mut session = resume(Disk::default(), &run_path(&folder.0), &tiny(&["train.average=3"])).unwrap();
    assert_eq!(session.run(&Limits::default(), &mut ()).unwrap().test, outcome.test);
}

/// Wherever running statistics began, they end with those of the mean's own activations.
#[test]
fn batch_norm_forgets_the_networks_that_the_mean_is_of() {
    let folder = Folder::new("settled");
    let resolved = tiny(&["train.average=2"]);
    unbroken(&folder.0, &resolved);
    let (_, kept) = numbers(&run_path(&folder.0));
    let mut session = resume(Disk::default(), &run_path(&folder.0), &resolved).unwrap();
    let before = statistics(&session);
    let memory = session.trainer.parts_mut().0.memory_mut();
    for (name, values) in &before {
        memory.set_statistic(name, &vec![7.0; values.len()]).unwrap();
    }
    let phase = session.phase();
    session.settle(&phase, &Limits::default()).unwrap().unwrap();
    for ((name, before), (_, now)) in before.iter().zip(statistics(&session)) {
        for (before, now) in before.iter().zip(now) {
            assert!((before - now).abs() < 1e-3 * before.abs().max(1.0), "{name}: {before}, {now}");
        }
    }
    let now = session.capture().unwrap().unwrap();
    assert_eq!(now.bank, kept.bank, "no step of rate 0 moves a number");
}

fn statistics<D: Device>(session: &Session<D>) -> Vec<(String, Vec<f32>)> {
    let memory = session.trainer.ensemble().memory();
    let all = memory.layout().statistics();
    all.map(|(name, region)| (name.to_owned(), memory.read(region))).collect()
}

#[test]
fn a_mean_begins_after_refinement() {
    let folder = Folder::new("refined");
    let set = [
        "strategy=swn",
        "search.epochs=1",
        "search.min_templates=2",
        "refine.epoch=2",
        "refine.beta=1",
        "train.average=2",
    ];
    assert_eq!(unbroken(&folder.0, &tiny(&set)).stopped, Stopped::Finished);
}

#[test]
fn a_checkpoint_without_the_mean_it_should_have_is_refused() {
    let folder = Folder::new("lost");
    let mut stop = StopAfter::new(3, 0);
    let limits = stop.limits.clone();
    create(Disk::default(), &folder.0, &tiny(&[])).unwrap().run(&limits, &mut stop).unwrap();
    let error = resume(Disk::default(), &run_path(&folder.0), &tiny(&["train.average=2"])).unwrap_err();
    assert!(error.to_string().contains("average.safetensors: there is no tensor"), "{error}");
    // Before the first epoch that counts there is none to miss.
    resume(Disk::default(), &run_path(&folder.0), &tiny(&["train.average=1"])).unwrap();
}
