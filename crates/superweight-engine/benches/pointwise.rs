//! Operations limited by memory bandwidth, each as a program: `cargo bench -p superweight-engine
//! --bench pointwise`.

use superweight_engine::{
    BatchNorm, CpuDevice, GraphBuilder, LayoutBuilder, Memory, NodeId, Pool2d, Program, Settings,
    Shape,
};

fn main() {
    divan::main();
}

/// Forward and backward of one operation on a batch of 128.
fn run(
    bencher: divan::Bencher<'_, '_>,
    shape: Shape,
    op: impl FnOnce(&mut GraphBuilder, NodeId) -> NodeId,
) {
    let mut g = GraphBuilder::new("bench");
    let x = g.input("x", shape).unwrap();
    let y = op(&mut g, x);
    g.external_gradient("r", y, 1.0).unwrap();
    let graph = g.finish().unwrap();
    let device = CpuDevice::new(0).unwrap();
    let settings = Settings { input_gradients: true, ..Settings::train(128) };
    let layout = LayoutBuilder::new().graph(&graph, &settings).unwrap().finish(&device);
    let program = Program::compile(&device, &graph, &settings, &layout).unwrap();
    let mut memory = Memory::new(&device, layout, program.plan().arena_bytes).unwrap();
    let bytes = 4 * 128 * shape.len();
    bencher
        .counter(divan::counter::BytesCount::new(bytes))
        .bench_local(|| memory.run(&program).unwrap());
}

const SHAPES: [(usize, usize); 3] = [(32, 16), (16, 32), (8, 64)];

#[divan::bench(args = SHAPES)]
fn batch_norm_relu(bencher: divan::Bencher<'_, '_>, (size, channels): (usize, usize)) {
    run(bencher, Shape::new(size, size, channels), |g, x| {
        g.batch_norm("bn", x, BatchNorm::relu()).unwrap()
    });
}

#[divan::bench(args = SHAPES)]
fn max_pool(bencher: divan::Bencher<'_, '_>, (size, channels): (usize, usize)) {
    run(bencher, Shape::new(size, size, channels), |g, x| {
        g.pool("p", x, Pool2d::max(3, 2, 1)).unwrap()
    });
}

#[divan::bench(args = SHAPES)]
fn global_average_pool(bencher: divan::Bencher<'_, '_>, (size, channels): (usize, usize)) {
    run(bencher, Shape::new(size, size, channels), |g, x| g.global_average_pool("p", x).unwrap());
}

#[divan::bench(args = SHAPES)]
fn channel_scale(bencher: divan::Bencher<'_, '_>, (size, channels): (usize, usize)) {
    run(bencher, Shape::new(size, size, channels), |g, x| g.channel_scale("s", x, 2).unwrap());
}
