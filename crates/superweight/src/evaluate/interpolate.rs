//! On the line between two members of one shape: W = (1 − t)·W_a + t·W_b for every tensor, batch norm on the statistics of
//! the batch (weights in between have no running ones). Whether accuracy holds there says whether two members share a
//! basin (paper, Figure 6).

use serde::Serialize;
use superweight_engine::{Device, LayoutBuilder, Memory, Program, Settings, SlotKind, oihw_to_ohwi};
use superweight_plan::arch::Architecture;

use super::metrics::{Tally, softmax};
use super::report::Figures;
use crate::data::{Images, Normalisation};
use crate::heads::{mixture, repeated};
use crate::infer::{InferError, normalise};
use crate::lower::{IMAGES, Lowering, lower};
use crate::run::Tensors;

/// A point on the line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// 0 at the first member, 1 at the second.
    pub t: f64,
    /// There.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Two members as state dicts of one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Of both.
    pub architecture: &'a Architecture,
    /// At t = 0.
    pub from: &'a Tensors,
    /// At t = 1.
    pub to: &'a Tensors,
}

impl Line<'_> {
    /// Figures at `points` places, the ends among them. Every image is seen in a whole batch: the last batch begins
    /// early enough, and images that were seen before do not count again.
    pub fn evaluate<D: Device>(
        &self,
        device: &D,
        images: &Images,
        normalisation: &Normalisation,
        batch: usize,
        points: usize,
    ) -> Result<Vec<Point>, InferError> {
        let batch = batch.min(images.len());
        let settings = Settings::batch_statistics(batch);
        let graph = lower(self.architecture, &Lowering::default())?;
        let mut layout = LayoutBuilder::new();
        layout.graph(&graph, &settings)?;
        let layout = layout.finish(device);
        let program = Program::compile(device, &graph, &settings, &layout)?;
        let mut memory = Memory::new(device, layout, program.plan().arena_bytes)?;
        let (classes, len) = (self.architecture.classes, images.pixels.len() / images.len());
        let mut answer = vec![];
        for point in 0..points {
            let t = point as f64 / points.saturating_sub(1).max(1) as f64;
            for slot in graph.slots().iter().filter(|slot| slot.kind != SlotKind::Statistic) {
                memory.set_parameter(&slot.name, &self.between(&slot.name, t)?)?;
            }
            let (mut tally, mut seen, mut one) = (Tally::default(), 0, vec![0.0; classes]);
            let mut input = Vec::with_capacity(batch * len);
            while seen < images.len() {
                let first = seen.min(images.len() - batch);
                input.clear();
                normalise(&images.pixels[first * len..][..batch * len], normalisation, &mut input);
                let (channels, heads) = (self.architecture.input.channels, self.architecture.heads);
                match heads {
                    1 => memory.set_input(IMAGES, &input)?,
                    _ => memory.set_input(IMAGES, &repeated(&input, channels, heads))?,
                }
                memory.run(&program)?;
                let logits = mixture(memory.output(&Lowering::default().logits())?, classes, heads);
                for image in seen..first + batch {
                    softmax(&logits[(image - first) * classes..][..classes], &mut one);
                    tally.add(&one, images.labels[image].into());
                }
                seen = first + batch;
            }
            answer.push(Point { t, figures: tally.scores().into() });
        }
        Ok(answer)
    }

    fn between(&self, name: &str, t: f64) -> Result<Vec<f32>, InferError> {
        let tensor = self.architecture.tensors.iter().find(|tensor| tensor.name == name);
        let tensor = tensor.expect("a graph's tensors are its architecture's");
        let [from, to] = [self.from, self.to].map(|end| end.expect::<f32>(name, &tensor.shape));
        let mix = |(a, b): (&f32, &f32)| ((1.0 - t) * f64::from(*a) + t * f64::from(*b)) as f32;
        let values: Vec<f32> = from?.iter().zip(to?).map(mix).collect();
        Ok(match tensor.shape[..] {
            [out, inp, kh, kw] => oihw_to_ohwi(&values, [out, inp, kh, kw]),
            _ => values,
        })
    }
}
