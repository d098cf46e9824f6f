//! Members as files for other programs: a PyTorch state dict as safetensors, or an ONNX graph.
//!
//! | format | contents |
//! |---|---|
//! | safetensors | one member's tensors under PyTorch's names, OIHW, as `load_state_dict` takes them |
//! | ONNX | one member, or several as an ensemble: images → `logits` and `probabilities` |
//!
//! Both contain the composed weights, so that readers need to know nothing of SuperWeights. The
//! cost is that shared parameters are written out in every layer that uses them; the run folder
//! stores each once.

mod onnx;
mod protobuf;

pub use onnx::{OnnxOptions, onnx};
