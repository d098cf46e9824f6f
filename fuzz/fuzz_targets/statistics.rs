//! Statistics of a search: any bytes are statistics or an error, and what is read gives a plan
//! or an error.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::path::Path;

use superweight::plan::Assignment;
use superweight::report::{ClusterReplay, GroupReplay};
use superweight::run::safetensors;
use superweight::search::{Compared, PairStatistic, Replay, Statistics, coefficient_pairs, replay};
use superweight_fuzz::{BY_MEANS, RESOLVED};

superweight_fuzz::target!(|bytes: &[u8]| {
    let Ok(tensors) = safetensors::from_bytes(Path::new("fuzz"), bytes) else { return };
    let Ok(statistics) = Statistics::from_tensors(&tensors) else { return };
    for (tau, beta) in
        [(None, None), (Some(0.5), None), (None, Some(0.5)), (Some(-1.0), Some(-1.0))]
    {
        let _ = replay(&RESOLVED, &statistics, Replay { tau, beta });
        let _ = replay(&BY_MEANS, &statistics, Replay { tau, beta });
    }
    if let Some(found) = &statistics.search
        && let Compared::Gradients(pairs) | Compared::Weights(pairs) = &found.compared
    {
        let pairs: Vec<_> = pairs.iter().map(PairStatistic::pair).collect();
        let request = RESOLVED.train_request().expect("the run's recipe plans");
        let settings = RESOLVED.search.as_ref().expect("the run has a search").settings;
        let _ = ClusterReplay::new(&found.plan, &request, "gradients", &pairs, settings);
    }
    if let Some(found) = &statistics.refine
        && let Ok(pairs) = coefficient_pairs(&found.plan, &found.gradients)
    {
        let _ = GroupReplay::new(&found.plan, &pairs, 0.5, Assignment::Merge);
    }
});
