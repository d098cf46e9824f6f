//! How long a step takes: the whole of it, and each operation's share.
//!
//! A step of several members is what training them together costs: forward and backward one after another over one
//! arena, then one update. Weights are random, images are noise: the time does not depend on either.

mod shared;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use superweight_engine::{
    Call, Device, Error, Frozen, Graph, LayoutBuilder, Memory, ParameterGroup, Program, Settings,
    Sgd, SgdOptions, SlotKind,
};
use superweight_plan::arch::Architecture;

pub use shared::{Comparison, SharedBench};

use crate::model::lower::{IMAGES, LABELS, Lowering, lower};
use crate::model::recording::RecordedWork;
use crate::rng::Draws;

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchRequest {
    /// The members, in the order they run.
    pub members: Vec<Architecture>,
    /// Images per step.
    pub batch: usize,
    /// Forward, backward and update, or forward alone with the running statistics.
    pub training: bool,
    /// Inference with weights packed once and held beside the plain ones: faster at small batches, twice the memory for
    /// weights. Otherwise every step packs them anew, as training does.
    pub packed: bool,
    /// Inference with batch norms folded into convolutions where that is possible.
    pub folded: bool,
}

/// A bench that is ready to run.
#[derive(Debug)]
pub struct Bench<D: Device> {
    batch: usize,
    programs: Vec<Program<D>>,
    memory: Memory<D>,
    optimizer: Option<Sgd<D>>,
    /// One per program where weights do not change and are packed once.
    frozen: Vec<Frozen<D>>,
    replayed: RecordedWork<D>,
}

/// What a step costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Median time of a step.
    pub step_ms: f64,
    /// Shortest and longest.
    pub range_ms: (f64, f64),
    /// Steps measured.
    pub repeats: usize,
    /// Images per second, all members together counted once.
    pub images_per_s: f64,
    /// Arithmetic of convolutions and linear layers per second, two per multiply-add.
    pub gflops: f64,
    /// What plans and layouts predict: arena, parameters, gradients, momentum, statistics, inputs, packed weights.
    pub peak_bytes: usize,
    /// The arena alone: activations, their gradients, scratch.
    pub arena_bytes: usize,
}

/// Time of the calls of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OpReport {
    /// The kernel.
    pub kernel: &'static str,
    /// Calls in a step.
    pub calls: usize,
    /// Median over the repeats of their time in a step.
    pub ms: f64,
    /// Split of the step.
    pub share: f64,
    /// Arithmetic per second where it is counted.
    pub gflops: Option<f64>,
}

/// Arithmetic of a call, in multiply-adds.
fn multiply_adds(call: &Call) -> u64 {
    match call {
        Call::ConvForward(c) => c.geometry.multiply_adds(),
        Call::ConvBackwardData(c) => c.geometry.multiply_adds(),
        Call::ConvBackwardWeight(c) => c.geometry.multiply_adds(),
        _ => 0,
    }
}

impl<D: Device> Bench<D> {
    /// Compiles and allocates; what it will need is known before the first step.
    pub fn new(device: &D, request: &BenchRequest) -> Result<Self, Error> {
        let settings = match request.training {
            true => Settings::train(request.batch),
            false => Settings::evaluate(request.batch),
        };
        let mut graphs = Vec::new();
        for (index, member) in request.members.iter().enumerate() {
            let folded = !request.training && request.folded;
            let lowering = Lowering { scope: format!("{index}."), folded, ..Lowering::default() };
            graphs.push(lower(member, &lowering)?);
        }
        let mut layout = LayoutBuilder::new();
        for graph in &graphs {
            layout.graph(graph, &settings)?;
        }
        let layout = layout.finish(device);
        let mut programs = Vec::new();
        for graph in &graphs {
            programs.push(Program::compile(device, graph, &settings, &layout)?);
        }
        let arena = programs.iter().map(|p| p.plan().arena_bytes).max().unwrap_or(0);
        let mut memory = Memory::new(device, layout, arena)?;
        for graph in &graphs {
            fill(graph, &mut memory)?;
        }
        if let Some(first) = request.members.first() {
            let images = memory.layout().io(IMAGES)?.len;
            memory.set_input(IMAGES, &noise(1, images))?;
            let all = (request.batch * first.heads) as u32;
            let labels: Vec<u32> = (0..all).map(|i| i % first.classes as u32).collect();
            memory.set_classes(LABELS, &labels)?;
        }
        let optimizer = match request.training {
            false => None,
            true => {
                let numbers = memory.layout().parameter_len;
                let group = ParameterGroup::new(0..numbers, 5e-4);
                Some(Sgd::new(&memory, SgdOptions { momentum: 0.9, nesterov: true }, vec![group])?)
            }
        };
        let frozen = match request.training || !request.packed {
            true => Vec::new(),
            false => {
                programs.iter().map(|program| memory.freeze(program)).collect::<Result<_, _>>()?
            }
        };
        Ok(Self {
            batch: request.batch,
            programs,
            memory,
            optimizer,
            frozen,
            replayed: RecordedWork::New,
        })
    }

    /// One step, from a recording where the device gains by it; done when it returns.
    pub fn step(&mut self) -> Result<(), Error> {
        let Self { programs, memory, optimizer, frozen, replayed, .. } = self;
        let device = memory.device().clone();
        replayed.run(&device, &mut || {
            for (index, program) in programs.iter().enumerate() {
                match frozen.get(index) {
                    Some(frozen) => memory.run_frozen(program, frozen)?,
                    None => memory.run(program)?,
                }
            }
            // A rate of zero does all the work and keeps the numbers tame, however many steps are measured.
            optimizer.iter_mut().for_each(|optimizer| optimizer.step(memory));
            Ok(())
        })?;
        device.finish()
    }

    /// Bytes of the arena: what the memory plan predicts for activations, before anything has run.
    pub fn arena_bytes(&self) -> usize {
        self.programs.iter().map(|p| p.plan().arena_bytes).max().unwrap_or(0)
    }

    /// Bytes of everything.
    pub fn peak_bytes(&self) -> usize {
        let layout = self.memory.layout();
        let copies = if self.optimizer.is_some() { 3 } else { 1 };
        let kept = copies * layout.parameter_len + layout.statistic_len;
        let packed: usize =
            self.frozen.iter().map(|frozen| frozen.bytes(self.memory.device())).sum();
        self.arena_bytes() + layout.io_bytes + 4 * kept + packed
    }

    /// Steps until `time` has passed, at least five, after three to warm up and to be recorded.
    pub fn measure(&mut self, time: Duration) -> Result<StepReport, Error> {
        (0..3).try_for_each(|_| self.step())?;
        let begin = Instant::now();
        let mut times = Vec::new();
        while times.len() < 5 || begin.elapsed() < time {
            let start = Instant::now();
            self.step()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let step_ms = median(&times);
        let calls = self.programs.iter().flat_map(|p| p.steps());
        let work: u64 = calls.map(|step| multiply_adds(&step.call)).sum();
        Ok(StepReport {
            step_ms,
            range_ms: (times[0], times[times.len() - 1]),
            repeats: times.len(),
            images_per_s: self.batch as f64 / step_ms * 1e3,
            gflops: 2.0 * work as f64 / step_ms / 1e6,
            peak_bytes: self.peak_bytes(),
            arena_bytes: self.arena_bytes(),
        })
    }

    /// Time of each kind of kernel, most expensive first.
    pub fn profile(&mut self, repeats: usize) -> Result<Vec<OpReport>, Error> {
        self.step()?;
        self.memory.finish()?;
        let mut rounds: Vec<HashMap<&'static str, (usize, f64, u64)>> = Vec::new();
        for _ in 0..repeats.max(1) {
            let mut round = HashMap::new();
            for program in &self.programs {
                let steps = program.steps();
                self.memory.profile(program, &mut |index, time| {
                    let call = &steps[index].call;
                    let entry: &mut (usize, f64, u64) = round.entry(call.name()).or_default();
                    *entry = (
                        entry.0 + 1,
                        entry.1 + time.as_secs_f64() * 1e3,
                        entry.2 + multiply_adds(call),
                    );
                })?;
            }
            if let Some(optimizer) = &mut self.optimizer {
                let start = Instant::now();
                optimizer.step(&mut self.memory);
                self.memory.finish()?;
                round.insert("SgdStep", (1, start.elapsed().as_secs_f64() * 1e3, 0));
            }
            rounds.push(round);
        }
        let mut reports: Vec<OpReport> = rounds[0]
            .iter()
            .map(|(kernel, (calls, _, work))| {
                let mut times: Vec<f64> = rounds.iter().map(|round| round[kernel].1).collect();
                times.sort_by(f64::total_cmp);
                let ms = median(&times);
                let gflops = (*work > 0).then(|| 2.0 * *work as f64 / ms / 1e6);
                OpReport { kernel, calls: *calls, ms, share: 0.0, gflops }
            })
            .collect();
        let total: f64 = reports.iter().map(|report| report.ms).sum();
        reports.iter_mut().for_each(|report| report.share = report.ms / total);
        reports.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        Ok(reports)
    }
}

fn median(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// He-sized weights, scales of one, variances of one.
fn fill<D: Device>(graph: &Graph, memory: &mut Memory<D>) -> Result<(), Error> {
    for (index, slot) in graph.slots().iter().enumerate() {
        let fan_in: usize = slot.dims[1..].iter().product();
        let scale = (6.0 / fan_in as f32).sqrt();
        let values: Vec<f32> = match slot.kind {
            SlotKind::Weight if slot.dims.len() > 1 => {
                noise(index as u64 + 2, slot.len()).iter().map(|v| v * scale).collect()
            }
            _ if slot.name.ends_with(".weight") || slot.name.ends_with("running_var") => {
                vec![1.0; slot.len()]
            }
            _ => vec![0.0; slot.len()],
        };
        match slot.kind {
            SlotKind::Statistic => memory.set_statistic(&slot.name, &values)?,
            _ => memory.set_parameter(&slot.name, &values)?,
        }
    }
    Ok(())
}

/// Uniform numbers in [-1, 1).
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let draws = Draws::new(&[seed]);
    (0..len as u64).map(|n| draws.signed_unit(n) as f32).collect()
}
