//! Timing of a step without sharing, in all and by kernel.
//!
//! A training step of several members runs them forward and backward one after another over one
//! arena, then updates once. Weights are random and images are noise; the time depends on neither.
use std::collections::HashMap;
use std::time::{Duration, Instant};

use superweight_engine::{
    Call, Device, Error, Frozen, Graph, LayoutBuilder, Memory, ParameterGroup, Program, Settings,
    Sgd, SgdOptions, SlotKind,
};
use superweight_plan::arch::Architecture;

use super::synthetic::{median, noise};
use crate::model::lower::{IMAGES, LABELS, Lowering, lower};
use crate::model::recording::RecordedWork;

/// Settings of a [`Bench`].
#[derive(Clone, Debug)]
pub struct BenchRequest {
    /// Members, in the order in which they run.
    pub members: Vec<Architecture>,
    /// Rows of a batch: images, or with MIMO one image per head.
    pub batch: usize,
    /// Whether a step is one of training (forward, backward and update) or of inference (forward
    /// with the running statistics).
    pub training: bool,
    /// Whether inference packs weights once and keeps them beside the plain ones. This is faster at
    /// small batches and takes twice the memory for weights. Otherwise every step packs them again,
    /// as training does.
    pub packed: bool,
    /// Whether inference folds batch norms into convolutions where possible.
    pub folded: bool,
}

/// Compiled members and their memory, ready to be measured.
#[derive(Debug)]
pub struct Bench<D: Device> {
    batch: usize,
    programs: Vec<Program<D>>,
    memory: Memory<D>,
    optimizer: Option<Sgd<D>>,
    /// Packed weights, one per program; empty unless weights are packed once.
    frozen: Vec<Frozen<D>>,
    step: RecordedWork<D>,
}

/// Time and memory of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// Median time of a step, in milliseconds.
    pub step_ms: f64,
    /// Shortest and longest time of a step, in milliseconds.
    pub range_ms: (f64, f64),
    /// Number of steps measured.
    pub repeats: usize,
    /// Rows of the batch per second. A row counts once, however many members process it.
    pub images_per_s: f64,
    /// Billions of arithmetic operations of convolutions and linear layers per second, two per
    /// multiply-add.
    pub gflops: f64,
    /// Bytes that plans and layouts predict: arena, parameters, gradients, momentum, statistics,
    /// inputs and packed weights.
    pub peak_bytes: usize,
    /// Bytes of the arena: activations, their gradients and scratch.
    pub arena_bytes: usize,
}

/// Time of all calls of one kernel in a step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpReport {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Number of calls in a step.
    pub calls: usize,
    /// Time of all calls in a step, in milliseconds: the median over the repeats.
    pub ms: f64,
    /// Share of the step's time, 0 to 1.
    pub share: f64,
    /// Billions of arithmetic operations per second; `None` for kernels that are not convolutions.
    pub gflops: Option<f64>,
}

/// Multiply-adds of a call; 0 for kernels that are not convolutions.
fn multiply_adds(call: &Call) -> u64 {
    match call {
        Call::ConvForward(c) => c.geometry.multiply_adds(),
        Call::ConvBackwardData(c) => c.geometry.multiply_adds(),
        Call::ConvBackwardWeight(c) => c.geometry.multiply_adds(),
        _ => 0,
    }
}

impl<D: Device> Bench<D> {
    /// Compiles the members and allocates all memory that a step needs.
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
                let len = memory.layout().parameter_len;
                let group = ParameterGroup::new(0..len, 5e-4);
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
            step: RecordedWork::New,
        })
    }

    /// Runs one step, from a recording if the device makes such, and waits for its end.
    pub fn step(&mut self) -> Result<(), Error> {
        let Self { programs, memory, optimizer, frozen, step, .. } = self;
        let device = memory.device().clone();
        step.run(&device, &mut || {
            for (index, program) in programs.iter().enumerate() {
                match frozen.get(index) {
                    Some(frozen) => memory.run_frozen(program, frozen)?,
                    None => memory.run(program)?,
                }
            }
            // With a learning rate of zero the step does all its work, and parameters stay finite.
            optimizer.iter_mut().for_each(|optimizer| optimizer.step(memory));
            Ok(())
        })?;
        device.finish()
    }

    /// Bytes of the arena, as the memory plan predicts them before anything has run.
    pub fn arena_bytes(&self) -> usize {
        self.programs.iter().map(|p| p.plan().arena_bytes).max().unwrap_or(0)
    }

    /// Bytes of all memory; see [`StepReport::peak_bytes`].
    pub fn peak_bytes(&self) -> usize {
        let layout = self.memory.layout();
        let copies = if self.optimizer.is_some() { 3 } else { 1 };
        let kept = copies * layout.parameter_len + layout.statistic_len;
        let packed: usize =
            self.frozen.iter().map(|frozen| frozen.bytes(self.memory.device())).sum();
        self.arena_bytes() + layout.io_bytes + 4 * kept + packed
    }

    /// Measures steps until `time` has passed, at least five, after three steps that warm up and
    /// record.
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

    /// Measures the time of each kernel in a step; returns the longest first. The device waits
    /// after every call, so the times may sum to more than [`StepReport::step_ms`].
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

/// Sets weights of He's size, and scales and variances of one; all else to zero.
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
