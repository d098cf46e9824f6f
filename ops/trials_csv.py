#!/usr/bin/env python3
"""Writes results/trials.csv: a line for each published run that is no row of the table.

    ops/trials_csv.py [--results results] [--remove]

A run is a row of the table if a [[row]] of rows.toml has its recipe and it was trained on all training
images for as many epochs as the row names, and evaluated on the test set. All other runs are trials.
Lines of the file whose folders are gone stay; a folder replaces the line of its name. --remove deletes
the folders of trials after the file has been written.

Columns: `varied` has the settings in which the run differs from its recipe's own run in results/, as
key=value, separated by `;` (of a recipe that has not run: the settings that were typed). `epochs` are
those of training, `search_epochs` those of the search before it. `train_loss` is that of the last
epoch; top-1, top-5 and ECE are in percent.
"""

import argparse
import csv
import json
import pathlib
import re
import shlex
import shutil
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from convert_words import new_setting  # noqa: E402

COLUMNS = """name seed data recipe commit chosen_on varied members parameters total budget search_epochs
epochs images split top1 top1_of_members top5 nll ece train_loss gpu_minutes""".split()
# Epochs of a row that names no other number.
EPOCHS = 200
# What a setting is where an older program did not write it.
UNWRITTEN = {
    "train.swa_epochs": 0,
    "train.shared_weight_decay_mult": 1.0,
    "train.template_lr_mult": 1.0,
    "train.coefficient_lr_mult": 1.0,
    "train.members_per_step": None,
    "refine.reinit": False,
    "search.min_templates": None,
    "eval.test": True,
    "eval.validation_every": 1,
    "plan.scale": "balanced",
    "plan.share_classifier": False,
    "plan.share_stem": False,
}
# Names of a run, and what says nothing about its training.
NOT_SETTINGS = {"name", "seed", "seeds", "eval.test", "eval.test_every", "eval.validation_every"}


def flat(table, before=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def load(path):
    return dict(flat(tomllib.loads(path.read_text())))


def written(value):
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def typed(commands):
    """Settings of all commands in their order; the last of a name counts."""
    settings = {}
    for command in commands:
        words = shlex.split(command)
        for flag, value in zip(words, words[1:]):
            if flag == "--set":
                key, _, value = new_setting(value).partition("=")
                settings[key] = value
    return settings


def recipe_of(record):
    """The recipe that the first command names, without its folder."""
    found = re.search(r"(\S+)\.toml", record["commands"][0])
    return found.group(1) if found else ""


def varied(run, record, results):
    settings = typed(record["commands"])
    recipe = recipe_of(record).rsplit("/", 1)[-1]
    own = results / record["data"] / f"{recipe}-0" / "resolved.toml"
    if not own.exists():
        differs = settings
    else:
        ours, theirs = load(run / "resolved.toml"), load(own)
        differs = {}
        for key in sorted({*ours, *theirs} - NOT_SETTINGS):
            if key not in ours and key.startswith("plan.") and "plan.file" in ours:
                continue  # the plan is given
            value, usual = (of.get(key, UNWRITTEN.get(key)) for of in (ours, theirs))
            if value is not None and value != usual:
                differs[key] = written(value)
        if "plan.file" in differs:
            # The run keeps its plan as given.json; its name was typed.
            differs["plan.file"] = settings.get("plan.file", differs["plan.file"]).rsplit("/", 1)[-1]
    return ";".join(f"{key}={value}" for key, value in differs.items() if key not in NOT_SETTINGS)


def last_loss(run):
    loss = None
    for line in (run / "log.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "epoch" and event["phase"] == "train":
            loss = event["loss"]
    return loss


def number(value, digits=None):
    if value is None:
        return ""
    text = repr(value) if digits is None else f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits is not None and "." in text else text


def line(run, record, results):
    members = record["top1"]["members"]
    return {
        "name": run.name,
        "seed": record["seed"],
        "data": record["data"],
        "recipe": recipe_of(record),
        "commit": record["commit"],
        "chosen_on": record["chosen_on"],
        "varied": varied(run, record, results),
        "members": ";".join(record["members"]),
        "parameters": record["parameters"],
        "total": record["total"],
        "budget": "" if record["budget"] is None else record["budget"],
        "search_epochs": record["epochs"]["search"],
        "epochs": record["epochs"]["train"],
        "images": record["images"][record["split"]],
        "split": record["split"],
        "top1": number(record["top1"]["ensemble"], 4),
        "top1_of_members": ";".join(number(top1, 4) for top1 in members) if len(members) > 1 else "",
        "top5": number(record["top5"], 4),
        "nll": number(record["nll"], 6),
        "ece": number(record["ece"], 4),
        "train_loss": number(last_loss(run), 6),
        "gpu_minutes": number(record["minutes"]["search"] + record["minutes"]["train"], 2),
    }


def is_row(record, rows):
    row = rows.get(record["row"])
    whole = record["images"]["validation"] == 0 and record["split"] == "test"
    return row is not None and whole and record["epochs"]["train"] == row.get("epochs", EPOCHS)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--remove", action="store_true")
    options = parser.parse_args()
    results = options.results
    rows = tomllib.loads((results / "rows.toml").read_text())["row"]
    rows = {pathlib.Path(row["recipe"]).stem: row for row in rows}
    path = results / "trials.csv"
    lines = {}
    if path.exists():
        with path.open(newline="") as file:
            lines = {(line["data"], line["name"]): line for line in csv.DictReader(file)}
    trials = []
    for file in sorted(results.glob("*/*/run.json")):
        record = json.loads(file.read_text())
        if not is_row(record, rows):
            trials.append(file.parent)
            lines[record["data"], file.parent.name] = line(file.parent, record, results)
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(lines[key] for key in sorted(lines))
    print(f"{path}: {len(lines)} trials, {len(trials)} of them from folders")
    if options.remove:
        for folder in trials:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
