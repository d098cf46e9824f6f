//! Modules of a crate: what each declares, defines, imports and names by path.
//!
//! Test code is left out: items under `#[cfg(test)]` or `#[cfg(fuzzing)]`, files called `tests.rs`,
//! `*_tests.rs`, `testing.rs` and `fuzzing.rs`, and folders called `tests`.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer::{Kind, Token, tokens};
use crate::tree::File;

/// Path of a module from the root of its crate; empty for the root itself.
pub type ModulePath = Vec<String>;

/// A `use` declaration, one per leaf of its tree.
#[derive(Clone, Debug)]
pub struct Import {
    /// Segments as written, without a final `*`.
    pub path: Vec<String>,
    /// Name that the import has in its module; `_` and `*` name nothing.
    pub name: String,
    /// Whether the declaration has any `pub`.
    pub public: bool,
    /// Whether it belongs to the module, not to a function.
    pub in_module: bool,
    /// Line in the file.
    pub line: usize,
}

impl Import {
    /// Whether it imports everything.
    pub fn is_glob(&self) -> bool {
        self.name == "*"
    }
}

/// A name used outside of `use` declarations.
#[derive(Clone, Debug)]
pub struct Mention {
    /// The identifier.
    pub name: String,
    /// Whether it is used as a path, a call or a macro.
    pub called: bool,
    /// Line in the file.
    pub line: usize,
}

/// A path such as `super::x` in code.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Segments as written.
    pub path: Vec<String>,
    /// Line in the file.
    pub line: usize,
}

/// A module.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// File with its text.
    pub file: String,
    /// Names of its items.
    pub items: BTreeSet<String>,
    /// Names of its child modules, tests left out.
    pub children: BTreeSet<String>,
    /// Its imports.
    pub imports: Vec<Import>,
    /// Its inline paths.
    pub references: Vec<Reference>,
    /// Its identifiers outside of imports.
    pub mentions: Vec<Mention>,
}

/// The modules of a crate.
#[derive(Clone, Debug, Default)]
pub struct Crate {
    /// Name in paths.
    pub name: String,
    /// By path; the root has the empty path.
    pub modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    /// Reads a crate from the files below its `src`, whose paths begin with `src`, such as
    /// `crates/a/src/`.
    pub fn read(name: &str, src: &str, files: &[File]) -> Self {
        let mut found = Self { name: name.replace('-', "_"), ..Self::default() };
        let has_lib = files.iter().any(|file| file.path == format!("{src}lib.rs"));
        let mut tests: BTreeSet<ModulePath> = BTreeSet::new();
        for file in files {
            let Some(path) = file.path.strip_prefix(src).and_then(module_path) else { continue };
            // The binary of a crate that has a library too is a crate of its own.
            if has_lib && file.path == format!("{src}main.rs") {
                continue;
            }
            let code: Vec<Token> = tokens(&file.text)
                .into_iter()
                .filter(|token| token.kind != Kind::Comment)
                .collect();
            let mut scan = Scan {
                code: &code,
                file: &file.path,
                modules: &mut found.modules,
                tests: &mut tests,
            };
            scan.module(0, code.len(), &path);
        }
        let in_tests =
            |path: &ModulePath| (1..=path.len()).any(|length| tests.contains(&path[..length]));
        found.modules.retain(|path, _| !in_tests(path));
        let paths: Vec<ModulePath> = found.modules.keys().cloned().collect();
        for path in paths.iter().filter(|path| !path.is_empty()) {
            let (name, parent) = path.split_last().expect("a path that is not empty");
            if let Some(parent) = found.modules.get_mut(parent) {
                parent.children.insert(name.clone());
            }
        }
        found
    }

    /// Module in which the item at the end of a path is defined, or the module that the path names.
    /// `None` for paths to other crates.
    pub fn resolve(&self, from: &[String], path: &[String]) -> Option<ModulePath> {
        self.resolve_from(from, path, 0)
    }

    fn resolve_from(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        let module = self.modules.get(from)?;
        let (head, rest) = path.split_first()?;
        match head.as_str() {
            "crate" => self.walk(&[], rest, depth),
            "self" => self.walk(from, rest, depth),
            "super" => {
                let mut up = from;
                let mut rest = path;
                while rest.first().is_some_and(|segment| segment == "super") {
                    up = &up[..up.len().checked_sub(1)?];
                    rest = &rest[1..];
                }
                self.walk(up, rest, depth)
            }
            _ if module.children.contains(head)
                || module.items.contains(head)
                || module
                    .imports
                    .iter()
                    .any(|import| import.name == *head && import.path != path) =>
            {
                self.walk(from, path, depth)
            }
            _ if *head == self.name => self.walk(&[], rest, depth),
            _ => None,
        }
    }

    fn walk(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        if depth > 20 {
            return Some(from.to_vec());
        }
        let Some((head, rest)) = path.split_first() else { return Some(from.to_vec()) };
        let module = self.modules.get(from)?;
        if module.children.contains(head) {
            let child: ModulePath = from.iter().chain([head]).cloned().collect();
            return self.walk(&child, rest, depth);
        }
        let imports = || module.imports.iter().filter(|import| import.in_module);
        if let Some(import) = imports().find(|import| import.name == *head && !import.is_glob()) {
            let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            return self.resolve_from(from, &path, depth + 1);
        }
        if !module.items.contains(head) {
            for import in imports().filter(|import| import.is_glob()) {
                let target = self.resolve_from(from, &import.path, depth + 1);
                let target = target.filter(|target| self.exports(target, head));
                if let Some(target) = target {
                    return self.walk(&target, path, depth + 1);
                }
            }
        }
        // An item of this module, or one that a macro defines here.
        Some(from.to_vec())
    }

    fn exports(&self, module: &[String], name: &String) -> bool {
        self.names(module).contains(name)
    }

    /// Names that a module defines, contains or imports one by one.
    pub fn names(&self, module: &[String]) -> BTreeSet<String> {
        let Some(module) = self.modules.get(module) else { return BTreeSet::new() };
        let imported = module.imports.iter().filter(|import| import.in_module && !import.is_glob());
        let imported = imported.map(|import| import.name.clone());
        module.items.iter().chain(&module.children).cloned().chain(imported).collect()
    }
}

/// Module of a file below `src`; `None` for test code and for binaries.
fn module_path(path: &str) -> Option<ModulePath> {
    let stem = path.strip_suffix(".rs")?;
    let mut parts: ModulePath = stem.split('/').map(str::to_owned).collect();
    let is_test = |part: &String| {
        matches!(part.as_str(), "tests" | "testing" | "fuzzing") || part.ends_with("_tests")
    };
    if parts.iter().any(is_test) || parts.first().is_some_and(|part| part == "bin") {
        return None;
    }
    let last = parts.last().expect("a path has a part").as_str();
    if last == "mod" || (parts.len() == 1 && matches!(last, "lib" | "main")) {
        parts.pop();
    }
    Some(parts)
}

struct Scan<'a> {
    code: &'a [Token],
    file: &'a str,
    modules: &'a mut BTreeMap<ModulePath, Module>,
    tests: &'a mut BTreeSet<ModulePath>,
}

impl Scan<'_> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.code.get(at).is_some_and(|token| token.is(text))
    }

    fn ident(&self, at: usize) -> Option<&str> {
        let token = self.code.get(at)?;
        (token.kind == Kind::Ident).then_some(token.text.as_str())
    }

    fn is_path_sign(&self, at: usize) -> bool {
        self.is(at, ":") && self.is(at + 1, ":")
    }

    /// Position after the bracket that closes the one at `at`.
    fn after_brackets(&self, mut at: usize) -> usize {
        let mut depth = 0usize;
        while let Some(token) = self.code.get(at) {
            if token.kind == Kind::Punct {
                match token.text.as_str() {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }

    /// Position after the item, field, arm or statement at `at`.
    fn after_item(&self, mut at: usize, end: usize) -> usize {
        const ITEMS: [&str; 17] = [
            "pub",
            "mod",
            "use",
            "fn",
            "struct",
            "enum",
            "impl",
            "trait",
            "type",
            "const",
            "static",
            "unsafe",
            "extern",
            "async",
            "macro_rules",
            "let",
            "union",
        ];
        let is_item = self.ident(at).is_some_and(|word| ITEMS.contains(&word));
        let mut is_use = false;
        while at < end {
            is_use |= self.is(at, "use");
            let token = &self.code[at];
            match token.text.as_str() {
                "{" if token.kind == Kind::Punct && !is_use => return self.after_brackets(at),
                "(" | "[" | "{" if token.kind == Kind::Punct => at = self.after_brackets(at),
                ";" => return at + 1,
                "," if !is_item => return at + 1,
                ")" | "]" | "}" if token.kind == Kind::Punct => return at,
                _ => at += 1,
            }
        }
        end
    }

    fn module(&mut self, begin: usize, end: usize, path: &[String]) {
        let mut module = self.modules.remove(path).unwrap_or_default();
        module.file = self.file.to_owned();
        let (mut at, mut depth, mut public) = (begin, 0usize, false);
        while at < end {
            let token = &self.code[at];
            if token.is("#") && (self.is(at + 1, "[") || self.is(at + 1, "!")) {
                let open = at + 1 + usize::from(self.is(at + 1, "!"));
                let after = self.after_brackets(open);
                let inner = open == at + 2;
                at = after;
                if !inner && is_test_only(&self.code[open..after]) {
                    while self.is(at, "#") {
                        at = self.after_brackets(at + 1);
                    }
                    let after = self.after_item(at, end);
                    self.note_test_module(at, after, path);
                    at = after;
                }
                continue;
            }
            match (token.kind, token.text.as_str()) {
                (Kind::Punct, "{") => depth += 1,
                (Kind::Punct, "}") => depth = depth.saturating_sub(1),
                (Kind::Ident, "pub") => {
                    public = true;
                    at += 1;
                    if self.is(at, "(") {
                        at = self.after_brackets(at);
                    }
                    continue;
                }
                (Kind::Ident, "mod") if self.ident(at + 1).is_some() => {
                    let name = self.ident(at + 1).expect("just seen").to_owned();
                    if self.is(at + 2, "{") {
                        let after = self.after_brackets(at + 2);
                        let child: ModulePath = path.iter().cloned().chain([name]).collect();
                        self.module(at + 3, after - 1, &child);
                        (at, public) = (after, false);
                        continue;
                    }
                }
                (Kind::Ident, "use") if !self.is(at + 1, "<") => {
                    let line = token.line;
                    let mut leaves = Vec::new();
                    at = self.use_tree(at + 1, &[], &mut leaves);
                    let import = |(path, name, at): (Vec<String>, String, usize)| Import {
                        path,
                        name,
                        public,
                        in_module: depth == 0,
                        line: self.code.get(at).map_or(line, |token| token.line),
                    };
                    module.imports.extend(leaves.into_iter().map(import));
                    public = false;
                    continue;
                }
                (
                    Kind::Ident,
                    "struct" | "enum" | "fn" | "trait" | "type" | "const" | "static" | "union",
                ) if depth == 0 => {
                    let name = at + 1 + usize::from(self.is(at + 1, "mut"));
                    if let Some(name) = self.ident(name) {
                        module.items.insert(name.to_owned());
                    }
                }
                (Kind::Ident, "macro_rules") => {
                    if let Some(name) = self.ident(at + 2) {
                        module.items.insert(name.to_owned());
                    }
                }
                (Kind::Ident, _) => {
                    at = self.word(at, &mut module);
                    public = false;
                    continue;
                }
                _ => {}
            }
            if token.kind == Kind::Ident {
                public = false;
            }
            at += 1;
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// Notes the identifier at `at` or the path that begins there; returns the position after it.
    fn word(&self, at: usize, module: &mut Module) -> usize {
        let token = &self.code[at];
        let before = at.checked_sub(1).map(|before| &self.code[before]);
        let goes_on = at >= 2 && self.is_path_sign(at - 2);
        let method = before.is_some_and(|before| before.is("."));
        let defined = before.is_some_and(|before| before.is("fn"));
        if !goes_on && !method && !defined {
            let called = self.is_path_sign(at + 1) || self.is(at + 1, "(") || self.is(at + 1, "!");
            module.mentions.push(Mention { name: token.text.clone(), called, line: token.line });
        }
        if goes_on || !self.is_path_sign(at + 1) || before.is_some_and(|before| before.is("in")) {
            return at + 1;
        }
        let mut path = vec![token.text.clone()];
        let mut at = at + 1;
        while self.is_path_sign(at) {
            let Some(segment) = self.ident(at + 2) else { break };
            path.push(segment.to_owned());
            at += 3;
        }
        if path.len() > 1 {
            module.references.push(Reference { path, line: token.line });
        }
        at
    }

    fn note_test_module(&mut self, at: usize, after: usize, path: &[String]) {
        let words: Vec<&str> = (at..after.min(at + 6)).filter_map(|at| self.ident(at)).collect();
        if let Some(at) = words.iter().position(|word| *word == "mod")
            && let Some(name) = words.get(at + 1)
        {
            self.tests.insert(path.iter().cloned().chain([(*name).to_owned()]).collect());
        }
    }

    /// Collects the leaves of a `use` tree: path, name and position; returns the position after it.
    fn use_tree(
        &self,
        mut at: usize,
        before: &[String],
        leaves: &mut Vec<(Vec<String>, String, usize)>,
    ) -> usize {
        let mut path = before.to_vec();
        if self.is_path_sign(at) {
            at += 2;
        }
        let first = at;
        loop {
            if self.is(at, "{") {
                let end = self.after_brackets(at);
                at += 1;
                while at < end - 1 {
                    at = self.use_tree(at, &path, leaves);
                    at += usize::from(self.is(at, ","));
                }
                at = end;
                break;
            }
            if self.is(at, "*") {
                leaves.push((path, "*".to_owned(), first));
                at += 1;
                break;
            }
            let Some(segment) = self.ident(at) else { return at + 1 };
            if segment != "self" || path.is_empty() {
                path.push(segment.to_owned());
            }
            at += 1;
            if self.is_path_sign(at) {
                at += 2;
                continue;
            }
            let mut name = path.last().cloned().unwrap_or_default();
            if self.is(at, "as") {
                name = self.ident(at + 1).unwrap_or("_").to_owned();
                at += 2;
            }
            leaves.push((path, name, first));
            break;
        }
        // The end of the whole declaration.
        at + usize::from(before.is_empty() && self.is(at, ";"))
    }
}

/// Whether an attribute, with its brackets, keeps an item for tests or fuzzing.
fn is_test_only(attribute: &[Token]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.is(word));
    has("cfg") && (has("test") || has("fuzzing")) && !has("not")
}
