//! Failures of a GPU, its driver or its libraries. Each message states what was found, where, and
//! what to do.

/// A failure of the CUDA device.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The program was built without the cargo feature `cuda`.
    #[error(
        "this program was built without CUDA: use `--device cpu`, or build it with the cargo feature `cuda`"
    )]
    NotBuilt,
    /// The NVIDIA driver is not installed.
    #[error(
        "no NVIDIA driver: libcuda.so.1 does not open ({reason}); use `--device cpu`, or install the driver"
    )]
    NoDriver {
        /// Message of the dynamic loader.
        reason: String,
    },
    /// The driver is too old: it lacks functions that this crate calls.
    #[error("the NVIDIA driver supports CUDA {found}, but {needed} is needed: update the driver")]
    OldDriver {
        /// Newest CUDA version that the driver supports.
        found: String,
        /// Oldest CUDA version that this crate needs.
        needed: String,
    },
    /// The requested device number does not exist.
    #[error(
        "there is no CUDA device {ordinal}: the driver reports {count} (is CUDA_VISIBLE_DEVICES set?)"
    )]
    NoSuchDevice {
        /// Requested device number.
        ordinal: usize,
        /// Number of devices that the driver reports.
        count: usize,
    },
    /// A library cannot be opened.
    #[error("{library} was not found; tried {tried}. {advice}")]
    MissingLibrary {
        /// Name of the library.
        library: &'static str,
        /// Paths that were tried, with the loader's messages.
        tried: String,
        /// What the user can do.
        advice: &'static str,
    },
    /// A library lacks a function: it is too old, or a different library of the same name.
    #[error("{library} at {path} lacks the function {function}: install another version")]
    MissingFunction {
        /// Name of the library.
        library: &'static str,
        /// Path of the opened file.
        path: String,
        /// Name of the missing function.
        function: &'static str,
    },
    /// The process loaded files of two versions of cuDNN.
    #[error(
        "two versions of cuDNN are mixed: {first} and {second}; set SWN_CUDNN_DIR to the folder of one of them"
    )]
    MixedCudnn {
        /// Path of one file.
        first: String,
        /// Path of a file of the other version.
        second: String,
    },
    /// The GPU is out of memory.
    #[error(
        "the GPU has no room for {what}: {requested} bytes requested, {free} free of {total}; use a smaller batch or another device"
    )]
    OutOfMemory {
        /// Purpose of the allocation.
        what: &'static str,
        /// Requested bytes.
        requested: usize,
        /// Free bytes on the GPU.
        free: usize,
        /// Total bytes of the GPU.
        total: usize,
    },
    /// A CUDA kernel of this crate does not compile.
    #[error("{file} does not compile for {arch}:\n{log}")]
    Compilation {
        /// Name of the source file.
        file: &'static str,
        /// Target architecture, such as `sm_90`.
        arch: String,
        /// Compiler log of NVRTC.
        log: String,
    },
    /// A call to the driver or a library failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// Name of the call, and its purpose.
        call: String,
        /// Message of the library.
        reason: String,
    },
}

impl CudaError {
    /// Makes a [`CudaError::Call`].
    #[cfg(feature = "cuda")]
    pub(crate) fn call(call: impl Into<String>, reason: impl ToString) -> Self {
        Self::Call { call: call.into(), reason: reason.to_string() }
    }
}
