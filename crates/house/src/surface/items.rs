//! Items of a module as text: what each is called, whether it is public, and what it offers.

use std::collections::BTreeMap;

use super::expand::Macro;
use crate::lexer::{Kind, Token};

/// A field, variant, method, associated constant or associated type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Word before the path in a line.
    pub kind: &'static str,
    /// Name below the item.
    pub name: String,
    /// Type or signature.
    pub tail: String,
    /// Whether it is marked `#[doc(hidden)]`.
    pub hidden: bool,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A module, with its contents where they stand in the same file.
    Module(Option<Vec<Item>>),
    /// Leaves of a `use`: path and name; the name of a glob is `*`.
    Use(Vec<(Vec<String>, String)>),
    /// Struct, enum, trait, function, constant, alias or exported macro.
    Definition {
        /// Word before the path in a line.
        kind: &'static str,
        /// Signature, type or supertraits.
        tail: String,
        /// Public fields, variants or associated items.
        parts: Vec<Part>,
    },
    /// Public items of an inherent `impl` of the type at this path.
    Impl(Vec<String>, Vec<Part>),
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Name; empty for `use` and `impl`.
    pub name: String,
    /// Whether it is `pub` without a restriction.
    pub public: bool,
    /// Whether it is marked `#[doc(hidden)]`.
    pub hidden: bool,
    /// What it is.
    pub body: Body,
}

/// Items of a source text without comments. Items that are only compiled for tests or fuzzing, for
/// another system or without a feature are left out.
pub fn items(code: &[Token]) -> Vec<Item> {
    Reader { code, macros: BTreeMap::new() }.items(0, code.len())
}

/// Attributes and visibility before an item or a part.
#[derive(Clone, Copy, Default)]
struct Head {
    left_out: bool,
    hidden: bool,
    growing: bool,
    exported: bool,
    public: bool,
}

struct Reader<'a> {
    code: &'a [Token],
    macros: BTreeMap<String, Macro>,
}

impl Reader<'_> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.code.get(at).is_some_and(|token| token.is(text))
    }

    fn ident(&self, at: usize) -> &str {
        let token = self.code.get(at).filter(|token| token.kind == Kind::Ident);
        token.map_or("", |token| token.text.as_str())
    }

    fn path_sign(&self, at: usize) -> bool {
        self.is(at, ":") && self.is(at + 1, ":")
    }

    fn opens(&self, at: usize) -> bool {
        self.is(at, "(") || self.is(at, "[") || self.is(at, "{")
    }

    /// Position after the bracket that closes the one at `at`.
    fn group_end(&self, mut at: usize) -> usize {
        let mut depth = 0usize;
        while at < self.code.len() {
            depth += usize::from(self.opens(at));
            depth -=
                usize::from(self.is(at, ")") || self.is(at, "]") || self.is(at, "}")).min(depth);
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }

    /// Position after the `>` that closes the `<` at `at`; the `>` of `->` closes nothing.
    fn generics_end(&self, mut at: usize) -> usize {
        let mut depth = 0usize;
        while at < self.code.len() {
            if self.opens(at) {
                at = self.group_end(at);
                continue;
            }
            depth += usize::from(self.is(at, "<"));
            if self.is(at, ">") && !self.is(at - 1, "-") {
                depth -= 1;
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }

    /// First position from `at` on with one of these signs, outside of brackets and generics.
    fn find(&self, mut at: usize, end: usize, signs: &[&str]) -> usize {
        while at < end && !signs.iter().any(|sign| self.is(at, sign)) {
            at = match () {
                () if self.opens(at) => self.group_end(at),
                () if self.is(at, "<") => self.generics_end(at),
                () => at + 1,
            };
        }
        at.min(end)
    }

    /// Like [`Reader::find`] in an expression, where `<` begins no generics.
    fn find_plain(&self, mut at: usize, end: usize, signs: &[&str]) -> usize {
        while at < end && !signs.iter().any(|sign| self.is(at, sign)) {
            at = if self.opens(at) { self.group_end(at) } else { at + 1 };
        }
        at.min(end)
    }

    fn head(&self, mut at: usize) -> (Head, usize) {
        let mut head = Head::default();
        while self.is(at, "#") && self.is(at + 1, "[") {
            let end = self.group_end(at + 1);
            let inner = &self.code[at + 3..end - 1];
            let has = |word: &str| inner.iter().any(|token| token.is(word));
            match self.ident(at + 2) {
                "cfg" => head.left_out |= !holds(&inner[1..inner.len() - 1]),
                "doc" => head.hidden |= has("hidden"),
                "non_exhaustive" => head.growing = true,
                "macro_export" => head.exported = true,
                _ => {}
            }
            at = end;
        }
        if self.is(at, "pub") {
            let inside = ["crate", "super", "self", "in"].contains(&self.ident(at + 2));
            let restricted = self.is(at + 1, "(") && inside;
            head.public = !restricted;
            at = if restricted { self.group_end(at + 1) } else { at + 1 };
        }
        (head, at)
    }

    fn items(&mut self, mut at: usize, end: usize) -> Vec<Item> {
        let mut found = Vec::new();
        while at < end {
            if self.is(at, "#") && self.is(at + 1, "!") {
                at = self.group_end(at + 2);
                continue;
            }
            let (head, begin) = self.head(at);
            let (items, after) = self.item(head, begin, end);
            at = after.max(at + 1);
            if !head.left_out {
                found.extend(items);
            }
        }
        found
    }

    /// The item after its head, if it is one that this list knows, and the position after it.
    fn item(&mut self, head: Head, begin: usize, end: usize) -> (Vec<Item>, usize) {
        let mut at = begin;
        // `const`, `unsafe`, `async` and `extern "C"` before a function, trait or impl.
        let mut before = Vec::new();
        while ["const", "unsafe", "async", "extern", "auto"].contains(&self.ident(at)) {
            let name_follows = self.ident(at) == "const"
                && !["fn", "unsafe", "async", "extern"].contains(&self.ident(at + 1));
            if name_follows {
                break;
            }
            before.push(self.ident(at));
            at += 1;
            at += usize::from(self.code.get(at).is_some_and(|token| token.kind == Kind::Str));
        }
        let before = before.join(" ");
        let name = self.ident(at + 1).to_owned();
        let item = |name: &str, body| {
            vec![Item { name: name.to_owned(), public: head.public, hidden: head.hidden, body }]
        };
        let define = |kind, tail: String, parts| {
            let tail = if head.growing { format!("{tail} #[non_exhaustive]") } else { tail };
            item(&name, Body::Definition { kind, tail, parts })
        };
        match self.ident(at) {
            "mod" if self.is(at + 2, "{") => {
                let after = self.group_end(at + 2);
                let inner = self.items(at + 3, after - 1);
                (item(&name, Body::Module(Some(inner))), after)
            }
            "mod" => (item(&name, Body::Module(None)), at + 3),
            "use" => {
                let mut leaves = Vec::new();
                let after = self.use_tree(at + 1, &[], &mut leaves);
                (item("", Body::Use(leaves)), after)
            }
            "struct" | "union" if !name.is_empty() => {
                let kind = if self.is(at, "union") { "union" } else { "struct" };
                let open = self.find(at + 2, end, &["{", "(", ";"]);
                let after = self.find(at + 2, end, &["{", ";"]);
                let after = if self.is(after, "{") { self.group_end(after) } else { after + 1 };
                let (parts, private) = match self.is(open, ";") {
                    true => (vec![], false),
                    false => self.fields(open),
                };
                let tail = self.text(at + 2, open) + if private { " { .. }" } else { "" };
                (define(kind, tail, parts), after)
            }
            "enum" => {
                let open = self.find(at + 2, end, &["{"]);
                let after = self.group_end(open);
                (define("enum", self.text(at + 2, open), self.variants(open, after - 1)), after)
            }
            "trait" => {
                let open = self.find(at + 2, end, &["{"]);
                let after = self.group_end(open);
                let parts = self.associated(open + 1, after - 1, true);
                let kind = if before.contains("unsafe") { "unsafe trait" } else { "trait" };
                (define(kind, self.text(at + 2, open), parts), after)
            }
            "impl" => {
                let open = self.find(at, end, &["{"]);
                let after = self.group_end(open);
                let body = self
                    .inherent(at, open)
                    .map(|of| Body::Impl(of, self.associated(open + 1, after - 1, false)));
                (body.map_or(vec![], |body| item("", body)), after)
            }
            "fn" => {
                let stop = self.find(at, end, &["{", ";"]);
                let after = if self.is(stop, "{") { self.group_end(stop) } else { stop + 1 };
                let kind = function_kind(&before);
                (define(kind, self.signature(at + 2, stop), vec![]), after)
            }
            "const" | "static" | "type" => {
                let kind = match self.ident(at) {
                    "const" => "const",
                    "static" => "static",
                    _ => "type",
                };
                // Of a constant the type, of an alias all of it.
                let stop = self.find(at, end, &["=", ";"]);
                let after = self.find_plain(stop, end, &[";"]);
                let stop = if kind == "type" { after } else { stop };
                let name = at + 1 + usize::from(self.is(at + 1, "mut"));
                let tail = self.text(name, stop).split_off(self.ident(name).len());
                let name = self.ident(name).to_owned();
                (item(&name, Body::Definition { kind, tail, parts: vec![] }), after + 1)
            }
            "macro_rules" => {
                let name = self.ident(at + 2).to_owned();
                let after = self.group_end(at + 3);
                let rules = Macro::parse(&self.code[at + 4..after - 1]);
                self.macros.insert(name.clone(), rules);
                let parts = vec![];
                let body = Body::Definition { kind: "macro", tail: "!".to_owned(), parts };
                let of = Item { name, public: head.exported, hidden: head.hidden, body };
                (vec![of], after)
            }
            macro_name if self.is(at + 1, "!") && self.opens(at + 2) => {
                let after = self.group_end(at + 2);
                let arguments = &self.code[at + 3..after - 1];
                let rules = self.macros.get(macro_name);
                let code = rules.and_then(|rules| rules.expand(arguments)).unwrap_or_default();
                (items(&code), after)
            }
            _ => (vec![], if self.opens(at) { self.group_end(at) } else { at + 1 }),
        }
    }

    /// Path of the type of an inherent `impl`; `None` for the `impl` of a trait.
    fn inherent(&self, at: usize, open: usize) -> Option<Vec<String>> {
        let mut at = at + 1;
        if self.is(at, "<") {
            at = self.generics_end(at);
        }
        let stop = self.find(at, open, &["for", "where"]);
        if self.is(stop, "for") {
            return None;
        }
        let mut path = Vec::new();
        while !self.ident(at).is_empty() {
            path.push(self.ident(at).to_owned());
            at += 1;
            if !self.path_sign(at) {
                break;
            }
            at += 2;
        }
        (!path.is_empty()).then_some(path)
    }

    /// Public fields of a struct whose fields begin at `open`, and whether it has others.
    fn fields(&self, open: usize) -> (Vec<Part>, bool) {
        let end = self.group_end(open) - 1;
        let (mut at, mut number, mut parts, mut private) = (open + 1, 0, Vec::new(), false);
        while at < end {
            let (head, begin) = self.head(at);
            at = self.find(begin, end, &[","]) + 1;
            if head.left_out {
                continue;
            }
            let (name, tail) = match self.is(open, "{") {
                true => (self.ident(begin).to_owned(), self.text(begin + 1, at - 1)),
                false => (number.to_string(), format!(": {}", self.text(begin, at - 1))),
            };
            number += 1;
            private |= !head.public;
            if head.public {
                parts.push(Part { kind: "field", name, tail, hidden: head.hidden });
            }
        }
        (parts, private)
    }

    fn variants(&self, open: usize, end: usize) -> Vec<Part> {
        let (mut at, mut parts) = (open + 1, Vec::new());
        while at < end {
            let (head, begin) = self.head(at);
            let value = self.find(begin, end, &["=", ","]);
            at = self.find_plain(value, end, &[","]) + 1;
            if !head.left_out {
                let name = self.ident(begin).to_owned();
                let tail = self.text(begin, at - 1).split_off(name.len());
                let growing = if head.growing { " #[non_exhaustive]" } else { "" };
                let tail = tail + growing;
                parts.push(Part { kind: "variant", name, tail, hidden: head.hidden });
            }
        }
        parts
    }

    /// Functions, constants and types of a trait, or the public ones of an inherent `impl`.
    fn associated(&mut self, mut at: usize, end: usize, of_trait: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        while at < end {
            let (head, begin) = self.head(at);
            let (items, after) = self.item(head, begin, end);
            let provided = of_trait && self.is(after - 1, "}");
            at = after.max(at + 1);
            if head.left_out || !(of_trait || head.public) {
                continue;
            }
            for item in items {
                let Body::Definition { kind, tail, .. } = item.body else { continue };
                let tail = if provided { format!("{tail} {{ .. }}") } else { tail };
                parts.push(Part { kind, name: item.name, tail, hidden: item.hidden });
            }
        }
        parts
    }

    /// Parameters, result and bounds of a function, one way of writing for all.
    fn signature(&self, at: usize, end: usize) -> String {
        let open = self.find(at, end, &["("]);
        let close = self.group_end(open);
        let mut parameters = Vec::new();
        let mut from = open + 1;
        while from < close - 1 {
            let (_, mut begin) = self.head(from);
            from = self.find(begin, close - 1, &[","]) + 1;
            begin += usize::from(self.is(begin, "mut"));
            parameters.push(self.text(begin, from - 1));
        }
        let after = self.text(close, end);
        let space = if after.is_empty() { "" } else { " " };
        format!("{}({}){space}{after}", self.text(at, open), parameters.join(", "))
    }

    /// Collects the leaves of a `use` tree; returns the position after it.
    fn use_tree(
        &self,
        mut at: usize,
        before: &[String],
        leaves: &mut Vec<(Vec<String>, String)>,
    ) -> usize {
        let mut path = before.to_vec();
        at += if self.path_sign(at) { 2 } else { 0 };
        loop {
            if self.is(at, "{") {
                let end = self.group_end(at);
                at += 1;
                while at < end - 1 {
                    at = self.use_tree(at, &path, leaves);
                    at += usize::from(self.is(at, ","));
                }
                at = end;
                break;
            }
            if self.is(at, "*") {
                leaves.push((path, "*".to_owned()));
                at += 1;
                break;
            }
            let segment = self.ident(at);
            if segment.is_empty() {
                return at + 1;
            }
            if segment != "self" || path.is_empty() {
                path.push(segment.to_owned());
            }
            at += 1;
            if self.path_sign(at) {
                at += 2;
                continue;
            }
            let mut name = path.last().cloned().unwrap_or_default();
            if self.is(at, "as") {
                name = self.ident(at + 1).to_owned();
                at += 2;
            }
            leaves.push((path, name));
            break;
        }
        at + usize::from(before.is_empty() && self.is(at, ";"))
    }

    /// Code on one line, with spaces as rustfmt sets them; attributes are left out.
    fn text(&self, mut at: usize, end: usize) -> String {
        let mut text = String::new();
        let mut last = String::new();
        while at < end {
            if self.is(at, "#") && self.is(at + 1, "[") {
                at = self.group_end(at + 1);
                continue;
            }
            // A comma before a closing bracket says nothing.
            let closes = [")", "]", "}", ">"].iter().any(|sign| self.is(at + 1, sign));
            if self.is(at, ",") && (closes || at + 1 == end) {
                at += 1;
                continue;
            }
            let long = ["->", "=>", "::", "<<"].into_iter().find(|sign| {
                sign.chars().enumerate().all(|(n, c)| self.is(at + n, c.encode_utf8(&mut [0; 4])))
            });
            // `<<` begins generics but in a value, where a number follows.
            let number = self.code.get(at + 2).is_some_and(|token| token.kind == Kind::Number);
            let long = long.filter(|sign| *sign != "<<" || number);
            let token = &self.code[at];
            let word = match (long, token.kind) {
                (Some(sign), _) => sign.to_owned(),
                (_, Kind::Lifetime) => format!("'{}", token.text),
                (_, Kind::Str) => format!("{:?}", token.text),
                _ => token.text.clone(),
            };
            if spaced(&last, &word) {
                text.push(' ');
            }
            text += &word;
            at += 1 + usize::from(long.is_some());
            last = word;
        }
        text
    }
}

fn function_kind(before: &str) -> &'static str {
    match before {
        "" => "fn",
        "const" => "const fn",
        "unsafe" => "unsafe fn",
        "async" => "async fn",
        _ => "special fn",
    }
}

/// Whether a space stands between two words or signs.
fn spaced(last: &str, next: &str) -> bool {
    const AROUND: [&str; 6] = ["->", "=>", "=", "+", "<<", "{"];
    const KEYWORDS: [&str; 6] = ["mut", "const", "dyn", "impl", "as", "where"];
    let word = |text: &str| text.starts_with(|c: char| c.is_alphanumeric() || "_'\"".contains(c));
    let keyword = last.starts_with('\'') || KEYWORDS.contains(&last);
    match (last, next) {
        ("", _) | (_, "," | ";" | ":" | "::") => false,
        _ if AROUND.contains(&last) || AROUND.contains(&next) || next == "}" => true,
        ("," | ":" | ";", _) => true,
        (">" | ")" | "]", _) if word(next) => true,
        _ => word(last) && (word(next) || keyword && ["[", "(", "&", "*"].contains(&next)),
    }
}

/// Whether a `cfg` predicate holds in a build of the library with every feature.
fn holds(predicate: &[Token]) -> bool {
    let Some(first) = predicate.first() else { return true };
    let list = || {
        let inner = &predicate[2..predicate.len() - 1];
        let (mut depth, mut from, mut parts) = (0usize, 0, Vec::new());
        for (at, token) in inner.iter().enumerate() {
            depth += usize::from(token.is("("));
            depth -= usize::from(token.is(")"));
            if depth == 0 && token.is(",") {
                parts.push(&inner[from..at]);
                from = at + 1;
            }
        }
        parts.push(&inner[from..]);
        parts.retain(|part| !part.is_empty());
        parts
    };
    match first.text.as_str() {
        "all" => list().into_iter().all(holds),
        "any" => list().into_iter().any(holds),
        "not" => !list().into_iter().all(holds),
        "test" | "fuzzing" | "windows" | "doctest" | "miri" => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokens;

    fn lines(source: &str) -> Vec<String> {
        let code: Vec<Token> =
            tokens(source).into_iter().filter(|token| token.kind != Kind::Comment).collect();
        let mut lines = Vec::new();
        for item in items(&code) {
            if let Body::Definition { kind, tail, parts } = item.body {
                lines.push(format!("{kind} {}{tail}", item.name));
                let part = |part: Part| format!("  {} {}{}", part.kind, part.name, part.tail);
                lines.extend(parts.into_iter().map(part));
            }
        }
        lines
    }

    #[test]
    fn definitions_are_one_line_each() {
        let source = "
            /// Text.
            #[derive(Debug)] #[non_exhaustive]
            pub struct A<'a, T: Copy + 'a> { pub x: Vec<&'a mut [T; 3]>, #[cfg(test)] pub t: u8, y: u8 }
            pub struct B(pub usize, (u8, u8),);
            pub struct C;
            pub enum D { #[default] One, Two(a::B, u8), Three { /** No. */ rows: usize, }, Four = 1 << 2 }
            pub trait E: Send + Sync { const N: usize; type T; fn a(&self) -> &Self::T; fn b() -> [u8; 1] {} }
            pub const fn f<F: Fn(&str) -> Option<u8>>(mut a: impl FnMut(u8), (b, c): (u8, u8),)
                -> Result<Box<dyn E<T = u8> + '_>, String> where F: Clone { loop {} }
            pub const N: &'static [u8] = &[1 << 2];
            pub type G<T> = Vec<T>;
            #[cfg(all(unix, not(test)))] pub fn g() {}
            #[cfg(not(feature = \"x\"))] pub fn h() {}";
        assert_eq!(
            lines(source),
            [
                "struct A<'a, T: Copy + 'a> { .. } #[non_exhaustive]",
                "  field x: Vec<&'a mut [T; 3]>",
                "struct B { .. }",
                "  field 0: usize",
                "struct C",
                "enum D",
                "  variant One",
                "  variant Two(a::B, u8)",
                "  variant Three { rows: usize }",
                "  variant Four = 1 << 2",
                "trait E: Send + Sync",
                "  const N: usize",
                "  type T",
                "  fn a(&self) -> &Self::T",
                "  fn b() -> [u8; 1] { .. }",
                "const fn f<F: Fn(&str) -> Option<u8>>(a: impl FnMut(u8), (b, c): (u8, u8)) -> \
                 Result<Box<dyn E<T = u8> + '_>, String> where F: Clone",
                "const N: &'static [u8]",
                "type G<T> = Vec<T>",
                "fn g()",
            ]
        );
    }
}
