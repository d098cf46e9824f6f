"""Trains a plain WRN-d-k on CIFAR-100 in PyTorch by recipes/table-1/cifar-100-1-narrow.toml, on one GPU.

    python compare/torch_train.py FOLDER [--row 28-1] [--epochs 200] [--seed 0] \\
        [--precision f32|tf32|bf16]
    swn train recipes/table-1/cifar-100-1-narrow.toml --set train.epochs=EPOCHS \\
        --set train.bn_batch_size=128 --set data.cutout=0 --device cuda

FOLDER has train.bin and test.bin of the official binary version. Batch 128; SGD with Nesterov momentum
0.9 and learning rate 0.1, times 0.2 after 30%, 60% and 90% of the epochs; weight decay 5e-4 on
everything but the classifier's bias (`swn` decays that too); He initialisation; images padded by 4,
cropped and flipped. A step is one CUDA graph: without it PyTorch needs 10 ms instead of 3. Batch norm
is over the whole batch.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_gpu_step import Wrn, capture

MEAN, DEVIATION = (129.3, 124.1, 112.4), (68.2, 65.4, 70.4)


def load(path):
    raw = torch.from_numpy(np.fromfile(path, dtype=np.uint8).reshape(-1, 3074)).cuda()
    return raw[:, 2:].reshape(-1, 3, 32, 32), raw[:, 1].long()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--row", default="28-1")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", default="f32", choices=["f32", "tf32", "bf16"])
    parser.add_argument("--batch", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    images, labels = load(f"{args.folder}/train.bin")
    test_images, test_labels = load(f"{args.folder}/test.bin")
    padded = F.pad(images, (4, 4, 4, 4))
    mean = torch.tensor(MEAN, device="cuda")[None, :, None, None]
    deviation = torch.tensor(DEVIATION, device="cuda")[None, :, None, None]
    span = torch.arange(32, device="cuda")

    model = Wrn(*map(int, args.row.split("-"))).cuda().to(memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    decayed = [p for n, p in model.named_parameters() if n != "linear.bias"]
    groups = [{"params": decayed, "weight_decay": 5e-4}, {"params": [model.linear.bias], "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    x = torch.zeros(args.batch, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    y = torch.zeros(args.batch, dtype=torch.long, device="cuda")
    seen = torch.zeros(2, device="cuda")  # loss, right

    def draw(chosen):
        down, right = torch.randint(0, 9, (2, args.batch), device="cuda")
        columns = right[:, None] + span
        columns = torch.where(torch.rand(args.batch, 1, device="cuda") < 0.5, columns.flip(1), columns)
        rows = down[:, None] + span
        # [image][row][column][channel]
        batch = padded[chosen[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        x.copy_((batch.permute(0, 3, 1, 2).float() - mean) / deviation)
        y.copy_(labels[chosen])

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            logits = model(x)
            loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            seen[0].add_(loss)
            seen[1].add_((logits.argmax(1) == y).sum())

    steps, begin = len(images) // args.batch, time.perf_counter()
    drops = [round(args.epochs * share) for share in (0.3, 0.6, 0.9)]
    graph = None
    for epoch in range(args.epochs):
        order = torch.randperm(len(images), device="cuda")
        if graph is None or epoch in drops:
            for group in optimizer.param_groups:
                group["lr"] = 0.1 * 0.2 ** sum(epoch >= drop for drop in drops)
            draw(order[: args.batch])
            graph = capture(step)
        seen.zero_()
        for i in range(steps):
            draw(order[i * args.batch : (i + 1) * args.batch])
            graph.replay()
        if epoch % 5 == 4 or epoch + 1 == args.epochs:
            loss, right = (seen / steps).tolist()
            print(f"epoch {epoch + 1:3d}  loss {loss:.4f}  train {100 * right / args.batch:.2f}%  "
                  f"{time.perf_counter() - begin:.0f} s", flush=True)
    model.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(test_images), 1000):
            batch = (test_images[i : i + 1000].float() - mean) / deviation
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
                right += (model(batch).argmax(1) == test_labels[i : i + 1000]).sum().item()
    print(f"wrn-{args.row} {args.precision} {args.epochs} epochs, seed {args.seed}: test {100 * right / len(test_images):.2f}%")


if __name__ == "__main__":
    main()
