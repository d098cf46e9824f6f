"""Makes the seeds that are not files of a run: run it in this folder, it writes into corpus/. Nothing but the standard library.

The layouts are those of the two small sets in crates/superweight/src/data/fuzzing.rs: two images of 2x2 per part.
"""

import gzip
import io
import os
import struct
import tarfile
import zlib


def put(name, data):
    os.makedirs(os.path.dirname(f"corpus/{name}"), exist_ok=True)
    with open(f"corpus/{name}", "wb") as file:
        file.write(data)


def read(name):
    with open(name, "rb") as file:
        return file.read()


def npy(shape, data, version=1):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def record(label):
    return bytes([9, label]) + bytes(range(12))


def idx_images():
    return struct.pack(">IIII", 0x0803, 2, 2, 2) + bytes(range(8))


def idx_labels():
    return struct.pack(">II", 0x0801, 2) + bytes([0, 2])


def pickled():
    """As cPickle writes a batch of CIFAR-100 in protocol 2."""

    def short(text):
        return b"U" + bytes([len(text)]) + text

    def numbers(name, values):
        return short(name) + b"q\x04]q\x05(" + b"".join(b"K" + bytes([v]) for v in values) + b"e"

    out = b"\x80\x02}q\x01(" + short(b"filenames") + b"q\x02]q\x03(" + short(b"a.png") + b"r\x00\x01\x00\x00"
    out += short(b"b.png") + b"e" + numbers(b"fine_labels", [0, 2]) + numbers(b"coarse_labels", [1, 1])
    out += short(b"labels") + b"]K\x01aM\x02\x00a"
    out += short(b"data") + b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09(K\x01"
    out += b"K\x02K\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
    out += struct.pack("<I", 24) + bytes(range(24)) + b"tb" + short(b"batch_label") + short(b"one") + b"q\x0cu."
    return out


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    end = out.getvalue().rstrip(b"\0")
    return end + bytes(-len(end) % 512 + 1024)


def png(width, height, depth, colour, rows, interlaced=0):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    data = b"".join(b"\0" + row for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


put("npy/rows.npy", npy("(4, 2, 2, 3)", bytes(range(48))))
put("npy/labels.npy", npy("(4,)", bytes([0, 1, 2, 3])))
put("npy/long-header.npy", npy("(4,)", bytes([0, 1, 2, 3]), version=2))

put("images/cifar", b"\0" + bytes([28]) + record(0) + record(1) + record(2) + record(0))
images, labels = idx_images(), idx_labels()
put("images/idx", b"\1" + b"".join(bytes([len(f)]) + f for f in [images, labels, images]) + labels)

binary = [("d/train.bin", record(0) + record(1)), ("d/test.bin", record(2) + record(0))]
python = [("d/meta", b"x"), ("d/train", pickled()), ("d/test", pickled())]
idx = [("train-images", images), ("train-labels", labels), ("test-images", images), ("test-labels", labels)]
put("archive/cifar.tar", b"\0" + tar(binary))
put("archive/python.tar", b"\0" + tar(python))
put("archive/python.tar.gz", b"\0" + gzip.compress(tar(python), mtime=0))
put("archive/idx.tar", b"\1" + tar(idx))
put("pickle/batch", pickled())

put("picture/sixteen-bits.png", png(3, 2, 16, 2, [bytes(range(18)), bytes(range(18))]))
put("picture/interlaced.png", png(2, 2, 8, 0, [b"\1", b"\2", b"\3\4"], interlaced=1))

machine = '{"gpu":"NVIDIA H200","driver":13000,"cudnn":91400,'
for_conv = '"conv":"n128 160→160 32×32 k3×3 s1×1 p1×1 g1 %s set bf16","engine":%d,"knobs":[[2,0],[13,1]],"workspace":131,"microseconds":116.5,"tuning":"%s"}\n'
put("tuned/three.jsonl", "".join(
    machine + for_conv % line for line in [("forward", 62, "quick"), ("data", 45, "full"), ("forward", 22, "full")]
).encode())

# Files of the run, for the targets that take one kind of file each, and for the one that takes any.
kinds = {
    "log": "log.jsonl", "statistics": "statistics.safetensors", "profile": "anytime.json", "plan": "checkpoints/0004/plan.json",
    "predictions": "evaluation/test.safetensors", "classes": "evaluation/test.classes.safetensors.gz",
    "safetensors": "checkpoints/0004/bank.safetensors", "recipe": "resolved.toml",
}
for target, name in kinds.items():
    put(f"{target}/run-{name.rsplit('/')[-1]}", read(f"run/{name}"))
put("classes/unpacked.safetensors", gzip.decompress(read("run/evaluation/test.classes.safetensors.gz")))
# In the order of FILES in src/lib.rs.
files = [
    "resolved.toml", "recipe.toml", "log.jsonl", "statistics.safetensors", "anytime.json", "evaluation/test.json",
    "checkpoints/latest", "checkpoints/0004/SHA256SUMS", "checkpoints/0004/plan.json", "checkpoints/0004/state.json",
    "checkpoints/0004/bank.safetensors", "checkpoints/0004/members.safetensors", "checkpoints/0004/optimizer.safetensors",
]
for number, name in enumerate(files):
    put(f"run/{number:02}-{name.rsplit('/')[-1]}", bytes([number]) + read(f"run/{name}"))
