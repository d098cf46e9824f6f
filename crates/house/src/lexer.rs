//! Splits Rust, CUDA and C source text into tokens with their line numbers.

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Identifier or keyword.
    Ident,
    /// One character of punctuation.
    Punct,
    /// String literal of any kind; the text is its contents without quotes.
    Str,
    /// Character or byte literal.
    Char,
    /// Lifetime or loop label.
    Lifetime,
    /// Number.
    Number,
    /// Comment of any kind; the text includes its marker.
    Comment,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Kind of the token.
    pub kind: Kind,
    /// Text as written; of a string literal only the contents.
    pub text: String,
    /// Line of its first character, counted from 1.
    pub line: usize,
}

impl Token {
    /// Whether the token is this identifier or punctuation character.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Ident | Kind::Punct) && self.text == text
    }
}

struct Cursor {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Cursor {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn done(&self) -> bool {
        self.at >= self.chars.len()
    }

    fn next(&mut self) -> char {
        let c = self.peek(0);
        self.line += usize::from(c == '\n');
        self.at += 1;
        c
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while !self.done() && keep(self.peek(0)) {
            text.push(self.next());
        }
        text
    }

    /// Contents of a quoted literal whose opening quote comes next.
    fn quoted(&mut self, quote: char) -> String {
        self.next();
        let mut text = String::new();
        while !self.done() {
            match self.next() {
                // An escaped end of line joins two lines; line numbers inside the text stay right.
                '\\' => {
                    let escaped = self.next();
                    text.push(if matches!(escaped, 'n' | 't' | 'r') { ' ' } else { escaped });
                }
                c if c == quote => break,
                c => text.push(c),
            }
        }
        text
    }

    /// Contents of a raw string whose first `#` or quote comes next.
    fn raw(&mut self) -> String {
        let hashes = self.take_while(|c| c == '#').len();
        self.next();
        let end: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
        let end: Vec<char> = end.chars().collect();
        let mut text = String::new();
        while !self.done() {
            if self.chars[self.at..].starts_with(&end) {
                self.at += end.len();
                break;
            }
            text.push(self.next());
        }
        text
    }

    fn block_comment(&mut self) -> String {
        let (mut depth, mut text) = (0, String::new());
        while !self.done() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => {
                    depth += 1;
                    text.push(self.next());
                }
                ('*', '/') => {
                    depth -= 1;
                    text.push(self.next());
                    if depth == 0 {
                        text.push(self.next());
                        break;
                    }
                }
                _ => {}
            }
            text.push(self.next());
        }
        text
    }
}

fn starts_word(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Tokens of a source text, comments included.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut cursor = Cursor { chars: source.chars().collect(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    while !cursor.done() {
        let line = cursor.line;
        let (c, second) = (cursor.peek(0), cursor.peek(1));
        let (kind, text) = if c.is_whitespace() {
            cursor.next();
            continue;
        } else if c == '/' && second == '/' {
            (Kind::Comment, cursor.take_while(|c| c != '\n'))
        } else if c == '/' && second == '*' {
            (Kind::Comment, cursor.block_comment())
        } else if c == '"' {
            (Kind::Str, cursor.quoted('"'))
        } else if c == '\'' {
            if second == '\\' || (cursor.peek(2) == '\'' && second != '\'') {
                (Kind::Char, cursor.quoted('\''))
            } else {
                cursor.next();
                (Kind::Lifetime, cursor.take_while(in_word))
            }
        } else if starts_word(c) {
            let word = cursor.take_while(in_word);
            let raw_follows = cursor.peek(0) == '"'
                || cursor.peek(0) == '#' && matches!(cursor.peek(1), '"' | '#');
            match (word.as_str(), cursor.peek(0)) {
                ("r" | "br" | "cr", _) if raw_follows => (Kind::Str, cursor.raw()),
                ("b" | "c", '"') => (Kind::Str, cursor.quoted('"')),
                ("b", '\'') => (Kind::Char, cursor.quoted('\'')),
                ("r", '#') if starts_word(cursor.peek(1)) => {
                    cursor.next();
                    (Kind::Ident, cursor.take_while(in_word))
                }
                _ => (Kind::Ident, word),
            }
        } else if c.is_ascii_digit() {
            let mut number = cursor.take_while(in_word);
            if cursor.peek(0) == '.' && cursor.peek(1).is_ascii_digit() {
                number.push(cursor.next());
                number += &cursor.take_while(in_word);
            }
            (Kind::Number, number)
        } else {
            (Kind::Punct, cursor.next().to_string())
        };
        tokens.push(Token { kind, text, line });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(source: &str) -> Vec<(Kind, String, usize)> {
        tokens(source).into_iter().map(|token| (token.kind, token.text, token.line)).collect()
    }

    #[test]
    fn strings_comments_and_lifetimes_are_distinguished() {
        let source =
            "/* a /* b */ */ 'x' 'y: r#\"// \"q\" \"# // end\n\"\\\"c\\\n d\" b'\\'' 1..2 1.5e3";
        let of = |kind: Kind, text: &str, line| (kind, text.to_owned(), line);
        assert_eq!(
            short(source),
            [
                of(Kind::Comment, "/* a /* b */ */", 1),
                of(Kind::Char, "x", 1),
                of(Kind::Lifetime, "y", 1),
                of(Kind::Punct, ":", 1),
                of(Kind::Str, "// \"q\" ", 1),
                of(Kind::Comment, "// end", 1),
                of(Kind::Str, "\"c\n d", 2),
                of(Kind::Char, "'", 3),
                of(Kind::Number, "1", 3),
                of(Kind::Punct, ".", 3),
                of(Kind::Punct, ".", 3),
                of(Kind::Number, "2", 3),
                of(Kind::Number, "1.5e3", 3),
            ]
        );
    }
}
