//! k-means, by which Shapeshifter Networks group layers: Lloyd's iterations from k-means++ starts,
//! the best of ten.
//!
//! Every random value is a function of the key, ties go to the first, and sums run in order. The
//! same points and key therefore give the same groups on every machine.

use crate::rng::Draws;

/// Number of starts, as scikit-learn's default was. The result with the smallest sum of squared
/// distances is kept.
const STARTS: u64 = 10;
/// Largest number of iterations, more than layers' coefficients need. k-means ends in exact
/// arithmetic; in floating point it could cycle.
const ITERATIONS: usize = 300;

/// Returns for each point the index of its group, from 0 to `k` − 1. If there are fewer different
/// points than `k`, there are as many groups as different points.
///
/// # Panics
/// If `k` is 0.
pub fn kmeans(points: &[Vec<f64>], k: usize, draws: Draws) -> Vec<usize> {
    assert!(k > 0, "k-means needs at least one group");
    let runs = (0..STARTS).map(|start| lloyd(points, starts(points, k, draws.under(start))));
    let best = runs.min_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or_else(Vec::new, |(groups, _)| groups)
}

/// Squared Euclidean distance.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Index of the nearest centre, and its squared distance.
fn nearest(point: &[f64], centres: &[Vec<f64>]) -> (usize, f64) {
    let distances = centres.iter().map(|centre| distance(point, centre)).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY))
}

/// Chooses up to `k` starting centres by k-means++: a first point at random, then points with a
/// probability proportional to their squared distance from the nearest centre.
fn starts(points: &[Vec<f64>], k: usize, draws: Draws) -> Vec<Vec<f64>> {
    let unit = |n: usize| (draws.bits(n as u64) >> 11) as f64 / (1u64 << 53) as f64;
    let Some(first) = points.get((unit(0) * points.len() as f64) as usize) else { return vec![] };
    let mut centres = vec![first.clone()];
    while centres.len() < k {
        let far: Vec<f64> = points.iter().map(|point| nearest(point, &centres).1).collect();
        let mut left = unit(centres.len()) * far.iter().sum::<f64>();
        let next = far.iter().position(|far| {
            left -= far;
            left < 0.0
        });
        // Rounding may leave a remainder: take the last point that is no centre. If every point is
        // a centre, there is none.
        let next = next.or_else(|| far.iter().rposition(|&far| far > 0.0));
        let Some(next) = next.filter(|&next| far[next] > 0.0) else { break };
        centres.push(points[next].clone());
    }
    centres
}

/// Runs Lloyd's iterations; returns the group of each point and the sum of squared distances.
fn lloyd(points: &[Vec<f64>], mut centres: Vec<Vec<f64>>) -> (Vec<usize>, f64) {
    let mut groups = vec![usize::MAX; points.len()];
    let mut sum = 0.0;
    for _ in 0..ITERATIONS {
        let found: Vec<(usize, f64)> =
            points.iter().map(|point| nearest(point, &centres)).collect();
        sum = found.iter().map(|(_, far)| far).sum();
        let now: Vec<usize> = found.into_iter().map(|(group, _)| group).collect();
        if std::mem::replace(&mut groups, now) == groups {
            break;
        }
        for (c, centre) in centres.iter_mut().enumerate() {
            let inside: Vec<_> =
                points.iter().zip(&groups).filter(|(_, g)| **g == c).map(|(p, _)| p).collect();
            if !inside.is_empty() {
                let mean = |d: usize| {
                    inside.iter().map(|point| point[d]).sum::<f64>() / inside.len() as f64
                };
                *centre = (0..centre.len()).map(mean).collect();
            }
        }
    }
    (groups, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty points, in turn from three squares of side 2 around (0, 0), (10, 0) and (0, 10).
    fn clouds() -> Vec<Vec<f64>> {
        let draws = Draws::new(&[5]);
        let at = |n: u64| {
            let [x, y] = [[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]][n as usize % 3];
            vec![x + draws.signed_unit(2 * n), y + draws.signed_unit(2 * n + 1)]
        };
        (0..30).map(at).collect()
    }

    #[test]
    fn separate_clouds_are_found_with_every_key() {
        for key in 0..20 {
            let groups = kmeans(&clouds(), 3, Draws::new(&[key]));
            assert!((3..30).all(|n| groups[n] == groups[n % 3]), "{groups:?}");
            assert!(groups[0] != groups[1] && groups[1] != groups[2] && groups[0] != groups[2]);
            assert_eq!(groups, kmeans(&clouds(), 3, Draws::new(&[key])));
        }
    }

    #[test]
    fn there_are_at_most_as_many_groups_as_different_points() {
        let points = vec![vec![1.0], vec![2.0], vec![1.0]];
        for k in 1..6 {
            let groups = kmeans(&points, k, Draws::new(&[1]));
            assert_eq!(groups[0], groups[2]);
            assert_eq!(groups[0] == groups[1], k == 1);
        }
        assert!(kmeans(&[], 2, Draws::new(&[1])).is_empty());
    }
}
