//! Members that take turns, that learn from others, that see several images at once: which keys go
//! with them.

use super::{refused, resolve};

#[test]
fn turns_are_of_so_many_members_that_all_have_theirs() {
    refused(
        "train.members_per_step = 2",
        "r.toml:1:17: train.members_per_step: with 1 member(s) every step trains all of them: leave the key out",
    );
    let four = "members = ['wrn-10-1', 'wrn-10-2', 'wrn-10-3', 'wrn-10-4']";
    for count in [1, 2, 5] {
        let why = "members: a step trains the largest, the smallest and at least one other, so 3 to 3;";
        refused(
            &format!("{four}\ntrain.members_per_step = {count}"),
            &format!("r.toml:2:17: train.members_per_step: {count} of 4 {why}"),
        );
    }
    refused(
        &format!("{four}\ntrain.members_per_step = 3\ntrain.batch = 50000"),
        "r.toml:2:17: train.members_per_step: it takes 2 steps until each of 4 members has had a turn, 3 in a step, and an epoch has 1:",
    );
    refused(
        &format!("{four}\ntrain.members_per_step = 3\nsearch.batches = 2"),
        "r.toml:3:18: search.batches: in 2 steps some of 4 members may have no turn (train.members_per_step = 3): choose at least 3,",
    );
    resolve(&format!("{four}\ntrain.members_per_step = 3\nsearch.batches = 3"), &[]).unwrap();
}

#[test]
fn several_heads_have_rows_and_learn_from_labels() {
    let mimo = resolve("members = ['mimo-3-wrn-28-10']\nbudget = '100%'", &[]).unwrap();
    assert_eq!(
        (
            mimo.train.batch_size,
            mimo.train.batch_repetitions,
            mimo.train.rows(),
            mimo.train.bn_batch_size
        ),
        (128, 4, 512, 64)
    );
    assert!(mimo.to_toml().contains("\nrepeats = 4\n"));
    refused(
        "train.batch_repetitions = 4",
        "r.toml:1:17: train.batch_repetitions: 4: is for networks that see several images at once (mimo-3-wrn-28-10): leave the key out;",
    );
    let heads = "members = ['mimo-2-cnn-8', 'mimo-2-cnn-4']";
    refused(
        &format!("{heads}\ntrain.distillation = true"),
        "r.toml:2:19: train.distillation: networks that see several images at once learn from labels alone, mimo-2-cnn-8 too",
    );
    refused(
        "members = ['mimo-2-cnn-8', 'cnn-4']",
        "r.toml:1:11: members: mimo-2-cnn-8 and cnn-4 read different numbers of images at once: ",
    );
    refused(
        "train.distillation = true",
        "r.toml:1:19: train.distillation: distillation needs several members",
    );
}
