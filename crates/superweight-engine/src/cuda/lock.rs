//! Locks that survive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose holder panicked is still good: what it guards is changed in one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
