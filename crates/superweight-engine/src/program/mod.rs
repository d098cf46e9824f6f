//! Programs: graphs compiled to kernel calls over buffers with addresses. A program is compiled
//! once and run many times.
//!
//! ```text
//! graph + settings ─► Emitter ─► calls over buffers ─► device.prepare ─► memory plan ─► Program
//! ```
//!
//! All programs of a device may share one arena, as large as the largest plan. A program assumes
//! nothing about the arena's contents. Data that outlives a run is in the other storages.

mod arena;
mod emit;
mod emitter;
mod layout;
mod settings;

pub use arena::MemoryPlan;
pub use layout::{Layout, LayoutBuilder};
pub use settings::{NormMode, Settings};

pub(crate) use layout::CONTROL;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::buffer::{ALIGNMENT, Access, BufferId, Element, Region, Space};
use crate::device::{Device, Schedule, Step};
use crate::error::Error;
use crate::graph::check::LARGEST;
use crate::graph::ops::operation::BatchContext;
use crate::graph::{Graph, Node};
use arena::Demand;
use emit::emit;
use emitter::{Buffer, Emitted, Emitter};

/// A graph compiled for one device, batch size and mode.
#[derive(Debug)]
pub struct Program<D: Device> {
    graph: Graph,
    settings: Settings,
    schedule: Schedule<D::Kernel>,
    plan: MemoryPlan,
    layout_fingerprint: u64,
    /// Unique number of the program. Frozen weights refer to it.
    id: u64,
}

static PROGRAMS: AtomicU64 = AtomicU64::new(0);

impl<D: Device> Program<D> {
    /// Compiles `graph`. The layout must contain this graph at this batch size or a larger one.
    pub fn compile(
        device: &D,
        graph: &Graph,
        settings: &Settings,
        layout: &Layout,
    ) -> Result<Self, Error> {
        check_batch(graph, settings)?;
        layout.check(graph, settings)?;
        let mut emitter = Emitter::new(graph, layout, *settings);
        emit(&mut emitter);
        let (emitted, mut buffers) = (emitter.calls, emitter.buffers);

        let mut steps = Vec::with_capacity(emitted.len());
        for Emitted { call, node, backward } in emitted {
            let (kernel, scratch_bytes) = device.prepare(&call)?;
            let scratch = (scratch_bytes > 0).then(|| {
                buffers.push(Buffer::Arena {
                    element: Element::Float,
                    len: scratch_bytes.div_ceil(4),
                });
                BufferId(buffers.len() - 1)
            });
            steps.push(Step { call, kernel, scratch, node, backward });
        }

        let (regions, plan) = place(device, &buffers, &steps);
        let (graph, layout_fingerprint) = (graph.clone(), layout.fingerprint);
        let id = PROGRAMS.fetch_add(1, Ordering::Relaxed);
        let program = Self {
            graph,
            settings: *settings,
            schedule: Schedule { steps, regions },
            plan,
            layout_fingerprint,
            id,
        };
        program.assert_no_aliasing(device);
        Ok(program)
    }

    /// Settings that the program was compiled with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Prepared calls in execution order.
    pub fn steps(&self) -> &[Step<D::Kernel>] {
        &self.schedule.steps
    }

    /// The executable form that devices run.
    pub(crate) fn schedule(&self) -> &Schedule<D::Kernel> {
        &self.schedule
    }

    /// Graph that the program was compiled from.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Graph node that a step belongs to.
    pub fn node(&self, step: &Step<D::Kernel>) -> &Node {
        self.graph.node(step.node)
    }

    /// Location of a buffer.
    pub fn region(&self, buffer: BufferId) -> Region {
        self.schedule.region(buffer)
    }

    /// Arena memory that the program needs. It is known before the first run.
    pub fn plan(&self) -> &MemoryPlan {
        &self.plan
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn layout_fingerprint(&self) -> u64 {
        self.layout_fingerprint
    }

    /// Panics if a call writes to a buffer that overlaps another operand. Kernels rely on this.
    /// In-place calls name the buffer once.
    fn assert_no_aliasing(&self, device: &D) {
        let extent = |buffer: BufferId| {
            let region = self.region(buffer);
            let unit = match region.space {
                Space::Arena | Space::Io => device.element_bytes(region.element),
                _ => 1,
            };
            (region.space, region.offset, region.offset + region.len * unit)
        };
        for step in &self.schedule.steps {
            let mut operands = step.call.operands();
            operands.extend(step.scratch.map(|scratch| (scratch, Access::Write)));
            for (i, (written, access)) in operands.iter().enumerate() {
                let (space, start, end) = extent(*written);
                for (j, (other, _)) in operands.iter().enumerate() {
                    let (other_space, other_start, other_end) = extent(*other);
                    let overlap = space == other_space && start < other_end && other_start < end;
                    assert!(
                        i == j || *access == Access::Read || !overlap,
                        "{} of node `{}` overwrites one of its operands",
                        step.call.name(),
                        self.node(step).name()
                    );
                }
            }
        }
    }
}

fn check_batch(graph: &Graph, settings: &Settings) -> Result<(), Error> {
    let batch = settings.batch;
    if batch == 0 {
        return Err(Error::EmptyBatch { graph: graph.name.clone() });
    }
    if settings.backward && !graph.nodes.iter().any(|node| node.op.operation().is_loss()) {
        return Err(Error::NoLoss { graph: graph.name.clone() });
    }
    let (backward, batch_statistics) = (settings.backward, settings.norm != NormMode::Eval);
    let context = BatchContext { batch, batch_statistics, backward };
    for node in &graph.nodes {
        if node.shape.len().checked_mul(batch).is_none_or(|len| len > LARGEST) {
            return Err(Error::TooLarge { node: node.name.clone(), shape: node.shape, batch });
        }
        let input = graph.first_input_shape(node);
        node.op.operation().check_batch(&node.name, input, context)?;
    }
    Ok(())
}

/// Computes the lifetime of each buffer from the calls, and its location from the memory plan.
fn place<D: Device>(
    device: &D,
    buffers: &[Buffer],
    steps: &[Step<D::Kernel>],
) -> (Vec<Region>, MemoryPlan) {
    let mut life: Vec<Option<(usize, usize)>> = vec![None; buffers.len()];
    for (time, step) in steps.iter().enumerate() {
        let operands = step.call.operands().into_iter().map(|(buffer, _)| buffer);
        for buffer in operands.chain(step.scratch) {
            life[buffer.0] = Some((life[buffer.0].map_or(time, |(first, _)| first), time));
        }
    }
    let demands: Vec<Option<Demand>> = (buffers.iter().zip(&life))
        .map(|(buffer, life)| match (buffer, life) {
            (Buffer::Arena { element, len }, Some((first, last))) => Some(Demand {
                bytes: len * device.element_bytes(*element),
                first: *first,
                last: *last,
            }),
            _ => None,
        })
        .collect();
    let (offsets, plan) = MemoryPlan::place(&demands, ALIGNMENT);
    let regions = (buffers.iter().zip(offsets))
        .map(|(buffer, offset)| match *buffer {
            Buffer::Fixed(region) => region,
            Buffer::Arena { element, len } => Region { space: Space::Arena, offset, len, element },
        })
        .collect();
    (regions, plan)
}
