//! A run folder in which one file is anything: the first byte chooses the file, the rest is its
//! contents. Digests are made to fit, as in a hostile file; then every reader of runs reads
//! this one.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::sync::LazyLock;

use superweight::engine::CpuDevice;
use superweight::infer::Trained;
use superweight::model::OutputId;
use superweight::report::Report;
use superweight_fuzz::{FILES, RUN, digest, put};

static DEVICE: LazyLock<CpuDevice> =
    LazyLock::new(|| CpuDevice::new(1).expect("there is a processor"));

const SUMS: &str = "checkpoints/0004/SHA256SUMS";

superweight_fuzz::target!(|bytes: &[u8]| {
    let Some((&which, contents)) = bytes.split_first() else { return };
    let (name, whole) = FILES[usize::from(which) % FILES.len()];
    put(&RUN.join(name), contents);
    if let Some(file) = name.strip_prefix("checkpoints/0004/").filter(|_| name != SUMS) {
        let (_, sums) = FILES.iter().find(|(known, _)| *known == SUMS).expect("the list is there");
        let sums = String::from_utf8_lossy(sums);
        let others = sums.lines().filter(|line| !line.ends_with(&format!("  {file}")));
        let own = format!("{}  {file}", digest(contents));
        put(
            &RUN.join(SUMS),
            (others.collect::<Vec<_>>().join("\n") + "\n" + &own + "\n").as_bytes(),
        );
    }
    if let Ok(report) = Report::open(&[&*RUN]) {
        report.to_html();
        // Some twenty files: not every time.
        if contents.len() % 4 == 0 {
            report.to_markdown();
            report.to_csv();
            report.write_plots(&RUN.join("plots")).expect("there is room for plots");
        }
    }
    if let Ok(trained) = Trained::open(&RUN) {
        if let Ok(mut networks) = trained.networks(&*DEVICE, 1) {
            networks
                .set_images(&vec![0.5; networks.image_len()])
                .expect("an image of the members' size");
            for output in 0..networks.outputs().count() {
                networks.run(OutputId(output)).expect("members that were built run");
            }
        }
    }
    put(&RUN.join(name), whole);
    let (_, sums) = FILES.iter().find(|(known, _)| *known == SUMS).expect("the list is there");
    put(&RUN.join(SUMS), sums);
});
