"""Sums up what gpu_trace.c wrote: milliseconds of a step by kernel, and what lies between kernels.

python3 benches/gpu_trace.py TRACE.tsv [--last KERNEL] [--each]

A step ends with the kernel whose name has KERNEL in it (ours: sgd; PyTorch: nll_loss_forward, once a step too). Medians over
all steps but the first ten; `--each` lists the launches of one step instead.
"""

import argparse
import statistics
from collections import defaultdict

parser = argparse.ArgumentParser()
parser.add_argument("trace")
parser.add_argument("--last", default="sgd")
parser.add_argument("--each", action="store_true")
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

if arguments.each:
    step = steps[len(steps) // 2]
    ends = [step[0][0]] + [start + took for start, took, _ in step]
    for (start, took, name), end in zip(step, ends):
        print(f"{took / 1e3:8.1f} µs after {(start - end) / 1e3:6.1f}  {name[:110]}")
    raise SystemExit

kernels = defaultdict(list)
groups = defaultdict(list)
for step in steps:
    by_kernel, by_group = defaultdict(float), defaultdict(float)
    for _, took, name in step:
        by_kernel[name] += took / 1e6
        by_group[group(name)] += took / 1e6
    by_group["between launches"] = (step[-1][0] + step[-1][1] - step[0][0]) / 1e6 - sum(by_kernel.values())
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
