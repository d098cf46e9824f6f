//! Attaches the name of the failed call to errors of the driver.

use cudarc::driver::DriverError;

use crate::error::CudaError;

/// Converts a driver error to a [`CudaError`] with the name of the call.
pub(crate) trait Named<T> {
    fn named(self, call: &str) -> Result<T, CudaError>;
}

impl<T> Named<T> for Result<T, DriverError> {
    fn named(self, call: &str) -> Result<T, CudaError> {
        self.map_err(|error| CudaError::call(call, error))
    }
}
