//! Statistics of search and refinement, and their file `statistics.safetensors`, from which the
//! decisions can be made again without training.
//!
//! | tensor | type | contents |
//! |---|---|---|
//! | `search.pairs` | U32 `[n, 2]` | layers of every pair |
//! | `search.dots` | F64 `[n]` | ⟨dWᵢ, dWⱼ⟩ over the corner that both layers have |
//! | `search.squares` | F64 `[n, 2]` | \|dWᵢ\|² and \|dWⱼ\|² over that corner |
//! | `search.coefficients.L` | F64 `[K]` | mean α of layer L, instead of pairs, for k-means |
//! | `refine.S.L` | F32 `[rows, columns, K]` | dL/dα of SuperWeight S through layer L |
//!
//! The metadata of the file states what was compared (`search.compared`) and contains the plans
//! whose ids number layers and SuperWeights (`search.plan`, `refine.plan`). dL/dW is as large as
//! the networks and is not kept.

use std::path::Path;

use superweight_plan::{LayerId, SharingPlan, SuperWeightId};

use super::SearchError;
use super::coefficients::{CoefficientGradient, refinement_candidates};
use super::pairs::PairStatistic;
use crate::recipe::Similarity;
use crate::run::{Disk, Tensor, Tensors, safetensors};

/// Version of the file that this program writes and reads.
const VERSION: &str = "1";

/// Statistics that a run has gathered so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Statistics of the search; `None` until it has ended.
    pub search: Option<SearchStatistics>,
    /// Statistics of refinement; `None` until its epoch has ended.
    pub refine: Option<RefineStatistics>,
}

/// Statistics from which clusters are decided.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchStatistics {
    /// Plan of the search, whose ids number the layers.
    pub plan: SharingPlan,
    /// Comparison of the layers.
    pub compared: Compared,
}

/// Quantity by which layers were compared, with its values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Compared {
    /// Gradients summed over an epoch (Eq. 2), for all pairs of layers.
    Gradients(Vec<PairStatistic>),
    /// Composed weights, for all pairs of layers.
    Weights(Vec<PairStatistic>),
    /// Mean coefficients of each layer, for k-means.
    Coefficients(Vec<(LayerId, Vec<f64>)>),
}

/// Statistics from which coefficient groups are decided.
#[derive(Clone, Debug, PartialEq)]
pub struct RefineStatistics {
    /// Plan that was trained so far, whose ids number SuperWeights and layers.
    pub plan: SharingPlan,
    /// Gradients of all [`refinement_candidates`] of the plan.
    pub gradients: Vec<CoefficientGradient>,
}

impl Statistics {
    /// Writes the file. A crash leaves the old file or the new one, never a part.
    pub fn save(&self, disk: &Disk, path: &Path) -> Result<(), SearchError> {
        Ok(safetensors::save(disk, path, &self.to_tensors())?)
    }

    /// Reads a file and checks it.
    ///
    /// # Errors
    /// If the file cannot be read, or is not complete for the plans it contains.
    pub fn load(path: &Path) -> Result<Self, SearchError> {
        Self::from_tensors(&safetensors::load(path)?)
    }

    /// The statistics as named tensors.
    pub fn to_tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        let mut set =
            |key: &str, text: &str| tensors.metadata.insert(key.to_owned(), text.to_owned());
        set("superweight.statistics", VERSION);
        if let Some(search) = &self.search {
            set("search.compared", search.compared.word());
            set("search.plan", &search.plan.to_json());
        }
        if let Some(refine) = &self.refine {
            set("refine.plan", &refine.plan.to_json());
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

    /// Reads statistics from named tensors.
    ///
    /// # Errors
    /// If the version is not known, or a tensor that belongs to one of the plans is missing or has
    /// another shape or values that cannot be.
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
                        let other = other.map_or("missing".to_owned(), |word| format!("'{word}'"));
                        let expected = "expected gradients, weights or coefficients";
                        return Err(wrong(format!("search.compared is {other}, {expected}")));
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
                let gradients = refinement_candidates(&plan)
                    .into_iter()
                    .map(read)
                    .collect::<Result<_, SearchError>>()?;
                Some(RefineStatistics { plan, gradients })
            }
        };
        Ok(Self { search, refine })
    }
}

impl Compared {
    /// Word for the quantity, as in the file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Gradients(_) => "gradients",
            Self::Weights(_) => "weights",
            Self::Coefficients(_) => "coefficients",
        }
    }

    /// Whether this is the quantity that a similarity compares.
    pub fn matches(&self, similarity: Similarity) -> bool {
        match similarity {
            Similarity::Gradient => matches!(self, Self::Gradients(_)),
            Similarity::Weight => matches!(self, Self::Weights(_)),
            Similarity::Coefficient => matches!(self, Self::Coefficients(_)),
        }
    }
}

/// Name of the tensor with the mean coefficients of a layer.
fn mean_name(layer: LayerId) -> String {
    format!("search.coefficients.{layer}")
}

/// Name of the tensor with dL/dα of a SuperWeight through a layer.
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
    let pair = |n: usize| {
        let [a, b] = [layers[2 * n], layers[2 * n + 1]].map(|layer| LayerId(layer as usize));
        let squares = [squares[2 * n], squares[2 * n + 1]];
        let sound = dots[n].is_finite()
            && squares.iter().all(|square| square.is_finite() && *square >= 0.0);
        if !sound {
            let problem = format!(
                "search.dots or search.squares of layers {a} and {b} are not finite or are negative"
            );
            return Err(SearchError::Statistics { problem });
        }
        Ok(PairStatistic { a, b, dot: dots[n], squares })
    };
    (0..expected).map(pair).collect()
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
