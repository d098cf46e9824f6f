//! NVIDIA's libraries, opened at run time and called through function tables.
//!
//! cudarc's own loader opens the unversioned `libcudnn.so` first and panics if something is
//! missing. With two versions of cuDNN on a machine (the system's and a Python package's), files of
//! both can end up in the process and fail in strange ways. So this module chooses one folder: that
//! of the environment variable, otherwise what the dynamic loader finds, otherwise the usual
//! folders of packages. It opens all files of cuDNN from that folder before cuDNN requests them.

#![allow(non_snake_case)]

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use cudarc::cublaslt::sys as lt;
use cudarc::cudnn::sys as dnn;
use libloading::Library;

use crate::error::CudaError;

/// Environment variable with the folder of cuDNN.
pub(crate) const CUDNN_DIR: &str = "SWN_CUDNN_DIR";
/// Environment variable with the folder of NVRTC and cuBLASLt.
pub(crate) const CUDA_DIR: &str = "SWN_CUDA_DIR";

/// An opened library. It stays open for the life of the process, because its functions are in use.
#[derive(Debug)]
pub(crate) struct Opened {
    library: &'static Library,
    name: &'static str,
    /// The file, or the name that the loader resolved.
    pub path: PathBuf,
}

impl Opened {
    fn keep(library: Library, name: &'static str, path: PathBuf) -> Self {
        Self { library: Box::leak(Box::new(library)), name, path }
    }

    /// Looks up a function of the library.
    ///
    /// # Safety
    ///
    /// `F` must be the type of the library's function with this name.
    pub(crate) unsafe fn function<F: Copy>(&self, function: &'static str) -> Result<F, CudaError> {
        // SAFETY: guaranteed by the caller.
        let symbol = unsafe { self.library.get::<F>(function.as_bytes()) };
        symbol.map(|symbol| *symbol).map_err(|_| CudaError::MissingFunction {
            library: self.name,
            path: self.path.display().to_string(),
            function,
        })
    }
}

/// Opens the first of `names` that is found in the folder of `variable`, by the loader, or in
/// `folders`.
fn open(
    name: &'static str,
    names: &[&str],
    variable: &str,
    folders: &[PathBuf],
    advice: &'static str,
) -> Result<Opened, CudaError> {
    let mut tried = Vec::new();
    let mut attempt = |path: PathBuf| {
        // SAFETY: opening NVIDIA's libraries runs no code that depends on this process.
        match unsafe { Library::new(&path) } {
            Ok(library) => Some(Opened::keep(library, name, path)),
            Err(error) => {
                tried.push(error.to_string());
                None
            }
        }
    };
    if let Some(folder) = std::env::var_os(variable) {
        let found = names.iter().find_map(|file| attempt(Path::new(&folder).join(file)));
        let tried = format!("{variable}={} ({})", folder.display(), tried.join("; "));
        return found.ok_or(CudaError::MissingLibrary { library: name, tried, advice });
    }
    let by_loader = names.iter().find_map(|file| attempt(PathBuf::from(file)));
    let existing =
        || names.iter().flat_map(|file| folders.iter().map(move |folder| folder.join(file)));
    let found =
        by_loader.or_else(|| existing().filter(|path| path.exists()).find_map(&mut attempt));
    found.ok_or_else(|| {
        let places: Vec<String> =
            folders.iter().map(|folder| folder.display().to_string()).collect();
        let tried = format!("the loader's path ({}) and {}", tried.join("; "), places.join(", "));
        CudaError::MissingLibrary { library: name, tried, advice }
    })
}

/// Usual folders of the CUDA toolkit and of Python packages named `packages`.
fn usual_folders(packages: &[&str]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(std::env::var_os) {
        let versions =
            std::fs::read_dir(Path::new(&root).join("lib")).into_iter().flatten().flatten();
        for version in versions {
            let nvidia = version.path().join("site-packages/nvidia");
            folders.extend(packages.iter().map(|package| nvidia.join(package).join("lib")));
        }
    }
    folders.sort();
    folders.extend(["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu"].map(PathBuf::from));
    folders
}

macro_rules! table {
    ($(#[$doc:meta])* $table:ident { $($function:ident: fn($($argument:ty),*) $(-> $result:ty)?,)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $table {
            pub opened: Opened,
            $(pub $function: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            fn of(opened: Opened) -> Result<Self, CudaError> {
                // SAFETY: the types are those of the library's header, as in cudarc's bindings.
                unsafe { Ok(Self { $($function: opened.function(stringify!($function))?,)* opened }) }
            }
        }
    };
}

table! {
    /// NVRTC, which compiles the kernels of this crate.
    Nvrtc {
        nvrtcVersion: fn(*mut c_int, *mut c_int) -> c_int,
        nvrtcCreateProgram: fn(*mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int,
        nvrtcCompileProgram: fn(*mut c_void, c_int, *const *const c_char) -> c_int,
        nvrtcGetCUBINSize: fn(*mut c_void, *mut usize) -> c_int,
        nvrtcGetCUBIN: fn(*mut c_void, *mut c_char) -> c_int,
        nvrtcGetProgramLogSize: fn(*mut c_void, *mut usize) -> c_int,
        nvrtcGetProgramLog: fn(*mut c_void, *mut c_char) -> c_int,
        nvrtcDestroyProgram: fn(*mut *mut c_void) -> c_int,
    }
}

impl Nvrtc {
    /// Opens NVRTC.
    pub(crate) fn open() -> Result<Self, CudaError> {
        let folders = usual_folders(&["cu13", "cuda_nvrtc"]);
        let advice = "Install the CUDA toolkit or the package nvidia-cuda-nvrtc, and set SWN_CUDA_DIR to its folder of libraries";
        let opened =
            open("NVRTC", &["libnvrtc.so.13", "libnvrtc.so.12"], CUDA_DIR, &folders, advice)?;
        // NVRTC opens its builtins by name when it compiles. Outside the loader's path only an
        // already opened file is found.
        let folder = opened.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        for file in
            folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten()
        {
            if file.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so.") {
                // SAFETY: as for every library here.
                if let Ok(library) = unsafe { Library::new(file.path()) } {
                    Opened::keep(library, "NVRTC", file.path());
                }
            }
        }
        Self::of(opened)
    }

    /// Major and minor version of NVRTC.
    pub(crate) fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to live integers.
        unsafe { (self.nvrtcVersion)(&mut major, &mut minor) };
        (major, minor)
    }
}

table! {
    /// Graph (backend) interface of cuDNN.
    Cudnn {
        cudnnGetVersion: fn() -> usize,
        cudnnGetLastErrorString: fn(*mut c_char, usize),
        cudnnCreate: fn(*mut dnn::cudnnHandle_t) -> dnn::cudnnStatus_t,
        cudnnDestroy: fn(dnn::cudnnHandle_t) -> dnn::cudnnStatus_t,
        cudnnSetStream: fn(dnn::cudnnHandle_t, dnn::cudaStream_t) -> dnn::cudnnStatus_t,
        cudnnBackendCreateDescriptor: fn(dnn::cudnnBackendDescriptorType_t, *mut dnn::cudnnBackendDescriptor_t) -> dnn::cudnnStatus_t,
        cudnnBackendDestroyDescriptor: fn(dnn::cudnnBackendDescriptor_t) -> dnn::cudnnStatus_t,
        cudnnBackendFinalize: fn(dnn::cudnnBackendDescriptor_t) -> dnn::cudnnStatus_t,
        cudnnBackendSetAttribute: fn(dnn::cudnnBackendDescriptor_t, dnn::cudnnBackendAttributeName_t, dnn::cudnnBackendAttributeType_t, i64, *const c_void) -> dnn::cudnnStatus_t,
        cudnnBackendGetAttribute: fn(dnn::cudnnBackendDescriptor_t, dnn::cudnnBackendAttributeName_t, dnn::cudnnBackendAttributeType_t, i64, *mut i64, *mut c_void) -> dnn::cudnnStatus_t,
        cudnnBackendExecute: fn(dnn::cudnnHandle_t, dnn::cudnnBackendDescriptor_t, dnn::cudnnBackendDescriptor_t) -> dnn::cudnnStatus_t,
    }
}

/// Files that libcudnn.so.9 opens on demand.
const CUDNN_PARTS: [&str; 5] =
    ["graph", "ops", "heuristic", "engines_precompiled", "engines_runtime_compiled"];

impl Cudnn {
    /// Opens cuDNN, and its parts from the same folder. cuBLASLt must be open already, otherwise
    /// cuDNN aborts.
    pub(crate) fn open(_after: &CublasLt) -> Result<Self, CudaError> {
        let folders = usual_folders(&["cudnn"]);
        let advice = "Install cuDNN 9 (the system's package, or Python's nvidia-cudnn-cu13) and set SWN_CUDNN_DIR to its folder";
        let opened = open("cuDNN", &["libcudnn.so.9"], CUDNN_DIR, &folders, advice)?;
        if let Some(folder) = opened.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            for part in CUDNN_PARTS {
                let path = folder.join(format!("libcudnn_{part}.so.9"));
                // SAFETY: as for every library here.
                if let Ok(library) = unsafe { Library::new(&path) } {
                    Opened::keep(library, "cuDNN", path);
                }
            }
        }
        let table = Self::of(opened)?;
        table.check_one_folder()?;
        Ok(table)
    }

    /// Fails if files of cuDNN from two folders are loaded in this process.
    pub(crate) fn check_one_folder(&self) -> Result<(), CudaError> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let files = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(Path::new);
        let mut first: Option<&Path> = None;
        for file in files {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with("libcudnn") {
                continue;
            }
            match first {
                Some(seen) if seen.parent() != file.parent() => {
                    return Err(CudaError::MixedCudnn {
                        first: seen.display().to_string(),
                        second: file.display().to_string(),
                    });
                }
                _ => first = Some(file),
            }
        }
        Ok(())
    }

    /// Version of cuDNN: 91400 is 9.14.0.
    pub(crate) fn version(&self) -> usize {
        // SAFETY: the function has no arguments and no effects.
        unsafe { (self.cudnnGetVersion)() }
    }
}

table! {
    /// cuBLASLt, for matrix products.
    CublasLt {
        cublasLtGetVersion: fn() -> usize,
        cublasLtCreate: fn(*mut lt::cublasLtHandle_t) -> lt::cublasStatus_t,
        cublasLtDestroy: fn(lt::cublasLtHandle_t) -> lt::cublasStatus_t,
        cublasLtMatmul: fn(lt::cublasLtHandle_t, lt::cublasLtMatmulDesc_t, *const c_void, *const c_void, lt::cublasLtMatrixLayout_t, *const c_void, lt::cublasLtMatrixLayout_t, *const c_void, *const c_void, lt::cublasLtMatrixLayout_t, *mut c_void, lt::cublasLtMatrixLayout_t, *const lt::cublasLtMatmulAlgo_t, *mut c_void, usize, lt::cudaStream_t) -> lt::cublasStatus_t,
        cublasLtMatmulAlgoGetHeuristic: fn(lt::cublasLtHandle_t, lt::cublasLtMatmulDesc_t, lt::cublasLtMatrixLayout_t, lt::cublasLtMatrixLayout_t, lt::cublasLtMatrixLayout_t, lt::cublasLtMatrixLayout_t, lt::cublasLtMatmulPreference_t, c_int, *mut lt::cublasLtMatmulHeuristicResult_t, *mut c_int) -> lt::cublasStatus_t,
        cublasLtMatmulDescCreate: fn(*mut lt::cublasLtMatmulDesc_t, lt::cublasComputeType_t, lt::cudaDataType_t) -> lt::cublasStatus_t,
        cublasLtMatmulDescDestroy: fn(lt::cublasLtMatmulDesc_t) -> lt::cublasStatus_t,
        cublasLtMatmulDescSetAttribute: fn(lt::cublasLtMatmulDesc_t, lt::cublasLtMatmulDescAttributes_t, *const c_void, usize) -> lt::cublasStatus_t,
        cublasLtMatmulPreferenceCreate: fn(*mut lt::cublasLtMatmulPreference_t) -> lt::cublasStatus_t,
        cublasLtMatmulPreferenceDestroy: fn(lt::cublasLtMatmulPreference_t) -> lt::cublasStatus_t,
        cublasLtMatmulPreferenceSetAttribute: fn(lt::cublasLtMatmulPreference_t, lt::cublasLtMatmulPreferenceAttributes_t, *const c_void, usize) -> lt::cublasStatus_t,
        cublasLtMatrixLayoutCreate: fn(*mut lt::cublasLtMatrixLayout_t, lt::cudaDataType, u64, u64, i64) -> lt::cublasStatus_t,
        cublasLtMatrixLayoutDestroy: fn(lt::cublasLtMatrixLayout_t) -> lt::cublasStatus_t,
    }
}

impl CublasLt {
    /// Opens cuBLASLt.
    pub(crate) fn open() -> Result<Self, CudaError> {
        let folders = usual_folders(&["cu13", "cublas"]);
        let advice = "Install the CUDA toolkit or the package nvidia-cublas, and set SWN_CUDA_DIR to its folder of libraries";
        Self::of(open(
            "cuBLASLt",
            &["libcublasLt.so.13", "libcublasLt.so.12"],
            CUDA_DIR,
            &folders,
            advice,
        )?)
    }
}

impl CublasLt {
    /// Version of cuBLASLt: 130000 is 13.0.0.
    pub(crate) fn version(&self) -> usize {
        // SAFETY: the function has no arguments and no effects.
        unsafe { (self.cublasLtGetVersion)() }
    }
}

/// All libraries that the device uses besides the driver.
#[derive(Debug)]
pub(crate) struct Libraries {
    pub nvrtc: Nvrtc,
    /// Functions of cuBLASLt, kept until the process ends, because objects are destroyed through
    /// them.
    pub cublas_lt: &'static CublasLt,
    /// Functions of cuDNN, kept until the process ends, because objects are destroyed through them.
    pub cudnn: &'static Cudnn,
}

impl Libraries {
    /// Opens all libraries. Fails with the name of a missing one.
    pub(crate) fn open() -> Result<Self, CudaError> {
        let nvrtc = Nvrtc::open()?;
        let cublas_lt = Box::leak(Box::new(CublasLt::open()?));
        let cudnn = Box::leak(Box::new(Cudnn::open(cublas_lt)?));
        Ok(Self { nvrtc, cublas_lt, cudnn })
    }
}
