//! Initial scales of templates, coefficients and factors. They also decide how fast each learns.
//!
//! The weight of layer i is fᵢ·Σ αT. A gradient step changes a parameter in proportion to what it
//! is multiplied by. So the same initial weights can come with fast templates and slow
//! coefficients, or the other way round:
//!
//! | [`Scale`] | T ~ | norm of a row of α | fᵢ |
//! |---|---|---|---|
//! | even | N(0, τ²), τ = He·(uses/K)^¼ | ℓ = He·(K·D)^¼ | Heᵢ/(τℓ) |
//! | balanced | N(0, (He/s)²), s = √(K/uses) | 1 | s·Heᵢ/He |
//! | he | N(0, 1) | 1 | Heᵢ |
//! | released | N(0, 2/9) | 1 | 1 |
//! | corner | N(0, He²) | 1 | 1 |
//!
//! D is the number of parameters in a template, and `uses` the number of cells that the set makes
//! over all layers. Heᵢ = √(2/fan-in) of layer i; He is that of the set's largest fan-in. With K =
//! 1 there is no α. With even, balanced and he every weight starts with He's standard deviation.
//! *Released* is the authors' code. With *corner*, and with K = 1, a narrow layer starts as the
//! corner of a wide one, value for value, as in Slimmable Networks.
//!
//! **Kronecker.** A weight is fᵢ·Σ gₖ·pattern·T. "A row of α" in the table is a row of patterns.
//! Each gₖ starts as plus or minus the set's gain, and the gain divides fᵢ. The gain is 1 except on
//! the even scale: there it is He·(N/K)^¼, for the N weights that one α makes on average, and ℓ =
//! He·(K·D·uses/rows)^¼, since layers share a row.
//!
//! **Banks.** All templates in a bank start with one standard deviation, that of the bank; uses/K
//! is then the number of weights per parameter of the bank. A row of α belongs to one layer and
//! uses that layer's He. Interpolation reduces the standard deviation of a template, and fᵢ makes
//! up for it.
//!
//! **Classifiers.** A composed classifier starts with He's standard deviation, √6 times that of a
//! dense one, which is uniform in ±1/√inputs. With that smaller value the network of a test
//! diverged, probably because factors learn faster the smaller they start.
//!
//! **Even.** In a plain layer with weights w and gradient g, a step changes the weights by the
//! relative amount |g|/|w| = |g|/(√(uses·D)·He). If the gradients of cells are unrelated, |dT| =
//! fℓ·|g| and
//! |dα| = fτ√K·|g|, for templates of norm √(K·D)·τ and coefficients of norm √uses·ℓ. Both relative
//! changes are the plain one for the τ and ℓ above, as long as layers do not share coefficients.
//! (Those that they share, with grid tiling, learn √(uses/rows) times as fast.)
//!
//! **Balanced.** A template's step moves a weight as far as a plain step would if the gradients of
//! all cells were the same. In fact they differ widely, so templates and coefficients learn slower
//! than plain weights, the more so the smaller the budget and the blocks are.
//!
//! A layer in a set with K = uses = 1 is exactly a plain layer on both scales, except a classifier.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::stretch;
use crate::ids::LayerId;
use crate::plan::{PlannedLayer, SetCost, SharingPlan, TemplateSet, Tiling};

/// Initial scales of templates, coefficients and factors.
///
/// They decide how fast each of them learns; the initial weights are equally large for `Even`,
/// `Balanced` and `He`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Scale {
    /// Templates and coefficients learn as fast, relative to their size, as plain weights.
    Even,
    /// A template's step moves a weight as far as a plain step would if the gradients of all cells
    /// were the same.
    Balanced,
    /// Templates start from N(0, 1); every layer has He's standard deviation as its factor.
    He,
    /// Templates start from N(0, 2/9) and all factors are 1, as in the authors' code.
    Released,
    /// All factors are 1 and templates have the scale of the widest layer, so that a narrow layer
    /// starts as the corner of a wide one.
    Corner,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Self::Even => "even",
            Self::Balanced => "balanced",
            Self::He => "he",
            Self::Released => "released",
            Self::Corner => "corner",
        })
    }
}

/// Initial values of one template set: see the fields of [`TemplateSet`].
struct Start {
    std: f64,
    row_norm: f64,
    gain: f64,
}

impl Scale {
    /// Returns the default for a tiling.
    ///
    /// Even for grid, Kronecker and stretched tiling: on the balanced scale their coefficients
    /// hardly learn (with Kronecker tiling at 0.06 of the speed of plain weights,
    /// `docs/reproduction.md`). Balanced for nested tiling. Corner for rank-one tiling.
    pub fn default_for(tiling: Tiling) -> Self {
        match tiling {
            Tiling::Grid { .. } | Tiling::Kronecker { .. } | Tiling::Stretched => Self::Even,
            Tiling::Dense | Tiling::Nested => Self::Balanced,
            // Rank-one factors start around 1.
            Tiling::RankOne => Self::Corner,
        }
    }

    /// Initial values of a set whose largest fan-in gives the standard deviation `he`, with `made`
    /// weights per template parameter.
    fn start(self, set: &TemplateSet, cost: &SetCost, he: f64, made: f64) -> Start {
        let (k, uses, block) = (set.templates as f64, cost.uses as f64, set.block_len() as f64);
        let plain = Start { std: 1.0, row_norm: 1.0, gain: 1.0 };
        match self {
            Scale::Even => {
                let start = Start { std: he * made.powf(0.25), ..plain };
                match cost.pattern {
                    _ if set.templates == 1 => start,
                    0 => Start { row_norm: he * (k * block).powf(0.25), ..start },
                    rows => Start {
                        row_norm: he * (k * block * uses / rows as f64).powf(0.25),
                        gain: he * (uses * block / cost.own_rows as f64 / k).powf(0.25),
                        ..start
                    },
                }
            }
            Scale::Balanced => Start { std: he * made.sqrt(), ..plain },
            Scale::He => plain,
            Scale::Released => Start { std: (2.0 / 9.0f64).sqrt(), ..plain },
            Scale::Corner => Start { std: he, ..plain },
        }
    }
}

/// Sets the factor of every tile and the initial values of every template set.
pub(crate) fn fill(plan: &mut SharingPlan, costs: &[SetCost], scale: Scale) {
    let mut smallest_he = vec![f64::INFINITY; plan.template_sets.len()];
    for layer in &plan.layers {
        for tile in &layer.tiles {
            let he = &mut smallest_he[plan.superweights[tile.superweight.0].set.0];
            *he = he.min(layer.layer.he_std());
        }
    }
    let mut of_bank = vec![(f64::INFINITY, 0); plan.clusters.len()];
    for ((set, cost), he) in plan.template_sets.iter().zip(costs).zip(&smallest_he) {
        let (smallest, weights) = &mut of_bank[set.cluster.0];
        (*smallest, *weights) = (he.min(*smallest), *weights + cost.weights);
    }
    for ((set, cost), &he) in plan.template_sets.iter_mut().zip(costs).zip(&smallest_he) {
        let made = cost.uses as f64 / set.templates as f64;
        let Start { std, row_norm, gain } = scale.start(set, cost, he, made);
        (set.std, set.row_norm, set.gain) = (std, row_norm, gain);
        if let Some(parameters) = plan.clusters[set.cluster.0].bank {
            let (he, weights) = of_bank[set.cluster.0];
            set.std = scale.start(set, cost, he, weights as f64 / parameters as f64).std;
        }
    }
    for layer in (0..plan.layers.len()).map(LayerId) {
        let PlannedLayer { layer, tiles } = &mut plan.layers[layer.0];
        for tile in tiles {
            let set = &plan.template_sets[plan.superweights[tile.superweight.0].set.0];
            let view = set.view.as_ref();
            let narrowing =
                view.map_or(1.0, |view| stretch::narrowing(layer, view.source(set.block)));
            tile.factor = match scale {
                Scale::Released | Scale::Corner => 1.0,
                Scale::Even | Scale::Balanced | Scale::He => {
                    layer.he_std() / (set.std * set.row_norm * set.gain * narrowing)
                }
            };
        }
    }
}
