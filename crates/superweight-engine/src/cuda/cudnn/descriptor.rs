//! Backend descriptors of cuDNN, with typed setters and errors.
//!
//! cuDNN describes tensors, operations, graphs, engines and plans by the same opaque descriptor:
//! create, set attributes, finalize. A wrong attribute type would read memory past its end, so
//! every setter here fixes the type that belongs to the Rust type. Enumerations are *read* as plain
//! integers: a newer cuDNN may return values that these bindings lack.

use std::ffi::c_void;
use std::fmt;

use cudarc::cudnn::sys;
pub(super) use sys::cudnnBackendAttributeName_t as Attribute;
use sys::cudnnBackendAttributeType_t as Type;
pub(super) use sys::cudnnBackendDescriptorType_t as Kind;

use crate::cuda::libraries::Cudnn;
use crate::error::CudaError;

/// Converts a status to an error with cuDNN's message.
pub(super) fn check(
    cudnn: &Cudnn,
    call: &str,
    status: sys::cudnnStatus_t,
) -> Result<(), CudaError> {
    match status {
        sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS => Ok(()),
        status => Err(CudaError::call(call, format!("{status:?} ({})", last_message(cudnn)))),
    }
}

/// Last error message of cuDNN on this thread.
fn last_message(cudnn: &Cudnn) -> String {
    let mut text = [0u8; 1024];
    // SAFETY: cuDNN writes at most `len` bytes, including the terminating zero.
    unsafe { (cudnn.cudnnGetLastErrorString)(text.as_mut_ptr().cast(), text.len()) };
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).replace('\n', " ").trim().to_owned()
}

/// An owned descriptor.
pub(super) struct Descriptor {
    raw: sys::cudnnBackendDescriptor_t,
    cudnn: &'static Cudnn,
}

// SAFETY: a descriptor is plain memory of the library. After `finalize` it does not change; before
// that it is not shared.
unsafe impl Send for Descriptor {}
// SAFETY: shared descriptors are finalized, and finalized ones are only read.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        unsafe { (self.cudnn.cudnnBackendDestroyDescriptor)(self.raw) };
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Descriptor")
    }
}

impl Descriptor {
    /// Creates an empty descriptor.
    pub(super) fn new(cudnn: &'static Cudnn, kind: Kind) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` receives a pointer that `drop` destroys.
        let status = unsafe { (cudnn.cudnnBackendCreateDescriptor)(kind, &mut raw) };
        check(cudnn, &format!("cudnnBackendCreateDescriptor({kind:?})"), status)?;
        Ok(Self { raw, cudnn })
    }

    pub(super) fn raw(&self) -> sys::cudnnBackendDescriptor_t {
        self.raw
    }

    fn set<T>(&self, name: Attribute, kind: Type, values: &[T]) -> Result<(), CudaError> {
        // SAFETY: `values` holds as many elements as its length; their type belongs to `kind` in
        // each caller below.
        let status = unsafe {
            (self.cudnn.cudnnBackendSetAttribute)(
                self.raw,
                name,
                kind,
                values.len() as i64,
                values.as_ptr().cast(),
            )
        };
        check(self.cudnn, &format!("cudnnBackendSetAttribute({name:?})"), status)
    }

    pub(super) fn set_integers(&self, name: Attribute, values: &[i64]) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_INT64, values)
    }

    pub(super) fn set_float(&self, name: Attribute, value: f32) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_FLOAT, &[value])
    }

    pub(super) fn set_data_type(
        &self,
        name: Attribute,
        value: sys::cudnnDataType_t,
    ) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_DATA_TYPE, &[value])
    }

    pub(super) fn set_pointwise_mode(
        &self,
        name: Attribute,
        value: sys::cudnnPointwiseMode_t,
    ) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_POINTWISE_MODE, &[value])
    }

    pub(super) fn set_flag(&self, name: Attribute, value: bool) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_BOOLEAN, &[value])
    }

    pub(super) fn set_convolution_mode(
        &self,
        name: Attribute,
        value: sys::cudnnConvolutionMode_t,
    ) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_CONVOLUTION_MODE, &[value])
    }

    pub(super) fn set_heuristic_mode(
        &self,
        name: Attribute,
        value: sys::cudnnBackendHeurMode_t,
    ) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_HEUR_MODE, &[value])
    }

    /// Sets a knob's type, as the integer that cuDNN returned.
    pub(super) fn set_knob_type(&self, name: Attribute, value: u32) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_KNOB_TYPE, &[value])
    }

    pub(super) fn set_handle(
        &self,
        name: Attribute,
        value: sys::cudnnHandle_t,
    ) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_HANDLE, &[value])
    }

    pub(super) fn set_pointers(
        &self,
        name: Attribute,
        values: &[*mut c_void],
    ) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_VOID_PTR, values)
    }

    #[cfg(test)]
    pub(super) fn set_text(&self, name: Attribute, text: &std::ffi::CStr) -> Result<(), CudaError> {
        self.set(name, Type::CUDNN_TYPE_CHAR, text.to_bytes_with_nul())
    }

    pub(super) fn set_descriptors(
        &self,
        name: Attribute,
        values: &[&Descriptor],
    ) -> Result<(), CudaError> {
        let raw: Vec<_> = values.iter().map(|value| value.raw).collect();
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw)
    }

    /// Finishes setting attributes; cuDNN checks them.
    pub(super) fn finalize(&self, what: &str) -> Result<(), CudaError> {
        // SAFETY: a live descriptor.
        check(self.cudnn, &format!("cudnnBackendFinalize({what})"), unsafe {
            (self.cudnn.cudnnBackendFinalize)(self.raw)
        })
    }

    /// Reads at most `max` values; cuDNN returns their count.
    fn get<T: Copy + Default>(
        &self,
        name: Attribute,
        kind: Type,
        max: usize,
    ) -> Result<Vec<T>, CudaError> {
        let (mut values, mut count) = (vec![T::default(); max], 0i64);
        // SAFETY: room for `max` elements of the type that belongs to `kind` in each caller below.
        let status = unsafe {
            (self.cudnn.cudnnBackendGetAttribute)(
                self.raw,
                name,
                kind,
                max as i64,
                &mut count,
                values.as_mut_ptr().cast(),
            )
        };
        check(self.cudnn, &format!("cudnnBackendGetAttribute({name:?})"), status)?;
        values.truncate(count.max(0) as usize);
        Ok(values)
    }

    pub(super) fn integer(&self, name: Attribute) -> Result<i64, CudaError> {
        first(name, &self.get(name, Type::CUDNN_TYPE_INT64, 1)?)
    }

    pub(super) fn numerical_notes(&self) -> Result<Vec<u32>, CudaError> {
        self.get(
            Attribute::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
            Type::CUDNN_TYPE_NUMERICAL_NOTE,
            MOST_VALUES,
        )
    }

    pub(super) fn knob_type(&self, name: Attribute) -> Result<u32, CudaError> {
        first(name, &self.get(name, Type::CUDNN_TYPE_KNOB_TYPE, 1)?)
    }

    /// Number of descriptors of an attribute. Some attributes do not report it without a buffer:
    /// knob choices report 0, and then all configurations of an engine would look the same.
    pub(super) fn count(&self, name: Attribute) -> Result<usize, CudaError> {
        let mut count = 0i64;
        // SAFETY: only the count is written.
        let status = unsafe {
            (self.cudnn.cudnnBackendGetAttribute)(
                self.raw,
                name,
                Type::CUDNN_TYPE_BACKEND_DESCRIPTOR,
                0,
                &mut count,
                std::ptr::null_mut(),
            )
        };
        check(self.cudnn, &format!("cudnnBackendGetAttribute({name:?})"), status)?;
        Ok(count.max(0) as usize)
    }

    /// Reads at most `max` descriptors of a kind; cuDNN fills descriptors that the caller created.
    pub(super) fn descriptors(
        &self,
        name: Attribute,
        kind: Kind,
        max: usize,
    ) -> Result<Vec<Self>, CudaError> {
        let mut values =
            (0..max).map(|_| Self::new(self.cudnn, kind)).collect::<Result<Vec<_>, _>>()?;
        let mut raw: Vec<_> = values.iter().map(|value| value.raw).collect();
        let mut count = 0i64;
        // SAFETY: `max` live descriptors of the requested kind.
        let status = unsafe {
            (self.cudnn.cudnnBackendGetAttribute)(
                self.raw,
                name,
                Type::CUDNN_TYPE_BACKEND_DESCRIPTOR,
                max as i64,
                &mut count,
                raw.as_mut_ptr().cast(),
            )
        };
        check(self.cudnn, &format!("cudnnBackendGetAttribute({name:?})"), status)?;
        values.truncate(count.max(0) as usize);
        Ok(values)
    }
}

/// More notes or knobs than any engine has (cuDNN 9.14 has 10 notes and 43 knobs).
pub(super) const MOST_VALUES: usize = 64;

fn first<T: Copy>(name: Attribute, values: &[T]) -> Result<T, CudaError> {
    let missing = || {
        CudaError::call(format!("cudnnBackendGetAttribute({name:?})"), "the attribute has no value")
    };
    values.first().copied().ok_or_else(missing)
}
