//! Random numbers without state: a pure function from (seed, words, index) to 64 bits, and normal
//! numbers.
//!
//! Draws can be made at any time, on any thread or device, in any order; a resumed run needs no
//! saved generator. Each word is absorbed by `h ← mix(h + γ ⊕ word)`. `mix` is the finalizer of
//! SplitMix64 (Stafford's variant 13) and γ its increment. `mix` is a bijection, so different
//! indices of one key never collide. Philox would work as well, but takes ten rounds of two
//! multiplications per draw; this takes two multiplications per word. Both are a few lines of
//! integer arithmetic in a CUDA kernel.

/// Increment of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// All draws of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws(u64);

impl Draws {
    /// Draws of a key: a seed, and words that distinguish its uses.
    pub fn new(key: &[u64]) -> Self {
        Self(key.iter().fold(0, |state, &word| absorb(state, word)))
    }

    /// Draws of this key extended by one word.
    pub fn under(self, word: u64) -> Self {
        Self(absorb(self.0, word))
    }

    /// Draws 64 uniform bits.
    pub fn bits(self, index: u64) -> u64 {
        absorb(self.0, index)
    }

    /// Draws a standard normal number by Box–Muller from two draws. It computes in f64, so that
    /// tails extend beyond 8 standard deviations.
    pub fn normal(self, index: u64) -> f64 {
        let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let (radius, angle) = (unit(self.bits(2 * index)), unit(self.bits(2 * index + 1)));
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// Draws uniformly from [−1, 1).
    pub fn signed_unit(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// State after one more word.
fn absorb(state: u64, word: u64) -> u64 {
    let mut z = state.wrapping_add(GAMMA) ^ word;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_their_moments() {
        let n = 200_000;
        let moment = |power: i32| {
            (0..n).map(|i| Draws::new(&[3, 1]).normal(i).powi(power)).sum::<f64>() / n as f64
        };
        let [mean, variance, skew, kurtosis] = [1, 2, 3, 4].map(moment);
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.01, "{mean} {variance}");
        assert!(skew.abs() < 0.03 && (kurtosis - 3.0).abs() < 0.06, "{skew} {kurtosis}");
        let largest = (0..n).map(|i| Draws::new(&[3, 1]).signed_unit(i)).fold(0.0, f64::max);
        assert!(largest < 1.0 && largest > 0.999);
    }

    #[test]
    fn keys_and_indices_give_different_draws() {
        let mut seen = std::collections::HashSet::new();
        for (a, b, i) in
            (0..20).flat_map(|a| (0..20).flat_map(move |b| (0..20).map(move |i| (a, b, i))))
        {
            seen.insert(Draws::new(&[a, b]).bits(i));
        }
        assert_eq!(seen.len(), 8000);
    }
}
