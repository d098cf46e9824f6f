//! Measures the time of a plan on this device, and compares its results.
//!
//! Runs are captured and replayed, as in training. So gaps between launches do not count, and a
//! plan that cannot be captured is rejected. Buffers rotate through more memory than the L2 cache
//! holds, and contain random values: on zeros a tensor core is up to 13% faster (H200).

use std::sync::Arc;

use cudarc::cudnn::sys as dnn;
use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtr, result, sys as cu};

use super::conv::{Conv, WORKSPACE_LIMIT};
use super::plan::Plan;
use crate::cuda::capture::Captured;
use crate::cuda::capture::counters::{PLACE, Places};
use crate::cuda::libraries::Cudnn;
use crate::cuda::named::Named;
use crate::cuda::precision::Precision;
use crate::error::CudaError;

/// Bytes that the rotating buffers should span: twice the L2 cache of an H200.
const SPAN: usize = 120 << 20;
/// Largest number of buffer sets. Small convolutions fit into any cache, and are cached in training
/// too.
const MOST_SETS: usize = 8;
/// Number of values in the random block that fills the buffers.
const BLOCK: usize = 1 << 20;
/// A plan this much slower than the best is measured once only.
const HOPELESS: f64 = 1.25;
/// A plan this much slower is run twice only: engine 0 takes up to half a second where others take
/// 0.2 ms.
const FAR_TOO_SLOW: f64 = 5.0;

/// Buffers of one convolution for measuring plans.
pub(super) struct Bench<'a> {
    stream: &'a Arc<CudaStream>,
    handle: dnn::cudnnHandle_t,
    cudnn: &'static Cudnn,
    conv: Conv,
    /// Addresses of x, w, y and the bias.
    sets: Vec<[u64; 4]>,
    workspace: u64,
    start: CudaEvent,
    end: CudaEvent,
    memory: CudaSlice<u8>,
}

impl<'a> Bench<'a> {
    /// Allocates buffers for a convolution. They are freed when the bench is dropped.
    pub(super) fn new(
        stream: &'a Arc<CudaStream>,
        handle: dnn::cudnnHandle_t,
        cudnn: &'static Cudnn,
        conv: &Conv,
    ) -> Result<Self, CudaError> {
        let bytes = conv.lens().map(|len| (len * conv.precision.bytes()).next_multiple_of(256));
        let set: usize = bytes.iter().sum();
        let count = SPAN.div_ceil(set).clamp(2, MOST_SETS);
        let random = count * set;
        // SAFETY: all memory that is read before a kernel writes it is filled below.
        let memory = unsafe { stream.alloc::<u8>(random + WORKSPACE_LIMIT) }
            .named("memory for timing convolutions")?;
        let base = memory.device_ptr(stream).0;
        fill(stream, base, random, conv.precision)?;
        let sets = (0..count as u64)
            .map(|index| {
                let x = base + index * set as u64;
                let [w, y, bias] = [1, 2, 3].map(|n| x + bytes[..n].iter().sum::<usize>() as u64);
                [x, w, y, bias]
            })
            .collect();
        let event = || {
            let flags = cu::CUevent_flags::CU_EVENT_DEFAULT;
            stream.context().new_event(Some(flags)).named("cuEventCreate")
        };
        let (start, end) = (event()?, event()?);
        let workspace = base + random as u64;
        Ok(Self { stream, handle, cudnn, conv: *conv, sets, workspace, start, end, memory })
    }

    /// Each run has its own small workspace, as each plan has in training.
    fn submit(&self, plan: &Plan, run: usize) -> Result<(), CudaError> {
        let small = plan.workspace() as u64 <= PLACE;
        let workspace = if small { self.workspace + run as u64 * PLACE } else { self.workspace };
        // SAFETY: the buffers have the convolution's sizes; the workspace has at least the limit
        // that `measure` checks; all are aligned to 256 bytes and outlive the work, because `Drop`
        // waits for it.
        unsafe { plan.run(self.cudnn, self.handle, self.sets[run % self.sets.len()], workspace) }
    }

    /// Median microseconds of a run, or a single measurement if the plan is far slower than `best`.
    pub(super) fn measure(&self, plan: &Plan, best: f64, repeats: usize) -> Result<f64, CudaError> {
        if plan.workspace() > WORKSPACE_LIMIT {
            return Err(CudaError::call(
                plan.choice().to_string(),
                format!("{} bytes of workspace", plan.workspace()),
            ));
        }
        // First outside a capture, because kernels are loaded on first use.
        self.submit(plan, 0)?;
        self.stream.synchronize().named("running a plan")?;
        let single = self.time(|| self.submit(plan, 1))?;
        if single > FAR_TOO_SLOW * best {
            return Ok(single);
        }
        let runs = self.sets.len().max(4);
        let graph = self.capture(plan, runs)?;
        let replay = || graph.launch();
        replay()?;
        let mut times = vec![self.time(replay)?];
        if times[0] / runs as f64 <= HOPELESS * best {
            for _ in 1..repeats {
                times.push(self.time(replay)?);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2] / runs as f64)
    }

    fn capture(&self, plan: &Plan, runs: usize) -> Result<Captured, CudaError> {
        let places = Places { base: self.workspace, count: runs as u64 };
        let places =
            if plan.workspace() as u64 <= PLACE { places } else { Places { count: 0, ..places } };
        Captured::new(self.stream, places, || (0..runs).try_for_each(|run| self.submit(plan, run)))
    }

    /// Microseconds between two events around some work.
    fn time(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<f64, CudaError> {
        self.start.record(self.stream).named("cuEventRecord")?;
        work()?;
        self.end.record(self.stream).named("cuEventRecord")?;
        let milliseconds = self.start.elapsed_ms(&self.end).named("cuEventElapsedTime")?;
        Ok(1e3 * f64::from(milliseconds))
    }

    /// Returns true if a plan gives the same bits twice, and the values of another plan up to
    /// rounding.
    pub(super) fn agrees(&self, plan: &Plan, reference: &Plan) -> Result<bool, CudaError> {
        let result = self.result(plan)?;
        if self.result(plan)? != result {
            return Ok(false);
        }
        let (got, wanted) = (self.values(&result), self.values(&self.result(reference)?));
        let norm =
            |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let difference = norm(&mut got.iter().zip(&wanted).map(|(a, b)| f64::from(a - b)));
        // NaN compares false.
        Ok(difference
            <= self.conv.precision.tolerance() * norm(&mut wanted.iter().map(|&v| f64::from(v))))
    }

    /// Result of a plan that overwrites (or adds to) random values, as bytes.
    fn result(&self, plan: &Plan) -> Result<Vec<u8>, CudaError> {
        let written = self.conv.written();
        let bytes = self.conv.lens()[written] * self.conv.precision.bytes();
        fill(self.stream, self.sets[0][written], bytes, self.conv.precision)?;
        self.submit(plan, 0)?;
        let mut out = vec![0u8; bytes];
        // SAFETY: source and destination hold that many bytes; the copy is waited for.
        unsafe {
            result::memcpy_dtoh_async(&mut out, self.sets[0][written], self.stream.cu_stream())
        }
        .named("reading a result")?;
        self.stream.synchronize().named("reading a result")?;
        Ok(out)
    }

    fn values(&self, bytes: &[u8]) -> Vec<f32> {
        match self.conv.precision {
            Precision::Bf16 => {
                let (pairs, _) = bytes.as_chunks::<2>();
                pairs
                    .iter()
                    .map(|&b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
                    .collect()
            }
            Precision::F32 => {
                bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
            }
        }
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        // The memory is freed after this; no work may still use it. A failure shows up at the next
        // call.
        let _ = self.stream.synchronize();
        debug_assert!(!self.memory.is_empty());
    }
}

/// Fills device memory with values in −1..1, the same for the same length.
fn fill(stream: &CudaStream, at: u64, bytes: usize, precision: Precision) -> Result<(), CudaError> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let count = BLOCK.min(bytes.div_ceil(precision.bytes()));
    let mut block = Vec::with_capacity(count * precision.bytes());
    for _ in 0..count {
        match precision {
            // A bf16 is the upper half of an f32. The rounding of random values does not matter.
            Precision::Bf16 => block.extend(&next().to_le_bytes()[2..]),
            Precision::F32 => block.extend(next().to_le_bytes()),
        }
    }
    block.truncate(bytes);
    // SAFETY: `block` lives until the copy is waited for below; each copy stays within `bytes`.
    unsafe { result::memcpy_htod_async(at, &block, stream.cu_stream()) }
        .named("filling buffers")?;
    stream.synchronize().named("filling buffers")?;
    let mut done = block.len();
    while done < bytes {
        let more = done.min(bytes - done);
        // SAFETY: source and destination do not overlap and are within `bytes`.
        unsafe { result::memcpy_dtod_async(at + done as u64, at, more, stream.cu_stream()) }
            .named("filling buffers")?;
        done += more;
    }
    Ok(())
}

impl Precision {
    /// Relative L2 error allowed for rounding: of bf16 results, and of f32 sums in another order.
    pub(super) fn tolerance(self) -> f64 {
        match self {
            Precision::Bf16 => 1e-2,
            Precision::F32 => 1e-5,
        }
    }
}
