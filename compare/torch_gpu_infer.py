"""Times inference of WRN-d-k on a GPU in PyTorch, beside `swn bench step --inference --device cuda`.

    python compare/torch_gpu_infer.py [--rows 28-10,28-4] [--batches 1,32,256] [--repeats 200] \\
        [--modes default]

bf16 weights and images, channels-last, `torch.compile` (mode `reduce-overhead` adds CUDA graphs). The
host times each call from launch to completion, as `swn` does; the median is printed.
"""

import argparse
import statistics
import time

import torch

from torch_gpu_step import Wrn


def measure(forward, x, repeats):
    for _ in range(10):
        forward(x)
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        forward(x)
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times), min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="28-10,28-4")
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--modes", default="default", help="default, reduce-overhead or both, separated by a comma")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    print("| network | batch | mode | median ms | shortest | img/s |\n|---|---|---|---|---|---|", flush=True)
    for name in args.rows.split(","):
        for mode in args.modes.split(","):
            torch._dynamo.reset()
            model = Wrn(*map(int, name.split("-"))).cuda().to(memory_format=torch.channels_last).bfloat16().eval()
            forward = torch.compile(model, mode=None if mode == "default" else mode, dynamic=False)
            with torch.inference_mode():
                for batch in map(int, args.batches.split(",")):
                    x = torch.randn(batch, 3, 32, 32, device="cuda", dtype=torch.bfloat16)
                    median, shortest = measure(forward, x.contiguous(memory_format=torch.channels_last), args.repeats)
                    print(f"| wrn-{name} | {batch} | {mode} | {median:.3f} | {shortest:.3f} | {1e3 * batch / median:.0f} |",
                          flush=True)


if __name__ == "__main__":
    main()
