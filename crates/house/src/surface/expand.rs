//! Expands calls of `macro_rules!` macros that define items.
//!
//! Arms are tried in order. A fragment such as `$x:ty` ends at the next `,`, `;`, `=>` or closing
//! bracket, which is enough for macros of items.

use std::collections::BTreeMap;

use crate::lexer::{Kind, Token};

/// A `macro_rules!` macro: its arms, each with pattern and body.
#[derive(Clone, Debug, Default)]
pub struct Macro(Vec<(Vec<Part>, Vec<Part>)>);

/// Part of a pattern or of a body.
#[derive(Clone, Debug)]
enum Part {
    /// A token that stands for itself.
    Token(Token),
    /// `$name:fragment` in a pattern, `$name` in a body.
    Variable(String, String),
    /// `$( parts ) separator *`.
    Repeat(Vec<Part>, Option<Token>),
}

#[derive(Clone, Debug)]
enum Binding {
    One(Vec<Token>),
    Many(Vec<Binding>),
}

type Bindings = BTreeMap<String, Binding>;

impl Macro {
    /// Reads the arms between the brackets of a `macro_rules!`.
    pub fn parse(code: &[Token]) -> Self {
        let (mut at, mut arms) = (0, Vec::new());
        while code.get(at).is_some_and(opens) {
            let pattern_end = group_end(code, at);
            // `=>` is two tokens.
            let body = pattern_end + 2;
            if !code.get(body).is_some_and(opens) {
                break;
            }
            let body_end = group_end(code, body);
            arms.push((
                parts(&code[at + 1..pattern_end - 1]),
                parts(&code[body + 1..body_end - 1]),
            ));
            at = body_end + usize::from(code.get(body_end).is_some_and(|token| token.is(";")));
        }
        Self(arms)
    }

    /// Items that a call with these arguments defines; `None` where no arm matches.
    pub fn expand(&self, arguments: &[Token]) -> Option<Vec<Token>> {
        self.0.iter().find_map(|(pattern, body)| {
            let mut bindings = Bindings::new();
            let end = bind(pattern, arguments, 0, &mut bindings)?;
            let mut code = Vec::new();
            (end == arguments.len()).then(|| write(body, &bindings, &mut code))?;
            Some(code)
        })
    }
}

fn opens(token: &Token) -> bool {
    token.is("(") || token.is("[") || token.is("{")
}

/// Position after the bracket that closes the one at `at`.
fn group_end(code: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = code.get(at) {
        depth += usize::from(opens(token));
        if token.is(")") || token.is("]") || token.is("}") {
            depth -= 1;
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

fn parts(code: &[Token]) -> Vec<Part> {
    let is = |at: usize, text: &str| code.get(at).is_some_and(|token| token.is(text));
    let (mut at, mut found) = (0, Vec::new());
    while at < code.len() {
        if is(at, "$") && is(at + 1, "(") {
            let end = group_end(code, at + 1);
            let inner = parts(&code[at + 2..end - 1]);
            let operator = |at| is(at, "*") || is(at, "+") || is(at, "?");
            let separator = (!operator(end)).then(|| code.get(end).cloned()).flatten();
            at = end + 1 + usize::from(separator.is_some());
            found.push(Part::Repeat(inner, separator));
        } else if is(at, "$") && code.get(at + 1).is_some_and(|token| token.kind == Kind::Ident) {
            let name = code[at + 1].text.clone();
            let typed = is(at + 2, ":") && code.get(at + 3).is_some_and(|t| t.kind == Kind::Ident);
            let fragment = if typed { code[at + 3].text.clone() } else { String::new() };
            at += if typed { 4 } else { 2 };
            found.push(Part::Variable(name, fragment));
        } else {
            found.push(Part::Token(code[at].clone()));
            at += 1;
        }
    }
    found
}

/// Matches a pattern from `at` on; returns the position after the match.
fn bind(pattern: &[Part], code: &[Token], mut at: usize, to: &mut Bindings) -> Option<usize> {
    for part in pattern {
        match part {
            Part::Token(token) => {
                let found = code.get(at)?;
                (found.kind == token.kind && found.text == token.text).then_some(())?;
                at += 1;
            }
            Part::Variable(name, fragment) => {
                let end = fragment_end(fragment, code, at);
                (end > at || fragment == "vis").then_some(())?;
                to.insert(name.clone(), Binding::One(code[at..end].to_vec()));
                at = end;
            }
            Part::Repeat(inner, separator) => {
                let mut rounds: Vec<Bindings> = Vec::new();
                loop {
                    let begin = match separator {
                        Some(separator) if !rounds.is_empty() => {
                            let here = code.get(at).filter(|token| token.text == separator.text);
                            let Some(_) = here else { break };
                            at + 1
                        }
                        _ => at,
                    };
                    let mut round = Bindings::new();
                    match bind(inner, code, begin, &mut round) {
                        Some(end) if end > begin => at = end,
                        _ => break,
                    }
                    rounds.push(round);
                }
                for name in names(inner) {
                    let many = rounds.iter_mut().filter_map(|round| round.remove(&name)).collect();
                    to.insert(name, Binding::Many(many));
                }
            }
        }
    }
    Some(at)
}

fn fragment_end(fragment: &str, code: &[Token], at: usize) -> usize {
    let is = |at: usize, text: &str| code.get(at).is_some_and(|token| token.is(text));
    let Some(first) = code.get(at) else { return at };
    match fragment {
        "ident" => at + usize::from(first.kind == Kind::Ident),
        "literal" | "lifetime" => {
            let minus = usize::from(first.is("-"));
            at + minus + usize::from(!is(at + minus, "$"))
        }
        "vis" if !first.is("pub") => at,
        "vis" if is(at + 1, "(") => group_end(code, at + 1),
        "vis" => at + 1,
        "tt" | "block" if opens(first) => group_end(code, at),
        "tt" => at + 1,
        "path" => {
            let mut end = at;
            while code.get(end).is_some_and(|token| token.kind == Kind::Ident) {
                end += 1;
                if !(is(end, ":") && is(end + 1, ":")) {
                    break;
                }
                end += 2;
            }
            end
        }
        _ => {
            let mut end = at;
            while let Some(token) = code.get(end) {
                let ends = [")", "]", "}", ",", ";"].iter().any(|sign| token.is(sign));
                if ends || (token.is("=") && is(end + 1, ">")) {
                    break;
                }
                end = if opens(token) { group_end(code, end) } else { end + 1 };
            }
            end
        }
    }
}

fn names(parts: &[Part]) -> Vec<String> {
    let of = |part: &Part| match part {
        Part::Token(_) => vec![],
        Part::Variable(name, _) => vec![name.clone()],
        Part::Repeat(inner, _) => names(inner),
    };
    parts.iter().flat_map(of).collect()
}

fn write(body: &[Part], bindings: &Bindings, code: &mut Vec<Token>) {
    for part in body {
        match part {
            Part::Token(token) => code.push(token.clone()),
            Part::Variable(name, _) => match bindings.get(name) {
                Some(Binding::One(tokens)) => code.extend(tokens.iter().cloned()),
                // `$crate` is the crate that is read.
                _ => code.extend([name.as_str()].map(|name| Token {
                    kind: Kind::Ident,
                    text: name.into(),
                    line: 0,
                })),
            },
            Part::Repeat(inner, separator) => {
                let names = names(inner);
                let many = |name: &String| match bindings.get(name) {
                    Some(Binding::Many(rounds)) => Some(rounds.len()),
                    _ => None,
                };
                for round in 0..names.iter().filter_map(many).max().unwrap_or(0) {
                    let mut own = bindings.clone();
                    for name in &names {
                        if let Some(Binding::Many(rounds)) = bindings.get(name)
                            && let Some(binding) = rounds.get(round)
                        {
                            own.insert(name.clone(), binding.clone());
                        }
                    }
                    if round > 0 {
                        code.extend(separator.clone());
                    }
                    write(inner, &own, code);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokens;

    fn expand(arms: &str, call: &str) -> Option<String> {
        let code = Macro::parse(&tokens(arms)).expand(&tokens(call))?;
        Some(code.into_iter().map(|token| token.text).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn repetitions_and_arms_are_expanded() {
        let arms = "($(#[$m:meta])* $n:ident) => { struct $n(pub u8); };
                    ($($v:ident($p:path) $t:literal,)*) => { enum E { $($v($p)),* } $(use $p;)* }";
        assert_eq!(expand(arms, "#[doc] A").as_deref(), Some("struct A ( pub u8 ) ;"));
        assert_eq!(
            expand(arms, "A(a::B) 'x', C(c) \"y\",").as_deref(),
            Some("enum E { A ( a : : B ) , C ( c ) } use a : : B ; use c ;")
        );
        assert_eq!(expand(arms, "1 2"), None);
    }
}
