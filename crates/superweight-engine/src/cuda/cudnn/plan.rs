//! Execution plan: a graph with one engine configuration, which can run any number of times.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cudnn::sys;

use super::descriptor::{Attribute, Descriptor, Kind, check};
use super::engine::{Choice, Config};
use super::graph::{BIAS, Graph, INPUT, OUTPUT, Target, WEIGHT};
use crate::cuda::libraries::Cudnn;
use crate::error::CudaError;

/// An execution plan. It is immutable, so layers of one shape share it.
#[derive(Debug)]
pub(super) struct Plan {
    descriptor: Descriptor,
    config: Config,
    workspace: usize,
    graph: Arc<Graph>,
}

impl Plan {
    /// Builds a plan. Engines that compile their kernel at run time do so here.
    pub(super) fn new(
        target: &Target,
        graph: &Arc<Graph>,
        config: Config,
    ) -> Result<Self, CudaError> {
        let descriptor = target.descriptor(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        target.name_to(
            &descriptor,
            Some(Attribute::CUDNN_ATTR_EXECUTION_PLAN_HANDLE),
            Some(Attribute::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP),
        )?;
        descriptor.set_descriptors(
            Attribute::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
            &[&config.descriptor],
        )?;
        descriptor.finalize(&format!("plan, {}", config.choice))?;
        let workspace = descriptor.integer(Attribute::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        Ok(Self { descriptor, config, workspace: workspace.max(0) as usize, graph: graph.clone() })
    }

    /// Engine and knobs of the plan.
    pub(super) fn choice(&self) -> &Choice {
        &self.config.choice
    }

    /// Bytes of workspace that the plan needs.
    pub(super) fn workspace(&self) -> usize {
        self.workspace
    }

    /// Submits the plan. The pointers are x (or dx), w (or dw), y (or dy) and the bias, which only
    /// a graph with a bias reads.
    ///
    /// # Safety
    /// The pointers are tensors of the graph's shapes in memory of the handle's device, aligned as
    /// the graph requires. `workspace` has the size from [`Plan::workspace`]. All stay valid until
    /// the work is done.
    pub(super) unsafe fn run(
        &self,
        cudnn: &'static Cudnn,
        handle: sys::cudnnHandle_t,
        tensors: [u64; 4],
        workspace: u64,
    ) -> Result<(), CudaError> {
        let pack = Descriptor::new(cudnn, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        let pointer = |address: u64| address as *mut c_void;
        let named = if self.graph.biased { 4 } else { 3 };
        let names = &[INPUT, WEIGHT, OUTPUT, BIAS][..named];
        pack.set_integers(Attribute::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, names)?;
        pack.set_pointers(
            Attribute::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
            &tensors.map(pointer)[..named],
        )?;
        pack.set_pointers(Attribute::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[pointer(workspace)])?;
        pack.finalize("variant pack")?;
        // SAFETY: a live handle, a finalized plan and pack; the caller guarantees the pointers.
        let status =
            unsafe { (cudnn.cudnnBackendExecute)(handle, self.descriptor.raw(), pack.raw()) };
        check(cudnn, &format!("cudnnBackendExecute, {}", self.config.choice), status)
    }
}
