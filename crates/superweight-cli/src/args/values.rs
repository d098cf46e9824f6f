//! Words on the command line that stand for values of the library.
//!
//! A table maps each word to its value, so that the library's enums need no copies here.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use superweight::engine::cuda::Tuning;
use superweight::plan::{Coefficients, Scale, TilingChoice};
use superweight::recipe::Precision;
use superweight::report::published::ChosenOn;

/// A word, its description in `--help`, and its value.
type Word<T> = (&'static str, &'static str, T);

/// Parser of one of these words.
pub fn one_of<T: Clone + Send + Sync + 'static>(
    words: &'static [Word<T>],
) -> impl TypedValueParser<Value = T> {
    let possible = words.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(possible).map(move |typed| {
        let known = words.iter().find(|(word, ..)| **word == typed);
        known.expect("clap admits the possible values only").2.clone()
    })
}

pub const TILINGS: &[Word<TilingChoice>] = &[
    (
        "auto",
        "Nested if it needs at most half the budget, or if nothing has to be shared; else grid; kronecker where a \
         grid has no room for three templates per set",
        TilingChoice::Auto,
    ),
    ("nested", "A template has the shape of its SuperWeight", TilingChoice::Nested),
    ("grid", "A SuperWeight is a grid of blocks", TilingChoice::Grid),
    (
        "kronecker",
        "A template is a pattern, one parameter per cell of a grid, times a block",
        TilingChoice::Kronecker,
    ),
    (
        "stretched",
        "Shapeshifter Networks: templates are read from a bank of parameters and interpolated to the layer's shape",
        TilingChoice::Stretched,
    ),
    (
        "rank-one",
        "BatchEnsemble: layers of one shape share a matrix, each with its own rank-one factors",
        TilingChoice::RankOne,
    ),
];

pub const COEFFICIENTS: &[Word<Coefficients>] = &[
    (
        "shared",
        "All layers of a SuperWeight, until refinement separates them",
        Coefficients::Shared,
    ),
    ("own", "Every layer by itself", Coefficients::PerLayer),
];

pub const SCALES: &[Word<Scale>] = &[
    (
        "even",
        "Templates and coefficients learn as fast as plain weights, relative to their size",
        Scale::Even,
    ),
    (
        "balanced",
        "A step of a template moves a weight as far as a plain step would if the gradients of all cells were equal",
        Scale::Balanced,
    ),
    (
        "he",
        "Templates start from N(0, 1); every layer has He's standard deviation as its factor",
        Scale::He,
    ),
    (
        "released",
        "Templates start from N(0, 2/9) with factor 1, as in the authors' code",
        Scale::Released,
    ),
    ("corner", "A narrow layer starts as the corner of a wide one", Scale::Corner),
];

pub const BENCH_PRECISIONS: &[Word<Precision>] = &[
    ("bf16", "16 bits with the range of f32, on tensor cores", Precision::Bf16),
    ("f32", "32 bits", Precision::F32),
];

pub const TUNINGS: &[Word<Tuning>] = &[
    ("heuristic", "The first plan that cuDNN proposes: milliseconds", Tuning::Heuristic),
    (
        "quick",
        "All plans that cuDNN proposes, timed: about a second per convolution",
        Tuning::Quick,
    ),
    (
        "full",
        "Also variants of the best plans: up to fifteen seconds per convolution",
        Tuning::Full,
    ),
];

pub const CHOSEN_ON: &[Word<ChosenOn>] = &[
    ("paper", "No images: the settings are the paper's", ChosenOn::Paper),
    ("validation", "Validation images of shorter runs", ChosenOn::Validation),
];
