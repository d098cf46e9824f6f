//! Helpers of the tests: hashed values, a graph with its memory, finite differences, and PyTorch
//! fixtures. All are generic over the device, so every device runs the same tests.
#![allow(dead_code)]

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use superweight_engine::{
    CpuDevice, CudaDevice, Device, Graph, Layout, LayoutBuilder, Memory, NormMode, Precision,
    Program, Settings, SlotKind,
};

/// The CPU device.
pub fn device() -> CpuDevice {
    CpuDevice::new(2).unwrap()
}

/// Runs `body` on the first GPU, or prints why not. With `SWN_REQUIRE_CUDA` set, a missing GPU is a
/// failure. Only one body runs at a time, because a recording captures everything that its stream
/// receives.
pub fn with_cuda(precision: Precision, body: impl FnOnce(&CudaDevice)) {
    static DEVICES: [OnceLock<Result<Mutex<CudaDevice>, String>>; 2] =
        [OnceLock::new(), OnceLock::new()];
    let index = usize::from(precision == Precision::Bf16);
    let open = || CudaDevice::new(0, precision).map(Mutex::new).map_err(|error| error.to_string());
    match DEVICES[index].get_or_init(open) {
        Ok(device) => {
            let device = device.lock().unwrap_or_else(PoisonError::into_inner);
            body(&device);
            device.finish().unwrap();
        }
        Err(reason) if std::env::var_os("SWN_REQUIRE_CUDA").is_some() => {
            panic!("no CUDA device: {reason}")
        }
        Err(reason) => println!("CUDA was skipped: {reason}"),
    }
}

/// Runs a body on the CPU and, in f32, on the GPU if there is one: `on_every_device!(|device| { …
/// })`.
#[allow(unused_macros)]
macro_rules! on_every_device {
    (|$device:ident| $body:block) => {{
        {
            let cpu = $crate::common::device();
            let $device = &cpu;
            $body
        }
        $crate::common::with_cuda(superweight_engine::Precision::F32, |$device| $body);
    }};
}
#[allow(unused_imports)]
pub(crate) use on_every_device;

/// A value in [-1, 1) from a seed and an index, with the generator of `fixtures/make.py` (murmur3's
/// finaliser).
pub fn hash(seed: u32, index: u32) -> f32 {
    let mut h = index.wrapping_mul(0x9E37_79B1) ^ seed.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 16;
    h = h.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 13;
    h = h.wrapping_mul(0xC2B2_AE35);
    h ^= h >> 16;
    (h >> 8) as f32 / 8_388_608.0 - 1.0
}

/// A vector of hashed values.
pub fn hashed(seed: u32, len: usize) -> Vec<f32> {
    (0..len as u32).map(|i| hash(seed, i)).collect()
}

/// Seed of a tensor from its name (FNV-1a).
pub fn name_seed(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

/// Relative error ‖a − b‖ / ‖b‖, in f64.
pub fn relative_error(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "sizes differ");
    let square = |v: f64| v * v;
    let distance: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let norm: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    if norm == 0.0 { distance.sqrt() } else { (distance / norm).sqrt() }
}

pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// A graph with one program and the memory to run it.
pub struct Bench<D: Device> {
    pub graph: Graph,
    pub program: Program<D>,
    pub memory: Memory<D>,
}

pub fn layout_of<D: Device>(device: &D, all: &[(&Graph, Settings)]) -> Layout {
    let mut builder = LayoutBuilder::new();
    for (graph, settings) in all {
        builder.graph(graph, settings).unwrap();
    }
    builder.finish(device)
}

impl<D: Device> Bench<D> {
    pub fn new(device: &D, graph: Graph, settings: Settings) -> Self {
        let layout = layout_of(device, &[(&graph, settings)]);
        let program = Program::compile(device, &graph, &settings, &layout).unwrap();
        let memory = Memory::new(device, layout, program.plan().arena_bytes).unwrap();
        let mut bench = Self { graph, program, memory };
        bench.fill();
        bench
    }

    /// Fills parameters and statistics with plausible values.
    pub fn fill(&mut self) {
        fill(&self.graph, &mut self.memory);
    }

    pub fn run(&mut self) {
        self.memory.run(&self.program).unwrap();
    }
}

/// Fills parameters and statistics with values hashed from their names. Scales are near 1,
/// variances positive, the rest around zero.
pub fn fill<D: Device>(graph: &Graph, memory: &mut Memory<D>) {
    for slot in graph.slots() {
        let mut values = hashed(name_seed(&slot.name), slot.len());
        let is_scale = slot.kind == SlotKind::Vector && slot.name.ends_with(".weight");
        let fan_in: usize = slot.dims[1..].iter().product();
        match slot.kind {
            SlotKind::Weight => values.iter_mut().for_each(|v| *v *= (3.0 / fan_in as f32).sqrt()),
            _ if is_scale => values.iter_mut().for_each(|v| *v = 1.0 + 0.3 * *v),
            _ if slot.name.ends_with("running_var") => {
                values.iter_mut().for_each(|v| *v = 1.0 + 0.5 * *v)
            }
            _ => values.iter_mut().for_each(|v| *v *= 0.3),
        }
        match slot.kind {
            SlotKind::Statistic => memory.set_statistic(&slot.name, &values).unwrap(),
            _ => memory.set_parameter(&slot.name, &values).unwrap(),
        }
    }
}

/// A finite-difference check: inputs with their values, and losses.
pub struct Check<'a> {
    pub graph: Graph,
    pub batch: usize,
    pub norm: NormMode,
    /// Input name and elements per image.
    pub inputs: Vec<(&'a str, usize)>,
    /// Names of class targets and the number of classes.
    pub classes: Vec<(&'a str, u32)>,
    /// Names of probability targets and the number of classes.
    pub probabilities: Vec<(&'a str, usize)>,
    /// Output, its external gradient, the gradient's weight, and elements per image.
    pub external: Vec<(&'a str, &'a str, f64, usize)>,
    /// Losses and their weights.
    pub losses: Vec<(&'a str, f64)>,
    /// Step sizes, of which the best counts. A long step crosses kinks and a short one suffers from
    /// rounding. A wrong gradient agrees with none.
    pub steps: Vec<f32>,
    /// Allowed error of the slope: relative, and absolute.
    pub tolerance: f64,
    pub floor: f64,
}

impl<'a> Check<'a> {
    pub fn new(graph: Graph, batch: usize, input: (&'a str, usize)) -> Self {
        Self {
            graph,
            batch,
            norm: NormMode::Train,
            inputs: vec![input],
            classes: vec![],
            probabilities: vec![],
            external: vec![],
            losses: vec![],
            steps: vec![1e-2],
            tolerance: 5e-3,
            floor: 1e-6,
        }
    }

    /// Uses the objective ⟨r, y⟩ for the output `y` and a random external gradient `r`.
    pub fn on_output(mut self, len: usize) -> Self {
        self.external = vec![("y", "r", 1.0, len)];
        self
    }

    /// Runs the check on the CPU and, in f32, on the GPU if there is one.
    pub fn run_everywhere(&self) {
        self.run(&device());
        with_cuda(Precision::F32, |device| self.run(device));
    }

    /// Compares slopes of the objective with the gradients, tensor by tensor, along a random
    /// direction and along the gradient itself. A wrong factor fails both; a missing part fails the
    /// first.
    pub fn run<D: Device>(&self, device: &D) {
        let train =
            Settings { norm: self.norm, input_gradients: true, ..Settings::train(self.batch) };
        let forward_mode =
            if self.norm == NormMode::Train { NormMode::BatchStatistics } else { self.norm };
        let forward = Settings { norm: forward_mode, ..Settings::evaluate(self.batch) };
        let layout = layout_of(device, &[(&self.graph, train), (&self.graph, forward)]);
        let train = Program::compile(device, &self.graph, &train, &layout).unwrap();
        let forward = Program::compile(device, &self.graph, &forward, &layout).unwrap();
        let arena = train.plan().arena_bytes.max(forward.plan().arena_bytes);
        let mut memory = Memory::new(device, layout, arena).unwrap();

        let mut values: HashMap<String, Vec<f32>> = HashMap::new();
        fill(&self.graph, &mut memory);
        for slot in self.graph.slots().iter().filter(|s| s.kind != SlotKind::Statistic) {
            values.insert(slot.name.clone(), memory.parameter(&slot.name).unwrap());
        }
        for (name, len) in &self.inputs {
            let data = hashed(name_seed(name), len * self.batch);
            memory.set_input(name, &data).unwrap();
            values.insert((*name).to_owned(), data);
        }
        for (name, classes) in &self.classes {
            let labels: Vec<u32> = (0..self.batch as u32).map(|i| (i * 7 + 3) % classes).collect();
            memory.set_classes(name, &labels).unwrap();
        }
        for (name, classes) in &self.probabilities {
            let mut data: Vec<f32> = hashed(name_seed(name), classes * self.batch)
                .iter()
                .map(|v| v.abs() + 0.01)
                .collect();
            for row in data.chunks_exact_mut(*classes) {
                let sum: f32 = row.iter().sum();
                row.iter_mut().for_each(|v| *v /= sum);
            }
            memory.set_input(name, &data).unwrap();
        }
        for (_, gradient, _, len) in &self.external {
            memory.set_input(gradient, &hashed(name_seed(gradient), len * self.batch)).unwrap();
        }

        memory.run(&train).unwrap();
        let outputs_of_training: Vec<Vec<f32>> =
            self.external.iter().map(|(output, ..)| memory.output(output).unwrap()).collect();
        let mut gradients: HashMap<String, Vec<f32>> = HashMap::new();
        for name in values.keys() {
            let is_input = self.inputs.iter().any(|(input, _)| input == name);
            let gradient = match is_input {
                true => memory.output(&format!("{name}.gradient")).unwrap(),
                false => memory.gradient(name).unwrap(),
            };
            gradients.insert(name.clone(), gradient);
        }
        memory.run(&forward).unwrap();
        for ((output, ..), trained) in self.external.iter().zip(outputs_of_training) {
            assert_eq!(memory.output(output).unwrap(), trained, "the forward pass alone differs");
        }

        let mut names: Vec<&String> = values.keys().collect();
        names.sort();
        for name in names {
            let gradient = &gradients[name];
            let largest = gradient.iter().fold(0f32, |m, g| m.max(g.abs())).max(1e-12);
            let along: Vec<f32> = gradient.iter().map(|g| g / largest).collect();
            let random: Vec<f32> = hashed(99, gradient.len()).iter().map(|v| v.signum()).collect();
            for (what, direction) in [("gradient", along), ("random", random)] {
                let analytic = dot(gradient, &direction);
                let slope = |step: f32, memory: &mut Memory<D>| {
                    let up =
                        self.objective(memory, &forward, name, &values[name], &direction, step);
                    let down =
                        self.objective(memory, &forward, name, &values[name], &direction, -step);
                    (up - down) / (2.0 * f64::from(step))
                };
                let size = values[name].iter().fold(0f32, |m, v| m.max(v.abs())).max(0.1);
                let size = size / (gradient.len() as f32).sqrt().max(1.0);
                let slopes: Vec<f64> =
                    self.steps.iter().map(|step| slope(step * size, &mut memory)).collect();
                // Scale of the slope. Along a random direction it may cancel to nearly zero.
                let scale = analytic.abs().max(dot(gradient, gradient).sqrt());
                let error = slopes
                    .iter()
                    .map(|slope| (slope - analytic).abs())
                    .fold(f64::INFINITY, f64::min);
                assert!(
                    error <= self.tolerance * scale + self.floor,
                    "{}: {name} along {what}: slopes {slopes:?}, gradient {analytic} (scale {scale})",
                    self.graph.name()
                );
            }
            self.set(&mut memory, name, &values[name]);
        }
    }

    fn set<D: Device>(&self, memory: &mut Memory<D>, name: &str, values: &[f32]) {
        match self.inputs.iter().any(|(input, _)| *input == name) {
            true => memory.set_input(name, values).unwrap(),
            false => memory.set_parameter(name, values).unwrap(),
        }
    }

    fn objective<D: Device>(
        &self,
        memory: &mut Memory<D>,
        forward: &Program<D>,
        name: &str,
        at: &[f32],
        direction: &[f32],
        step: f32,
    ) -> f64 {
        let moved: Vec<f32> = at.iter().zip(direction).map(|(v, d)| v + step * d).collect();
        self.set(memory, name, &moved);
        memory.run(forward).unwrap();
        let external = self.external.iter().map(|(output, gradient, weight, _)| {
            weight * dot(&memory.output(output).unwrap(), &memory.output(gradient).unwrap())
        });
        let losses = self
            .losses
            .iter()
            .map(|(loss, weight)| weight * f64::from(memory.metrics(loss).unwrap().loss));
        external.sum::<f64>() + losses.sum::<f64>()
    }
}

/// Results of PyTorch, by `case tensor`; see `fixtures/make.py`.
pub struct Fixtures(HashMap<String, Vec<f32>>);

impl Fixtures {
    pub fn parse(index: &str, bytes: &[u8]) -> Self {
        let mut values =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let tensors = index.lines().map(|line| {
            let (name, count) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), values.by_ref().take(count.parse().unwrap()).collect())
        });
        Self(tensors.collect())
    }

    pub fn get(&self, case: &str, tensor: &str) -> &[f32] {
        self.0
            .get(&format!("{case} {tensor}"))
            .unwrap_or_else(|| panic!("no fixture {case} {tensor}"))
    }

    /// Names of the tensors of a case.
    pub fn tensors(&self, case: &str) -> Vec<&str> {
        let of_case = self.0.keys().filter_map(|key| key.split_once(' '));
        let mut tensors: Vec<&str> =
            of_case.filter(|(c, _)| *c == case).map(|(_, tensor)| tensor).collect();
        tensors.sort_unstable();
        tensors
    }

    /// Asserts a relative L2 error below 1e-4 and returns it.
    pub fn assert_close(&self, case: &str, tensor: &str, ours: &[f32]) -> f64 {
        let error = relative_error(ours, self.get(case, tensor));
        assert!(error < 1e-4, "{case} {tensor}: relative error {error:.2e}");
        error
    }

    /// Relative L2 error of a tensor. The fixture may hold only a sample of it.
    pub fn sample_error(&self, case: &str, tensor: &str, ours: &[f32]) -> f64 {
        let count = self.get(case, tensor).len();
        if count == ours.len() {
            return relative_error(ours, self.get(case, tensor));
        }
        let place =
            |i: u32| ((hash(name_seed(tensor), i) + 1.0) / 2.0 * ours.len() as f32) as usize;
        let sample: Vec<f32> =
            (0..count as u32).map(|i| ours[place(i).min(ours.len() - 1)]).collect();
        relative_error(&sample, self.get(case, tensor))
    }
}
