"""The convolutions of crates/superweight-engine/benches/conv.rs in PyTorch, channels-last, on the CPU.

    python compare/torch_conv.py [filter] [threads]

Prints milliseconds and GFLOP/s per shape and direction: forward, gradient of the input, gradient of the weight.
Run it beside the Rust bench and compare ratios; machines that are shared drift by tens of percent. One thread
is timed in CPU seconds, which other processes disturb less (two threads wait for each other).
"""

import statistics
import sys
import time

import torch

# name, batch, size, in, out, kernel, stride, padding, groups
SHAPES = [
    tuple(int(v) if v.isdigit() else v for v in line.split())
    for line in """
    stem_b32               32 32   3  16 3 1 1 1
    16_32x32_b128         128 32  16  16 3 1 1 1
    16-32_32x32_b32        32 32  16  32 3 1 1 1
    32_32x32_b32           32 32  32  32 3 1 1 1
    32-64s2_32x32_b32      32 32  32  64 3 2 1 1
    64_16x16_b32           32 16  64  64 3 1 1 1
    64-128s2_16x16_b32     32 16  64 128 3 2 1 1
    128_8x8_b32            32  8 128 128 3 1 1 1
    16-32s2_32x32_b128    128 32  16  32 3 2 1 1
    32_16x16_b128         128 16  32  32 3 1 1 1
    64_8x8_b128           128  8  64  64 3 1 1 1
    64_32x32_b32           32 32  64  64 3 1 1 1
    128_16x16_b32          32 16 128 128 3 1 1 1
    256_8x8_b32            32  8 256 256 3 1 1 1
    1x1_16-32_32x32_b32    32 32  16  32 1 1 0 1
    1x1_64-128s2_32x32_b32 32 32  64 128 1 2 0 1
    1x1_256_16x16_b32      32 16 256 256 1 1 0 1
    dw96_16x16_b32         32 16  96  96 3 1 1 96
    dw192s2_16x16_b32      32 16 192 192 3 2 1 192
    b1_64_32x32             1 32  64  64 3 1 1 1
    b1_128_16x16            1 16 128 128 3 1 1 1
    b1_256_8x8              1  8 256 256 3 1 1 1
    640_8x8_b8              8  8 640 640 3 1 1 1
    160_32x32_b4            4 32 160 160 3 1 1 1
    """.strip().splitlines()
]


def median_ms(run, repeats, clock):
    run()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        times.append(clock() - start)
    return 1e3 * statistics.median(times)


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    clock = time.process_time if threads == 1 else time.perf_counter
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    print(f"{'PyTorch ' + torch.__version__:24}" + "".join(f"{d:>18}" for d in ("y ms GFLOP/s", "dx", "dw")))
    for name, batch, size, cin, cout, kernel, stride, padding, groups in SHAPES:
        if only not in name:
            continue
        x = torch.randn(batch, cin, size, size).to(memory_format=torch.channels_last)
        w = torch.randn(cout, cin // groups, kernel, kernel).to(memory_format=torch.channels_last)
        forward = lambda: torch.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)
        y = forward()
        dy = torch.randn_like(y)

        def backward(data, weight):
            return torch.ops.aten.convolution_backward(
                dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, [data, weight, False]
            )

        flops = 2 * y.numel() * w.numel() / cout
        repeats = int(min(200, max(5, 1e10 / flops)))
        row = f"{name:24}"
        for run in (forward, lambda: backward(True, False), lambda: backward(False, True)):
            ms = median_ms(run, repeats, clock)
            row += f"{ms:10.3f}{flops / ms / 1e6:8.1f}"
        print(row, flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main()
