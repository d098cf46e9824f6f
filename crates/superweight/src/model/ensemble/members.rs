//! All members of a plan, compiled for one device.

use superweight_engine::{
    Accumulator, Control, Device, Error, Frozen, Graph, LayoutBuilder, Memory, Metrics, MixOutput,
    Program, Settings, Sgd, SgdSubset,
};
use superweight_plan::{LayerId, MemberId, SharingPlan, VectorKind};

use super::parameters::by_size;
use crate::model::bank::{self, Bank, BankSubset, scope, unused_ranges, weight_name};
use crate::model::fold::fold;
use crate::model::lower::{IMAGES, LABELS, LossTarget, Lowering, lower, lower_by_exit};
use crate::model::mimo::{log_mean_probability, side_by_side};
use crate::model::{OutputId, Outputs};

/// A batch norm's scale below which a channel is silent; scales start at 1.
pub const ZERO_SCALE: f32 = 0.01;

/// Root mean square of a weight, over He's deviation for its inputs, below which it has faded: the layer gives next to nothing. What
/// batch norm follows may shrink to a tenth and lose nothing.
pub const NEAR_ZERO_WEIGHT: f64 = 1e-3;

/// How an ensemble is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct EnsembleOptions {
    /// Rows of a batch: images, or where members have several heads as many images each.
    pub batch: usize,
    /// Rows that batch norm takes its statistics over in training; divides the batch.
    pub bn_batch_size: usize,
    /// Whether there are training programs beside the evaluation programs.
    pub training: bool,
    /// Whether there are programs that take batch norm's statistics anew.
    pub recalibrated: bool,
    /// Label smoothing of every member's loss in training.
    pub smoothing: f32,
    /// Whether the largest member alone learns from labels, and the others from its probabilities.
    pub distillation: bool,
    /// Weight decay of composed linear weights in training.
    pub classifier_decay: f32,
    /// Whether evaluation programs have their batch norms folded into convolutions where that is possible. Faster, and
    /// equal up to rounding.
    pub folded: bool,
    /// Whether a network of several exits is evaluated exit by exit, each after the one before: to be asked until time is up.
    pub by_exit: bool,
}

impl EnsembleOptions {
    /// To train and to evaluate, with statistics over the whole batch and plain labels.
    pub fn train(batch: usize) -> Self {
        Self {
            batch,
            bn_batch_size: batch,
            training: true,
            recalibrated: false,
            smoothing: 0.0,
            distillation: false,
            classifier_decay: 0.0,
            folded: false,
            by_exit: false,
        }
    }

    /// To evaluate only.
    pub fn evaluate(batch: usize) -> Self {
        Self { training: false, ..Self::train(batch) }
    }

    /// To be asked many times: as fast as it goes.
    pub fn infer(batch: usize) -> Self {
        Self { folded: true, ..Self::evaluate(batch) }
    }
}

/// All members of a plan, ready to run. Training and evaluation are programs per member over one layout and one
/// arena: the same names are the same numbers.
#[derive(Debug)]
pub struct Ensemble<D: Device> {
    bank: Bank<D>,
    train: Vec<Program<D>>,
    recalibrate: Vec<Program<D>>,
    /// Of every member, or of every exit.
    evaluate: Vec<Program<D>>,
    memory: Memory<D>,
    arena_bytes: usize,
    outputs: Outputs,
    /// Of every output.
    losses: Vec<String>,
    logits: Vec<String>,
    folded: bool,
    /// From whom the others learn.
    teacher: Option<MemberId>,
}

/// Some of an ensemble's members, for steps that train these and leave alone what only others have.
#[derive(Debug)]
pub struct EnsembleSubset<D: Device> {
    members: Vec<MemberId>,
    bank: BankSubset<D>,
    optimizer: SgdSubset<D>,
}

impl<D: Device> Ensemble<D> {
    /// Compiles every member and allocates; numbers are zero until [`bank::initialize`] or a checkpoint sets them.
    pub fn new(device: &D, plan: &SharingPlan, options: &EnsembleOptions) -> Result<Self, Error> {
        let EnsembleOptions { batch, bn_batch_size, training, recalibrated, .. } = *options;
        let EnsembleOptions { smoothing, distillation, classifier_decay, folded, by_exit, .. } =
            *options;
        let teacher = distillation.then(|| by_size(plan)[0]);
        assert!(
            bn_batch_size > 0 && batch.is_multiple_of(bn_batch_size),
            "ghost batches divide the batch"
        );
        let (mut train, mut recalibrate, mut evaluate) = (vec![], vec![], vec![]);
        let (mut losses, mut logits, mut unfolded) = (vec![], vec![], vec![]);
        for (i, member) in plan.members.iter().enumerate() {
            let architecture = member.build().expect("the members of a plan build");
            let plain = Lowering { scope: scope(MemberId(i)), ..Lowering::default() };
            let exits = architecture.exits.len();
            losses.extend((0..exits).map(|exit| plain.loss(exit)));
            logits.extend((0..exits).map(|exit| plain.logits(exit)));
            if folded {
                unfolded.push(lower(&architecture, &plain)?);
            }
            let asked = Lowering { folded, ..plain.clone() };
            match by_exit {
                true => evaluate.extend(lower_by_exit(&architecture, &asked)?),
                false => evaluate.push(lower(&architecture, &asked)?),
            }
            if recalibrated {
                recalibrate.push(lower(&architecture, &plain)?);
            }
            if training {
                let target = match teacher {
                    None => LossTarget::Labels,
                    Some(MemberId(teacher)) if teacher == i => LossTarget::LabelsAsTeacher,
                    Some(_) => LossTarget::TeacherProbabilities,
                };
                let lowering =
                    Lowering { smoothing, target, ghosts: batch / bn_batch_size, ..plain };
                train.push(lower(&architecture, &lowering)?);
            }
        }
        let modes = [
            (train, Settings::train(batch)),
            (recalibrate, Settings::recalibrate(batch)),
            (evaluate, Settings::evaluate(batch)),
        ];
        let mut layout = LayoutBuilder::new();
        bank::declare(plan, &mut layout)?;
        let refinable = training && plan.bill.reserved > 0;
        if refinable {
            bank::declare_probe(plan, &mut layout)?;
        }
        // What is folded is made of tensors that no program reads.
        for graph in &unfolded {
            layout.graph(graph, &Settings::evaluate(batch))?;
        }
        for (graphs, settings) in &modes {
            graphs.iter().try_for_each(|graph| layout.graph(graph, settings).map(|_| ()))?;
        }
        let layout = layout.finish(device);
        let bank = Bank::new(device, plan.clone(), &layout, classifier_decay)?;
        let compile = |(graphs, settings): &(Vec<Graph>, Settings)| {
            graphs.iter().map(|graph| Program::compile(device, graph, settings, &layout)).collect()
        };
        let [train, recalibrate, evaluate]: [Result<Vec<_>, Error>; 3] =
            modes.each_ref().map(compile);
        let (train, recalibrate, evaluate) = (train?, recalibrate?, evaluate?);
        let scratch = if refinable { bank.refined_scratch_bytes() } else { bank.scratch_bytes() };
        let programs = train
            .iter()
            .chain(&recalibrate)
            .chain(&evaluate)
            .map(|program| program.plan().arena_bytes);
        let arena_bytes = programs.fold(scratch, usize::max);
        let memory = Memory::new(device, layout, arena_bytes)?;
        let outputs = Outputs::of(plan);
        Ok(Self {
            bank,
            train,
            recalibrate,
            evaluate,
            memory,
            arena_bytes,
            outputs,
            losses,
            logits,
            folded,
            teacher,
        })
    }

    /// What is shared.
    pub fn plan(&self) -> &SharingPlan {
        self.bank.plan()
    }

    /// The bank.
    pub fn bank(&self) -> &Bank<D> {
        &self.bank
    }

    /// How many members.
    pub fn members(&self) -> usize {
        self.plan().members.len()
    }

    /// Who answers.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// From whom the others learn, where they do.
    pub fn teacher(&self) -> Option<MemberId> {
        self.teacher
    }

    /// All of them.
    pub fn member_ids(&self) -> Vec<MemberId> {
        (0..self.members()).map(MemberId).collect()
    }

    /// The members' training programs; none where the ensemble only evaluates.
    pub fn train_programs(&self) -> &[Program<D>] {
        &self.train
    }

    /// The members' evaluation programs, or the exits' ([`EnsembleOptions::by_exit`]).
    pub fn evaluate_programs(&self) -> &[Program<D>] {
        &self.evaluate
    }

    /// All numbers.
    pub fn memory(&self) -> &Memory<D> {
        &self.memory
    }

    /// All numbers, to change them.
    pub fn memory_mut(&mut self) -> &mut Memory<D> {
        &mut self.memory
    }

    /// Bytes of the arena: activations, their gradients and scratch, known before anything has run.
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Images that every member answers at once.
    pub fn heads(&self) -> usize {
        self.plan().members[0].architecture.heads()
    }

    /// Sets the images (NHWC) and classes that every member sees next; those of a row's heads stand one after another.
    pub fn set_batch(&mut self, images: &[f32], classes: &[u32]) -> Result<(), Error> {
        let (heads, input) = (self.heads(), self.plan().members[0].input);
        let image = input.channels * input.height * input.width;
        match heads {
            1 => self.memory.set_input(IMAGES, images)?,
            _ => self
                .memory
                .set_input(IMAGES, &side_by_side(images, image, input.channels, heads))?,
        }
        self.memory.set_classes(LABELS, classes)
    }

    /// Fills the batch from images on the device, as they were last said to be drawn.
    pub fn load_batch(&mut self, images: &D::Images) -> Result<(), Error> {
        self.memory.draw_batch(images, IMAGES, LABELS)
    }

    /// Compose, members forward and backward, compose backward: dL/dW of every layer and the bank's gradients are there. Weights
    /// to look at are not: [`Ensemble::compose`].
    pub fn gradients(&mut self) -> Result<(), Error> {
        self.gradients_of_subset(None)
    }

    /// These members, and what of the optimizer's is theirs. Of this plan: not after [`Ensemble::refine`].
    ///
    /// # Panics
    /// If they learn from a member that is not among them.
    pub fn subset(&self, members: &[MemberId], optimizer: &Sgd<D>) -> Result<EnsembleSubset<D>, Error> {
        let taught = self.teacher.is_none_or(|teacher| members.contains(&teacher));
        assert!(taught, "members learn from the largest, so it is trained with them");
        let unused = unused_ranges(self.plan(), self.memory.layout(), members)?;
        Ok(EnsembleSubset {
            members: members.to_vec(),
            bank: self.bank.subset(&self.memory, members)?,
            optimizer: optimizer.excluding(&unused, &self.memory)?,
        })
    }

    /// The same of a part, as if it were all; dL/dW of others is zero.
    pub fn gradients_of_subset(&mut self, part: Option<&EnsembleSubset<D>>) -> Result<(), Error> {
        let Some(part) = part else {
            self.bank.compose(&mut self.memory, MixOutput::KernelWeights)?;
            self.run_training(&self.member_ids())?;
            return self.bank.compose_backward(&mut self.memory);
        };
        self.bank.compose_subset(&part.bank, &mut self.memory, MixOutput::KernelWeights)?;
        self.memory.clear_gradients();
        self.run_training(&part.members)?;
        self.bank.compose_subset_backward(&part.bank, &mut self.memory)
    }

    /// Forward and backward of these, the one that teaches before those that learn from it.
    fn run_training(&mut self, members: &[MemberId]) -> Result<(), Error> {
        let others = members.iter().copied().filter(|&member| Some(member) != self.teacher);
        for MemberId(member) in self.teacher.into_iter().chain(others) {
            self.memory.run(&self.train[member])?;
        }
        Ok(())
    }

    /// One step of the optimizer over these gradients, with the rates it was last given.
    pub fn update(&mut self, optimizer: &mut Sgd<D>) {
        self.update_subset(optimizer, None);
    }

    /// The same of a part, as if it were all.
    pub fn update_subset(&mut self, optimizer: &mut Sgd<D>, part: Option<&EnsembleSubset<D>>) {
        match part {
            None => optimizer.step(&mut self.memory),
            Some(part) => optimizer.step_subset(&part.optimizer, &mut self.memory),
        }
    }

    /// Writes the weights that [`Ensemble::evaluate`] and everyone else reads. Once for many steps: they change with training only.
    pub fn compose(&mut self) -> Result<(), Error> {
        self.bank.compose(&mut self.memory, MixOutput::AllCopies)?;
        if self.folded {
            for (i, member) in self.bank.plan().members.iter().enumerate() {
                let architecture = member.build().expect("the members of a plan build");
                fold(&architecture, &scope(MemberId(i)), &mut self.memory)?;
            }
        }
        Ok(())
    }

    /// Running statistics of every batch norm: the mean over a pass of which the batch that was set is the k-th, from 1. Weights as
    /// [`Ensemble::compose`] wrote them. Nothing happens where the ensemble was made without ([`EnsembleOptions::recalibrated`]).
    pub fn recalibrate(&mut self, k: u32) -> Result<(), Error> {
        self.memory.set_control(Control::BatchOfPass, k);
        self.recalibrate.iter().try_for_each(|program| self.memory.run(program))
    }

    /// Every member's logits and loss for the batch that was set, with the running statistics.
    pub fn evaluate(&mut self) -> Result<(), Error> {
        self.evaluate.iter().try_for_each(|program| self.memory.run(program))
    }

    /// Packs the composed weights of every evaluation program for many runs by [`Ensemble::run_frozen`].
    pub fn freeze(&mut self) -> Result<Vec<Frozen<D>>, Error> {
        self.evaluate.iter().map(|program| self.memory.freeze(program)).collect()
    }

    /// Runs one of the evaluation programs on the batch that was set, with weights frozen before. An exit's after those of all
    /// before it.
    pub fn run_frozen(&mut self, program: usize, frozen: &Frozen<D>) -> Result<(), Error> {
        self.memory.run_frozen(&self.evaluate[program], frozen)
    }

    /// The evaluation program that a output's logits come from.
    pub fn program_of(&self, output: OutputId) -> usize {
        if self.evaluate.len() == self.outputs.count() { output.0 } else { 0 }
    }

    /// Sums of every output's metrics over steps, on the device: nothing yet.
    pub fn metric_sums(&self) -> Result<Vec<Accumulator<D>>, Error> {
        let sums =
            |loss: &String| Accumulator::new(&self.memory, vec![self.memory.layout().io(loss)?]);
        self.losses.iter().map(sums).collect()
    }

    /// What a output's loss reported.
    pub fn metrics(&self, output: OutputId) -> Result<Metrics, Error> {
        self.memory.metrics(&self.losses[output.0])
    }

    /// Share of a member's batch-norm channels whose scale is below [`ZERO_SCALE`]. With a shift that decay has taken as well they say
    /// nothing any more, and no gradient brings them back through the ReLU.
    pub fn zero_channels(&self, member: MemberId) -> Result<f64, Error> {
        let vectors = self.plan().vectors.iter();
        let scales = vectors
            .filter(|vector| vector.member == member && vector.kind == VectorKind::NormScale);
        let (mut silent, mut all) = (0, 0);
        for vector in scales {
            let scale = self.memory.parameter(&(scope(member) + &vector.name))?;
            silent += scale.iter().filter(|scale| scale.abs() < ZERO_SCALE).count();
            all += scale.len();
        }
        Ok(silent as f64 / all.max(1) as f64)
    }

    /// Layers whose weights, as [`Ensemble::compose`] wrote them last, have [`NEAR_ZERO_WEIGHT`].
    pub fn near_zero_layers(&self) -> Result<Vec<LayerId>, Error> {
        let mut faded = vec![];
        for (i, planned) in self.plan().layers.iter().enumerate() {
            let weight = self.memory.parameter(&weight_name(self.plan(), LayerId(i)))?;
            let square =
                weight.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / weight.len() as f64;
            if square.sqrt() < NEAR_ZERO_WEIGHT * planned.layer.he_std() {
                faded.push(LayerId(i));
            }
        }
        Ok(faded)
    }

    /// A output's logits for the batch.
    pub fn logits(&self, output: OutputId) -> Result<Vec<f32>, Error> {
        let logits = self.memory.output(&self.logits[output.0])?;
        Ok(log_mean_probability(logits, self.plan().members[0].classes, self.heads()))
    }

    /// Goes over to a refined plan: coefficients and their momentum are copied to the groups that split, everything else
    /// stays where it is. See [`Bank::refine`].
    pub fn refine(&mut self, plan: SharingPlan, optimizer: &mut Sgd<D>) -> Result<(), Error> {
        self.bank.refine(plan, &mut self.memory, optimizer)
    }
}
