"""Times training steps of WRN-d-k on a GPU in PyTorch, beside `swn bench step --device cuda`.

    python compare/torch_gpu_step.py [--rows 28-10,28-4,16-2,28-1] [--batch 128] [--seconds 2] \\
        [--no-compile] [--json FILE]

bf16 autocast, channels-last, cross-entropy over 100 classes, SGD with Nesterov momentum and weight
decay, gradients set to none. Eager and `torch.compile`. A step is timed by CUDA events, one pair per
step, after warm-up; the median is printed. Peak memory is the most that PyTorch's allocator reserved
and allocated in the timed steps, weights included.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    """Pre-activation: BN, ReLU, 3×3, BN, ReLU, 3×3; where the shape changes the shortcut is a 1×1 of the activated input."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(i), nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(o), nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(i, o, 1, stride, bias=False) if i != o else None

    def forward(self, x):
        a = F.relu(self.bn1(x))
        y = self.conv2(F.relu(self.bn2(self.conv1(a))))
        return y + (x if self.shortcut is None else self.shortcut(a))


class Wrn(nn.Module):
    def __init__(self, depth, width, classes=100):
        super().__init__()
        blocks, channels = [], 16
        for stage in range(3):
            for block in range((depth - 4) // 6):
                out = 16 * width << stage
                blocks.append(Block(channels, out, 2 if stage > 0 and block == 0 else 1))
                channels = out
        self.stem, self.blocks = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.Sequential(*blocks)
        self.bn, self.linear = nn.BatchNorm2d(channels), nn.Linear(channels, classes)

    def forward(self, x):
        return self.linear(F.relu(self.bn(self.blocks(self.stem(x)))).mean((2, 3)))


def capture(step):
    """A step as one CUDA graph; it is done three times before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def measure(name, batch, compiled, seconds):
    torch.manual_seed(1)
    torch._dynamo.reset()
    model = Wrn(*map(int, name.split("-"))).cuda().to(memory_format=torch.channels_last)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, nesterov=True)
    x = torch.randn(batch, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 100, (batch,), device="cuda")
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss

    begin = time.perf_counter()
    for _ in range(10):
        loss = step()
    torch.cuda.synchronize()
    start_seconds = time.perf_counter() - begin
    torch.cuda.reset_peak_memory_stats()
    times, begin = [], time.perf_counter()
    while len(times) < 20 or time.perf_counter() - begin < seconds:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(11)]
        events[0].record()
        for event in events[1:]:
            loss = step()
            event.record()
        torch.cuda.synchronize()
        times += [a.elapsed_time(b) for a, b in zip(events, events[1:])]
    assert torch.isfinite(loss), "the loss is not finite"
    return {
        "network": f"wrn-{name}", "batch": batch, "mode": "compile" if compiled else "eager",
        "step_ms": statistics.median(times), "shortest_ms": min(times), "steps": len(times), "parameters": parameters,
        "start_seconds": start_seconds, "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="28-10,28-4,16-2,28-1")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", help="also write the rows to this file, a line each")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    print("| network | batch | mode | median ms | shortest | steps | peak MiB allocated | reserved | start s |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    rows = []
    for name in args.rows.split(","):
        for compiled in [False] if args.no_compile else [False, True]:
            torch.cuda.empty_cache()
            row = measure(name, args.batch, compiled, args.seconds)
            rows.append(row)
            mib = [row[key] / 2**20 for key in ("peak_allocated_bytes", "peak_reserved_bytes")]
            print(f"| {row['network']} | {row['batch']} | {row['mode']} | {row['step_ms']:.2f} | {row['shortest_ms']:.2f} "
                  f"| {row['steps']} | {mib[0]:.0f} | {mib[1]:.0f} | {row['start_seconds']:.1f} |", flush=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    print(lines, end="")
    if args.json:
        with open(args.json, "w") as file:
            file.write(lines)


if __name__ == "__main__":
    main()
