//! Every `swn` command in the documents parses, and the settings that it gives to a recipe exist.
//!
//! The program stops after parsing where `SWN_PARSE_ONLY` is set, so that no command runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use superweight::recipe::Recipe;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Markdown files below a folder, without archives and build outputs.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let left_out =
                name.starts_with('.') || ["target", "archive", "carry"].contains(&&*name);
            if !left_out {
                documents(&path, found);
            }
        } else if name.ends_with(".md") && name != "CHANGELOG.md" {
            found.push(path);
        }
    }
}

/// Lines of code blocks with their numbers; lines that end in a backslash are joined.
fn code(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = vec![];
    let (mut fenced, mut goes_on) = (false, false);
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced && !line.starts_with("    ") {
            goes_on = false;
            continue;
        }
        let line = line.trim();
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match found.last_mut().filter(|_| goes_on) {
            Some((_, before)) => *before += part,
            None => found.push((n + 1, part.to_owned())),
        }
        goes_on = more;
    }
    found
}

/// Words of a shell line without its comment; quotes join words and vanish.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            ('#', None) if word.is_none() => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(by)) if c == by => quote = None,
            (';', None) => {
                words.extend(word.take());
                words.push(";".to_owned());
            }
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Arguments of every complete `swn` command in a line. Brackets of options that may be left out
/// are removed; a placeholder such as RUN or $seed becomes 1, of several alternatives the first is
/// taken.
fn commands(line: &str) -> Vec<Vec<String>> {
    let separator = |word: &String| ["&&", "||", "|", ";", "do", "done"].contains(&&**word);
    let mut found = vec![];
    for command in words(line.trim_start_matches("$ ")).split(separator) {
        let is_variable = |word: &&String| {
            let name = word.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c))
        };
        let command: Vec<&String> = command.iter().skip_while(is_variable).collect();
        let Some(program) = command.first() else { continue };
        let arguments = match program.rsplit('/').next() {
            Some("swn") => &command[1..],
            Some("cargo") if command.get(1).is_some_and(|word| *word == "run") => {
                let other = |word: &&&String| {
                    ["--example", "--bin", "-p", "--package", "--manifest-path"]
                        .contains(&word.as_str())
                };
                if command.iter().any(|word| other(&word)) {
                    continue;
                }
                match command.iter().position(|word| *word == "--") {
                    Some(at) => &command[at + 1..],
                    None => &[],
                }
            }
            _ => continue,
        };
        if arguments.iter().any(|word| *word == "…") {
            continue; // not complete
        }
        let redirects = |word: &&&String| word.contains('>') || **word == "<";
        let plain = |word: &&String| {
            let word = match word.starts_with("[-") || word.ends_with(']') && !word.contains('[') {
                true => word.trim_start_matches('[').trim_end_matches(']'),
                false => word,
            };
            let word = word.split('|').next().unwrap_or_default().trim_end_matches('…');
            let capitals = |c: char| c.is_ascii_uppercase() || "_-".contains(c);
            let placeholder = word.starts_with('$')
                || word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(capitals);
            if placeholder { "1".to_owned() } else { word.to_owned() }
        };
        let mut words: Vec<String> =
            arguments.iter().take_while(|word| !redirects(word)).map(plain).collect();
        // The commit is the only value whose form is checked while parsing.
        let commit = words.iter().position(|word| word == "--commit");
        if let Some(word) = commit.and_then(|at| words.get_mut(at + 1)) {
            *word = word.replace('1', "1111111");
        }
        found.push(words);
    }
    found
}

fn parse(arguments: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swn"));
    command.args(arguments).env("SWN_PARSE_ONLY", "1").current_dir(root()).output().unwrap()
}

/// What is wrong with the settings of a command.
fn wrong_settings(arguments: &[String]) -> Option<String> {
    let after = |flag: &str| {
        let pairs = arguments.windows(2).filter(move |pair| pair[0] == flag);
        pairs.map(|pair| pair[1].as_str()).collect::<Vec<_>>()
    };
    // A value with a variable of the shell is not known here.
    let known: Vec<&str> = after("--set").into_iter().filter(|set| !set.contains('$')).collect();
    let has_variable = |word: &&String| word.contains('$');
    let recipe =
        arguments.iter().find(|word| word.ends_with(".toml") && word.starts_with("recipes/"));
    let read = match recipe.filter(|word| !has_variable(word)) {
        Some(recipe) => Recipe::load(&root().join(recipe), &known),
        None => Recipe::parse("settings", "", &known),
    };
    read.err().map(|error| error.to_string())
}

#[test]
fn commands_in_documents_parse() {
    let nothing = parse(&["train".to_owned(), "there-is-no-such-recipe.toml".to_owned()]);
    assert!(nothing.status.success(), "swn does not stop after parsing: SWN_PARSE_ONLY");
    let mut files = vec![];
    documents(&root(), &mut files);
    let (mut count, mut wrong) = (0, vec![]);
    for file in files {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        for (line, text) in code(&fs::read_to_string(&file).unwrap()) {
            for arguments in commands(&text) {
                count += 1;
                let place = format!("{name}:{line}: swn {}", arguments.join(" "));
                let output = parse(&arguments);
                if !output.status.success() {
                    wrong.push(format!("{place}\n{}", String::from_utf8_lossy(&output.stderr)));
                } else if let Some(what) = wrong_settings(&arguments) {
                    wrong.push(format!("{place}\n{what}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} commands:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 15, "{count} commands: are the documents read at all?");
}

#[test]
fn a_wrong_command_is_refused() {
    let refused = |words: &[&str]| {
        let arguments: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        !parse(&arguments).status.success()
    };
    assert!(refused(&["train", "--no-such-flag"]) && refused(&["no-such-verb"]));
    let settings = ["train", "--set", "train.no_such_key=1"].map(str::to_owned);
    assert!(wrong_settings(&settings).is_some());
}

#[test]
fn commands_of_a_line() {
    let found = |line: &str| {
        let all: Vec<String> = commands(line).into_iter().map(|words| words.join(" ")).collect();
        all.join(" / ")
    };
    assert_eq!(found("$ swn plan --members 'a,b' # why"), "plan --members a,b");
    assert_eq!(
        found("A=1 target/release/swn eval RUN && swn export RUN | head"),
        "eval 1 / export 1"
    );
    assert_eq!(found("cargo run --release -- train x.toml > out"), "train x.toml");
    assert_eq!(found("cargo run -p house -- cycles"), "");
    assert_eq!(
        found("swn eval RUN [--split test|validation] [--json]"),
        "eval 1 --split test --json"
    );
    assert_eq!(found("swn bench step …; cargo build"), "");
    assert_eq!(
        code("    a \\\n      b\ntext\n```\nc\n```"),
        [(1, "a b".to_owned()), (5, "c".to_owned())]
    );
}
