//! Lists the thresholds worth trying: the groups change only where a pair becomes a merge.

/// Thresholds below `requested` at which the groups differ, in falling order; all are at least −1.
///
/// `merges` are the similarities at which groups merge, `all` those of all pairs. Algorithm 1
/// merges pairs *above* the threshold. So the largest threshold that lets a merge happen is the
/// next smaller similarity of any pair.
pub(crate) fn below(requested: f64, mut merges: Vec<f64>, mut all: Vec<f64>) -> Vec<f64> {
    merges.retain(|&m| m <= requested && m > -1.0);
    merges.sort_by(f64::total_cmp);
    merges.dedup();
    all.sort_by(f64::total_cmp);
    let next = |&m: &f64| match all.partition_point(|&s| s < m) {
        0 => -1.0,
        n => all[n - 1].max(-1.0),
    };
    merges.iter().rev().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn each_threshold_allows_one_more_merge() {
        let all = vec![0.9, 0.5, 0.4, 0.2, -0.3];
        assert_eq!(below(0.6, vec![0.9, 0.5, 0.2], all), [0.4, -0.3]);
        assert_eq!(below(0.5, vec![0.5], vec![0.5]), [-1.0]);
        assert!(below(0.1, vec![0.9], vec![0.9]).is_empty());
        assert!(below(0.1, vec![-1.0], vec![-1.0]).is_empty());
    }
}
