//! `swn plan`: makes a plan from flags or a recipe, and prints it as text or JSON.

mod advice;
mod json;
mod text;

pub(super) use text::kernels;

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use superweight::fs::{read_at_most, write_whole};
use superweight::plan::arch::{ArchError, ArchName, ImageShape};
use superweight::plan::{
    Budget, Clustering, LayerId, Member, PlanError, PlanRequest, SharedRoles, SharingPlan, Survey,
};
use superweight::recipe::{LARGEST_PLAN, Resolved};

use super::load_recipe;
use crate::args::{NOTHING_TO_PLAN, PlanArgs};

/// Makes or reads a plan and prints it. An infeasible budget is a failure.
pub fn run(args: PlanArgs, out: &mut impl Write) -> Result<ExitCode> {
    if let Some(path) = &args.show {
        return print(&args, &read("--show", path)?, &Origin::File(path), out);
    }
    let loaded = match &args.recipe {
        Some(path) => Some(load_recipe(path, &args.set)?),
        None => None,
    };
    if let Some((_, resolved)) = &loaded
        && let Some(file) = &resolved.plan.file
    {
        return print(&args, &resolved.first_plan()?, &Origin::File(file), out);
    }
    let request = match &loaded {
        Some((recipe, _)) => recipe.plan_request()?,
        None => request(&args)?,
    };
    let resolved = loaded.map(|(_, resolved)| resolved);
    let survey = survey(&request)?;
    match request.plan_with(&survey) {
        Ok(plan) => {
            let clusters = if resolved.is_some() {
                request.clusters.to_string()
            } else {
                args.clusters.clone()
            };
            let origin = Origin::Request {
                request: &request,
                survey: &survey,
                clusters,
                recipe: resolved.as_ref(),
            };
            print(&args, &plan, &origin, out)
        }
        Err(PlanError::BudgetTooSmall { .. }) if args.json => {
            writeln!(out, "{}", json::infeasible(&request, &survey))?;
            Ok(ExitCode::FAILURE)
        }
        Err(error @ PlanError::BudgetTooSmall { .. }) => {
            bail!(advice::explain(&error, &request, &survey))
        }
        Err(error) => Err(error.into()),
    }
}

/// Where a plan comes from.
enum Origin<'a> {
    /// A file.
    File(&'a Path),
    /// The planner, with a request of flags or of a recipe.
    Request {
        request: &'a PlanRequest,
        survey: &'a Survey,
        clusters: String,
        recipe: Option<&'a Resolved>,
    },
}

/// Writes the plan to `--out` and prints it.
fn print(
    args: &PlanArgs,
    plan: &SharingPlan,
    origin: &Origin,
    out: &mut impl Write,
) -> Result<ExitCode> {
    if let Some(path) = &args.out {
        write_whole(path, plan.to_json().as_bytes()).with_context(|| {
            format!(
                "the plan could not be written to {}; choose another file with --out",
                path.display()
            )
        })?;
    }
    let mut text = match (origin, args.json) {
        (Origin::File(_), true) => json::shown(plan),
        (Origin::File(path), false) => text::shown(plan, path),
        (Origin::Request { survey, .. }, true) => json::planned(plan, survey),
        (Origin::Request { request, survey, clusters, recipe }, false) => {
            text::planned(plan, survey, &text::choices(request, clusters), *recipe)
        }
    };
    if let Some(path) = args.out.as_ref().filter(|_| !args.json) {
        text += &format!("\n\nwritten to {}", path.display());
    }
    writeln!(out, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the plan of a file; errors name the flag that the file was given with.
pub fn read(flag: &str, path: &Path) -> Result<SharingPlan> {
    let place = || format!("{flag} {}", path.display());
    let text = read_at_most(path, LARGEST_PLAN).with_context(place)?;
    SharingPlan::from_json(&text).with_context(place)
}

fn request(args: &PlanArgs) -> Result<PlanRequest> {
    if args.members.is_empty() {
        bail!("{NOTHING_TO_PLAN}");
    }
    let members = args.members.iter().map(|name| member(name, args)).collect::<Result<Vec<_>>>()?;
    if let Some(other) = members.iter().find(|member| member.input != members[0].input) {
        let (a, b) = (&members[0].architecture, &other.architecture);
        bail!(
            "{a} and {b} take images of different sizes by default; choose one size with --input, such as --input 3x32x32"
        );
    }
    let mut request = PlanRequest {
        tiling: args.tiling,
        block: args.block,
        coefficients: args.coefficients.clone(),
        reserve: args.reserve,
        scale: args.scale,
        shared_roles: SharedRoles { stem: args.share_stem, classifier: args.share_classifier },
        ..PlanRequest::new(members, None)
    };
    request.clusters = clusters(&args.clusters, &request)?;
    if let Clustering::Dense | Clustering::Explicit(_) = request.clusters {
        let ends = [
            ("--share-stem", args.share_stem),
            ("--share-classifier", args.share_classifier.is_some()),
        ];
        if let Some((flag, _)) = ends.iter().find(|(_, given)| *given) {
            bail!(
                "{flag}: --clusters {} lists the layers that share: leave one of the flags out",
                args.clusters
            );
        }
    }
    request.budget = match (&args.budget, &request.clusters) {
        (Some(text), _) => {
            let budget: Budget = text.parse().context("--budget")?;
            match budget.resolve(request.dense_total().map_err(blame)?) {
                0 => bail!("--budget {text} of these members is less than one parameter"),
                n => Some(n),
            }
        }
        (None, Clustering::Dense) => None,
        (None, _) => {
            let Survey { min_budget: minimum, dense_total, .. } = survey(&request)?;
            let [minimum, dense] =
                [minimum, dense_total].map(superweight::plan::number::with_commas);
            bail!(
                "--budget is missing: from {minimum} (the smallest feasible) to {dense} (nothing shared)"
            )
        }
    };
    Ok(request)
}

/// The survey; an error names the flag that caused it.
fn survey(request: &PlanRequest) -> Result<Survey> {
    request.survey().map_err(blame)
}

/// Adds the flag that caused an error.
fn blame(error: PlanError) -> anyhow::Error {
    let flag = match error {
        PlanError::Block { .. } => "--block",
        PlanError::Reserve { .. } => "--reserve",
        PlanError::Heads { .. } | PlanError::Exits(_) => "--members",
        PlanError::MixedCluster { .. } | PlanError::LayerTwice { .. } | PlanError::Empty { .. } => {
            "--clusters"
        }
        _ => return error.into(),
    };
    anyhow!(error).context(flag)
}

fn member(name: &str, args: &PlanArgs) -> Result<Member> {
    let architecture: ArchName = name.parse().context("--members")?;
    let input = match &args.input {
        Some(text) => image_shape(text)?,
        None => architecture.default_input(),
    };
    let member = Member { architecture, input, classes: args.classes };
    member.build().map_err(|error| {
        let flags = if let ArchError::InvalidNumbers { .. } = error {
            "--members"
        } else {
            "--input and --classes"
        };
        anyhow!(error).context(flags)
    })?;
    Ok(member)
}

pub(super) fn image_shape(text: &str) -> Result<ImageShape> {
    let numbers: Option<Vec<usize>> =
        text.split(['x', ',', '×']).map(|n| n.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[channels, height, width]) => Ok(ImageShape { channels, height, width }),
        _ => bail!("--input '{text}': write channels, height and width as 3x32x32"),
    }
}

/// Parses `--clusters`: a word, or a JSON file with lists of layers.
fn clusters(text: &str, request: &PlanRequest) -> Result<Clustering> {
    let path = Path::new(text);
    if path.extension().is_none_or(|extension| extension != "json") {
        return text.parse().context("--clusters");
    }
    let place = || format!("--clusters {text}");
    let content = fs::read_to_string(path).with_context(place)?;
    let sets: Vec<Vec<String>> = serde_json::from_str(&content).with_context(|| {
        format!("{}: expected lists of layer names, [[\"0/conv2.weight\", …], …]", place())
    })?;
    let dense = PlanRequest { clusters: Clustering::Dense, ..request.clone() }.plan()?;
    let ids: HashMap<String, LayerId> = dense
        .layers()
        .enumerate()
        .map(|(i, l)| (format!("{}/{}", l.member, l.name), LayerId(i)))
        .collect();
    let example = dense
        .layers()
        .nth(1)
        .map_or(String::new(), |l| format!(", e.g. \"{}/{}\"", l.member, l.name));
    let id = |name: &String| {
        let unknown =
            || anyhow!("{}: there is no layer '{name}'; write MEMBER/NAME{example}", place());
        ids.get(name).copied().ok_or_else(unknown)
    };
    let sets = sets.iter().map(|set| set.iter().map(id).collect()).collect::<Result<_>>()?;
    Ok(Clustering::Explicit(sets))
}
