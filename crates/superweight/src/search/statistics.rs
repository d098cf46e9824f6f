//! `statistics.safetensors`: what search and refinement decided from, so that they can decide again without training.
//!
//! | tensor | kind | is |
//! |---|---|---|
//! | `search.pairs` | U32 `[n, 2]` | layers of every pair |
//! | `search.dots` | F64 `[n]` | ⟨dWᵢ, dWⱼ⟩ over the corner both have |
//! | `search.squares` | F64 `[n, 2]` | \|dWᵢ\|², \|dWⱼ\|² over it |
//! | `search.coefficients.L` | F64 `[K]` | mean α of layer L, in place of pairs where those are clustered |
//! | `refine.S.L` | F32 `[rows, columns, K]` | dL/dα of SuperWeight S that layer L refinement_candidates for |
//!
//! The strings of the file say what was compared and hold the plans that layers and SuperWeights are numbered by
//! (`search.plan`, `refine.plan`). dL/dW itself is as large as the networks and is not kept.

use std::path::Path;

use superweight_plan::{LayerId, SharingPlan, SuperWeightId};

use super::SearchError;
use super::coefficients::{CoefficientGradient, refinement_candidates};
use super::pairs::PairStatistic;
use crate::recipe::Similarity;
use crate::run::{Disk, Tensor, Tensors, safetensors};

const VERSION: &str = "1";

/// What was gathered so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// By the search, once it is done.
    pub search: Option<SearchStatistics>,
    /// Before refinement, once it is done.
    pub refine: Option<RefineStatistics>,
}

/// What clusters are decided from.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchStatistics {
    /// The plan of the search, by which layers are numbered.
    pub plan: SharingPlan,
    /// What was found out.
    pub compared: Compared,
}

/// What layers were compared by.
#[derive(Clone, Debug, PartialEq)]
pub enum Compared {
    /// Their gradients, summed over an epoch (Eq. 2).
    Gradients(Vec<PairStatistic>),
    /// Their weights.
    Weights(Vec<PairStatistic>),
    /// Their mean coefficients, to be clustered by k-means.
    Coefficients(Vec<(LayerId, Vec<f64>)>),
}

/// What coefficient groups are decided from.
#[derive(Clone, Debug, PartialEq)]
pub struct RefineStatistics {
    /// The plan that was trained so far, by which SuperWeights and layers are numbered.
    pub plan: SharingPlan,
    /// One for every layer of every SuperWeight that has something to decide.
    pub gradients: Vec<CoefficientGradient>,
}

impl Statistics {
    /// Writes the file whole or not at all.
    pub fn save(&self, disk: &Disk, path: &Path) -> Result<(), SearchError> {
        Ok(safetensors::save(disk, path, &self.to_tensors())?)
    }

    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, SearchError> {
        Self::from_tensors(&safetensors::load(path)?)
    }

    /// As named numbers.
    pub fn to_tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        let mut say =
            |key: &str, text: &str| tensors.metadata.insert(key.to_owned(), text.to_owned());
        say("superweight.statistics", VERSION);
        if let Some(search) = &self.search {
            say("search.compared", search.compared.word());
            say("search.plan", &search.plan.to_json());
        }
        if let Some(refine) = &self.refine {
            say("refine.plan", &refine.plan.to_json());
        }
        match self.search.as_ref().map(|search| &search.compared) {
            Some(Compared::Gradients(pairs) | Compared::Weights(pairs)) => {
                add_pairs(&mut tensors, pairs)
            }
            Some(Compared::Coefficients(means)) => {
                for (layer, mean) in means {
                    tensors.insert(&mean_name(*layer), Tensor::new(&[mean.len()], mean.clone()));
                }
            }
            None => {}
        }
        for gradient in self.refine.iter().flat_map(|refine| &refine.gradients) {
            let name = gradient_name(gradient.superweight, gradient.layer);
            tensors.insert(&name, Tensor::new(&gradient.shape, gradient.values.clone()));
        }
        tensors
    }

    /// From named numbers; everything that the plans in it ask for must be there.
    pub fn from_tensors(tensors: &Tensors) -> Result<Self, SearchError> {
        let wrong = |problem: String| SearchError::Statistics { problem };
        let text = |key: &str| tensors.metadata.get(key).map(String::as_str);
        match text("superweight.statistics") {
            Some(VERSION) => {}
            Some(other) => {
                let what = format!("version {other}, this program reads version {VERSION}");
                return Err(wrong(format!("{what}: use the program that wrote it")));
            }
            None => {
                return Err(wrong(
                    "the file has no statistics of a search or refinement".to_owned(),
                ));
            }
        }
        let search = match text("search.plan") {
            None => None,
            Some(plan) => {
                let plan = SharingPlan::from_json(plan)?;
                let compared = match text("search.compared") {
                    Some("gradients") => Compared::Gradients(read_pairs(tensors, &plan)?),
                    Some("weights") => Compared::Weights(read_pairs(tensors, &plan)?),
                    Some("coefficients") => Compared::Coefficients(read_means(tensors, &plan)?),
                    other => {
                        let other = other.unwrap_or("nothing");
                        return Err(wrong(format!("search.compared says '{other}'")));
                    }
                };
                Some(SearchStatistics { plan, compared })
            }
        };
        let refine = match text("refine.plan") {
            None => None,
            Some(plan) => {
                let plan = SharingPlan::from_json(plan)?;
                let read = |(superweight, layer, shape): (SuperWeightId, LayerId, [usize; 3])| {
                    let values =
                        tensors.expect::<f32>(&gradient_name(superweight, layer), &shape)?.to_vec();
                    Ok(CoefficientGradient { superweight, layer, shape, values })
                };
                let gradients =
                    refinement_candidates(&plan).into_iter().map(read).collect::<Result<_, SearchError>>()?;
                Some(RefineStatistics { plan, gradients })
            }
        };
        Ok(Self { search, refine })
    }
}

impl Compared {
    /// In one word, that of the file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Gradients(_) => "gradients",
            Self::Weights(_) => "weights",
            Self::Coefficients(_) => "coefficients",
        }
    }

    /// Whether a strategy that compares so can use it.
    pub fn is(&self, similarity: Similarity) -> bool {
        match similarity {
            Similarity::Gradient => matches!(self, Self::Gradients(_)),
            Similarity::Weight => matches!(self, Self::Weights(_)),
            Similarity::Coefficient => matches!(self, Self::Coefficients(_)),
        }
    }
}

fn mean_name(layer: LayerId) -> String {
    format!("search.coefficients.{layer}")
}

fn gradient_name(superweight: SuperWeightId, layer: LayerId) -> String {
    format!("refine.{superweight}.{layer}")
}

fn add_pairs(tensors: &mut Tensors, pairs: &[PairStatistic]) {
    let layers: Vec<u32> =
        pairs.iter().flat_map(|pair| [pair.a.0 as u32, pair.b.0 as u32]).collect();
    let squares: Vec<f64> = pairs.iter().flat_map(|pair| pair.squares).collect();
    tensors.insert("search.pairs", Tensor::new(&[pairs.len(), 2], layers));
    tensors.insert(
        "search.dots",
        Tensor::new(&[pairs.len()], pairs.iter().map(|pair| pair.dot).collect()),
    );
    tensors.insert("search.squares", Tensor::new(&[pairs.len(), 2], squares));
}

fn read_pairs(tensors: &Tensors, plan: &SharingPlan) -> Result<Vec<PairStatistic>, SearchError> {
    let expected: usize =
        plan.clusters.iter().map(|c| c.layers.len() * (c.layers.len() - 1) / 2).sum();
    let layers = tensors.expect::<u32>("search.pairs", &[expected, 2])?;
    let dots = tensors.expect::<f64>("search.dots", &[expected])?;
    let squares = tensors.expect::<f64>("search.squares", &[expected, 2])?;
    let of = |n: usize| {
        let [a, b] = [layers[2 * n], layers[2 * n + 1]].map(|layer| LayerId(layer as usize));
        let squares = [squares[2 * n], squares[2 * n + 1]];
        let sound = dots[n].is_finite()
            && squares.iter().all(|square| square.is_finite() && *square >= 0.0);
        if !sound {
            let problem =
                format!("search.dots or search.squares of layers {a} and {b} are no such numbers");
            return Err(SearchError::Statistics { problem });
        }
        Ok(PairStatistic { a, b, dot: dots[n], squares })
    };
    (0..expected).map(of).collect()
}

fn read_means(
    tensors: &Tensors,
    plan: &SharingPlan,
) -> Result<Vec<(LayerId, Vec<f64>)>, SearchError> {
    let mut means = vec![];
    for (layer, k) in super::means::clustered(plan)? {
        means.push((layer, tensors.expect::<f64>(&mean_name(layer), &[k])?.to_vec()));
    }
    Ok(means)
}
