//! Links of Markdown files: every relative one leads to a file, and to a heading where it names
//! one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::tree::File;

/// Links that lead nowhere, as `path:line: …`.
pub fn find(root: &Path, files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (line, link) in links(&file.text) {
            if let Some(what) = broken(root, files, file, &link) {
                found.push(format!("{}:{line}: {link}: {what}", file.path));
            }
        }
    }
    found
}

fn broken(root: &Path, files: &[File], from: &File, link: &str) -> Option<String> {
    let scheme = link.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    if scheme || link.starts_with("//") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, a)| (path, Some(a)));
    let target = match path {
        "" => from.path.clone(),
        _ => match join(&from.path, &unescaped(path)) {
            Some(target) => target,
            None => return Some("it leaves the repository".to_owned()),
        },
    };
    if !root.join(&target).exists() && !files.iter().any(|file| file.path == target) {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor.filter(|_| target.ends_with(".md"))?;
    let known = files.iter().find(|file| file.path == target).map(|file| file.text.clone());
    let text = known.or_else(|| fs::read_to_string(root.join(&target)).ok())?;
    (!anchors(&text).contains(&anchor.to_lowercase()))
        .then(|| "there is no such heading".to_owned())
}

/// A path beside a file, from the root.
fn join(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    if path.starts_with('/') {
        parts.clear();
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn unescaped(path: &str) -> String {
    path.replace("%20", " ").replace("\\_", "_")
}

/// Lines of Markdown outside of code blocks, with `inline code` blanked.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<String> = None;
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let marks: String = trimmed.chars().take_while(|c| matches!(c, '`' | '~')).collect();
        if marks.len() >= 3 {
            match &fence {
                None => fence = Some(marks),
                Some(open) if marks.starts_with(open.as_str()) => fence = None,
                Some(_) => {}
            }
            continue;
        }
        if fence.is_none() {
            found.push((n + 1, without_code(line)));
        }
    }
    found
}

fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    // An odd number of backquotes: the last opens nothing.
    let closed = parts.len() % 2 == 1;
    let keep = |(n, part): (usize, &str)| match n % 2 == 0 || (!closed && n + 1 == parts.len()) {
        true => part.to_owned(),
        false => "x".to_owned(),
    };
    parts.iter().copied().enumerate().map(keep).collect()
}

/// Targets of links and images, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (n, line) in prose(text) {
        let mut rest = line.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let mut depth = 1;
            let end = rest.char_indices().find(|(_, c)| {
                depth += match c {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                depth == 0
            });
            let Some((end, _)) = end else { break };
            found.push((n, target(&rest[..end])));
            rest = &rest[end..];
        }
        let definition =
            line.trim_start().strip_prefix('[').and_then(|line| line.split_once("]: "));
        if let Some((name, to)) = definition
            && !name.starts_with('^')
            && !name.contains(']')
        {
            found.push((n, target(to)));
        }
        for sign in ["src=\"", "href=\""] {
            for part in line.split(sign).skip(1) {
                found.extend(part.split_once('"').map(|(to, _)| (n, to.to_owned())));
            }
        }
    }
    found.retain(|(_, link)| !link.is_empty());
    found
}

/// A link's target without title and angle brackets.
fn target(link: &str) -> String {
    let link = link.trim();
    match link.strip_prefix('<').and_then(|link| link.split_once('>')) {
        Some((inside, _)) => inside.to_owned(),
        None => link.split_whitespace().next().unwrap_or("").to_owned(),
    }
}

/// Anchors of a file's headings, as GitHub makes them, and those that it defines itself.
fn anchors(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    // Code in a heading counts, so lines are read as they are.
    let outside: Vec<usize> = prose(text).into_iter().map(|(n, _)| n).collect();
    let lines: Vec<&str> = text.lines().collect();
    for line in outside.into_iter().map(|n| lines[n - 1]) {
        for sign in ["id=\"", "name=\""] {
            for part in line.split(sign).skip(1) {
                found.extend(part.split_once('"').map(|(name, _)| name.to_lowercase()));
            }
        }
        let level = line.chars().take_while(|&c| c == '#').count();
        if !(1..=6).contains(&level) || !line[level..].starts_with(' ') {
            continue;
        }
        let slug = slug(line[level..].trim().trim_end_matches('#').trim_end());
        let count = counts.entry(slug.clone()).or_default();
        found.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    found
}

fn slug(heading: &str) -> String {
    // Of a link only its text counts.
    let (mut text, mut rest) = (String::new(), heading);
    while let Some(at) = rest.find("](") {
        text += &rest[..at];
        rest = rest[at..].split_once(')').map_or("", |(_, rest)| rest);
    }
    text += rest;
    let keep = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c),
        _ => None,
    };
    text.to_lowercase().chars().filter_map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = [
            File::new("docs/a.md", text),
            File::new("b.md", "# One `two`: three\n# Same\n# Same\n"),
        ];
        find(Path::new("/nowhere"), &files)
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[x](../b.md) ![y](a.md \"title\") [z](../b.md#one-two-three) [s](../b.md#same-1)\n\
                    [w](https://example.org/x) [m](mailto:a@b) `[c](no.md)` [here](#head)\n\n## Head\n\
                    ```\n[d](no.md)\n```\n[r]: ../b.md\n<img src=\"a.md\">\n";
        let none: [String; 0] = [];
        assert_eq!(found(text), none);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "[x](no.md)\n[y](../../b.md) [z](../b.md#two)\n[r]: gone.md\n[u](#nope)\n";
        assert_eq!(
            found(text),
            [
                "docs/a.md:1: no.md: there is no such file",
                "docs/a.md:2: ../../b.md: it leaves the repository",
                "docs/a.md:2: ../b.md#two: there is no such heading",
                "docs/a.md:3: gone.md: there is no such file",
                "docs/a.md:4: #nope: there is no such heading",
            ]
        );
    }
}
