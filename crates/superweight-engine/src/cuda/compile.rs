//! Compiles the kernels in `kernels/*.cu` with NVRTC for the GPU on first use, and caches them on
//! disk.
//!
//! The name of a cached file is a hash of everything that determines its content: source,
//! precision, architecture and NVRTC version. The file is written under another name and then
//! renamed, so other processes never see a partial file.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use super::libraries::Nvrtc;
use crate::cuda::precision::Precision;
use crate::error::CudaError;

/// A file of kernels.
#[derive(Debug)]
pub(crate) struct Source {
    pub file: &'static str,
    text: &'static str,
    /// An extra header that precedes it, with its file name.
    head: Option<(&'static str, &'static str)>,
    pub functions: &'static [&'static str],
}

/// Environment variable with a folder whose kernels replace the built-in ones. For kernel
/// development: a build takes minutes, a kernel one second.
const KERNELS_DIR: &str = "SWN_KERNELS_DIR";

/// Header that precedes every file.
const COMMON: &str = include_str!("kernels/common.cuh");

macro_rules! sources {
    ($($file:literal $(after $head:literal)?: $($function:literal)*;)*) => {
        /// All files of kernels, with the functions that are called.
        pub(crate) const SOURCES: &[Source] = &[$(Source {
            file: $file,
            text: include_str!(concat!("kernels/", $file)),
            head: sources!(@head $($head)?),
            functions: &[$($function),*],
        }),*];
    };
    (@head) => { None };
    (@head $head:literal) => { Some(($head, include_str!(concat!("kernels/", $head)))) };
}

sources! {
    "pointwise.cu": "sum" "activation_forward" "activation_backward" "scaled" "columns_v" "columns_1" "bias_forward"
        "bias_backward" "finish_v" "finish_1" "narrow" "accumulate";
    "norm.cu": "norm_statistics_v" "norm_statistics_1" "norm_statistics_finish" "norm_apply_v" "norm_apply_1"
        "norm_apply_residual_v" "norm_apply_residual_1" "norm_sums_v" "norm_sums_1" "norm_sums_finish"
        "norm_gradient_v" "norm_gradient_1" "scale_rows_v" "scale_rows_1" "scale_sums_v" "scale_sums_1"
        "scale_sums_finish";
    "norm_once.cu": "norm_forward_once" "norm_backward_once";
    "pool.cu": "pool_forward" "pool_backward" "global_forward_v" "global_forward_1" "global_backward_v"
        "global_backward_1";
    "loss.cu": "softmax_forward" "softmax_backward" "cross_entropy" "cross_entropy_finish";
    "conv.cu": "conv_forward" "conv_backward_data" "conv_backward_weight" "add_splits";
    "mix.cu" after "mix.cuh": "mix_scatter" "mix_pack" "mix_unpack" "mix_gather";
    "mix_strips.cu" after "mix.cuh": "mix_scatter_strips" "mix_gather_strips";
    "mix_direct.cu" after "mix.cuh": "mix_direct" "mix_direct_backward" "mix_coefficients";
    "factors.cu": "factors_multiply" "factors_patterns" "factors_gains";
    "views.cu": "views_forward" "views_backward" "views_factors";
    "sgd.cu": "sgd";
    "images.cu": "draw_images";
}

impl Source {
    fn whole(&self) -> String {
        let changed = |file: &str, built_in: &str| {
            let path = std::env::var_os(KERNELS_DIR).map(|folder| Path::new(&folder).join(file));
            path.and_then(|path| fs::read_to_string(path).ok())
                .unwrap_or_else(|| built_in.to_owned())
        };
        let parts = [Some(("common.cuh", COMMON)), self.head, Some((self.file, self.text))];
        let part = |(file, text)| format!("#line 1 \"{file}\"\n{}\n", changed(file, text));
        parts.into_iter().flatten().map(part).collect()
    }

    /// Compiles to machine code for an architecture such as `sm_90`.
    pub(crate) fn compile(
        &self,
        nvrtc: &Nvrtc,
        arch: &str,
        precision: Precision,
    ) -> Result<Vec<u8>, CudaError> {
        let text = CString::new(self.whole()).expect("kernel sources contain no zero byte");
        let name = CString::new(self.file).expect("file names contain no zero byte");
        let options = options(arch, precision)
            .map(|option| CString::new(option).expect("options contain no zero byte"));
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = Program { nvrtc, handle: ptr::null_mut() };
        // SAFETY: all strings end in zero and outlive the call; there are no headers.
        let code = unsafe {
            let (text, name) = (text.as_ptr(), name.as_ptr());
            (nvrtc.nvrtcCreateProgram)(&mut program.handle, text, name, 0, ptr::null(), ptr::null())
        };
        check("nvrtcCreateProgram", code)?;
        // SAFETY: the program was just created; the options outlive the call.
        let code = unsafe {
            (nvrtc.nvrtcCompileProgram)(program.handle, options.len() as c_int, options.as_ptr())
        };
        if code != 0 {
            let (file, arch, log) = (self.file, arch.to_owned(), program.log()?);
            return Err(CudaError::Compilation { file, arch, log });
        }
        program.code()
    }

    /// Returns the machine code, from the cache if possible.
    pub(crate) fn cached(
        &self,
        nvrtc: &Nvrtc,
        arch: &str,
        precision: Precision,
        cache: Option<&Path>,
    ) -> Result<Vec<u8>, CudaError> {
        let path = cache
            .map(|folder| folder.join("kernels").join(self.cache_name(nvrtc, arch, precision)));
        if let Some(code) = path.as_deref().and_then(read_checked) {
            return Ok(code);
        }
        let code = self.compile(nvrtc, arch, precision)?;
        if let Some(path) = path {
            // Without a writable cache the next start takes a second longer.
            let _ = write_checked(&path, &code);
        }
        Ok(code)
    }

    fn cache_name(&self, nvrtc: &Nvrtc, arch: &str, precision: Precision) -> String {
        let (major, minor) = nvrtc.version();
        let key =
            format!("{}\n{}\n{major}.{minor}", options(arch, precision).join(" "), self.whole());
        let stem = self.file.trim_end_matches(".cu");
        format!("{stem}-{arch}-{}-{:016x}.code", precision.name(), fnv(key.as_bytes()))
    }
}

fn options(arch: &str, precision: Precision) -> [String; 4] {
    [
        format!("--gpu-architecture={arch}"),
        "--std=c++17".to_owned(),
        format!("-DBF16={}", u8::from(precision == Precision::Bf16)),
        "--extra-device-vectorization".to_owned(),
    ]
}

/// A hash that is the same on every machine and version (FNV-1a, 64 bits).
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Reads bytes written by [`write_checked`]. Returns `None` if the file is missing or damaged. A
/// driver may crash on damaged code.
fn read_checked(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    let whole = fnv(content) == u64::from_le_bytes(*sum);
    bytes.truncate(bytes.len() - 8);
    whole.then_some(bytes)
}

/// Writes bytes followed by their checksum.
fn write_checked(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    write_whole(path, &[bytes, &fnv(bytes).to_le_bytes()].concat())
}

/// Writes a file atomically: other processes see all of it or nothing.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let thread = format!("{:?}", std::thread::current().id());
    let unique =
        format!("{:016x}", fnv(format!("{} {thread} {path:?}", std::process::id()).as_bytes()));
    let temporary: PathBuf = folder.join(format!(".{unique}.tmp"));
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: *mut std::ffi::c_void,
}

impl Program<'_> {
    fn log(&self) -> Result<String, CudaError> {
        let mut len = 0;
        // SAFETY: the program is alive; the pointer is to a live integer.
        check("nvrtcGetProgramLogSize", unsafe {
            (self.nvrtc.nvrtcGetProgramLogSize)(self.handle, &mut len)
        })?;
        let mut text = vec![0u8; len + 1];
        // SAFETY: the buffer has the size just reported, and a zero after it.
        check("nvrtcGetProgramLog", unsafe {
            (self.nvrtc.nvrtcGetProgramLog)(self.handle, text.as_mut_ptr().cast())
        })?;
        Ok(CStr::from_bytes_until_nul(&text)
            .map(|t| t.to_string_lossy().into_owned())
            .unwrap_or_default())
    }

    fn code(&self) -> Result<Vec<u8>, CudaError> {
        let mut len = 0;
        // SAFETY: as above.
        check("nvrtcGetCUBINSize", unsafe {
            (self.nvrtc.nvrtcGetCUBINSize)(self.handle, &mut len)
        })?;
        let mut code = vec![0u8; len];
        // SAFETY: the buffer has the size just reported.
        check("nvrtcGetCUBIN", unsafe {
            (self.nvrtc.nvrtcGetCUBIN)(self.handle, code.as_mut_ptr().cast())
        })?;
        Ok(code)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created by nvrtcCreateProgram, destroyed once.
            unsafe { (self.nvrtc.nvrtcDestroyProgram)(&mut self.handle) };
        }
    }
}

fn check(call: &str, code: c_int) -> Result<(), CudaError> {
    match code {
        0 => Ok(()),
        code => Err(CudaError::call(call, format!("NVRTC error {code}"))),
    }
}

/// Compiles every kernel for each architecture and both precisions; see
/// `examples/compile_kernels.rs`.
pub fn compile_all(architectures: &[&str]) -> Result<String, CudaError> {
    let nvrtc = Nvrtc::open()?;
    let (major, minor) = nvrtc.version();
    let mut bytes = 0;
    for arch in architectures {
        for precision in [Precision::Bf16, Precision::F32] {
            for source in SOURCES {
                let code = source.compile(&nvrtc, arch, precision)?;
                for function in source.functions {
                    let found =
                        code.windows(function.len()).any(|window| window == function.as_bytes());
                    let reason = || {
                        CudaError::call(
                            source.file,
                            format!("the compiled code lacks the function {function}"),
                        )
                    };
                    found.then_some(()).ok_or_else(reason)?;
                }
                bytes += code.len();
            }
        }
    }
    let path = nvrtc.opened.path.display();
    Ok(format!(
        "NVRTC {major}.{minor} ({path}): {bytes} bytes of code for {}",
        architectures.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs where NVRTC is installed and needs no GPU: `SWN_CUDA_DIR=… cargo test`.
    #[test]
    fn kernels_compile_for_ampere_and_hopper() {
        match compile_all(&["sm_80", "sm_90"]) {
            Ok(summary) => println!("{summary}"),
            Err(error @ CudaError::MissingLibrary { .. }) => println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn damaged_cache_files_are_rejected() {
        let folder = std::env::temp_dir().join(format!("swn-damage-{}", std::process::id()));
        let path = folder.join("a.cubin");
        assert_eq!(read_checked(&path), None);
        write_checked(&path, b"code").unwrap();
        assert_eq!(read_checked(&path).unwrap(), b"code");
        let good = fs::read(&path).unwrap();
        for length in 0..good.len() {
            fs::write(&path, &good[..length]).unwrap();
            assert_eq!(read_checked(&path), None, "cut to {length}");
        }
        for bit in 0..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read_checked(&path), None, "bit {bit} flipped");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn cache_files_are_written_atomically() {
        let folder = std::env::temp_dir().join(format!("swn-cache-{}", std::process::id()));
        let path = folder.join("kernels").join("a.cubin");
        write_whole(&path, b"code").unwrap();
        write_whole(&path, b"newer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file remains");
        fs::remove_dir_all(folder).unwrap();
    }
}
