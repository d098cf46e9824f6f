//! Public items of a crate: which of them another crate can name, and by which path.
//!
//! An item that has several paths is listed in full at one of them, its definition's where that is
//! public, else the shortest; every other path is a `use` line.

use std::collections::BTreeMap;

use super::items::{Body, Item, Part, items};
use crate::lexer::{Kind, Token, tokens};
use crate::tree::File;

type ModulePath = Vec<String>;

/// Public items of a crate, one sorted line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surface {
    /// Lines of items that the documentation shows.
    pub shown: Vec<String>,
    /// Lines of items that `#[doc(hidden)]` keeps out of the documentation.
    pub hidden: Vec<String>,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(ModulePath),
    /// The item at this position of a module.
    Item(ModulePath, usize),
    /// A path into another crate, or to a variant.
    Foreign(String),
}

/// A way to name an item. Ways are sorted from the best to the worst.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    hidden: bool,
    elsewhere: bool,
    length: usize,
    path: String,
}

struct Modules(BTreeMap<ModulePath, Vec<Item>>);

/// Reads the public items of the crate with this name from the files below its `src`, whose paths
/// begin with `src`, such as `crates/a/src/`.
pub fn surface(name: &str, src: &str, files: &[File]) -> Surface {
    let mut modules = Modules(BTreeMap::new());
    let root = format!("{src}lib.rs");
    let files: BTreeMap<&str, &File> =
        files.iter().map(|file| (file.path.as_str(), file)).collect();
    if let Some(file) = files.get(root.as_str()) {
        modules.read(vec![], read(file), src, &files);
    }
    let mut ways: BTreeMap<Target, Vec<Way>> = BTreeMap::new();
    let name = name.replace('-', "_");
    modules.visit(&[], &name, false, &mut vec![], &mut ways);
    modules.list(&name, ways)
}

fn read(file: &File) -> Vec<Item> {
    let code: Vec<Token> =
        tokens(&file.text).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    items(&code)
}

impl Modules {
    /// Adds a module whose child modules have their files below `folder`.
    fn read(
        &mut self,
        path: ModulePath,
        items: Vec<Item>,
        folder: &str,
        files: &BTreeMap<&str, &File>,
    ) {
        for item in &items {
            let Body::Module(inline) = &item.body else { continue };
            let child: ModulePath = path.iter().chain([&item.name]).cloned().collect();
            let below = format!("{folder}{}/", item.name);
            let (own, nested) = (format!("{folder}{}.rs", item.name), format!("{below}mod.rs"));
            let file = || files.get(own.as_str()).or_else(|| files.get(nested.as_str()));
            let inner = match inline {
                Some(items) => items.clone(),
                None => file().map(|file| read(file)).unwrap_or_default(),
            };
            self.read(child, inner, &below, files);
        }
        self.0.insert(path, items);
    }

    fn items(&self, module: &[String]) -> &[Item] {
        self.0.get(module).map_or(&[], Vec::as_slice)
    }

    /// What a name stands for in a module. `any` includes what is private.
    fn look_up(&self, module: &[String], name: &str, any: bool, depth: usize) -> Vec<Target> {
        let mut found = Vec::new();
        if depth > 20 {
            return found;
        }
        let items = || self.items(module).iter().enumerate().filter(|(_, item)| any || item.public);
        for (at, item) in items() {
            match &item.body {
                Body::Use(leaves) => {
                    for (path, _) in leaves.iter().filter(|(_, leaf)| leaf == name) {
                        found.extend(self.resolve(module, path, any, depth + 1));
                    }
                }
                Body::Module(_) if item.name == name => {
                    found.push(Target::Module(child(module, name)));
                }
                Body::Definition { .. } if item.name == name => {
                    found.push(Target::Item(module.to_vec(), at));
                }
                _ => {}
            }
        }
        if found.is_empty() {
            for (_, item) in items() {
                let Body::Use(leaves) = &item.body else { continue };
                for (path, _) in leaves.iter().filter(|(_, leaf)| leaf == "*") {
                    for target in self.resolve(module, path, true, depth + 1) {
                        if let Target::Module(target) = target
                            && target != module
                        {
                            found.extend(self.look_up(&target, name, any, depth + 1));
                        }
                    }
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// What a path in a module leads to. `any` includes private ends.
    fn resolve(&self, from: &[String], path: &[String], any: bool, depth: usize) -> Vec<Target> {
        if depth > 20 {
            return vec![];
        }
        let mut module: ModulePath = from.to_vec();
        let mut rest = path;
        while let Some((head, after)) = rest.split_first() {
            match head.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                _ => break,
            }
            rest = after;
        }
        let relative = rest.len() == path.len();
        while let Some((head, after)) = rest.split_first() {
            if after.is_empty() {
                let found = self.look_up(&module, head, any, depth + 1);
                return match found.is_empty() && relative {
                    true if rest.len() == path.len() => vec![Target::Foreign(path.join("::"))],
                    _ => found,
                };
            }
            let is_child = |item: &Item| matches!(item.body, Body::Module(_)) && item.name == *head;
            if self.items(&module).iter().any(is_child) {
                module.push(head.clone());
            } else {
                let found = self.look_up(&module, head, true, depth + 1);
                let inner = found.iter().find_map(|target| match target {
                    Target::Module(path) => Some(path.clone()),
                    _ => None,
                });
                match inner {
                    Some(inner) => module = inner,
                    // Another crate, or the variants of an enum.
                    None => return vec![Target::Foreign(path.join("::"))],
                }
            }
            rest = after;
        }
        vec![Target::Module(module)]
    }

    /// Names that a module offers to other crates: name, target, hidden from the documentation.
    fn exports(&self, module: &[String], depth: usize) -> Vec<(String, Target, bool)> {
        let mut found: Vec<(String, Target, bool)> = Vec::new();
        let mut from_globs = Vec::new();
        if depth > 20 {
            return found;
        }
        for (at, item) in self.items(module).iter().enumerate().filter(|(_, item)| item.public) {
            match &item.body {
                Body::Module(_) => {
                    let target = Target::Module(child(module, &item.name));
                    found.push((item.name.clone(), target, item.hidden));
                }
                Body::Definition { .. } => {
                    let target = Target::Item(module.to_vec(), at);
                    found.push((item.name.clone(), target, item.hidden));
                }
                Body::Use(leaves) => {
                    for (path, name) in leaves.iter().filter(|(_, name)| name != "_") {
                        let targets = self.resolve(module, path, name == "*", 0);
                        for target in targets {
                            match (name.as_str(), target) {
                                ("*", Target::Module(inner)) if inner != module => {
                                    let inner = self.exports(&inner, depth + 1);
                                    from_globs.extend(
                                        inner.into_iter().map(|(n, t, h)| (n, t, h || item.hidden)),
                                    );
                                }
                                ("*", Target::Foreign(path)) => {
                                    found.push((
                                        "*".to_owned(),
                                        Target::Foreign(path),
                                        item.hidden,
                                    ));
                                }
                                (name, target) => {
                                    found.push((name.to_owned(), target, item.hidden))
                                }
                            }
                        }
                    }
                }
                Body::Impl(..) => {}
            }
        }
        let known = found.clone();
        let new =
            |(name, ..): &(String, Target, bool)| known.iter().all(|(other, ..)| other != name);
        found.extend(from_globs.into_iter().filter(new));
        found
    }

    /// Notes every way to the items of a public module.
    fn visit(
        &self,
        module: &[String],
        path: &str,
        hidden: bool,
        above: &mut Vec<ModulePath>,
        ways: &mut BTreeMap<Target, Vec<Way>>,
    ) {
        if above.iter().any(|other| other == module) {
            return;
        }
        above.push(module.to_vec());
        for (name, target, own_hidden) in self.exports(module, 0) {
            let (home, inner_hidden) = match &target {
                Target::Module(inner) => (inner[..inner.len().saturating_sub(1)].to_vec(), false),
                Target::Item(home, at) => (home.clone(), self.items(home)[*at].hidden),
                Target::Foreign(_) => (module.to_vec(), false),
            };
            let hidden = hidden || own_hidden || inner_hidden;
            let path = format!("{path}::{name}");
            let length = path.matches("::").count();
            // A definition is at home in the module whose public path is its own.
            let way = Way { hidden, elsewhere: home != module, length, path: path.clone() };
            ways.entry(target.clone()).or_default().push(way);
            if let Target::Module(inner) = target {
                self.visit(&inner, &path, hidden, above, ways);
            }
        }
        above.pop();
    }

    fn list(&self, crate_name: &str, ways: BTreeMap<Target, Vec<Way>>) -> Surface {
        let mut parts: BTreeMap<Target, Vec<&Part>> = BTreeMap::new();
        for (module, items) in &self.0 {
            for item in items {
                let Body::Impl(of, inner) = &item.body else { continue };
                let is_type = |target: &Target| match target {
                    Target::Item(home, at) => matches!(
                        self.items(home)[*at].body,
                        Body::Definition { kind: "struct" | "enum" | "union", .. }
                    ),
                    _ => false,
                };
                if let Some(of) = self.resolve(module, of, true, 0).into_iter().find(is_type) {
                    parts.entry(of).or_default().extend(inner);
                }
            }
        }
        let mut lines: Vec<(bool, String, String)> = Vec::new();
        for (target, mut found) in ways {
            found.sort();
            let best = found.remove(0);
            let mut add = |hidden: bool, kind: &str, path: &str, tail: &str| {
                lines.push((hidden, path.to_owned(), format!("{kind} {path}{tail}")));
            };
            match &target {
                Target::Module(_) => add(best.hidden, "mod", &best.path, ""),
                Target::Foreign(of) => add(best.hidden, "use", &best.path, &format!(" = {of}")),
                Target::Item(home, at) => {
                    let Body::Definition { kind, tail, parts: own } = &self.items(home)[*at].body
                    else {
                        continue;
                    };
                    add(best.hidden, kind, &best.path, tail);
                    for part in own.iter().chain(parts.remove(&target).unwrap_or_default()) {
                        let path = format!("{}::{}", best.path, part.name);
                        add(best.hidden || part.hidden, part.kind, &path, &part.tail);
                    }
                }
            }
            for other in found {
                // What is inside of a module with two paths is listed once.
                let of = match &target {
                    Target::Foreign(of) => of,
                    _ => &best.path,
                };
                add(other.hidden, "use", &other.path, &format!(" = {of}"));
            }
        }
        lines.push((false, crate_name.to_owned(), format!("crate {crate_name}")));
        lines.sort_by(|a, b| (&a.1, &a.2).cmp(&(&b.1, &b.2)));
        lines.dedup();
        let of = |wanted: bool| {
            lines
                .iter()
                .filter(|(hidden, ..)| *hidden == wanted)
                .map(|line| line.2.clone())
                .collect()
        };
        Surface { shown: of(false), hidden: of(true) }
    }
}

fn child(module: &[String], name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}
