//! Widths of a network's own, by what it can spare (after AutoSlim: Yu and Huang, One-Shot Architecture Search for Channel
//! Numbers, 2019, which goes by accuracy where this goes by loss, and trains every layer in widths of its own first).
//!
//! ```text
//! trained network ─► for every width: its loss without the last channels ─► the one that is missed least goes ─► again
//! ```
//!
//! Nothing is trained and nothing is compiled anew: a network without channels is the whole network whose batch norms have
//! scale and shift zero there, since all that reads them comes after such a norm (tested for every family). Batch norm
//! takes the statistics of the batch, because running ones are of the whole network.
//!
//! Channels go from the last one backwards, as Slimmable Networks leave them out ([`is_slimmable`]); a network that was
//! trained in one width alone has its work in all of them. The factors of batch norm are those of the whole, where the
//! narrower networks it was trained with have their own. What comes out is an architecture, to be trained from the beginning.

use std::ops::ControlFlow;

use serde::Serialize;
use superweight_engine::Device;
use superweight_plan::arch::{Architecture, NodeId, Op, Tensor};
use superweight_plan::{MemberId, PlannedLayer, SharingPlan, Tile};

use crate::data::{Images, Normalization};
use crate::model::ensemble::multiply_adds;
use super::by_batch::ByBatch;
use crate::evaluate::Figures;
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

/// Figures, where nobody has stopped it.
type Measured = Result<Option<Figures>, InferError>;

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The next batch of images is to be seen.
    Batch,
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
    /// Channels that are taken at once; none for an eighth of what the whole has, in eights.
    pub step: Option<usize>,
}

/// The whole on a device, asked for its worth without some channels.
pub struct Trial<'a, D: Device> {
    numbers: &'a Tensors,
    network: ByBatch<'a, D>,
    /// Each width: scales and shifts of its batch norms.
    norms: Vec<Vec<&'a Tensor>>,
    /// Channels that are not masked.
    now: Vec<usize>,
}

impl<'a, D: Device> Trial<'a, D> {
    /// With all channels.
    pub fn new(
        device: &D,
        architecture: &'a Architecture,
        numbers: &'a Tensors,
        batch: usize,
    ) -> Result<Self, InferError> {
        let mut network = ByBatch::new(device, architecture, batch)?;
        for tensor in &architecture.tensors {
            network.set(tensor, numbers.expect(&tensor.name, &tensor.shape)?)?;
        }
        let widths = architecture.widths();
        let of = |norm: &NodeId| match architecture.nodes[norm.0].op {
            Op::BatchNorm { scale, shift, .. } => [scale, shift].map(|id| architecture.tensor(id)),
            _ => unreachable!("a width's norms are batch norms"),
        };
        let norms = widths.iter().map(|width| width.norms.iter().flat_map(of).collect()).collect();
        let now = widths.iter().map(|width| width.channels).collect();
        Ok(Self { numbers, network, norms, now })
    }

    /// How good it is with so many channels of each width; nothing where `go_on`, asked before every batch, says no.
    ///
    /// # Panics
    /// If there are fewer images than a batch, or widths that the network has not.
    pub fn figures(
        &mut self,
        widths: &[usize],
        images: &Images,
        normalization: &Normalization,
        go_on: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Figures>, InferError> {
        assert_eq!(widths.len(), self.now.len(), "as many as the network has");
        for (i, &channels) in
            widths.iter().enumerate().filter(|&(i, channels)| self.now[i] != *channels)
        {
            for tensor in &self.norms[i] {
                let mut values = self.numbers.expect::<f32>(&tensor.name, &tensor.shape)?.to_vec();
                values[channels..].fill(0.0);
                self.network.set(tensor, &values)?;
            }
        }
        self.now.copy_from_slice(widths);
        Ok(self.network.scores(images, normalization, go_on)?.map(Figures::from))
    }
}

impl Slimming<'_> {
    /// The whole network and all on the way to one of at most so much work, or as far as `see` lets it come or channels last.
    ///
    /// # Panics
    /// If there are fewer images than a batch.
    pub fn run<D: Device>(
        &self,
        device: &D,
        images: &Images,
        normalization: &Normalization,
        batch: usize,
        work: u64,
        mut see: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Slimmed>, InferError> {
        let mut trial = Trial::new(device, self.architecture, self.numbers, batch)?;
        let figures = |widths: &[usize], see: &mut dyn FnMut(Progress) -> ControlFlow<()>| {
            trial.figures(widths, images, normalization, || see(Progress::Batch))
        };
        self.narrowed(figures, work, &mut see)
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

    /// The greedy way, by figures that anyone may give; no more where they give none.
    fn narrowed(
        &self,
        mut figures: impl FnMut(&[usize], &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Measured,
        work: u64,
        see: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Slimmed>, InferError> {
        let steps = self.steps();
        let mut way = vec![];
        let mut best = Some((self.whole(), figures(&self.whole(), see)?));
        while let Some((widths, Some(figured))) = best.take() {
            let multiply_adds = self.work(&widths);
            let now = Slimmed { widths: widths.clone(), multiply_adds, figures: figured };
            let stop = see(Progress::Taken(&now)).is_break();
            way.push(now);
            if stop || multiply_adds <= work {
                break;
            }
            for (i, &step) in steps.iter().enumerate() {
                let Some(less) = narrower(widths[i], step) else { continue };
                let mut tried = widths.clone();
                tried[i] = less;
                let Some(figured) = figures(&tried, see)? else { return Ok(way) };
                // A loss that is no number is no reason to take these channels.
                let least = best.as_ref().and_then(|(_, least)| least.map(|figures| figures.nll));
                if least.is_none_or(|least| figured.nll < least || least.is_nan()) {
                    best = Some((tried, Some(figured)));
                }
            }
        }
        Ok(way)
    }

    fn whole(&self) -> Vec<usize> {
        self.architecture.widths().iter().map(|width| width.channels).collect()
    }

    fn work(&self, widths: &[usize]) -> u64 {
        let Architecture { name, input, classes, .. } = self.architecture;
        let slim = name.slimmed(widths.to_vec()).build(*input, *classes);
        slim.expect("it has as many widths").counts().multiply_adds
    }

    /// Channels that each width gives at once: of the whole network's, so that they stay the same on the way.
    fn steps(&self) -> Vec<usize> {
        let step = |channels| self.step.unwrap_or_else(|| usual_step(channels));
        self.whole().into_iter().map(step).collect()
    }
}

/// Whether a member was trained together with a narrower one that is its corner, number for number: its last channels
/// were not needed always.
pub fn is_slimmable(plan: &SharingPlan, member: MemberId) -> bool {
    let layers = |member| plan.layers.iter().filter(move |planned| planned.layer.member == member);
    let single = |tile: &Tile| {
        let set = plan.superweights[tile.superweight.0].set;
        plan.template_sets[set.0].templates == 1
    };
    let is_corner = |narrow: &PlannedLayer| {
        let wide = layers(member).find(|wide| wide.layer.name == narrow.layer.name);
        let within = |tile: &Tile| {
            let same =
                |other: &Tile| other.superweight == tile.superweight && other.factor == tile.factor;
            single(tile) && wide.is_some_and(|wide| wide.tiles.iter().any(same))
        };
        narrow.tiles.iter().all(within)
    };
    (0..plan.members.len()).map(MemberId).any(|other| {
        multiply_adds(plan, other) < multiply_adds(plan, member)
            && layers(other).any(|planned| !planned.tiles.is_empty())
            && layers(other).all(is_corner)
    })
}

/// The next smaller number of channels, a multiple of the step; none where there is none. Never one: a depthwise convolution
/// of one channel would be planned as any other.
fn narrower(channels: usize, step: usize) -> Option<usize> {
    Some((channels - 1) / step * step).filter(|&less| less > 1)
}

/// An eighth of the channels, up to a multiple of eight, since that is what devices like: 112 go in steps of 16.
fn usual_step(channels: usize) -> usize {
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
        let mut tried = 0;
        let figures = |widths: &[usize], _: &mut dyn FnMut(Progress) -> ControlFlow<()>| {
            tried += 1;
            let missed =
                3 * (24 - widths[0]) + 24usize.saturating_sub(widths[1]) * 9 + (40 - widths[2]);
            Ok(Some(loss(missed as f64)))
        };
        let mut taken = 0;
        let mut see = |progress: Progress| {
            taken += usize::from(matches!(progress, Progress::Taken(_)));
            ControlFlow::Continue(())
        };
        let way = slimming.narrowed(figures, 0, &mut see).unwrap();
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
        assert_eq!((tried, taken), (1 + 5 * 3 + 2 * 2 + 2, 10));
        assert!(way.windows(2).all(|pair| pair[1].multiply_adds < pair[0].multiply_adds));
        assert_eq!(way[9].multiply_adds, slimming.least_work());
        assert_eq!(way[9].multiply_adds, self::architecture("cnn-8-8-8").counts().multiply_adds);
    }

    #[test]
    fn it_ends_where_the_work_is_little_enough_or_somebody_has_seen_enough() {
        let architecture = architecture("cnn-24-32");
        let numbers = Tensors::default();
        let slimming = Slimming { architecture: &architecture, numbers: &numbers, step: Some(1) };
        type See<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;
        let narrow_first = |widths: &[usize], _: See| match widths {
            [_, 32] => Ok(Some(loss(1e3))),
            _ => Ok(Some(loss(-f64::NAN))),
        };
        let mut all = |_: Progress| ControlFlow::Continue(());
        let whole = architecture.counts().multiply_adds;
        let way = slimming.narrowed(narrow_first, whole / 2, &mut all).unwrap();
        let last = way.last().unwrap();
        assert!(last.multiply_adds <= whole / 2 && way[way.len() - 2].multiply_adds > whole / 2);
        assert_eq!(last.widths[1], 32, "a loss that is no number is never the least");
        let last_first = |widths: &[usize], _: See| match widths {
            [24, _] => Ok(Some(loss(1e3))),
            _ => Ok(Some(loss(-f64::NAN))),
        };
        let way = slimming.narrowed(last_first, whole / 2, &mut all).unwrap();
        assert_eq!(way.last().unwrap().widths[0], 24);
        let mut steps = 0;
        let mut three = |progress: Progress| {
            steps += usize::from(matches!(progress, Progress::Taken(_)));
            if steps == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert_eq!(slimming.narrowed(narrow_first, 0, &mut three).unwrap().len(), 3);
        // Stopped in the middle of a pass, and before the first has ended.
        let mut asked = 0;
        let stopped = |widths: &[usize], _: See| {
            asked += 1;
            Ok((asked < 6).then(|| loss(widths[0] as f64)))
        };
        assert_eq!(slimming.narrowed(stopped, 0, &mut all).unwrap().len(), 3);
        assert!(slimming.narrowed(|_, _: See| Ok(None), 0, &mut all).unwrap().is_empty());
    }

    #[test]
    fn steps_are_eighths_in_eights() {
        let steps = [1, 16, 64, 65, 112, 448].map(usual_step);
        assert_eq!(steps, [8, 8, 8, 16, 16, 56]);
    }
}
