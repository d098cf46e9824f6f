//! Ranges and rectangles of output and input channels.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Half-open range `start..end` of rows or columns. Written to files as `[start, end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "[usize; 2]", into = "[usize; 2]")]
pub struct Span {
    /// First index of the range.
    pub start: usize,
    /// Index after the last one of the range.
    pub end: usize,
}

impl Span {
    /// Creates the range `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Number of indices; 0 if `end` is before `start`.
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether the range has no index.
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

/// A rectangle in a matrix of output channels × input channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rect {
    /// Range of output channels.
    pub rows: Span,
    /// Range of input channels.
    pub cols: Span,
}

impl fmt::Display for Rect {
    /// Formats a rectangle as `rows [0, 16] and cols [0, 8]`, as in the plan file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, cols) = (self.rows, self.cols);
        write!(f, "rows [{}, {}] and cols [{}, {}]", rows.start, rows.end, cols.start, cols.end)
    }
}

impl Rect {
    /// Returns the part inside the corner `[:out, :inp]`; `None` if that part is empty.
    pub fn clip(&self, out: usize, inp: usize) -> Option<Rect> {
        let cut = |span: Span, end: usize| Span::new(span.start, span.end.min(end));
        let clipped = Rect { rows: cut(self.rows, out), cols: cut(self.cols, inp) };
        (!clipped.rows.is_empty() && !clipped.cols.is_empty()).then_some(clipped)
    }

    /// Number of positions in the rectangle.
    pub fn area(&self) -> usize {
        self.rows.len() * self.cols.len()
    }
}
