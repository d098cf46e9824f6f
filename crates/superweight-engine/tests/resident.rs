//! Checks of state on a device: image batches, sums over runs, learning rates and momentum.

mod common;

use std::sync::Arc;

use common::{hashed, on_every_device};
use superweight_engine::{
    Accumulator, CrossEntropy, Device, GraphBuilder, ImageSample, ImageSet, LayoutBuilder, Memory,
    ParameterGroup, Pixels, Settings, Sgd, SgdOptions, Shape,
};

const SHAPE: Shape = Shape { height: 3, width: 4, channels: 2 };

/// Memory of a linear classifier of small images.
fn memory<D: Device>(device: &D, batch: usize) -> Memory<D> {
    let mut graph = GraphBuilder::new("linear");
    let images = graph.input("images", SHAPE).unwrap();
    let pooled = graph.global_average_pool("pool", images).unwrap();
    let logits = graph.linear("classifier", pooled, 3, true).unwrap();
    graph.cross_entropy("loss", logits, CrossEntropy::classes("labels")).unwrap();
    let graph = graph.finish().unwrap();
    let mut layout = LayoutBuilder::new();
    layout.graph(&graph, &Settings::train(batch)).unwrap();
    Memory::new(device, layout.finish(device), 0).unwrap()
}

fn set() -> ImageSet {
    ImageSet {
        shape: SHAPE,
        pixels: Arc::new((0..5 * SHAPE.len()).map(|i| (i * 7 % 256) as u8).collect::<Vec<u8>>()),
        classes: vec![2, 0, 1, 1, 2],
        table: vec![std::array::from_fn(|v| v as f32), std::array::from_fn(|v| 1000.0 + v as f32)],
    }
}

/// Images that devices do not keep.
struct Elsewhere(Arc<dyn Pixels>);

impl Pixels for Elsewhere {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn in_memory(&self) -> bool {
        false
    }
}

#[test]
fn a_batch_equals_its_rendered_images_and_the_rest_is_zero() {
    check_batches(&set());
}

#[test]
fn batches_do_not_depend_on_where_images_are_kept() {
    check_batches(&ImageSet { pixels: Arc::new(Elsewhere(set().pixels)), ..set() });
}

fn check_batches(set: &ImageSet) {
    on_every_device!(|device| {
        let mut memory = memory(device, 6);
        let mut images = device.load_images(set, 6, 1).unwrap();
        let cutout = ImageSample {
            image: 4,
            cutout_rows: [1, 2],
            cutout_columns: [0, 3],
            ..ImageSample::default()
        };
        let moved = ImageSample { image: 1, flip: 1, down: -1, right: 2, ..ImageSample::default() };
        let stretched = |crop| ImageSample { image: 2, flip: 1, right: 1, crop, ..cutout };
        let parts = [[0, 0, 3, 4], [1, 1, 2, 3], [2, 3, 1, 1], [0, 2, 3, 2]].map(stretched);
        for draws in [
            vec![ImageSample::unchanged(3); 6],
            parts.to_vec(),
            vec![ImageSample::unchanged(2), cutout, moved],
        ] {
            device.set_samples(&mut images, &draws);
            memory.draw_batch(&images, "images", "labels").unwrap();
            let found = memory.output("images").unwrap();
            let mut expected = vec![0.0; 6 * SHAPE.len()];
            for (draw, out) in draws.iter().zip(expected.chunks_mut(SHAPE.len())) {
                set.render(draw, out);
            }
            assert_eq!(found, expected);
            let classes = memory.output("labels").unwrap().into_iter().map(f32::to_bits);
            assert!(classes.eq(
                (0..6).map(|i| draws.get(i).map_or(0, |draw| set.classes[draw.image as usize]))
            ));
        }
        // Row 0 shows row −1, which is byte 0 of each channel. Row 1 shows row 0 of the flipped
        // image, shifted by two.
        let moved = &memory.output("images").unwrap()[2 * SHAPE.len()..][..2 * 8];
        let byte =
            |x: usize, c: usize| ((SHAPE.len() + x * 2 + c) * 7 % 256) as f32 + 1000.0 * c as f32;
        assert_eq!(moved[..8], [0.0, 1000.0, 0.0, 1000.0, 0.0, 1000.0, 0.0, 1000.0]);
        assert_eq!(
            moved[8..],
            [byte(1, 0), byte(1, 1), byte(0, 0), byte(0, 1), 0.0, 1000.0, 0.0, 1000.0]
        );
    });
}

/// Rows of three images: within each pixel, the channels of the first, second and third image.
#[test]
fn a_row_may_hold_several_images() {
    check_several_per_row(&set());
    check_several_per_row(&ImageSet { pixels: Arc::new(Elsewhere(set().pixels)), ..set() });
}

fn check_several_per_row(set: &ImageSet) {
    on_every_device!(|device| {
        let wide = Shape { channels: 3 * SHAPE.channels, ..SHAPE };
        let mut graph = GraphBuilder::new("three");
        let images = graph.input("images", wide).unwrap();
        let pooled = graph.global_average_pool("pool", images).unwrap();
        graph.cross_entropy("loss", pooled, CrossEntropy::classes("labels").heads(3)).unwrap();
        let graph = graph.finish().unwrap();
        let mut layout = LayoutBuilder::new();
        layout.graph(&graph, &Settings::train(2)).unwrap();
        let mut memory = Memory::new(device, layout.finish(device), 0).unwrap();
        let mut images = device.load_images(set, 6, 3).unwrap();
        let moved = ImageSample { image: 4, flip: 1, down: -1, right: 2, ..ImageSample::default() };
        for draws in [
            [1, 4, 2, 0, 3, 3].map(ImageSample::unchanged).to_vec(),
            vec![ImageSample::unchanged(2), moved],
        ] {
            device.set_samples(&mut images, &draws);
            memory.draw_batch(&images, "images", "labels").unwrap();
            let mut expected = vec![0.0; 6 * SHAPE.len()];
            for (place, draw) in draws.iter().enumerate() {
                let mut image = vec![0.0; SHAPE.len()];
                set.render(draw, &mut image);
                for (pixel, channels) in image.chunks(SHAPE.channels).enumerate() {
                    let at = (place / 3 * SHAPE.pixels() + pixel) * wide.channels
                        + place % 3 * SHAPE.channels;
                    expected[at..at + SHAPE.channels].copy_from_slice(channels);
                }
            }
            assert_eq!(memory.output("images").unwrap(), expected);
            let classes: Vec<u32> =
                memory.output("labels").unwrap().into_iter().map(f32::to_bits).collect();
            let drawn = |i: usize| draws.get(i).map_or(0, |draw| set.classes[draw.image as usize]);
            assert_eq!(classes, (0..6).map(drawn).collect::<Vec<_>>());
        }
    });
}

#[test]
fn sums_use_the_values_of_each_run() {
    on_every_device!(|device| {
        let mut memory = memory(device, 4);
        let names = ["classifier.bias", "classifier.weight"];
        let regions = names.map(|name| memory.layout().gradient(name).unwrap());
        let mut sums = Accumulator::new(&memory, regions.to_vec()).unwrap();
        for _ in 0..2 {
            let mut expected = regions.map(|region| vec![0.0; region.len]);
            for run in 0..3 {
                for ((name, region), expected) in names.iter().zip(regions).zip(&mut expected) {
                    let values = hashed(run, region.len);
                    memory.set_gradient(name, &values).unwrap();
                    expected.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                }
                memory.accumulate(&mut sums);
            }
            assert_eq!([sums.read(0), sums.read(1)], expected);
            sums.clear();
        }
    });
}

#[test]
fn momentum_is_read_and_restored_by_tensor() {
    on_every_device!(|device| {
        let mut memory = memory(device, 4);
        let all = memory.layout().parameter_len;
        let optimizer = |memory: &Memory<_>, momentum| {
            let options = SgdOptions { momentum, nesterov: momentum > 0.0 };
            Sgd::new(memory, options, vec![ParameterGroup::new(0..all, 0.0)]).unwrap()
        };
        let weight = memory.layout().parameter("classifier.weight").unwrap();
        memory.set_gradient("classifier.weight", &hashed(3, weight.len)).unwrap();
        let mut first = optimizer(&memory, 0.9);
        first.set_lrs(&[0.1]).unwrap();
        first.step(&mut memory);
        assert_eq!(first.momentum(weight).unwrap(), hashed(3, weight.len)); // b ← 0.9·0 + g
        let (kept, parameter) =
            (first.momentum(weight).unwrap(), memory.parameter("classifier.weight").unwrap());
        first.step(&mut memory);
        let expected = memory.parameter("classifier.weight").unwrap();

        memory.set_parameter("classifier.weight", &parameter).unwrap();
        let mut second = optimizer(&memory, 0.9);
        second.set_momentum(weight, &kept).unwrap();
        second.set_lrs(&[0.1]).unwrap();
        second.step(&mut memory);
        assert_eq!(memory.parameter("classifier.weight").unwrap(), expected);
        assert!(second.set_momentum(weight, &[0.0]).is_err());
        assert_eq!(optimizer(&memory, 0.0).momentum(weight), None);
    });
}
