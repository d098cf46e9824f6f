//! Durations as text: `90s`, `9m`, `1h30m`.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

const UNITS: [(char, u64); 3] = [('h', 3600), ('m', 60), ('s', 1)];

/// Parses hours, minutes and seconds, each at most once and in this order.
pub fn parse(text: &str) -> Result<Duration> {
    let wrong = || format!("'{text}' is not a time: write 90s, 9m or 1h30m");
    let (mut rest, mut seconds) = (text, 0u64);
    for (unit, length) in UNITS {
        let Some((number, after)) = rest.split_once(unit) else { continue };
        let Ok(number) = number.parse::<u32>() else { bail!(wrong()) };
        seconds += u64::from(number) * length;
        rest = after;
    }
    ensure!(rest.is_empty() && !text.is_empty(), wrong());
    ensure!(
        (1..=1_000_000_000).contains(&seconds),
        "'{text}' is out of range: choose between 1 second and 1,000,000,000 seconds"
    );
    Ok(Duration::from_secs(seconds))
}

/// Shows the two largest units of a duration.
pub fn show(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_shown() {
        for (text, seconds) in
            [("9m", 540), ("90s", 90), ("1h30m", 5400), ("2h", 7200), ("1h0m5s", 3605)]
        {
            assert_eq!(parse(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        for text in
            ["", "9", "m", "9m3", "3s9m", "-1s", "1.5h", "0s", "99999999999s", "9 m", "1h1h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        let shown = |seconds| show(Duration::from_secs_f64(seconds));
        assert_eq!(
            [shown(0.2), shown(59.6), shown(61.0), shown(7325.0)],
            ["0s", "1m00s", "1m01s", "2h02m"]
        );
    }
}
