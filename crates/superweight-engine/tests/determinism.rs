//! Checks that 1, 2 and 7 threads, repeated runs, and replayed recordings give the same bits.

mod common;

use common::{Bench, hashed, with_cuda};
use superweight_engine::{
    Activation, BatchNorm, Conv2d, CpuDevice, CrossEntropy, Device, Graph, GraphBuilder,
    ParameterGroup, Pool2d, Precision, Scope, Settings, Sgd, SgdOptions, Shape,
};

/// A graph with its batch size and image shape.
type Network = (Graph, usize, [usize; 3]);

/// A network with every operation, large enough for many tasks.
fn everything() -> Network {
    let mut g = GraphBuilder::new("everything");
    let x = g.input("x", Shape::new(16, 15, 3)).unwrap();
    let x = g.conv("stem", x, Conv2d::new(24, 3).padding(1)).unwrap();
    let ghost = BatchNorm::relu().segmented(2, Scope::Segment, Scope::Joint);
    let a = g.batch_norm("bn1", x, ghost).unwrap();
    let h = g.conv("conv1", a, Conv2d::new(24, 3).padding(1)).unwrap();
    let h = g.batch_norm("bn2", h, BatchNorm::relu()).unwrap();
    let h = g.conv("depthwise", h, Conv2d::new(24, 3).padding(1).groups(24)).unwrap();
    let x = g.add("add", x, h, Activation::Relu).unwrap();
    let s = g.channel_scale("scale", x, 2).unwrap();
    let c = g.conv("strided", s, Conv2d::new(40, 3).stride(2).padding(1)).unwrap();
    let m = g.pool("max", s, Pool2d::max(3, 2, 1)).unwrap();
    let v = g.pool("average", s, Pool2d::average(3, 2, 1)).unwrap();
    let x = g.concat("concat", &[c, m, v]).unwrap();
    let x = g.batch_norm("bn3", x, BatchNorm::relu6()).unwrap();
    let x = g.global_average_pool("pool", x).unwrap();
    let z = g.linear("fc", x, 10, true).unwrap();
    g.cross_entropy("loss", z, CrossEntropy::classes("labels").smoothing(0.1)).unwrap();
    g.output("logits", z).unwrap();
    (g.finish().unwrap(), 12, [16, 15, 3])
}

/// Convolutions of WRN-28-10 at batch 128, whose tuned plans use counters on an H200. Other GPUs
/// may choose other plans, so the test prints the number of counters.
fn wide() -> Network {
    let mut g = GraphBuilder::new("wide");
    let mut x = g.input("x", Shape::new(32, 32, 16)).unwrap();
    for (i, (channels, stride)) in [(160, 1), (160, 1), (320, 2), (320, 1)].into_iter().enumerate()
    {
        let conv = Conv2d::new(channels, 3).stride(stride).padding(1);
        x = g.conv(format!("conv{i}"), x, conv).unwrap();
        x = g.batch_norm(format!("bn{i}"), x, BatchNorm::relu()).unwrap();
    }
    let x = g.global_average_pool("pool", x).unwrap();
    let z = g.linear("fc", x, 10, true).unwrap();
    g.cross_entropy("loss", z, CrossEntropy::classes("labels")).unwrap();
    g.output("logits", z).unwrap();
    (g.finish().unwrap(), 128, [32, 32, 16])
}

/// A graph and an optimizer of all its parameters.
fn trainer<D: Device>(device: &D, (graph, batch, image): Network) -> (Bench<D>, Sgd<D>) {
    let mut bench = Bench::new(device, graph, Settings::train(batch));
    bench.memory.set_input("x", &hashed(3, batch * image.iter().product::<usize>())).unwrap();
    bench
        .memory
        .set_classes("labels", &(0..batch as u32).map(|i| i % 10).collect::<Vec<_>>())
        .unwrap();
    let len = bench.memory.layout().parameter_len;
    let groups = vec![ParameterGroup::new(0..len, 1e-4)];
    let mut optimizer =
        Sgd::new(&bench.memory, SgdOptions { momentum: 0.9, nesterov: true }, groups).unwrap();
    optimizer.set_lrs(&[0.05]).unwrap();
    (bench, optimizer)
}

/// All bits after three training steps.
fn train<D: Device>(device: &D, network: Network) -> Vec<u32> {
    let (mut bench, mut optimizer) = trainer(device, network);
    for _ in 0..3 {
        bench.run();
        optimizer.step(&mut bench.memory);
    }
    bits(&bench)
}

fn bits<D: Device>(bench: &Bench<D>) -> Vec<u32> {
    let memory = &bench.memory;
    let mut bits: Vec<u32> = memory.output("logits").unwrap().iter().map(|v| v.to_bits()).collect();
    for slot in bench.graph.slots() {
        let values = match slot.name.contains("running") {
            true => memory.statistic(&slot.name).unwrap(),
            false => [memory.parameter(&slot.name).unwrap(), memory.gradient(&slot.name).unwrap()]
                .concat(),
        };
        assert!(values.iter().all(|v| v.is_finite()), "{}", slot.name);
        bits.extend(values.iter().map(|v| v.to_bits()));
    }
    bits
}

#[test]
fn one_two_and_seven_threads_give_the_same_bits() {
    let train = |threads| train(&CpuDevice::new(threads).unwrap(), everything());
    let one = train(1);
    for threads in [1, 2, 7, 7] {
        assert!(train(threads) == one, "{threads} threads");
    }
}

#[test]
fn repeated_runs_on_the_gpu_give_the_same_bits() {
    for precision in [Precision::F32, Precision::Bf16] {
        with_cuda(precision, |device| {
            for network in [everything, wide] {
                assert!(train(device, network()) == train(device, network()), "{precision:?}");
            }
        });
    }
}

/// Compares three steps replayed from one recording with three steps submitted one by one.
#[test]
fn a_replayed_step_gives_the_bits_of_an_eager_step() {
    for precision in [Precision::F32, Precision::Bf16] {
        with_cuda(precision, |device| {
            for network in [everything, wide] {
                let eager = train(device, network());
                let (mut bench, mut optimizer) = trainer(device, network());
                let recording = device
                    .record(&mut || {
                        bench.run();
                        optimizer.step(&mut bench.memory);
                        Ok(())
                    })
                    .unwrap()
                    .expect("a GPU records");
                println!("{}, {precision:?}: {recording:?}", bench.graph.name());
                (0..3).for_each(|_| device.replay(&recording).unwrap());
                assert!(bits(&bench) == eager, "{precision:?}, {}", bench.graph.name());
            }
        });
    }
}
