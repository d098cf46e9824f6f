//! Circles between modules.
//!
//! Every folder of modules has a graph of its own: its direct children and its own file
//! (`mod.rs`). A path from one module to another is an edge in the graph of the folder in which
//! the two part. Names are followed through re-exports to the module that defines them, so `pub
//! use child::Name` and `mod child;` are no dependencies of `mod.rs` by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::modules::{Crate, ModulePath};

/// Where an edge comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// File.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
}

/// Modules of one folder that depend on each other in a circle.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// Crate.
    pub krate: String,
    /// Folder of the modules; empty for the root.
    pub folder: ModulePath,
    /// The modules, sorted.
    pub modules: Vec<String>,
    /// Edges between them: from, to, places.
    pub edges: Vec<(String, String, Vec<Place>)>,
}

/// Places of an edge that are printed.
const PLACES: usize = 4;

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let folder = self.folder.join("::");
        let folder = if folder.is_empty() { "top level".to_owned() } else { folder };
        writeln!(f, "{}, {folder}: {}", self.krate, self.modules.join(", "))?;
        for (from, to, places) in &self.edges {
            writeln!(f, "  {from} -> {to}")?;
            for Place { file, line } in places.iter().take(PLACES) {
                writeln!(f, "      {file}:{line}")?;
            }
            if places.len() > PLACES {
                writeln!(f, "      and {} more", places.len() - PLACES)?;
            }
        }
        Ok(())
    }
}

type Graph = BTreeMap<(String, String), BTreeSet<Place>>;

/// All circles of a crate.
pub fn cycles(krate: &Crate) -> Vec<Cycle> {
    let mut graphs: BTreeMap<ModulePath, Graph> = BTreeMap::new();
    for (from, to, place) in edges(krate) {
        let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        if from == to {
            continue;
        }
        let folder = from[..common].to_vec();
        let own_file = || {
            let file = krate.modules.get(&folder).map_or("", |module| &module.file);
            file.rsplit('/').next().unwrap_or("mod.rs").to_owned()
        };
        let node = |path: &[String]| path.get(common).cloned().unwrap_or_else(own_file);
        let edge = (node(&from), node(&to));
        graphs.entry(folder).or_default().entry(edge).or_default().insert(place);
    }
    let mut found = Vec::new();
    for (folder, graph) in graphs {
        for modules in circles(&graph) {
            let inside =
                |(from, to): &(String, String)| modules.contains(from) && modules.contains(to);
            let edges = graph.iter().filter(|(edge, _)| inside(edge));
            found.push(Cycle {
                krate: krate.name.clone(),
                folder: folder.clone(),
                edges: edges
                    .map(|((from, to), places)| {
                        (from.clone(), to.clone(), places.iter().cloned().collect())
                    })
                    .collect(),
                modules: modules.into_iter().collect(),
            });
        }
    }
    found
}

/// Dependencies between modules: from, to, place.
fn edges(krate: &Crate) -> Vec<(ModulePath, ModulePath, Place)> {
    let mut edges = Vec::new();
    for (from, module) in &krate.modules {
        let place = |line| Place { file: module.file.clone(), line };
        let mentioned = |name: &str| {
            let is_type = name.starts_with(char::is_uppercase);
            let mut mentions = module.mentions.iter();
            mentions.find(|mention| mention.name == name && (is_type || mention.called))
        };
        for import in &module.imports {
            let Some(target) = krate.resolve(from, &import.path) else { continue };
            let below = target.len() > from.len() && target.starts_with(from);
            if import.is_glob() {
                let names = krate.names(&target);
                let mut used = false;
                for (name, mention) in
                    names.iter().filter_map(|name| Some((name, mentioned(name)?)))
                {
                    let path: Vec<String> = import.path.iter().chain([name]).cloned().collect();
                    if let Some(target) = krate.resolve(from, &path) {
                        used = true;
                        edges.push((from.clone(), target, place(mention.line)));
                    }
                }
                if !used && !import.public {
                    edges.push((from.clone(), target, place(import.line)));
                }
            } else if !(import.public && below) {
                edges.push((from.clone(), target, place(import.line)));
            } else if let Some(mention) = mentioned(&import.name) {
                // Re-exported and used.
                edges.push((from.clone(), target, place(mention.line)));
            }
        }
        for reference in &module.references {
            let head = reference.path[0].as_str();
            let imported = module.imports.iter().any(|import| import.name == head);
            if !imported && let Some(target) = krate.resolve(from, &reference.path) {
                edges.push((from.clone(), target, place(reference.line)));
            }
        }
    }
    edges
}

/// Sets of nodes that reach each other, each of two nodes or more.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let nodes: BTreeSet<&String> = graph.keys().flat_map(|(from, to)| [from, to]).collect();
    let reach = |start: &String| {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(node) = todo.pop() {
            for (_, to) in graph.keys().filter(|(from, to)| *from == node && from != to) {
                if reached.insert(to.clone()) {
                    todo.push(to.clone());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        nodes.iter().map(|node| (*node, reach(node))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for node in nodes {
        if found.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        let back = reached[node].iter().filter(|other| reached[*other].contains(node));
        let circle: BTreeSet<String> = back.cloned().collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> =
            files.iter().map(|(path, text)| File::new(&format!("src/{path}"), text)).collect();
        cycles(&Crate::read("a-crate", "src/", &files)).iter().map(Cycle::to_string).collect()
    }

    const LIB: (&str, &str) = ("lib.rs", "pub mod a; pub mod b; mod c; pub use a::A;");

    #[test]
    fn a_tree_without_a_circle_passes() {
        let none: [String; 0] = [];
        let b = ("b.rs", "use crate::c::{self, Deep as D, inner::{X, Y}}; fn f() -> D { c::g() }");
        let c = ("c/mod.rs", "mod inner; pub use inner::{X, Y}; pub struct Deep; pub fn g() {}");
        let inner = ("c/inner.rs", "use std::fmt; pub struct X; pub struct Y;");
        assert_eq!(found(&[LIB, ("a.rs", "use crate::b; pub struct A;"), b, c, inner]), none);
    }

    #[test]
    fn a_circle_is_named_with_files_and_lines() {
        let a = ("a.rs", "use crate::b::B;\npub struct A;");
        let b = ("b.rs", "pub struct B;\nfn f() { super::A; }");
        assert_eq!(
            found(&[LIB, a, b]),
            ["a_crate, top level: a, b\n  a -> b\n      src/a.rs:1\n  b -> a\n      src/b.rs:2\n"]
        );
    }

    #[test]
    fn a_circle_through_a_third_module_and_a_glob_is_found() {
        let a = ("a.rs", "use super::b::*; pub struct A(B);");
        let b = ("b.rs", "pub struct B; impl B { fn f() { crate::c::g(); } }");
        let c = ("c.rs", "use crate::{A as Other}; pub fn g() {}");
        let cycles = found(&[LIB, a, b, c]);
        assert!(cycles.len() == 1 && cycles[0].contains("top level: a, b, c\n"), "{cycles:?}");
    }

    #[test]
    fn a_folder_and_its_own_file_are_checked() {
        let user = ("a/one.rs", "use super::Shared; pub struct One;");
        let lib = ("lib.rs", "mod a;");
        // An item of mod.rs, used below; mod.rs uses nothing.
        let only_down = ("a/mod.rs", "mod one; pub use one::One; pub struct Shared;");
        assert!(found(&[lib, only_down, user]).is_empty());
        // mod.rs uses the child whose name it re-exports.
        let both = ("a/mod.rs", "mod one; pub use one::One;\npub struct Shared(One);");
        let cycles = found(&[lib, both, user]);
        assert!(cycles.len() == 1 && cycles[0].contains("a: mod.rs, one\n"), "{cycles:?}");
        assert!(cycles[0].contains("src/a/mod.rs:2\n"), "{cycles:?}");
        // Siblings through the parent's re-export.
        let mods = ("a/mod.rs", "mod one; mod two; pub use {one::One, two::Two};");
        let one = ("a/one.rs", "use super::Two; pub struct One;");
        let two = ("a/two.rs", "use super::one::One; pub struct Two;");
        let cycles = found(&[lib, mods, one, two]);
        assert!(cycles.len() == 1 && cycles[0].contains("a: one, two\n"), "{cycles:?}");
    }

    #[test]
    fn tests_and_other_crates_are_no_dependencies() {
        let a = (
            "a.rs",
            "use other::b::B; pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }\n\
             #[cfg(test)] use crate::b::C; #[cfg(test)] mod more;",
        );
        let b = ("b.rs", "use crate::a::A; /* crate::c::X */ const S: &str = \"crate::c::X\";");
        let more = ("a/more.rs", "use crate::b::B;");
        assert!(found(&[LIB, a, b, more, ("a/testing.rs", "use crate::b::B;")]).is_empty());
    }
}
