//! Engines: which algorithm with which knobs, and which of them are allowed.
//!
//! An engine is a family of kernels; its knobs (tile size, tile depth, split-K, cluster shape)
//! select one. Engine and knobs are plain integers that mean the same in every process with this
//! cuDNN version, so a cache stores them. The heuristics propose 50–80 configurations per
//! convolution, most of them one or two engines with different knobs. The best is often not the
//! first: 10.8 → 7.7 ms over WRN-28-10's convolutions (H200, `docs/decisions/0015`).

use cudarc::cudnn::sys;
use serde::{Deserialize, Serialize};
use sys::cudnnBackendHeurMode_t as Mode;
use sys::cudnnBackendNumericalNote_t as Note;

use super::descriptor::{Attribute, Descriptor, Kind, MOST_VALUES};
use super::graph::{Graph, Target};
use crate::cuda::precision::Precision;
use crate::error::CudaError;

/// An engine and its knobs, `(type, value)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub engine: i64,
    pub knobs: Vec<(u32, i64)>,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "engine {}", self.engine)?;
        self.knobs.iter().try_for_each(|(kind, value)| write!(f, " {kind}={value}"))
    }
}

/// Returns true if an engine with these notes keeps the guarantees: the same bits every time, sums
/// in f32, and no algorithm that loses digits. In f32 this also excludes tensor cores, which round
/// operands to tf32.
fn allowed(notes: &[u32], precision: Precision) -> bool {
    const ALWAYS: [Note; 7] = [
        Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
        Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        Note::CUDNN_NUMERICAL_NOTE_FFT,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
    ];
    const IN_F32: [Note; 2] =
        [Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE, Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS];
    let has = |list: &[Note]| list.iter().any(|note| notes.contains(&(*note as u32)));
    let refused = has(&ALWAYS) || (precision == Precision::F32 && has(&IN_F32));
    !refused
}

/// A configuration that cuDNN has accepted.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) choice: Choice,
    pub(super) descriptor: Descriptor,
    _parts: Vec<Descriptor>,
}

impl Config {
    /// Builds the configuration of a choice. Fails if its engine is not allowed.
    pub(super) fn new(
        target: &Target,
        graph: &Graph,
        choice: &Choice,
        precision: Precision,
    ) -> Result<Self, CudaError> {
        let engine = engine(target, graph, choice.engine)?;
        if !allowed(&engine.numerical_notes()?, precision) {
            return Err(CudaError::call(
                choice.to_string(),
                "its numerical notes break the guarantees",
            ));
        }
        let descriptor = target.descriptor(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
        descriptor.set_descriptors(Attribute::CUDNN_ATTR_ENGINECFG_ENGINE, &[&engine])?;
        let knobs = choice
            .knobs
            .iter()
            .map(|&(kind, value)| {
                let knob = target.descriptor(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?;
                knob.set_knob_type(Attribute::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, kind)?;
                knob.set_integers(Attribute::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[value])?;
                knob.finalize("knob")?;
                Ok(knob)
            })
            .collect::<Result<Vec<_>, CudaError>>()?;
        if !knobs.is_empty() {
            let all: Vec<_> = knobs.iter().collect();
            descriptor.set_descriptors(Attribute::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &all)?;
        }
        descriptor.finalize("engine configuration")?;
        Ok(Self {
            choice: choice.clone(),
            descriptor,
            _parts: knobs.into_iter().chain([engine]).collect(),
        })
    }

    /// Reads a configuration that the heuristics proposed. Returns `None` if its engine is not
    /// allowed.
    fn proposed(descriptor: Descriptor, precision: Precision) -> Result<Option<Self>, CudaError> {
        use Attribute::*;
        let parts = descriptor.descriptors(
            CUDNN_ATTR_ENGINECFG_ENGINE,
            Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR,
            1,
        )?;
        let Some(engine) = parts.first() else { return Ok(None) };
        if !allowed(&engine.numerical_notes()?, precision) {
            return Ok(None);
        }
        let mut choice =
            Choice { engine: engine.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?, knobs: vec![] };
        for knob in descriptor.descriptors(
            CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
            Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
            MOST_VALUES,
        )? {
            let kind = knob.knob_type(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)?;
            choice.knobs.push((kind, knob.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?));
        }
        Ok(Some(Self { choice, descriptor, _parts: parts }))
    }
}

fn engine(target: &Target, graph: &Graph, index: i64) -> Result<Descriptor, CudaError> {
    let engine = target.descriptor(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    engine.set_descriptors(Attribute::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[&graph.graph])?;
    engine.set_integers(Attribute::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index])?;
    target.name_to(&engine, None, Some(Attribute::CUDNN_ATTR_ENGINE_DEVICEPROP))?;
    engine.finalize("engine")?;
    Ok(engine)
}

/// A knob of an engine and its range of values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knob {
    pub(super) kind: u32,
    pub(super) least: i64,
    pub(super) most: i64,
    pub(super) stride: i64,
}

/// Knobs of an engine.
pub(super) fn knobs(target: &Target, graph: &Graph, index: i64) -> Result<Vec<Knob>, CudaError> {
    use Attribute::*;
    let engine = engine(target, graph, index)?;
    let count = engine.count(CUDNN_ATTR_ENGINE_KNOB_INFO)?;
    engine
        .descriptors(CUDNN_ATTR_ENGINE_KNOB_INFO, Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, count)?
        .iter()
        .map(|knob| {
            Ok(Knob {
                kind: knob.knob_type(CUDNN_ATTR_KNOB_INFO_TYPE)?,
                least: knob.integer(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE)?,
                most: knob.integer(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE)?,
                stride: knob.integer(CUDNN_ATTR_KNOB_INFO_STRIDE)?.max(1),
            })
        })
        .collect()
}

/// Proposals of one heuristic mode, best first.
pub(super) fn proposals(
    target: &Target,
    graph: &Graph,
    mode: Mode,
    precision: Precision,
) -> Result<Vec<Config>, CudaError> {
    use Attribute::*;
    let heuristic = target.descriptor(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    heuristic.set_descriptors(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[&graph.graph])?;
    heuristic.set_heuristic_mode(CUDNN_ATTR_ENGINEHEUR_MODE, mode)?;
    target.name_to(&heuristic, None, Some(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP))?;
    heuristic.finalize("heuristics")?;
    let count = heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS)?;
    let found = heuristic.descriptors(
        CUDNN_ATTR_ENGINEHEUR_RESULTS,
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        count,
    )?;
    found.into_iter().filter_map(|config| Config::proposed(config, precision).transpose()).collect()
}

/// Heuristic modes in the order of use: the most accurate model, the faster table, and the
/// fallback.
pub(super) const MODES: [Mode; 3] =
    [Mode::CUDNN_HEUR_MODE_B, Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_with_other_rounding_are_rejected() {
        let tensor_core = [Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE as u32];
        assert!(allowed(&tensor_core, Precision::Bf16));
        assert!(!allowed(&tensor_core, Precision::F32));
        let strict = [Note::CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP as u32];
        for precision in [Precision::Bf16, Precision::F32] {
            assert!(allowed(&[], precision) && allowed(&strict, precision));
            for note in [
                Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
                Note::CUDNN_NUMERICAL_NOTE_WINOGRAD,
                Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
            ] {
                assert!(!allowed(&[tensor_core[0], note as u32], precision), "{note:?}");
            }
        }
    }
}
