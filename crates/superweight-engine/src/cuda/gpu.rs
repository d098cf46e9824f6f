//! A GPU with its loaded kernels, as kernels' callers need it.

use std::sync::Arc;

use super::context::Context;
use super::launch::Kernels;

/// A GPU and the kernels loaded on it.
#[derive(Clone)]
pub(super) struct Gpu {
    pub context: Arc<Context>,
    pub kernels: Arc<Kernels>,
}
