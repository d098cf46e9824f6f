//! From logits to probabilities and classes: softmax, mean over outputs, rank of a class.
//!
//! Among equal probabilities the lower class comes first, as in the engine's top-k counts. All sums
//! are in f64: a figure over 10,000 images has to be exact to 1e-6.

/// Writes the softmax of one image's logits into `probabilities`.
pub fn softmax(logits: &[f32], probabilities: &mut [f64]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (p, &logit) in probabilities.iter_mut().zip(logits) {
        *p = (f64::from(logit) - f64::from(largest)).exp();
        sum += *p;
    }
    probabilities.iter_mut().for_each(|p| *p /= sum);
}

/// The most probable class; among equals the lowest.
pub fn most_probable<T: PartialOrd + Copy>(values: &[T]) -> usize {
    let better =
        |best: usize, class: usize| if values[class] > values[best] { class } else { best };
    (1..values.len()).fold(0, better)
}

/// Number of classes that come before `class`: more probable ones, and equal ones with a lower
/// index.
///
/// A prediction is correct at top-k if the rank of the label is below k.
///
/// # Panics
/// If `class` is not an index of `probabilities`.
pub fn rank(probabilities: &[f64], class: usize) -> usize {
    let p = probabilities[class];
    let before = |(other, &q): (usize, &f64)| q > p || (q == p && other < class);
    probabilities.iter().enumerate().filter(|&pair| before(pair)).count()
}

/// All classes, the most probable first; among equals the lower class first.
///
/// ```
/// use superweight::probability::ranking;
/// assert_eq!(ranking(&[0.2, 0.3, 0.2, 0.3]), [1, 3, 0, 2]);
/// ```
pub fn ranking(probabilities: &[f64]) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..probabilities.len()).collect();
    classes.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    classes
}

/// The mean of several outputs' probabilities, image by image: what an ensemble predicts.
///
/// ```
/// use superweight::probability::MeanProbabilities;
/// let mut mean = MeanProbabilities::new(2);
/// mean.add(&[3f32.ln(), 0.0]); // 3/4, 1/4
/// mean.add(&[0.0, 0.0]); // 1/2, 1/2
/// assert!((mean.finish()[0] - 5.0 / 8.0).abs() < 1e-7);
/// ```
#[derive(Clone, Debug)]
pub struct MeanProbabilities {
    outputs: usize,
    sums: Vec<f64>,
    one: Vec<f64>,
}

impl MeanProbabilities {
    /// A mean over no outputs yet, for this number of classes.
    ///
    /// # Panics
    /// If `classes` is 0.
    pub fn new(classes: usize) -> Self {
        assert!(classes > 0, "probabilities are of at least one class");
        Self { outputs: 0, sums: vec![], one: vec![0.0; classes] }
    }

    /// Adds one output's logits `[image][class]`. Every output must have the same number of images.
    pub fn add(&mut self, logits: &[f32]) {
        self.add_each(logits, |_, _| ());
    }

    /// Adds one output's logits and calls `each` with every image's index and this output's
    /// probabilities.
    pub fn add_each(&mut self, logits: &[f32], mut each: impl FnMut(usize, &[f64])) {
        let Self { outputs, sums, one } = self;
        *outputs += 1;
        sums.resize(logits.len(), 0.0);
        let rows = logits.chunks_exact(one.len()).zip(sums.chunks_exact_mut(one.len()));
        for (image, (logits, sums)) in rows.enumerate() {
            softmax(logits, one);
            each(image, one);
            sums.iter_mut().zip(&*one).for_each(|(sum, p)| *sum += p);
        }
    }

    /// The mean probabilities `[image][class]`; empty if nothing was added.
    pub fn finish(self) -> Vec<f64> {
        let outputs = self.outputs as f64;
        self.sums.into_iter().map(|sum| sum / outputs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_probabilities_are_ranked_by_class() {
        let even = [0.125; 8];
        assert_eq!([0, 4, 5].map(|class| rank(&even, class)), [0, 4, 5]);
        assert_eq!(most_probable(&even), 0);
        assert_eq!(ranking(&even), [0, 1, 2, 3, 4, 5, 6, 7]);
        let some = [0.1, 0.4, 0.1, 0.4];
        assert_eq!(most_probable(&some), 1);
        for (place, &class) in ranking(&some).iter().enumerate() {
            assert_eq!(rank(&some, class), place, "rank and ranking agree");
        }
    }

    #[test]
    fn logits_beyond_the_range_of_exp_have_a_softmax() {
        let mut p = [0.0; 3];
        softmax(&[1000.0, 0.0, -1000.0], &mut p);
        assert_eq!(p[0], 1.0);
        softmax(&[f32::NAN, 0.0, 0.0], &mut p);
        assert!(p.iter().all(|p| p.is_nan()));
    }

    #[test]
    fn the_mean_is_of_each_image() {
        let mut mean = MeanProbabilities::new(2);
        let mut first = vec![];
        mean.add_each(&[3f32.ln(), 0.0, 0.0, 0.0], |image, p| first.push((image, p[0])));
        mean.add(&[0.0, 0.0, 0.0, 3f32.ln()]);
        assert_eq!(first.iter().map(|(image, _)| *image).collect::<Vec<_>>(), [0, 1]);
        assert!((first[0].1 - 0.75).abs() < 1e-7 && first[1].1 == 0.5);
        let mean = mean.finish();
        assert!((mean[0] - 0.625).abs() < 1e-7 && (mean[3] - 0.625).abs() < 1e-7, "{mean:?}");
        assert!(MeanProbabilities::new(3).finish().is_empty());
    }
}
