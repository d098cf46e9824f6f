//! The members of a plan on one device: graphs, programs, memory and bank, and the step that trains them together.
//!
//! ```text
//! compose ─► member 0: forward, backward ─► member 1 … ─► compose backward ─► SGD
//! ```
//!
//! The loss is the sum of the members' losses on the same images. Members run one after another over one arena: their
//! weights are different tensors even where they are made of the same numbers, so no gradient is added up before the
//! bank adds it up.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use superweight_engine::{
    Device, Error, LayoutBuilder, Memory, Metrics, ParameterGroup, Program, Settings, Sgd, SgdOptions,
};
use superweight_plan::{LayerId, LayerKind, MemberId, SetId, SharingPlan, VectorKind};

use crate::bank::{self, Bank, coefficients_name, scope, templates_name, weight_name};
use crate::lower::{IMAGES, LABELS, Lowering, lower};

/// What a trained number is, as far as weight decay and learning rate care. Every number is of one kind; composed weights
/// are of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterKind {
    /// Shared templates, those of depthwise layers apart.
    Templates,
    /// α, what they are combined by.
    Coefficients,
    /// Weights of dense convolutions, such as the stem.
    Convolutions,
    /// Depthwise convolutions, dense or as templates.
    Depthwise,
    /// Scales and shifts.
    BatchNorm,
    /// Linear weights where they are dense, and biases.
    Classifier,
}

impl ParameterKind {
    /// All of them, in the order of the optimizer's groups.
    pub const ALL: [Self; 6] = [
        Self::Templates,
        Self::Coefficients,
        Self::Convolutions,
        Self::Depthwise,
        Self::BatchNorm,
        Self::Classifier,
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
        }
    }
}

/// How an ensemble is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct EnsembleOptions {
    /// Images per step.
    pub batch: usize,
    /// Forward, backward and update; or forward alone with the running statistics.
    pub training: bool,
    /// Label smoothing of every member's loss.
    pub smoothing: f32,
}

/// All members of a plan, ready to run.
#[derive(Debug)]
pub struct Ensemble<D: Device> {
    bank: Bank<D>,
    programs: Vec<Program<D>>,
    memory: Memory<D>,
    losses: Vec<String>,
    logits: Vec<String>,
}

impl<D: Device> Ensemble<D> {
    /// Compiles every member and allocates; numbers are zero until [`bank::initialise`] or a checkpoint sets them.
    pub fn new(device: &D, plan: &SharingPlan, options: &EnsembleOptions) -> Result<Self, Error> {
        let settings = match options.training {
            true => Settings::train(options.batch),
            false => Settings::evaluate(options.batch),
        };
        let (mut graphs, mut losses, mut logits) = (vec![], vec![], vec![]);
        for (i, member) in plan.members.iter().enumerate() {
            let lowering = Lowering { scope: scope(MemberId(i)), smoothing: options.smoothing };
            let architecture = member.build().expect("the members of a plan build");
            graphs.push(lower(&architecture, &lowering)?);
            losses.push(lowering.loss());
            logits.push(lowering.logits());
        }
        let mut layout = LayoutBuilder::new();
        bank::declare(plan, &mut layout)?;
        let refinable = options.training && plan.bill.reserved > 0;
        if refinable {
            bank::declare_probe(plan, &mut layout)?;
        }
        for graph in &graphs {
            layout.graph(graph, &settings)?;
        }
        let layout = layout.finish(device);
        let bank = Bank::new(device, plan.clone(), &layout)?;
        let compile = |graph| Program::compile(device, graph, &settings, &layout);
        let programs = graphs.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        let arena = programs.iter().map(|program| program.plan().arena_bytes).max().unwrap_or(0);
        let scratch = if refinable { bank.refined_scratch_bytes() } else { bank.scratch_bytes() };
        let memory = Memory::new(device, layout, arena.max(scratch))?;
        Ok(Self { bank, programs, memory, losses, logits })
    }

    /// What is shared.
    pub fn plan(&self) -> &SharingPlan {
        self.bank.plan()
    }

    /// The bank.
    pub fn bank(&self) -> &Bank<D> {
        &self.bank
    }

    /// The members' programs.
    pub fn programs(&self) -> &[Program<D>] {
        &self.programs
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
        let programs = self.programs.iter().map(|program| program.plan().arena_bytes).max().unwrap_or(0);
        programs.max(self.bank.scratch_bytes())
    }

    /// Sets the images (NHWC) and classes that every member sees next.
    pub fn set_batch(&mut self, images: &[f32], classes: &[u32]) -> Result<(), Error> {
        self.memory.set_input(IMAGES, images)?;
        self.memory.set_classes(LABELS, classes)
    }

    /// Composes, runs every member forward (and backward), and turns dL/dW into the bank's gradients.
    pub fn run(&mut self, training: bool) -> Result<(), Error> {
        self.bank.compose(&mut self.memory)?;
        for program in &self.programs {
            self.memory.run(program)?;
        }
        if training {
            self.bank.compose_backward(&mut self.memory)?;
        }
        Ok(())
    }

    /// Composes, members forward and backward, compose backward.
    pub fn gradients(&mut self) -> Result<(), Error> {
        self.run(true)
    }

    /// Writes the composed weights.
    pub fn compose(&mut self) -> Result<(), Error> {
        self.bank.compose(&mut self.memory)
    }

    /// What a member's loss reported.
    pub fn metrics(&self, member: MemberId) -> Result<Metrics, Error> {
        self.memory.metrics(&self.losses[member.0])
    }

    /// A member's logits for the batch.
    pub fn logits(&self, member: MemberId) -> Result<Vec<f32>, Error> {
        self.memory.output(&self.logits[member.0])
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
        let mut names = vec![];
        for (i, set) in plan.template_sets.iter().enumerate() {
            let shared = plan.layer(plan.clusters[set.cluster.0].layers[0]).kind;
            let of = if shared == LayerKind::Depthwise {
                ParameterKind::Depthwise
            } else {
                ParameterKind::Templates
            };
            names.extend((of == kind).then(|| templates_name(SetId(i))));
            let mixed = kind == ParameterKind::Coefficients && set.templates > 1;
            names.extend(mixed.then(|| coefficients_name(SetId(i))));
        }
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

    /// One step of the optimizer over the gradients of the last run.
    pub fn update(&mut self, optimizer: &mut Sgd<D>, rates: &[f32]) -> Result<(), Error> {
        optimizer.set_rates(rates)?;
        optimizer.step(&mut self.memory);
        Ok(())
    }
}
