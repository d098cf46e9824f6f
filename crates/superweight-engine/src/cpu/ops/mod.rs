//! Kernels of the calls of a program, one file per operation. Convolutions are in `cpu/conv`.

pub(super) mod activation;
pub(super) mod add;
pub(super) mod batch_norm;
pub(super) mod channel_scale;
pub(super) mod concat;
pub(super) mod external;
pub(super) mod linear;
pub(super) mod loss;
pub(super) mod pool;
pub(super) mod softmax;
