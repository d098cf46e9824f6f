//! Completes the training settings: batches, members per step, schedule, weight averaging.

use superweight_plan::arch::ArchName;

use super::percent;
use crate::model::ensemble::ParameterKind;
use crate::recipe::file::{CountOrText, Precision, ScheduleWord};
use crate::recipe::resolved::TrainSettings;
use crate::recipe::schedule::Schedule;
use crate::recipe::{Recipe, RecipeError};

impl Recipe {
    /// Members that each step trains: all, or at least the largest, the smallest and one more.
    fn members_per_step(&self, members: usize) -> Result<usize, RecipeError> {
        let count = self
            .train
            .members_per_step
            .map_or(members, |members_per_step| members_per_step as usize);
        let problem = match members {
            _ if count == members
                || (3..members).contains(&count)
                || self.members_are_of_a_plan() =>
            {
                return Ok(count);
            }
            0..=3 => {
                format!("with {members} member(s) every step trains all of them: leave the key out")
            }
            _ => format!(
                "{count} of {members} members: a step trains the largest, the smallest and at least one other, so 3 \
                 to {}; leave the key out to train all of them",
                members - 1
            ),
        };
        Err(self.wrong("train.members_per_step", problem))
    }

    /// Whether the recipe names a plan but no members; such a recipe is refused later.
    fn members_are_of_a_plan(&self) -> bool {
        self.members.is_none() && self.plan.file.is_some()
    }

    fn distillation(&self, members: &[ArchName]) -> Result<bool, RecipeError> {
        let problem = match self.train.distillation.unwrap_or(false) {
            false => return Ok(false),
            true if members[0].heads() > 1 => {
                format!(
                    "MIMO networks such as {} learn from labels only: leave the key out",
                    members[0]
                )
            }
            true if members.len() == 1 && !self.members_are_of_a_plan() => {
                "distillation needs several members, and there is one: leave the key out".to_owned()
            }
            true => return Ok(true),
        };
        Err(self.wrong("train.distillation", problem))
    }

    /// Copies of an image in a step.
    fn batch_repetitions(&self, member: &ArchName) -> Result<u64, RecipeError> {
        match (self.train.batch_repetitions, member.heads()) {
            (None, 1) | (Some(1), _) => Ok(1),
            (None, _) => Ok(4),
            (Some(batch_repetitions), 1) if !self.members_are_of_a_plan() => {
                let such =
                    if member.exits() == 1 { format!(" (mimo-3-{member})") } else { String::new() };
                let problem = format!(
                    "{batch_repetitions}: only MIMO networks{such} repeat images: leave the key out"
                );
                Err(self.wrong("train.batch_repetitions", problem))
            }
            (Some(batch_repetitions), _) => Ok(batch_repetitions),
        }
    }

    pub(super) fn train(
        &self,
        members: &[ArchName],
        heterogeneous: bool,
        swa_epochs: u64,
    ) -> Result<TrainSettings, RecipeError> {
        let table = &self.train;
        let (_, set) = self.set()?;
        // Small sets have fewer images than a batch.
        let left = (set.train as u64).saturating_sub(self.validation_images(set.train)?).max(1);
        let batch = table.batch_size.unwrap_or(left.min(128));
        let batch_repetitions = self.batch_repetitions(&members[0])?;
        let rows = batch * batch_repetitions;
        let usual = if !heterogeneous && rows.is_multiple_of(64) { 64 } else { rows };
        let bn_batch_size = table.bn_batch_size.unwrap_or(usual);
        if bn_batch_size > rows || !rows.is_multiple_of(bn_batch_size) {
            let what = match batch_repetitions {
                1 => "images".to_owned(),
                _ => format!("rows ({batch} images, {batch_repetitions} times)"),
            };
            let problem = format!(
                "batches of {rows} {what} cannot be split into groups of {bn_batch_size}: choose a divisor of {rows}"
            );
            return Err(self.wrong("train.bn_batch_size", problem));
        }
        let decayed = || {
            use ParameterKind::{BatchNorm, Classifier, Convolutions, Templates};
            vec![Templates, Convolutions, BatchNorm, Classifier]
        };
        let mut weight_decay_on = table.weight_decay_on.clone().unwrap_or_else(decayed);
        weight_decay_on.sort_unstable();
        weight_decay_on.dedup();
        Ok(TrainSettings {
            epochs: self.epochs(),
            batch_size: batch as usize,
            batch_repetitions: batch_repetitions as usize,
            members_per_step: self.members_per_step(members.len())?,
            distillation: self.distillation(members)?,
            bn_batch_size: bn_batch_size as usize,
            momentum: table.momentum.unwrap_or(0.9),
            nesterov: table.nesterov.unwrap_or(true),
            schedule: self.schedule(heterogeneous, swa_epochs)?,
            weight_decay: table.weight_decay.unwrap_or(5e-4),
            weight_decay_on,
            shared_weight_decay_mult: table.shared_weight_decay_mult.unwrap_or(1.0),
            swa_epochs,
            label_smoothing: table.label_smoothing.unwrap_or(0.0),
            template_lr_mult: table.template_lr_mult.unwrap_or(1.0),
            coefficient_lr_mult: table.coefficient_lr_mult.unwrap_or(1.0),
            precision: table.precision.unwrap_or(Precision::Auto),
        })
    }

    fn schedule(&self, heterogeneous: bool, swa_epochs: u64) -> Result<Schedule, RecipeError> {
        let table = &self.train;
        let lr = table.lr.unwrap_or(0.1);
        let warmup_epochs = table.warmup_epochs.unwrap_or(0);
        let word = self.schedule_word();
        if warmup_epochs > 0 && word == ScheduleWord::OneCycle {
            return Err(self.wrong(
                "train.warmup_epochs",
                "one-cycle has a warm-up of its own (train.pct_start): leave the key out",
            ));
        }
        if warmup_epochs > self.epochs() {
            let problem =
                format!("{warmup_epochs} epochs of warm-up in a training of {}", self.epochs());
            return Err(self.wrong("train.warmup_epochs", problem));
        }
        Ok(match word {
            ScheduleWord::Constant => Schedule::Constant { lr, warmup_epochs },
            ScheduleWord::Multistep => {
                let gamma = table.gamma.unwrap_or(0.2);
                let milestones = self.milestones(heterogeneous, swa_epochs)?;
                Schedule::Multistep { lr, gamma, milestones, warmup_epochs }
            }
            ScheduleWord::OneCycle => Schedule::OneCycle {
                lr,
                pct_start: table.pct_start.unwrap_or(0.3),
                div_factor: table.div_factor.unwrap_or(25.0),
                final_div_factor: table.final_div_factor.unwrap_or(1e4),
            },
        })
    }

    fn schedule_word(&self) -> ScheduleWord {
        self.train.schedule.unwrap_or(ScheduleWord::Multistep)
    }

    /// Epochs of weight averaging. By default a single network has one late milestone and weight
    /// averaging; a recipe with milestones of its own has none. Averaging starts after refinement.
    pub(super) fn swa_epochs(&self, single: bool, refined: u64) -> Result<u64, RecipeError> {
        let (given, epochs) = (self.train.swa_epochs.as_ref(), self.epochs());
        let free =
            self.train.milestones.is_none() && self.schedule_word() == ScheduleWord::Multistep;
        if given.is_none() && single && free {
            return Ok((epochs * 26 / 100).min(epochs - refined));
        }
        self.count_or_share("train.swa_epochs", given, epochs, "epochs")
    }

    /// Milestones in epochs. Shares are rounded down; a share that falls on epoch 0 or on another
    /// milestone is dropped, so that a training of one epoch has none.
    fn milestones(&self, heterogeneous: bool, swa_epochs: u64) -> Result<Vec<u64>, RecipeError> {
        let epochs = self.epochs();
        let usual = || {
            let shares: &[&str] = match (swa_epochs, heterogeneous) {
                // Averaged epochs have one learning rate.
                (1.., _) if epochs.saturating_sub(swa_epochs) < epochs * 66 / 100 => {
                    let before =
                        (epochs > swa_epochs).then(|| CountOrText::Count(epochs - swa_epochs));
                    return before.into_iter().collect();
                }
                (1.., _) => &["66%"],
                (0, true) => &["30%", "60%", "80%"],
                (0, false) => &["30%", "60%", "90%"],
            };
            shares.iter().map(|&share| CountOrText::Text(share.into())).collect()
        };
        let mut at: Vec<u64> = vec![];
        for (i, drop) in self.train.milestones.clone().unwrap_or_else(usual).into_iter().enumerate()
        {
            let text = drop.text();
            let wrong = |problem: String| self.source.wrong("train.milestones", Some(i), problem);
            let share = percent(&text);
            let epoch = match share {
                None => match text.parse::<u64>() {
                    Ok(epoch) if epoch > 0 && epoch < epochs => epoch,
                    Ok(epoch) => {
                        return Err(wrong(format!("epoch {epoch} is not within {epochs} epochs")));
                    }
                    Err(_) => {
                        return Err(wrong(format!("'{text}' is neither an epoch nor a share")));
                    }
                },
                Some(Ok(share)) if share > 0.0 && share < 100.0 => {
                    (share * epochs as f64 / 100.0) as u64
                }
                Some(_) => {
                    return Err(wrong(format!("'{text}' is not a share between 0% and 100%")));
                }
            };
            match at.last() {
                _ if share.is_some() && epoch == 0 => {}
                Some(&last) if share.is_some() && epoch == last => {}
                Some(&last) if epoch <= last => {
                    return Err(wrong(format!("'{text}' does not come after epoch {last}")));
                }
                _ => at.push(epoch),
            }
        }
        Ok(at)
    }
}
