//! Helpers for tests on a GPU: opening it, buffers, random values, errors.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, DevicePtr};

use crate::cuda::context::Context;
use crate::cuda::precision::Precision;

/// Opens the first GPU. Without one, prints why the test is skipped.
pub(crate) fn context() -> Option<Arc<Context>> {
    opened(Context::new(0, Precision::Bf16))
}

/// Returns the opened value, or prints why it is missing. With `SWN_REQUIRE_CUDA` set, a missing
/// GPU is a failure.
pub(crate) fn opened<T, E: std::fmt::Display>(opened: Result<T, E>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(error) if std::env::var_os("SWN_REQUIRE_CUDA").is_some() => {
            panic!("no CUDA device: {error}")
        }
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Random values in −1..1 from a seed (splitmix64).
pub(crate) fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed;
    let next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Rounds to the nearest bf16, ties to even. NaN stays NaN.
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    match value.is_nan() {
        true => (bits >> 16) as u16 | 1 << 6,
        false => ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16,
    }
}

fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds values to what bf16 represents exactly.
pub(crate) fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|&v| from_bf16(to_bf16(v))).collect()
}

/// Relative error ‖a − b‖ / ‖b‖; infinite if a value of `a` is not finite.
pub(crate) fn error(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    if a.iter().any(|v| !v.is_finite()) {
        return f64::INFINITY;
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    difference / norm(&mut b.iter().map(|&b| f64::from(b))).max(1e-30)
}

/// Values on the GPU.
pub(crate) struct Buffer<'a> {
    ctx: &'a Context,
    precision: Precision,
    memory: CudaSlice<u8>,
    len: usize,
}

impl<'a> Buffer<'a> {
    /// Copies values to the GPU in this precision.
    pub(crate) fn new(ctx: &'a Context, precision: Precision, values: &[f32]) -> Self {
        let bytes: Vec<u8> = match precision {
            Precision::Bf16 => values.iter().flat_map(|&v| to_bf16(v).to_le_bytes()).collect(),
            Precision::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        let memory = ctx.stream.clone_htod(&bytes).unwrap();
        ctx.synchronize().unwrap();
        Self { ctx, precision, memory, len: values.len() }
    }

    /// Allocates scratch memory, at least 16 bytes, so that it has an address.
    pub(crate) fn bytes(ctx: &'a Context, bytes: usize) -> Self {
        let memory = ctx.stream.alloc_zeros(bytes.max(16)).unwrap();
        Self { ctx, precision: Precision::F32, memory, len: bytes / 4 }
    }

    /// Address of the buffer.
    pub(crate) fn at(&self) -> u64 {
        self.memory.device_ptr(&self.ctx.stream).0
    }

    /// Reads the values after all earlier work is done.
    pub(crate) fn read(&self) -> Vec<f32> {
        let bytes = self.ctx.stream.clone_dtoh(&self.memory).unwrap();
        self.ctx.synchronize().unwrap();
        let values: Vec<f32> = match self.precision {
            Precision::Bf16 => {
                bytes.as_chunks::<2>().0.iter().map(|&b| from_bf16(u16::from_le_bytes(b))).collect()
            }
            Precision::F32 => {
                bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
            }
        };
        assert_eq!(values.len(), self.len);
        values
    }
}

#[test]
fn rounding_to_bf16_is_to_nearest_even() {
    // torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 3.1415927]).bfloat16().float()
    assert_eq!(
        rounded(&[1.0 + 0.00390625, 1.0 + 0.01171875, std::f32::consts::PI]),
        [1.0, 1.015625, 3.140625]
    );
    assert!(rounded(&[f32::NAN])[0].is_nan());
}
