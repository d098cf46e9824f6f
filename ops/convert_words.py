#!/usr/bin/env python3
"""Converts recipes, runs, plans and job lists from the words of 0.1 before November 2026 to those of now.

    ops/convert_words.py [--check] PATH…

PATH is a file or a folder. Converted are files of these names and kinds:

    *.toml                            recipes, resolved.toml, a packed data set's tables are left alone
    log.jsonl, other *.jsonl          logs of runs: their first line has an "event"
    run.json                          published runs
    plan.json, given.json, *.json     plans (they have "template_sets"), anytime.json, evaluation/*.json
    state.json, SHA256SUMS            checkpoints: digests are counted again
    *.safetensors                     plans in the metadata of statistics.safetensors
    *.txt                             job lists of ops/queue.sh (a line names a recipe)

Only names change: numbers, comments, order and layout stay as they were, and so do commands that were
typed (in run.json and in '# --set' lines of recipes), warnings and published predictions. A file that
has been converted stays as it is. --check writes nothing, prints what would change and ends with 1
where anything would. A damaged file is named and stays as it is.
"""

import argparse
import hashlib
import json
import os
import re
import struct
import sys

# Recipe keys by table.
KEYS = {
    "train": {
        "rate": "lr",
        "template_rate": "template_lr_mult",
        "coefficient_rate": "coefficient_lr_mult",
        "drops": "milestones",
        "drop_factor": "gamma",
        "warm_up": "warmup_epochs",
        "rise": "pct_start",
        "start_divisor": "div_factor",
        "end_divisor": "final_div_factor",
        "decay": "weight_decay",
        "decay_on": "weight_decay_on",
        "shared_decay": "shared_weight_decay_mult",
        "average": "swa_epochs",
        "batch": "batch_size",
        "bn_batch": "bn_batch_size",
        "at_once": "members_per_step",
        "distilled": "distillation",
        "repeats": "batch_repetitions",
    },
    "search": {"rate": "lr", "pq": "algorithm"},
    "refine": {"anew": "reinit"},
    "data": {"least_area": "min_crop_scale"},
    "eval": {"held_out_every": "validation_every"},
}
TABLES = {"data", "plan", "train", "search", "refine", "eval"}
# Values of recipe keys, under their new names.
VALUES = {("train", "schedule"): {"drops": "multistep"}}


# Recipes ---------------------------------------------------------------------------------------


def new_key(table, key):
    return KEYS.get(table, {}).get(key, key)


def new_value(table, key, value):
    """A value as it is written, quoted or not."""
    for old, new in VALUES.get((table, key), {}).items():
        value = re.sub(rf"""^(\s*)(['"]?){old}\2(?=\W|$)""", rf"\g<1>\g<2>{new}\g<2>", value)
    return value


def new_setting(pair):
    """A setting such as train.rate=0.1."""
    path, equals, value = pair.partition("=")
    table, dot, key = path.partition(".")
    if not (equals and dot and table in TABLES):
        return pair
    key = new_key(table, key)
    return f"{table}.{key}={new_value(table, key, value)}"


def toml_end(text, at):
    """Position of the end of the TOML value at `at`, and where its keys are if it is an inline table."""
    depth, keys = 0, []
    inline = text[at : at + 1] == "{"
    fresh = False  # whether a key may begin here
    while at < len(text):
        c = text[at]
        quote = re.match(r"'''|\"\"\"|'|\"", text[at:])
        if quote:
            mark = quote.group()
            end = at + len(mark)
            while end < len(text) and not text.startswith(mark, end):
                end += 2 if text[end] == "\\" and mark[0] == '"' else 1
            at, fresh = end + len(mark), False
            continue
        if c == "#":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if c in "[{":
            depth += 1
            fresh = inline and depth == 1
        elif c in "]}":
            depth -= 1
            fresh = False
        elif c == ",":
            fresh = inline and depth == 1
        elif c == "\n" and depth == 0:
            break
        elif fresh and not c.isspace():
            key = re.match(r"[A-Za-z0-9_.-]+", text[at:])
            if key:
                keys.append((at, at + key.end()))
                at += key.end()
                fresh = False
                continue
        at += 1
    return at, keys


def toml(text):
    out, at, table = [], 0, ""
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        header = re.match(r"\s*\[\s*([A-Za-z0-9_.-]+)\s*\]", line)
        pair = re.match(r"(\s*)([A-Za-z0-9_.-]+)(\s*=\s*)", line)
        if header or not pair:
            table = header.group(1) if header else table
            out.append(text[at : end + 1])
            at = end + 1
            continue
        indent, path, equals = pair.groups()
        begin = at + pair.end()
        end, keys = toml_end(text, begin)
        value = text[begin:end]
        here, dot, key = path.partition(".")
        if not table and dot and here in TABLES:
            key = new_key(here, key)
            path, value = f"{here}.{key}", new_value(here, key, value)
        elif not table and path in TABLES and value.startswith("{"):
            parts, last = [], 0
            for first, after in keys:
                name = new_key(path, text[first:after])
                parts += [value[last : first - begin], name]
                last = after - begin
            value = "".join(parts) + value[last:]
            for (inner, key), words in VALUES.items():
                for old, new in words.items():
                    if inner == path:
                        pattern = rf"""(\b{key}\s*=\s*)(['"]){old}\2"""
                        value = re.sub(pattern, rf"\g<1>\g<2>{new}\g<2>", value)
        elif table in TABLES:
            path = new_key(table, path)
            value = new_value(table, path, value)
        out.append(f"{indent}{path}{equals}{value}{text[end : end + 1]}")
        at = end + 1
    return "".join(out)


# Job lists -------------------------------------------------------------------------------------


def is_jobs(text):
    return re.search(r"^\S+\s+\S+\.toml\s+\d+\b", text, re.M) is not None


def jobs(text):
    def word(match):
        pair = match.group()
        if pair.startswith("CHOICES="):
            return "CHOSEN_ON=" + pair[8:].replace("held-out", "validation")
        return new_setting(pair)

    def line(text):
        settings, sign, comment = text.partition("#")
        return re.sub(r"\S+=\S*", word, settings) + sign + comment

    return "\n".join(line(text) for text in text.split("\n"))


# JSON ------------------------------------------------------------------------------------------

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+')


def rewrite(text, key_of, value_of=lambda path, value: value):
    """JSON as it is, but for keys and strings: both functions get the path of keys (a list has the
    key of its own), the new keys of the objects around."""
    out, last, stack = [], 0, []  # stack: ["{" or "[", key of what comes next]
    expects_key = False

    def path():
        return tuple(frame[1] for frame in stack if frame[0] == "{")

    for match in TOKEN.finditer(text):
        token, new = match.group(), None
        if token in "{[":
            stack.append([token, None])
            expects_key = token == "{"
        elif token in "}]":
            stack.pop()
            expects_key = False
        elif token == ",":
            expects_key = bool(stack) and stack[-1][0] == "{"
        elif token == ":":
            expects_key = False
        elif token[0] == '"':
            old = json.loads(token)
            if expects_key:
                new = key_of(path()[:-1], old)
                stack[-1][1] = new
            else:
                new = value_of(path(), old)
            new = None if new == old else json.dumps(new, ensure_ascii=False)
        if new is not None:
            out += [text[last : match.start()], new]
            last = match.end()
    if stack:
        raise ValueError("it ends within an object")
    return "".join(out) + text[last:]


def renames(table):
    """A function of path and key from {(parent, key): new}; the parent is a key, or None for the top."""
    return lambda path, key: table.get((path[-1] if path else None, key), key)


def log_line(text):
    def key(path, key):
        parent = path[-1] if path else None
        table = {
            (None, "decay"): "weight_decay",
            (None, "averaged"): "swa",
            (None, "part"): "split",
            ("train", "silent"): "zero_channels",
            ("train", "rate"): "lr",
            ("weight_decay", "decay"): "weight_decay",
            ("weight_decay", "numbers"): "parameters",
        }
        if key == "loss" and parent in ("ensemble", "members"):
            return "nll"
        return table.get((parent, key), key)

    def value(path, value):
        words = {("split", "held-out"): "validation", ("reason", "as asked"): "until"}
        return words.get((path[0], value), value) if len(path) == 1 else value

    return rewrite(text, key, value)


def is_log(text):
    return text.startswith("{") and '"event"' in text.split("\n", 1)[0]


def log(text):
    # Half a last line, left by a crash, stays as it is.
    whole, newline, half = text.rpartition("\n")
    return "\n".join(log_line(line) if line.strip() else line for line in whole.split("\n")) + newline + half


PLAN = {("template_sets", "deviation"): "std", ("template_sets", "length"): "row_norm"}


def plan(text):
    return rewrite(text, renames(PLAN))


def record(text):
    table = {
        ("images", "trained"): "train",
        ("images", "held_out"): "validation",
        (None, "choices"): "chosen_on",
        (None, "seen"): "split",
    }

    def value(path, value):
        return "validation" if path in (("chosen_on",), ("split",)) and value == "held-out" else value

    return rewrite(text, renames(table), value)


def evaluation(text):
    table = {(None, "part"): "split", ("reliability", "right"): "correct", ("by_class", "right"): "correct"}

    def value(path, value):
        return "validation" if path == ("split",) and value == "held-out" else value

    return rewrite(text, renames(table), value)


def profile(text):
    def value(path, value):
        return value.replace("held-out images", "validation images") if path == ("data",) else value

    return rewrite(text, renames({(None, "batch"): "batch_size"}), value)


def state(text):
    return rewrite(text, renames({("training", "averaged"): "swa"}))


def json_file(name, text):
    keys = set(json.loads(text)) if text.lstrip().startswith("{") else set()
    if name == "run.json":
        return record(text)
    if name == "state.json":
        return state(text)
    if {"template_sets", "layers"} <= keys:
        return plan(text)
    if {"rounds", "names", "subsets"} <= keys:
        return profile(text)
    if {"checkpoint", "subsets", "images"} <= keys:
        return evaluation(text)
    return text


def statistics(data):
    """safetensors with plans in its metadata."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    about = header.get("__metadata__", {})
    if not any(key.endswith(".plan") for key in about):
        return data
    new = {key: plan(text) if key.endswith(".plan") else text for key, text in about.items()}
    if new == about:
        return data
    header["__metadata__"] = new
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


# Files -----------------------------------------------------------------------------------------


def converted(path, data):
    """New contents of a file; the same where there is nothing to convert."""
    name = os.path.basename(path)
    if name.endswith(".safetensors"):
        return statistics(data) if "statistics" in name or b".plan" in data[:4096] else data
    kinds = (".toml", ".jsonl", ".json", ".txt")
    if not name.endswith(kinds) or name == "Cargo.toml":
        return data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    if name.endswith(".toml"):
        # rows.toml and lists of the authors' figures have no table of a recipe.
        new = toml(text)
    elif name.endswith(".jsonl"):
        new = log(text) if is_log(text) else text
    elif name.endswith(".json"):
        new = json_file(name, text)
    else:
        new = jobs(text) if is_jobs(text) else text
    return new.encode()


def checkpoints(run):
    """Folders of a run's checkpoints."""
    parent = os.path.join(run, "checkpoints")
    names = sorted(os.listdir(parent)) if os.path.isdir(parent) else []
    return [os.path.join(parent, name) for name in names if name.isdigit()]


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Change:
    """What is to be written, renamed and removed."""

    def __init__(self):
        self.contents, self.renamed = {}, {}

    def get(self, path):
        return self.contents.get(path) or read(path)

    def put(self, path, data):
        if data != read(path):
            self.contents[path] = data

    def add(self, path):
        self.put(path, converted(path, read(path)))

    def add_run(self, run):
        """What depends on other files of a run: the log's length, digests, names of files."""
        log_path = os.path.join(run, "log.jsonl")
        digests = {}
        for folder in checkpoints(run):
            self.finish_checkpoint(folder, log_path, digests)
        folder = os.path.join(run, "evaluation")
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        paths = [os.path.join(folder, name) for name in files] + [os.path.join(run, "anytime.json")]
        for path in filter(os.path.isfile, paths):
            data = self.get(path)
            if not path.endswith(".gz"):
                for old, new in digests.items():
                    data = data.replace(old.encode(), new.encode())
            self.put(path, data)
            name = os.path.basename(path)
            if name.startswith("held-out."):
                self.renamed[path] = os.path.join(folder, "validation" + name[len("held-out") :])

    def finish_checkpoint(self, folder, log_path, digests):
        sums_path = os.path.join(folder, "SHA256SUMS")
        if not os.path.isfile(sums_path):
            return
        state_path = os.path.join(folder, "state.json")
        if log_path in self.contents and os.path.isfile(state_path):
            text = self.get(state_path).decode()
            length = re.search(r'"log_bytes"\s*:\s*(\d+)', text)
            before = read(log_path)[: int(length.group(1))] if length else b""
            if before.endswith(b"\n"):
                after = len(log(before.decode()).encode())
                new = f"{text[: length.start(1)]}{after}{text[length.end(1) :]}"
                self.put(state_path, new.encode())
        lines = []
        for line in read(sums_path).decode().splitlines():
            digest, name = line.split("  ", 1)
            path = os.path.join(folder, name)
            if path in self.contents:
                digest = hashlib.sha256(self.contents[path]).hexdigest()
            if name == "average.safetensors":
                self.renamed[path] = os.path.join(folder, "swa.safetensors")
                name = "swa.safetensors"
            lines.append(f"{digest}  {name}\n")
        old = read(sums_path)
        new = "".join(lines).encode()
        if new != old:
            self.put(sums_path, new)
            digests[hashlib.sha256(old).hexdigest()] = hashlib.sha256(new).hexdigest()

    def write(self):
        for path, data in self.contents.items():
            temporary = path + ".tmp"
            with open(temporary, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        for old, new in self.renamed.items():
            os.replace(old, new)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    files, runs = [], []
    for path in options.paths:
        if os.path.isfile(path):
            files.append(path)
            continue
        if not os.path.isdir(path):
            sys.exit(f"error: there is no {path}")
        for folder, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if name not in (".git", "target"))
            files += [os.path.join(folder, name) for name in sorted(names)]
            if "checkpoints" in inner or "evaluation" in inner:
                runs.append(folder)
    change = Change()
    for path in files:
        try:
            change.add(path)
        except (ValueError, struct.error) as error:
            print(f"left as it is  {path}: {error}", file=sys.stderr)
    for run in runs:
        change.add_run(run)
    changed = sorted({*change.contents, *change.renamed})
    for path in changed:
        new = change.renamed.get(path)
        print(f"{'would change' if options.check else 'changed'}  {path}" + (f" -> {new}" if new else ""))
    if not options.check:
        change.write()
    print(f"{len(changed)} of {len(files)} files" + (" would change" if options.check else " changed"))
    sys.exit(1 if options.check and changed else 0)


if __name__ == "__main__":
    main()
