//! Errors of the driver with the call they came from.

use cudarc::driver::DriverError;

use crate::error::CudaError;

/// Names the call that a driver's error came from.
pub(crate) trait Named<T> {
    fn named(self, call: &str) -> Result<T, CudaError>;
}

impl<T> Named<T> for Result<T, DriverError> {
    fn named(self, call: &str) -> Result<T, CudaError> {
        self.map_err(|error| CudaError::call(call, error))
    }
}
