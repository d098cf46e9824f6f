//! State shared by everything on one GPU: CUDA context, stream, libraries, properties, and the
//! first failure.
//!
//! All work goes to one stream: calls run one after another, and a whole step can be captured. Only
//! groups of many small independent launches are split over several streams
//! ([`Context::side_by_side`]). Calls return before their work is done, so a failure may show up
//! later. [`Context::note`] stores the first failure until [`Context::take_failure`] returns it.

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

/// Oldest supported driver, as a CUDA version (13000 is 13.0). `cuEventElapsedTime_v2` came with
/// 12.8.
const OLDEST_DRIVER: i32 = 12_080;

/// Number of streams for parallel launches, including the main one.
pub(crate) const BRANCHES: usize = 4;

/// Environment variable with the folder for compiled kernels and tuned plans. The default is the
/// user's cache folder.
pub(crate) const CACHE_DIR: &str = "SWN_CACHE_DIR";

/// State shared by everything on one GPU.
pub(crate) struct Context {
    pub cuda: Arc<CudaContext>,
    pub stream: Arc<CudaStream>,
    branches: Branches,
    pub libraries: Libraries,
    /// Convolutions by cuDNN.
    pub dnn: Dnn,
    /// Matrix products by cuBLASLt.
    pub blas: Blas,
    /// Small workspaces of convolutions.
    pub counters: Counters,
    pub properties: Properties,
    pub precision: Precision,
    /// Folder for compiled kernels and tuned plans; `None` if the user has no cache folder.
    pub cache: Option<PathBuf>,
    /// Bytes allocated now, and the maximum so far.
    allocated: [AtomicUsize; 2],
    failure: Mutex<Option<CudaError>>,
}

/// Event where the main stream splits, and the other streams with their end events.
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
    /// Opens the device with this number.
    pub(crate) fn new(ordinal: usize, precision: Precision) -> Result<Arc<Self>, CudaError> {
        let driver = driver_version()?;
        let count = result::device::get_count().named("cuDeviceGetCount")?.max(0) as usize;
        if ordinal >= count {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        }
        let libraries = Libraries::open()?;
        let cuda = CudaContext::new(ordinal).named("opening the device")?;
        // SAFETY: event tracking orders streams that share memory. Streams here are ordered by
        // their own events, and event tracking makes captures fail.
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
            .named("reading the shared memory per block")?;
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

    /// Makes this device current on the calling thread, which must precede any other call on that
    /// thread.
    pub(crate) fn bind(&self) -> Result<(), CudaError> {
        self.cuda.bind_to_thread().named("cuCtxSetCurrent")
    }

    /// The main stream as a raw handle.
    pub(crate) fn raw_stream(&self) -> cu::CUstream {
        self.stream.cu_stream()
    }

    /// Lets `work` submit independent calls to several streams. All streams start at the current
    /// point of the main stream, which then waits for all of them.
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
        // Even if splitting failed: a capture cannot end while streams have not been joined.
        for (stream, end) in others {
            let meet = || {
                end.record(stream).named("cuEventRecord")?;
                self.stream.wait(end).named("cuStreamWaitEvent")
            };
            self.note(meet());
        }
    }

    /// Stores a failure if it is the first.
    pub(crate) fn note(&self, result: Result<(), CudaError>) {
        if let Err(error) = result {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Returns the first failure since the last call.
    pub(crate) fn take_failure(&self) -> Result<(), CudaError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Counts allocated memory.
    pub(crate) fn count_allocated(&self, bytes: usize) {
        let [now, most] = &self.allocated;
        let total = now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        most.fetch_max(total, Ordering::Relaxed);
    }

    /// Counts freed memory.
    pub(crate) fn count_freed(&self, bytes: usize) {
        self.allocated[0].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Maximum of allocated bytes so far.
    pub(crate) fn peak_allocated_bytes(&self) -> usize {
        self.allocated[1].load(Ordering::Relaxed)
    }

    /// Waits until the stream is empty.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize().named("waiting for the GPU")
    }
}

/// Version of the driver. Fails if there is no driver or it is too old.
fn driver_version() -> Result<i32, CudaError> {
    // SAFETY: opening the driver runs no code that depends on this process.
    if let Err(error) = unsafe { libloading::Library::new("libcuda.so.1") } {
        return Err(CudaError::NoDriver { reason: error.to_string() });
    }
    // SAFETY: only checks whether cudarc finds the driver too.
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
