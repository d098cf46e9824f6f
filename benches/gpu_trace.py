"""Sums up a trace of gpu_trace.c: milliseconds of a step by kernel, and gaps between kernels.

    python3 benches/gpu_trace.py TRACE.tsv [--last KERNEL] [--each | --gaps]

A step ends with the kernel whose name contains KERNEL (ours: sgd; PyTorch: nll_loss_forward, once a
step too). Prints medians over all steps but the first ten. `--each` lists the launches of one step,
`--gaps` the time in which nothing runs, by the kernels before and after.
"""

import argparse
import statistics
from collections import defaultdict

parser = argparse.ArgumentParser()
parser.add_argument("trace")
parser.add_argument("--last", default="sgd")
shown = parser.add_mutually_exclusive_group()
shown.add_argument("--each", action="store_true")
shown.add_argument("--gaps", action="store_true")
arguments = parser.parse_args()

OURS = {"norm_": "batch norm", "sgd": "update", "mix_": "composition", "narrow": "copies of weights"}


def group(name):
    for start, its in OURS.items():
        if name.startswith(start):
            return its
    if any(word in name for word in ("wgrad", "dgrad", "fprop", "conv", "cudnn", "gemm", "cutlass", "nvjet", "xmma")):
        for word in ("wgrad", "dgrad", "fprop"):
            if word in name:
                return f"convolution {word}"
        return "convolution or product, other"
    return "pointwise, pools, loss, images"


with open(arguments.trace) as file:
    lines = (line.rstrip("\n").split("\t", 2) for line in file)
    launches = sorted((int(start), int(took), name) for start, took, name in lines)

steps, step = [], []
for launch in launches:
    step.append(launch)
    if arguments.last in launch[2]:
        steps.append(step)
        step = []
if len(steps) <= 10:
    raise SystemExit(f"{arguments.trace}: {len(steps)} launches of a kernel with '{arguments.last}' in its name, more than 10 are needed (--last)")
usual = statistics.mode(len(step) for step in steps)
steps = [step for step in steps[10:] if len(step) == usual]
print(f"{len(steps)} steps of {usual} launches")


def idle(step):
    """What came before, what comes after, and nanoseconds in between in which nothing runs."""
    _, _, last = step[0]
    end = step[0][0] + step[0][1]
    for start, took, name in step[1:]:
        if start > end:
            yield last, name, start - end
        last, end = name, max(end, start + took)


if arguments.each:
    step = steps[len(steps) // 2]
    ends = [step[0][0]] + [start + took for start, took, _ in step]
    for (start, took, name), end in zip(step, ends):
        print(f"{took / 1e3:8.1f} µs after {(start - end) / 1e3:6.1f}  {name[:110]}")
    raise SystemExit

if arguments.gaps:

    def kind(name):
        its = group(name)
        return its if its.startswith("convolution ") else name[:24]

    gaps = [defaultdict(list) for _ in steps]
    for step, found in zip(steps, gaps):
        for last, name, took in idle(step):
            found[kind(last), kind(name)].append(took / 1e3)
    print(f"{statistics.median(sum(map(sum, found.values())) for found in gaps):8.1f} µs of gaps in a step, more than 1 µs:")
    pairs = {pair: [found[pair] for found in gaps] for pair in set().union(*gaps)}
    for (last, name), all_of in sorted(pairs.items(), key=lambda item: -statistics.median(map(sum, item[1]))):
        if (sum_of := statistics.median(map(sum, all_of))) > 1:
            print(f"{sum_of:8.1f} µs  {statistics.median_low(map(len, all_of)):4d} ×  {last} → {name}")
    raise SystemExit

kernels = defaultdict(list)
groups = defaultdict(list)
for step in steps:
    by_kernel, by_group = defaultdict(float), defaultdict(float)
    for _, took, name in step:
        by_kernel[name] += took / 1e6
        by_group[group(name)] += took / 1e6
    by_group["between launches"] = sum(took for _, _, took in idle(step)) / 1e6
    by_group["all"] = (step[-1][0] + step[-1][1] - step[0][0]) / 1e6
    for name, took in by_kernel.items():
        kernels[name].append(took)
    for name, took in by_group.items():
        groups[name].append(took)

counts = defaultdict(int)
for _, _, name in steps[0]:
    counts[name] += 1
for name, took in sorted(kernels.items(), key=lambda item: -statistics.median(item[1])):
    print(f"{statistics.median(took):8.3f} ms  {counts[name]:4d} ×  {group(name)}: {name[:100]}")
print()
for name, took in sorted(groups.items(), key=lambda item: -statistics.median(item[1])):
    print(f"{statistics.median(took):8.3f} ms  {name}")
