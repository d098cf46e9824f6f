//! Batches for training (shuffled, augmented, the incomplete last one dropped) and for evaluation
//! (in order, unchanged, the last one short).
//!
//! A batch is a table of image indices with placements. The pixels are on the device already
//! ([`Dataset::image_set`]), which fills the batch from the table. A batch depends on its step
//! alone: `fill(step)` gives the same table whichever step came before, on any thread.

use std::sync::Arc;

use superweight_engine::ImageSample;

use super::augment::Augment;
use super::dataset::Dataset;
use super::error::DataError;
use super::images::Split;
use super::order::epoch_order;
use super::random::{Counter, Phase, Stream};

/// Images of a batch in order, each with its placement.
pub type Batch = Vec<ImageSample>;

/// A source of batches by step.
pub trait Batches {
    /// Number of images in a batch.
    fn batch_size(&self) -> usize;

    /// Fills `batch`, a buffer of [`Batches::buffer`], for this step. Does not allocate.
    fn fill(&mut self, step: u64, batch: &mut Batch) -> Result<(), DataError>;

    /// Returns an empty buffer with capacity for one batch.
    fn buffer(&self) -> Batch {
        Vec::with_capacity(self.batch_size())
    }
}

/// Training batches of all epochs: step s is batch `s % steps_per_epoch` of epoch `s /
/// steps_per_epoch`.
pub struct TrainBatches {
    data: Arc<Dataset>,
    images: Vec<u32>,
    batch_size: usize,
    augment: Augment,
    seed: u64,
    phase: Phase,
    /// Order of the images in `order_epoch`.
    order: Vec<u32>,
    order_epoch: Option<u64>,
    heads: usize,
    batch_repetitions: usize,
    /// The batch before it is shuffled for each head.
    images_of_head: Batch,
    /// Order of the batch for one head.
    order_of_head: Vec<u32>,
}

impl TrainBatches {
    /// Batches of these training images; see [`ValidationSplit`](super::ValidationSplit).
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
        let order = Vec::with_capacity(images.len());
        Ok(Self {
            data,
            images,
            batch_size,
            augment,
            seed,
            phase,
            order,
            order_epoch: None,
            heads: 1,
            batch_repetitions: 1,
            images_of_head: vec![],
            order_of_head: vec![],
        })
    }

    /// Batches for networks with several heads (MIMO). Each head receives every image of the batch
    /// `batch_repetitions` times, with one placement, in an order of its own. The images that form
    /// one input, one per head, are adjacent.
    pub fn for_heads(self, heads: usize, batch_repetitions: usize) -> Self {
        Self { heads, batch_repetitions, ..self }
    }

    /// Number of whole batches in an epoch. The rest is dropped; every epoch drops other images.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.images.len() / self.batch_size) as u64
    }
}

impl Batches for TrainBatches {
    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn fill(&mut self, step: u64, batch: &mut Batch) -> Result<(), DataError> {
        let epoch = step / self.steps_per_epoch();
        if self.order_epoch != Some(epoch) {
            epoch_order(&self.images, self.seed, self.phase, epoch, &mut self.order);
            self.order_epoch = Some(epoch);
        }
        let start = (step % self.steps_per_epoch()) as usize * self.batch_size;
        let counter = Counter::new(self.seed, self.phase, epoch);
        let place = |&image: &u32| {
            self.augment.place(self.data.shape, counter, u64::from(image)).draw(image)
        };
        batch.clear();
        batch.extend(self.order[start..][..self.batch_size].iter().map(place));
        let rows = self.batch_size * self.batch_repetitions;
        if self.heads * self.batch_repetitions == 1 {
            return Ok(());
        }
        self.images_of_head.clone_from(batch);
        batch.resize(rows * self.heads, ImageSample::default());
        for head in 0..self.heads {
            self.order_of_head.clear();
            self.order_of_head.extend(0..rows as u32);
            let first = (step % self.steps_per_epoch()) * self.heads as u64 + head as u64;
            counter.shuffle(&mut self.order_of_head, first * rows as u64, Stream::Head);
            for (row, &place) in self.order_of_head.iter().enumerate() {
                batch[row * self.heads + head] =
                    self.images_of_head[place as usize % self.batch_size];
            }
        }
        Ok(())
    }

    fn buffer(&self) -> Batch {
        Vec::with_capacity(self.batch_size * self.batch_repetitions * self.heads)
    }
}

/// Evaluation batches: every image once, in order, without augmentation; the last batch may be
/// short.
pub struct EvalBatches {
    images: Vec<u32>,
    batch_size: usize,
    heads: usize,
}

impl EvalBatches {
    /// Batches of the images with these indices. Validation images have indices in the training
    /// images.
    pub fn new(images: Vec<u32>, batch_size: usize) -> Result<Self, DataError> {
        if batch_size == 0 {
            return Err(DataError::BatchSize { batch: batch_size, images: images.len() });
        }
        Ok(Self { images, batch_size, heads: 1 })
    }

    /// Batches for networks with several heads (MIMO): every head receives the same image.
    pub fn for_heads(self, heads: usize) -> Self {
        Self { heads, ..self }
    }

    /// Batches of all images of a split.
    pub fn all(data: &Dataset, split: Split, batch_size: usize) -> Result<Self, DataError> {
        Self::new((0..data.split(split).len() as u32).collect(), batch_size)
    }

    /// Number of batches.
    pub fn steps(&self) -> u64 {
        self.images.len().div_ceil(self.batch_size) as u64
    }
}

impl Batches for EvalBatches {
    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn fill(&mut self, step: u64, batch: &mut Batch) -> Result<(), DataError> {
        let start = (step as usize).saturating_mul(self.batch_size).min(self.images.len());
        let chosen = &self.images[start..self.images.len().min(start + self.batch_size)];
        batch.clear();
        let of_all = |&image: &u32| std::iter::repeat_n(ImageSample::unchanged(image), self.heads);
        batch.extend(chosen.iter().flat_map(of_all));
        Ok(())
    }

    fn buffer(&self) -> Batch {
        Vec::with_capacity(self.batch_size * self.heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::dataset;

    fn train(seed: u64, batch_size: usize) -> TrainBatches {
        let augment = Augment { pad: 1, flip: true, cutout: 2, stretch: Some(0.5) };
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
    fn an_epoch_has_every_image_at_most_once_and_drops_the_rest() {
        let data = Arc::new(dataset(50, 7));
        let images: Vec<u32> = (0..50).filter(|i| i % 10 != 3).collect(); // 45
        let mut batches =
            TrainBatches::new(data, images, 8, Augment::NONE, 1, Phase::Train).unwrap();
        assert_eq!(batches.steps_per_epoch(), 5);
        let mut left_out = vec![];
        for epoch in 0..2 {
            let mut seen = [0; 50];
            for step in 5 * epoch..5 * epoch + 5 {
                let batch = batch(&mut batches, step);
                assert_eq!(batch.len(), 8);
                for draw in batch {
                    assert_eq!(draw, ImageSample::unchanged(draw.image));
                    seen[draw.image as usize] += 1;
                }
            }
            assert_eq!(seen.iter().sum::<i32>(), 40);
            assert!(seen.iter().enumerate().all(|(i, &n)| n <= i32::from(i % 10 != 3)), "{seen:?}");
            left_out.push(seen);
        }
        assert_ne!(left_out[0], left_out[1]);
    }

    #[test]
    fn a_batch_depends_on_step_and_seed_only() {
        let forward: Vec<_> = (0..12).map(|step| batch(&mut train(1, 8), step)).collect();
        let mut batches = train(1, 8);
        for step in (0..12).rev() {
            assert_eq!(batch(&mut batches, step), forward[step as usize]);
        }
        assert_ne!(batch(&mut train(2, 8), 0), forward[0]);
        assert_ne!(forward[0], forward[5]); // step 5 is in the next epoch
    }

    #[test]
    fn placements_do_not_depend_on_the_batch_size() {
        let (mut small, mut large) = (train(1, 3), train(1, 9));
        let large = batch(&mut large, 0);
        for step in 0..3 {
            let small = batch(&mut small, step);
            let at = step as usize * 3;
            assert_eq!(small, large[at..at + 3]);
        }
    }

    /// Each head receives every image of the plain batch as often as requested.
    #[test]
    fn heads_receive_the_batch_in_orders_of_their_own() {
        let mut batches = train(1, 8).for_heads(3, 4);
        let mut seen: Vec<Batch> = vec![];
        for step in [0, 1, 5] {
            let (mut plain, all) =
                (batch(&mut train(1, 8), step).repeat(4), batch(&mut batches, step));
            assert_eq!(all.len(), 3 * 4 * 8);
            let key = |draw: &ImageSample| draw.image;
            plain.sort_by_key(key);
            for head in 0..3 {
                let of_head: Batch = all.iter().skip(head).step_by(3).copied().collect();
                let mut sorted = of_head.clone();
                sorted.sort_by_key(key);
                assert_eq!(sorted, plain, "step {step}, head {head}");
                assert_ne!(of_head, batch(&mut train(1, 8), step).repeat(4), "shuffled");
                seen.push(of_head);
            }
        }
        seen.iter()
            .enumerate()
            .for_each(|(i, one)| assert!(seen[..i].iter().all(|other| other != one)));
        let again: Vec<Batch> =
            (0..2).map(|_| batch(&mut train(1, 8).for_heads(3, 4), 5)).collect();
        assert_eq!(again[0], again[1]);
        let mut eval = EvalBatches::all(&dataset(5, 7), Split::Test, 3).unwrap().for_heads(2);
        assert_eq!(batch(&mut eval, 2), vec![ImageSample::unchanged(6); 2]);
        assert_eq!(batch(&mut eval, 0), [0, 0, 1, 1, 2, 2].map(ImageSample::unchanged));
    }

    #[test]
    fn the_last_evaluation_batch_is_short() {
        let mut batches = EvalBatches::all(&dataset(5, 7), Split::Test, 3).unwrap();
        assert_eq!(batches.steps(), 3);
        let sizes: Vec<Batch> = (0..4).map(|step| batch(&mut batches, step)).collect();
        assert_eq!(sizes.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1, 0]);
        assert!(sizes.concat().into_iter().eq((0..7).map(ImageSample::unchanged)));
    }

    #[test]
    fn impossible_batch_sizes_are_refused() {
        let data = Arc::new(dataset(5, 0));
        let new = |size| {
            TrainBatches::new(data.clone(), (0..5).collect(), size, Augment::NONE, 0, Phase::Train)
        };
        assert!(new(5).is_ok());
        let error = new(6).err().unwrap().to_string();
        assert_eq!(error, "a batch of 6 cannot be made of 5 images: choose between 1 and 5");
        assert!(new(0).is_err() && EvalBatches::all(&data, Split::Test, 0).is_err());
        assert_eq!(EvalBatches::all(&data, Split::Test, 4).unwrap().steps(), 0);
    }
}
