"""Goes on with a run of `swn train` in PyTorch, image for image, to compare the training of shared networks.

    swn train RECIPE --name run --checkpoint-every 1 …   # stopped after an epoch or more
    cp -r runs/run start
    swn train --resume runs/run
    python compare/torch_shared.py start FOLDER --beside runs/run [--until 32] [--steps 5] \\
        [--device cuda] [--precision bf16]

Templates, patterns, coefficients, batch norms and momentum are those of the checkpoint of `start`;
weights are composed by its plan.json. Images are drawn, shifted and flipped as `swn` does
(`superweight::data`); batch norm is over `train.bn_batch_size` images. Both programs agree until
rounding parts them: step by step at first, as a mean over epochs afterwards. Prints the training loss
of every epoch beside that in the log of the other run, and at the end the top-1 on the validation
images. `--steps` stops every epoch early and prints every loss. Needs one member, a wide residual
network, and CIFAR in the official binary version in FOLDER. A run that is searched or refined is
taken over after that.
"""

import argparse
import json
import math
import struct
import time
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from torch_gpu_step import capture

CIFAR = {
    "cifar-10": (["data_batch_%d.bin" % i for i in range(1, 6)], 1, (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)),
    "cifar-100": (["train.bin"], 2, (129.3, 124.1, 112.4), (68.2, 65.4, 70.4)),
}
SPLIT, TRAIN = 0, 2  # phases
ORDER, CROP_Y, CROP_X, FLIP = 0, 1, 2, 3  # streams


def tensors(path):
    """All f32 tensors of a safetensors file."""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    of = lambda entry: np.frombuffer(raw[8 + length:][slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
    header = json.loads(raw[8 : 8 + length])
    return {name: of(entry).copy() for name, entry in header.items() if name != "__metadata__"}


# superweight::random and superweight::data, by their documentation.


def absorb(state, word):
    with np.errstate(over="ignore"):
        z = (np.uint64(state) + np.uint64(0x9E3779B97F4A7C15)) ^ np.asarray(word, np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def draws(seed, phase, epoch, stream, index):
    state = np.uint64(0)
    for word in (seed, phase, epoch, stream):
        state = absorb(state, word)
    return absorb(state, index)


def below(bits, n):
    """The high half of a product of 64 bits with n < 2³²."""
    n, half = np.asarray(n, np.uint64), np.uint64(32)
    return ((bits >> half) * n + (((bits & np.uint64(0xFFFFFFFF)) * n) >> half)) >> half


def validation_mask(labels, classes, count, seed):
    drawn = np.argsort(draws(seed, SPLIT, 0, ORDER, np.arange(len(labels))), kind="stable")
    if count % classes:
        raise SystemExit(f"{count} validation images are not a multiple of {classes} classes")
    mask = np.zeros(len(labels), bool)
    for label in range(classes):
        mask[drawn[labels[drawn] == label][: count // classes]] = True
    return mask


def epoch_order(images, seed, epoch):
    order, i = images.tolist(), np.arange(len(images))
    to = below(draws(seed, TRAIN, epoch, ORDER, i), i + 1).tolist()
    for at in range(len(order) - 1, 0, -1):
        order[at], order[to[at]] = order[to[at]], order[at]
    return np.array(order)


# The plan: which numbers make which part of which layer.


class Composition:
    def __init__(self, plan, device):
        self.plan, self.patterned = plan, isinstance(plan["tiling"], dict) and "kronecker" in plan["tiling"]
        cells = lambda id, at: [
            math.ceil((at[side][1] - at[side][0]) / self.block(id)[i]) for i, side in enumerate(("rows", "cols"))
        ]
        tiles = {(t["superweight"], i): t for i, l in enumerate(plan["layers"]) for t in l.get("tiles", [])}
        used = lambda id, layers: self.staircase([cells(id, tiles[id, l]["at"]) for l in layers])
        first = [[0, 0] for _ in plan["template_sets"]]  # rows of coefficients and of patterns
        self.parts = [[] for _ in plan["layers"]]
        for id, superweight in enumerate(plan["superweights"]):
            groups, set = superweight.get("groups", []), superweight["set"]
            everyone = used(id, [l for group in groups for l in group["layers"]])
            for group in groups:
                own = used(id, group["layers"])
                for layer in group["layers"]:
                    down, across = cells(id, tiles[id, layer]["at"])
                    at = [(r, c) for r in range(down) for c in range(across)]
                    rows = [0 if self.patterned else own[cell] for cell in at]
                    rows = torch.tensor([first[set][0] + row for row in rows], device=device)
                    patterns = torch.tensor([first[set][1] + everyone[cell] for cell in at], device=device)
                    self.parts[layer].append((set, tiles[id, layer], (down, across), rows, patterns))
                first[set][0] += 1 if self.patterned else len(own)
            first[set][1] += len(everyone)
            for (of, layer), tile in tiles.items():
                if of == id and not groups:  # one template, no coefficients
                    self.parts[layer].append((set, tile, cells(id, tile["at"]), None, None))
        self.numbers = first

    def block(self, superweight):
        return self.plan["template_sets"][self.plan["superweights"][superweight]["set"]]["block"]

    @staticmethod
    def staircase(shapes):
        """The cells that are used, row by row, and the number of each."""
        widths = [max(c for r, c in shapes if r > row) for row in range(max((r for r, _ in shapes), default=0))]
        return {cell: i for i, cell in enumerate((r, c) for r, width in enumerate(widths) for c in range(width))}

    def is_linear(self, set):
        return any(
            self.plan["layers"][i]["layer"]["kind"] == "linear" for i, p in enumerate(self.parts) if any(q[0] == set for q in p)
        )

    def weights(self, numbers):
        out = {}
        for layer, parts in zip(self.plan["layers"], self.parts):
            layer = layer["layer"]
            name = f"{layer['member']}.{layer['name']}"
            if not parts:
                out[name] = numbers[name]
                continue
            shape = [layer["out"], layer["in"], *layer["kernel"]]
            weight = torch.empty(shape, device=numbers[name_of(parts[0][0], "templates")].device)
            for set, tile, (down, across), rows, patterns in parts:
                blocks = numbers[name_of(set, "templates")]
                mixed = blocks[:1] if rows is None else self.mixed(numbers, set, rows, patterns) @ blocks.flatten(1)
                height, width, *kernel = self.plan["template_sets"][set]["block"]
                whole = mixed.view(down, across, height, width, *kernel).transpose(1, 2).reshape(down * height, across * width, *kernel)
                (top, bottom), (left, right) = tile["at"]["rows"], tile["at"]["cols"]
                weight[top:bottom, left:right] = whole[: bottom - top, : right - left] * tile["factor"]
            out[name] = weight.flatten(1) if layer["kind"] == "linear" else weight
        return out

    def mixed(self, numbers, set, rows, patterns):
        coefficients = numbers[name_of(set, "coefficients")][rows]
        return coefficients * numbers[name_of(set, "patterns")][patterns] if self.patterned else coefficients


def name_of(set, what):
    return f"{what}.{set}"


class Network:
    """WRN by the names of its tensors. Batch norm is over `ghost` images; its statistics are the mean over such parts."""

    def __init__(self, depth, width, ghost, statistics):
        self.blocks, self.width, self.ghost, self.statistics = (depth - 4) // 6, width, ghost, statistics

    def norm(self, x, name, numbers, training):
        scale, shift = (numbers[f"0.{name}.{what}"] for what in ("weight", "bias"))
        mean, variance = (self.statistics[f"0.{name}.running_{what}"] for what in ("mean", "var"))
        if not training:
            return F.relu(F.batch_norm(x, mean, variance, scale, shift, False))
        parts, moved = [], []
        for part in x.split(self.ghost):
            moved.append((mean.clone(), variance.clone()))
            parts.append(F.batch_norm(part, *moved[-1], scale, shift, True, 0.1))
        mean.copy_(torch.stack([m for m, _ in moved]).mean(0))
        variance.copy_(torch.stack([v for _, v in moved]).mean(0))
        return F.relu(torch.cat(parts))

    def __call__(self, x, weights, numbers, training):
        x = F.conv2d(x, weights["0.conv1.weight"], padding=1)
        for stage in (1, 2, 3):
            for block in range(self.blocks):
                name = f"block{stage}.layer.{block}"
                stride = 2 if stage > 1 and block == 0 else 1
                a = self.norm(x, f"{name}.bn1", numbers, training)
                y = F.conv2d(a, weights[f"0.{name}.conv1.weight"], stride=stride, padding=1)
                y = F.conv2d(self.norm(y, f"{name}.bn2", numbers, training), weights[f"0.{name}.conv2.weight"], padding=1)
                shortcut = weights.get(f"0.{name}.convShortcut.weight")
                x = y + (x if shortcut is None else F.conv2d(a, shortcut, stride=stride))
        x = self.norm(x, "bn1", numbers, training).to(numbers["0.fc.bias"].dtype).mean((2, 3))
        return F.linear(x, weights["0.fc.weight"], numbers["0.fc.bias"])


def decay_of(name, train, composition):
    """What the optimizer decays a tensor by; a composed classifier is decayed by its weights instead."""
    on, decay = train["weight_decay_on"], train["weight_decay"]
    shared = decay * train["shared_weight_decay_mult"]
    kind, _, set = name.partition(".")
    if kind in ("templates", "patterns", "coefficients"):
        if composition.is_linear(int(set)) or ("coefficients" if kind == "coefficients" else "templates") not in on:
            return 0.0
        return shared
    part = "classifier" if ".fc." in name else "batch-norm" if ".bn" in name else "convolutions"
    return decay if part in on else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--until", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="f32", choices=["f32", "tf32", "bf16"])
    args = parser.parse_args()
    recipe = tomllib.loads((args.start / "resolved.toml").read_text())
    train, data = recipe["train"], recipe["data"]
    checkpoint = args.start / "checkpoints" / (args.start / "checkpoints/latest").read_text().strip()
    state = json.loads((checkpoint / "state.json").read_text())["training"]
    if state["phase"] != "train" or state["epoch"] < recipe.get("refine", {}).get("epoch", 0):
        raise SystemExit(f"{args.start} is still to be searched or refined")
    if train["schedule"] != "multistep" or train["label_smoothing"] or data["cutout"] or len(recipe["members"]) > 1:
        raise SystemExit("one member, drops, no cutout, no label smoothing")
    if data["crop"] != "pad":
        raise SystemExit("images that are shifted, not stretched: data.crop = \"pad\"")
    device, on_gpu = args.device, args.device.startswith("cuda")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = args.precision != "f32"

    files, labels_at, mean, deviation = CIFAR[data["name"]]
    raw = np.concatenate([np.fromfile(args.folder / file, np.uint8).reshape(-1, labels_at + 3072) for file in files])
    labels = raw[:, labels_at - 1].astype(np.int64)
    held = validation_mask(labels, labels.max() + 1, data["validation"], data["split_seed"])
    images = torch.from_numpy(raw[:, labels_at:].reshape(-1, 3, 32, 32).copy()).to(device)
    labels, pad = torch.from_numpy(labels).to(device), data["padding"]
    padded = F.pad(images, (pad,) * 4)
    mean, deviation = (torch.tensor(v, device=device)[None, :, None, None] for v in (mean, deviation))
    span = torch.arange(32, device=device)

    members, bank = tensors(checkpoint / "members.safetensors"), tensors(checkpoint / "bank.safetensors")
    on_device = lambda all: {name: torch.from_numpy(value).to(device) for name, value in all.items()}
    statistics = on_device({name: value for name, value in members.items() if ".running_" in name})
    numbers = on_device({name: value for name, value in {**members, **bank}.items() if ".running_" not in name})
    momentum = on_device(tensors(checkpoint / "optimizer.safetensors"))
    composition = Composition(json.loads((checkpoint / "plan.json").read_text()), device)
    for set, (rows, patterns) in enumerate(composition.numbers):
        for what, count in (("coefficients", rows), ("patterns", patterns * composition.patterned)):
            if count:  # rooms that refinement left over stay behind
                name = name_of(set, what)
                numbers[name], momentum[name] = numbers[name][:count].clone(), momentum[name][:count].clone()
    depth, width = map(int, recipe["members"][0].removeprefix("wrn-").split("-"))
    network = Network(depth, width, train["bn_batch_size"], statistics)
    names = list(numbers)
    for name in names:
        numbers[name].requires_grad_()
    decays = {name: decay_of(name, train, composition) for name in names}
    speeds = {name: 1.0 for name in names}
    for name in names:
        if name.startswith(("templates.", "patterns.")):
            speeds[name] = train["template_lr_mult"]
        elif name.startswith("coefficients."):
            speeds[name] = train["coefficient_lr_mult"]
    by_weight = "0.fc.weight" not in numbers and "classifier" in train["weight_decay_on"]
    rate = torch.zeros((), device=device)
    seen = torch.zeros(2, device=device)
    batch = train["batch_size"]
    x, y = torch.zeros(batch, 3, 32, 32, device=device), torch.zeros(batch, dtype=torch.long, device=device)
    if on_gpu:
        x = x.contiguous(memory_format=torch.channels_last)

    def draw(chosen, down, right, flip):
        rows, columns = down[:, None] + span, right[:, None] + span
        # Columns of the image before it is flipped.
        columns = torch.where(flip[:, None], 31 + 2 * pad - columns, columns)
        drawn = padded[chosen[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        x.copy_((drawn.permute(0, 3, 1, 2).float() - mean) / deviation)
        y.copy_(labels[chosen])

    def step():
        weights = composition.weights(numbers)
        if on_gpu:
            weights = {n: w.contiguous(memory_format=torch.channels_last) if w.dim() == 4 else w for n, w in weights.items()}
        with torch.autocast(device.split(":")[0], dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            logits = network(x, weights, numbers, True)
        loss = F.cross_entropy(logits.float(), y)
        pulled = loss + 0.5 * train["weight_decay"] * weights["0.fc.weight"].square().sum() if by_weight else loss
        gradients = torch.autograd.grad(pulled, [numbers[name] for name in names])
        with torch.no_grad():
            for name, gradient in zip(names, gradients):
                number, moved = numbers[name], momentum[name]
                gradient = gradient.add(number, alpha=decays[name])
                moved.mul_(train["momentum"]).add_(gradient)
                by = gradient.add(moved, alpha=train["momentum"]) if train["nesterov"] else moved
                number.sub_(by * (rate * speeds[name]))
            seen[0].add_(loss.detach())
            seen[1].add_((logits.argmax(1) == y).sum())

    def recorded():
        """A step as one CUDA graph, with everything as it was before it was tried out."""
        state = (*numbers.values(), *momentum.values(), *statistics.values(), seen)
        kept = [value.detach().clone() for value in state]
        graph = capture(step)
        with torch.no_grad():
            for value, old in zip(state, kept):
                value.copy_(old)
        return graph.replay

    def evaluate():
        right, chosen = 0, torch.from_numpy(np.flatnonzero(held)).to(device)
        with torch.no_grad():
            weights = composition.weights(numbers)
            for part in chosen.split(500):
                with torch.autocast(device.split(":")[0], dtype=torch.bfloat16, enabled=args.precision == "bf16"):
                    logits = network((images[part].float() - mean) / deviation, weights, numbers, False)
                right += (logits.argmax(1) == labels[part]).sum().item()
        return 100 * right / len(chosen)

    theirs = {}
    if args.beside:
        lines = map(json.loads, (args.beside / "log.jsonl").read_text().splitlines())
        theirs = {l["epoch"] + 1: l["loss"] for l in lines if l["event"] == "epoch" and l["phase"] == "train"}
    trained, begin, run = np.flatnonzero(~held), time.perf_counter(), None
    for epoch in range(state["epoch"], args.until or train["epochs"]):
        rate.fill_(train["lr"] * train["gamma"] ** sum(epoch >= drop for drop in train["milestones"]))
        order = epoch_order(trained, recipe["seed"], epoch)
        place = lambda stream, n: torch.from_numpy(below(draws(recipe["seed"], TRAIN, epoch, stream, order), n).astype(np.int64)).to(device)
        down, right = place(CROP_Y, 2 * pad + 1), place(CROP_X, 2 * pad + 1)
        flip = place(FLIP, 2) == 1 if data["flip"] else torch.zeros(len(order), dtype=torch.bool, device=device)
        order = torch.from_numpy(order).to(device)
        seen.zero_()
        steps = len(order) // batch
        for i in range(min(steps, args.steps or steps)):
            part = slice(i * batch, (i + 1) * batch)
            draw(order[part], down[part], right[part], flip[part])
            run = run or (recorded() if on_gpu else step)
            before = seen[0].item() if args.steps else 0.0
            run()
            if args.steps:
                print(f"epoch {epoch + 1} step {i + 1}  loss {seen[0].item() - before:.6f}", flush=True)
        loss, right_ones = (seen / min(steps, args.steps or steps)).tolist()
        beside = f"  swn {theirs[epoch + 1]:.4f}" if epoch + 1 in theirs and not args.steps else ""
        print(f"epoch {epoch + 1:3d}  loss {loss:.4f}{beside}  train {100 * right_ones / batch:.2f}%  "
              f"{time.perf_counter() - begin:.0f} s", flush=True)
    if held.any():
        print(f"{args.start.name} {args.precision}: {evaluate():.2f}% of {held.sum()} validation images")


if __name__ == "__main__":
    main()
