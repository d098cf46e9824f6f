//! Linear interpolation along one axis, as in PyTorch's bilinear mode with `align_corners=False`.
//!
//! Element `n` of `to` has the source coordinate `(n + ½)·from/to − ½`, at least 0, and is
//! interpolated from its two neighbours. Coordinates are exact fractions of integers; only the
//! weights are rounded, once for all devices.

use std::collections::HashMap;

/// Interpolation of one element: `(1 − weight)·x[lower] + weight·x[lower + 1]`. The weight is 0 at
/// the last source element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tap {
    pub lower: u32,
    pub weight: f32,
}

impl Tap {
    /// Index of the second source element; equal to `lower` if its weight is 0.
    pub fn upper(self) -> usize {
        self.lower as usize + usize::from(self.weight > 0.0)
    }

    /// Weight of source element `from`, which is one of the two.
    pub fn weight_of(self, from: usize) -> f32 {
        if self.lower as usize == from { 1.0 - self.weight } else { self.weight }
    }
}

/// Interpolation of all elements along one axis.
#[derive(Debug)]
pub(crate) struct Axis {
    /// Interpolation of each output element.
    pub taps: Vec<Tap>,
    /// For each source element, the range of output elements that read it.
    pub reach: Vec<[u32; 2]>,
}

impl Axis {
    /// Stretches `from` elements to `to`, where `to ≥ from`.
    fn new([from, to]: [usize; 2]) -> Self {
        let tap = |n: usize| {
            let (place, whole) = (((2 * n + 1) * from).saturating_sub(to), 2 * to);
            let (lower, rest) = (place / whole, place % whole);
            let weight = if lower + 1 < from { rest as f64 / whole as f64 } else { 0.0 };
            Tap { lower: lower as u32, weight: weight as f32 }
        };
        let taps: Vec<Tap> = (0..to).map(tap).collect();
        let reach = |n: usize| {
            let before = |tap: &Tap| tap.upper() < n;
            let within = |tap: &Tap| tap.lower as usize <= n;
            [taps.partition_point(before) as u32, taps.partition_point(within) as u32]
        };
        let reach = (0..from).map(reach).collect();
        Self { taps, reach }
    }
}

/// Distinct axes of many views.
#[derive(Debug, Default)]
pub(crate) struct Axes {
    pub all: Vec<Axis>,
    known: HashMap<[usize; 2], usize>,
}

impl Axes {
    /// Index of the axis with these source and output lengths; adds it if it is new.
    pub fn index(&mut self, ends: [usize; 2]) -> usize {
        *self.known.entry(ends).or_insert_with(|| {
            self.all.push(Axis::new(ends));
            self.all.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_elements_stretch_to_four() {
        let taps = Axis::new([2, 4]).taps;
        assert_eq!(taps.iter().map(|tap| tap.lower).collect::<Vec<_>>(), [0, 0, 0, 1]);
        assert_eq!(taps.iter().map(|tap| tap.weight).collect::<Vec<_>>(), [0.0, 0.25, 0.75, 0.0]);
    }

    #[test]
    fn equal_lengths_copy_elements() {
        for n in 1..40 {
            let Axis { taps, reach } = Axis::new([n, n]);
            assert!(
                taps.iter()
                    .enumerate()
                    .all(|(i, tap)| *tap == Tap { lower: i as u32, weight: 0.0 })
            );
            assert!(reach.iter().enumerate().all(|(i, ends)| *ends == [i as u32, i as u32 + 1]));
        }
    }

    #[test]
    fn reach_covers_the_outputs_with_weight() {
        for to in 1..30 {
            for from in 1..=to {
                let Axis { taps, reach } = Axis::new([from, to]);
                for (n, [first, end]) in reach.iter().enumerate() {
                    let has = |tap: &Tap| {
                        (tap.lower as usize == n && tap.weight < 1.0)
                            || (tap.upper() == n && tap.weight > 0.0)
                    };
                    let found: Vec<u32> =
                        (0..to as u32).filter(|&i| has(&taps[i as usize])).collect();
                    assert_eq!(found, (*first..*end).collect::<Vec<_>>(), "{from} to {to}, {n}");
                    assert!(!found.is_empty());
                }
            }
        }
    }
}
