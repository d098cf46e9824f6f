//! One GPU as everything here shares it: context, stream, libraries, properties, and the first thing that went wrong.
//!
//! All work goes to one stream: calls run one after another, as the engine's programs ask, and a whole step can be
//! captured. Only what is many small launches that do not need each other may part for a while ([`Context::side_by_side`]).
//! Calls return before they are done, so a failure shows up later or not at all where it is not looked for;
//! [`Context::note`] remembers the first one until somebody asks ([`Context::take_failure`]).

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result, sys as cu};

use super::blas::Blas;
use super::capture::counters::Counters;
use super::cudnn::Dnn;
use super::libraries::Libraries;
use super::precision::Precision;
use super::properties::Properties;
use crate::cuda::named::Named;
use crate::error::CudaError;

/// Oldest driver, as the CUDA version it knows (13000 is 13.0): `cuEventElapsedTime_v2` came with 12.8.
const OLDEST_DRIVER: i32 = 12_080;

/// Streams of work side by side, the main one among them.
pub(crate) const BRANCHES: usize = 4;

/// Folder for compiled kernels and tuned plans, if not the user's cache folder.
pub(crate) const CACHE_DIR: &str = "SWN_CACHE_DIR";

/// One GPU, shared by everything that runs on it.
pub(crate) struct Context {
    pub cuda: Arc<CudaContext>,
    pub stream: Arc<CudaStream>,
    branches: Branches,
    pub libraries: Libraries,
    /// Convolutions.
    pub dnn: Dnn,
    /// Matrix products.
    pub blas: Blas,
    /// Small workspaces of convolutions.
    pub counters: Counters,
    pub properties: Properties,
    pub precision: Precision,
    /// Folder for compiled kernels and tuned plans; `None` where the user has none.
    pub cache: Option<PathBuf>,
    /// Bytes allocated now, and at most so far.
    allocated: [AtomicUsize; 2],
    failure: Mutex<Option<CudaError>>,
}

/// Where the main stream parts, and the other streams with their ends.
struct Branches {
    begin: CudaEvent,
    others: Vec<(Arc<CudaStream>, CudaEvent)>,
}

impl Branches {
    fn new(cuda: &Arc<CudaContext>) -> Result<Self, CudaError> {
        let event = || cuda.new_event(None).named("cuEventCreate");
        let other = |_| Ok((cuda.new_stream().named("cuStreamCreate")?, event()?));
        Ok(Self {
            begin: event()?,
            others: (1..BRANCHES).map(other).collect::<Result<_, CudaError>>()?,
        })
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ({}, {})",
            self.properties.name,
            self.properties.arch(),
            self.precision.name()
        )
    }
}

impl Context {
    /// Opens the device of this number.
    pub(crate) fn new(ordinal: usize, precision: Precision) -> Result<Arc<Self>, CudaError> {
        let driver = driver_version()?;
        let count = result::device::get_count().named("cuDeviceGetCount")?.max(0) as usize;
        if ordinal >= count {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        }
        let libraries = Libraries::open()?;
        let cuda = CudaContext::new(ordinal).named("opening the device")?;
        // SAFETY: these events order streams that share memory; ours part and meet by events of their own. With them a capture
        // fails.
        unsafe { cuda.disable_event_tracking() };
        let stream = cuda.new_stream().named("cuStreamCreate")?;
        let branches = Branches::new(&cuda)?;
        let capability = cuda.compute_capability().named("reading the compute capability")?;
        let multiprocessors = cuda
            .attribute(cu::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .named("counting multiprocessors")?;
        let shared_bytes = cuda
            .attribute(
                cu::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )
            .named("asking for the shared memory of a block")?;
        let shared_bytes = shared_bytes.max(0) as usize;
        let name = cuda.name().named("cuDeviceGetName")?;
        let multiprocessors = multiprocessors.max(1) as usize;
        let properties = Properties { name, capability, multiprocessors, shared_bytes, driver };
        let (cache, failure) = (cache_folder(), Mutex::new(None));
        let dnn = Dnn::new(libraries.cudnn, &stream, &properties, cache.as_deref())?;
        let blas = Blas::new(libraries.cublas_lt)?;
        let counters = Counters::new(&stream)?;
        let allocated = Default::default();
        Ok(Arc::new(Self {
            cuda,
            stream,
            branches,
            libraries,
            dnn,
            blas,
            counters,
            properties,
            precision,
            cache,
            allocated,
            failure,
        }))
    }

    /// Makes the device the calling thread's: before anything else is called on that thread.
    pub(crate) fn bind(&self) -> Result<(), CudaError> {
        self.cuda.bind_to_thread().named("cuCtxSetCurrent")
    }

    /// The stream as the libraries take it.
    pub(crate) fn raw_stream(&self) -> cu::CUstream {
        self.stream.cu_stream()
    }

    /// Lets `work` put calls that do not need each other on several streams. All of them begin where the main stream is, and
    /// it goes on when all of them are done.
    pub(crate) fn side_by_side(&self, work: impl FnOnce([cu::CUstream; BRANCHES])) {
        let Branches { begin, others } = &self.branches;
        let part = || {
            begin.record(&self.stream).named("cuEventRecord")?;
            others.iter().try_for_each(|(stream, _)| stream.wait(begin).named("cuStreamWaitEvent"))
        };
        self.note(part());
        let stream = |branch: usize| match branch {
            0 => self.raw_stream(),
            _ => others[branch - 1].0.cu_stream(),
        };
        work(std::array::from_fn(stream));
        // Even where parting failed: a capture cannot end with streams that have not come back.
        for (stream, end) in others {
            let meet = || {
                end.record(stream).named("cuEventRecord")?;
                self.stream.wait(end).named("cuStreamWaitEvent")
            };
            self.note(meet());
        }
    }

    /// Remembers a failure if it is the first.
    pub(crate) fn note(&self, result: Result<(), CudaError>) {
        if let Err(error) = result {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// The first failure since the last time this was asked.
    pub(crate) fn take_failure(&self) -> Result<(), CudaError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Counts memory that was allocated.
    pub(crate) fn count_allocated(&self, bytes: usize) {
        let [now, most] = &self.allocated;
        let total = now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        most.fetch_max(total, Ordering::Relaxed);
    }

    /// Counts memory that was freed.
    pub(crate) fn count_freed(&self, bytes: usize) {
        self.allocated[0].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes allocated at most so far.
    pub(crate) fn peak_allocated_bytes(&self) -> usize {
        self.allocated[1].load(Ordering::Relaxed)
    }

    /// Waits until the stream is empty.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize().named("waiting for the GPU")
    }
}

/// The version of the driver, if there is one that will do.
fn driver_version() -> Result<i32, CudaError> {
    // SAFETY: opening the driver runs nothing that depends on this process.
    if let Err(error) = unsafe { libloading::Library::new("libcuda.so.1") } {
        return Err(CudaError::NoDriver { reason: error.to_string() });
    }
    // SAFETY: asks only whether cudarc finds the driver too.
    if !unsafe { cu::is_culib_present() } {
        return Err(CudaError::NoDriver { reason: "libcuda.so is not a library".into() });
    }
    result::init().map_err(|error| CudaError::NoDriver { reason: error.to_string() })?;
    let mut version = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { cu::cuDriverGetVersion(&mut version) }.result().named("cuDriverGetVersion")?;
    let shown = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
    match version < OLDEST_DRIVER {
        true => Err(CudaError::OldDriver { found: shown(version), needed: shown(OLDEST_DRIVER) }),
        false => Ok(version),
    }
}

fn cache_folder() -> Option<PathBuf> {
    let of =
        |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")));
    of(CACHE_DIR).or_else(|| user().map(|folder| folder.join("superweight")))
}
