//! Work noted down once and done again at once: stream capture and an instantiated graph.

use cudarc::driver::{CudaGraph, sys as cu};

use super::CudaDevice;
use super::error::Named;
use crate::error::Error;

/// A captured piece of work.
pub struct Recording(CudaGraph);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recording")
    }
}

impl Recording {
    pub(super) fn new(
        device: &CudaDevice,
        body: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let context = &device.context;
        context.bind()?;
        context.synchronize()?;
        context.take_failure()?;
        let mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        context.stream.begin_capture(mode).named("beginning a recording")?;
        let asked = body();
        // Ended in any case: the stream is of no use while it is being captured.
        let flags = cu::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = context.stream.end_capture(flags);
        asked?;
        context.take_failure()?;
        let graph = graph.named("ending a recording")?;
        let reason = || super::CudaError::call("recording", "nothing was asked of the device");
        let graph = graph.ok_or_else(reason)?;
        graph.upload().named("uploading a recording")?;
        Ok(Self(graph))
    }

    pub(super) fn replay(&self) -> Result<(), Error> {
        Ok(self.0.launch().named("replaying a recording")?)
    }
}
