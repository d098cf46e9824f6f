//! An image of floating-point values from 0 to 1, `[row][column][channel]`, with the filters that
//! several corruptions share.

/// Rows and columns of the images that the constants of the corruptions are for.
pub const SIDE: usize = 32;
/// Bytes of an image, `[row][column][channel]`.
pub const IMAGE_LEN: usize = SIDE * SIDE * 3;

/// Values beyond an edge: how the row `a b c d` continues to the right.
#[derive(Clone, Copy)]
pub(super) enum Border {
    /// `d d d`
    Nearest,
    /// `d c b`
    Reflect,
    /// `c b a`
    Reflect101,
}

impl Border {
    /// Index below `n` whose value stands for index `i`.
    pub fn index(self, i: isize, n: usize) -> usize {
        let n = n as isize;
        let inside = match self {
            Self::Nearest => i.clamp(0, n - 1),
            Self::Reflect => {
                let i = i.rem_euclid(2 * n);
                i.min(2 * n - 1 - i)
            }
            Self::Reflect101 => {
                let i = i.rem_euclid((2 * n - 2).max(1));
                i.min(2 * n - 2 - i)
            }
        };
        inside as usize
    }
}

/// An image or a layer of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grid {
    pub rows: usize,
    pub cols: usize,
    pub channels: usize,
    pub values: Vec<f64>,
}

impl Grid {
    /// An RGB image from its bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let values = bytes.iter().map(|&byte| f64::from(byte) / 255.0).collect();
        Self { rows: SIDE, cols: SIDE, channels: 3, values }
    }

    /// A layer of one channel whose values come from a function, row by row.
    pub fn layer(mut value: impl FnMut() -> f64) -> Self {
        let values = (0..SIDE * SIDE).map(|_| value()).collect();
        Self { rows: SIDE, cols: SIDE, channels: 1, values }
    }

    /// Bytes of the image: clipped to 0–1, times 255, truncated. The published files are truncated
    /// too.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.values.iter().map(|value| (value.clamp(0.0, 1.0) * 255.0) as u8).collect()
    }

    /// Value of one pixel and channel.
    pub fn at(&self, row: usize, col: usize, channel: usize) -> f64 {
        self.values[(row * self.cols + col) * self.channels + channel]
    }

    /// A grid of the same shape whose values come from a function of (row, column, channel).
    pub fn map(&self, mut value: impl FnMut(usize, usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(self.values.len());
        for row in 0..self.rows {
            for col in 0..self.cols {
                values.extend((0..self.channels).map(|channel| value(row, col, channel)));
            }
        }
        Self { values, ..*self }
    }

    /// Correlation with a square kernel of odd side.
    pub fn filter(&self, kernel: &[f64], border: Border) -> Self {
        let side = kernel.len().isqrt();
        let half = (side / 2) as isize;
        self.map(|row, col, channel| {
            let mut sum = 0.0;
            for (i, weight) in kernel.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                let r = border.index(row as isize + (i / side) as isize - half, self.rows);
                let c = border.index(col as isize + (i % side) as isize - half, self.cols);
                sum += weight * self.at(r, c, channel);
            }
            sum
        })
    }

    /// Gaussian blur with a kernel cut off at `truncate` standard deviations, rows first. A
    /// standard deviation of 0 changes nothing.
    pub fn gaussian(&self, std: f64, truncate: f64, border: Border) -> Self {
        let radius = (truncate * std + 0.5) as isize;
        if radius == 0 {
            return self.clone();
        }
        let weights: Vec<f64> =
            (-radius..=radius).map(|i| (-0.5 * (i as f64 / std).powi(2)).exp()).collect();
        let total: f64 = weights.iter().sum();
        let along = |from: &Self, down: bool| {
            from.map(|row, col, channel| {
                let term = |(weight, i): (&f64, isize)| {
                    let (r, c) = match down {
                        true => (border.index(row as isize + i, from.rows), col),
                        false => (row, border.index(col as isize + i, from.cols)),
                    };
                    weight / total * from.at(r, c, channel)
                };
                weights.iter().zip(-radius..=radius).map(term).sum()
            })
        };
        along(&along(self, true), false)
    }

    /// Center of the image, magnified linearly to the same size. The corners of the two grids
    /// coincide, as in scipy.
    pub fn zoom(&self, factor: f64) -> Self {
        let part = (self.rows as f64 / factor).ceil() as usize;
        let top = (self.rows - part) / 2;
        let size = (part as f64 * factor).round_ties_even() as usize;
        let trim = (size - self.rows) / 2;
        let step = if size > 1 { (part - 1) as f64 / (size - 1) as f64 } else { 0.0 };
        self.map(|row, col, channel| {
            let (y, x) = ((row + trim) as f64 * step, (col + trim) as f64 * step);
            let clipped = |v: f64| (v.floor() as usize).min(part - 1);
            let (y0, x0) = (clipped(y), clipped(x));
            let (y1, x1) = ((y0 + 1).min(part - 1), (x0 + 1).min(part - 1));
            let (fy, fx) = (y - y0 as f64, x - x0 as f64);
            let at = |r: usize, c: usize| self.at(top + r, top + c, channel);
            let upper = (1.0 - fx) * at(y0, x0) + fx * at(y0, x1);
            let lower = (1.0 - fx) * at(y1, x0) + fx * at(y1, x1);
            (1.0 - fy) * upper + fy * lower
        })
    }

    /// Value between pixels, interpolated linearly from four neighbors.
    pub fn linear(&self, y: f64, x: f64, channel: usize, border: Border) -> f64 {
        let (y0, x0) = (y.floor(), x.floor());
        let (fy, fx) = (y - y0, x - x0);
        let at = |dy: isize, dx: isize| {
            let r = border.index(y0 as isize + dy, self.rows);
            self.at(r, border.index(x0 as isize + dx, self.cols), channel)
        };
        (1.0 - fy) * ((1.0 - fx) * at(0, 0) + fx * at(0, 1))
            + fy * ((1.0 - fx) * at(1, 0) + fx * at(1, 1))
    }
}
