//! Rectangles of output and input channels.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Half-open range of rows or columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "[usize; 2]", into = "[usize; 2]")]
pub struct Span {
    /// First index.
    pub start: usize,
    /// One past the last.
    pub end: usize,
}

impl Span {
    /// `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Indices in it.
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<[usize; 2]> for Span {
    fn from([start, end]: [usize; 2]) -> Self {
        Self { start, end }
    }
}

impl From<Span> for [usize; 2] {
    fn from(span: Span) -> Self {
        [span.start, span.end]
    }
}

/// A rectangle of a corner matrix: output channels × input channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rect {
    /// Output channels.
    pub rows: Span,
    /// Input channels.
    pub cols: Span,
}

impl fmt::Display for Rect {
    /// As a plan writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, cols) = (self.rows, self.cols);
        write!(f, "rows [{}, {}] and cols [{}, {}]", rows.start, rows.end, cols.start, cols.end)
    }
}

impl Rect {
    /// The part inside the corner `[:out, :inp]`, if any.
    pub fn clip(&self, out: usize, inp: usize) -> Option<Rect> {
        let cut = |span: Span, end: usize| Span::new(span.start, span.end.min(end));
        let clipped = Rect { rows: cut(self.rows, out), cols: cut(self.cols, inp) };
        (!clipped.rows.is_empty() && !clipped.cols.is_empty()).then_some(clipped)
    }

    /// Positions in it.
    pub fn area(&self) -> usize {
        self.rows.len() * self.cols.len()
    }
}
