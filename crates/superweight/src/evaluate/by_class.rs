//! Which classes are hard, and what are they taken for?

use serde::Serialize;

/// How one class fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassScore {
    /// Of which class.
    pub class: usize,
    /// Images of it.
    pub images: usize,
    /// That are recognised.
    pub correct: usize,
    /// The other class that its images are taken for most often, and how often; the first of several.
    pub taken_for: Option<(usize, usize)>,
}

impl ClassScore {
    /// Recognised images in percent; none of a class without images.
    pub fn top1(&self) -> Option<f64> {
        (self.images > 0).then(|| 100.0 * self.correct as f64 / self.images as f64)
    }
}

/// Every class, from the labels of images and what was said of them.
///
/// ```
/// use superweight::evaluate::by_class;
/// let scores = by_class(2, &[0, 0, 0, 1], &[0, 1, 1, 1]);
/// assert_eq!((scores[0].correct, scores[0].images, scores[0].taken_for), (1, 3, Some((1, 2))));
/// assert_eq!((scores[1].correct, scores[1].taken_for), (1, None));
/// ```
///
/// # Panics
/// Where a label or an answer is not below `classes`.
pub fn by_class(classes: usize, labels: &[u16], said: &[u16]) -> Vec<ClassScore> {
    let mut counts = vec![vec![0; classes]; classes];
    for (&label, &said) in labels.iter().zip(said) {
        counts[usize::from(label)][usize::from(said)] += 1;
    }
    let score = |(class, counts): (usize, &Vec<usize>)| {
        let others =
            counts.iter().enumerate().filter(|&(other, &count)| other != class && count > 0);
        // The last of the largest is taken: so from behind.
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
    fn the_first_of_several_is_named_and_empty_classes_have_no_share() {
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
