//! Draws the validation images from the training images, equally many per class where possible.
//!
//! Every image draws a number from `split_seed`; each class gives its images with the smallest
//! numbers. A remainder of the division, or the missing images of a small class, come from the
//! smallest numbers of the other images, so any count can be met.

use super::error::DataError;
use super::random::{Counter, Phase, Stream};

/// Training images divided into two sets of ascending indices, which together are all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationSplit {
    /// Images that training uses.
    pub train: Vec<u32>,
    /// Validation images, which training never uses.
    pub validation: Vec<u32>,
}

impl ValidationSplit {
    /// Draws `count` validation images, given the labels of all training images.
    ///
    /// # Panics
    ///
    /// Panics if a label is not below `classes`, which readers of data sets check.
    pub fn draw(
        labels: &[u16],
        classes: usize,
        count: usize,
        split_seed: u64,
    ) -> Result<Self, DataError> {
        let images = labels.len();
        if count > 0 && count >= images {
            return Err(DataError::Validation { requested: count, images });
        }
        let counter = Counter::new(split_seed, Phase::Split, 0);
        let mut drawn: Vec<u32> = (0..images as u32).collect();
        drawn.sort_by_cached_key(|&i| (counter.draw(u64::from(i), Stream::Order), i));
        let mut left = vec![count / classes.max(1); classes];
        let mut held = vec![false; images];
        let mut missing = count;
        for &i in &drawn {
            let left = &mut left[labels[i as usize] as usize];
            if *left > 0 {
                *left -= 1;
                held[i as usize] = true;
                missing -= 1;
            }
        }
        // One more image of each class at a time, so that the counts of classes differ by at most
        // one.
        while missing > 0 {
            let mut gave = vec![false; classes];
            for &i in &drawn {
                let class = labels[i as usize] as usize;
                if missing > 0 && !gave[class] && !held[i as usize] {
                    gave[class] = true;
                    held[i as usize] = true;
                    missing -= 1;
                }
            }
        }
        let (validation, train) = (0..images as u32).partition(|&i| held[i as usize]);
        Ok(Self { train, validation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_class(labels: &[u16], images: &[u32], classes: usize) -> Vec<usize> {
        let mut counts = vec![0; classes];
        images.iter().for_each(|&i| counts[labels[i as usize] as usize] += 1);
        counts
    }

    #[test]
    fn classes_have_equal_counts_if_the_number_divides() {
        let labels: Vec<u16> = (0..5000).map(|i| (i * 7 % 100) as u16).collect();
        for count in [0, 1, 99, 100, 500, 505, 4999] {
            let split = ValidationSplit::draw(&labels, 100, count, 0).unwrap();
            let counts = per_class(&labels, &split.validation, 100);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert_eq!(counts.iter().sum::<usize>(), count);
            assert!(most - least <= usize::from(count % 100 != 0), "{count}: {least} to {most}");
            let mut all = [split.train.clone(), split.validation].concat();
            assert!(split.train.is_sorted());
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..5000));
        }
    }

    #[test]
    fn the_split_depends_on_the_seed_only() {
        let labels: Vec<u16> = (0..1000).map(|i| (i % 10) as u16).collect();
        let split = |seed| ValidationSplit::draw(&labels, 10, 100, seed).unwrap();
        assert_eq!(split(0), split(0));
        assert_ne!(split(0), split(1));
    }

    #[test]
    fn rare_classes_give_all_their_images() {
        let labels: Vec<u16> = (0..100).map(|i| u16::from(i < 97)).collect();
        let split = ValidationSplit::draw(&labels, 2, 50, 0).unwrap();
        assert_eq!(per_class(&labels, &split.validation, 2), [3, 47]);
    }

    /// So a run with more validation images can be evaluated on the smaller split of another run.
    #[test]
    fn a_smaller_draw_is_a_subset_of_a_larger_one() {
        for labels in [
            (0..997).map(|i| (i * i % 10) as u16).collect::<Vec<_>>(),
            (0..500).map(|i| u16::from(i < 13) + 2 * u16::from(i % 7 == 0)).collect(),
        ] {
            let draw = |count| ValidationSplit::draw(&labels, 10, count, 3).unwrap().validation;
            let mut smaller = vec![];
            for count in (1..490).step_by(9) {
                let larger = draw(count);
                assert!(smaller.iter().all(|image| larger.binary_search(image).is_ok()), "{count}");
                smaller = larger;
            }
        }
    }

    #[test]
    fn at_least_one_training_image_must_remain() {
        let refused = ValidationSplit::draw(&[0, 1, 0], 2, 3, 0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "3 validation images cannot be taken from 3 training images: at least one must remain"
        );
        assert!(ValidationSplit::draw(&[], 2, 0, 0).unwrap().train.is_empty());
    }
}
