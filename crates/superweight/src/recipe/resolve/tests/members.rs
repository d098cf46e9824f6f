//! Members per step, distillation and MIMO: which keys go
//! with them.

use super::{refused, resolve};

#[test]
fn turns_are_of_so_many_members_that_all_have_theirs() {
    refused(
        "train.members_per_step = 2",
        "r.toml:1:26: train.members_per_step: with 1 member(s) every step trains all of them: leave the key out",
    );
    let four = "members = ['wrn-10-1', 'wrn-10-2', 'wrn-10-3', 'wrn-10-4']";
    for count in [1, 2, 5] {
        let why =
            "members: a step trains the largest, the smallest and at least one other, so 3 to 3;";
        refused(
            &format!("{four}\ntrain.members_per_step = {count}"),
            &format!("r.toml:2:26: train.members_per_step: {count} of 4 {why}"),
        );
    }
    refused(
        &format!("{four}\ntrain.members_per_step = 3\ntrain.batch_size = 50000"),
        "r.toml:2:26: train.members_per_step: with 3 of 4 members per step it takes 2 steps to train every member, but an epoch has 1:",
    );
    refused(
        &format!("{four}\ntrain.members_per_step = 3\nsearch.batches = 2"),
        "r.toml:3:18: search.batches: 2 steps may not train all 4 members (train.members_per_step = 3): choose at least 3,",
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
    assert!(mimo.to_toml().contains("\nbatch_repetitions = 4\n"));
    refused(
        "train.batch_repetitions = 4",
        "r.toml:1:27: train.batch_repetitions: 4: only MIMO networks (mimo-3-wrn-28-10) repeat images: leave the key out;",
    );
    let heads = "members = ['mimo-2-cnn-8', 'mimo-2-cnn-4']";
    refused(
        &format!("{heads}\ntrain.distillation = true"),
        "r.toml:2:22: train.distillation: MIMO networks such as mimo-2-cnn-8 learn from labels only",
    );
    refused(
        "members = ['mimo-2-cnn-8', 'cnn-4']",
        "r.toml:1:11: members: mimo-2-cnn-8 and cnn-4 read different numbers of images at once: ",
    );
    refused(
        "train.distillation = true",
        "r.toml:1:22: train.distillation: distillation needs several members",
    );
}
