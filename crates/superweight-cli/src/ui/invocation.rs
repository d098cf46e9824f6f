//! How the user started this program, so that the commands it suggests can be typed as they stand.

use std::ffi::OsStr;
use std::path::Path;

/// The program as the user typed it, followed by these arguments: `swn eval runs/x`,
/// `target/release/swn eval runs/x` or `cargo run --release -- eval runs/x`.
pub fn typed(arguments: &str) -> String {
    format!("{} {arguments}", this_program())
}

/// A message whose quoted commands ('swn eval …') begin with the program as the user typed it.
pub fn as_typed(message: &str) -> String {
    message.replace("'swn ", &format!("'{} ", this_program()))
}

fn this_program() -> String {
    let argv0 = std::env::args_os().next().unwrap_or_default();
    program(&argv0, std::env::var_os("CARGO").is_some(), cfg!(debug_assertions))
}

/// The words that start this program again. `cargo run` sets the variable `CARGO` and passes a path
/// of its own.
fn program(argv0: &OsStr, under_cargo: bool, debug: bool) -> String {
    match (under_cargo, debug) {
        (true, true) => return "cargo run --".to_owned(),
        (true, false) => return "cargo run --release --".to_owned(),
        (false, _) => {}
    }
    let path = Path::new(argv0);
    let has_folder = path.parent().is_some_and(|folder| !folder.as_os_str().is_empty());
    match has_folder {
        true => path.display().to_string(),
        false => "swn".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_named_as_it_was_started() {
        for (argv0, under_cargo, debug, words) in [
            ("swn", false, false, "swn"),
            ("", false, false, "swn"),
            ("target/release/swn", false, false, "target/release/swn"),
            ("./swn", false, true, "./swn"),
            ("target/release/swn", true, false, "cargo run --release --"),
            ("target/debug/swn", true, true, "cargo run --"),
        ] {
            assert_eq!(program(OsStr::new(argv0), under_cargo, debug), words, "{argv0}");
        }
    }
}
