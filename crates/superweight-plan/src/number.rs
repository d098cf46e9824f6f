//! Formatting of large counts.

/// Formats a count with commas between thousands: 3653688 becomes `3,653,688`.
pub fn with_commas(n: u64) -> String {
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

#[cfg(test)]
mod tests {
    #[test]
    fn commas_separate_thousands() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (36_536_884, "36,536,884")] {
            assert_eq!(super::with_commas(n), text);
        }
    }
}
