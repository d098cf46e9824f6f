//! Reads a run folder into a [`RunView`]. Files are read here; the sections are pure functions of
//! their contents.
//!
//! A file that a run does not have makes a section empty, and the page omits it: a run that stopped
//! in its search has curves and similarities, but no checkpoint of its training. A damaged file is
//! an error that names it.

use std::path::Path;

use serde::Serialize;
use superweight_plan::Assignment;

use super::curves::Curves;
use super::error::ReportError;
use super::evaluated::{self, Newest};
use super::evaluation::Evaluation;
use super::headline::{About, Headline};
use super::replay::{ClusterReplay, GroupReplay};
use super::sharing::Sharing;
use crate::fs::read_at_most;
use crate::model::Outputs;
use crate::recipe::{LARGEST_PLAN, Resolved};
use crate::run::{OpenRun, start_of};
use crate::search::{Compared, PairStatistic, Statistics, coefficient_pairs};

/// Everything that a report shows of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunView {
    /// Name of the run's folder.
    pub name: String,
    /// Recipe and environment of the run.
    pub about: About,
    /// Accuracy, parameters, time.
    pub headline: Headline,
    /// Layers, clusters, templates and coefficients.
    pub sharing: Sharing,
    /// Training curves; none before the first complete epoch.
    pub curves: Option<Curves>,
    /// Outcomes of Algorithm 1 for every τ; none without a search's statistics.
    pub search: Option<ClusterReplay>,
    /// Outcomes of Algorithm 1 for every β; none without a refinement's statistics.
    pub refine: Option<GroupReplay>,
    /// Figures that `swn eval` and `swn anytime` wrote.
    pub evaluation: Option<Evaluation>,
    /// Whether similarities and coefficients were omitted to keep a page of many runs small.
    pub shortened: bool,
}

impl RunView {
    /// Reads a run folder. The run may still be training.
    pub fn open(path: &Path) -> Result<Self, ReportError> {
        let run = OpenRun::open(path)?;
        let (resolved, log) = (&run.resolved, run.log()?);
        let first_plan;
        let plan = match &run.plan {
            Some(plan) => plan,
            None => {
                first_plan = resolved.first_plan()?;
                &first_plan
            }
        };
        // A run with a checkpoint does not need the plan file it started from.
        let given =
            resolved.plan.file.as_ref().and_then(|file| read_at_most(file, LARGEST_PLAN).ok());
        let (search, refine) = replays(path, resolved)?;
        let test = start_of(&log).map(|start| start.images[2] as u64);
        let newest = Newest { stamp: run.stamp(), outputs: &Outputs::of_plan(plan), test };
        let evaluation = evaluated::read(path, &newest)?;
        let bank = run.loaded.as_ref().map(|loaded| &loaded.checkpoint.bank);
        let mut headline = Headline::new(plan, &log);
        evaluation.iter().for_each(|evaluation| headline.complete(evaluation));
        Ok(Self {
            name: name(path),
            about: About::new(resolved, run.recipe()?, run.invocations(), given.as_deref()),
            headline,
            sharing: Sharing::new(plan, bank),
            curves: Curves::new(&log),
            search,
            refine,
            evaluation,
            shortened: false,
        })
    }
}

impl RunView {
    /// Omits what only a report of this one run needs: similarities and pictures of coefficients.
    pub(super) fn shorten(&mut self) {
        (self.search, self.refine, self.shortened) = (None, None, true);
        let groups =
            self.sharing.superweights.iter_mut().flat_map(|superweight| &mut superweight.groups);
        groups.for_each(|group| group.alpha = None);
    }
}

/// The replays that the statistics of a run allow.
fn replays(
    path: &Path,
    resolved: &Resolved,
) -> Result<(Option<ClusterReplay>, Option<GroupReplay>), ReportError> {
    let file = path.join("statistics.safetensors");
    if !file.exists() {
        return Ok((None, None));
    }
    let of_file = |source| ReportError::Statistics { file: file.clone(), source };
    let statistics = Statistics::load(&file).map_err(of_file)?;
    let of_plan = |source| ReportError::Plan { run: path.to_owned(), source };
    let search = match (&statistics.search, &resolved.search) {
        (Some(found), Some(phase)) => {
            let (compared, pairs) = match &found.compared {
                Compared::Gradients(pairs) => ("gradients", pairs),
                Compared::Weights(pairs) => ("weights", pairs),
                Compared::Coefficients(_) => ("", &vec![]),
            };
            let pairs: Vec<_> = pairs.iter().map(PairStatistic::pair).collect();
            let request = resolved.train_request().map_err(of_plan)?;
            let replay = (!compared.is_empty()).then(|| {
                ClusterReplay::new(&found.plan, &request, compared, &pairs, phase.settings)
            });
            replay.transpose().map_err(of_plan)?
        }
        _ => None,
    };
    let refine = match (&statistics.refine, &resolved.refine) {
        (Some(found), Some(settings)) => {
            let phase = resolved.search.as_ref();
            let assignment = phase.map_or(Assignment::Merge, |phase| phase.settings.assignment);
            let pairs = coefficient_pairs(&found.plan, &found.gradients).map_err(of_file)?;
            Some(
                GroupReplay::new(&found.plan, &pairs, settings.beta, assignment)
                    .map_err(of_plan)?,
            )
        }
        _ => None,
    };
    Ok((search, refine))
}

/// The last named component of a path: `a` for `runs/a/.` and for `runs/a`.
fn name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    whole
        .file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
