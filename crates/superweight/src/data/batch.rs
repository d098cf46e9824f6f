//! Batches of training (shuffled, augmented, tail dropped) and of evaluation (in order, as they are, tail padded).
//!
//! A batch is a function of its step alone: `fill(step)` gives the same numbers whichever step was made before, on
//! whichever thread.

use std::sync::Arc;

use super::DataError;
use super::augment::{Augment, Placement, Table};
use super::dataset::{Dataset, Part};
use super::order::epoch_order;
use super::random::{Counter, Phase};

/// Images and labels as the engine takes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// `[image][row][column][channel]`, normalised.
    pub images: Vec<f32>,
    /// Classes.
    pub labels: Vec<u32>,
    /// How many of them count; the others are zeros of class 0.
    pub valid: usize,
}

/// Something that makes batches by number.
pub trait Batches {
    /// Images in a batch.
    fn batch_size(&self) -> usize;
    /// Numbers in an image.
    fn image_len(&self) -> usize;
    /// Makes batch `step` in a buffer made by [`Batches::buffer`]. Allocates nothing.
    fn fill(&mut self, step: u64, batch: &mut Batch) -> Result<(), DataError>;

    /// A buffer of the right size.
    fn buffer(&self) -> Batch {
        let size = self.batch_size();
        Batch { images: vec![0.0; size * self.image_len()], labels: vec![0; size], valid: 0 }
    }
}

/// Training batches of all epochs: step s is batch `s % steps_per_epoch` of epoch `s / steps_per_epoch`.
pub struct TrainBatches {
    data: Arc<Dataset>,
    table: Table,
    images: Vec<u32>,
    batch_size: usize,
    augment: Augment,
    seed: u64,
    phase: Phase,
    /// Of the epoch it was made for.
    order: Vec<u32>,
    order_epoch: Option<u64>,
}

impl TrainBatches {
    /// Batches of these training images (see [`Split`](super::Split)).
    pub fn new(
        data: Arc<Dataset>,
        images: Vec<u32>,
        batch_size: usize,
        augment: Augment,
        seed: u64,
        phase: Phase,
    ) -> Result<Self, DataError> {
        if batch_size == 0 || batch_size > images.len() {
            return Err(DataError::BatchSize { batch: batch_size, images: images.len() });
        }
        let table = Table::new(data.shape, data.normalisation);
        let order = Vec::with_capacity(images.len());
        Ok(Self { data, table, images, batch_size, augment, seed, phase, order, order_epoch: None })
    }

    /// Whole batches in an epoch; what is left over is dropped, another part in every epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.images.len() / self.batch_size) as u64
    }
}

impl Batches for TrainBatches {
    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn image_len(&self) -> usize {
        self.data.image_len()
    }

    fn fill(&mut self, step: u64, batch: &mut Batch) -> Result<(), DataError> {
        let epoch = step / self.steps_per_epoch();
        if self.order_epoch != Some(epoch) {
            epoch_order(&self.images, self.seed, self.phase, epoch, &mut self.order);
            self.order_epoch = Some(epoch);
        }
        let start = (step % self.steps_per_epoch()) as usize * self.batch_size;
        let draws = Counter::new(self.seed, self.phase, epoch);
        let outs = batch.images.chunks_exact_mut(self.data.image_len());
        for ((out, label), &image) in outs.zip(&mut batch.labels).zip(&self.order[start..][..self.batch_size])
        {
            let placement = self.augment.place(self.data.shape, draws, u64::from(image));
            self.table.render(self.data.train.image(image as usize), placement, out);
            *label = self.data.train.labels[image as usize].into();
        }
        batch.valid = self.batch_size;
        Ok(())
    }
}

/// Every image once, in order, never augmented.
pub struct EvalBatches {
    data: Arc<Dataset>,
    part: Part,
    table: Table,
    images: Vec<u32>,
    batch_size: usize,
}

impl EvalBatches {
    /// Batches of these images of a part; the held-out images are part of the training images.
    pub fn new(
        data: Arc<Dataset>,
        part: Part,
        images: Vec<u32>,
        batch_size: usize,
    ) -> Result<Self, DataError> {
        if batch_size == 0 {
            return Err(DataError::BatchSize { batch: batch_size, images: images.len() });
        }
        let table = Table::new(data.shape, data.normalisation);
        Ok(Self { data, part, table, images, batch_size })
    }

    /// Batches of all test images.
    pub fn test(data: Arc<Dataset>, batch_size: usize) -> Result<Self, DataError> {
        let images = (0..data.test.len() as u32).collect();
        Self::new(data, Part::Test, images, batch_size)
    }

    /// Batches, the last one padded.
    pub fn steps(&self) -> u64 {
        self.images.len().div_ceil(self.batch_size) as u64
    }
}

impl Batches for EvalBatches {
    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn image_len(&self) -> usize {
        self.data.image_len()
    }

    fn fill(&mut self, step: u64, batch: &mut Batch) -> Result<(), DataError> {
        let start = (step as usize).saturating_mul(self.batch_size).min(self.images.len());
        let chosen = &self.images[start..self.images.len().min(start + self.batch_size)];
        let images = self.data.part(self.part);
        let mut outs = batch.images.chunks_exact_mut(self.data.image_len());
        for ((out, label), &image) in outs.by_ref().zip(&mut batch.labels).zip(chosen) {
            self.table.render(images.image(image as usize), Placement::default(), out);
            *label = images.labels[image as usize].into();
        }
        batch.valid = chosen.len();
        batch.labels[chosen.len()..].fill(0);
        batch.images[chosen.len() * self.data.image_len()..].fill(0.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::dataset;

    fn train(seed: u64, batch_size: usize) -> TrainBatches {
        let augment = Augment { pad: 1, flip: true, cutout: 2 };
        let data = Arc::new(dataset(50, 7));
        TrainBatches::new(
            data,
            (0..50).filter(|i| i % 10 != 3).collect(),
            batch_size,
            augment,
            seed,
            Phase::Train,
        )
        .unwrap()
    }

    fn batch(batches: &mut impl Batches, step: u64) -> Batch {
        let mut batch = batches.buffer();
        batches.fill(step, &mut batch).unwrap();
        batch
    }

    #[test]
    fn an_epoch_has_every_image_once_less_the_tail() {
        let data = Arc::new(dataset(50, 7));
        let images: Vec<u32> = (0..50).filter(|i| i % 10 != 3).collect(); // 45
        let mut batches = TrainBatches::new(data, images, 8, Augment::NONE, 1, Phase::Train).unwrap();
        assert_eq!(batches.steps_per_epoch(), 5);
        let table = Table::new(batches.data.shape, batches.data.normalisation);
        let rendered: Vec<Vec<f32>> = (0..50)
            .map(|i| {
                let mut out = vec![0.0; 48];
                table.render(batches.data.train.image(i), Placement::default(), &mut out);
                out
            })
            .collect();
        let mut left_out = vec![];
        for epoch in 0..2 {
            let mut seen = [0; 50];
            for step in 5 * epoch..5 * epoch + 5 {
                let batch = batch(&mut batches, step);
                assert_eq!(batch.valid, 8);
                for (image, &label) in batch.images.chunks(48).zip(&batch.labels) {
                    let number = rendered.iter().position(|known| known == image).unwrap();
                    assert_eq!(label, (number % 5) as u32);
                    seen[number] += 1;
                }
            }
            assert_eq!(seen.iter().sum::<i32>(), 40);
            assert!(seen.iter().enumerate().all(|(i, &n)| n <= i32::from(i % 10 != 3)), "{seen:?}");
            left_out.push(seen);
        }
        assert_ne!(left_out[0], left_out[1]);
    }

    #[test]
    fn a_batch_depends_on_its_step_and_seed_alone() {
        let forward: Vec<_> = (0..12).map(|step| batch(&mut train(1, 8), step)).collect();
        let mut batches = train(1, 8);
        for step in (0..12).rev() {
            assert_eq!(batch(&mut batches, step), forward[step as usize]);
        }
        assert_ne!(batch(&mut train(2, 8), 0), forward[0]);
        assert_ne!(forward[0], forward[5]); // another epoch
    }

    #[test]
    fn what_happens_to_an_image_does_not_depend_on_the_batch_size() {
        let (mut small, mut large) = (train(1, 3), train(1, 9));
        let large = batch(&mut large, 0);
        for step in 0..3 {
            let small = batch(&mut small, step);
            let at = step as usize * 3;
            assert_eq!(small.images, large.images[at * 48..(at + 3) * 48]);
            assert_eq!(small.labels, large.labels[at..at + 3]);
        }
    }

    #[test]
    fn evaluation_pads_its_tail() {
        let mut batches = EvalBatches::test(Arc::new(dataset(5, 7)), 3).unwrap();
        assert_eq!(batches.steps(), 3);
        let mut buffer = batches.buffer();
        buffer.images.fill(9.0); // leftovers of another batch
        buffer.labels.fill(9);
        let mut labels: Vec<u32> = vec![];
        for step in 0..3 {
            batches.fill(step, &mut buffer).unwrap();
            labels.extend(&buffer.labels[..buffer.valid]);
        }
        assert_eq!(labels, [0, 1, 2, 3, 4, 0, 1]);
        assert_eq!(buffer.valid, 1);
        assert!(buffer.images[48..].iter().all(|&v| v == 0.0) && buffer.labels[1..] == [0, 0]);
        batches.fill(7, &mut buffer).unwrap();
        assert_eq!(buffer.valid, 0);
    }

    #[test]
    fn impossible_batch_sizes_are_refused() {
        let data = Arc::new(dataset(5, 0));
        let new =
            |size| TrainBatches::new(data.clone(), (0..5).collect(), size, Augment::NONE, 0, Phase::Train);
        assert!(new(5).is_ok());
        let error = new(6).err().unwrap().to_string();
        assert_eq!(error, "a batch of 6 cannot be made of 5 images: choose between 1 and 5");
        assert!(new(0).is_err() && EvalBatches::test(data.clone(), 0).is_err());
        assert_eq!(EvalBatches::test(data, 4).unwrap().steps(), 0);
    }
}
