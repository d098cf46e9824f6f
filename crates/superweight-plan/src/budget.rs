//! A budget as people write it: `36.5M`, `365368`, `10%`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::number::grouped;

/// How many trainable numbers there may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// This many.
    Numbers(u64),
    /// This share of what the members have without sharing, rounded down.
    Percent(f64),
}

/// Why a text is no budget.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "'{text}' is not a budget: {why}; write a count (365368, 500K, 36.5M, 1.2G) or a share of the members' total (10%)"
)]
pub struct BudgetError {
    text: String,
    why: &'static str,
}

impl Budget {
    /// The count, given what the members have without sharing.
    pub fn resolve(self, dense_total: u64) -> u64 {
        match self {
            Self::Numbers(n) => n,
            // Multiplied first: 10% of 36,536,884 is 3,653,688, not one less.
            Self::Percent(percent) => (dense_total as f64 * percent / 100.0).floor() as u64,
        }
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let wrong = |why| BudgetError { text: text.to_owned(), why };
        let plain = text.trim().replace([',', '_'], "");
        let (digits, unit) = match plain.strip_suffix(|c: char| !c.is_ascii_digit() && c != '.') {
            Some(digits) => (digits, plain[digits.len()..].to_ascii_uppercase()),
            None => (plain.as_str(), String::new()),
        };
        let scale = match unit.as_str() {
            "" => 1.0,
            "%" => 0.01,
            "K" => 1e3,
            "M" => 1e6,
            "G" | "B" => 1e9,
            _ => return Err(wrong("there is no number in it, or its unit is unknown")),
        };
        let number: f64 = digits.trim().parse().map_err(|_| wrong("there is no number in it"))?;
        if !(number > 0.0 && number * scale < 1e15) {
            return Err(wrong("it must be more than zero and less than 10^15"));
        }
        if unit == "%" {
            return Ok(Self::Percent(number));
        }
        match (number * scale).round() {
            n if n < 1.0 => Err(wrong("it must be at least one number")),
            n => Ok(Self::Numbers(n as u64)),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Numbers(n) => write!(f, "{}", grouped(*n)),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_spellings() {
        for (text, count) in [
            ("365368", 365_368),
            ("36.5M", 36_500_000),
            ("500k", 500_000),
            ("1.2G", 1_200_000_000),
            ("3,653,688", 3_653_688),
            (" 7M ", 7_000_000),
        ] {
            assert_eq!(text.parse::<Budget>().unwrap(), Budget::Numbers(count), "{text}");
        }
        for (text, count) in [("10%", 3_653_688), ("1%", 365_368), ("100%", 36_536_884), ("0.5%", 182_684)] {
            assert_eq!(text.parse::<Budget>().unwrap().resolve(36_536_884), count, "{text}");
        }
    }

    #[test]
    fn nonsense_says_what_is_expected() {
        for text in [
            "", "abc", "0", "-5%", "-1", "0%", "nan", "inf", "1e300M", "5 apples", "%", "M", "1.2.3", "0.2",
            "٣",
        ] {
            let error = text.parse::<Budget>().unwrap_err().to_string();
            assert!(error.contains("36.5M") && error.contains("10%"), "{error}");
        }
    }
}
