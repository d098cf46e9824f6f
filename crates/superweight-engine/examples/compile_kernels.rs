//! Compiles every CUDA kernel for Ampere and Hopper, without a GPU. Fails if a kernel does not
//! compile or NVRTC is not found:
//!
//!     SWN_CUDA_DIR=<folder of libnvrtc.so> cargo run --example compile_kernels

fn main() {
    match superweight_engine::cuda::compile_all(&["sm_80", "sm_90"]) {
        Ok(summary) => println!("{summary}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
