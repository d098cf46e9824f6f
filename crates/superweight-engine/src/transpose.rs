//! Conversions between PyTorch's orders (OIHW, NCHW), which files use, and the engine's orders
//! (OHWI, NHWC).

/// Transposes a weight from `[out, in, h, w]` to `[out, h, w, in]`.
pub fn oihw_to_ohwi(values: &[f32], [out, input, h, w]: [usize; 4]) -> Vec<f32> {
    nchw_to_nhwc(values, [out, input, h, w])
}

/// Transposes a weight from `[out, h, w, in]` to `[out, in, h, w]`. The dimensions are given in the
/// order of the result.
pub fn ohwi_to_oihw(values: &[f32], [out, input, h, w]: [usize; 4]) -> Vec<f32> {
    nhwc_to_nchw(values, [out, input, h, w])
}

/// Transposes an activation from `[n, c, h, w]` to `[n, h, w, c]`.
///
/// # Panics
/// If `values` does not have n·c·h·w elements.
pub fn nchw_to_nhwc(values: &[f32], [n, c, h, w]: [usize; 4]) -> Vec<f32> {
    assert_eq!(values.len(), n * c * h * w, "values do not fill [{n}, {c}, {h}, {w}]");
    let pixels = h * w;
    let mut out = vec![0.0; values.len()];
    for (image, to) in
        values.chunks_exact((c * pixels).max(1)).zip(out.chunks_exact_mut((c * pixels).max(1)))
    {
        for (channel, plane) in image.chunks_exact(pixels).enumerate() {
            to.iter_mut().skip(channel).step_by(c).zip(plane).for_each(|(to, from)| *to = *from);
        }
    }
    out
}

/// Transposes an activation from `[n, h, w, c]` to `[n, c, h, w]`. The dimensions are given in the
/// order of the result.
///
/// # Panics
/// If `values` does not have n·c·h·w elements.
pub fn nhwc_to_nchw(values: &[f32], [n, c, h, w]: [usize; 4]) -> Vec<f32> {
    assert_eq!(values.len(), n * c * h * w, "values do not fill [{n}, {c}, {h}, {w}]");
    let pixels = h * w;
    let mut out = vec![0.0; values.len()];
    for (image, to) in
        values.chunks_exact((c * pixels).max(1)).zip(out.chunks_exact_mut((c * pixels).max(1)))
    {
        for (channel, plane) in to.chunks_exact_mut(pixels).enumerate() {
            plane
                .iter_mut()
                .zip(image.iter().skip(channel).step_by(c))
                .for_each(|(to, from)| *to = *from);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oihw_and_ohwi_round_trip() {
        let values: Vec<f32> = (0..2 * 3 * 4 * 5).map(|i| i as f32).collect();
        let inner = oihw_to_ohwi(&values, [2, 3, 4, 5]);
        assert_eq!(
            inner[1],
            values[4 * 5],
            "the second element of OHWI is the second input channel"
        );
        assert_eq!(ohwi_to_oihw(&inner, [2, 3, 4, 5]), values);
    }
}
