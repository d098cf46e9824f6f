use superweight::bench::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let name: superweight_plan::arch::ArchName = a[1].parse().unwrap();
    let arch = name.build(name.usual_input(), 100).unwrap();
    let device = superweight_engine::CpuDevice::new(2).unwrap();
    let req = BenchRequest {
        members: vec![arch],
        batch: a[2].parse().unwrap(),
        training: a.get(3).is_none_or(|m| m != "eval"),
    };
    let mut b = Bench::new(&device, &req).unwrap();
    println!("{:?}", b.measure(std::time::Duration::from_secs(3)).unwrap());
    for r in b.profile(5).unwrap() {
        println!(
            "{:20} {:4} {:8.2} ms {:5.1}% {:?}",
            r.kernel,
            r.calls,
            r.ms,
            r.share * 100.0,
            r.gflops.map(|g| g as u32)
        );
    }
}
