"""Big but honest files: python benchmarks/big_files.py [CASE ...] [--nodes N].

Graphs of N nodes (100,000) of several kinds, and files of as many stored tensors. Prints the processor
time of a profile as a multiple of onnx's C++ inference alone, of the same graph in the same process, of a tenth of
the nodes as well, as a reader that is linear shows the same ratio there; and the bytes that a node takes, by the growth
of the process and by Python's own account. For files of weights the peer is a plain loop over the format's own library.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from statistics import median

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"any of {', '.join((*GRAPHS, *FILES))}; default: all")
    parser.add_argument("--nodes", type=int, default=100_000, help="nodes of a graph, or tensors of a file")
    parser.add_argument("--rounds", type=int, default=3, help="calls of each kind; the medians count (default: 3)")
    parser.add_argument("--path", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.path:
        print(json.dumps(_measure(options.cases[0], options.path, options.rounds)))
        return
    print(
        f"{'case':14} {'number':>9} {'peer s':>8} {'ours s':>8} {'ratio':>6} {'RSS B each':>11} {'traced B each':>14}"
    )
    for case in options.cases or (*GRAPHS, *FILES):
        for number in (options.nodes // 10, options.nodes):
            with tempfile.TemporaryDirectory() as folder:
                path = _made(case, number, folder)
                script = [sys.executable, __file__, case, "--path", path, "--rounds", str(options.rounds)]
                ended = subprocess.run(script, capture_output=True, text=True)
            if ended.returncode:
                print(f"{case:14} {number:9,} {ended.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            peer, ours, grown, traced = json.loads(ended.stdout)
            print(
                f"{case:14} {number:9,} {peer:8.3f} {ours:8.3f} {ours / peer:6.2f} {grown / number:11,.0f} "
                f"{traced / number:14,.0f}",
                flush=True,
            )


def _made(case: str, number: int, folder: str) -> str:
    """The path of a file of so many nodes or tensors."""
    if case in FILES:
        return FILES[case][0](number, folder)
    path = os.path.join(folder, "big.onnx")
    with open(path, "wb") as file:
        file.write(GRAPHS[case](number))
    return path


def _measure(case: str, path: str, rounds: int) -> tuple[float, float, int, int]:
    """Processor seconds of the peer and of flopwise, bytes by which the process grew, and bytes of Python objects."""
    import flopwise

    measure: Callable[[str], object] = flopwise.profile if case in GRAPHS else flopwise.weights
    with tempfile.TemporaryDirectory() as folder:
        measure(_made(case, 20, folder))  # imports
    gc.collect()
    before = _peak()
    measure(path)
    grown = _peak() - before
    peer: Callable[[], object]
    if case in GRAPHS:
        proto = onnx.load(path)
        peer = lambda: shape_inference.infer_shapes(proto)  # noqa: E731 - it says what is measured
    else:
        peer = lambda: FILES[case][1](path)  # noqa: E731 - the same
    pairs = [(_seconds(peer), _seconds(lambda: measure(path))) for _ in range(rounds)]
    tracemalloc.start()
    measure(path)
    traced = tracemalloc.get_traced_memory()[1]
    return median(p for p, _ in pairs), median(o for _, o in pairs), grown, traced


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _peak() -> int:
    """The most bytes that the process has taken; of Linux's own account, as ``ru_maxrss`` starts at the parent's."""
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _graph(nodes: list[onnx.NodeProto], shape: list[int], stored: list[TensorProto]) -> bytes:
    ends = [helper.make_tensor_value_info("x", 1, shape)], [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "big", *ends, stored)
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def _relu(number: int, name: str = "t{}") -> bytes:
    """A chain of Relu."""
    names = ["x", *(name.format(i) for i in range(number))]
    nodes = [helper.make_node("Relu", [a], [b], name=b) for a, b in itertools.pairwise(names)]
    return _graph(nodes, [1, 8, 4, 4], [])


def _long_names(number: int) -> bytes:
    """The same with names of 60 characters, as exporters write them."""
    return _relu(number, "/model/layers.{0:06}/self_attn/some_projection/activation/Relu_output_0"[:60].ljust(60, "_"))


def _conv(number: int) -> bytes:
    """A chain of Conv, each with a weight and a bias of its own."""
    nodes, stored, last = [], [], "x"
    weight, bias = numpy.ones((4, 4, 1, 1), "f"), numpy.ones(4, "f")
    for i in range(number):
        nodes.append(
            helper.make_node("Conv", [last, f"w{i}", f"b{i}"], [f"t{i}"], name=f"conv{i}", kernel_shape=[1, 1])
        )
        stored += [numpy_helper.from_array(weight, f"w{i}"), numpy_helper.from_array(bias, f"b{i}")]
        last = f"t{i}"
    return _graph(nodes, [1, 4, 4, 4], stored)


def _transformer(number: int) -> bytes:
    """MatMul, Add and a Constant in turn."""
    nodes, stored, last = [], [], "x"
    weight, bias = numpy.ones((4, 4), "f"), numpy_helper.from_array(numpy.ones(4, "f"))
    for i in range(number // 3):
        stored.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes += [
            helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], name=f"/layers.{i}/MatMul"),
            helper.make_node("Constant", [], [f"c{i}"], name=f"/layers.{i}/Constant", value=bias),
            helper.make_node("Add", [f"m{i}", f"c{i}"], [f"a{i}"], name=f"/layers.{i}/Add"),
        ]
        last = f"a{i}"
    return _graph(nodes, [2, 4], stored)


def _mixed(number: int) -> bytes:
    """Blocks of a residual network and of a transformer in turn, 32 nodes and 19 stored tensors a pair."""
    nodes: list[onnx.NodeProto] = []
    stored, settings = [], {"heads": [1, 16, 2, 4], "tokens": [1, 16, 8], "image": [1, 8, 4, 4]}
    stored += [numpy_helper.from_array(numpy.array(shape), name) for name, shape in settings.items()]
    last, scope = "x", ""

    def add(op: str, inputs: list[str], *weights: list[int], **attributes: object) -> str:
        name = f"{scope}/{op}_{len(nodes)}"
        names = [f"{name}.{i}" for i in range(len(weights))]
        stored.extend(numpy_helper.from_array(numpy.ones(s, "f"), n) for n, s in zip(names, weights, strict=True))
        nodes.append(helper.make_node(op, [*inputs, *names], [f"{name}_output_0"], name=name, **attributes))
        return nodes[-1].output[0]

    for i in range(max(1, number // 32)):
        scope, before = f"/layers.{i}/block", last
        for _ in range(2):
            last = add("Conv", [last], [8, 8, 3, 3], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            last = add("Relu", [add("BatchNormalization", [last], [8], [8], [8], [8])])
        before = add("Reshape", [add("Add", [last, before]), "tokens"])
        scope = f"/layers.{i}/attention"
        normed = add("LayerNormalization", [before], [8], [8])
        heads = []
        for _ in range(3):
            split = add("Reshape", [add("Add", [add("MatMul", [normed], [8, 8])], [8]), "heads"])
            heads.append(add("Transpose", [split], perm=[0, 2, 1, 3]))
        scale = add("Constant", [], value=numpy_helper.from_array(numpy.array(2.0, "f")))
        scores = add("Div", [add("MatMul", [heads[0], add("Transpose", [heads[1]], perm=[0, 1, 3, 2])]), scale])
        mixed = add("MatMul", [add("Softmax", [scores], axis=-1), heads[2]])
        merged = add("Reshape", [add("Transpose", [mixed], perm=[0, 2, 1, 3]), "tokens"])
        last = add("Reshape", [add("Add", [add("MatMul", [merged], [8, 8]), before]), "image"])
    return _graph(nodes, [1, 8, 4, 4], stored)


def _shapes(number: int) -> bytes:
    """Layers that go through shapes computed from their own, as exporters write attention: eight nodes in fourteen."""
    nodes: list[onnx.NodeProto] = []
    settings = {"zero": 0, "one": 1, "axes": [0], "rest": [-1], "heads": [2]}
    stored = [numpy_helper.from_array(numpy.array(value), name) for name, value in settings.items()]
    last = "x"

    def add(op: str, *inputs: str, **attributes: object) -> str:
        name = f"/layers/{op}_{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [f"{name}_output_0"], name=name, **attributes))
        return nodes[-1].output[0]

    for _ in range(max(1, number // 14)):
        batch, tokens = (
            add("Unsqueeze", add("Gather", add("Shape", last), i, axis=0), "axes") for i in ("zero", "one")
        )
        split = add("Reshape", last, add("Concat", batch, tokens, "heads", "rest", axis=0))
        mixed = add("Softmax", add("Transpose", split, perm=[0, 2, 1, 3]), axis=-1)
        whole = add("Concat", batch, tokens, "rest", axis=0)
        last = add("Relu", add("Reshape", add("Transpose", mixed, perm=[0, 2, 1, 3]), whole))
    return _graph(nodes, [2, 4, 8], stored)


def _safetensors(number: int, folder: str) -> str:
    """Tensors of four elements in one safetensors."""
    import safetensors.numpy

    path = os.path.join(folder, "big.safetensors")
    safetensors.numpy.save_file({f"model.layers.{i}.w": numpy.ones(4, "f") for i in range(number)}, path)
    return path


def _read_safetensors(path: str) -> object:
    import safetensors

    with safetensors.safe_open(path, "numpy") as file:
        return [_statistics(file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118 - it is no dict


def _npz(number: int, folder: str) -> str:
    """Arrays of four elements in one npz."""
    path = os.path.join(folder, "big.npz")
    numpy.savez(path, **{f"layer{i}.w": numpy.ones(4, "f") for i in range(number)})  # type: ignore[arg-type] # the stub
    return path


def _read_npz(path: str) -> object:
    with numpy.load(path) as archive:
        return [_statistics(archive[name]) for name in archive.files]


def _statistics(array: numpy.ndarray) -> list[float]:
    """What `flopwise weights` prints of a tensor."""
    return [float(v) for v in (array.min(), array.max(), array.mean(), array.std(), numpy.count_nonzero(array == 0))]


GRAPHS: dict[str, Callable[[int], bytes]] = {
    "relu": _relu,
    "long_names": _long_names,
    "conv": _conv,
    "transformer": _transformer,
    "mixed": _mixed,
    "shapes": _shapes,
}

#: How a file is made in a folder, and a plain loop over it.
FILES: dict[str, tuple[Callable[[int, str], str], Callable[[str], object]]] = {
    "safetensors": (_safetensors, _read_safetensors),
    "npz": (_npz, _read_npz),
}

if __name__ == "__main__":
    main()
