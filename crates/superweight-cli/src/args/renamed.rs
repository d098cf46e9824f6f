//! Flags that have moved to another verb or changed their meaning: the error names what to type
//! instead.
//!
//! A flag that only changed its name is a hidden alias at its definition and needs no entry here.

use clap::error::{ContextKind, ContextValue, Error};

/// An old flag and what replaces it.
const MOVED: [(&str, &str); 5] = [
    ("--publish", "swn results publish RUN --out DIR --commit HASH"),
    ("--commit", "swn results publish RUN --out DIR --commit HASH"),
    ("--row", "swn results publish RUN --out DIR --commit HASH --row NAME"),
    ("--choices", "swn results publish RUN --out DIR --commit HASH --chosen-on paper|validation"),
    ("--table", "swn results table DIR --out FILE"),
];

/// The error, with a suggestion where an unknown flag has moved.
pub fn explain(mut error: Error) -> Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let Some((_, now)) = MOVED.iter().find(|(old, _)| old == typed) else { return error };
    error.remove(ContextKind::SuggestedArg);
    let tip = format!("it is now '{now}'");
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_definition_is_consistent() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn a_flag_that_has_moved_is_explained() {
        for (words, tip) in [
            (&["swn", "report", "runs/a", "--publish", "x"][..], "swn results publish RUN"),
            (&["swn", "report", "results", "--table"], "swn results table DIR"),
        ] {
            let error = Cli::try_parse_from(words).err().expect("the flag is unknown");
            let text = explain(error).to_string();
            assert!(text.contains(tip), "{text}");
        }
    }

    #[test]
    fn old_names_of_flags_still_parse() {
        for line in [
            "swn eval r --held-out --batch 4",
            "swn anytime r --held-out --batch 1,2",
            "swn export r --to onnx --members 0,1 --normalise",
            "swn slim r --to 50% --batch 64 --member 1",
            "swn data fetch cifar-10 --to d",
            "swn data pack a --from b --to d",
            "swn bench step --members cnn-4 --batch 8",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
