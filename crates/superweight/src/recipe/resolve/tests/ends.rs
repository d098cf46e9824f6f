//! When phases end, and how: drops, means, shares of short runs.

use super::resolve;
use crate::recipe::schedule::Schedule;

fn dropped(schedule: &Schedule) -> Vec<u64> {
    match schedule {
        Schedule::Multistep { milestones: at, .. } => at.clone(),
        other => panic!("{other:?}"),
    }
}

/// A mean and a late drop belong together: neither comes by itself.
#[test]
fn one_network_ends_with_a_mean_unless_drops_are_given() {
    let ends = |text: &str| {
        let r = resolve(text, &[]).unwrap();
        assert_eq!(resolve(&r.to_toml(), &[]).unwrap(), r, "{text}");
        (dropped(&r.train.schedule), r.train.swa_epochs)
    };
    assert_eq!(ends(""), (vec![132], 52));
    assert_eq!(
        ends("strategy = 'no-search'\nbudget = '100%'\nplan.clusters = 'dense'"),
        (vec![132], 52)
    );
    assert_eq!(ends("train.swa_epochs = 10"), (vec![132], 10));
    assert_eq!(ends("train.swa_epochs = 0"), (vec![60, 120, 180], 0));
    // A mean is of epochs at one rate.
    assert_eq!(ends("train.swa_epochs = 100"), (vec![100], 100));
    assert_eq!(ends("strategy = 'no-refine'\ntrain.swa_epochs = '100%'"), (vec![], 200));
    assert_eq!(ends("train.milestones = [100]"), (vec![100], 0));
    assert_eq!(ends("train.milestones = []"), (vec![], 0));
    assert_eq!(ends("train = { milestones = [100], swa_epochs = 20 }"), (vec![100], 20));
    assert_eq!(ends("members = ['wrn-28-5', 'wrn-28-5']"), (vec![60, 120, 180], 0));
    assert_eq!(ends("members = ['wrn-28-5', 'wrn-28-5']\ntrain.swa_epochs = 20"), (vec![132], 20));
    // It never begins before refinement, whose epoch may be late.
    assert_eq!(ends("refine.epoch = 190"), (vec![132], 10));
    assert_eq!(ends("refine.epoch = 200"), (vec![60, 120, 180], 0));
    for schedule in ["one-cycle", "constant"] {
        assert_eq!(
            resolve(&format!("train.schedule = '{schedule}'"), &[]).unwrap().train.swa_epochs,
            0
        );
    }
}

#[test]
fn short_runs_search_and_refine_sooner_and_still_work() {
    for (epochs, search, refine, swa_epochs, drop, milestones) in [
        (400, 20, 10, 104, vec![264], vec![120, 240, 360]),
        (199, 20, 10, 51, vec![131], vec![59, 119, 179]),
        (100, 10, 5, 26, vec![66], vec![30, 60, 90]),
        (16, 2, 1, 4, vec![10], vec![4, 9, 14]),
        (4, 1, 1, 1, vec![2], vec![1, 2, 3]),
        (3, 1, 1, 0, vec![1, 2], vec![1, 2]),
        (1, 1, 1, 0, vec![], vec![]),
    ] {
        let epochs = format!("train.epochs={epochs}");
        let r = resolve("", &[&epochs]).unwrap();
        assert_eq!(
            (r.search.unwrap().epochs, r.refine.unwrap().epoch),
            (search, refine),
            "{epochs}"
        );
        assert_eq!(
            (dropped(&r.train.schedule), r.train.swa_epochs),
            (drop, swa_epochs),
            "{epochs}"
        );
        let paper = resolve("train.swa_epochs = 0", &[&epochs]).unwrap();
        assert_eq!(
            (dropped(&paper.train.schedule), paper.train.swa_epochs),
            (milestones, 0),
            "{epochs}"
        );
    }
    let ssn = resolve("strategy = 'coefficient-clustering'", &[]).unwrap();
    let falls =
        Schedule::Multistep { lr: 0.1, gamma: 0.1, milestones: vec![8, 13], warmup_epochs: 0 };
    assert_eq!(ssn.search_schedule(), Some(falls));
    assert_eq!((ssn.search.unwrap().epochs, ssn.refine), (15, None));
    let swn = resolve("train.lr = 0.5", &[]).unwrap();
    assert_eq!(swn.search_schedule(), Some(Schedule::Constant { lr: 0.5, warmup_epochs: 0 }));
}
