//! Runs that stop and resume give the same bits as runs that do not stop.

use std::fs;
use std::time::{Duration, Instant};

use superweight_engine::{
    LayoutBuilder, Memory, ParameterGroup, Program, Settings, Sgd, SgdOptions,
};

use super::testing::{
    StopAfter, create, data, device, newest_checkpoint, resume, run_path, tiny, unbroken,
};
use super::{Limits, Observer, Progress, Stopped, TrainError};
use crate::data::testing::Folder;
use crate::data::{Batches, Phase, Split, TrainBatches, ValidationSplit};
use crate::model::bank;
use crate::model::ensemble::ParameterKind;
use crate::model::lower::{IMAGES, LABELS, Lowering, lower};
use crate::recipe::Resolved;
use crate::recipe::schedule::Length;
use crate::run::{Disk, Event, read_log};

/// Every schedule and training mode, with all its changes inside of four epochs.
const SCHEDULES: [&[&str]; 7] = [
    &["train.schedule=constant", "train.warmup_epochs=2"],
    &["train.schedule=multistep", "train.milestones=[1, 3]", "train.warmup_epochs=1"],
    &["train.schedule=one-cycle", "train.pct_start=0.5"],
    &[
        "train.schedule=multistep",
        "train.momentum=0",
        "train.nesterov=false",
        "train.label_smoothing=0.1",
    ],
    &["train.swa_epochs=3"],
    &[TURNS, "train.members_per_step=3", "train.distillation=true"],
    &["members=['mimo-2-cnn-8']", "budget=100%", "train.batch_repetitions=3"],
];

/// Five members; with three members per step one of the three middle ones trains in each step.
const TURNS: &str = "members=['wrn-10-1', 'cnn-4-8', 'wrn-10-2', 'cnn-4', 'cnn-6']";

#[test]
fn epochs_a_resume_and_more_epochs_are_the_same_as_all_at_once() {
    for set in SCHEDULES {
        let resolved = tiny(set);
        let whole = Folder::new("whole");
        assert_eq!(unbroken(&whole.0, &resolved).stopped, Stopped::Finished);
        let expected = newest_checkpoint(&run_path(&whole.0));
        assert_eq!(expected.0, 4);
        // After each epoch, and inside of the first and the third.
        for (epochs, steps) in [(1, 0), (2, 0), (3, 0), (0, 2), (2, 1)] {
            let folder = Folder::new("parts");
            let mut stop = StopAfter::new(epochs, steps);
            let limits = stop.limits.clone();
            let outcome = create(Disk::default(), &folder.0, &resolved)
                .unwrap()
                .run(&limits, &mut stop)
                .unwrap();
            assert_eq!(
                (outcome.stopped, outcome.position.epoch),
                (Stopped::Interrupted, epochs),
                "{set:?}"
            );
            let mut session = resume(Disk::default(), &run_path(&folder.0), &resolved).unwrap();
            assert_eq!(
                session.run(&Limits::default(), &mut ()).unwrap().stopped,
                Stopped::Finished
            );
            assert_eq!(
                newest_checkpoint(&run_path(&folder.0)),
                expected,
                "{set:?}, stopped after {epochs}, {steps}"
            );
        }
    }
}

/// With fewer checkpoints a kill loses more epochs, a clean stop loses none, and the result has the
/// same bits.
#[test]
fn fewer_checkpoints_give_the_same_bits() {
    let resolved = tiny(&["train.epochs=5"]);
    let whole = Folder::new("whole");
    unbroken(&whole.0, &resolved);
    let expected = newest_checkpoint(&run_path(&whole.0));
    let every_third = |limits: Limits| Limits { checkpoint_every: Some(3), ..limits };
    // Stops after the fourth epoch, and in the middle of the third: before the first checkpoint.
    for (epochs, steps, kept) in [(4, 0, Some((2, 4))), (2, 1, None)] {
        let folder = Folder::new("seldom");
        let run = run_path(&folder.0);
        let mut stop = StopAfter::new(epochs, steps);
        let limits = every_third(stop.limits.clone());
        let outcome =
            create(Disk::default(), &folder.0, &resolved).unwrap().run(&limits, &mut stop).unwrap();
        assert_eq!(
            (outcome.stopped, outcome.checkpoint),
            (Stopped::Interrupted, kept.map(|(number, _)| number))
        );
        assert_eq!(outcome.kept.epoch, kept.map_or(0, |(_, epoch)| epoch));
        let mut session = resume(Disk::default(), &run, &resolved).unwrap();
        assert_eq!(
            session.resumed.map(|(_, position)| position.epoch),
            kept.map(|(_, epoch)| epoch)
        );
        let limits = every_third(Limits::default());
        assert_eq!(session.run(&limits, &mut ()).unwrap().stopped, Stopped::Finished);
        let (number, checkpoint) = newest_checkpoint(&run);
        assert_eq!((number, &checkpoint), (kept.map_or(2, |(number, _)| number + 1), &expected.1));
        let lines = read_log(&run.join("log.jsonl")).unwrap();
        let epochs = lines.iter().filter(|line| matches!(line.event, Event::Epoch(_))).count();
        assert_eq!(epochs, 5, "no epoch stands in the log twice");
    }
}

#[test]
fn evaluations_and_log_are_those_of_a_run_that_never_stopped() {
    for (set, members) in [(&[] as &[&str], 2), (&[TURNS, "train.members_per_step=3"], 5)] {
        its_evaluations_and_log(&tiny(&[set, &["eval.test_every=2"]].concat()), members);
    }
}

fn its_evaluations_and_log(resolved: &Resolved, members: usize) {
    let (whole, parts) = (Folder::new("whole"), Folder::new("parts"));
    let expected = unbroken(&whole.0, resolved);
    let mut stop = StopAfter::new(2, 0);
    let limits = stop.limits.clone();
    create(Disk::default(), &parts.0, resolved).unwrap().run(&limits, &mut stop).unwrap();
    let mut session = resume(Disk::default(), &run_path(&parts.0), resolved).unwrap();
    let outcome = session.run(&Limits::default(), &mut ()).unwrap();
    assert_eq!((&outcome.test, &outcome.validation), (&expected.test, &expected.validation));
    let test = outcome.test.unwrap();
    assert_eq!(
        (test.images, test.members.len(), outcome.validation.unwrap().images),
        (9, members, 6)
    );
    let figures = |folder: &Folder| {
        let lines = read_log(&run_path(&folder.0).join("log.jsonl")).unwrap();
        let epoch = |line: crate::run::Line| match line.event {
            Event::Epoch(done) => {
                assert_eq!(done.train.losses.len(), members);
                Some((done.epoch, done.train.losses, done.validation, done.test))
            }
            _ => None,
        };
        lines.into_iter().filter_map(epoch).collect::<Vec<_>>()
    };
    assert_eq!(figures(&whole), figures(&parts));
    let tested: Vec<bool> = figures(&whole).iter().map(|(.., test)| test.is_some()).collect();
    assert_eq!(tested, [false, true, false, true]);
}

#[test]
fn a_finished_run_resumes_to_its_test_and_nothing_else() {
    let (folder, resolved) = (Folder::new("finished"), tiny(&["train.epochs=1"]));
    let first = unbroken(&folder.0, &resolved);
    let before = newest_checkpoint(&run_path(&folder.0));
    let mut session = resume(Disk::default(), &run_path(&folder.0), &resolved).unwrap();
    let again = session.run(&Limits::default(), &mut ()).unwrap();
    assert_eq!((again.stopped, again.test), (Stopped::Finished, first.test));
    assert_eq!(newest_checkpoint(&run_path(&folder.0)), before);
}

#[test]
fn validation_runs_at_its_interval_and_at_the_end() {
    let (folder, resolved) =
        (Folder::new("seldom"), tiny(&["train.epochs=3", "eval.validation_every=2"]));
    let outcome = unbroken(&folder.0, &resolved);
    assert_eq!(outcome.validation.unwrap().images, 6);
    let lines = read_log(&run_path(&folder.0).join("log.jsonl")).unwrap();
    let seen = lines.iter().filter_map(|line| match &line.event {
        Event::Epoch(done) => Some((done.phase.clone(), done.validation.is_some())),
        _ => None,
    });
    let of_training: Vec<bool> =
        seen.filter(|(phase, _)| phase == "train").map(|(_, validated)| validated).collect();
    assert_eq!(of_training, [false, true, true]);
}

/// A member's figures cover the steps that trained it. With a learning rate near zero they equal
/// those of a run that trains all members in every step, up to the choice of images.
#[test]
fn figures_of_a_member_cover_the_steps_that_trained_it() {
    let losses = |set: &[&str]| -> Vec<f64> {
        let usual = [
            TURNS,
            "train.epochs=1",
            "train.lr=1e-9",
            "train.weight_decay=0",
            "train.label_smoothing=0.2",
        ];
        let set = [&usual, set].concat();
        let folder = Folder::new("turns");
        unbroken(&folder.0, &tiny(&set));
        let lines = read_log(&run_path(&folder.0).join("log.jsonl")).unwrap();
        let mut epochs = lines.into_iter().filter_map(|line| match line.event {
            Event::Epoch(done) => Some(done.train.losses),
            _ => None,
        });
        epochs.next().unwrap()
    };
    let (all, turns) = (losses(&[]), losses(&["train.members_per_step=3"]));
    assert_eq!([all.len(), turns.len()], [5, 5]);
    for (all, turns) in all.iter().zip(&turns) {
        assert!((turns / all - 1.0).abs() < 0.3, "{all} {turns}");
    }
    assert_ne!(all, turns, "some members skip steps");
    let distillation = losses(&["train.distillation=true"]);
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    assert!(
        distillation.iter().zip(&all).all(|(a, b)| near(*a, *b)),
        "the logged loss is against labels, also with distillation"
    );
}

/// Settings are chosen on validation images: such a run writes nothing about the test set.
#[test]
fn a_run_with_eval_test_false_never_evaluates_on_the_test_images() {
    let (folder, resolved) = (
        Folder::new("untested"),
        tiny(&["train.epochs=1", "eval.test=false", "eval.test_every=1"]),
    );
    let outcome = unbroken(&folder.0, &resolved);
    assert_eq!((outcome.stopped, outcome.test), (Stopped::Finished, None));
    assert_eq!(outcome.validation.unwrap().images, 6);
    let log = fs::read_to_string(run_path(&folder.0).join("log.jsonl")).unwrap();
    assert!(!log.contains("\"test\"") && log.contains("\"finished\""), "{log}");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_with_a_warning_and_the_numbers_stay() {
    let (folder, resolved) = (Folder::new("damaged"), tiny(&["train.epochs=3"]));
    unbroken(&folder.0, &resolved);
    let run = run_path(&folder.0);
    let expected = newest_checkpoint(&run);
    let bank = run.join("checkpoints/0003/bank.safetensors");
    let mut bytes = fs::read(&bank).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&bank, bytes).unwrap();
    #[derive(Default)]
    struct Warnings(Vec<String>);
    impl Observer for Warnings {
        fn on_progress(&mut self, progress: Progress<'_>) {
            if let Progress::Warning(warning) = progress {
                self.0.push(warning.to_owned());
            }
        }
    }
    let mut seen = Warnings::default();
    resume(Disk::default(), &run, &resolved).unwrap().run(&Limits::default(), &mut seen).unwrap();
    assert!(seen.0.len() == 1 && seen.0[0].contains("checkpoint 3 is left out"), "{:?}", seen.0);
    assert_eq!(newest_checkpoint(&run), expected);
    let lines = read_log(&run.join("log.jsonl")).unwrap();
    assert!(lines.iter().any(|line| matches!(line.event, Event::Warning(_))));
}

/// A learning rate near zero keeps its kind of parameter at the start values, and no other kind.
#[test]
fn templates_and_coefficients_have_learning_rates_of_their_own() {
    let trained = |name: &str, set: &[&str]| {
        let folder = Folder::new(name);
        // Those of a classifier too, and patterns.
        let all = ["train.epochs=1", "plan.share_classifier=true", "plan.tiling=kronecker"];
        unbroken(&folder.0, &tiny(&[&all, set].concat()));
        let (_, checkpoint) = newest_checkpoint(&run_path(&folder.0));
        move |kind: &str| -> Vec<f32> {
            let of_kind = checkpoint.bank.iter().filter(|(name, _)| name.starts_with(kind));
            let floats = |values: &crate::run::Values| match values {
                crate::run::Values::F32(values) => values.clone(),
                other => panic!("numbers of a bank are f32, not {other:?}"),
            };
            of_kind.flat_map(|(_, tensor)| floats(tensor.values())).collect()
        }
    };
    let (still_templates, still_coefficients) =
        ("train.template_lr_mult=1e-6", "train.coefficient_lr_mult=1e-6");
    let start = trained("rates-start", &[still_templates, still_coefficients]);
    let templates = trained("rates-templates", &[still_coefficients]);
    let coefficients = trained("rates-coefficients", &[still_templates]);
    let moved = |a: Vec<f32>, b: Vec<f32>| {
        assert!(!a.is_empty() && a.len() == b.len());
        a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max)
    };
    let mut sets = 0;
    for set in 0..10 {
        let [of_templates, of_patterns, of_coefficients] =
            ["templates", "patterns", "coefficients"].map(|what| format!("{what}.{set}"));
        if start(&of_patterns).is_empty() {
            continue;
        }
        sets += 1;
        assert!(moved(start(&of_templates), templates(&of_templates)) > 1e-3, "{set}");
        assert!(moved(start(&of_templates), coefficients(&of_templates)) < 1e-5, "{set}");
        assert!(moved(start(&of_patterns), templates(&of_patterns)) > 1e-4, "{set}");
        assert!(moved(start(&of_patterns), coefficients(&of_patterns)) < 1e-5, "{set}");
        assert!(moved(start(&of_coefficients), templates(&of_coefficients)) < 1e-5, "{set}");
        assert!(moved(start(&of_coefficients), coefficients(&of_coefficients)) > 1e-4, "{set}");
    }
    assert!(sets >= 3, "{sets}: 3×3 and 1×1 convolutions, classifier");
}

/// A finished run that is resumed warns again.
#[test]
fn a_run_warns_of_layers_with_weights_near_zero() {
    let folder = Folder::new("faded");
    let resolved = tiny(&["plan.tiling=kronecker"]);
    unbroken(&folder.0, &resolved);
    let run = run_path(&folder.0);
    let warnings = || -> Vec<String> {
        let lines = read_log(&run.join("log.jsonl")).unwrap();
        let lines = lines.iter().filter(|line| matches!(line.event, Event::Warning(_)));
        lines.map(|line| format!("{:?}", line.event)).collect()
    };
    assert_eq!(warnings(), [""; 0]);
    let mut session = resume(Disk::default(), &run, &resolved).unwrap();
    let memory = session.trainer.parts_mut().0.memory_mut();
    let len = memory.layout().parameter("templates.0").unwrap().len;
    memory.set_parameter("templates.0", &vec![0.0; len]).unwrap();
    session.run(&Limits::default(), &mut ()).unwrap();
    let seen = warnings();
    assert!(seen.len() == 1 && seen[0].contains("weights near zero"), "{seen:?}");
    assert!(
        seen[0].contains(" 0.block1.layer.0.conv1.weight") && !seen[0].contains(" 0.conv1.weight"),
        "{seen:?}"
    );
}

#[test]
fn divergence_keeps_the_last_good_checkpoint() {
    let resolved = tiny(&["train.schedule=multistep", "train.milestones=[2]", "train.gamma=1"]);
    let folder = Folder::new("diverged");
    // Two good epochs, then a rate at which nothing stays finite.
    let mut stop = StopAfter::new(2, 0);
    let limits = stop.limits.clone();
    create(Disk::default(), &folder.0, &resolved).unwrap().run(&limits, &mut stop).unwrap();
    let good = newest_checkpoint(&run_path(&folder.0));
    let wild = tiny(&["train.lr=1000", "train.weight_decay=1"]);
    let mut session = resume(Disk::default(), &run_path(&folder.0), &wild).unwrap();
    let outcome = session.run(&Limits::default(), &mut ()).unwrap();
    assert!(matches!(outcome.stopped, Stopped::Diverged { .. }), "{outcome:?}");
    assert_eq!((outcome.checkpoint, outcome.test), (Some(2), None));
    assert_eq!(newest_checkpoint(&run_path(&folder.0)), good);
    drop(session);
    let lines = read_log(&run_path(&folder.0).join("log.jsonl")).unwrap();
    let last = &lines.last().unwrap().event;
    assert!(matches!(last, Event::Stop(stop) if stop.reason == "diverged"), "{last:?}");
}

#[test]
fn a_time_limit_stops_between_epochs() {
    let (folder, resolved) = (Folder::new("limit"), tiny(&["train.epochs=2"]));
    let limits =
        Limits { deadline: Some(Instant::now() + Duration::from_nanos(1)), ..Limits::default() };
    let mut session = create(Disk::default(), &folder.0, &resolved).unwrap();
    let outcome = session.run(&limits, &mut ()).unwrap();
    assert_eq!((outcome.stopped, outcome.position.epoch), (Stopped::TimeLimit, 1));
    drop(session);
    // The checkpoint says how long an epoch takes: the next process does not even begin.
    let outcome =
        resume(Disk::default(), &run_path(&folder.0), &resolved).unwrap().run(&limits, &mut ());
    assert_eq!(outcome.unwrap().position.epoch, 1);
}

#[test]
fn a_checkpoint_of_another_recipe_is_refused_by_what_does_not_fit() {
    let (folder, short) = (
        Folder::new("other"),
        tiny(&["train.epochs=2", "train.momentum=0", "train.nesterov=false"]),
    );
    unbroken(&folder.0, &short);
    let refused = |set: &[&str]| {
        let error = resume(Disk::default(), &run_path(&folder.0), &tiny(set)).unwrap_err();
        assert!(matches!(error, TrainError::Checkpoint { number: 2, .. }), "{error}");
        error.to_string()
    };
    assert!(refused(&[]).ends_with("there is no tensor 'templates.0'"), "momentum is expected");
    let later = refused(&["train.epochs=1", "train.momentum=0"]);
    assert!(later.ends_with("state.json: the recipe has no epoch 2 of phase 'train'"), "{later}");
}

/// The plain network, driven by hand on the same images: no plan, no bank, no session.
#[test]
fn a_dense_plan_trains_bit_for_bit_like_the_plain_network() {
    let mut resolved = tiny(&[
        "members=['wrn-10-1']",
        "budget='100%'",
        "plan.clusters=dense",
        "train.bn_batch_size=8",
        "train.epochs=2",
        "train.schedule=one-cycle",
    ]);
    resolved.train.weight_decay_on = ParameterKind::ALL.to_vec();
    let folder = Folder::new("dense");
    unbroken(&folder.0, &resolved);
    let (_, checkpoint) = newest_checkpoint(&run_path(&folder.0));

    let (device, data, batch) = (device(), data(), resolved.train.batch_size);
    let plan = resolved.plan_request().unwrap().plan().unwrap();
    let graph = lower(
        &plan.members[0].build().unwrap(),
        &Lowering { scope: "0.".into(), ..Lowering::default() },
    )
    .unwrap();
    let mut builder = LayoutBuilder::new();
    let layout = builder.graph(&graph, &Settings::train(batch)).unwrap().finish(&device);
    let program = Program::compile(&device, &graph, &Settings::train(batch), &layout).unwrap();
    let mut memory = Memory::new(&device, layout.clone(), program.plan().arena_bytes).unwrap();
    bank::initialize(&plan, &mut memory, resolved.seed).unwrap();
    let everything =
        ParameterGroup::new(0..layout.parameter_len, resolved.train.weight_decay as f32);
    let mut sgd =
        Sgd::new(&memory, SgdOptions { momentum: 0.9, nesterov: true }, vec![everything]).unwrap();
    let split = ValidationSplit::draw(&data.train.labels, 5, 6, 0).unwrap();
    let augment = resolved.data.augment;
    let mut batches =
        TrainBatches::new(data.clone(), split.train, batch, augment, resolved.seed, Phase::Train)
            .unwrap();
    let (steps, images) = (batches.steps_per_epoch(), data.image_set(Split::Train));
    for epoch in 0..2 {
        let length = Length { epochs: 2, steps_per_epoch: steps };
        for (step, lr) in resolved.train.schedule.table(length, epoch).into_iter().enumerate() {
            let mut draws = batches.buffer();
            batches.fill(epoch * steps + step as u64, &mut draws).unwrap();
            let mut pixels = vec![0.0; batch * data.image_len()];
            let outs = pixels.chunks_exact_mut(data.image_len());
            outs.zip(&draws).for_each(|(out, draw)| images.render(draw, out));
            let labels: Vec<u32> =
                draws.iter().map(|draw| images.classes[draw.image as usize]).collect();
            memory.set_input(IMAGES, &pixels).unwrap();
            memory.set_classes(LABELS, &labels).unwrap();
            memory.run(&program).unwrap();
            sgd.set_lrs(&[lr]).unwrap();
            sgd.step(&mut memory);
        }
    }
    let mut compared = 0;
    for slot in graph.slots() {
        let ours =
            checkpoint.members.get(&slot.name).unwrap_or_else(|| panic!("{} is saved", slot.name));
        let plain = match slot.kind {
            superweight_engine::SlotKind::Statistic => memory.statistic(&slot.name),
            _ => memory.parameter(&slot.name),
        };
        let plain = match ours.shape() {
            &[out, inp, h, w] => {
                superweight_engine::ohwi_to_oihw(&plain.unwrap(), [out, inp, h, w])
            }
            _ => plain.unwrap(),
        };
        assert_eq!(ours.values(), &crate::run::Values::F32(plain), "{}", slot.name);
        compared += 1;
    }
    assert_eq!(compared, checkpoint.members.len(), "nothing else is saved");
    assert!(checkpoint.bank.is_empty() && compared > 20);
}
