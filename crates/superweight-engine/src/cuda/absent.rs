//! The CUDA device of a build without the cargo feature `cuda`: a type without values.

use std::convert::Infallible;

use super::precision::Precision;
use super::tuning::{ConvRecord, Tuning};
use crate::device::bank_view::BankViewSet;
use crate::device::buffer::{Element, Region, Space};
use crate::device::call::Call;
use crate::device::mix::{MixOutput, MixSet};
use crate::device::sgd::SgdGroups;
use crate::device::{Device, Observer, Schedule, Storages};
use crate::error::{CudaError, Error};
use crate::images::{ImageSample, ImageSet};

/// An NVIDIA GPU as a device. This build lacks the cargo feature `cuda`, so no value of it exists.
#[derive(Clone, Debug)]
pub struct CudaDevice(Infallible);

/// Storage, kernel or table of a device that does not exist.
#[derive(Debug)]
#[doc(hidden)]
pub struct Absent {
    _never: Infallible,
}

impl CudaDevice {
    /// Always fails with [`CudaError::NotBuilt`].
    pub fn new(_ordinal: usize, _precision: Precision) -> Result<Self, Error> {
        Err(CudaError::NotBuilt.into())
    }

    /// Precision of activations and weights.
    pub fn precision(&self) -> Precision {
        match self.0 {}
    }

    /// Sets how much time is spent on choosing the plans of convolutions compiled from now on.
    pub fn set_tuning(&self, _: Tuning) {
        match self.0 {}
    }

    /// Deletes all tuned plans.
    pub fn clear_tuning(&self) {
        match self.0 {}
    }

    /// From now on, measures each unconfirmed tuned plan again before use.
    pub fn recheck_tuning(&self) {
        match self.0 {}
    }

    /// Tuned convolutions for this GPU, driver and cuDNN version.
    pub fn tuned(&self) -> Vec<ConvRecord> {
        match self.0 {}
    }

    /// Maximum of allocated GPU memory so far, in bytes.
    pub fn peak_allocated_bytes(&self) -> usize {
        match self.0 {}
    }

    /// Name of the GPU and versions of driver and libraries, for logs.
    pub fn description(&self) -> String {
        match self.0 {}
    }
}

/// Always fails with [`CudaError::NotBuilt`]: this build has no kernels.
pub fn compile_all(_architectures: &[&str]) -> Result<String, CudaError> {
    Err(CudaError::NotBuilt)
}

impl Device for CudaDevice {
    type Buffer = Absent;
    type Kernel = Absent;
    type Mixer = Absent;
    type Viewer = Absent;
    type Packed = Absent;
    type Updater = Absent;
    type Images = Absent;
    type Recording = Absent;

    fn element_bytes(&self, _: Element) -> usize {
        match self.0 {}
    }

    fn allocate(&self, _: Space, _: usize, _: usize) -> Result<Absent, Error> {
        match self.0 {}
    }

    fn size(&self, _: &Absent) -> usize {
        match self.0 {}
    }

    fn clear(&self, _: &mut Absent) {
        match self.0 {}
    }

    fn write(&self, _: &mut Absent, _: Region, _: &[f32]) {
        match self.0 {}
    }

    fn write_indices(&self, _: &mut Absent, _: Region, _: &[u32]) {
        match self.0 {}
    }

    fn read(&self, _: &Absent, _: Region, _: &mut [f32]) {
        match self.0 {}
    }

    fn prepare(&self, _: &Call) -> Result<(Absent, usize), Error> {
        match self.0 {}
    }

    fn pack(&self, _: &Schedule<Absent>, _: &mut Storages<Self>) -> Result<Absent, Error> {
        match self.0 {}
    }

    fn packed_bytes(&self, _: &Absent) -> usize {
        match self.0 {}
    }

    fn run(
        &self,
        _: &Schedule<Absent>,
        _: &mut Storages<Self>,
        _: Option<&Absent>,
        _: Option<Observer<'_>>,
    ) {
        match self.0 {}
    }

    fn prepare_sgd(&self, _: &SgdGroups, _: &[Region]) -> Result<Absent, Error> {
        match self.0 {}
    }

    fn sgd(&self, _: &Absent, _: &Absent, _: &mut Absent, _: &mut Storages<Self>) {
        match self.0 {}
    }

    fn prepare_mix(&self, _: &[MixSet]) -> Result<(Absent, usize), Error> {
        match self.0 {}
    }

    fn mix(&self, _: &[MixSet], _: &Absent, _: MixOutput, _: &mut Storages<Self>) {
        match self.0 {}
    }

    fn mix_backward(&self, _: &[MixSet], _: &Absent, _: &mut Storages<Self>) {
        match self.0 {}
    }

    fn prepare_views(&self, _: &[BankViewSet]) -> Result<Absent, Error> {
        match self.0 {}
    }

    fn apply_views(&self, _: &Absent, _: &mut Storages<Self>) {
        match self.0 {}
    }

    fn apply_views_backward(&self, _: &Absent, _: &mut Storages<Self>) {
        match self.0 {}
    }

    fn accumulate(&self, _: &Storages<Self>, _: &[Region], _: &mut Absent) {
        match self.0 {}
    }

    fn load_images(&self, _: &ImageSet, _: usize, _: usize) -> Result<Absent, Error> {
        match self.0 {}
    }

    fn set_samples(&self, _: &mut Absent, _: &[ImageSample]) {
        match self.0 {}
    }

    fn draw_batch(&self, _: &Absent, _: &mut Storages<Self>, _: Region, _: Region) {
        match self.0 {}
    }

    fn record(&self, _: &mut dyn FnMut() -> Result<(), Error>) -> Result<Option<Absent>, Error> {
        match self.0 {}
    }

    fn replay(&self, _: &Absent) -> Result<(), Error> {
        match self.0 {}
    }

    fn finish(&self) -> Result<(), Error> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_a_gpu_names_the_missing_feature() {
        let error = CudaDevice::new(0, Precision::F32).unwrap_err();
        assert_eq!(error, Error::Cuda(CudaError::NotBuilt));
        assert!(error.to_string().contains("cargo feature `cuda`"), "{error}");
    }
}
