#!/usr/bin/env python3
"""Runs the demo over several seeds and evaluates it on all 10,000 test images of Fashion-MNIST.

    swn data fetch fashion-mnist
    python benches/demo_seeds.py --swn target/release/swn --seeds 5 --out results/demo/seeds.jsonl

A seed that is in the file already is not trained again. Prints a line per seed, means, and by how much
the ensemble is above its best member and above the plain network: paired by seed, with the standard
deviation of the differences.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time


def figures(swn, run, device):
    """Top-1 of all members together, and of each."""
    command = [swn, "eval", run, "--data", "fashion-mnist", "--device", device, "--json"]
    subsets = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["subsets"]
    alone = {subset["members"][0]: subset["top1"] for subset in subsets if len(subset["members"]) == 1}
    together = max(subsets, key=lambda subset: len(subset["members"]))["top1"]
    return together, [alone[member] for member in sorted(alone)]


def events(run):
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return {line["event"]: line for line in lines if line["event"] in ("start", "search", "refine")}


def measure(args, seed):
    runs = pathlib.Path(args.runs) / f"seed-{seed}"
    begin = time.monotonic()
    command = [args.swn, "demo", "--seed", str(seed), "--runs", runs, "--device", args.device, "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - begin
    ensemble, members = figures(args.swn, runs / "demo", args.device)
    plain, _ = figures(args.swn, runs / "demo-baseline", args.device)
    shared = events(runs / "demo")
    return {
        "seed": seed,
        "ensemble": ensemble,
        "members": members,
        "plain": plain,
        "budget": shared["start"]["budget"],
        "clusters": shared["search"]["sizes"],
        "groups": [shared["refine"]["groups_before"], shared["refine"]["groups"]] if "refine" in shared else None,
        "seconds": round(took),
        "device": args.device,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swn", default="target/release/swn")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", default="runs/demo-seeds")
    parser.add_argument("--out", default="results/demo/seeds.jsonl")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    for seed in range(args.seeds):
        if all(row["seed"] != seed for row in rows):
            rows.append(measure(args, seed))
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(json.dumps(next(row for row in rows if row["seed"] == seed)), flush=True)
    for name, other in [("best member", lambda row: max(row["members"])), ("plain network", lambda row: row["plain"])]:
        gains = [row["ensemble"] - other(row) for row in rows]
        deviation = statistics.stdev(gains) if len(gains) > 1 else float("nan")
        mean = statistics.mean
        print(f"ensemble {mean(row['ensemble'] for row in rows):.2f}, {name} {mean(map(other, rows)):.2f}: "
              f"{mean(gains):+.2f} ± {deviation:.2f} (deviation of {len(rows)} differences)")


if __name__ == "__main__":
    main()
