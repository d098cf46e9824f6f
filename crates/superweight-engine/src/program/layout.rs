//! Layout: offsets of every tensor that outlives a run, by name.
//!
//! A layout is built once from all graphs and batch sizes that run together. It never changes,
//! because programs contain its offsets and captured CUDA graphs its addresses. A name stands for
//! one tensor. So the training and evaluation programs of a network share weights, members share
//! images, and a loss can use another graph's output as its target.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::settings::Settings;
use crate::device::Device;
use crate::device::buffer::{ALIGNMENT, Element, METRICS_LEN, Region, Space};
use crate::error::Error;
use crate::graph::ops::Op;
use crate::graph::ops::loss::Target;
use crate::graph::{Graph, Slot, SlotKind};

/// Name of the control words in the input/output storage.
pub(crate) const CONTROL: &str = "control";

/// Parameters start at multiples of this many elements.
const PARAMETER_ALIGNMENT: usize = ALIGNMENT / 4;

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    element: Element,
    /// Elements per image, or in total if there is one row.
    row: usize,
    rows: usize,
}

impl Entry {
    fn len(&self) -> usize {
        self.row * self.rows
    }
}

/// Tensors of one storage, in the order they were added.
#[derive(Clone, Debug, Default)]
struct Table {
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
}

impl Table {
    fn add(&mut self, space: Space, entry: Entry) -> Result<(), Error> {
        if let Some(&at) = self.index.get(&entry.name) {
            let present = &mut self.entries[at];
            if present.row != entry.row || present.element != entry.element {
                let (existing, requested) = (present.row, entry.row);
                return Err(Error::Conflict {
                    space: space.name(),
                    name: entry.name,
                    existing,
                    requested,
                });
            }
            present.rows = present.rows.max(entry.rows);
            return Ok(());
        }
        self.index.insert(entry.name.clone(), self.entries.len());
        self.entries.push(entry);
        Ok(())
    }
}

/// Collects the tensors of a [`Layout`].
#[derive(Clone, Debug, Default)]
pub struct LayoutBuilder {
    parameters: Table,
    state: Table,
    io: Table,
}

impl LayoutBuilder {
    /// Starts without tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a trainable tensor that no graph reads directly, such as a bank of templates.
    pub fn parameter(&mut self, name: impl Into<String>, len: usize) -> Result<&mut Self, Error> {
        let entry = Entry { name: name.into(), element: Element::Float, row: len, rows: 1 };
        self.parameters.add(Space::Parameters, entry)?;
        Ok(self)
    }

    /// Adds every tensor that `graph` names, for this batch size and mode.
    pub fn graph(&mut self, graph: &Graph, settings: &Settings) -> Result<&mut Self, Error> {
        for slot in &graph.slots {
            let (space, table) = match slot.kind {
                SlotKind::Statistic => (Space::State, &mut self.state),
                _ => (Space::Parameters, &mut self.parameters),
            };
            let element = element_of(slot.kind);
            table
                .add(space, Entry { name: slot.name.clone(), element, row: slot.len(), rows: 1 })?;
        }
        for entry in io_entries(graph, settings) {
            self.io.add(Space::Io, entry)?;
        }
        Ok(self)
    }

    /// Computes the layout, with element widths of `device`. Weights precede all other parameters,
    /// because a device may store them in another width.
    pub fn finish<D: Device>(&self, device: &D) -> Layout {
        let place_all = |table: &Table, space| {
            let (mut end, mut weights) = (0, 0);
            let place = |entry: &Entry| {
                let region =
                    Region { space, offset: end, len: entry.len(), element: entry.element };
                end = (end + entry.len()).next_multiple_of(PARAMETER_ALIGNMENT);
                if entry.element == Element::Weight {
                    weights = end;
                }
                (entry.name.clone(), region)
            };
            let is_weight = |entry: &&Entry| entry.element == Element::Weight;
            let (first, last): (Vec<_>, Vec<_>) = table.entries.iter().partition(is_weight);
            let regions: Vec<_> = first.into_iter().chain(last).map(place).collect();
            (Places::new(regions), end, weights)
        };
        let (parameters, parameter_len, weight_len) =
            place_all(&self.parameters, Space::Parameters);
        let (state, statistic_len, _) = place_all(&self.state, Space::State);
        let mut io_bytes = 0;
        let place = |entry: &Entry| {
            let region = Region {
                space: Space::Io,
                offset: io_bytes,
                len: entry.len(),
                element: entry.element,
            };
            let bytes = entry.len() * device.element_bytes(entry.element);
            io_bytes = (io_bytes + bytes).next_multiple_of(ALIGNMENT);
            (entry.name.clone(), region)
        };
        let io = Places::new(self.io.entries.iter().map(place).collect());
        let mut hasher = DefaultHasher::new();
        for (name, region) in
            [&parameters, &state, &io].into_iter().flat_map(|places| &places.ordered)
        {
            (name, region.offset, region.len, region.element).hash(&mut hasher);
        }
        let fingerprint = hasher.finish();
        Layout {
            parameters,
            state,
            io,
            parameter_len,
            weight_len,
            statistic_len,
            io_bytes,
            fingerprint,
        }
    }
}

#[derive(Clone, Debug)]
struct Places {
    ordered: Vec<(String, Region)>,
    index: HashMap<String, usize>,
}

impl Places {
    fn new(ordered: Vec<(String, Region)>) -> Self {
        let index = ordered.iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
        Self { ordered, index }
    }

    fn get(&self, space: Space, name: &str) -> Result<Region, Error> {
        let found = self.index.get(name).map(|&i| self.ordered[i].1);
        found.ok_or_else(|| Error::UnknownTensor { space: space.name(), name: name.to_owned() })
    }
}

/// Offsets of every tensor that outlives a run. Built by [`LayoutBuilder`].
#[derive(Clone, Debug)]
pub struct Layout {
    parameters: Places,
    state: Places,
    io: Places,
    /// Elements of the flat parameter storage, including gaps. Gradients and momentum have the same
    /// length.
    pub parameter_len: usize,
    /// Elements at the start of the parameter storage that are weights, including gaps.
    pub(crate) weight_len: usize,
    /// Elements of the running statistics.
    pub statistic_len: usize,
    /// Bytes of inputs, targets, outputs and metrics.
    pub io_bytes: usize,
    /// Hash of all names and offsets. Programs remember the layout they were compiled with.
    pub(crate) fingerprint: u64,
}

impl Layout {
    /// Region of a trainable tensor.
    pub fn parameter(&self, name: &str) -> Result<Region, Error> {
        self.parameters.get(Space::Parameters, name)
    }

    /// Region of the gradient of a trainable tensor.
    pub fn gradient(&self, name: &str) -> Result<Region, Error> {
        let region = self.parameters.get(Space::Gradients, name)?;
        Ok(Region { space: Space::Gradients, ..region })
    }

    /// Region of a running statistic.
    pub fn statistic(&self, name: &str) -> Result<Region, Error> {
        self.state.get(Space::State, name)
    }

    /// Region of an input, target, output, loss or external gradient.
    pub fn io(&self, name: &str) -> Result<Region, Error> {
        self.io.get(Space::Io, name)
    }

    /// All trainable tensors in storage order.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, Region)> {
        self.parameters.ordered.iter().map(|(name, region)| (name.as_str(), *region))
    }

    /// All running statistics in storage order.
    pub fn statistics(&self) -> impl Iterator<Item = (&str, Region)> {
        self.state.ordered.iter().map(|(name, region)| (name.as_str(), *region))
    }

    pub(crate) fn slot_region(&self, slot: &Slot) -> Region {
        let region = match slot.kind {
            SlotKind::Statistic => self.statistic(&slot.name),
            _ => self.parameter(&slot.name),
        };
        region.expect("the layout was checked to hold every slot")
    }

    /// Fails if the layout lacks a tensor of the graph or has too little room for it.
    pub(crate) fn check(&self, graph: &Graph, settings: &Settings) -> Result<(), Error> {
        for slot in &graph.slots {
            let (space, region) = match slot.kind {
                SlotKind::Statistic => (Space::State, self.statistic(&slot.name)?),
                _ => (Space::Parameters, self.parameter(&slot.name)?),
            };
            if region.len != slot.len() {
                let (name, existing, requested) = (slot.name.clone(), region.len, slot.len());
                return Err(Error::Conflict { space: space.name(), name, existing, requested });
            }
        }
        for entry in io_entries(graph, settings) {
            let (needed, region) = (entry.len(), self.io(&entry.name)?);
            if region.len < needed || region.element != entry.element {
                return Err(Error::LayoutTooSmall { name: entry.name, needed, placed: region.len });
            }
        }
        Ok(())
    }
}

fn element_of(kind: SlotKind) -> Element {
    match kind {
        SlotKind::Weight => Element::Weight,
        SlotKind::Vector | SlotKind::Statistic => Element::Float,
    }
}

/// Tensors of a graph in the input/output storage.
fn io_entries(graph: &Graph, settings: &Settings) -> Vec<Entry> {
    let entry =
        |name: &str, element, row, rows| Entry { name: name.to_owned(), element, row, rows };
    let batch = settings.batch;
    let mut all = vec![entry(CONTROL, Element::Index, 2, 1)];
    for (node, output) in graph.nodes.iter().zip(&graph.outputs) {
        let len = node.shape.len();
        let input_len = node.inputs.first().map_or(0, |input| graph.node(*input).shape.len());
        match &node.op {
            Op::Input(_) => {
                all.push(entry(&node.name, Element::Activation, len, batch));
                if settings.backward && settings.input_gradients {
                    let name = format!("{}.gradient", node.name);
                    all.push(entry(&name, Element::Activation, len, batch));
                }
            }
            Op::CrossEntropy(loss) => {
                all.push(entry(&node.name, Element::Float, METRICS_LEN, 1));
                all.push(match &loss.options.target {
                    Target::Classes(name) => entry(name, Element::Index, loss.options.heads, batch),
                    Target::Probabilities(name) => {
                        entry(name, Element::Activation, input_len, batch)
                    }
                });
            }
            Op::ExternalGradient(_) if settings.backward => {
                all.push(entry(&node.name, Element::Activation, input_len, batch));
            }
            _ => {}
        }
        if let Some(name) = output {
            all.push(entry(name, Element::Activation, len, batch));
        }
    }
    all
}
