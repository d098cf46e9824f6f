//! Widths of a network's own, by what it can spare (AutoSlim: Yu and Huang, One-Shot Architecture Search for Channel
//! Numbers, 2019).
//!
//! ```text
//! trained network ─► for every width: its loss without the last channels ─► the one that is missed least goes ─► again
//! ```
//!
//! Nothing is trained and nothing is compiled anew: a network without channels is the whole network whose batch norms have
//! scale and shift zero there, since all that reads them comes after such a norm (tested for every family). Batch norm
//! takes the statistics of the batch, because running ones are of the whole network.
//!
//! Channels go from the last one backwards, as Slimmable Networks leave them out; a network that was trained in one
//! width alone has its work in all of them. What comes out is an architecture, to be trained from the beginning.

use std::ops::ControlFlow;

use serde::Serialize;
use superweight_engine::Device;
use superweight_plan::arch::{Architecture, Op};

use crate::data::{Images, Normalisation};
use crate::evaluate::{ByBatch, Figures};
use crate::infer::InferError;
use crate::run::Tensors;

/// A network on the way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slimmed {
    /// Its widths, in the order of [`Architecture::widths`].
    pub widths: Vec<usize>,
    /// Its work for an image.
    pub multiply_adds: u64,
    /// How good it is with the numbers of the whole.
    #[serde(flatten)]
    pub figures: Figures,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// One more width was tried.
    Tried,
    /// A network on the way, the whole one first.
    Taken(&'a Slimmed),
}

/// A trained network whose channels are taken one step after another.
#[derive(Clone, Copy, Debug)]
pub struct Slimming<'a> {
    /// Of the whole.
    pub architecture: &'a Architecture,
    /// The numbers of the whole.
    pub numbers: &'a Tensors,
    /// Channels that are taken at once; none for [`usual_step`].
    pub step: Option<usize>,
}

impl Slimming<'_> {
    /// The whole network and all on the way to one of at most so much work, or as far as `see` lets it come or channels last.
    pub fn run<D: Device>(
        &self,
        device: &D,
        images: &Images,
        normalisation: &Normalisation,
        batch: usize,
        work: u64,
        see: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Slimmed>, InferError> {
        let mut network = ByBatch::new(device, self.architecture, batch.min(images.len()))?;
        for tensor in &self.architecture.tensors {
            network.set(tensor, self.numbers.expect(&tensor.name, &tensor.shape)?)?;
        }
        let whole = self.whole();
        let mut masked = whole.clone();
        let figures = |widths: &[usize]| {
            for width in (0..whole.len()).filter(|&width| masked[width] != widths[width]) {
                self.mask(&mut network, width, widths[width])?;
            }
            masked.copy_from_slice(widths);
            Ok(network.scores(images, normalisation)?.into())
        };
        self.narrowed(figures, work, see)
    }

    /// The least work that channels can be taken to.
    pub fn least_work(&self) -> u64 {
        let mut widths = self.whole();
        for (width, step) in widths.iter_mut().zip(self.steps()) {
            while let Some(less) = narrower(*width, step) {
                *width = less;
            }
        }
        self.work(&widths)
    }

    /// The greedy way, by figures that anyone may give.
    fn narrowed(
        &self,
        mut figures: impl FnMut(&[usize]) -> Result<Figures, InferError>,
        work: u64,
        mut see: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Slimmed>, InferError> {
        let slimmed = |widths: Vec<usize>, figures| {
            let multiply_adds = self.work(&widths);
            Slimmed { widths, multiply_adds, figures }
        };
        let (whole, steps) = (self.whole(), self.steps());
        let mut now = slimmed(whole.clone(), figures(&whole)?);
        let mut way = vec![];
        loop {
            let stop = see(Progress::Taken(&now)).is_break();
            let widths = now.widths.clone();
            let far = now.multiply_adds;
            way.push(now);
            if stop || far <= work {
                return Ok(way);
            }
            let mut best: Option<(Vec<usize>, Figures)> = None;
            for (i, &step) in steps.iter().enumerate() {
                let Some(less) = narrower(widths[i], step) else { continue };
                let mut tried = widths.clone();
                tried[i] = less;
                let figures = figures(&tried)?;
                // A loss that is no number is no reason to take these channels.
                if best.as_ref().is_none_or(|(_, least)| figures.nll < least.nll || least.nll.is_nan()) {
                    best = Some((tried, figures));
                }
                if see(Progress::Tried).is_break() {
                    return Ok(way);
                }
            }
            match best {
                Some((widths, figures)) => now = slimmed(widths, figures),
                None => return Ok(way),
            }
        }
    }

    fn whole(&self) -> Vec<usize> {
        self.architecture.widths().iter().map(|width| width.channels).collect()
    }

    fn work(&self, widths: &[usize]) -> u64 {
        let name = self.architecture.name.clone();
        self.architecture.clone().with_widths(name, widths).counts().multiply_adds
    }

    /// Channels that each width gives at once: of the whole network's, so that they stay the same on the way.
    fn steps(&self) -> Vec<usize> {
        let step = |channels| self.step.unwrap_or_else(|| usual_step(channels));
        self.whole().into_iter().map(step).collect()
    }

    /// Scale and shift of every batch norm over a width: those of the whole up to `channels`, zero from there.
    fn mask<D: Device>(
        &self,
        network: &mut ByBatch<D>,
        width: usize,
        channels: usize,
    ) -> Result<(), InferError> {
        for norm in &self.architecture.widths()[width].norms {
            let Op::BatchNorm { scale, shift, .. } = self.architecture.nodes[norm.0].op else {
                unreachable!("a width's norms are batch norms");
            };
            for tensor in [scale, shift].map(|id| self.architecture.tensor(id)) {
                let mut values = self.numbers.expect::<f32>(&tensor.name, &tensor.shape)?.to_vec();
                values[channels..].fill(0.0);
                network.set(tensor, &values)?;
            }
        }
        Ok(())
    }
}

/// The next smaller number of channels, a multiple of the step; none where there is none.
fn narrower(channels: usize, step: usize) -> Option<usize> {
    Some((channels - 1) / step * step).filter(|&less| less > 0)
}

/// An eighth of the channels, up to a multiple of eight, since that is what devices like: 112 go in steps of 16.
pub fn usual_step(channels: usize) -> usize {
    channels.div_ceil(8).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use superweight_plan::arch::{ArchName, ImageShape};

    use super::*;

    /// Figures that say nothing but this loss.
    fn loss(nll: f64) -> Figures {
        Figures { top1: 0.0, top5: 0.0, nll, ece: 0.0 }
    }

    fn architecture(name: &str) -> Architecture {
        let name: ArchName = name.parse().unwrap();
        name.build(ImageShape::CIFAR, 10).unwrap()
    }

    #[test]
    fn what_is_missed_least_goes_first() {
        let architecture = architecture("cnn-24-32-40");
        let numbers = Tensors::default();
        let slimming = Slimming { architecture: &architecture, numbers: &numbers, step: None };
        // Channels of the first are worth three, of the second nothing below 24, of the third one each.
        let figures = |widths: &[usize]| {
            let missed = 3 * (24 - widths[0]) + 24usize.saturating_sub(widths[1]) * 9 + (40 - widths[2]);
            Ok(loss(missed as f64))
        };
        let (mut tried, mut taken) = (0, 0);
        let see = |progress: Progress| {
            match progress {
                Progress::Tried => tried += 1,
                Progress::Taken(_) => taken += 1,
            }
            ControlFlow::Continue(())
        };
        let way = slimming.narrowed(figures, 0, see).unwrap();
        let widths: Vec<_> = way.iter().map(|slimmed| slimmed.widths.clone()).collect();
        assert_eq!(
            widths,
            [
                [24, 32, 40],
                [24, 24, 40],
                [24, 24, 32],
                [24, 24, 24],
                [24, 24, 16],
                [24, 24, 8],
                [16, 24, 8],
                [8, 24, 8],
                [8, 16, 8],
                [8, 8, 8]
            ]
        );
        assert_eq!((tried, taken), (5 * 3 + 2 * 2 + 2, 10));
        assert!(way.windows(2).all(|pair| pair[1].multiply_adds < pair[0].multiply_adds));
        assert_eq!(way[9].multiply_adds, slimming.least_work());
        assert_eq!(way[9].multiply_adds, self::architecture("cnn-8-8-8").counts().multiply_adds);
    }

    #[test]
    fn it_ends_where_the_work_is_little_enough_or_somebody_has_seen_enough() {
        let architecture = architecture("cnn-24-32");
        let numbers = Tensors::default();
        let slimming = Slimming { architecture: &architecture, numbers: &numbers, step: Some(1) };
        let narrow_first = |widths: &[usize]| match widths {
            [_, 32] => Ok(loss(1e3)),
            _ => Ok(loss(-f64::NAN)),
        };
        let whole = architecture.counts().multiply_adds;
        let way = slimming.narrowed(narrow_first, whole / 2, |_| ControlFlow::Continue(())).unwrap();
        let last = way.last().unwrap();
        assert!(last.multiply_adds <= whole / 2 && way[way.len() - 2].multiply_adds > whole / 2);
        assert_eq!(last.widths[1], 32, "a loss that is no number is never the least");
        let last_first = |widths: &[usize]| match widths {
            [24, _] => Ok(loss(1e3)),
            _ => Ok(loss(-f64::NAN)),
        };
        let way = slimming.narrowed(last_first, whole / 2, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(way.last().unwrap().widths[0], 24);
        let mut steps = 0;
        let seen = |progress: Progress| {
            steps += usize::from(matches!(progress, Progress::Taken(_)));
            if steps == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert_eq!(slimming.narrowed(narrow_first, 0, seen).unwrap().len(), 3);
    }

    #[test]
    fn steps_are_eighths_in_eights() {
        let steps = [1, 16, 64, 65, 112, 448].map(usual_step);
        assert_eq!(steps, [8, 8, 8, 16, 16, 56]);
    }
}
