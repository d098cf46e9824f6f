//! Accuracy of each class, and the class that its images are most often confused with.

use serde::{Deserialize, Serialize};

/// Accuracy and most frequent confusion of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassScore {
    /// Index of the class.
    pub class: usize,
    /// Number of images with this label.
    pub images: usize,
    /// Number of those images that were classified correctly.
    pub correct: usize,
    /// The wrong class predicted most often for these images, with its count; the lowest among
    /// equals, none without errors.
    pub taken_for: Option<(usize, usize)>,
}

impl ClassScore {
    /// Accuracy on the class in percent; none for a class without images.
    pub fn top1(&self) -> Option<f64> {
        (self.images > 0).then(|| 100.0 * self.correct as f64 / self.images as f64)
    }
}

/// Scores of every class from the labels and the predicted classes of the same images.
///
/// ```
/// use superweight::evaluate::by_class;
/// let scores = by_class(2, &[0, 0, 0, 1], &[0, 1, 1, 1]);
/// assert_eq!((scores[0].correct, scores[0].images, scores[0].taken_for), (1, 3, Some((1, 2))));
/// assert_eq!((scores[1].correct, scores[1].taken_for), (1, None));
/// ```
///
/// # Panics
/// If a label or a predicted class is not below `classes`.
pub fn by_class(classes: usize, labels: &[u16], predicted: &[u16]) -> Vec<ClassScore> {
    let mut counts = vec![vec![0; classes]; classes];
    for (&label, &class) in labels.iter().zip(predicted) {
        counts[usize::from(label)][usize::from(class)] += 1;
    }
    let score = |(class, counts): (usize, &Vec<usize>)| {
        let others =
            counts.iter().enumerate().filter(|&(other, &count)| other != class && count > 0);
        // `max_by_key` returns the last of equals; reversed, that is the lowest class.
        let taken_for =
            others.rev().max_by_key(|&(_, &count)| count).map(|(other, &count)| (other, count));
        ClassScore { class, images: counts.iter().sum(), correct: counts[class], taken_for }
    };
    counts.iter().enumerate().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_equal_confusions_is_named_and_empty_classes_have_no_accuracy() {
        let scores = by_class(4, &[2, 2, 2, 2, 0, 0], &[3, 1, 2, 2, 0, 0]);
        assert_eq!(scores.iter().map(|score| score.images).collect::<Vec<_>>(), [2, 0, 4, 0]);
        assert_eq!(
            scores[2],
            ClassScore { class: 2, images: 4, correct: 2, taken_for: Some((1, 1)) }
        );
        assert_eq!(
            (scores[2].top1(), scores[0].top1(), scores[1].top1()),
            (Some(50.0), Some(100.0), None)
        );
        assert_eq!(scores[0].taken_for, None);
    }
}
