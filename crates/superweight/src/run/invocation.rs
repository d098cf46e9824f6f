//! Records the processes that trained a run in `commands.jsonl`: one line with command and device
//! each.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::RunError;

/// Name of the file with one line per process that trained the run.
pub const COMMANDS: &str = "commands.jsonl";

/// A process that started or resumed a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    /// Command line as the user typed it.
    pub command: String,
    /// Name of the device.
    pub device: String,
}

impl Invocation {
    /// Reads all processes that `commands.jsonl` records, without the folders in absolute paths.
    /// Unreadable lines are left out.
    pub fn all(run: &Path) -> Vec<Self> {
        let text = fs::read_to_string(run.join(COMMANDS)).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.map(|one: Self| Self { command: without_folders(&one.command), ..one }).collect()
    }

    /// Appends this process to the `commands.jsonl` of a run.
    pub fn note(&self, run: &Path) -> Result<(), RunError> {
        use std::io::Write;
        let path = run.join(COMMANDS);
        let line = serde_json::to_string(self).expect("two texts") + "\n";
        let opened = fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(RunError::io("write", &path))
    }
}

/// Replaces every absolute path in a command line by its last component, so that published commands
/// do not show the folders of a machine.
pub(crate) fn without_folders(command: &str) -> String {
    let is_quote = |c: char| c == '\'' || c == '"';
    let (mut out, mut rest, mut quoted) = (String::new(), command, None);
    while let Some(c) = rest.chars().next() {
        let last = out.chars().next_back();
        if c == '/' && last.is_none_or(|last| last.is_whitespace() || last == '=' || is_quote(last))
        {
            let by = last.filter(|last| is_quote(*last)).or(quoted);
            let is_end = |c: char| by.map_or(c.is_whitespace() || is_quote(c), |by| c == by);
            let (path, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            out += path
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .filter(|name| !name.is_empty())
                .unwrap_or("/");
            rest = after;
            continue;
        }
        match quoted {
            None if is_quote(c) => quoted = Some(c),
            Some(by) if by == c => quoted = None,
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_lose_their_folders() {
        for (typed, published) in [
            (
                "swn train recipes/quick.toml --runs runs/a",
                "swn train recipes/quick.toml --runs runs/a",
            ),
            (
                "/home/ada/swn train /tmp/x y/r.toml --runs /scratch/runs/",
                "swn train x y/r.toml --runs runs",
            ),
            (
                "swn train --set plan.file=/p/q.json --plan '/a b/c.json'",
                "swn train --set plan.file=q.json --plan 'c.json'",
            ),
            (
                "swn train --set 'plan.file=\"/p/q r.json\"' --runs /",
                "swn train --set 'plan.file=\"q r.json\"' --runs /",
            ),
            ("swn train '--plan=/ä b/ö.json' -- /", "swn train '--plan=ö.json' -- /"),
        ] {
            assert_eq!(without_folders(typed), published);
        }
    }
}
