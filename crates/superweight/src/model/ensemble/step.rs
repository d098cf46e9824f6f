//! Training steps: gradients and updates, of all members or of a subset.

use superweight_engine::{Device, Error, MixOutput, Sgd, SgdSubset};
use superweight_plan::MemberId;

use super::members::Ensemble;
use crate::model::bank::{BankSubset, unused_ranges};

/// Some members of an ensemble, prepared for steps that train only these.
///
/// Such a step does not change parameters that only other members use. Made by
/// [`Ensemble::subset`].
#[derive(Debug)]
pub struct EnsembleSubset<D: Device> {
    members: Vec<MemberId>,
    bank: BankSubset<D>,
    optimizer: SgdSubset<D>,
}

impl<D: Device> Ensemble<D> {
    /// Computes the gradients of all members for the current batch: composes weights, runs members
    /// forward and backward, composes backward.
    ///
    /// Afterwards dL/dW of every layer and the gradients of the bank are in memory. Composed
    /// weights are only written where kernels read them; call [`Ensemble::compose`] before reading
    /// them.
    pub fn gradients(&mut self) -> Result<(), Error> {
        self.gradients_of_subset(None)
    }

    /// Prepares steps that train only these members. The result is valid until
    /// [`Ensemble::refine`].
    ///
    /// # Panics
    /// If the members learn from a teacher that is not among them.
    pub fn subset(
        &self,
        members: &[MemberId],
        optimizer: &Sgd<D>,
    ) -> Result<EnsembleSubset<D>, Error> {
        let has_teacher = self.teacher.is_none_or(|teacher| members.contains(&teacher));
        assert!(has_teacher, "with distillation every step trains the teacher");
        let unused = unused_ranges(self.plan(), self.memory.layout(), members)?;
        Ok(EnsembleSubset {
            members: members.to_vec(),
            bank: self.bank.subset(&self.memory, members)?,
            optimizer: optimizer.excluding(&unused, &self.memory)?,
        })
    }

    /// Computes gradients as [`Ensemble::gradients`] does, for a subset of the members or for all
    /// (`None`). dL/dW of other members is zero.
    pub fn gradients_of_subset(&mut self, subset: Option<&EnsembleSubset<D>>) -> Result<(), Error> {
        let Some(subset) = subset else {
            self.bank.compose(&mut self.memory, MixOutput::KernelWeights)?;
            self.run_training(&self.member_ids())?;
            return self.bank.compose_backward(&mut self.memory);
        };
        self.bank.compose_subset(&subset.bank, &mut self.memory, MixOutput::KernelWeights)?;
        self.memory.clear_gradients();
        self.run_training(&subset.members)?;
        self.bank.compose_subset_backward(&subset.bank, &mut self.memory)
    }

    /// Runs the training programs of these members, the teacher's first.
    fn run_training(&mut self, members: &[MemberId]) -> Result<(), Error> {
        let others = members.iter().copied().filter(|&member| Some(member) != self.teacher);
        for MemberId(member) in self.teacher.into_iter().chain(others) {
            self.memory.run(&self.train[member])?;
        }
        Ok(())
    }

    /// Performs one optimizer step over the present gradients, with the learning rates last set.
    pub fn update(&mut self, optimizer: &mut Sgd<D>) {
        self.update_subset(optimizer, None);
    }

    /// Performs one optimizer step for the parameters of a subset of the members, or for all
    /// (`None`).
    pub fn update_subset(&mut self, optimizer: &mut Sgd<D>, subset: Option<&EnsembleSubset<D>>) {
        match subset {
            None => optimizer.step(&mut self.memory),
            Some(subset) => optimizer.step_subset(&subset.optimizer, &mut self.memory),
        }
    }
}
