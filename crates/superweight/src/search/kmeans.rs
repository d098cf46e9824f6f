//! k-means: what Shapeshifter Networks group layers by. Lloyd's iterations from k-means++ starts, the best of ten.
//!
//! Every draw comes from the key, ties go to the first, and sums run in order: the same points and key give the same
//! groups anywhere.

use crate::rng::Draws;

/// Starts, of which the one with the smallest sum of squared distances is kept: scikit-learn's default.
const STARTS: u64 = 10;
/// More iterations than points like these ever take; k-means always ends, but floats may circle.
const ITERATIONS: usize = 300;

/// Which of `k` groups each point belongs to; as many groups as different points where those are fewer.
///
/// # Panics
/// Where `k` is 0.
pub fn kmeans(points: &[Vec<f64>], k: usize, draws: Draws) -> Vec<usize> {
    assert!(k > 0, "there is at least one group");
    let runs = (0..STARTS).map(|start| lloyd(points, starts(points, k, draws.under(start))));
    let best = runs.min_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or_else(Vec::new, |(groups, _)| groups)
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The nearest centre and how far it is, squared.
fn nearest(point: &[f64], centres: &[Vec<f64>]) -> (usize, f64) {
    let distances = centres.iter().map(|centre| distance(point, centre)).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::INFINITY))
}

/// k-means++: a first point at random, then each with a probability that grows as the square of its distance.
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
        // Rounding may leave a little at the end; where every point is a centre there is nothing to add.
        let next = next.or_else(|| far.iter().rposition(|&far| far > 0.0));
        let Some(next) = next.filter(|&next| far[next] > 0.0) else { break };
        centres.push(points[next].clone());
    }
    centres
}

/// Groups and their sum of squared distances.
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

    /// Three clouds of radius 1 around (0, 0), (10, 0) and (0, 10), dealt in turn.
    fn clouds() -> Vec<Vec<f64>> {
        let draws = Draws::new(&[5]);
        let at = |n: u64| {
            let [x, y] = [[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]][n as usize % 3];
            vec![x + draws.signed_unit(2 * n), y + draws.signed_unit(2 * n + 1)]
        };
        (0..30).map(at).collect()
    }

    #[test]
    fn clouds_are_found_whatever_the_key() {
        for key in 0..20 {
            let groups = kmeans(&clouds(), 3, Draws::new(&[key]));
            assert!((3..30).all(|n| groups[n] == groups[n % 3]), "{groups:?}");
            assert!(groups[0] != groups[1] && groups[1] != groups[2] && groups[0] != groups[2]);
            assert_eq!(groups, kmeans(&clouds(), 3, Draws::new(&[key])));
        }
    }

    #[test]
    fn there_are_never_more_groups_than_different_points() {
        let points = vec![vec![1.0], vec![2.0], vec![1.0]];
        for k in 1..6 {
            let groups = kmeans(&points, k, Draws::new(&[1]));
            assert_eq!(groups[0], groups[2]);
            assert_eq!(groups[0] == groups[1], k == 1);
        }
        assert!(kmeans(&[], 2, Draws::new(&[1])).is_empty());
    }
}
