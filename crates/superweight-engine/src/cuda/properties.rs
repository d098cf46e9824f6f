//! Properties of a GPU and its driver.

/// Properties of a GPU and its driver.
#[derive(Clone, Debug)]
pub(crate) struct Properties {
    pub name: String,
    /// Compute capability: (9, 0) is Hopper.
    pub capability: (i32, i32),
    pub multiprocessors: usize,
    /// Largest shared memory per block, in bytes.
    pub shared_bytes: usize,
    /// CUDA version that the driver supports: 13000 is 13.0.
    pub driver: i32,
}

impl Properties {
    /// Architecture as compilers name it: `sm_90`.
    pub(crate) fn arch(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }
}
