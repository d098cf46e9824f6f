//! An error and its causes as one message.

use anyhow::Error;

/// Joins an error and its causes.
///
/// A cause that the text before it contains already is left out, and so is the value of a flag
/// whose cause names it: not `--from pics: pics has no pictures` but `--from: pics has no
/// pictures`.
pub fn message(error: &Error) -> String {
    let mut text = String::new();
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    for (i, cause) in causes.iter().enumerate() {
        let part = without_value(cause, &causes[i + 1..]);
        match text.is_empty() {
            true => text = part.to_owned(),
            false if text.contains(part) => {}
            false => text += &format!(": {part}"),
        }
    }
    text
}

/// The flag alone, if a later cause names its value.
fn without_value<'a>(part: &'a str, causes: &[String]) -> &'a str {
    match part.split_once(' ') {
        Some((flag, value)) if flag.starts_with("--") && !flag.ends_with(':') => {
            let number = value.parse::<f64>().is_ok();
            let named = !number && causes.iter().any(|cause| names(cause, value));
            if named { flag } else { part }
        }
        _ => part,
    }
}

/// Whether a text contains a value as a whole path.
fn names(text: &str, value: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + value.len()..]);
        !before.ends_with(inside) && !after.starts_with(inside)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    fn printed(context: &'static str, cause: &'static str) -> String {
        message(&Err::<(), _>(anyhow!(cause)).context(context).unwrap_err())
    }

    #[test]
    fn a_path_is_printed_once() {
        for (context, cause, text) in [
            ("--from pics", "pics: no pictures", "--from: pics: no pictures"),
            ("--from .", ". has no train.bin", "--from: . has no train.bin"),
            ("--from data", "data/a.bin is short", "--from data: data/a.bin is short"),
            ("--show a.json", "No such file", "--show a.json: No such file"),
            ("--tau 0.3", "it is 0.35", "--tau 0.3: it is 0.35"),
            ("--batch-size 9", "9 images are too many", "--batch-size 9: 9 images are too many"),
            ("the plan", "the plan", "the plan"),
        ] {
            assert_eq!(printed(context, cause), text);
        }
    }
}
