//! Runs that search and refine: their decisions, their files, and that a stop anywhere changes
//! nothing.

use std::path::Path;
use std::sync::atomic::Ordering;

use superweight_engine::CpuDevice;

use super::crash_tests::dying;
use super::testing::{StopAfter, create, newest_checkpoint, resume, run_path, tiny, unbroken};
use super::{Decided, Limits, Observer, Progress, Stage, Stopped};
use crate::data::testing::Folder;
use crate::model::bank;
use crate::model::ensemble::{Ensemble, EnsembleOptions};
use crate::plan::SharingPlan;
use crate::recipe::{Resolved, Strategy};
use crate::run::{Checkpoint, Disk, Event, Values, read_log};
use crate::search::{Compared, Replay, Statistics, groups, replay};

/// Two epochs of search, refinement after the second of four.
fn searching(strategy: Strategy, set: &[&str]) -> Resolved {
    let word = format!("strategy={}", strategy.word());
    let mut all =
        vec![word.as_str(), "search.epochs=2", "search.clusters=2", "search.min_templates=2"];
    if strategy == Strategy::Swn {
        // One cluster at the start and a low τ: in so small networks little stays together
        // otherwise.
        all.extend(["refine.epoch=2", "refine.beta=0.5", "plan.clusters=single", "search.tau=0"]);
    }
    all.extend(set);
    tiny(&all)
}

/// Records all decisions of a run.
#[derive(Default)]
struct Decisions(Vec<Decided>);

impl Observer for Decisions {
    fn on_progress(&mut self, progress: Progress<'_>) {
        if let Progress::Decided(decided) = progress {
            self.0.push(decided.clone());
        }
    }
}

fn statistics(run: &Path) -> Statistics {
    Statistics::load(&run.join("statistics.safetensors")).unwrap()
}

#[test]
fn a_run_searches_reinitialises_and_refines_within_its_budget() {
    for set in [["plan.tiling=grid", "budget='90%'"], ["plan.tiling=nested", "budget='300%'"]] {
        let (folder, resolved) = (Folder::new("swn"), searching(Strategy::Swn, &set));
        let mut seen = Decisions::default();
        let outcome = create(Disk::default(), &folder.0, &resolved)
            .unwrap()
            .run(&Limits::default(), &mut seen)
            .unwrap();
        assert_eq!((outcome.stopped, outcome.position.epoch), (Stopped::Finished, 4));
        let [clusters, refined] = &seen.0[..] else { panic!("{} decisions", seen.0.len()) };
        assert_eq!((clusters.stage, refined.stage), (Stage::Search, Stage::Train));
        assert_eq!(clusters.decision.plan, refined.before);
        let count = |plan: &SharingPlan| plan.clusters.len();
        assert!(
            count(&clusters.decision.plan) > count(&clusters.before),
            "τ = 0 splits a cluster here"
        );
        assert!(
            groups(&refined.decision.plan) > groups(&refined.before),
            "β = 0.5 splits a group here"
        );
        let budget = resolved.plan_request().unwrap().budget.unwrap();
        for plan in [&clusters.before, &refined.before, &refined.decision.plan] {
            assert!(plan.bill.total() <= budget);
        }
        let run = run_path(&folder.0);
        let (number, checkpoint) = newest_checkpoint(&run);
        assert_eq!(number, 6, "checkpoints count through both phases");
        let plan = SharingPlan::from_json(&checkpoint.plan).unwrap();
        assert_eq!(plan, refined.decision.plan);
        // Every parameter is in the checkpoint once, and the bill has their number.
        let all = [&checkpoint.bank, &checkpoint.members].into_iter().flat_map(|file| file.iter());
        let trained = all.filter(|(name, _)| !name.contains("running_"));
        assert_eq!(trained.map(|(_, t)| t.values().len() as u64).sum::<u64>(), plan.bill.trained());

        // Must show: the file gives the same plans again.
        let statistics = statistics(&run);
        let Compared::Gradients(pairs) = &statistics.search.as_ref().unwrap().compared else {
            panic!()
        };
        assert!(
            pairs.iter().all(|pair| pair.squares[0] > 0.0 && pair.squares[1] > 0.0),
            "something is learnt"
        );
        let beta = resolved.refine.as_ref().unwrap().beta;
        let again = replay(&resolved, &statistics, Replay { tau: None, beta: Some(beta) }).unwrap();
        assert_eq!(again.clusters.as_ref(), Some(&clusters.decision));
        assert_eq!(again.groups.as_ref(), Some(&refined.decision));
        let lines = read_log(&run.join("log.jsonl")).unwrap();
        let decided =
            |line: &&crate::run::Line| matches!(line.event, Event::Search(_) | Event::Refine(_));
        assert_eq!(lines.iter().filter(decided).count(), 2);
    }
}

/// Training after a search is the training of the plan it found: the search leaves nothing else
/// behind.
#[test]
fn training_keeps_no_parameter_of_the_search() {
    let (folder, resolved) =
        (Folder::new("reinit"), searching(Strategy::NoRefine, &["train.epochs=2"]));
    unbroken(&folder.0, &resolved);
    let (_, found) = newest_checkpoint(&run_path(&folder.0));
    let plan = SharingPlan::from_json(&found.plan).unwrap();
    let clusters: Vec<_> = plan.clusters.iter().map(|cluster| cluster.layers.clone()).collect();

    let mut given = tiny(&["strategy=no-search", "train.epochs=2"]);
    given.strategy = Strategy::NoRefine;
    given.plan.clusters = crate::plan::Clustering::Explicit(clusters);
    given.plan.tiling = crate::plan::TilingChoice::Grid;
    let plain = Folder::new("plain");
    unbroken(&plain.0, &given);
    let (_, expected) = newest_checkpoint(&run_path(&plain.0));
    assert_eq!(found.plan, expected.plan);
    assert_eq!(
        (found.bank, found.members, found.optimizer),
        (expected.bank, expected.members, expected.optimizer)
    );
}

/// Records all decisions, and stops after refinement.
#[derive(Default)]
struct UntilRefined(Decisions, Limits);

impl Observer for UntilRefined {
    fn on_progress(&mut self, progress: Progress<'_>) {
        if matches!(&progress, Progress::Decided(decided) if decided.stage == Stage::Train) {
            self.1.interrupt.store(true, Ordering::Relaxed);
        }
        self.0.on_progress(progress);
    }
}

/// With `refine.reinit` the run has the refined groups and freshly initialised parameters.
#[test]
fn reinit_after_refinement_keeps_no_parameter() {
    let run_with = |epochs: &str, set: &str| {
        let resolved = searching(Strategy::Swn, &[epochs, set]);
        let (folder, mut seen) = (Folder::new("reinit"), UntilRefined::default());
        let limits = seen.1.clone();
        create(Disk::default(), &folder.0, &resolved).unwrap().run(&limits, &mut seen).unwrap();
        let [clusters, refined] = &seen.0.0[..] else { panic!("{} decisions", seen.0.0.len()) };
        assert!(clusters.reinit && groups(&refined.decision.plan) > groups(&refined.before));
        (resolved, refined.clone(), newest_checkpoint(&run_path(&folder.0)).1)
    };
    let (resolved, refined, found) = run_with("train.epochs=3", "refine.reinit=true");
    let (_, copied, kept) = run_with("train.epochs=3", "refine.reinit=false");
    assert_eq!((refined.reinit, copied.reinit), (true, false));
    assert_eq!((&refined.before, &refined.decision), (&copied.before, &copied.decision));
    assert_ne!(found.bank, kept.bank);

    // Where no epoch is left to learn in, what was learned is kept.
    let (_, late, trained) = run_with("train.epochs=2", "refine.reinit=true");
    let (_, copied, expected) = run_with("train.epochs=2", "refine.reinit=false");
    assert_eq!((late.reinit, &late.decision), (false, &copied.decision));
    assert_eq!(trained.bank, expected.bank);

    // The run was stopped right after refinement, so nothing has moved since.
    let plan = &refined.decision.plan;
    let options = EnsembleOptions::train(2);
    let mut drawn = Ensemble::new(&CpuDevice::new(1).unwrap(), plan, &options).unwrap();
    bank::initialize(plan, drawn.memory_mut(), resolved.seed).unwrap();
    let floats = |values: &Values| match values {
        Values::F32(values) => values.clone(),
        other => panic!("{:?}", other.dtype()),
    };
    let sorted = |mut values: Vec<f32>| {
        values.sort_by(f32::total_cmp);
        values
    };
    let templates = found.bank.iter().filter(|(name, _)| name.starts_with("templates"));
    let equal = templates.map(|(name, tensor)| {
        assert_eq!(
            sorted(floats(tensor.values())),
            sorted(drawn.memory().parameter(name).unwrap()),
            "{name}"
        );
    });
    assert_eq!(equal.count(), plan.template_sets.len());
    assert!(
        found.optimizer.iter().all(|(_, tensor)| floats(tensor.values()).iter().all(|&v| v == 0.0))
    );
}

#[test]
fn a_run_stopped_around_its_decisions_decides_the_same() {
    for (strategy, set, stops) in [
        // Search epochs 1 and 2, training epochs 1 to 3; inside of the epochs that are probed.
        (Strategy::Swn, "plan.tiling=auto", &[(1, 0), (2, 0), (3, 0), (1, 2)][..]),
        (Strategy::Swn, "plan.tiling=kronecker", &[(1, 0), (2, 0), (3, 0), (1, 2)]),
        (Strategy::Swn, "refine.reinit=true", &[(2, 0), (1, 2)]),
        (Strategy::WeightSimilarity, "plan.tiling=auto", &[(1, 0), (1, 2)]),
        (Strategy::CoefficientClustering, "plan.tiling=auto", &[(1, 0), (1, 2)]),
        (Strategy::CoefficientClustering, "plan.tiling=stretched", &[(1, 0), (2, 0), (1, 2)]),
        (Strategy::AllSoft, "plan.tiling=kronecker", &[(2, 0)]),
    ] {
        let resolved = searching(strategy, &["search.batches=2", set]);
        let whole = Folder::new("whole");
        assert_eq!(unbroken(&whole.0, &resolved).stopped, Stopped::Finished);
        let expected = newest_checkpoint(&run_path(&whole.0));
        for &(epochs, steps) in stops {
            let folder = Folder::new("parts");
            let run = run_path(&folder.0);
            let mut stop = StopAfter::new(epochs, steps);
            let limits = stop.limits.clone();
            let first = create(Disk::default(), &folder.0, &resolved)
                .unwrap()
                .run(&limits, &mut stop)
                .unwrap();
            assert_eq!(first.stopped, Stopped::Interrupted, "{strategy:?}");
            // Once more at the same place of the next phase, where there is one.
            let mut stop = StopAfter::new(epochs, steps);
            let limits = stop.limits.clone();
            let second =
                resume(Disk::default(), &run, &resolved).unwrap().run(&limits, &mut stop).unwrap();
            if second.stopped == Stopped::Interrupted {
                resume(Disk::default(), &run, &resolved)
                    .unwrap()
                    .run(&Limits::default(), &mut ())
                    .unwrap();
            }
            assert_eq!(
                newest_checkpoint(&run),
                expected,
                "{strategy:?}, stopped after {epochs}, {steps}"
            );
            assert_eq!(statistics(&run), statistics(&run_path(&whole.0)));
        }
    }
}

/// The search's last epoch and refinement's are the first of their phases, so that every checkpoint
/// is one of a decision.
#[test]
fn a_crash_between_any_two_operations_around_decisions_changes_nothing() {
    let set =
        ["members=['cnn-4-8-8', 'cnn-4-8']", "budget='200%'", "plan.block=4", "data.validation=0"];
    let short = ["search.epochs=1", "train.epochs=2", "refine.epoch=1", "search.tau=-1"];
    let resolved = searching(Strategy::Swn, &[&set[..], &short].concat());
    let whole = Folder::new("whole");
    let (disk, count) = dying(usize::MAX);
    let mut seen = Decisions::default();
    create(disk, &whole.0, &resolved).unwrap().run(&Limits::default(), &mut seen).unwrap();
    assert_eq!(seen.0.len(), 2);
    assert_ne!(seen.0[1].before, seen.0[1].decision.plan, "refinement splits something here");
    let operations = count.load(Ordering::Relaxed);
    let (expected, kept) =
        (newest_checkpoint(&run_path(&whole.0)), statistics(&run_path(&whole.0)));
    for stop in (0..operations).step_by(3) {
        let folder = Folder::new("crash");
        let run = run_path(&folder.0);
        let (disk, _) = dying(stop);
        let crashed = create(disk, &folder.0, &resolved)
            .and_then(|mut session| session.run(&Limits::default(), &mut ()).map(|_| ()));
        assert!(crashed.is_err(), "before operation {stop}");
        let mut session = match run.exists() {
            true => resume(Disk::default(), &run, &resolved).unwrap(),
            false => create(Disk::default(), &folder.0, &resolved).unwrap(),
        };
        assert_eq!(session.run(&Limits::default(), &mut ()).unwrap().stopped, Stopped::Finished);
        assert_eq!(
            newest_checkpoint(&run),
            expected,
            "crash before operation {stop} of {operations}"
        );
        assert_eq!(statistics(&run), kept, "crash before operation {stop} of {operations}");
    }
}

/// What a search found, given as a plan: training is the same, bit for bit, stopped and gone on
/// with or not.
#[test]
fn a_plan_that_is_given_is_trained_as_if_it_had_been_found() {
    let (searched, resolved) = (Folder::new("searched"), searching(Strategy::Swn, &[]));
    let mut seen = Decisions::default();
    create(Disk::default(), &searched.0, &resolved)
        .unwrap()
        .run(&Limits::default(), &mut seen)
        .unwrap();
    let trained = |run: &Path| {
        let Checkpoint { plan, bank, members, optimizer, .. } = newest_checkpoint(run).1;
        (plan, bank, members, optimizer)
    };
    let folder = Folder::new("given");
    std::fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("found.json");
    std::fs::write(&file, seen.0[0].decision.plan.to_json()).unwrap();
    let mut given = Resolved { search: None, ..resolved };
    given.plan.file = Some(file.clone());
    let mut stop = StopAfter::new(0, 2);
    let limits = stop.limits.clone();
    let stopped =
        create(Disk::default(), &folder.0, &given).unwrap().run(&limits, &mut stop).unwrap();
    assert_eq!(
        (stopped.stopped, stopped.position.epoch),
        (Stopped::Interrupted, 0),
        "before a checkpoint"
    );
    // From now on the run has it.
    std::fs::remove_file(&file).unwrap();
    let run = run_path(&folder.0);
    given.plan.file = Some(run.join("given.json"));
    let outcome =
        resume(Disk::default(), &run, &given).unwrap().run(&Limits::default(), &mut ()).unwrap();
    assert_eq!(outcome.stopped, Stopped::Finished);
    assert_eq!(trained(&run), trained(&run_path(&searched.0)));
}

#[test]
fn a_plan_of_others_or_over_the_budget_is_refused() {
    let (folder, resolved) = (Folder::new("refused"), searching(Strategy::Swn, &[]));
    std::fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("p.json");
    let plan = resolved.train_request().unwrap().plan().unwrap();
    let mut given = Resolved { search: None, ..resolved };
    given.plan.file = Some(file.clone());
    let refused = |given: &Resolved, plan: &SharingPlan| {
        std::fs::write(&file, plan.to_json()).unwrap();
        let error = create(Disk::default(), &folder.0, given).err().unwrap().to_string();
        assert!(!run_path(&folder.0).exists() && error.contains("p.json: "), "{error}");
        error
    };
    let small = Resolved { budget: "1000".parse().unwrap(), ..given.clone() };
    assert!(refused(&small, &plan).contains("the recipe's budget is 1,000: raise the budget"));
    let other = Resolved { members: vec!["wrn-10-1".parse().unwrap()], ..given.clone() };
    assert!(refused(&other, &plan).contains("the recipe has 1 members, the plan 2"));
    std::fs::write(&file, "{}").unwrap();
    let error = create(Disk::default(), &folder.0, &given).err().unwrap().to_string();
    assert!(error.contains("p.json: "), "{error}");
}

#[test]
fn a_search_alone_stops_where_training_would_begin() {
    let (folder, resolved) = (Folder::new("alone"), searching(Strategy::Swn, &[]));
    let limits = Limits { search_only: true, ..Limits::default() };
    let outcome =
        create(Disk::default(), &folder.0, &resolved).unwrap().run(&limits, &mut ()).unwrap();
    assert_eq!(
        (outcome.stopped, outcome.position.phase, outcome.position.epoch),
        (Stopped::Searched, Stage::Train, 0)
    );
    assert_eq!((outcome.validation, outcome.test), (None, None), "what was trained is forgotten");
    let run = run_path(&folder.0);
    resume(Disk::default(), &run, &resolved).unwrap().run(&Limits::default(), &mut ()).unwrap();
    let whole = Folder::new("whole");
    unbroken(&whole.0, &resolved);
    assert_eq!(newest_checkpoint(&run), newest_checkpoint(&run_path(&whole.0)));
}

#[test]
fn every_strategy_compares_what_it_says() {
    for strategy in Strategy::ALL {
        let (folder, resolved) =
            (Folder::new("compared"), searching(strategy, &["train.epochs=2"]));
        assert_eq!(unbroken(&folder.0, &resolved).stopped, Stopped::Finished, "{strategy:?}");
        let run = run_path(&folder.0);
        if resolved.search.is_none() {
            assert!(!run.join("statistics.safetensors").exists());
            continue;
        }
        let compared = statistics(&run).search.unwrap().compared;
        match strategy {
            Strategy::WeightSimilarity => assert!(matches!(compared, Compared::Weights(_))),
            Strategy::CoefficientClustering => {
                let Compared::Coefficients(means) = compared else { panic!() };
                for (_, mean) in means {
                    assert!((mean.iter().sum::<f64>() - 1.0).abs() < 1e-5, "softmaxed: {mean:?}");
                }
            }
            _ => assert!(matches!(compared, Compared::Gradients(_))),
        }
    }
}

#[test]
fn where_nothing_can_be_refined_the_run_says_so_and_goes_on() {
    let alone = "no two layers use the same coefficients";
    for (set, why) in [("refine.reserve=0", "(refine.reserve)"), ("search.tau=1", alone)] {
        let resolved = searching(Strategy::Swn, &["budget='90%'", set]);
        let folder = Folder::new("idle");
        let outcome = unbroken(&folder.0, &resolved);
        assert_eq!(outcome.stopped, Stopped::Finished);
        let lines = read_log(&run_path(&folder.0).join("log.jsonl")).unwrap();
        let warned = lines.iter().any(|line| match &line.event {
            Event::Warning(facts) => {
                let text = facts.warning.as_str();
                text.starts_with("nothing is refined: ") && text.ends_with(why)
            }
            _ => false,
        });
        assert!(warned, "{set}: {lines:?}");
    }
}
