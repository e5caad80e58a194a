"""Reading ONNX models, whose sizes come from one pass of rules, beside onnx's inference: python benchmarks/sizes.py.

Each measurement runs in a process of its own, in turn, round after round. Printed are the processor time of the second
reading and of the first (which loads modules too), the most memory that reading takes on top of what Python and the
modules do, and the time as a part of ``onnx.load`` with ``infer_shapes``. Another commit is measured beside this one
with --base FOLDER, where it is checked out. The models are made on the first run and kept in benchmarks/cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent

#: Reads the file of its argument: seconds of the first and of the best later reading, and megabytes.
OURS = """
import json, sys, time
import flopwise
from flopwise.formats.onnx.read import read_onnx
flopwise.read({warm!r})
def memory():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before, took = memory(), []
for turn in range({turns}):
    began = time.process_time()
    read_onnx(sys.argv[1], **json.loads(sys.argv[2]))
    took.append(time.process_time() - began)
more = memory() - before
print(json.dumps([took[0], min(took), more / 1024]))
"""

#: The same with onnx's own inference.
PEER = """
import json, sys, time
import onnx
from onnx import shape_inference
def memory():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before, took = memory(), []
for turn in range({turns}):
    began = time.process_time()
    shape_inference.infer_shapes(onnx.load(sys.argv[1]))
    took.append(time.process_time() - began)
more = memory() - before
print(json.dumps([took[0], min(took), more / 1024]))
"""

#: A whole command from its start: seconds of the processor, and megabytes of the process.
COLD = """
import json, resource, subprocess, sys
subprocess.run([sys.executable, "-m", "flopwise", "profile", sys.argv[1]], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime] * 2 + [used.ru_maxrss / 1024]))
"""

#: The same for the least that a tool on onnx does.
COLD_PEER = """
import json, resource, subprocess, sys
script = "import sys, onnx; from onnx import shape_inference; shape_inference.infer_shapes(onnx.load(sys.argv[1]))"
subprocess.run([sys.executable, "-c", script, sys.argv[1]], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime] * 2 + [used.ru_maxrss / 1024]))
"""


def _model(nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], stored: list[TensorProto]) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    made = [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "g", values, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _stored(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name)


def _integers(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(numpy.array(values, numpy.int64), name)


def convolutions(count: int) -> onnx.ModelProto:
    """Convolutions, each with a weight and a bias of its own, and a Relu behind each."""
    nodes, stored, x = list[onnx.NodeProto](), list[TensorProto](), "x"
    for place in range(count // 2):
        stored += [_stored(f"w{place}", 4, 4, 1, 1), _stored(f"b{place}", 4)]
        nodes += [
            helper.make_node("Conv", [x, f"w{place}", f"b{place}"], [f"c{place}"], f"conv{place}"),
            helper.make_node("Relu", [f"c{place}"], [f"r{place}"], f"relu{place}"),
        ]
        x = f"r{place}"
    return _model(nodes, {"x": [1, 4, 8, 8]}, stored)


def mixed(count: int) -> onnx.ModelProto:
    """Pointwise operators, products, transpositions and slices in turn."""
    nodes, x = list[onnx.NodeProto](), "x"
    stored = [_stored("w", 8, 8), _integers("zero", 0), _integers("four", 4), _integers("two", 2), _stored("one", 1)]
    for place in range(count // 8):
        names = [f"{kind}{place}" for kind in ("m", "a", "t", "u", "p", "q", "s", "d")]
        m, a, t, u, p, q, s, d = names
        nodes += [
            helper.make_node("MatMul", [x, "w"], [m], m),
            helper.make_node("Add", [m, "one"], [a], a),
            helper.make_node("Transpose", [a], [t], t, perm=[0, 2, 1]),
            helper.make_node("Softmax", [t], [u], u, axis=-1),
            helper.make_node("Transpose", [u], [p], p, perm=[0, 2, 1]),
            helper.make_node("Slice", [p, "zero", "four", "two"], [q], q),
            helper.make_node("Concat", [q, q], [s], s, axis=2),
            helper.make_node("Mul", [s, x], [d], d),
        ]
        x = d
    return _model(nodes, {"x": [2, 6, 8]}, stored)


def distinct(count: int) -> onnx.ModelProto:
    """Operators none of which is like another: each has a shape of its own."""
    nodes, x = list[onnx.NodeProto](), "x"
    for place in range(count):
        nodes.append(helper.make_node("Pad", [x, f"pads{place % 2}"], [f"p{place}"], f"p{place}"))
        x = f"p{place}"
    return _model(nodes, {"x": [2, 3]}, [_integers("pads0", 0, 1, 0, 0), _integers("pads1", 0, 0, 1, 1)])


def transformer(count: int) -> onnx.ModelProto:
    """Attention whose heads are split by arithmetic on shapes, as exporters write it."""
    nodes, x = list[onnx.NodeProto](), "x"
    stored = [
        *(_integers(name, value) for name, value in (("zero", 0), ("one", 1), ("heads", 4), ("size", 4), ("rest", -1))),
        *(_stored(name, 16, 16) for name in ("wq", "wk", "wv", "wo")),
    ]
    while len(nodes) < count:

        def add(op: str, inputs: list[str], **attributes: object) -> str:
            name = f"n{len(nodes)}"
            nodes.append(helper.make_node(op, inputs, [name], f"{op}_{len(nodes)}", **attributes))
            return name

        size = add("Shape", [x])
        batch = add("Gather", [size, "zero"], axis=0)
        length = add("Gather", [size, "one"], axis=0)
        target = add("Concat", [batch, length, "heads", "size"], axis=0)
        parts = []
        for weight in ("wq", "wk", "wv"):
            split = add("Reshape", [add("MatMul", [x, weight]), target])
            parts.append(add("Transpose", [split], perm=[0, 2, 1, 3]))
        scores = add("MatMul", [parts[0], add("Transpose", [parts[1]], perm=[0, 1, 3, 2])])
        heads = add("Transpose", [add("MatMul", [add("Softmax", [scores]), parts[2]])], perm=[0, 2, 1, 3])
        joined = add("Reshape", [heads, add("Concat", [batch, length, "rest"], axis=0)])
        x = add("Add", [x, add("MatMul", [joined, "wo"])])
    return _model(nodes, {"x": [2, 7, 16]}, stored)


#: Name -> what makes it, and the sizes of its symbols.
MADE: dict[str, Callable[[], onnx.ModelProto]] = {
    "mixed, 100,000": lambda: mixed(100_000),
    "convolutions, 100,000": lambda: convolutions(100_000),
    "transformer, 100,000": lambda: transformer(100_000),
    "distinct, 20,000": lambda: distinct(20_000),
}

#: Exports, each with the sizes that it leaves open.
EXPORTED: dict[str, dict[str, int]] = {
    "resnet50": {},
    "vit": {"N": 1},
    "llama with past": {"B": 1, "S": 1, "P": 16, "T": 17},
}


def export(name: str, path: Path) -> None:
    """Write an export of PyTorch."""
    if name == "resnet50":
        subprocess.run([sys.executable, HERE / "onnx_models.py", path.parent, "resnet50-norms"], check=True)
        (path.parent / "resnet50-norms.onnx").rename(path)
        return
    import torch

    sys.path.insert(0, str(HERE.parent))
    from tests.torch_vision import torchvision

    if name == "vit":
        torch.backends.mha.set_fastpath_enabled(False)
        vit = torchvision.models.VisionTransformer(224, 16, 12, 12, 96, 192).eval()
        image = (torch.zeros(1, 3, 224, 224),)
        torch.onnx.export(vit, image, path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "N"}})
        return
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    layers = 4
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
    llama = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, vocab_size=500, **sizes)).eval()
    llama.set_attn_implementation("eager")

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = llama

        def forward(self, ids: torch.Tensor, mask: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
            cache = DynamicCache()
            for layer in range(layers):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            made = self.model(ids, attention_mask=mask, past_key_values=cache, use_cache=True)
            return (made.logits, *[t for layer in made.past_key_values.layers for t in (layer.keys, layer.values)])

    past = [f"past{place}" for place in range(2 * layers)]
    axes = {"ids": {0: "B", 1: "S"}, "mask": {0: "B", 1: "T"}, **{one: {0: "B", 2: "P"} for one in past}}
    given = (torch.zeros(2, 3).long(), torch.ones(2, 8).long(), *[torch.zeros(2, 2, 5, 16) for _ in past])
    torch.onnx.export(Step(), given, path, dynamo=False, input_names=["ids", "mask", *past], dynamic_axes=axes)


def files(cache: Path) -> Iterator[tuple[str, Path, dict[str, int]]]:
    """Name, file and sizes of each model, made where it is not there."""
    cache.mkdir(exist_ok=True)
    for name in (*EXPORTED, *MADE):
        path = cache / f"{name.replace(',', '').replace(' ', '_')}.onnx"
        if not path.exists():
            print(f"making {path.name}", file=sys.stderr)
            if name in MADE:
                onnx.save(MADE[name](), path)
            else:
                export(name, path)
        yield name, path, EXPORTED.get(name, {})


def measured(script: str, path: Path, sizes: dict[str, int], source: Path | None) -> list[float]:
    """Seconds of the first call, of the best later one, and megabytes."""
    environment = {**os.environ, "PYTHONPATH": str(source)} if source is not None else dict(os.environ)
    command = [sys.executable, "-c", script, str(path), json.dumps({"dims": sizes})]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    said: list[float] = json.loads(ended.stdout.splitlines()[-1])
    return said


def main() -> None:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (default: 3)")
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="folder of the models")
    parser.add_argument("--base", type=Path, help="folder of another commit to measure beside this one")
    parser.add_argument("--only", default="", help="models whose names contain this")
    given = parser.parse_args()
    example = HERE.parent / "examples" / "tiny_resnet.onnx"
    cold = "cold profile of tiny_resnet"
    todo = [one for one in (*files(given.cache), (cold, example, {})) if given.only in one[0]]
    sources = {"flopwise": HERE.parent / "src", **({"base": given.base / "src"} if given.base else {}), "onnx": None}
    took: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(given.rounds):
        for name, path, sizes in todo:
            turns = 2 if "," in name else 9
            for who, source in sources.items():
                script = (COLD if source else COLD_PEER) if name == cold else OURS if source else PEER
                script = script.replace("{turns}", str(turns)).replace("{warm!r}", repr(str(example)))
                took.setdefault((name, who), []).append(measured(script, path, sizes, source))
    print("| model | who | first, ms | later, ms | MB | later, of onnx's |\n|---|---|--:|--:|--:|--:|")
    for name, _, _ in todo:
        peer = median(run[1] for run in took[name, "onnx"])
        for who in sources:
            first, later, memory = (median(column) for column in zip(*took[name, who], strict=True))
            print(f"| {name} | {who} | {first * 1e3:,.1f} | {later * 1e3:,.1f} | {memory:,.0f} | {later / peer:.2f} |")


if __name__ == "__main__":
    main()
