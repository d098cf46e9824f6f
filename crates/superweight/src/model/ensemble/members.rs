//! [`Ensemble`]: all members of a plan, compiled for one device.

use superweight_engine::{
    Accumulator, Control, Device, Error, Frozen, Graph, LayoutBuilder, Memory, Metrics, MixOutput,
    Program, Settings, Sgd,
};
use superweight_plan::{MemberId, SharingPlan};

use super::options::EnsembleOptions;
use super::parameters::by_size;
use crate::model::bank::{self, Bank, scope};
use crate::model::fold::fold;
use crate::model::lower::{IMAGES, LABELS, LossTarget, Lowering, lower, lower_by_exit};
use crate::model::mimo::{log_mean_probability, side_by_side};
use crate::model::{OutputId, Outputs};

/// All members of a plan, ready to run.
///
/// Every member has programs for training and for evaluation. They share one layout, so tensors of
/// the same name are the same parameters, and one arena.
#[derive(Debug)]
pub struct Ensemble<D: Device> {
    pub(super) bank: Bank<D>,
    pub(super) train: Vec<Program<D>>,
    recalibrate: Vec<Program<D>>,
    /// One program per member, or per exit.
    evaluate: Vec<Program<D>>,
    pub(super) memory: Memory<D>,
    arena_bytes: usize,
    outputs: Outputs,
    /// Name of the loss of every output.
    losses: Vec<String>,
    /// Name of the logits of every output.
    logits: Vec<String>,
    folded: bool,
    /// Member whose probabilities the others learn, with distillation.
    pub(super) teacher: Option<MemberId>,
}

impl<D: Device> Ensemble<D> {
    /// Compiles every member and allocates memory. Parameters are zero until [`bank::initialize`]
    /// or a checkpoint sets them.
    ///
    /// # Panics
    /// If `bn_batch_size` does not divide the batch, or if members with several heads or exits take
    /// part in distillation.
    pub fn new(device: &D, plan: &SharingPlan, options: &EnsembleOptions) -> Result<Self, Error> {
        let EnsembleOptions { batch, bn_batch_size, training, recalibrated, .. } = *options;
        let EnsembleOptions { smoothing, distillation, classifier_decay, folded, by_exit, .. } =
            *options;
        let teacher = distillation.then(|| by_size(plan)[0]);
        assert!(
            bn_batch_size > 0 && batch.is_multiple_of(bn_batch_size),
            "bn_batch_size {bn_batch_size} divides the batch of {batch}"
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
            let evaluation = Lowering { folded, ..plain.clone() };
            match by_exit {
                true => evaluate.extend(lower_by_exit(&architecture, &evaluation)?),
                false => evaluate.push(lower(&architecture, &evaluation)?),
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
        // No program reads the tensors that folded weights are computed from, but they are laid
        // out.
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
        let outputs = Outputs::of_plan(plan);
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

    /// The sharing plan of the members.
    pub fn plan(&self) -> &SharingPlan {
        self.bank.plan()
    }

    /// The bank that composes the members' weights.
    pub fn bank(&self) -> &Bank<D> {
        &self.bank
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.plan().members.len()
    }

    /// Outputs of the ensemble: its members, or the exits of its only member.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// The member whose probabilities the others learn; `None` without distillation.
    pub fn teacher(&self) -> Option<MemberId> {
        self.teacher
    }

    /// Ids of all members, in the order of the plan.
    pub fn member_ids(&self) -> Vec<MemberId> {
        (0..self.members()).map(MemberId).collect()
    }

    /// Training programs, one per member; empty if the ensemble only evaluates.
    pub fn train_programs(&self) -> &[Program<D>] {
        &self.train
    }

    /// Evaluation programs, one per member, or one per exit ([`EnsembleOptions::by_exit`]).
    pub fn evaluate_programs(&self) -> &[Program<D>] {
        &self.evaluate
    }

    /// Memory with all parameters, gradients, statistics, inputs and outputs.
    pub fn memory(&self) -> &Memory<D> {
        &self.memory
    }

    /// Memory with all parameters, gradients, statistics, inputs and outputs, for changes.
    pub fn memory_mut(&mut self) -> &mut Memory<D> {
        &mut self.memory
    }

    /// Bytes of the arena, which holds activations, their gradients and scratch space. Known before
    /// anything has run.
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Number of heads of every member: images that it classifies in one pass; 1 except with MIMO.
    pub fn heads(&self) -> usize {
        self.plan().members[0].architecture.heads()
    }

    /// Sets the images (NHWC) and classes of the next batch. With MIMO the images of one row's
    /// heads are consecutive.
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

    /// Fills the batch from images on the device, as the last
    /// [`Device::set_samples`](superweight_engine::Device::set_samples) states.
    pub fn load_batch(&mut self, images: &D::Images) -> Result<(), Error> {
        self.memory.draw_batch(images, IMAGES, LABELS)
    }

    /// Writes all composed and folded weights, for [`Ensemble::evaluate`] and for reading them.
    ///
    /// One call suffices for many evaluations, until parameters change.
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

    /// Adds the current batch to the running statistics of every batch norm.
    ///
    /// Statistics are the mean over the batches of one pass; this batch is number `k`, from 1. The
    /// weights are those that [`Ensemble::compose`] wrote. Does nothing in an ensemble that was
    /// compiled without [`EnsembleOptions::recalibrated`].
    pub fn recalibrate(&mut self, k: u32) -> Result<(), Error> {
        self.memory.set_control(Control::BatchOfPass, k);
        self.recalibrate.iter().try_for_each(|program| self.memory.run(program))
    }

    /// Computes the logits and losses of all members for the current batch, with the running
    /// statistics of batch norm.
    pub fn evaluate(&mut self) -> Result<(), Error> {
        self.evaluate.iter().try_for_each(|program| self.memory.run(program))
    }

    /// Packs the composed weights of every evaluation program, for many runs by
    /// [`Ensemble::run_frozen`].
    pub fn freeze(&mut self) -> Result<Vec<Frozen<D>>, Error> {
        self.evaluate.iter().map(|program| self.memory.freeze(program)).collect()
    }

    /// Runs one evaluation program on the current batch, with packed weights. The program of an
    /// exit needs the programs of all earlier exits to have run.
    pub fn run_frozen(&mut self, program: usize, frozen: &Frozen<D>) -> Result<(), Error> {
        self.memory.run_frozen(&self.evaluate[program], frozen)
    }

    /// Index of the evaluation program that computes the logits of an output.
    pub fn program_of(&self, output: OutputId) -> usize {
        if self.evaluate.len() == self.outputs.count() { output.0 } else { 0 }
    }

    /// Returns one empty sum of metrics per output, to be added to on the device after every step.
    pub fn metric_sums(&self) -> Result<Vec<Accumulator<D>>, Error> {
        let sums =
            |loss: &String| Accumulator::new(&self.memory, vec![self.memory.layout().io(loss)?]);
        self.losses.iter().map(sums).collect()
    }

    /// Metrics of an output's loss in its last run.
    pub fn metrics(&self, output: OutputId) -> Result<Metrics, Error> {
        self.memory.metrics(&self.losses[output.0])
    }

    /// Logits of an output for the current batch. Those of a MIMO network are the logarithms of the
    /// mean probabilities of its heads.
    pub fn logits(&self, output: OutputId) -> Result<Vec<f32>, Error> {
        let logits = self.memory.output(&self.logits[output.0])?;
        Ok(log_mean_probability(logits, self.plan().members[0].classes, self.heads()))
    }

    /// Switches to a refined plan. Coefficients and their momentum are copied to the groups that
    /// split, everything else stays where it is. See [`Bank::refine`].
    pub fn refine(&mut self, plan: SharingPlan, optimizer: &mut Sgd<D>) -> Result<(), Error> {
        self.bank.refine(plan, &mut self.memory, optimizer)
    }
}
