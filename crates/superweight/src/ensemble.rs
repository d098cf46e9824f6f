//! The members of a plan on one device: graphs, programs, memory and bank, and the step that trains them together.
//!
//! ```text
//! compose ─► member 0: forward, backward ─► member 1 … ─► compose backward ─► SGD
//! ```
//!
//! The loss is the sum of the members' losses on the same images. Members run one after another over one arena: their
//! weights are different tensors even where they are made of the same numbers, so no gradient is added up before the
//! bank adds it up. A step may train some of them only; where others learn from the largest ([`Lesson`]) it runs first.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use superweight_engine::{
    Accumulator, Control, Device, Error, Frozen, Graph, LayoutBuilder, Memory, Metrics, MixReaders,
    ParameterGroup, Program, Settings, Sgd, SgdOptions, SgdPart,
};
use superweight_plan::{
    ClusterId, Group, LayerId, LayerKind, MemberId, SetId, SharingPlan, SuperWeightId, VectorKind,
};

use crate::bank::{
    self, Bank, BankPart, coefficients_name, factors_name, idle, numbers_name, pattern_rows, patterns_name,
    scope, templates_name, weight_name,
};
use crate::fold::fold;
use crate::heads::{mixture, side_by_side};
use crate::lower::{IMAGES, LABELS, Lesson, Lowering, lower};

/// What a trained number is, as far as weight decay and learning rate care. Every number is of one kind; composed weights
/// are of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterKind {
    /// Shared templates with their patterns, those of depthwise and linear layers apart.
    Templates,
    /// α, what templates of convolutions are combined by.
    Coefficients,
    /// Weights of dense convolutions, such as the stem.
    Convolutions,
    /// Depthwise convolutions, dense or as templates.
    Depthwise,
    /// Scales and shifts.
    BatchNorm,
    /// Linear weights where they are dense, and biases.
    Classifier,
    /// Templates of linear weights with their patterns. Decay pulls at the weights, as if they were dense, and at their numbers through them:
    /// a product of three escapes a pull at its factors (`docs/notes/reproduction.md`).
    ClassifierTemplates,
    /// What these are combined by.
    ClassifierCoefficients,
}

impl ParameterKind {
    /// All of them, in the order of the optimizer's groups.
    pub const ALL: [Self; 8] = [
        Self::Templates,
        Self::Coefficients,
        Self::Convolutions,
        Self::Depthwise,
        Self::BatchNorm,
        Self::Classifier,
        Self::ClassifierTemplates,
        Self::ClassifierCoefficients,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Templates => "templates",
            Self::Coefficients => "coefficients",
            Self::Convolutions => "convolutions",
            Self::Depthwise => "depthwise convolutions",
            Self::BatchNorm => "batch norm",
            Self::Classifier => "classifier",
            Self::ClassifierTemplates => "classifier's templates",
            Self::ClassifierCoefficients => "classifier's coefficients",
        }
    }
}

/// A batch norm's scale below which a channel is silent; scales start at 1.
pub const SILENT: f32 = 0.01;

/// Root mean square of a weight, over He's deviation for its inputs, below which it has faded: the layer gives next to nothing. What
/// batch norm follows may shrink to a tenth and lose nothing.
pub const FADED: f64 = 1e-3;

/// How an ensemble is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct EnsembleOptions {
    /// Rows of a batch: images, or where members have several heads as many images each.
    pub batch: usize,
    /// Rows that batch norm takes its statistics over in training; divides the batch.
    pub bn_batch: usize,
    /// Whether there are training programs beside the evaluation programs.
    pub training: bool,
    /// Whether there are programs that take batch norm's statistics anew.
    pub recalibrated: bool,
    /// Label smoothing of every member's loss in training.
    pub smoothing: f32,
    /// Whether the largest member alone learns from labels, and the others from its probabilities.
    pub distilled: bool,
    /// Weight decay of composed linear weights in training.
    pub classifier_decay: f32,
    /// Whether evaluation programs have their batch norms folded into convolutions where that is possible. Faster, and
    /// equal up to rounding.
    pub folded: bool,
}

impl EnsembleOptions {
    /// To train and to evaluate, with statistics over the whole batch and plain labels.
    pub fn train(batch: usize) -> Self {
        Self {
            batch,
            bn_batch: batch,
            training: true,
            recalibrated: false,
            smoothing: 0.0,
            distilled: false,
            classifier_decay: 0.0,
            folded: false,
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
    evaluate: Vec<Program<D>>,
    memory: Memory<D>,
    arena_bytes: usize,
    losses: Vec<String>,
    logits: Vec<String>,
    folded: bool,
    /// From whom the others learn.
    teacher: Option<MemberId>,
}

/// Some of an ensemble's members, for steps that train these and leave alone what only others have.
#[derive(Debug)]
pub struct EnsemblePart<D: Device> {
    members: Vec<MemberId>,
    bank: BankPart<D>,
    optimizer: SgdPart<D>,
}

/// Members from the largest to the smallest, by the multiply-adds of an image; of two alike the first.
pub fn by_size(plan: &SharingPlan) -> Vec<MemberId> {
    let mut members: Vec<MemberId> = (0..plan.members.len()).map(MemberId).collect();
    members.sort_by_cached_key(|&member| std::cmp::Reverse(multiply_adds(plan, member)));
    members
}

/// A member's work for an image.
pub(crate) fn multiply_adds(plan: &SharingPlan, member: MemberId) -> u64 {
    let architecture = plan.members[member.0].build().expect("the members of a plan build");
    architecture.counts().multiply_adds
}

impl<D: Device> Ensemble<D> {
    /// Compiles every member and allocates; numbers are zero until [`bank::initialise`] or a checkpoint sets them.
    pub fn new(device: &D, plan: &SharingPlan, options: &EnsembleOptions) -> Result<Self, Error> {
        let EnsembleOptions { batch, bn_batch, training, recalibrated, .. } = *options;
        let EnsembleOptions { smoothing, distilled, classifier_decay, folded, .. } = *options;
        let teacher = distilled.then(|| by_size(plan)[0]);
        assert!(bn_batch > 0 && batch.is_multiple_of(bn_batch), "ghost batches divide the batch");
        let (mut train, mut recalibrate, mut evaluate) = (vec![], vec![], vec![]);
        let (mut losses, mut logits, mut unfolded) = (vec![], vec![], vec![]);
        for (i, member) in plan.members.iter().enumerate() {
            let architecture = member.build().expect("the members of a plan build");
            let plain = Lowering { scope: scope(MemberId(i)), ..Lowering::default() };
            losses.push(plain.loss());
            logits.push(plain.logits());
            if folded {
                unfolded.push(lower(&architecture, &plain)?);
            }
            evaluate.push(lower(&architecture, &Lowering { folded, ..plain.clone() })?);
            if recalibrated {
                recalibrate.push(lower(&architecture, &plain)?);
            }
            if training {
                let lesson = match teacher {
                    None => Lesson::Labels,
                    Some(MemberId(teacher)) if teacher == i => Lesson::Teach,
                    Some(_) => Lesson::Learn,
                };
                let lowering = Lowering { smoothing, lesson, ghosts: batch / bn_batch, ..plain };
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
        let [train, recalibrate, evaluate]: [Result<Vec<_>, Error>; 3] = modes.each_ref().map(compile);
        let (train, recalibrate, evaluate) = (train?, recalibrate?, evaluate?);
        let scratch = if refinable { bank.refined_scratch_bytes() } else { bank.scratch_bytes() };
        let programs =
            train.iter().chain(&recalibrate).chain(&evaluate).map(|program| program.plan().arena_bytes);
        let arena_bytes = programs.fold(scratch, usize::max);
        let memory = Memory::new(device, layout, arena_bytes)?;
        Ok(Self { bank, train, recalibrate, evaluate, memory, arena_bytes, losses, logits, folded, teacher })
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
        self.losses.len()
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

    /// The members' evaluation programs.
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
            _ => self.memory.set_input(IMAGES, &side_by_side(images, image, input.channels, heads))?,
        }
        self.memory.set_classes(LABELS, classes)
    }

    /// Fills the batch from images on the device, as they were last said to be drawn.
    pub fn draw(&mut self, images: &D::Images) -> Result<(), Error> {
        self.memory.draw(images, IMAGES, LABELS)
    }

    /// Compose, members forward and backward, compose backward: dL/dW of every layer and the bank's gradients are there. Weights
    /// to look at are not: [`Ensemble::compose`].
    pub fn gradients(&mut self) -> Result<(), Error> {
        self.gradients_of(None)
    }

    /// These members, and what of the optimizer's is theirs. Of this plan: not after [`Ensemble::refine`].
    ///
    /// # Panics
    /// If they learn from a member that is not among them.
    pub fn part(&self, members: &[MemberId], optimizer: &Sgd<D>) -> Result<EnsemblePart<D>, Error> {
        let taught = self.teacher.is_none_or(|teacher| members.contains(&teacher));
        assert!(taught, "members learn from the largest, so it is trained with them");
        let idle = idle(self.plan(), self.memory.layout(), members)?;
        Ok(EnsemblePart {
            members: members.to_vec(),
            bank: self.bank.part(&self.memory, members)?,
            optimizer: optimizer.without(&idle, &self.memory)?,
        })
    }

    /// The same of a part, as if it were all; dL/dW of others is zero.
    pub fn gradients_of(&mut self, part: Option<&EnsemblePart<D>>) -> Result<(), Error> {
        let Some(part) = part else {
            self.bank.compose(&mut self.memory, MixReaders::Programs)?;
            self.run_training(&self.member_ids())?;
            return self.bank.compose_backward(&mut self.memory);
        };
        self.bank.compose_part(&part.bank, &mut self.memory, MixReaders::Programs)?;
        self.memory.clear_gradients();
        self.run_training(&part.members)?;
        self.bank.compose_part_backward(&part.bank, &mut self.memory)
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
        self.update_of(optimizer, None);
    }

    /// The same of a part, as if it were all.
    pub fn update_of(&mut self, optimizer: &mut Sgd<D>, part: Option<&EnsemblePart<D>>) {
        match part {
            None => optimizer.step(&mut self.memory),
            Some(part) => optimizer.step_part(&part.optimizer, &mut self.memory),
        }
    }

    /// Writes the weights that [`Ensemble::evaluate`] and everyone else reads. Once for many steps: they change with training only.
    pub fn compose(&mut self) -> Result<(), Error> {
        self.bank.compose(&mut self.memory, MixReaders::Everyone)?;
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

    /// Packs every member's composed weights for many runs by [`Ensemble::run_frozen`].
    pub fn freeze(&mut self) -> Result<Vec<Frozen<D>>, Error> {
        self.evaluate.iter().map(|program| self.memory.freeze(program)).collect()
    }

    /// One member's logits for the batch that was set, with weights frozen before.
    pub fn run_frozen(&mut self, member: MemberId, frozen: &Frozen<D>) -> Result<(), Error> {
        self.memory.run_frozen(&self.evaluate[member.0], frozen)
    }

    /// Sums of every member's metrics over steps, on the device: nothing yet.
    pub fn metric_sums(&self) -> Result<Vec<Accumulator<D>>, Error> {
        let sums = |loss: &String| Accumulator::new(&self.memory, vec![self.memory.layout().io(loss)?]);
        self.losses.iter().map(sums).collect()
    }

    /// What a member's loss reported.
    pub fn metrics(&self, member: MemberId) -> Result<Metrics, Error> {
        self.memory.metrics(&self.losses[member.0])
    }

    /// Share of a member's batch-norm channels whose scale is below [`SILENT`]. With a shift that decay has taken as well they say
    /// nothing any more, and no gradient brings them back through the ReLU.
    pub fn silent_channels(&self, member: MemberId) -> Result<f64, Error> {
        let vectors = self.plan().vectors.iter();
        let scales = vectors.filter(|vector| vector.member == member && vector.kind == VectorKind::NormScale);
        let (mut silent, mut all) = (0, 0);
        for vector in scales {
            let scale = self.memory.parameter(&(scope(member) + &vector.name))?;
            silent += scale.iter().filter(|scale| scale.abs() < SILENT).count();
            all += scale.len();
        }
        Ok(silent as f64 / all.max(1) as f64)
    }

    /// Layers whose weights, as [`Ensemble::compose`] wrote them last, have [`FADED`].
    pub fn faded_layers(&self) -> Result<Vec<LayerId>, Error> {
        let mut faded = vec![];
        for (i, planned) in self.plan().layers.iter().enumerate() {
            let weight = self.memory.parameter(&weight_name(self.plan(), LayerId(i)))?;
            let square = weight.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / weight.len() as f64;
            if square.sqrt() < FADED * planned.layer.he() {
                faded.push(LayerId(i));
            }
        }
        Ok(faded)
    }

    /// A member's logits for the batch.
    pub fn logits(&self, member: MemberId) -> Result<Vec<f32>, Error> {
        let logits = self.memory.output(&self.logits[member.0])?;
        Ok(mixture(logits, self.plan().members[member.0].classes, self.heads()))
    }

    /// Goes over to a refined plan: coefficients and their momentum are copied to the groups that split, everything else
    /// stays where it is. See [`Bank::refine`].
    pub fn refine(&mut self, plan: SharingPlan, optimizer: &mut Sgd<D>) -> Result<(), Error> {
        self.bank.refine(plan, &mut self.memory, optimizer)
    }

    /// An optimizer with one group per [`ParameterKind`], in that order.
    pub fn optimizer(
        &self,
        options: SgdOptions,
        decay: impl Fn(ParameterKind) -> f32,
    ) -> Result<Sgd<D>, Error> {
        let group = |kind| Ok(ParameterGroup { ranges: self.ranges(kind)?, decay: decay(kind) });
        let groups = ParameterKind::ALL.into_iter().map(group).collect::<Result<_, Error>>()?;
        Sgd::new(&self.memory, options, groups)
    }

    /// Where the numbers of a kind lie. Composed weights are of no kind: they are not trained.
    pub fn ranges(&self, kind: ParameterKind) -> Result<Vec<Range<usize>>, Error> {
        let plan = self.plan();
        let patterns = pattern_rows(plan);
        let mut names = vec![];
        for (i, set) in plan.template_sets.iter().enumerate() {
            let (of, mixed_by) = match bank::kind_of(plan, SetId(i)) {
                LayerKind::Conv => (ParameterKind::Templates, ParameterKind::Coefficients),
                LayerKind::Depthwise => (ParameterKind::Depthwise, ParameterKind::Coefficients),
                LayerKind::Linear => {
                    (ParameterKind::ClassifierTemplates, ParameterKind::ClassifierCoefficients)
                }
            };
            names.extend((of == kind && set.view.is_none()).then(|| templates_name(SetId(i))));
            names.extend((of == kind && patterns[i] > 0).then(|| patterns_name(SetId(i))));
            let mixed = kind == mixed_by && set.templates > 1;
            names.extend(mixed.then(|| coefficients_name(SetId(i))));
            let factors = kind == mixed_by && plan.factor_numbers(SetId(i)) > 0;
            names.extend(factors.then(|| factors_name(SetId(i))));
        }
        let banks = plan.clusters.iter().enumerate().filter(|(_, cluster)| cluster.bank.is_some());
        let banks = banks.filter(|_| kind == ParameterKind::Templates);
        names.extend(banks.map(|(i, _)| numbers_name(ClusterId(i))));
        for (i, planned) in plan.layers.iter().enumerate().filter(|(_, planned)| planned.tiles.is_empty()) {
            let of = match planned.layer.kind {
                LayerKind::Conv => ParameterKind::Convolutions,
                LayerKind::Depthwise => ParameterKind::Depthwise,
                LayerKind::Linear => ParameterKind::Classifier,
            };
            names.extend((of == kind).then(|| weight_name(plan, LayerId(i))));
        }
        for vector in &plan.vectors {
            let of = match vector.kind {
                VectorKind::NormScale | VectorKind::NormShift => ParameterKind::BatchNorm,
                VectorKind::Bias => ParameterKind::Classifier,
            };
            names.extend((of == kind).then(|| scope(vector.member) + &vector.name));
        }
        let range = |name: String| {
            let region = self.memory.layout().parameter(&name)?;
            Ok(region.offset..region.offset + region.len)
        };
        names.into_iter().map(range).collect()
    }
}

/// Trained numbers that a member needs by itself: its own, the templates it draws on, the coefficient rows it uses.
/// Members share some of them, so the sum over members is more than the plan has.
pub fn member_numbers(plan: &SharingPlan, member: MemberId) -> u64 {
    let of_member = |&id: &LayerId| plan.layer(id).member == member;
    let (mut sets, mut total) = (vec![false; plan.template_sets.len()], 0);
    for planned in plan.layers.iter().filter(|planned| planned.layer.member == member) {
        total += if planned.tiles.is_empty() { planned.layer.len() } else { 0 };
        planned.tiles.iter().for_each(|tile| sets[plan.superweight(tile.superweight).set.0] = true);
    }
    for (i, superweight) in plan.superweights.iter().enumerate() {
        for group in &superweight.groups {
            let own = Group { layers: group.layers.iter().copied().filter(of_member).collect(), ..*group };
            let cells = plan.coefficient_cells(SuperWeightId(i), &own).len();
            let rows = if plan.has_patterns() { cells.min(1) } else { cells };
            total += (rows * group.shape[1]) as u64;
        }
        if plan.has_patterns() && !superweight.groups.is_empty() {
            let own = Group { layers: superweight.layers().filter(of_member).collect(), shape: [0, 0] };
            let cells = plan.coefficient_cells(SuperWeightId(i), &own).len();
            total += (cells * plan.set(superweight.set).templates) as u64;
        }
    }
    for (i, (set, _)) in plan.template_sets.iter().zip(sets).enumerate().filter(|(_, (_, used))| *used) {
        total += plan.factor_numbers(SetId(i));
        total += if set.view.is_none() { set.templates as u64 * set.block_len() } else { 0 };
    }
    let mine = |id| plan.seen_numbers(id, |layer| layer.member == member);
    total += (0..plan.clusters.len()).map(|i| mine(ClusterId(i))).sum::<u64>();
    total + plan.vectors.iter().filter(|v| v.member == member).map(|v| v.len).sum::<u64>()
}
