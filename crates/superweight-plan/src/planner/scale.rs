//! How large templates, coefficients and factors are when training starts, which is also how fast each of them learns.
//!
//! Layer i's weight is fᵢ·Σ αT. A gradient step changes a number in proportion to what it is multiplied by, so the same
//! starting weights can be had with quick templates and slow coefficients or the other way round:
//!
//! | [`Scale`] | T ~ | a row of α has length | fᵢ |
//! |---|---|---|---|
//! | even | N(0, τ²), τ = He·(uses/K)^¼ | ℓ = He·(K·D)^¼ | Heᵢ/(τℓ) |
//! | balanced | N(0, (He/s)²), s = √(K/uses) | 1 | s·Heᵢ/He |
//! | he | N(0, 1) | 1 | Heᵢ |
//! | released | N(0, 2/9) | 1 | 1 |
//! | corner | N(0, He²) | 1 | 1 |
//!
//! With patterns (Kronecker) a weight is fᵢ·Σ gₖ·pattern·T: "a row of α" above is a row of patterns, gₖ starts as ± the set's
//! gain, which divides fᵢ; it is 1 but on the even scale, where the gain is He·(N/K)^¼ for the N numbers that α makes in the
//! mean, and ℓ = He·(K·D·uses/rows)^¼, since layers share a row.
//!
//! Templates that are looked at in a bank start with the bank's deviation, where uses/K is the weights that a number of the bank
//! makes; a row of α is of one layer, whose He it has; where they are stretched, which narrows their deviation, fᵢ makes up for it.
//!
//! Here, D numbers in a template, `uses` cells of all layers on the set, Heᵢ = √(2/fan-in) and He that of the set's largest
//! fan-in. A composed classifier starts with it too, √6 times as large as a dense one, which is uniform in ±1/√inputs: made as small as that,
//! a test's network diverged (likely because factors learn the faster the smaller they start). K = 1 has no α. But for the last
//! two every weight starts with He's deviation: *released* is the authors' code; on *corner*, and with K = 1, a narrow layer is
//! the corner of a wide one, number for number, as in Slimmable Networks.
//!
//! *Even.* Of a plain layer with weights w and gradient g a step changes the share |g|/|w| = |g|/(√(uses·D)·He). Where the
//! gradients of cells have nothing in common, |dT| = fℓ·|g| and |dα| = fτ√K·|g|, of lengths |T| = √(K·D)·τ and |α| = √uses·ℓ.
//! Both shares are the plain one for the τ and ℓ above, of coefficients that layers do not share (those of a grid that they do
//! learn √(uses/rows) times as fast). *Balanced* asks that a template's step moves a weight as far
//! as a plain step would if the gradients of all cells were the same, which they are far from being: templates and
//! coefficients then learn slower than plain weights, the more so the smaller budget and blocks are. A dense layer
//! (K = uses = 1) is exactly the plain network in both, but for classifiers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::stretch;
use crate::ids::LayerId;
use crate::plan::{PlannedLayer, SetCost, SharingPlan, TemplateSet, Tiling};

/// The sizes that numbers start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Templates, coefficients and plain weights learn equally fast.
    Even,
    /// A template's step moves a weight as a plain step would, were all gradients alike.
    Balanced,
    /// T ~ N(0, 1) and He's factor for every layer.
    He,
    /// As the authors' code has it: the same for every layer.
    Released,
    /// What is shared is the same number in every layer: a narrow one is the corner of a wide one.
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

/// What a set starts with: deviation of its templates, length of a row of coefficients or patterns, size of a gain.
struct Start {
    std: f64,
    row_norm: f64,
    gain: f64,
}

impl Scale {
    /// What is taken where nobody says: on the balanced scale coefficients of blocks hardly learn (those of patterns at 0.06 of the
    /// plain speed, `docs/notes/reproduction.md`).
    pub fn default_for(tiling: Tiling) -> Self {
        match tiling {
            Tiling::Grid { .. } | Tiling::Kronecker { .. } | Tiling::Stretched => Self::Even,
            Tiling::Dense | Tiling::Nested => Self::Balanced,
            // Factors start around one.
            Tiling::RankOne => Self::Corner,
        }
    }

    /// `made` weights by every number of the templates.
    fn start(self, set: &TemplateSet, cost: &SetCost, he: f64, made: f64) -> Start {
        let (k, uses, numbers) = (set.templates as f64, cost.uses as f64, set.block_len() as f64);
        let plain = Start { std: 1.0, row_norm: 1.0, gain: 1.0 };
        match self {
            Scale::Even => {
                let start = Start { std: he * made.powf(0.25), ..plain };
                match cost.pattern {
                    _ if set.templates == 1 => start,
                    0 => Start { row_norm: he * (k * numbers).powf(0.25), ..start },
                    rows => Start {
                        row_norm: he * (k * numbers * uses / rows as f64).powf(0.25),
                        gain: he * (uses * numbers / cost.own_rows as f64 / k).powf(0.25),
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

/// Fills the factor of every tile, and what every set starts with.
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
        if let Some(numbers) = plan.clusters[set.cluster.0].bank {
            let (he, weights) = of_bank[set.cluster.0];
            set.std = scale.start(set, cost, he, weights as f64 / numbers as f64).std;
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
