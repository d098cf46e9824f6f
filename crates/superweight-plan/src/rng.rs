//! The planner's source of randomness: a hash of a seed and a counter.

/// Returns a pseudorandom 64-bit number for a seed and a counter (the finalizer of SplitMix64).
///
/// The same arguments give the same number on every machine.
pub(crate) fn mix(seed: u64, counter: u64) -> u64 {
    let mut z = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
