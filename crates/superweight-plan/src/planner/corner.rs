//! Cuts the corner matrix of a cluster into SuperWeights (paper §2.1.2).
//!
//! A layer with shape `[o, i]` is the corner `[:o, :i]` of its cluster's matrix. Layers are taken
//! from small to large, and each adds the part of its corner that is not covered yet. The covered
//! area is a staircase, with wide rows above narrow ones, and the new part is one rectangle per
//! step. Nested shapes have one step; this gives the paper's two rectangles: extra inputs `[0:o′,
//! i′:i]`, then extra outputs `[o′:o, 0:i]`. Shapes that cross, such as `[8, 2]` and `[2, 8]`, give
//! more.
//!
//! ```text
//!          i′       i
//!     ┌────┬────────┐
//!     │ 0  │   1    │    0: the small layer
//!  o′ ├────┴────────┤    1: extra inputs
//!     │      2      │    2: extra outputs
//!  o  └─────────────┘
//! ```

use crate::plan::{Rect, Span};

/// Rectangles of the SuperWeights of layers with these shapes `(out, in)`.
///
/// The rectangles, clipped to a shape, cover it exactly once. Every rectangle is completely inside
/// at least one shape.
pub fn superweights(shapes: impl IntoIterator<Item = (usize, usize)>) -> Vec<Rect> {
    let mut shapes: Vec<_> = shapes.into_iter().collect();
    shapes.sort_by_key(|&(out, inp)| (out * inp, out, inp));
    shapes.dedup();
    let mut covered = Staircase::default();
    shapes.into_iter().flat_map(|(out, inp)| covered.add(out, inp)).collect()
}

/// A union of corners. Steps are ordered by rising `end` and falling `width`.
#[derive(Default)]
struct Staircase {
    steps: Vec<Step>,
}

/// The rows from the end of the previous step to `end` are covered up to column `width`.
#[derive(Clone, Copy)]
struct Step {
    end: usize,
    width: usize,
}

impl Staircase {
    /// Covers the corner `[:out, :inp]`; returns the rectangles that were not covered before.
    fn add(&mut self, out: usize, inp: usize) -> Vec<Rect> {
        let mut fresh = vec![];
        let mut start = 0;
        let uncovered = Step { end: usize::MAX, width: 0 };
        for step in self.steps.iter().chain([&uncovered]) {
            let rows = Span::new(start, step.end.min(out));
            if step.width < inp && !rows.is_empty() {
                fresh.push(Rect { rows, cols: Span::new(step.width, inp) });
            }
            start = step.end;
        }
        if !fresh.is_empty() {
            let (wide, narrow): (Vec<Step>, Vec<Step>) =
                self.steps.iter().partition(|step| step.width > inp);
            let below = narrow.into_iter().filter(|step| step.end > out);
            self.steps =
                wide.into_iter().chain([Step { end: out, width: inp }]).chain(below).collect();
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(rows: [usize; 2], cols: [usize; 2]) -> Rect {
        Rect { rows: rows.into(), cols: cols.into() }
    }

    #[test]
    fn a_layer_larger_in_both_directions_adds_inputs_then_outputs() {
        let expected = [rect([0, 4], [0, 2]), rect([0, 4], [2, 5]), rect([4, 9], [0, 5])];
        assert_eq!(superweights([(9, 5), (4, 2)]), expected);
    }

    #[test]
    fn a_layer_larger_in_one_direction_adds_one_rectangle() {
        assert_eq!(superweights([(4, 2), (4, 6)]), [rect([0, 4], [0, 2]), rect([0, 4], [2, 6])]);
        assert_eq!(superweights([(4, 2), (7, 2)]), [rect([0, 4], [0, 2]), rect([4, 7], [0, 2])]);
    }

    #[test]
    fn crossing_shapes_add_one_rectangle_per_step() {
        let expected = [
            rect([0, 2], [0, 8]),
            rect([2, 8], [0, 2]),
            rect([2, 4], [2, 5]), // [4, 5] crosses both
        ];
        assert_eq!(superweights([(2, 8), (8, 2), (4, 5)]), expected);
    }

    #[test]
    fn every_shape_is_covered_exactly_once() {
        // Random sets of up to four small shapes, counted position by position.
        let pick = |seed: u64, n: u64| 1 + (crate::rng::mix(seed, n) % 7) as usize;
        for seed in 0..3000 {
            let shapes: Vec<_> =
                (0..1 + seed % 4).map(|n| (pick(seed, 2 * n), pick(seed, 2 * n + 1))).collect();
            let rects = superweights(shapes.iter().copied());
            for &(out, inp) in &shapes {
                let clipped: Vec<_> = rects.iter().filter_map(|r| r.clip(out, inp)).collect();
                for (row, col) in (0..out).flat_map(|r| (0..inp).map(move |c| (r, c))) {
                    let inside = |r: &&Rect| {
                        (r.rows.start..r.rows.end).contains(&row)
                            && (r.cols.start..r.cols.end).contains(&col)
                    };
                    assert_eq!(
                        clipped.iter().filter(inside).count(),
                        1,
                        "{shapes:?} ({row}, {col})"
                    );
                }
            }
            assert!(rects.iter().all(|r| shapes.iter().any(|&(o, i)| r.clip(o, i) == Some(*r))));
        }
    }
}
