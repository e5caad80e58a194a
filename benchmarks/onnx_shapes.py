"""The shapes of all tensors inside whole models, beside those that onnxruntime makes: python benchmarks/onnx_shapes.py.

    python benchmarks/onnx_shapes.py [MODEL.onnx ...] [--random N] [--inference]

Each intermediate tensor of a model becomes an output, onnxruntime runs it on random inputs, and every shape that
flopwise gives is compared with the one that came out: *right*, *wrong*, *bound* (the data decide, and what came out is
no larger; counted apart), or *unknown*. Without arguments the models are those of ``examples`` and those that the tests
make and export: detectors' selections, shape arithmetic, and what PyTorch's exporters write, and the light models of
the onnx package. With --random they are so many random graphs of shape arithmetic among 1,000 further operators, whose
small elements are compared as well. With --inference the shapes of the light models and of onnx's operator tests stand
beside those that onnx infers. Ends with 1 when a shape is wrong, or a bound too small.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import onnx

sys.path.insert(0, str(Path(__file__).parents[1]))

import flopwise
from flopwise.graph import Graph

ROOT = Path(__file__).parents[1]

#: What flopwise says of a tensor beside what onnxruntime makes of it.
VERDICTS = ("right", "wrong", "bound", "unknown")

#: Element types of onnxruntime -> numpy's.
TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(bool)": "bool",
}


def made_by_tests() -> Iterator[tuple[str, onnx.ModelProto, dict[str, tuple[int, ...]]]]:
    """Name, model and the shapes of its open inputs."""
    from tests.formats.models import ints, model, node, weight
    from tests.sizes.test_run import STORED, rows_expanded

    yield "a row for each element that is not zero", model(rows_expanded(), {"x": (16,)}, STORED), {}
    detector = [
        node("NonMaxSuppression", "boxes scores most", "kept"),
        node("Gather", "kept two", "places", axis=1),
        node("Squeeze", "places one", "flat"),
        node("Squeeze", "boxes zero", "all"),
        node("Gather", "all flat", "chosen", axis=0),
        node("Shape", "chosen", "size"),
        node("Gather", "size zero_", "number", axis=0),
        node("TopK", "best number", "top places_of_top", axis=0),
        node("MatMul", "chosen w", "y"),
    ]
    stored = [ints("most", 20), ints("two", 2), ints("one", 1), ints("zero", 0), ints("zero_", 0), weight("w", 4, 8)]
    inputs = {"boxes": (1, 60, 4), "scores": (1, 3, 60), "best": (100,)}
    yield "a detector's selection", model(detector, inputs, stored, outputs=["y", "top"]), {}
    branch = [
        node("Shape", "x", "s"),
        node("ReduceProd", "s", "n", keepdims=0),
        node("Range", "start n step", "r"),
        node("Reshape", "r s", "ids"),
        node("Cast", "ids", "f", to=1),
        node("Add", "f x", "y"),
    ]
    stored = [onnx.numpy_helper.from_array(numpy.array(v, "int64"), n) for n, v in (("start", 0), ("step", 1))]
    yield "shape arithmetic", model(branch, {"x": ("a", "b")}, stored), {"x": (3, 5)}


def examples() -> Iterator[tuple[str, onnx.ModelProto, dict[str, tuple[int, ...]]]]:
    """The models of the folder ``examples``."""
    for path in sorted((ROOT / "examples").glob("*.onnx")):
        yield path.name, onnx.load(path), {}


def compare(net: onnx.ModelProto, open_shapes: Mapping[str, tuple[int, ...]]) -> tuple[Counter[str], list[str]]:
    """How many shapes are right, wrong, bounds and unknown; and what is wrong, one line each."""
    import onnxruntime

    graph = _read(net, open_shapes)
    shown = onnx.ModelProto()
    shown.CopyFrom(net)
    known = {o.name for o in shown.graph.output}
    names = [o for n in shown.graph.node for o in n.output if o and o not in known]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    sizes = {t.name: t.shape for t in graph.inputs}
    random = numpy.random.default_rng(0)
    feeds = {}
    for value in session.get_inputs():
        kind, shape = numpy.dtype(TYPES[value.type]), tuple(map(int, sizes[value.name] or ()))
        feeds[value.name] = (
            random.random(shape).astype(kind) if kind.kind == "f" else random.integers(0, 2, shape).astype(kind)
        )
    outputs = [o.name for o in session.get_outputs()]
    tensors = {t.name: t for n in graph.nodes if not n.within for t in n.known_outputs}
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    for name, value in zip(outputs, session.run(outputs, feeds), strict=True):
        tensor = tensors.get(name)
        if tensor is None or not isinstance(value, numpy.ndarray):
            continue
        if tensor.shape is None:
            verdicts["unknown"] += 1
        elif tuple(tensor.shape) == value.shape and not tensor.bound:
            verdicts["right"] += 1
        elif tensor.bound and _within(value.shape, tensor.shape):
            verdicts["bound"] += 1
        else:
            verdicts["wrong"] += 1
            wrong.append(f"{name}: {tensor.shape}{' at most' if tensor.bound else ''}, but {value.shape} came out")
    return verdicts, wrong


def _read(net: onnx.ModelProto, open_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    try:
        return flopwise.read(net, dict(open_shapes) or None)
    except flopwise.InputError:  # sizes that nothing says
        return flopwise.read(net, dict(open_shapes) or None, assume={"*": 8})


def _within(shape: tuple[int, ...], most: Any) -> bool:
    return len(shape) == len(most) and all(a <= b for a, b in zip(shape, most, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many random graphs")
    parser.add_argument("--inference", action="store_true", help="beside what onnx infers")
    arguments = parser.parse_args()
    if arguments.random or arguments.inference:
        return _random(arguments.random) if arguments.random else _inferred()
    chosen: Iterator[tuple[str, onnx.ModelProto, dict[str, tuple[int, ...]]]]
    chosen = ((p.name, onnx.load(p), {}) for p in arguments.models) if arguments.models else _all()
    total: Counter[str] = Counter()
    print(f"| model | {' | '.join(VERDICTS)} |\n|---|{'--:|' * len(VERDICTS)}")
    for name, net, shapes in chosen:
        try:
            verdicts, wrong = compare(net, shapes)
        except Exception as error:
            print(f"| {name} | not run: {' '.join(str(error).split())[:90]} |")
            continue
        total += verdicts
        print(f"| {name} | {' | '.join(str(verdicts[v]) for v in VERDICTS)} |")
        for line in wrong:
            print(f"  wrong: {line}")
    print(f"| all | {' | '.join(str(total[v]) for v in VERDICTS)} |")
    return 1 if total["wrong"] else 0


def _random(number: int) -> int:
    """Random graphs of shape arithmetic; 1 if anything is wrong."""
    from tests.sizes.arithmetic import Arithmetic, compared

    told: Counter[str] = Counter()
    for seed in range(number):
        right, elements, wrong = compared(Arithmetic(seed).model(40 + seed % 200, padding=1000))
        told += Counter(right=right, elements=elements, wrong=len(wrong))
        for line in wrong:
            print(f"  wrong: seed {seed}: {line}")
    print(
        f"{number} graphs: {told['right']:,} shapes and {told['elements']:,} small tensors right, {told['wrong']} wrong"
    )
    return 1 if told["wrong"] else 0


def _inferred() -> int:
    """The models of the onnx package beside onnx's own inference; 1 if a shape is another one."""
    from tests.onnx_suite import cases

    from flopwise.formats.onnx.read import resolve_onnx

    models = [(case.name, case.model) for case in cases.made()]
    models += [(case.name, case.model) for kind in cases.STORED for case in cases.stored(kind)]
    models += [(path.name, onnx.load(path)) for path in _light()]
    told: Counter[str] = Counter()
    for name, model in models:
        if model.functions:
            continue
        try:
            shapes = resolve_onnx(model.SerializeToString()).shapes
        except flopwise.FlopwiseError:
            told["refused"] += 1
            continue
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        made = {o for node in model.graph.node for o in node.output}
        for value in (*inferred.graph.value_info, *inferred.graph.output):
            tensor = value.type.tensor_type
            if value.name not in made or not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
                continue
            theirs = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
            fact = shapes.of(value.name)
            ours = fact.extents
            if None in theirs:
                told["only ours" if ours is not None else "open in both"] += 1
            elif ours is None:
                told["only theirs"] += 1
            elif list(ours) == theirs:
                told["equal"] += 1
            elif fact.bound and _within(tuple(theirs), ours):
                told["bound"] += 1
            else:
                told["different"] += 1
                print(f"  different: {name}: {value.name}: {ours}, onnx infers {theirs}")
    print(", ".join(f"{count:,} {verdict}" for verdict, count in told.items()))
    return 1 if told["different"] else 0


def _light() -> list[Path]:
    from tests.onnx_suite.cases import DATA

    return sorted((DATA / "light").glob("*.onnx"))


def light() -> Iterator[tuple[str, onnx.ModelProto, dict[str, tuple[int, ...]]]]:
    """Known networks in the onnx package, whose weights are all one number."""
    for path in _light():
        yield path.name, onnx.load(path), {}


def exports() -> Iterator[tuple[str, onnx.ModelProto, dict[str, tuple[int, ...]]]]:
    """What PyTorch's exporters make of the models that the tests export; nothing without PyTorch."""
    import tempfile

    try:
        from tests.exports.cases import CASES
        from tests.exports.exporting import export
    except ImportError:
        return
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                net = onnx.load(export(case, Path(folder)).path)
            except Exception as error:
                print(f"| {case} | not exported: {' '.join(str(error).split())[:90]} |")
                continue
        yield str(case), net, {}


def _all() -> Iterator[tuple[str, onnx.ModelProto, dict[str, tuple[int, ...]]]]:
    yield from examples()
    yield from light()
    yield from made_by_tests()
    yield from exports()


if __name__ == "__main__":
    sys.exit(main())
