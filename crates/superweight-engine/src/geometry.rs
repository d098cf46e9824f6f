//! Sizes of a convolution, from which kernels are planned.
//!
//! Activations are NHWC: `[batch, height, width, channels]`. Weights are OHWI: `[out_channels,
//! kernel_h, kernel_w, in_channels / groups]`. The innermost dimension of both is the one that a
//! dot product runs along. cuDNN calls this filter layout NHWC too.

/// Sizes of a two-dimensional convolution at a fixed batch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvGeometry {
    /// Number of images in the batch.
    pub batch: usize,
    /// Input height and width.
    pub input: [usize; 2],
    /// Number of input channels over all groups.
    pub in_channels: usize,
    /// Number of output channels over all groups.
    pub out_channels: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Zeros added above and below, and left and right.
    pub padding: [usize; 2],
    /// Number of groups. A depthwise convolution has `groups == in_channels == out_channels`.
    pub groups: usize,
}

impl ConvGeometry {
    /// Output height and width. The graph's shape rule guarantees that the kernel fits into the
    /// padded input.
    pub fn output(&self) -> [usize; 2] {
        [0, 1].map(|d| (self.input[d] + 2 * self.padding[d] - self.kernel[d]) / self.stride[d] + 1)
    }

    /// Number of elements of the input activation.
    pub fn input_len(&self) -> usize {
        self.batch * self.input[0] * self.input[1] * self.in_channels
    }

    /// Number of elements of the output activation.
    pub fn output_len(&self) -> usize {
        let [h, w] = self.output();
        self.batch * h * w * self.out_channels
    }

    /// Number of elements of the weight.
    pub fn weight_len(&self) -> usize {
        self.out_channels * self.kernel[0] * self.kernel[1] * (self.in_channels / self.groups)
    }

    /// Number of multiply-adds of one pass. Forward, backward-data and backward-weight each cost
    /// this much.
    pub fn multiply_adds(&self) -> u64 {
        let [h, w] = self.output();
        (self.batch * h * w) as u64 * self.weight_len() as u64
    }
}
