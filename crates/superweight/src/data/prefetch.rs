//! Batches made on a thread of their own while the last one is being trained on.
//!
//! Buffers go round: filled ones through one bounded channel, used ones back through another. All are made at the
//! start, so a step allocates nothing; and since a batch is a function of its step, the results are those without a
//! thread. Errors and panics of the thread come out of [`Prefetch::next`]; dropping ends it.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::DataError;
use super::batch::{Batch, Batches};

/// Batches in advance.
pub struct Prefetch {
    /// None once the thread has ended.
    channels: Option<Channels>,
    thread: Option<JoinHandle<()>>,
    current: Option<Batch>,
}

struct Channels {
    filled: Receiver<Result<Batch, DataError>>,
    used: SyncSender<Batch>,
}

impl Prefetch {
    /// Makes the batches of `steps`, at most `ahead` (at least one) before they are asked for.
    pub fn start(mut batches: impl Batches + Send + 'static, steps: Range<u64>, ahead: usize) -> Self {
        let buffers = ahead.max(1) + 1; // one more is in the hands of the caller
        let (fill, filled) = sync_channel(buffers);
        let (used, empty) = sync_channel(buffers);
        for _ in 0..buffers {
            used.try_send(batches.buffer()).expect("the channel holds all buffers");
        }
        let work = move || {
            for step in steps {
                let Ok(mut batch) = empty.recv() else { return };
                let result = batches.fill(step, &mut batch).map(|()| batch);
                let failed = result.is_err();
                if fill.send(result).is_err() || failed {
                    return;
                }
            }
        };
        let thread =
            thread::Builder::new().name("prefetch".to_owned()).spawn(work).expect("a thread can be started");
        Self { channels: Some(Channels { filled, used }), thread: Some(thread), current: None }
    }

    /// The next batch, or none after the last; it is reused by the next call.
    ///
    /// # Panics
    ///
    /// With the panic of the thread, if it had one.
    #[allow(clippy::should_implement_trait)] // an iterator cannot lend
    pub fn next(&mut self) -> Result<Option<&Batch>, DataError> {
        let Some(Channels { filled, used }) = &self.channels else { return Ok(None) };
        if let Some(batch) = self.current.take() {
            let _ = used.try_send(batch); // the thread may have made its last batch
        }
        match filled.recv() {
            Ok(Ok(batch)) => Ok(Some(self.current.insert(batch))),
            Ok(Err(error)) => {
                self.channels = None;
                Err(error)
            }
            Err(_) => {
                self.channels = None;
                match self.thread.take().map(JoinHandle::join) {
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    _ => Ok(None),
                }
            }
        }
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.channels = None; // wakes the thread, wherever it waits
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::dataset;
    use crate::data::{Augment, EvalBatches, Part, Phase, TrainBatches};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn train() -> TrainBatches {
        let augment = Augment { pad: 1, flip: true, cutout: 2 };
        TrainBatches::new(Arc::new(dataset(50, 7)), (0..50).collect(), 8, augment, 3, Phase::Train).unwrap()
    }

    fn equal(mut direct: impl Batches, mut prefetch: Prefetch, steps: Range<u64>) {
        let mut batch = direct.buffer();
        for step in steps {
            direct.fill(step, &mut batch).unwrap();
            assert_eq!(prefetch.next().unwrap(), Some(&batch));
        }
        assert_eq!(prefetch.next().unwrap(), None);
        assert_eq!(prefetch.next().unwrap(), None);
    }

    #[test]
    fn gives_what_the_direct_path_gives() {
        for ahead in 0..5 {
            equal(train(), Prefetch::start(train(), 4..21, ahead), 4..21);
            let eval = || EvalBatches::all(&dataset(50, 7), Part::Test, 3).unwrap();
            equal(eval(), Prefetch::start(eval(), 0..3, ahead), 0..3);
        }
        equal(train(), Prefetch::start(train(), 5..5, 2), 5..5);
    }

    #[test]
    fn buffers_go_round() {
        let mut prefetch = Prefetch::start(train(), 0..40, 2);
        let mut addresses = std::collections::HashSet::new();
        while let Some(batch) = prefetch.next().unwrap() {
            addresses.insert(batch.as_ptr());
        }
        assert!(addresses.len() <= 3, "{addresses:?}");
    }

    #[test]
    fn ends_when_dropped_at_any_moment() {
        for taken in 0..6 {
            let mut prefetch = Prefetch::start(train(), 0..1_000_000_000, 2);
            for _ in 0..taken {
                prefetch.next().unwrap();
            }
        }
    }

    /// Counts its buffers; step 3 goes wrong.
    struct Faulty {
        buffers: Arc<AtomicUsize>,
        panics: bool,
    }

    impl Batches for Faulty {
        fn batch_size(&self) -> usize {
            1
        }

        fn buffer(&self) -> Batch {
            self.buffers.fetch_add(1, Ordering::Relaxed);
            Batch::with_capacity(1)
        }

        fn fill(&mut self, step: u64, _: &mut Batch) -> Result<(), DataError> {
            assert!(step != 3 || !self.panics, "step {step} panics");
            if step == 3 { Err(DataError::NoFolder) } else { Ok(()) }
        }
    }

    #[test]
    fn errors_and_panics_come_out_after_what_was_sound() {
        for panics in [false, true] {
            let buffers = Arc::default();
            let mut prefetch = Prefetch::start(Faulty { buffers: Arc::clone(&buffers), panics }, 0..100, 2);
            for _ in 0..3 {
                assert!(prefetch.next().unwrap().is_some());
            }
            let next = std::panic::AssertUnwindSafe(|| prefetch.next().map(|batch| batch.cloned()));
            match std::panic::catch_unwind(next) {
                Ok(result) => assert!(!panics && matches!(result, Err(DataError::NoFolder))),
                Err(panic) => assert!(panics && panic.downcast_ref::<String>().unwrap() == "step 3 panics"),
            }
            assert!(prefetch.next().unwrap().is_none());
            assert_eq!(buffers.load(Ordering::Relaxed), 3);
        }
    }
}
