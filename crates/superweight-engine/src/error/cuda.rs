//! What can be wrong with a GPU, its driver or its libraries. Each message says what was found where and what to do.

/// A failure of the CUDA device.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver on this machine.
    #[error(
        "no NVIDIA driver: libcuda.so.1 does not open ({reason}); use `--device cpu`, or install the driver"
    )]
    NoDriver {
        /// What the loader said.
        reason: String,
    },
    /// A driver that does not know the functions called here.
    #[error("the NVIDIA driver knows CUDA {found}, {needed} is needed: update the driver")]
    OldDriver {
        /// Newest CUDA version that the driver knows.
        found: String,
        /// Oldest one that will do.
        needed: String,
    },
    /// No device of this number.
    #[error(
        "there is no CUDA device {ordinal}: the driver shows {count} (is CUDA_VISIBLE_DEVICES set?)"
    )]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// Devices there are.
        count: usize,
    },
    /// A library that cannot be opened.
    #[error("{library} was not found; tried {tried}. {advice}")]
    MissingLibrary {
        /// The library.
        library: &'static str,
        /// Where it was looked for and what the loader said.
        tried: String,
        /// What to do.
        advice: &'static str,
    },
    /// A library that lacks a function: too old, or not what its name says.
    #[error("{library} at {path} has no function {function}: another version is needed")]
    MissingFunction {
        /// The library.
        library: &'static str,
        /// Where it was found.
        path: String,
        /// The function.
        function: &'static str,
    },
    /// Files of two versions of cuDNN in one process.
    #[error(
        "two versions of cuDNN are mixed: {first} and {second}; set SWN_CUDNN_DIR to the folder of one of them"
    )]
    MixedCudnn {
        /// One file.
        first: String,
        /// A file of the other version.
        second: String,
    },
    /// The card is full.
    #[error(
        "the GPU has no room for {what}: {asked} bytes asked, {free} free of {total}; use a smaller batch or another device"
    )]
    OutOfMemory {
        /// What was to be stored.
        what: &'static str,
        /// Bytes asked for.
        asked: usize,
        /// Bytes free.
        free: usize,
        /// Bytes of the card.
        total: usize,
    },
    /// A kernel of ours that does not compile.
    #[error("{file} does not compile for {arch}:\n{log}")]
    Compilation {
        /// Source file.
        file: &'static str,
        /// The architecture.
        arch: String,
        /// What NVRTC said.
        log: String,
    },
    /// A call that failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// What was called, and for what.
        call: String,
        /// What the library said.
        reason: String,
    },
}

impl CudaError {
    /// A failed call.
    pub(crate) fn call(call: impl Into<String>, reason: impl ToString) -> Self {
        Self::Call { call: call.into(), reason: reason.to_string() }
    }
}
