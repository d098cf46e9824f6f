//! The memory plan's prediction against what the process then uses: WRN-28-10 at batch 8, within
//! 5%.

use superweight::model::lower::{IMAGES, LABELS, Lowering, lower};
use superweight_engine::{CpuDevice, LayoutBuilder, Memory, Program, Settings, SlotKind};
use superweight_plan::arch::{ArchName, ImageShape};

/// Resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("and this line in it");
    let kilobytes: usize =
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("in kB");
    kilobytes * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn the_plan_predicts_what_activations_take() {
    let name: ArchName = "wrn-28-10".parse().unwrap();
    let architecture = name.build(ImageShape::CIFAR, 100).unwrap();
    let graph = lower(&architecture, &Lowering::default()).unwrap();
    let device = CpuDevice::new(2).unwrap();
    let settings = Settings::train(8);
    let layout = LayoutBuilder::new().graph(&graph, &settings).unwrap().finish(&device);
    let program = Program::compile(&device, &graph, &settings, &layout).unwrap();
    let plan = *program.plan();
    let gradients = 4 * layout.parameter_len;

    let mut memory = Memory::new(&device, layout, plan.arena_bytes).unwrap();
    for slot in graph.slots() {
        let values = vec![if slot.kind == SlotKind::Weight { 0.01 } else { 1.0 }; slot.len()];
        match slot.kind {
            SlotKind::Statistic => memory.set_statistic(&slot.name, &values).unwrap(),
            _ => memory.set_parameter(&slot.name, &values).unwrap(),
        }
    }
    memory.set_input(IMAGES, &vec![0.5; 8 * 32 * 32 * 3]).unwrap();
    memory.set_classes(LABELS, &[1; 8]).unwrap();
    let before = resident();
    memory.run(&program).unwrap();
    let used = (resident() - before) as f64 - gradients as f64;

    let mebibytes = |bytes: f64| bytes / (1 << 20) as f64;
    println!(
        "planned {:.1} MiB, used {:.1} MiB",
        mebibytes(plan.arena_bytes as f64),
        mebibytes(used)
    );
    assert!((used / plan.arena_bytes as f64 - 1.0).abs() < 0.05);
    assert!(plan.arena_bytes as f64 <= 1.02 * plan.lower_bound as f64, "{plan:?} wastes memory");
}
