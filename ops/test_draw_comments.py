"""Tests of draw_comments.py: python3 -m unittest discover ops"""

import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import draw_comments as draw  # noqa: E402

SOURCE = '''\
//! A module.

/// A struct { of.
#[derive(Debug)]
pub struct A<T, U> {
    /// A field.
    pub x: Vec<(T, U)>, // "text"
}
/// An enum.
enum E {
    /// A variant.
    #[error("the file {path:?} is \\"gone\\" for good, \\
             it seems")]
    One {
        /// A path.
        path: char,
    },
    #[error(transparent)]
    Two(A),
}
impl<T> A<T, u8> {
    /// A function.
    ///
    /// With more.
    fn f<F: Fn(u8) -> u8>(&self, f: F) -> Result<(), E> where T: Copy {
        /* /// nothing */
        let c = '"';
        check().map_err(|e| MyError::Bad(format!("a file of {n} bytes failed")))?;
        println!("this text is no error at all");
        bail!("too short {}", x)
    }
}
/// A constant.
const N: usize = 1;
#[cfg(test)]
mod tests {
    /// Not this.
    fn f() { bail!("this is not a message of an error") }
}
'''
ARGS = '''\
/// Arguments.
pub struct RunArgs {
    /// A flag.
    #[arg(long)]
    pub batch_size: usize,
    /// An argument.
    pub run: String,
}
'''


class Drawing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for name, text in {"a/src/b/mod.rs": SOURCE, "a/src/args/run.rs": ARGS}.items():
            (root / "crates" / name).parent.mkdir(parents=True)
            (root / "crates" / name).write_text(text)
        patched = mock.patch.object(draw, "ROOT", root)
        patched.start()
        self.addCleanup(patched.stop)

    def test_items_and_their_comments_are_found(self):
        docs, _ = draw.collect()
        found = [(item, text[0], place) for _, item, text, place in docs]
        self.assertEqual(found, [
            ("pub struct RunArgs", "Arguments.", "crates/a/src/args/run.rs:2"),
            ("mod b", "A module.", "crates/a/src/b/mod.rs:1"),
            ("pub struct A<T, U>", "A struct { of.", "crates/a/src/b/mod.rs:5"),
            ("struct A<T, U> { pub x: Vec<(T, U)> }", "A field.", "crates/a/src/b/mod.rs:7"),
            ("enum E", "An enum.", "crates/a/src/b/mod.rs:10"),
            ("enum E { One { path: char, } }", "A variant.", "crates/a/src/b/mod.rs:14"),
            ("enum E { One { path: char } }", "A path.", "crates/a/src/b/mod.rs:16"),
            ("impl<T> A<T, u8> { fn f<F: Fn(u8) -> u8>(&self, f: F) -> Result<(), E> where T: Copy }",
             "A function.", "crates/a/src/b/mod.rs:25"),
            ("const N: usize", "A constant.", "crates/a/src/b/mod.rs:34"),
        ])

    def test_messages_of_errors_and_help_are_found(self):
        _, messages = draw.collect()
        found = [(kind, item, text[0]) for kind, item, text, _ in messages]
        self.assertEqual(found, [
            ("help", "RunArgs: --batch-size", "A flag."),
            ("help", "RunArgs: <RUN>", "An argument."),
            ("error", "", 'the file {path:?} is "gone" for good, it seems'),
            ("error", "", "a file of {n} bytes failed"),
        ])


if __name__ == "__main__":
    unittest.main()
