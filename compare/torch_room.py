#!/usr/bin/env python3
"""Prints by how much each template set of a run in training would gain from one more template.

    python compare/torch_room.py RUN FOLDER [--batches 8] [--size 128] [--seed 5]

RUN is a run of `swn train` with one wide residual network on a grid. FOLDER has CIFAR in the official
binary version. Batches are drawn from the training images with the recipe's shifts, flips and cutout.
dL/dW of every layer is averaged over each half of the batches. The gradient that the layers of a set
share outside of the span of their templates is

    M = P Σ_layers |W|² (Aᵀ B + Bᵀ A)/2 P
    A, B: gradients of the two halves, a row per cell; P: projection away from the templates.

Noise of the two halves is independent and adds nothing to M on average. With few images the largest
eigenvalue of M is noise all the same: the last column is that of M with B's cells in random order, and
should be far below the first. The largest eigenvalue of M is the gain of a first step along one more
template, as a share of the weights. |W|² makes layers comparable that batch norm follows, such as the
first convolution of a residual block; for second ones, shortcuts and the classifier it does so only
roughly, and for a shortcut that has faded not at all. Divided by the parameters that a template costs
(its cells and itself) it ranks the sets. It includes what the templates would gain by moving.
"""

import argparse
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from torch_shared import (  # noqa: E402
    CIFAR,
    Composition,
    Network,
    name_of,
    tensors,
    validation_mask,
)


def augmented(images, mean, deviation, data, generator):
    """Filled up with black, shifted, flipped and cut out, one after another."""
    pad, cut = data["padding"], data["cutout"] // 2
    draw = lambda below: int(torch.randint(0, below, (1,), generator=generator))
    out = []
    for image in (F.pad(images.float(), (pad,) * 4) - mean) / deviation:
        down, right = draw(2 * pad + 1), draw(2 * pad + 1)
        image = image[:, down : down + 32, right : right + 32].clone()
        if data["flip"] and draw(2):
            image = image.flip(2)
        y, x = draw(32), draw(32)
        image[:, max(0, y - cut) : y + cut, max(0, x - cut) : x + cut] = 0
        out.append(image)
    return torch.stack(out).contiguous(memory_format=torch.channels_last)


def cells(tensor, block):
    """A row per cell of the grid, cells at the edge filled up with zeros."""
    height, width, *kernel = block
    out, inputs = tensor.shape[:2]
    tensor = F.pad(tensor.reshape(out, inputs, *kernel), (0, 0, 0, 0, 0, -inputs % width, 0, -out % height))
    out, inputs = tensor.shape[:2]
    tensor = tensor.reshape(out // height, height, inputs // width, width, *kernel).permute(0, 2, 1, 3, 4, 5)
    return tensor.reshape(-1, height * width * kernel[0] * kernel[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    recipe = tomllib.loads((args.run / "resolved.toml").read_text())
    data = recipe["data"]
    checkpoint = args.run / "checkpoints" / (args.run / "checkpoints/latest").read_text().strip()
    plan = json.loads((checkpoint / "plan.json").read_text())
    if len(recipe["members"]) > 1 or "grid" not in plan["tiling"] or data["crop"] != "pad":
        raise SystemExit("one member, on a grid, data.crop = \"pad\"")
    if any(len(layer.get("tiles", [])) > 1 for layer in plan["layers"]) or any(
        len(group["layers"]) > 1 for superweight in plan["superweights"] for group in superweight.get("groups", [])
    ):
        raise SystemExit("every layer its own coefficients, and no regions")
    if args.batches < 2 or args.batches % 2:
        raise SystemExit("--batches: two halves, so an even number")
    members, bank = tensors(checkpoint / "members.safetensors"), tensors(checkpoint / "bank.safetensors")
    numbers = {name: torch.from_numpy(value) for name, value in {**members, **bank}.items()}
    statistics = {name: numbers.pop(name) for name in members if ".running_" in name}
    composition = Composition(plan, "cpu")
    for set, (rows, _) in enumerate(composition.numbers):
        if rows:
            numbers[name_of(set, "coefficients")] = numbers[name_of(set, "coefficients")][:rows]
    depth, width = map(int, recipe["members"][0].removeprefix("wrn-").split("-"))
    network = Network(depth, width, recipe["train"]["bn_batch_size"], statistics)

    files, labels_at, mean, deviation = CIFAR[data["name"]]
    raw = np.concatenate([np.fromfile(args.folder / file, np.uint8).reshape(-1, labels_at + 3072) for file in files])
    labels = torch.from_numpy(raw[:, labels_at - 1].astype(np.int64))
    images = torch.from_numpy(raw[:, labels_at:].reshape(-1, 3, 32, 32).copy())
    mean, deviation = (torch.tensor(v)[None, :, None, None] for v in (mean, deviation))
    held = validation_mask(labels.numpy(), int(labels.max()) + 1, data["validation"], data["split_seed"])
    trained = torch.from_numpy(np.flatnonzero(~held))
    generator = torch.Generator().manual_seed(args.seed)

    fast = lambda weight: weight.contiguous(memory_format=torch.channels_last) if weight.dim() == 4 else weight
    weights = {name: fast(weight.detach()) for name, weight in composition.weights(numbers).items()}
    halves = [{name: torch.zeros_like(weight) for name, weight in weights.items()} for _ in range(2)]
    for batch in range(args.batches):
        chosen = trained[torch.randint(0, len(trained), (args.size,), generator=generator)]
        x = augmented(images[chosen], mean, deviation, data, generator)
        leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        loss = F.cross_entropy(network(x, leaves, numbers, True), labels[chosen])
        loss.backward()
        for name, leaf in leaves.items():
            halves[batch % 2][name] += leaf.grad / (args.batches // 2)
        print(f"batch {batch + 1} of {args.batches}  loss {loss.item():.3f}", file=sys.stderr, flush=True)

    print(f"{'first layer of a set':28} layers    K    cost  in their span  outside  1st    2nd    5th    1st/cost·10⁶  noise")
    for set, planned in enumerate(plan["template_sets"]):
        layers = [plan["layers"][i]["layer"] for i in plan["clusters"][planned["cluster"]]["layers"]]
        templates = torch.from_numpy(bank[name_of(set, "templates")]).flatten(1)
        basis = torch.linalg.qr(templates.T)[0]
        moment, noise = torch.zeros(2, templates.shape[1], templates.shape[1])
        uses = 0
        for layer in layers:
            name = f"{layer['member']}.{layer['name']}"
            a, b = (cells(half[name], planned["block"]) for half in halves)
            for sum, b in ((moment, b), (noise, b[torch.randperm(len(b), generator=generator)])):
                sum += weights[name].square().sum() * (a.T @ b + b.T @ a) / 2
            uses += len(a)
        inside = torch.trace(basis.T @ moment @ basis)
        away = torch.eye(len(moment)) - basis @ basis.T
        values, noise = (torch.linalg.eigvalsh(away @ m @ away).flip(0) for m in (moment, noise))
        cost = uses + templates.shape[1]
        print(f"{layers[0]['name'].removesuffix('.weight'):28} {len(layers):6d} {len(templates):4d} {cost:7d} {inside:14.3f} "
              f"{values.sum():8.3f} {values[0]:6.3f} {values[1]:6.3f} {values[4]:6.3f} {1e6 * values[0] / cost:12.0f} {noise[0]:6.3f}")


if __name__ == "__main__":
    main()
