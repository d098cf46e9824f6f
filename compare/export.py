#!/usr/bin/env python3
"""Compares what `swn export` wrote, in PyTorch and ONNX Runtime, with the logits of `swn eval`.

    swn eval RUN                                  # our logits, RUN/evaluation/test.safetensors
    swn export RUN --format safetensors
    swn export RUN --format onnx                  # all members as one ensemble
    swn export RUN --format onnx --member-ids 0   # and each by itself
    swn export RUN --format onnx --normalize --out RUN/export/normalised
    python3 compare/export.py RUN IMAGES MEAN STD

IMAGES is a .npy file of bytes [image][row][column][channel]; MEAN and STD, separated by commas, are
those of the data set. The first 1,000 images are compared; figures are ‖theirs − ours‖ / ‖ours‖. Fails
from 1e-4 on. Needs torch, safetensors, onnx and onnxruntime; the PyTorch modules are those of the
engine's fixtures.
"""
import glob
import json
import os
import re
import sys

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.numpy import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../crates/superweight-engine/tests/fixtures"))
import models

COUNT, LIMIT = 1000, 1e-4


def module_of(name, tensors):
    classes = tensors["fc.weight" if "fc.weight" in tensors else "classifier.1.weight"].shape[0]
    if name.startswith("wrn"):
        depth, width = map(int, name.split("-")[1:])
        net = models.Wrn(depth, width, classes)
        channels = tensors["conv1.weight"].shape[1]
        net.conv1 = torch.nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
    else:
        net = models.MobileNetV2(classes)
        channels = tensors["features.0.0.weight"].shape[1]
        net.features[0][0] = torch.nn.Conv2d(channels, 32, 3, 1, 1, bias=False)
    net.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in tensors.items()}, strict=True)
    return net.eval()


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main():
    run, images = sys.argv[1], np.load(sys.argv[2])[:COUNT]
    mean, deviation = (np.float32(v.split(",")).reshape(1, -1, 1, 1) for v in sys.argv[3:5])
    raw = np.ascontiguousarray(images.transpose(0, 3, 1, 2).astype(np.float32))
    x = (raw - mean) / deviation
    saved = load_file(f"{run}/evaluation/test.safetensors")
    ours = {key: value[:COUNT] for key, value in saved.items()}
    worst = 0.0

    def compare(what, theirs, expected):
        nonlocal worst
        error = float(np.linalg.norm(theirs - expected) / np.linalg.norm(expected))
        worst = max(worst, error)
        print(f"{what:<75} {len(theirs)} images  L2-relative {error:.1e}")

    def runtime(path, images):
        onnx.checker.check_model(onnx.load(path), full_check=True)
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["logits", "probabilities"], {"images": images})

    torch.set_num_threads(2)
    print(f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}, plan: {tiling(run)}")
    for path in sorted(glob.glob(f"{run}/export/*.safetensors")):
        member, name = re.match(r"(\d+)-(.*)\.safetensors", os.path.basename(path)).groups()
        with torch.no_grad():
            compare(f"PyTorch       {os.path.basename(path)}", module_of(name, load_file(path))(torch.from_numpy(x)).numpy(), ours[f"member.{member}"])
    for path in sorted(glob.glob(f"{run}/export/*.onnx") + glob.glob(f"{run}/export/normalised/*.onnx")):
        normalised = "normalised" in path
        members = re.match(r"[\d+]+", os.path.basename(path)).group().split("+")
        logits = [ours[f"member.{member}"] for member in members]
        mean = np.mean([softmax(z.astype(np.float64)) for z in logits], axis=0)
        what = os.path.basename(path) + (" (images in 0-255)" if normalised else "")
        theirs = runtime(path, raw if normalised else x)
        compare(f"ONNX Runtime  {what} logits", theirs[0], logits[0] if len(members) == 1 else np.log(mean))
        compare(f"ONNX Runtime  {what} probabilities", theirs[1], mean)
    print(f"largest {worst:.1e}, allowed {LIMIT:.0e}")
    sys.exit(worst >= LIMIT)


def tiling(run):
    newest = open(f"{run}/checkpoints/latest").read().strip()
    return json.load(open(f"{run}/checkpoints/{newest}/plan.json"))["tiling"]


main()
