//! Words that this repository does not use, and comments that are wider than 100 columns.
//!
//! Checked are comments and string literals of Rust and CUDA sources, whole scripts, comments of TOML
//! files, and Markdown. `allow.txt` lists the places where a word may stand.

use crate::lexer::{Kind, tokens};
use crate::tree::File;

/// Columns of a comment line.
const WIDTH: usize = 100;

/// Phrases and what to write instead. A space matches a space, a hyphen, an underscore or the end of a
/// line; a phrase begins and ends at the edge of a word.
const BANNED: &[(&str, &str)] = &[
    ("nobody", "no one; or name the code, the file or the user"),
    ("whoever", "name the code, the file or the user"),
    ("somebody", "name the code, the file or the user"),
    ("told apart", "classes; distinguished"),
    ("tell apart", "distinguish"),
    ("tells apart", "distinguishes"),
    ("telling apart", "distinguishing"),
    ("by lot", "at random"),
    ("anew", "again; reinit"),
    ("held out", "validation"),
    ("held outs", "validation"),
    ("hold out", "validation; keep for validation"),
    ("holds out", "validation; keeps for validation"),
    ("holding out", "validation; keeping for validation"),
    ("look at", "inspect, read, view"),
    ("looks at", "inspects, reads, views"),
    ("looked at", "inspected, read, viewed"),
    ("looking at", "inspecting, reading, viewing"),
    ("what of it", "say what is meant"),
    ("a say", "has no effect; is unused"),
    ("no say", "has no effect; is unused"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("mending", "fixing"),
    ("trainable number", "trainable parameter"),
    ("trainable numbers", "trainable parameters"),
    ("trained number", "parameter"),
    ("trained numbers", "parameters"),
    ("numbers are trained", "parameters"),
    ("the numbers are no longer any", "values are no longer finite"),
    ("asked", "requested; run, read, queried"),
    ("said", "print, report, state; prediction"),
    ("lies in", "is in; say where"),
    ("such as are", "that are"),
    ("of which the budget pays", "that count against the budget"),
    ("lost no more", "Fixed: …"),
    ("judge", "evaluate"),
    ("judges", "evaluates"),
    ("judged", "evaluated"),
    ("verdict", "comparison"),
    ("ticker", "progress"),
    ("voice", "output, prediction"),
    ("voices", "outputs, predictions"),
];

/// Places where a word may stand, one per line: path, a tab or spaces, the phrase or `*`; a path may
/// end in `*`. Lines that begin with `#` explain.
#[derive(Clone, Debug, Default)]
pub struct Allowed(Vec<(String, String)>);

impl Allowed {
    /// Reads the list.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let (path, phrase) = line.split_once(char::is_whitespace).unwrap_or((line, "*"));
            (path.to_owned(), phrase.trim().to_owned())
        };
        Self(lines.map(pair).collect())
    }

    /// Whether a file may have a phrase, or a finding of another check by its name.
    pub fn allows(&self, path: &str, phrase: &str) -> bool {
        self.0.iter().any(|(pattern, allowed)| {
            let fits = match pattern.strip_suffix('*') {
                Some(begin) => path.starts_with(begin),
                None => path == pattern,
            };
            fits && (allowed == "*" || allowed == phrase)
        })
    }
}

/// Characters with their line numbers: consecutive comment lines are one passage, so that a phrase
/// across two lines is found.
type Passage = Vec<(char, usize)>;

/// All findings, as `path:line: …`.
pub fn find(files: &[File], allowed: &Allowed) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for passage in passages(file) {
            for (line, phrase, instead) in banned(&passage) {
                let renames = file.name() == "CHANGELOG.md" && documents_rename(&file.text, line);
                if !renames && !allowed.allows(&file.path, phrase) {
                    let path = &file.path;
                    found.push((path, line, format!("{path}:{line}: \"{phrase}\": {instead}")));
                }
            }
        }
        for (line, columns) in wide_comments(file) {
            if !allowed.allows(&file.path, "width") {
                let path = &file.path;
                found.push((path, line, format!("{path}:{line}: a comment of {columns} columns")));
            }
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, _, text)| text).collect()
}

/// Whether a line of the changelog tells a rename.
fn documents_rename(text: &str, line: usize) -> bool {
    let line = text.lines().nth(line - 1).unwrap_or("");
    ["→", "->", "renamed", "Renamed", "now called"].iter().any(|sign| line.contains(sign))
}

fn extension(file: &File) -> &str {
    file.path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn passages(file: &File) -> Vec<Passage> {
    let lines = || file.text.lines().enumerate().map(|(n, line)| (n + 1, line));
    let of_lines = |lines: &mut dyn Iterator<Item = (usize, &str)>| {
        lines.flat_map(|(n, line)| line.chars().chain(['\n']).map(move |c| (c, n))).collect()
    };
    match extension(file) {
        "rs" | "cu" | "cuh" => of_code(&file.text),
        "md" if file.path.starts_with("docs/archive/") => vec![],
        "md" => {
            let text: Vec<String> = file.text.lines().map(without_link_targets).collect();
            vec![of_lines(&mut text.iter().enumerate().map(|(n, line)| (n + 1, line.as_str())))]
        }
        "toml" => {
            let comment = |(n, line): (usize, &'_ str)| line.find('#').map(|at| (n, at));
            let comments: Vec<(usize, usize)> = lines().filter_map(comment).collect();
            let text: Vec<&str> = file.text.lines().collect();
            vec![of_lines(&mut comments.into_iter().map(|(n, at)| (n, &text[n - 1][at..])))]
        }
        _ => vec![of_lines(&mut lines())],
    }
}

/// A line of Markdown without the targets of its links: a path is no word of the text.
fn without_link_targets(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find("](") {
        let (before, target) = rest.split_at(at + 2);
        out += before;
        let Some(end) = target.find(')') else { return out };
        rest = &target[end..];
    }
    out + rest
}

/// Comments and string literals of a source.
fn of_code(text: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let mut last_comment = 0;
    for token in tokens(text) {
        let mut line = token.line;
        let chars = token.text.chars().map(|c| {
            let here = (c, line);
            line += usize::from(c == '\n');
            here
        });
        match token.kind {
            Kind::Comment => {
                let chars: Passage = chars.collect();
                let marker = chars.iter().take_while(|(c, _)| matches!(c, '/' | '!' | '*')).count();
                let chars = chars.into_iter().skip(marker).chain([('\n', line)]);
                match found
                    .last_mut()
                    .filter(|_| last_comment > 0 && token.line == last_comment + 1)
                {
                    Some(passage) => passage.extend(chars),
                    None => found.push(chars.collect()),
                }
                last_comment = line;
            }
            Kind::Str => {
                found.push(chars.collect());
                last_comment = 0;
            }
            _ => last_comment = 0,
        }
    }
    found
}

/// Line, phrase and replacement of every banned phrase of a passage.
fn banned(passage: &Passage) -> Vec<(usize, &'static str, &'static str)> {
    let word_char = |c: char| c.is_alphanumeric() || c == '_';
    let mut words: Vec<(String, usize, usize, usize)> = Vec::new();
    let mut at = 0;
    while at < passage.len() {
        if !word_char(passage[at].0) {
            at += 1;
            continue;
        }
        let begin = at;
        while at < passage.len() && word_char(passage[at].0) {
            at += 1;
        }
        let word: String = passage[begin..at].iter().map(|(c, _)| c.to_ascii_lowercase()).collect();
        words.push((word, begin, at, passage[begin].1));
    }
    // `held_out` is two words of a phrase, `held_out_every` is a name of its own.
    let phrase_fits = |from: usize, phrase: &str| {
        if words[from].0 == phrase.replace(' ', "_") {
            return true;
        }
        let mut end = None;
        phrase.split(' ').enumerate().all(|(n, part)| {
            let Some((word, begin, after, _)) = words.get(from + n) else { return false };
            let gap = end.is_none_or(|end: usize| {
                passage[end..*begin].iter().all(|(c, _)| c.is_whitespace() || *c == '-')
            });
            end = Some(*after);
            word == part && gap
        })
    };
    let mut found = Vec::new();
    for (from, word) in words.iter().enumerate() {
        for (phrase, instead) in BANNED {
            if phrase_fits(from, phrase) {
                found.push((word.3, *phrase, *instead));
            }
        }
    }
    found
}

/// Lines with comments that are too wide: line and columns. Tables and addresses may be.
fn wide_comments(file: &File) -> Vec<(usize, usize)> {
    let wide = |line: &str| {
        let columns = line.chars().count();
        let text = line.trim_start().trim_start_matches(['/', '!', '*', '#']).trim_start();
        (columns > WIDTH && !line.contains("://") && !text.starts_with('|')).then_some(columns)
    };
    let lines: Vec<&str> = file.text.lines().collect();
    let at = |n: usize| lines.get(n - 1).and_then(|line| wide(line)).map(|columns| (n, columns));
    match extension(file) {
        "rs" | "cu" | "cuh" => {
            let comments =
                tokens(&file.text).into_iter().filter(|token| token.kind == Kind::Comment);
            let span = |token: crate::lexer::Token| {
                token.line..=token.line + token.text.matches('\n').count()
            };
            comments.flat_map(span).filter_map(at).collect()
        }
        "py" | "sh" => {
            let comment = |n: &usize| {
                let line = lines[n - 1];
                line.trim_start().starts_with('#') || line.contains("  # ")
            };
            (1..=lines.len()).filter(comment).filter_map(at).collect()
        }
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        find(&[File::new(path, text)], &Allowed::parse("# why\na/ok.rs anew\ndocs/x* *"))
    }

    #[test]
    fn a_phrase_is_found_in_comments_and_strings_and_over_two_lines() {
        let source = "/// Images that are held\n/// out.\nfn held_out() {} // nobody_else, recommended\n\
                      const M: &str = \"--held-out\\\n is no more\";\n// told\nlet a; // apart\n";
        assert_eq!(
            found("a/b.rs", source),
            ["a/b.rs:1: \"held out\": validation", "a/b.rs:4: \"held out\": validation"]
        );
    }

    #[test]
    fn the_list_allows_a_word_in_a_file() {
        assert!(found("a/ok.rs", "// Anew.").is_empty());
        assert_eq!(found("a/ok.rs", "// By lot.").len(), 1);
        assert!(
            found("docs/x.md", "nobody").is_empty()
                && found("docs/archive/y.md", "nobody").is_empty()
        );
    }

    #[test]
    fn markdown_and_toml() {
        let text = "Nobody\n[a](held-out.md) and `--held-out`\n";
        assert_eq!(found("d.md", text).len(), 2);
        assert_eq!(found("a.toml", "anew = 'anew' # anew\n").len(), 1);
        let changes = "- `--held-out` → `--validation`\n- held-out images\n";
        assert_eq!(found("CHANGELOG.md", changes), ["CHANGELOG.md:2: \"held out\": validation"]);
    }

    #[test]
    fn a_wide_comment_is_found() {
        let long = "x ".repeat(50);
        let source = format!(
            "// {long}\n/// | {long}\nlet a = \"{long}\";\n/* a\n b {long} */\n// https://{long}"
        );
        let lines: Vec<_> = found("a/b.rs", &source);
        assert_eq!(
            lines,
            ["a/b.rs:1: a comment of 103 columns", "a/b.rs:5: a comment of 106 columns"]
        );
        assert_eq!(found("a.py", &format!("# {long}\na = '{long}'")).len(), 1);
    }
}
