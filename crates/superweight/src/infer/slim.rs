//! Widths of a network, chosen by the loss that each channel saves. After AutoSlim (Yu and Huang,
//! One-Shot Architecture Search for Channel Numbers, 2019), which goes by accuracy where this goes
//! by loss, and which first trains every layer in several widths.
//!
//! ```text
//! network ─► for every width: loss without its last channels ─► remove the cheapest ─► repeat
//! ```
//!
//! Nothing is trained or compiled again. A network without some channels is the whole network whose
//! batch norms have scale and shift 0 for them, because everything that reads them comes after such
//! a norm (tested for every family). Batch norms use the statistics of the batch, because the
//! running ones belong to the whole network.
//!
//! Channels are removed from the last one backwards, as Slimmable Networks omit them
//! ([`is_slimmable`]). A network that was trained in one width only uses all of its channels. The
//! scales of its batch norms are those of the whole network, while the narrower networks it was
//! trained with have their own. The result is an architecture, which is then trained from the
//! beginning.

use std::ops::ControlFlow;

use serde::Serialize;
use superweight_engine::Device;
use superweight_plan::arch::{Architecture, NodeId, Op, Tensor};
use superweight_plan::{MemberId, PlannedLayer, SharingPlan, Tile};

use super::by_batch::ByBatch;
use super::error::InferError;
use crate::data::{Images, Normalization};
use crate::evaluate::Figures;
use crate::model::ensemble::multiply_adds;
use crate::run::Tensors;

/// A network with some channels removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slimmed {
    /// Channels of each width, in the order of [`Architecture::widths`].
    pub widths: Vec<usize>,
    /// Multiply-adds for one image.
    pub multiply_adds: u64,
    /// Figures with the parameters of the whole network.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures; none if the evaluation was stopped.
type Measured = Result<Option<Figures>, InferError>;

/// Progress of [`Slimming::run`].
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The next batch of images follows.
    Batch,
    /// A step is complete: the network that it chose. The first one is the whole network.
    Step(&'a Slimmed),
}

/// A trained network whose channels are removed step by step.
#[derive(Clone, Copy, Debug)]
pub struct Slimming<'a> {
    /// Architecture of the whole network.
    pub architecture: &'a Architecture,
    /// Parameters of the whole network, under PyTorch's names.
    pub parameters: &'a Tensors,
    /// Channels removed per step; none for an eighth of the whole network's, rounded up to a
    /// multiple of 8.
    pub step: Option<usize>,
}

/// A network on a device that is evaluated without some of its channels.
pub struct Trial<'a, D: Device> {
    parameters: &'a Tensors,
    network: ByBatch<'a, D>,
    /// Scales and shifts of the batch norms of each width.
    norms: Vec<Vec<&'a Tensor>>,
    /// Channels of each width that are not masked.
    now: Vec<usize>,
}

impl<'a, D: Device> Trial<'a, D> {
    /// Compiles the whole network for a batch size, with all channels.
    pub fn new(
        device: &D,
        architecture: &'a Architecture,
        parameters: &'a Tensors,
        batch: usize,
    ) -> Result<Self, InferError> {
        let mut network = ByBatch::new(device, architecture, batch)?;
        for tensor in &architecture.tensors {
            network.set(tensor, parameters.expect(&tensor.name, &tensor.shape)?)?;
        }
        let widths = architecture.widths();
        let of = |norm: &NodeId| match architecture.nodes[norm.0].op {
            Op::BatchNorm { scale, shift, .. } => [scale, shift].map(|id| architecture.tensor(id)),
            _ => unreachable!("a width's norms are batch norms"),
        };
        let norms = widths.iter().map(|width| width.norms.iter().flat_map(of).collect()).collect();
        let now = widths.iter().map(|width| width.channels).collect();
        Ok(Self { parameters, network, norms, now })
    }

    /// Figures with this number of channels in each width. `go_on` is called before every batch and
    /// stops the evaluation, which then returns none.
    ///
    /// # Panics
    /// If there are fewer images than a batch, or the number of widths is another.
    pub fn figures(
        &mut self,
        widths: &[usize],
        images: &Images,
        normalization: &Normalization,
        go_on: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Figures>, InferError> {
        assert_eq!(
            widths.len(),
            self.now.len(),
            "one number of channels for every width of the network"
        );
        for (i, &channels) in
            widths.iter().enumerate().filter(|&(i, channels)| self.now[i] != *channels)
        {
            for tensor in &self.norms[i] {
                let mut values =
                    self.parameters.expect::<f32>(&tensor.name, &tensor.shape)?.to_vec();
                values[channels..].fill(0.0);
                self.network.set(tensor, &values)?;
            }
        }
        self.now.copy_from_slice(widths);
        Ok(self.network.scores(images, normalization, go_on)?.map(Figures::from))
    }
}

impl Slimming<'_> {
    /// Removes channels until the network has at most `work` multiply-adds, no channel can be
    /// removed, or `on_progress` stops it. Returns the whole network and the network after each
    /// step.
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
        mut on_progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Slimmed>, InferError> {
        let mut trial = Trial::new(device, self.architecture, self.parameters, batch)?;
        let figures =
            |widths: &[usize], on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>| {
                trial.figures(widths, images, normalization, || on_progress(Progress::Batch))
            };
        self.search(figures, work, &mut on_progress)
    }

    /// The least multiply-adds that removing channels can reach.
    pub fn least_work(&self) -> u64 {
        let mut widths = self.whole();
        for (width, step) in widths.iter_mut().zip(self.steps()) {
            while let Some(less) = narrower(*width, step) {
                *width = less;
            }
        }
        self.work(&widths)
    }

    /// The greedy search, with any function for the figures. It ends where that function returns
    /// none.
    fn search(
        &self,
        mut figures: impl FnMut(&[usize], &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Measured,
        work: u64,
        on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Slimmed>, InferError> {
        let steps = self.steps();
        let mut steps_done = vec![];
        let mut best = Some((self.whole(), figures(&self.whole(), on_progress)?));
        while let Some((widths, Some(figured))) = best.take() {
            let multiply_adds = self.work(&widths);
            let now = Slimmed { widths: widths.clone(), multiply_adds, figures: figured };
            let stop = on_progress(Progress::Step(&now)).is_break();
            steps_done.push(now);
            if stop || multiply_adds <= work {
                break;
            }
            for (i, &step) in steps.iter().enumerate() {
                let Some(less) = narrower(widths[i], step) else { continue };
                let mut tried = widths.clone();
                tried[i] = less;
                let Some(figured) = figures(&tried, on_progress)? else { return Ok(steps_done) };
                // Any other candidate replaces one with a NaN loss.
                let least = best.as_ref().and_then(|(_, least)| least.map(|figures| figures.nll));
                if least.is_none_or(|least| figured.nll < least || least.is_nan()) {
                    best = Some((tried, Some(figured)));
                }
            }
        }
        Ok(steps_done)
    }

    fn whole(&self) -> Vec<usize> {
        self.architecture.widths().iter().map(|width| width.channels).collect()
    }

    fn work(&self, widths: &[usize]) -> u64 {
        let Architecture { name, input, classes, .. } = self.architecture;
        let slim = name.slimmed(widths.to_vec()).build(*input, *classes);
        slim.expect("the name has as many widths as its network").counts().multiply_adds
    }

    /// Channels that each width loses per step. The steps are those of the whole network
    /// throughout.
    fn steps(&self) -> Vec<usize> {
        let step = |channels| self.step.unwrap_or_else(|| default_step(channels));
        self.whole().into_iter().map(step).collect()
    }
}

/// Whether a member was trained together with a narrower one that is its corner, parameter for
/// parameter, so that it was also trained without its last channels.
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

/// The next smaller number of channels that is a multiple of the step, if there is one. Never 1: a
/// depthwise convolution of one channel is planned as an ordinary one.
fn narrower(channels: usize, step: usize) -> Option<usize> {
    Some((channels - 1) / step * step).filter(|&less| less > 1)
}

/// An eighth of the channels, rounded up to a multiple of 8, which devices prefer: 112 go in steps
/// of 16.
fn default_step(channels: usize) -> usize {
    channels.div_ceil(8).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use superweight_plan::arch::{ArchName, ImageShape};

    use super::*;

    /// Figures with this NLL; the others are unused.
    fn loss(nll: f64) -> Figures {
        Figures { top1: 0.0, top5: 0.0, nll, ece: 0.0 }
    }

    fn architecture(name: &str) -> Architecture {
        let name: ArchName = name.parse().unwrap();
        name.build(ImageShape::CIFAR, 10).unwrap()
    }

    #[test]
    fn the_channels_that_cost_least_are_removed_first() {
        let architecture = architecture("cnn-24-32-40");
        let parameters = Tensors::default();
        let slimming =
            Slimming { architecture: &architecture, parameters: &parameters, step: None };
        // A channel of the first width costs 3, one of the second costs 9 below 24 and nothing
        // above, one of the third costs 1.
        let mut tried = 0;
        let figures = |widths: &[usize], _: &mut dyn FnMut(Progress) -> ControlFlow<()>| {
            tried += 1;
            let missed =
                3 * (24 - widths[0]) + 24usize.saturating_sub(widths[1]) * 9 + (40 - widths[2]);
            Ok(Some(loss(missed as f64)))
        };
        let mut taken = 0;
        let mut on_progress = |progress: Progress| {
            taken += usize::from(matches!(progress, Progress::Step(_)));
            ControlFlow::Continue(())
        };
        let way = slimming.search(figures, 0, &mut on_progress).unwrap();
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
    fn it_ends_at_the_requested_work_or_where_the_caller_stops_it() {
        let architecture = architecture("cnn-24-32");
        let parameters = Tensors::default();
        let slimming =
            Slimming { architecture: &architecture, parameters: &parameters, step: Some(1) };
        type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;
        let narrow_first = |widths: &[usize], _: OnProgress| match widths {
            [_, 32] => Ok(Some(loss(1e3))),
            _ => Ok(Some(loss(-f64::NAN))),
        };
        let mut all = |_: Progress| ControlFlow::Continue(());
        let whole = architecture.counts().multiply_adds;
        let way = slimming.search(narrow_first, whole / 2, &mut all).unwrap();
        let last = way.last().unwrap();
        assert!(last.multiply_adds <= whole / 2 && way[way.len() - 2].multiply_adds > whole / 2);
        assert_eq!(last.widths[1], 32, "a NaN loss is never the least");
        let last_first = |widths: &[usize], _: OnProgress| match widths {
            [24, _] => Ok(Some(loss(1e3))),
            _ => Ok(Some(loss(-f64::NAN))),
        };
        let way = slimming.search(last_first, whole / 2, &mut all).unwrap();
        assert_eq!(way.last().unwrap().widths[0], 24);
        let mut steps = 0;
        let mut three = |progress: Progress| {
            steps += usize::from(matches!(progress, Progress::Step(_)));
            if steps == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert_eq!(slimming.search(narrow_first, 0, &mut three).unwrap().len(), 3);
        // Stopped during a step, and before the first one has ended.
        let mut calls = 0;
        let stopped = |widths: &[usize], _: OnProgress| {
            calls += 1;
            Ok((calls < 6).then(|| loss(widths[0] as f64)))
        };
        assert_eq!(slimming.search(stopped, 0, &mut all).unwrap().len(), 3);
        assert!(slimming.search(|_, _: OnProgress| Ok(None), 0, &mut all).unwrap().is_empty());
    }

    #[test]
    fn steps_are_eighths_in_eights() {
        let steps = [1, 16, 64, 65, 112, 448].map(default_step);
        assert_eq!(steps, [8, 8, 8, 16, 16, 56]);
    }
}
