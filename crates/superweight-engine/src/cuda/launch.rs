//! Loads kernels and launches them.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{DriverError, result, sys as cu};

use super::buffer::Allocation;
use super::compile::SOURCES;
use crate::cuda::context::Context;
use crate::cuda::named::Named;
use crate::error::CudaError;

/// Default number of threads per block.
pub(crate) const THREADS: u32 = 256;

/// Blocks per multiprocessor of kernels with a grid-stride loop.
const BLOCKS_PER_MULTIPROCESSOR: usize = 16;

/// Bytes for messages between blocks of a cooperative launch.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;

/// Limits of a cooperative launch: channels, and sums that the last block adds.
pub(crate) const MOST_CHANNELS: usize = 4096;
pub(crate) const MOST_SET_SUMS: usize = 1 << 17;

/// Offsets of the parts of the memory shared by the blocks of a cooperative launch, and its total
/// size: messages, results of 8 bytes per sum, sums, a ticket per channel, and the launch counter
/// of two words.
const MEETING: [usize; 6] = {
    let results = MESSAGE_BYTES;
    let sums = results + 8 * MOST_SET_SUMS;
    let tickets = sums + 4 * MOST_SET_SUMS;
    let turn = tickets + 4 * MOST_CHANNELS;
    [0, results, sums, tickets, turn, turn + 8]
};

/// Addresses of the memory shared by the blocks of a cooperative launch. A struct of the kernels.
#[repr(transparent)]
pub(crate) struct Meeting([u64; 5]);

/// Blocks, threads and shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
}

impl Grid {
    pub(crate) fn new(blocks: [u32; 3], threads: [u32; 3]) -> Self {
        Self { blocks, threads, shared: 0 }
    }

    /// One block per item.
    pub(crate) fn each(items: usize) -> Self {
        Self::new([items as u32, 1, 1], [THREADS, 1, 1])
    }
}

/// One of the driver's two launch functions: function, blocks, threads, bytes of shared memory,
/// stream, arguments.
type Launch = unsafe fn(
    cu::CUfunction,
    (u32, u32, u32),
    (u32, u32, u32),
    u32,
    cu::CUstream,
    &mut [*mut c_void],
) -> Result<(), DriverError>;

/// All kernels, loaded on one device.
pub(crate) struct Kernels {
    context: Arc<Context>,
    modules: Vec<cu::CUmodule>,
    functions: HashMap<&'static str, cu::CUfunction>,
    /// Memory for [`Kernels::meeting`].
    meeting: Allocation,
}

// SAFETY: the handles belong to the driver and may be used from any thread with the context set,
// which `launch` ensures.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing changes after loading.
unsafe impl Sync for Kernels {}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernels({})", self.functions.len())
    }
}

/// Allows one compilation at a time; other threads then find the result in the cache.
static COMPILING: Mutex<()> = Mutex::new(());

impl Kernels {
    /// Compiles all kernels (or reads them from the cache) and loads them.
    pub(crate) fn load(context: &Arc<Context>) -> Result<Self, CudaError> {
        context.bind()?;
        let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = Allocation::zeros(context, "sums of batch norms", MEETING[5])?;
        let (modules, functions) = (Vec::new(), HashMap::new());
        let mut kernels = Self { context: context.clone(), modules, functions, meeting };
        let (arch, cache) = (context.properties.arch(), context.cache.as_deref());
        for source in SOURCES {
            let code = source.cached(&context.libraries.nvrtc, &arch, context.precision, cache)?;
            // SAFETY: the image is a cubin for this architecture; the call copies it.
            let module =
                unsafe { result::module::load_data(code.as_ptr().cast()) }.named(source.file)?;
            kernels.modules.push(module);
            for function in source.functions {
                let name = CString::new(*function).expect("names contain no zero byte");
                // SAFETY: the module was just loaded.
                let handle =
                    unsafe { result::module::get_function(module, name) }.named(function)?;
                kernels.functions.insert(function, handle);
            }
        }
        Ok(kernels)
    }

    /// A grid whose threads share `items` of work in a grid-stride loop.
    pub(crate) fn flat(&self, items: usize) -> Grid {
        let most = self.context.properties.multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
        let blocks = items.div_ceil(THREADS as usize).clamp(1, most);
        Grid::new([blocks as u32, 1, 1], [THREADS, 1, 1])
    }

    /// Memory in which the blocks of a cooperative launch exchange sums and count arrivals. It is
    /// separate because the fused steps have no common scratch memory. Tickets are zero between
    /// launches. Messages carry the number of their launch, so they need no clearing.
    pub(crate) fn meeting(&self) -> Meeting {
        let [parts @ .., _] = MEETING;
        Meeting(parts.map(|before| self.meeting.pointer + before as u64))
    }

    /// Launches a kernel on the stream.
    ///
    /// # Safety
    ///
    /// The arguments point to values of the kernel's parameter types, in order, and their pointers
    /// and sizes are valid.
    pub(crate) unsafe fn launch(
        &self,
        name: &'static str,
        grid: Grid,
        arguments: &mut [*mut c_void],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.start(name, grid, arguments, result::launch_kernel) }
    }

    /// Launches a kernel whose blocks wait for each other. All blocks run at once, or the launch
    /// fails.
    ///
    /// # Safety
    ///
    /// As for [`Kernels::launch`].
    pub(crate) unsafe fn launch_together(
        &self,
        name: &'static str,
        grid: Grid,
        arguments: &mut [*mut c_void],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.start(name, grid, arguments, result::launch_cooperative_kernel) }
    }

    unsafe fn start(
        &self,
        name: &'static str,
        grid: Grid,
        arguments: &mut [*mut c_void],
        launch: Launch,
    ) {
        let Some(&function) = self.functions.get(name) else {
            return self.context.note(Err(CudaError::call(name, "the kernel is not loaded")));
        };
        let Grid { blocks: [x, y, z], threads, shared } = grid;
        if x == 0 || y == 0 || z == 0 {
            return;
        }
        // A block has 48 KiB of shared memory by default, minus what the kernel declares
        // statically.
        if shared > 0 {
            let attribute =
                cu::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was loaded with this context.
            let set = unsafe {
                result::function::set_function_attribute(function, attribute, shared as i32)
            };
            self.context.note(set.named(name));
        }
        // SAFETY: guaranteed by the caller.
        let launched = unsafe {
            let threads = (threads[0], threads[1], threads[2]);
            launch(function, (x, y, z), threads, shared, self.context.raw_stream(), arguments)
        };
        self.context.note(launched.named(name));
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.context.bind().is_ok() && self.context.synchronize().is_ok() {
            for module in self.modules.drain(..) {
                // SAFETY: loaded once and unloaded once, and no kernel of it is running.
                let _ = unsafe { result::module::unload(module) };
            }
        }
    }
}

/// Launches a kernel with arguments given as values: `u64` for pointers and lengths, `u32`, `i32`,
/// `f32`. With `together`, the kernel's blocks may wait for each other.
macro_rules! launch {
    (together $kernels:expr, $name:expr, $grid:expr, $($argument:expr),* $(,)?) => {
        $kernels.launch_together($name, $grid, &mut $crate::cuda::launch::launch!(@pointers $($argument),*))
    };
    (@pointers $($argument:expr),*) => {
        // The arguments live until the call has copied them.
        [$(std::ptr::from_ref(&$argument).cast_mut().cast::<std::ffi::c_void>()),*]
    };
    ($kernels:expr, $name:expr, $grid:expr, $($argument:expr),* $(,)?) => {
        $kernels.launch($name, $grid, &mut $crate::cuda::launch::launch!(@pointers $($argument),*))
    };
}
pub(crate) use launch;
