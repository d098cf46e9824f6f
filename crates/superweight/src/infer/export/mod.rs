//! Members for other programs: a PyTorch state dict as safetensors, or an ONNX graph.
//!
//! | to | holds |
//! |---|---|
//! | safetensors | one member's tensors under PyTorch's names, OIHW, as `load_state_dict` takes them |
//! | ONNX | one member (images → logits), or several with the mean of their probabilities as one graph |
//!
//! Both are made from the composed weights: whoever opens the file needs to know nothing of SuperWeights. That is also
//! its price: shared numbers are written out in every layer that uses them. The run folder keeps each once.

mod onnx;
mod protobuf;

pub use onnx::{OnnxOptions, OnnxOutput, onnx};
