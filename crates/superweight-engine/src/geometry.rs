//! The geometry of a convolution: what its shape rule checks and what its kernels are planned from.
//!
//! Activations are NHWC, `[batch, height, width, channels]`. Weights are OHWI,
//! `[out_channels, kernel_h, kernel_w, in_channels / groups]`: the inner dimension of both is the one a
//! dot product runs along, and it is the filter layout that cuDNN calls NHWC too.

/// A two-dimensional convolution of one fixed batch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvGeometry {
    /// Images in the batch.
    pub batch: usize,
    /// Input height and width.
    pub input: [usize; 2],
    /// Input channels, over all groups.
    pub in_channels: usize,
    /// Output channels, over all groups.
    pub out_channels: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Zeros added above and below, left and right.
    pub padding: [usize; 2],
    /// Groups; `groups == in_channels == out_channels` is a depthwise convolution.
    pub groups: usize,
}

impl ConvGeometry {
    /// Output height and width. Checked by the graph's shape rule: the kernel fits into the padded input.
    pub fn output(&self) -> [usize; 2] {
        [0, 1].map(|d| (self.input[d] + 2 * self.padding[d] - self.kernel[d]) / self.stride[d] + 1)
    }

    /// Numbers in the input activation.
    pub fn input_len(&self) -> usize {
        self.batch * self.input[0] * self.input[1] * self.in_channels
    }

    /// Numbers in the output activation.
    pub fn output_len(&self) -> usize {
        let [h, w] = self.output();
        self.batch * h * w * self.out_channels
    }

    /// Numbers in the weight.
    pub fn weight_len(&self) -> usize {
        self.out_channels * self.kernel[0] * self.kernel[1] * (self.in_channels / self.groups)
    }

    /// Multiply-adds of one pass: forward, backward to the data and backward to the weight each cost this.
    pub fn multiply_adds(&self) -> u64 {
        let [h, w] = self.output();
        (self.batch * h * w) as u64 * self.weight_len() as u64
    }
}
