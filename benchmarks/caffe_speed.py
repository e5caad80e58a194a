"""Time and memory of opening a Caffe net with 553 MB of weights, beside OpenCV: python benchmarks/caffe_speed.py.

The net is VGG-16, made here: its text, and a .caffemodel that is all holes, so that it takes no room on the disk. Every
measurement runs in a process of its own, in turn; the medians of five rounds are printed. OpenCV has to read the
weights; flopwise skips them.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.formats.caffe.caffemodel import field, varint

CHANNELS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
POOLED = {1, 3, 6, 9, 12}
FULLY = ((25088, 4096), (4096, 4096), (4096, 1000))
ROUNDS = 5

FLOPWISE = """
import sys, time, json, resource, flopwise
flopwise.profile(sys.argv[3])
start = time.perf_counter()
counted = flopwise.profile(sys.argv[1])
took = time.perf_counter() - start
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, counted.total("params")]))
"""

OPENCV = """
import sys, time, json, resource, cv2
start = time.perf_counter()
net = cv2.dnn.readNetFromCaffe(sys.argv[1], sys.argv[2])
flops = net.getFLOPS((1, 3, 224, 224))
took = time.perf_counter() - start
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, flops]))
"""


def layers() -> Iterator[tuple[str, str, str, list[tuple[int, ...]]]]:
    """Name, type, parameters and shapes of the blobs of each layer."""
    taken = 3
    for i, made in enumerate(CHANNELS):
        params = f"convolution_param {{ num_output: {made} kernel_size: 3 pad: 1 }}"
        yield f"conv{i}", "Convolution", params, [(made, taken, 3, 3), (made,)]
        taken = made
        if i in POOLED:
            yield f"pool{i}", "Pooling", "pooling_param { kernel_size: 2 stride: 2 }", []
    for i, (taken, made) in enumerate(FULLY):
        yield f"fc{i}", "InnerProduct", f"inner_product_param {{ num_output: {made} }}", [(made, taken), (made,)]


def make(folder: Path) -> tuple[Path, Path]:
    """The net as text, and its weights."""
    text, weights = folder / "vgg.prototxt", folder / "vgg.caffemodel"
    lines = ['layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 3, 224, 224] } } }']
    bottom = "data"
    with weights.open("wb") as file:
        for name, kind, params, shapes in layers():
            lines.append(f'layer {{ name: "{name}" type: "{kind}" bottom: "{bottom}" top: "{name}" {params} }}')
            bottom = name
            head, blobs, whole = field(1, name.encode()) + field(2, kind.encode()), [], 0
            for shape in shapes:
                size = 4 * math.prod(shape)
                inner = field(7, field(1, b"".join(map(varint, shape)))) + varint(5 << 3 | 2) + varint(size)
                blobs.append((varint(7 << 3 | 2) + varint(len(inner) + size) + inner, size))
                whole += len(blobs[-1][0]) + size
            file.write(varint(100 << 3 | 2) + varint(len(head) + whole) + head)
            for start, size in blobs:
                file.write(start)
                file.seek(size, 1)
        file.truncate(file.tell())
    text.write_text("\n".join(lines) + "\n")
    return text, weights


def main() -> None:
    small = str(Path(__file__).parents[1] / "examples" / "alexnet.prototxt")
    found: dict[str, list[list[float]]] = {"flopwise": [], "OpenCV": []}
    with tempfile.TemporaryDirectory() as folder:
        text, weights = make(Path(folder))
        for _ in range(ROUNDS):
            for name, code in (("flopwise", FLOPWISE), ("OpenCV", OPENCV)):
                command = [sys.executable, "-c", code, str(text), str(weights), small]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[name].append(json.loads(done.stdout))
        megabytes = weights.stat().st_size / 1e6
    base = median(f[0] for f in found["flopwise"])
    print(f"VGG-16, {megabytes:.0f} MB of weights\n")
    print("| | ms | of flopwise's time | peak MB |")
    print("|---|--:|--:|--:|")
    for name, rounds in found.items():
        took, peak = median(f[0] for f in rounds), median(f[1] for f in rounds)
        print(f"| {name} | {1e3 * took:.1f} | {took / base:.0f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
