"""Compares whole steps: `swn bench step` and PyTorch 2.11 channels-last, interleaved in one run.

    cargo build --release && python compare/torch_step.py [--rounds 5] [--seconds 2] [--rows wrn-16-2,…]

A round measures both programs one after the other for some seconds each. Two ratios ours/PyTorch are
printed: the median over rounds of the ratio of medians, and the shortest step of all rounds over
PyTorch's shortest, which other work on the machine disturbs least. A training step is forward, loss,
backward and a Nesterov update; PyTorch sets gradients to none, as it does by default. Peak memory is
measured in separate processes: the high-water mark of resident memory minus what was resident before
the network was built.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# Threads that spin while they wait lose to other processes: on a shared machine this makes PyTorch
# 1.8 times faster.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "crates", "superweight-engine", "tests", "fixtures"))
SWN = os.path.join(HERE, "..", "target", "release", "swn")
if "CARGO_TARGET_DIR" in os.environ:
    SWN = os.path.join(os.environ["CARGO_TARGET_DIR"], "release", "swn")

# Network, batch, training, our flags.
ROWS = [
    ("wrn-16-2", 32, True, []), ("wrn-28-1", 128, True, []), ("wrn-28-4", 32, True, []),
    ("wrn-28-4", 1, False, []), ("wrn-28-4", 1, False, ["--packed"]), ("wrn-28-4", 128, False, []),
    ("mobilenet-v2", 32, True, []),
]


def status(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key))


def torch_step(name, batch, training):
    """A function that runs one step."""
    import torch
    import torch.nn.functional as F
    import make

    torch.set_default_dtype(torch.float32)
    torch.manual_seed(1)
    model = make.MobileNetV2(100) if name.startswith("mobilenet") else make.Wrn(*map(int, name.split("-")[1:]), 100)
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y = torch.arange(batch) % 100
    if not training:
        model.eval()

        def step():
            with torch.inference_mode():
                F.cross_entropy(model(x), y)
        return step
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=5e-4, nesterov=True)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return step


def measure_torch(step, seconds):
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times), 1e3 * min(times)


def measure_ours(name, batch, training, flags, seconds):
    command = [SWN, "bench", "step", "--members", name, "--batch", str(batch), "--json", "--seconds", str(seconds)]
    return json.loads(subprocess.check_output(command + ([] if training else ["--inference"]) + flags))


def torch_memory(name, batch, training):
    """In a process of its own: resident memory above that of an idle PyTorch."""
    import torch
    torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
    before = status("VmRSS")
    step = torch_step(name, batch, training)
    for _ in range(3):
        step()
    print(status("VmHWM") - before)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rows", default="")
    parser.add_argument("--torch-memory", nargs=3)
    args = parser.parse_args()
    if args.torch_memory:
        name, batch, training = args.torch_memory
        return torch_memory(name, int(batch), training == "True")

    print("| | batch | ours ms | PyTorch ms | ratio of medians (rounds) | shortest ours | shortest PyTorch | ratio of shortest "
          "| ours MiB | PyTorch MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name, batch, training, flags in ROWS:
        if args.rows and name not in args.rows.split(","):
            continue
        step = torch_step(name, batch, training)
        step()  # warms up: primitives are chosen at the first call
        reports, torchs = [], []
        for _ in range(args.rounds):
            reports.append(measure_ours(name, batch, training, flags, args.seconds))
            torchs.append(measure_torch(step, args.seconds))
        ours = [report["step_ms"] for report in reports]
        ratios = sorted(a / b for a, (b, _) in zip(ours, torchs))
        best, torch_best = min(report["shortest_ms"] for report in reports), min(b for _, b in torchs)
        peak = reports[0]["resident_bytes"]
        command = [sys.executable, os.path.abspath(__file__), "--torch-memory", name, str(batch), str(training)]
        torch_peak = int(subprocess.check_output(command))
        what = " ".join([name, "training" if training else "inference", *flags])
        print(f"| {what} | {batch} | {statistics.median(ours):.1f} | {statistics.median(b for b, _ in torchs):.1f} "
              f"| {statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) | {best:.1f} | {torch_best:.1f} "
              f"| **{best / torch_best:.2f}** | {peak / 2**20:.0f} | {torch_peak / 2**20:.0f} |", flush=True)


if __name__ == "__main__":
    main()
