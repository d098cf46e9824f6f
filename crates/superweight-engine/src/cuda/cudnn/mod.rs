//! Convolutions by cuDNN's graph API: one plan per shape, direction, write mode and precision.
//!
//! ```text
//! Conv ─► Graph ─► heuristics ─► filter by numerical notes ─► first that builds   (Heuristic)
//!           │                                              └─► timed, knobs varied (Quick, Full)
//!           └───────── cache: engine + knobs by GPU, driver, cuDNN, Conv ◄──┘
//! ```
//!
//! With [`Dnn::recheck_tuning`], a tuned plan from the cache is measured again. If it is much
//! faster than its record, it was chosen while other work ran on the GPU, and is tuned again.
//!
//! cuDNN 9.14 has deterministic engines for every convolution of the engine's tests. Odd channel
//! counts are padded and copied inside the plan's workspace, also for groups and depthwise
//! convolutions. The legacy API was not used: its bf16 backward passes ran without tensor cores,
//! 200 times slower (H200, measured by a prototype).

mod cache;
mod conv;
mod descriptor;
mod engine;
mod graph;
mod plan;
mod search;
#[cfg(test)]
mod tests;
mod timing;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};

use cudarc::cudnn::sys;
use cudarc::driver::CudaStream;

#[cfg(fuzzing)]
pub use cache::parse as parse_records;
use cache::{Cache, Comparison};
use conv::WORKSPACE_LIMIT;
pub(crate) use conv::{Conv, Direction};
use descriptor::check;
use engine::{Config, MODES, proposals};
use graph::{Device, Graph, POINTER_ALIGNMENT, Target};
use plan::Plan;
use timing::Bench;

use super::libraries::Cudnn;
use super::lock::lock;
use super::tuning::{ConvRecord, Machine, Tuning};
use crate::cuda::capture::counters::{Counters, Place};
use crate::cuda::capture::undisturbed;
use crate::cuda::named::Named;
use crate::cuda::properties::Properties;
use crate::error::CudaError;

/// cuDNN on one stream, with the plans made so far.
pub(crate) struct Dnn {
    cudnn: &'static Cudnn,
    stream: Arc<CudaStream>,
    /// Only one thread at a time may use a handle.
    handle: Mutex<Handle>,
    plans: Mutex<HashMap<Conv, Arc<Plan>>>,
    cache: Cache,
    tuning: Mutex<Tuning>,
    checks: AtomicBool,
    /// Prints the note about repeated tuning once.
    warned: Once,
}

struct Handle {
    raw: sys::cudnnHandle_t,
    cudnn: &'static Cudnn,
    _stream: Arc<CudaStream>,
}

// SAFETY: cuDNN only forbids concurrent use of a handle, which the mutex around it prevents.
unsafe impl Send for Handle {}

impl Handle {
    /// Creates a handle for a stream, whose device becomes current on this thread.
    fn new(cudnn: &'static Cudnn, stream: &Arc<CudaStream>) -> Result<Self, CudaError> {
        stream.context().bind_to_thread().named("cuCtxSetCurrent")?;
        let mut raw = std::ptr::null_mut();
        let undisturbed = undisturbed();
        // SAFETY: `raw` receives a handle that `drop` destroys.
        check(cudnn, "cudnnCreate", unsafe { (cudnn.cudnnCreate)(&mut raw) })?;
        drop(undisturbed);
        let handle = Self { raw, cudnn, _stream: stream.clone() };
        // SAFETY: a live handle, which keeps the stream alive.
        let status = unsafe { (cudnn.cudnnSetStream)(raw, stream.cu_stream().cast()) };
        check(cudnn, "cudnnSetStream", status)?;
        Ok(handle)
    }

    /// Target for plans on this handle's device.
    fn target(&self) -> Target {
        Target { cudnn: self.cudnn, device: Device::Handle(self.raw) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _undisturbed = undisturbed();
        // SAFETY: created by `new`, destroyed once.
        unsafe { (self.cudnn.cudnnDestroy)(self.raw) };
    }
}

impl fmt::Debug for Dnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dnn").field("tuning", &self.tuning()).finish_non_exhaustive()
    }
}

impl Dnn {
    /// Opens cuDNN on a stream. Tuned plans are stored in the cache folder, if there is one.
    pub(crate) fn new(
        cudnn: &'static Cudnn,
        stream: &Arc<CudaStream>,
        properties: &Properties,
        cache_folder: Option<&Path>,
    ) -> Result<Self, CudaError> {
        let handle = Handle::new(cudnn, stream)?;
        let machine = Machine {
            gpu: properties.name.clone(),
            driver: properties.driver,
            cudnn: cudnn.version(),
        };
        Ok(Self {
            cudnn,
            stream: stream.clone(),
            handle: Mutex::new(handle),
            plans: Mutex::default(),
            cache: Cache::open(cache_folder, machine),
            tuning: Mutex::default(),
            checks: AtomicBool::new(false),
            warned: Once::new(),
        })
    }

    /// Time spent on choosing new plans.
    pub(crate) fn tuning(&self) -> Tuning {
        *lock(&self.tuning)
    }

    /// Sets the time spent on choosing plans made from now on.
    pub(crate) fn set_tuning(&self, tuning: Tuning) {
        *lock(&self.tuning) = tuning;
        lock(&self.plans).clear();
    }

    /// From now on, unconfirmed plans from the cache are measured again, and tuned again if they
    /// were chosen while other work ran.
    pub(crate) fn recheck_tuning(&self) {
        self.checks.store(true, Ordering::Relaxed);
        lock(&self.plans).clear();
    }

    /// All cached records for this GPU, driver and cuDNN version.
    pub(crate) fn records(&self) -> Vec<ConvRecord> {
        self.cache.records()
    }

    /// Deletes all tuned plans, so that every plan made from now on is tuned again. Existing plans
    /// stay unchanged.
    pub(crate) fn refresh(&self) {
        self.cache.forget();
        lock(&self.plans).clear();
    }

    fn plan(&self, conv: &Conv) -> Result<Arc<Plan>, CudaError> {
        if let Some(plan) = lock(&self.plans).get(conv) {
            return Ok(plan.clone());
        }
        self.stream.context().bind_to_thread().named("cuCtxSetCurrent")?;
        let plan = Arc::new(self.choose(conv)?);
        lock(&self.plans).insert(*conv, plan.clone());
        Ok(plan)
    }

    fn choose(&self, conv: &Conv) -> Result<Plan, CudaError> {
        let tuning = self.tuning();
        let handle = lock(&self.handle);
        let target = handle.target();
        let graph = Arc::new(Graph::new(&target, conv)?);
        let mut disturbed = None;
        if let Some(known) = self.cache.get(conv).filter(|known| known.tuning >= tuning) {
            let built = Config::new(&target, &graph, &known.choice(), conv.precision)
                .and_then(|config| Plan::new(&target, &graph, config));
            match built {
                Ok(plan) if plan.workspace() <= WORKSPACE_LIMIT => {
                    if tuning == Tuning::Heuristic
                        || !self.was_disturbed(&handle, conv, &known, &plan)
                    {
                        return Ok(plan);
                    }
                    disturbed = Some(plan);
                }
                Ok(_) => {}
                Err(error) => {
                    eprintln!("warning: the tuned plan of {conv} no longer builds: {error}")
                }
            }
        }
        if tuning == Tuning::Heuristic {
            return first(&target, &graph, conv);
        }
        let found = Bench::new(&self.stream, handle.raw, self.cudnn, conv)
            .and_then(|bench| search::best(&bench, &target, &graph, conv, tuning, tuning.limit()));
        match (found, disturbed) {
            (Ok(found), _) => {
                let plan = found.plan;
                self.cache.put(conv, plan.choice(), plan.workspace(), found.microseconds, tuning);
                Ok(plan)
            }
            // Possibly slow, but correct.
            (Err(_), Some(plan)) => Ok(plan),
            (Err(error), None) => Err(error),
        }
    }

    /// Returns true if a record was made while other work ran. Only unconfirmed records are
    /// measured, and a second measurement must agree. A plan that cannot be measured is used as it
    /// is.
    fn was_disturbed(&self, handle: &Handle, conv: &Conv, known: &ConvRecord, plan: &Plan) -> bool {
        if known.confirmed || !self.checks.load(Ordering::Relaxed) {
            return false;
        }
        let timed = Bench::new(&self.stream, handle.raw, self.cudnn, conv).and_then(|bench| {
            let mut now = bench.measure(plan, f64::INFINITY, search::REPEATS)?;
            if known.compare(now) == Comparison::Disturbed {
                now = now.max(bench.measure(plan, f64::INFINITY, search::REPEATS)?);
            }
            Ok(now)
        });
        let Ok(now) = timed else { return false };
        let comparison = known.compare(now);
        match comparison {
            Comparison::Confirmed => self.cache.confirm(known),
            Comparison::Open => {}
            Comparison::Disturbed => self.warned.call_once(|| {
                eprintln!(
                    "note: convolutions were tuned while other work ran on this GPU ({conv}: {:.0} µs then, {now:.0} now) \
                     and are tuned again",
                    known.microseconds
                );
            }),
        }
        comparison == Comparison::Disturbed
    }
}

/// Returns the first proposal that builds.
fn first(target: &Target, graph: &Arc<Graph>, conv: &Conv) -> Result<Plan, CudaError> {
    let mut refusal =
        String::from("no proposal of the heuristics is deterministic and precise enough");
    for mode in MODES {
        match proposals(target, graph, mode, conv.precision) {
            Ok(configs) => {
                for config in configs {
                    match Plan::new(target, graph, config) {
                        Ok(plan) if plan.workspace() <= WORKSPACE_LIMIT => return Ok(plan),
                        Ok(plan) => {
                            refusal =
                                format!("{} bytes of workspace exceed the limit", plan.workspace())
                        }
                        Err(error) => refusal = error.to_string(),
                    }
                }
            }
            Err(error) => refusal = error.to_string(),
        }
    }
    Err(CudaError::call(format!("planning the convolution {conv}"), refusal))
}

/// A convolution in one direction with its plan.
#[derive(Debug)]
pub(crate) struct ConvPlan {
    conv: Conv,
    plan: Arc<Plan>,
    /// Its own small workspace, if it needs only a counter.
    place: Option<Place>,
}

impl ConvPlan {
    /// Chooses a plan. Returns it with the bytes of workspace that the caller must provide.
    pub(crate) fn new(
        dnn: &Dnn,
        counters: &Counters,
        conv: Conv,
    ) -> Result<(Self, usize), CudaError> {
        let plan = dnn.plan(&conv)?;
        let place = counters.place(plan.workspace());
        let workspace = if place.is_some() { 0 } else { plan.workspace() };
        Ok((Self { conv, plan, place }, workspace))
    }

    /// Submits the convolution: `out (+)= conv(a, b)` with `(a, b, out)` = (x, w, y), (dy, w, dx)
    /// or (x, dy, dw). Pointers and workspace are multiples of 16. A plan without an epilogue does
    /// not read the bias.
    ///
    /// # Safety
    /// The pointers are device memory of the sizes given by the geometry and [`ConvPlan::new`].
    /// They stay valid until the stream has passed this call.
    pub(crate) unsafe fn run(
        &self,
        dnn: &Dnn,
        counters: &Counters,
        [a, b, out]: [u64; 3],
        bias: u64,
        workspace: u64,
    ) -> Result<(), CudaError> {
        let tensors = match self.conv.direction {
            Direction::Forward => [a, b, out, bias],
            Direction::BackwardData => [out, b, a, bias],
            Direction::BackwardWeight => [a, out, b, bias],
        };
        let workspace = match &self.place {
            Some(place) if !counters.have(place) => {
                let what = format!("running the convolution {}", self.conv);
                return Err(CudaError::call(what, "it was planned for another device"));
            }
            Some(place) => place.at,
            None => workspace,
        };
        let aligned =
            tensors.iter().chain([&workspace]).all(|p| p.is_multiple_of(POINTER_ALIGNMENT));
        assert!(
            aligned,
            "{}: pointers {tensors:x?} {workspace:x} are not multiples of 16",
            self.conv
        );
        // SAFETY: guaranteed by the caller, and the alignment was just checked.
        unsafe { self.plan.run(dnn.cudnn, lock(&dnn.handle).raw, tensors, workspace) }
    }

    /// Engine and knobs as text.
    #[cfg(test)]
    pub(crate) fn choice(&self) -> String {
        self.plan.choice().to_string()
    }
}
