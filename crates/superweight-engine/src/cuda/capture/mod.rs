//! Stream capture: turns submitted work into an instantiated CUDA graph.

pub(in crate::cuda) mod counters;
pub(in crate::cuda) mod nodes;

use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaStream, result, sys as cu};

use crate::cuda::named::Named;
use crate::error::CudaError;
use counters::Places;

/// Held during a capture, and while a library handle is created or destroyed. The latter waits for
/// the whole device, which breaks captures of any thread.
static UNDISTURBED: Mutex<()> = Mutex::new(());

/// Locks out captures and the creation or destruction of library handles until dropped.
pub(in crate::cuda) fn undisturbed() -> MutexGuard<'static, ()> {
    UNDISTURBED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Captured work of a stream as an instantiated graph. cudarc's own type instantiates the graph
/// before it can be changed.
pub(crate) struct Captured {
    stream: Arc<CudaStream>,
    pub(in crate::cuda) graph: cu::CUgraph,
    /// Null before instantiation.
    ready: cu::CUgraphExec,
    /// Number of counter memsets that were replaced by one.
    pub cleared: usize,
}

impl Captured {
    /// Captures the work that `body` submits to the stream. Single memsets of `places` are replaced
    /// by one.
    pub(crate) fn new<E: From<CudaError>>(
        stream: &Arc<CudaStream>,
        places: Places,
        body: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let undisturbed = undisturbed();
        let mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.begin_capture(mode).named("beginning a recording")?;
        let submitted = body();
        let bound = stream.context().bind_to_thread().named("cuCtxSetCurrent");
        // Ends the capture in any case: the stream is unusable while it is captured. SAFETY: the
        // capture was begun above.
        let ended = unsafe { result::stream::end_capture(stream.cu_stream()) };
        drop(undisturbed);
        // From here on, the graph is destroyed on any failure.
        let graph = ended.unwrap_or(null_mut());
        let captured = Self { stream: stream.clone(), graph, ready: null_mut(), cleared: 0 };
        submitted?;
        bound?;
        if ended.named("ending a recording")?.is_null() {
            return Err(CudaError::call("recording", "no work was submitted").into());
        }
        Ok(captured.made_ready(places)?)
    }

    fn made_ready(mut self, places: Places) -> Result<Self, CudaError> {
        let flags = cu::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        // SAFETY: the graph is used only here and belongs to the stream's context.
        unsafe {
            self.cleared = places.clear_at_once(self.stream.context().cu_ctx(), self.graph)?;
            self.ready =
                result::graph::instantiate(self.graph, flags).named("instantiating a recording")?;
            result::graph::upload(self.ready, self.stream.cu_stream())
                .named("uploading a recording")?;
        }
        Ok(self)
    }

    pub(crate) fn launch(&self) -> Result<(), CudaError> {
        self.stream.context().bind_to_thread().named("cuCtxSetCurrent")?;
        // SAFETY: every constructed value is instantiated.
        unsafe { result::graph::launch(self.ready, self.stream.cu_stream()) }
            .named("replaying a recording")
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(context.bind_to_thread());
        // SAFETY: each is destroyed once; running work ends first.
        unsafe {
            if !self.ready.is_null() {
                context.record_err(result::graph::exec_destroy(self.ready));
            }
            if !self.graph.is_null() {
                context.record_err(result::graph::destroy(self.graph));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::cuda::on_device::{Buffer, context};

    #[test]
    fn recordings_survive_devices_that_open_and_close_concurrently() {
        let Some(own) = context() else { return };
        let buffer = Buffer::bytes(&own, 64);
        let body = || {
            for _ in 0..200 {
                // SAFETY: 64 live bytes.
                unsafe { cu::cuMemsetD8Async(buffer.at(), 0, 64, own.raw_stream()) }
                    .result()
                    .named("a memset")?;
            }
            Ok::<_, CudaError>(())
        };
        let (closed, mut made) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..6 {
                    drop(context());
                }
                closed.store(true, Ordering::Relaxed);
            });
            while !closed.load(Ordering::Relaxed) {
                Captured::new(&own.stream, Places { base: 0, count: 0 }, body).unwrap();
                made += 1;
            }
        });
        println!("{made} recordings");
        assert!(made > 6);
    }
}
