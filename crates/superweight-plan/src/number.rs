//! Numbers as people write and read them.

/// `3653688` → `3,653,688`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A well-mixed 64-bit number from a seed and a counter (the finaliser of SplitMix64): all the randomness a
/// planner needs, the same on every machine.
pub(crate) fn mix(seed: u64, counter: u64) -> u64 {
    let mut z = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_set_apart() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (36_536_884, "36,536,884")] {
            assert_eq!(super::grouped(n), text);
        }
    }
}
