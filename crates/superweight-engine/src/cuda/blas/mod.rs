//! Matrix products by cuBLASLt: `c (+)= op(a)·op(b)`, row-major, with sums in f32.
//!
//! cuBLASLt is column-major, where a row-major matrix is its transpose. So `c = a·b` is computed as
//! `cᵀ = bᵀ·aᵀ` without copies. Split sums are added in a workspace in a fixed order: schemes that
//! add in place or in the output's precision are disabled. f32 means f32; tf32 is a separate
//! choice, for products whose result is rounded to bf16 anyway.
//!
//! Rows should be multiples of 16 bytes: with K = 247 templates the products of a grid ran at
//! 82–114 TFLOP/s in bf16 and tf32 alike (H200, `docs/decisions/0015`). Callers that convert
//! operands should pad them with zeros.

#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::fmt;
use std::ptr::null_mut;

use cudarc::cublaslt::sys;
use cudarc::driver::sys as cu;

use super::libraries::CublasLt;
use crate::cuda::capture::undisturbed;
use crate::cuda::precision::Precision;
use crate::device::buffer::Write;
use crate::error::CudaError;

/// Largest workspace of a product: what cuBLAS itself uses on Hopper.
const WORKSPACE_LIMIT: usize = 32 << 20;
/// Required alignment of every pointer, in bytes.
const POINTER_ALIGNMENT: u32 = 16;

/// Arithmetic of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    /// bf16 operands, exact products.
    Bf16,
    /// f32 operands, f32 products.
    F32,
    /// f32 operands, rounded to 11 bits before multiplication. It was measured and not used; the
    /// tests still cover it.
    #[cfg_attr(not(test), allow(dead_code))]
    Tf32,
}

impl Arithmetic {
    /// Precision of the operands.
    pub(crate) fn operands(self) -> Precision {
        match self {
            Arithmetic::Bf16 => Precision::Bf16,
            Arithmetic::F32 | Arithmetic::Tf32 => Precision::F32,
        }
    }
}

/// `c[m, n] (+)= op(a)·op(b)` with a sum over k. Stored shapes: a is `[m, k]`, or `[k, m]` if
/// transposed; b is `[k, n]`, or `[n, k]` if transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProductShape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Whether a and b are stored transposed.
    pub(crate) transposed: [bool; 2],
    pub(crate) arithmetic: Arithmetic,
    /// Precision of c. bf16 only for bf16 operands.
    pub(crate) output: Precision,
    pub(crate) write: Write,
}

impl fmt::Display for ProductShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |transposed| if transposed { "ᵀ" } else { "" };
        let [a, b] = self.transposed.map(mark);
        let (arithmetic, output) = (self.arithmetic, self.output.name());
        write!(
            f,
            "product {}×{}{a} · {}×{}{b} ({arithmetic:?} → {output})",
            self.m, self.k, self.k, self.n
        )
    }
}

/// A cuBLASLt handle.
pub(crate) struct Blas {
    handle: sys::cublasLtHandle_t,
    lt: &'static CublasLt,
}

// SAFETY: several threads may use a cuBLASLt handle at once, according to its documentation.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl fmt::Debug for Blas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blas")
    }
}

impl Blas {
    /// Creates a handle for the device that is current on this thread.
    pub(crate) fn new(lt: &'static CublasLt) -> Result<Self, CudaError> {
        let mut handle = null_mut();
        let _undisturbed = undisturbed();
        // SAFETY: `handle` receives a handle that `drop` destroys.
        check("cublasLtCreate", unsafe { (lt.cublasLtCreate)(&mut handle) })?;
        Ok(Self { handle, lt })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        let _undisturbed = undisturbed();
        // SAFETY: created by `new`, destroyed once.
        unsafe { (self.lt.cublasLtDestroy)(self.handle) };
    }
}

fn check(call: &str, status: sys::cublasStatus_t) -> Result<(), CudaError> {
    match status {
        sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        status => Err(CudaError::call(call, format!("{status:?}"))),
    }
}

/// A product with its chosen algorithm.
pub(crate) struct Product {
    shape: ProductShape,
    description: Description,
    /// Column-major layouts of b, a and c.
    layouts: [Layout; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
}

// SAFETY: descriptions are plain memory of the library that does not change after `Product::new`.
unsafe impl Send for Product {}
// SAFETY: as above.
unsafe impl Sync for Product {}

impl fmt::Debug for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)
    }
}

impl Product {
    /// Chooses an algorithm by the heuristics. Returns the product and the bytes of workspace it
    /// needs.
    pub(crate) fn new(blas: &Blas, shape: ProductShape) -> Result<(Self, usize), CudaError> {
        let lt = blas.lt;
        let ProductShape { m, n, k, transposed: [ta, tb], .. } = shape;
        let wide = shape.arithmetic.operands();
        let stored =
            |rows, columns, transposed| if transposed { (columns, rows) } else { (rows, columns) };
        let layouts = [
            Layout::new(lt, stored(k, n, tb), wide)?,
            Layout::new(lt, stored(m, k, ta), wide)?,
            Layout::new(lt, (m, n), shape.output)?,
        ];
        let description = Description::new(lt, &shape)?;
        let (algorithm, workspace) = heuristic(blas, &shape, &description, &layouts)?;
        Ok((Self { shape, description, layouts, algorithm, workspace }, workspace))
    }

    /// Submits the product to a stream.
    ///
    /// # Safety
    /// The pointers are device memory of the shapes' sizes and of the workspace size from
    /// [`Product::new`], multiples of 16. They stay valid until the stream has passed this call.
    /// Products that run on other streams meanwhile have other workspaces and outputs.
    pub(crate) unsafe fn run(
        &self,
        blas: &Blas,
        stream: cu::CUstream,
        [a, b, c]: [u64; 3],
        workspace: u64,
    ) -> Result<(), CudaError> {
        let aligned =
            [a, b, c, workspace].iter().all(|p| p.is_multiple_of(u64::from(POINTER_ALIGNMENT)));
        assert!(
            aligned,
            "{}: pointers {a:x} {b:x} {c:x} {workspace:x} are not multiples of 16",
            self.shape
        );
        let (one, beta) = (1f32, if self.shape.write == Write::Add { 1f32 } else { 0f32 });
        let [of_b, of_a, of_c] = self.layouts.each_ref().map(|layout| layout.raw);
        let (alpha, beta): (*const f32, *const f32) = (&one, &beta);
        let at = |address: u64| address as *mut c_void;
        // SAFETY: live descriptions and handle; the caller guarantees the pointers.
        let status = unsafe {
            (blas.lt.cublasLtMatmul)(
                blas.handle,
                self.description.raw,
                alpha.cast(),
                at(b),
                of_b,
                at(a),
                of_a,
                beta.cast(),
                at(c),
                of_c,
                at(c),
                of_c,
                &self.algorithm,
                at(workspace),
                self.workspace,
                stream.cast(),
            )
        };
        check(&self.shape.to_string(), status)
    }
}

/// A row-major matrix, described as the column-major matrix that is its transpose.
struct Layout {
    raw: sys::cublasLtMatrixLayout_t,
    lt: &'static CublasLt,
}

impl Layout {
    fn new(
        lt: &'static CublasLt,
        (rows, columns): (usize, usize),
        precision: Precision,
    ) -> Result<Self, CudaError> {
        let mut raw = null_mut();
        // SAFETY: `raw` receives a layout that `drop` destroys.
        let status = unsafe {
            (lt.cublasLtMatrixLayoutCreate)(
                &mut raw,
                data_type(precision),
                columns as u64,
                rows as u64,
                columns as i64,
            )
        };
        check("cublasLtMatrixLayoutCreate", status)?;
        Ok(Self { raw, lt })
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        unsafe { (self.lt.cublasLtMatrixLayoutDestroy)(self.raw) };
    }
}

fn data_type(precision: Precision) -> sys::cudaDataType {
    match precision {
        Precision::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        Precision::F32 => sys::cudaDataType::CUDA_R_32F,
    }
}

/// Operation of a product.
struct Description {
    raw: sys::cublasLtMatmulDesc_t,
    lt: &'static CublasLt,
}

impl Description {
    fn new(lt: &'static CublasLt, shape: &ProductShape) -> Result<Self, CudaError> {
        use sys::cublasLtMatmulDescAttributes_t::*;
        let compute = match shape.arithmetic {
            Arithmetic::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Arithmetic::Bf16 | Arithmetic::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let mut raw = null_mut();
        // SAFETY: `raw` receives a description that `drop` destroys.
        let status = unsafe {
            (lt.cublasLtMatmulDescCreate)(&mut raw, compute, sys::cudaDataType::CUDA_R_32F)
        };
        check("cublasLtMatmulDescCreate", status)?;
        let description = Self { raw, lt };
        let [ta, tb] = shape.transposed;
        // The first factor of the column-major product is b.
        for (attribute, transposed) in
            [(CUBLASLT_MATMUL_DESC_TRANSA, tb), (CUBLASLT_MATMUL_DESC_TRANSB, ta)]
        {
            let operation = i32::from(transposed);
            let value: *const i32 = &operation;
            // SAFETY: the attribute is a 32-bit enumeration: 0 plain, 1 transposed.
            let status = unsafe {
                (lt.cublasLtMatmulDescSetAttribute)(raw, attribute, value.cast(), size_of::<i32>())
            };
            check("cublasLtMatmulDescSetAttribute", status)?;
        }
        Ok(description)
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        unsafe { (self.lt.cublasLtMatmulDescDestroy)(self.raw) };
    }
}

struct Preference {
    raw: sys::cublasLtMatmulPreference_t,
    lt: &'static CublasLt,
}

impl Preference {
    fn new(lt: &'static CublasLt) -> Result<Self, CudaError> {
        use sys::cublasLtMatmulPreferenceAttributes_t::*;
        let mut raw = null_mut();
        // SAFETY: `raw` receives a preference that `drop` destroys.
        let status = unsafe { (lt.cublasLtMatmulPreferenceCreate)(&mut raw) };
        check("cublasLtMatmulPreferenceCreate", status)?;
        let preference = Self { raw, lt };
        let scheme = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE_LIMIT)?;
        preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme)?;
        for attribute in [
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            preference.set(attribute, &POINTER_ALIGNMENT)?;
        }
        Ok(preference)
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), CudaError> {
        let value: *const T = value;
        // SAFETY: `T` is the attribute's type in each call above: a 64-bit size, then 32-bit masks.
        let status = unsafe {
            (self.lt.cublasLtMatmulPreferenceSetAttribute)(
                self.raw,
                attribute,
                value.cast(),
                size_of::<T>(),
            )
        };
        check("cublasLtMatmulPreferenceSetAttribute", status)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        unsafe { (self.lt.cublasLtMatmulPreferenceDestroy)(self.raw) };
    }
}

/// First algorithm of the heuristics, and its workspace.
fn heuristic(
    blas: &Blas,
    shape: &ProductShape,
    description: &Description,
    layouts: &[Layout; 3],
) -> Result<(sys::cublasLtMatmulAlgo_t, usize), CudaError> {
    let lt = blas.lt;
    let preference = Preference::new(lt)?;
    let [of_b, of_a, of_c] = layouts.each_ref().map(|layout| layout.raw);
    // SAFETY: all fields are plain integers, valid as zeros.
    let mut found: sys::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
    let mut count = 0;
    // SAFETY: live descriptions, and room for one result.
    let status = unsafe {
        (lt.cublasLtMatmulAlgoGetHeuristic)(
            blas.handle,
            description.raw,
            of_b,
            of_a,
            of_c,
            of_c,
            preference.raw,
            1,
            &mut found,
            &mut count,
        )
    };
    check(&format!("choosing an algorithm for {shape}"), status)?;
    if count == 0 {
        return Err(CudaError::call(
            format!("choosing an algorithm for {shape}"),
            "cuBLASLt has no algorithm",
        ));
    }
    check(&format!("choosing an algorithm for {shape}"), found.state)?;
    Ok((found.algo, found.workspaceSize))
}
