//! The header of a run: everything that is known before its first step.

use superweight::plan::number::with_commas;
use superweight::recipe::schedule::Schedule;
use superweight::run::WeightDecayGroup;
use superweight::train::Ready;

use super::layout::{bill, filled, listed, significant};
use crate::ui::size::megabytes;
use crate::ui::typed;

pub fn lines(ready: &Ready<'_>) -> Vec<String> {
    let plan = ready.plan;
    let members: Vec<_> =
        plan.members.iter().map(|member| member.architecture.to_string()).collect();
    let mut lines = vec![
        format!("run        {}", ready.folder.display()),
        format!("members    {}, {}", members.join(", "), plan.tiling),
    ];
    if let Some(refined) = ready.given {
        let then = refined.map_or("there is no search and no refinement".into(), |epoch| {
            format!("there is no search; refinement comes after epoch {epoch}")
        });
        lines.push(format!("plan       given; {then}"));
    }
    lines.push(format!("parameters {}", bill(plan)));
    lines.push(format!("decayed    {}", weight_decay(ready.groups, true)));
    lines.push(format!("undecayed  {}", weight_decay(ready.groups, false)));
    lines.extend(images(ready));
    lines.extend(milestones(ready.schedule));
    lines.extend(outputs(ready));
    lines.extend(method(ready, &members));
    if let Some((number, position)) = ready.resumed {
        let (phase, epoch) = (position.phase, position.epoch);
        lines.push(format!(
            "resumed    from checkpoint {number}, after epoch {epoch} of phase {phase}"
        ));
    }
    lines
}

fn images(ready: &Ready<'_>) -> Vec<String> {
    let [train, validation, test] = ready.images.map(|images| with_commas(images as u64));
    let steps = with_commas(ready.steps_per_epoch);
    let mut lines = vec![format!(
        "images     {train} for training, {validation} for validation, {test} for testing; {steps} steps per epoch"
    )];
    if let Some((name, bytes)) = ready.on_disk {
        let (size, verify) = (megabytes(bytes), typed(&format!("data verify {name}")));
        lines.push(format!(
            "           {size}, read from the disk during training; '{verify}' verifies them"
        ));
    }
    lines
}

/// The learning rates of a multistep schedule.
fn milestones(schedule: &Schedule) -> Option<String> {
    let Schedule::Multistep { lr, gamma, milestones, .. } = schedule else { return None };
    let after = |(i, epoch): (i32, &u64)| {
        format!("{} after epoch {epoch}", significant(lr * gamma.powi(i)))
    };
    let all: Vec<_> =
        [lr.to_string()].into_iter().chain((1..).zip(milestones).map(after)).collect();
    Some(format!("lr         {}", filled(listed(&all))))
}

/// Outputs of a network that has several: exits, or subnetworks of MIMO.
fn outputs(ready: &Ready<'_>) -> Vec<String> {
    let mut lines = vec![];
    let network = &ready.plan.members[0].architecture;
    let exits = network.exits();
    if exits > 1 {
        lines.push(format!(
            "exits      {exits}: each learns from labels; the loss is the mean of theirs"
        ));
    }
    let heads = network.heads();
    if heads > 1 {
        let times = match ready.batch_repetitions {
            1 => "once".to_owned(),
            repetitions => format!("{repetitions} times"),
        };
        lines.push(format!(
            "MIMO       {heads} subnetworks, each with its own image; each reads every image of a step {times}"
        ));
    }
    lines
}

/// Parts of the training method that most runs do not use.
fn method(ready: &Ready<'_>, members: &[String]) -> Vec<String> {
    let mut lines = vec![];
    if ready.members_per_step < members.len() {
        let between = ready.members_per_step - 2;
        let (step, all) = (ready.members_per_step, members.len());
        lines.push(format!(
            "schedule   a step trains {step} of {all} members: the largest, the smallest and {between} others in turn"
        ));
    }
    if let Some(teacher) = ready.teacher {
        let name = &members[teacher.0];
        lines.push(format!(
            "teacher    member {teacher}, {name}: it learns from labels, the others from its probabilities"
        ));
    }
    match ready.swa_epochs {
        0 => {}
        1 => lines.push(
            "averaging  of one epoch: its weights are kept, with new statistics of batch norm"
                .into(),
        ),
        last => lines.push(format!(
            "averaging  the mean of the weights after each of the last {} epochs is kept",
            with_commas(last)
        )),
    }
    lines
}

/// The kinds of parameters with weight decay, with its value; or those without.
fn weight_decay(groups: &[WeightDecayGroup], decayed: bool) -> String {
    let mut by_value: Vec<(f64, Vec<String>)> = vec![];
    for group in groups.iter().filter(|group| (group.weight_decay > 0.0) == decayed) {
        let value = significant(group.weight_decay);
        let shown = format!("{} {}", with_commas(group.parameters), group.kind.name());
        match by_value.iter_mut().find(|(other, _)| *other == value) {
            Some((_, all)) => all.push(shown),
            None => by_value.push((value, vec![shown])),
        }
    }
    let parts = by_value.into_iter().flat_map(|(value, mut all)| {
        let last = all.len() - 1;
        all.iter_mut()
            .enumerate()
            .for_each(|(i, shown)| *shown += if i == last { ";" } else { "," });
        if decayed {
            all[0] = format!("by {value}: {}", all[0]);
        }
        all
    });
    let text = filled(parts);
    text.strip_suffix(';').unwrap_or("nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use superweight::recipe::ParameterKind;

    use super::*;

    #[test]
    fn weight_decay_takes_as_many_lines_as_it_needs() {
        let group =
            |kind, parameters, weight_decay| WeightDecayGroup { kind, parameters, weight_decay };
        assert_eq!(weight_decay(&[], true), "nothing");
        let few = [
            group(ParameterKind::Templates, 1000, 5e-4),
            group(ParameterKind::Coefficients, 20, 0.0),
            group(ParameterKind::BatchNorm, 300, 0.1),
            group(ParameterKind::Classifier, 4, 0.000_500_01),
        ];
        assert_eq!(
            weight_decay(&few, true),
            "by 0.0005: 1,000 templates, 4 classifier; by 0.1: 300 batch norm"
        );
        assert_eq!(weight_decay(&few, false), "20 coefficients");
        let many = ParameterKind::ALL.map(|kind| group(kind, 1_234_567, 5e-4));
        let text = weight_decay(&many, true);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= 98), "{text}");
        assert_eq!(text.matches("1,234,567 ").count(), many.len());
        assert!(!text.ends_with(';') && text.lines().all(|line| !line.ends_with(' ')));
    }
}
