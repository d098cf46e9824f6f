//! From logits to probabilities and classes: the softmax, the mean over members, the most probable class.

/// Logits of one image to probabilities.
pub fn softmax(logits: &[f32], probabilities: &mut [f64]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (p, &logit) in probabilities.iter_mut().zip(logits) {
        *p = (f64::from(logit) - f64::from(largest)).exp();
        sum += *p;
    }
    probabilities.iter_mut().for_each(|p| *p /= sum);
}

/// The most probable class; among equals the first.
pub fn most_probable<T: PartialOrd + Copy>(values: &[T]) -> usize {
    let better =
        |best: usize, class: usize| if values[class] > values[best] { class } else { best };
    (1..values.len()).fold(0, better)
}

