//! Work noted down once and done again at once: stream capture and an instantiated graph.

use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::{result, sys as cu};

use super::CudaDevice;
use super::context::Context;
use super::error::{CudaError, Named};
use crate::error::Error;

/// A captured piece of work.
pub struct Recording {
    context: Arc<Context>,
    graph: cu::CUgraph,
    /// Null until it is ready.
    ready: cu::CUgraphExec,
}

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
        // SAFETY: the capture was begun above.
        let graph = unsafe { result::stream::end_capture(context.raw_stream()) };
        // Whatever fails from here on, it is destroyed.
        let graph = graph.unwrap_or(null_mut());
        let recording = Self { context: context.clone(), graph, ready: null_mut() };
        asked?;
        context.take_failure()?;
        if graph.is_null() {
            return Err(CudaError::call("recording", "nothing was asked of the device").into());
        }
        Ok(recording.made_ready()?)
    }

    fn made_ready(mut self) -> Result<Self, CudaError> {
        let Self { context, graph, .. } = &self;
        // SAFETY: the graph is ours alone, and of this context; places of counters are used by convolutions only.
        unsafe {
            context.counters.clear_at_once(context.cuda.cu_ctx(), *graph)?;
            let flags = cu::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            self.ready = result::graph::instantiate(self.graph, flags).named("making a recording ready")?;
            result::graph::upload(self.ready, self.context.raw_stream()).named("uploading a recording")?;
        }
        Ok(self)
    }

    pub(super) fn replay(&self) -> Result<(), Error> {
        // SAFETY: a recording that somebody has is ready; the caller has bound the context.
        let launched = unsafe { result::graph::launch(self.ready, self.context.raw_stream()) };
        Ok(launched.named("replaying a recording")?)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.context.bind().is_err() {
            return;
        }
        // SAFETY: each is destroyed once; the driver waits for what still runs.
        unsafe {
            if !self.ready.is_null() {
                self.context.note(result::graph::exec_destroy(self.ready).named("cuGraphExecDestroy"));
            }
            if !self.graph.is_null() {
                self.context.note(result::graph::destroy(self.graph).named("cuGraphDestroy"));
            }
        }
    }
}
