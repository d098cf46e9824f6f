//! Reads parameter budgets such as `36.5M`, `365368` and `10%`.

use std::str::FromStr;

use thiserror::Error;

/// The largest number of trainable parameters a plan may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A count of parameters.
    Parameters(u64),
    /// A fraction `(numerator, denominator)` of the members' parameters without sharing.
    ///
    /// Two integers keep percentages exact: 10% is one tenth, not a rounded float.
    Fraction(u64, u64),
}

/// A text that cannot be read as a budget, and the reason.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "'{text}' is not a budget: {why}; write a count (365368, 500K, 36.5M, 1.2G) or a percentage of \
     the members' total (10%)"
)]
pub struct BudgetError {
    text: String,
    why: &'static str,
}

impl BudgetError {
    /// What is wrong with the text, without the text itself.
    pub fn reason(&self) -> &'static str {
        self.why
    }
}

impl Budget {
    /// Returns the budget as a count, rounded down.
    ///
    /// `dense_total` is the number of parameters of the members without sharing.
    pub fn resolve(self, dense_total: u64) -> u64 {
        match self {
            Self::Parameters(n) => n,
            Self::Fraction(numerator, denominator) => {
                let share =
                    u128::from(dense_total) * u128::from(numerator) / u128::from(denominator);
                u64::try_from(share).unwrap_or(u64::MAX)
            }
        }
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let wrong = |why| BudgetError { text: text.to_owned(), why };
        let typed = text.trim();
        let digits = typed.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
        let (mantissa, decimals) = decimal(digits)
            .ok_or_else(|| wrong("it has no plain decimal number, or too many digits"))?;
        let scale = 10u64.pow(decimals);
        let unit: u64 = match typed[digits.len()..].trim() {
            "" => 1,
            "%" => {
                return match mantissa {
                    0 => Err(wrong("it must be more than zero")),
                    _ => Ok(Self::Fraction(mantissa, 100 * scale)),
                };
            }
            "K" | "k" => 1_000,
            "M" | "m" => 1_000_000,
            "G" | "g" | "B" | "b" => 1_000_000_000,
            _ => return Err(wrong("its unit is unknown")),
        };
        match u128::from(mantissa) * u128::from(unit) / u128::from(scale) {
            0 => Err(wrong("it must be at least one parameter")),
            count => match u64::try_from(count) {
                Ok(count) if count < 1_000_000_000_000_000 => Ok(Self::Parameters(count)),
                _ => Err(wrong("it must be less than 10^15")),
            },
        }
    }
}

/// Reads `3,653,688` or `36.5` as an integer and the number of its digits that are decimals.
///
/// Commas may stand only between thousands. Returns `None` for anything else.
fn decimal(text: &str) -> Option<(u64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = whole.replace(['_', ','], "");
    let mut groups = whole.split(',').rev();
    let thousands = !whole.contains(',')
        || (groups.by_ref().take(whole.matches(',').count()).all(|group| group.len() == 3)
            && groups.next().is_some_and(|first| (1..=3).contains(&first.len())));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if plain.is_empty() || !thousands || !digits(&plain) || !digits(fraction) || fraction.len() > 6
    {
        return None;
    }
    Some((format!("{plain}{fraction}").parse().ok()?, fraction.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_units_and_percentages_are_read() {
        for (text, count) in [
            ("365368", 365_368),
            ("36.5M", 36_500_000),
            ("500k", 500_000),
            ("1.2G", 1_200_000_000),
            ("3,653,688", 3_653_688),
            (" 7M ", 7_000_000),
        ] {
            assert_eq!(text.parse::<Budget>().unwrap(), Budget::Parameters(count), "{text}");
        }
        for (text, count) in [
            ("10%", 3_653_688),
            ("1%", 365_368),
            ("100%", 36_536_884),
            ("0.5%", 182_684),
            ("200%", 73_073_768),
        ] {
            assert_eq!(text.parse::<Budget>().unwrap().resolve(36_536_884), count, "{text}");
        }
    }

    #[test]
    fn percentages_are_exact() {
        assert_eq!("2.01%".parse::<Budget>().unwrap().resolve(1_000_000), 20_100);
        assert_eq!("29%".parse::<Budget>().unwrap().resolve(100), 29);
    }

    #[test]
    fn errors_show_an_example_of_each_form() {
        for text in [
            "",
            "abc",
            "0",
            "-5%",
            "-1",
            "0%",
            "nan",
            "inf",
            "1e300M",
            "5 apples",
            "%",
            "M",
            "1.2.3",
            "0.2",
            "٣",
            "36,5M",
            "1,2,3",
            ",5",
            "1.0000001M",
        ] {
            let error = text.parse::<Budget>().unwrap_err().to_string();
            assert!(error.contains("36.5M") && error.contains("10%"), "{error}");
        }
    }
}
