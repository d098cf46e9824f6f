//! Which training images are held out to choose by: the same number per class where it divides.
//!
//! Every image draws a number from `split_seed` alone; each class gives its images with the smallest. What does not
//! divide (or a class too small for its share) is made up from the smallest of the rest, so that any count can be met.

use super::error::DataError;
use super::random::{Counter, Phase, Stream};

/// Positions in the training set, ascending; together they are all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationSplit {
    /// Trained on.
    pub train: Vec<u32>,
    /// Held out: never trained on, never augmented.
    pub validation: Vec<u32>,
}

impl ValidationSplit {
    /// Holds out `count` of the images with these labels.
    ///
    /// # Panics
    ///
    /// If a label is not below `classes`; readers have checked that.
    pub fn hold_out(
        labels: &[u16],
        classes: usize,
        count: usize,
        split_seed: u64,
    ) -> Result<Self, DataError> {
        let images = labels.len();
        if count > 0 && count >= images {
            return Err(DataError::Validation { asked: count, images });
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
        // One more of a class at a time, so that classes stay within one image of each other while they can.
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
    fn the_same_number_per_class_where_it_divides() {
        let labels: Vec<u16> = (0..5000).map(|i| (i * 7 % 100) as u16).collect();
        for count in [0, 1, 99, 100, 500, 505, 4999] {
            let split = ValidationSplit::hold_out(&labels, 100, count, 0).unwrap();
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
    fn the_seed_alone_decides() {
        let labels: Vec<u16> = (0..1000).map(|i| (i % 10) as u16).collect();
        let split = |seed| ValidationSplit::hold_out(&labels, 10, 100, seed).unwrap();
        assert_eq!(split(0), split(0));
        assert_ne!(split(0), split(1));
    }

    #[test]
    fn rare_classes_give_what_they_have() {
        let labels: Vec<u16> = (0..100).map(|i| u16::from(i < 97)).collect();
        let split = ValidationSplit::hold_out(&labels, 2, 50, 0).unwrap();
        assert_eq!(per_class(&labels, &split.validation, 2), [3, 47]);
    }

    /// What is judged by fewer images than were held out is judged by none that was trained on.
    #[test]
    fn a_smaller_draw_is_a_part_of_a_larger() {
        for labels in [
            (0..997).map(|i| (i * i % 10) as u16).collect::<Vec<_>>(),
            (0..500).map(|i| u16::from(i < 13) + 2 * u16::from(i % 7 == 0)).collect(),
        ] {
            let draw = |count| ValidationSplit::hold_out(&labels, 10, count, 3).unwrap().validation;
            let mut smaller = vec![];
            for count in (1..490).step_by(9) {
                let larger = draw(count);
                assert!(smaller.iter().all(|image| larger.binary_search(image).is_ok()), "{count}");
                smaller = larger;
            }
        }
    }

    #[test]
    fn all_of_them_is_too_many() {
        let refused = ValidationSplit::hold_out(&[0, 1, 0], 2, 3, 0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "3 images cannot be held out of 3: at least one must be left to train on"
        );
        assert!(ValidationSplit::hold_out(&[], 2, 0, 0).unwrap().train.is_empty());
    }
}
