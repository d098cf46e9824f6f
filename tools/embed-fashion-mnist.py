#!/usr/bin/env python3
"""Make the Fashion-MNIST subset that is compiled into the program.

    apt-get install -y dataset-fashion-mnist zopfli
    tools/embed-fashion-mnist.py /usr/share/datasets/fashion-mnist crates/superweight/src/data/embedded

Takes the first 800 training and the first 200 test images of every class, in original order. The file is a gzip of
8,000 + 2,000 label bytes, then every pixel minus its PNG "Paeth" prediction, modulo 256: 4.0 MB by zlib and 3.9 by
zopfli, where unfiltered pixels take 4.4. Prints the SHA-256 of labels and pixels, which a test of the crate pins.
"""
import gzip, hashlib, pathlib, subprocess, sys

CLASSES, SIDE = 10, 28


def read(folder, part, header):
    return gzip.decompress((folder / f"{part}-ubyte.gz").read_bytes())[header:]


def subset(folder, part, per_class):
    labels, pixels = read(folder, f"{part}-labels-idx1", 8), read(folder, f"{part}-images-idx3", 16)
    size, taken, chosen = SIDE * SIDE, [0] * CLASSES, []
    for i, label in enumerate(labels):
        if taken[label] < per_class:
            taken[label] += 1
            chosen.append(i)
    assert taken == [per_class] * CLASSES
    return bytes(labels[i] for i in chosen), b"".join(pixels[i * size:(i + 1) * size] for i in chosen)


def paeth(left, up, corner):
    guess = left + up - corner
    distances = abs(guess - left), abs(guess - up), abs(guess - corner)
    return (left, up, corner)[distances.index(min(distances))]


def residuals(image):
    at = lambda y, x: image[y * SIDE + x] if y >= 0 and x >= 0 else 0
    return bytes((at(y, x) - paeth(at(y, x - 1), at(y - 1, x), at(y - 1, x - 1))) % 256
                 for y in range(SIDE) for x in range(SIDE))


def main(source, target):
    (train_labels, train), (test_labels, test) = (subset(pathlib.Path(source), part, n)
                                                  for part, n in (("train", 800), ("t10k", 200)))
    labels, pixels = train_labels + test_labels, train + test
    size = SIDE * SIDE
    packed = labels + b"".join(residuals(pixels[i:i + size]) for i in range(0, len(pixels), size))
    plain = pathlib.Path(target) / "fashion-mnist-10k"
    plain.write_bytes(packed)
    subprocess.run(["zopfli", "--gzip", str(plain)], check=True)
    plain.unlink()
    print(f"{plain}.gz: {plain.with_suffix('.gz').stat().st_size} bytes")
    print(f"labels and pixels: sha256 {hashlib.sha256(labels + pixels).hexdigest()}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
