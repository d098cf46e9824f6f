//! Finds the data folder: `$SWN_DATA`, otherwise `superweight/data` in the user's cache
//! (`$XDG_CACHE_HOME`, otherwise `~/.cache`).

use std::ffi::OsString;
use std::path::PathBuf;

use crate::data::DataError;

/// Path of the data folder, which may not exist yet.
pub fn standard_folder() -> Result<PathBuf, DataError> {
    choose(|name| std::env::var_os(name))
}

fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, DataError> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG specification ignores relative paths.
    let absolute = |name| path(name).filter(|path| path.is_absolute());
    let cache = || absolute("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
    path("SWN_DATA").or_else(|| Some(cache()?.join("superweight/data"))).ok_or(DataError::NoFolder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_variable_names_the_folder() {
        let chosen = |set: &[(&str, &str)]| {
            let value = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            };
            choose(value).ok().map(|path| path.display().to_string())
        };
        let home = ("HOME", "/home/me");
        assert_eq!(chosen(&[home]).unwrap(), "/home/me/.cache/superweight/data");
        assert_eq!(chosen(&[home, ("XDG_CACHE_HOME", "/c")]).unwrap(), "/c/superweight/data");
        assert_eq!(
            chosen(&[home, ("XDG_CACHE_HOME", "c")]).unwrap(),
            "/home/me/.cache/superweight/data"
        );
        assert_eq!(chosen(&[home, ("SWN_DATA", "d")]).unwrap(), "d");
        assert_eq!(chosen(&[home, ("SWN_DATA", "")]).unwrap(), "/home/me/.cache/superweight/data");
        assert_eq!(chosen(&[]), None);
    }
}
