#!/usr/bin/env python3
"""Draws doc comments and messages at random, for a reader who does not see the code.

    ops/draw_comments.py SEED COUNT [--kind docs|messages|both] [--answers]

The reader writes down what each item is or does. Then --answers, with the same seed on the same
sources, prints where each item is, and the notes are compared with the code.

Doc comments are those of all items below crates/*/src, public and private. Messages are texts of
errors with at least four words, and the help of `swn`. Code of tests is left out. Of both kinds, 70%
are doc comments.
"""

import argparse
import bisect
import pathlib
import random
import re
import sys
import textwrap

SHARE_OF_DOCS = 0.7
LEAST_WORDS = 4
COLUMNS = 106
ROOT = pathlib.Path(__file__).resolve().parent.parent

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<raw>\b[bc]?r(?P<hashes>\#*)".*?"(?P=hashes))
    |(?P<string>\b[bc]?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")
    |(?P<char>b?'(?:\\[^\n]{1,8}?|[^'\\\n])')""",
    re.VERBOSE | re.DOTALL,
)
# Calls whose texts are messages of errors.
MESSAGE = re.compile(r"(\berror|\b(bail|anyhow|ensure)!|\.context)$")
# Calls and constructors inside which format! and plain texts are messages of errors.
ERROR = re.compile(
    r"(\b(Err|bail!|anyhow!|ensure!)|\.(ok_or|ok_or_else|map_err|with_context|context)"
    r"|\b\w*Error(::\w+)?)\s*$"
)
ITEM = re.compile(r"(pub(\([^)]*\))?\s+)?((const|unsafe|async|extern)\s+)*(fn|struct|enum|trait|impl"
                  r"|mod|type|const|static|union|macro_rules)\b")


class Source:
    """A Rust file, with the same text without comments and literals beside it."""

    def __init__(self, path):
        self.path = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.strings = []
        code = list(self.text)
        for token in TOKEN.finditer(self.text):
            if token.lastgroup != "comment" and not token["comment"]:
                self.strings.append((token.start(), token.end()))
            for at in range(token.start(), token.end()):
                code[at] = "\n" if self.text[at] == "\n" else " "
        self.code = "".join(code)
        self.lines = [0] + [match.end() for match in re.finditer("\n", self.text)]
        self.tests = self.test_spans()
        self.brackets = self.find_brackets()

    def line(self, at):
        return bisect.bisect_right(self.lines, at)

    def is_test(self, at):
        return any(begin <= at < end for begin, end in self.tests)

    def group_end(self, at):
        """Position after the bracket that closes the one at `at`."""
        depth = 0
        for at in range(at, len(self.code)):
            depth += (self.code[at] in "([{") - (self.code[at] in ")]}")
            if depth == 0:
                return at + 1
        return len(self.code)

    def test_spans(self):
        spans = []
        for match in re.finditer(r"#\[cfg\((all\()?(test|fuzzing)\b", self.code):
            at = self.group_end(match.start() + 1)
            while at < len(self.code) and self.code[at] not in ";{":
                at = self.group_end(at) if self.code[at] in "([" else at + 1
            spans.append((match.start(), self.group_end(at) if self.code[at : at + 1] == "{" else at))
        return spans

    def find_brackets(self):
        """Brackets in order: position, depth after it."""
        found, open_ = [], []
        for match in re.finditer(r"[()\[\]{}]", self.code):
            if match[0] in "([{":
                open_.append(match.start())
            elif open_:
                open_.pop()
            found.append((match.start(), tuple(open_)))
        return found

    def around(self, at):
        """Positions of the brackets that are open at a position, the innermost last."""
        index = bisect.bisect_left(self.brackets, (at,)) - 1
        return self.brackets[index][1] if index >= 0 else ()

    def before(self, at):
        """Code of the statement or item that leads to a bracket, on one line."""
        begin = max(self.code.rfind(sign, 0, at) for sign in ";{}")
        return squeeze(without_attributes(self.code[begin + 1 : at]))

    def parent(self, at):
        """Head of the innermost item with braces around a position."""
        variant = ""
        for bracket in reversed(self.around(at)):
            head = self.before(bracket) if self.code[bracket] == "{" else ""
            if ITEM.match(head) and not head.startswith(("fn ", "mod ")):
                head = re.sub(r"^pub(\([^)]*\))? ", "", head)
                return f"{head} {{ {variant}" if variant else head
            variant = self.variant(bracket)
        return ""

    def variant(self, bracket):
        """Name of the variant whose fields begin at a bracket, or nothing."""
        name = re.search(r"\b([A-Z]\w*)\s*$", self.code[:bracket][-80:])
        return name[1] if name else ""


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def without_attributes(text):
    while match := re.search(r"#!?\[", text):
        depth, end = 0, match.end() - 1
        for end in range(match.end() - 1, len(text)):
            depth += (text[end] == "[") - (text[end] == "]")
            if depth == 0:
                break
        text = text[: match.start()] + text[end + 1 :]
    return text


def item_at(source, at):
    """Signature of the item at a position: head, without body, value and comments."""
    code, begin = source.code, at
    while match := re.compile(r"\s*#!?\[").match(code, begin):
        begin = source.group_end(match.end() - 1)
    begin += len(code[begin:]) - len(code[begin:].lstrip())
    item = ITEM.match(code, begin)
    end = begin
    while end < len(code):
        sign = code[end]
        if sign in ")]}" or sign == ";" or (not item and sign == ","):
            break
        if item and (sign == "{" or re.match(r"=[^>=]", code[end : end + 2]) and item[5] != "type"):
            break
        if sign == "<":
            # Commas of generics separate no fields.
            depth = 0
            while end < len(code):
                depth += (code[end] == "<") - (code[end] == ">" and code[end - 1] != "-")
                end += 1
                if depth == 0:
                    break
            continue
        end = source.group_end(end) if sign in "([{" else end + 1
    return squeeze(without_attributes(code[begin:end])), begin


def docs(source):
    """Doc comments: (item, text, position, help), where help says that `swn --help` prints it."""
    lines = source.text.split("\n")
    number = 0
    while number < len(lines):
        stripped = lines[number].lstrip()
        marker = stripped[:3]
        if marker not in ("///", "//!") or stripped.startswith("////"):
            number += 1
            continue
        first = number
        while number < len(lines) and lines[number].lstrip().startswith(marker):
            number += 1
        text = [line.lstrip()[3:].removeprefix(" ") for line in lines[first:number]]
        at = source.lines[first]
        if source.is_test(at):
            continue
        if marker == "//!":
            name = source.path.removesuffix(".rs").removesuffix("/mod").split("/src/")[1]
            yield "mod " + name.replace("/", "::"), text, at, False
            continue
        item, begin = item_at(source, source.lines[min(number, len(source.lines) - 1)])
        parent = source.parent(at)
        clap = "/args/" in source.path and parent.startswith(("struct", "enum"))
        if clap:
            item = flag(source, number, item, parent)
        elif parent:
            item = f"{parent} {{ {item} }}" + " }" * parent.count("{")
        yield item, text, begin, clap


def flag(source, number, item, parent):
    """Flag, argument or word that a field or variant is on the command line."""
    attributes = []
    for line in source.text.split("\n")[number : number + 12]:
        if not line.strip() or line.strip().startswith("///"):
            break
        attributes.append(line)
    name = re.match(r"(?:pub(?:\([^)]*\))?\s+)?(\w+)", item)[1]
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower().replace("_", "-")
    text = "\n".join(attributes)
    long = re.search(r'\blong\s*=\s*"([^"]+)"', text)
    owner = parent.split("<")[0].split()[1]
    if parent.startswith("enum"):
        return f"{owner}: {word}"
    if long:
        return f"{owner}: --{long[1]}"
    return f"{owner}: --{word}" if re.search(r"\blong\b", text) else f"{owner}: <{name.upper()}>"


def messages(source):
    """Texts of errors: (text, position)."""
    for begin, end in source.strings:
        if source.is_test(begin):
            continue
        around = source.around(begin)
        if not around:
            continue
        callers = [source.code[max(0, at - 80) : at].rstrip() for at in around]
        # Within a match arm or a body, what is outside says nothing of a text.
        direct = MESSAGE.search(callers[-1])
        made = re.search(r"\bformat!$", callers[-1]) or re.match(
            r"\s*(\.(into|to_owned|to_string)\(\))?\s*[,)}]", source.code[end : end + 20]
        )
        inside = any(
            ERROR.search(caller)
            and not re.search(r"\b(for|impl|struct|enum|match|if|while)\s+[\w:]+$|->\s*[\w:]+$", caller)
            for caller in callers
        )
        if direct or (made and inside):
            text = literal(source.text[begin:end])
            if len(re.findall(r"[A-Za-z]+", re.sub(r"\{[^{}]*\}", "", text))) >= LEAST_WORDS:
                yield text, begin


def literal(text):
    text = re.sub(r'^[bc]?r?#*"|"#*$', "", text)
    text = re.sub(r"\\\n\s*", "", text)
    return text.replace('\\"', '"').replace("\\n", "\n")


def collect():
    """All doc comments and messages, sorted by place."""
    found_docs, found_messages = [], []
    for path in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        parts = path.relative_to(ROOT).parts
        is_test = re.compile(r"(\w+_)?tests?(\.rs)?|testing(\.rs)?|fuzzing(\.rs)?").fullmatch
        if any(map(is_test, parts)):
            continue
        source = Source(path)
        for item, text, at, is_help in docs(source):
            place = f"{source.path}:{source.line(at)}"
            if is_help:
                found_messages.append(("help", item, text, place))
            elif item and any(text):
                found_docs.append(("item", item, text, place))
        for text, at in messages(source):
            found_messages.append(("error", "", text.split("\n"), f"{source.path}:{source.line(at)}"))
    return found_docs, found_messages


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", choices=["docs", "messages", "both"], default="both")
    parser.add_argument("--answers", action="store_true")
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    options = parser.parse_args()
    found_docs, found_messages = collect()
    share = {"docs": 1.0, "messages": 0.0, "both": SHARE_OF_DOCS}[options.kind]
    of_docs = min(round(options.count * share), len(found_docs))
    of_messages = min(options.count - of_docs, len(found_messages))
    draw = random.Random(options.seed)
    drawn = draw.sample(found_docs, of_docs) + draw.sample(found_messages, of_messages)
    draw.shuffle(drawn)
    print(f"seed {options.seed}: {of_docs} of {len(found_docs)} doc comments, "
          f"{of_messages} of {len(found_messages)} messages")
    for number, (kind, item, text, place) in enumerate(drawn, 1):
        head = f"{number:3}. [{kind}] {item}".rstrip()
        print("\n" + (f"{head}  ({place})" if options.answers else head))
        for line in text:
            wrapped = textwrap.wrap(line, COLUMNS - 5, break_long_words=False) or [""]
            print("\n".join("     " + part for part in wrapped))


if __name__ == "__main__":
    main()
