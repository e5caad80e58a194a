"""Benanza (dlperf): multiply-adds, additions, divisions, exponentiations and comparisons of each layer.

Source: https://github.com/rai-project/dlperf, commit 88ce3475 (``pkg/onnx/convert.go``, ``pkg/layer/*.go``,
``cmd/flopsinfo.go``) and its loader https://github.com/rai-project/onnx (``fix.go``). What it misreads is reproduced:
the size of an LRN is always 1, global pooling costs nothing, dilation inflates the kernel, and a layer is listed once
for each of its outputs. Its own shape inference is not reproduced; figures follow the true shapes. A layer that it
cannot convert makes it stop, and is unknown here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from flopwise.conventions.convention import Convention, Display, Override, nothing, renamed, scaled
from flopwise.errors import ModelError
from flopwise.graph import Graph, Node
from flopwise.operators.counts import CLASSES, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.rows import Row

#: Operations per element of the first input. The loader has a rule for Max too, under a misspelt name.
PER_INPUT: dict[str, Counts] = {
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu"), Counts(mac=1, cmp=1)),
    "BatchNormalization": Counts(add=1, div=1),
    "LRN": Counts(mac=1, add=1, div=2, exp=1),  # mac is meant to be times the size
    "Softmax": Counts(add=1, div=1, exp=1),
    **dict.fromkeys(("Mul", "Div", "Exp"), Counts(mac=1)),
    **dict.fromkeys(("Dropout", "Squeeze", "Unsqueeze", "TopK", "NonMaxSuppression"), Counts(cmp=1)),
}

#: Operations per element of the first input, for each input after the first.
PER_FURTHER_INPUT: dict[str, Counts] = {
    **dict.fromkeys(("Add", "Sub", "Sum"), Counts(add=1)),
    "Min": Counts(cmp=1),
}

#: Operations per element of the first input, which must have four axes; the global poolings are meant to cost one.
PER_INPUT_4D: dict[str, Counts] = {
    **dict.fromkeys(("Scale", "ImageScaler", "ReduceMin"), Counts(mac=1)),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), Counts()),
}

#: Operators that the tool lists with a cost of nothing.
FREE = "Identity Cast Clip Concat Flatten Gather Slice Reshape Shape Transpose"

#: What the tool prints as a layer's type.
LAYER_TYPES = {
    "BatchNormalization": "BatchNorm",
    "MatMul": "Gemm",
    "ImageScaler": "Scale",
    **dict.fromkeys(("LeakyRelu", "PRelu"), "Relu"),
    **dict.fromkeys(("MaxPool", "AveragePool"), "Pooling"),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), "GlobalPooling"),
    **dict.fromkeys(("Add", "Sub", "Sum", "Mul", "Div", "Min"), "ElementWise"),
}

#: The tool's classes; a multiply-add is two operations. Nothing that it converts is counted as general.
CLASS_TABLE = {
    "multiply_adds": Counts(mac=1),
    "additions": Counts(add=1),
    "divisions": Counts(div=1),
    "exponentiations": Counts(exp=1),
    "comparisons": Counts(cmp=1),
    "general": Counts(**{c: 1 for c in CLASSES if c not in ("mac", "add", "div", "exp", "cmp")}),
}
TOTAL = 2 * CLASS_TABLE["multiply_adds"] + sum(list(CLASS_TABLE.values())[1:], Counts())

_NUMBERED = re.compile(r"(n\d+)?")
_UNITS = ("Flop", "kFlop", "MFlop", "GFlop", "TFlop", "PFlop", "EFlop")


def _elements(node: Node) -> int:
    """Elements of the first input, but none when the output is a scalar: its shape counts as missing."""
    return node.input(0).numel if node.output().dims else 0


def _elements_4d(node: Node) -> int | None:
    return _elements(node) if len(node.input(0).dims) == 4 else None


def _further_elements(node: Node) -> int:
    return _elements(node) * (len(node.known_inputs) - 1)


def conv(node: Node, counts: Counts | None) -> Counts | None:
    """numel(Y) × C/group × KH × KW with K = dilation × (k − 1) + 1; two dimensions only, the bias left out."""
    kernel = node.input(1).dims
    if len(kernel) != 4:
        return None
    dilations = node.attrs.get("dilations") or (1, 1)
    extents = (d * (k - 1) + 1 for d, k in zip(dilations, kernel[2:], strict=True))
    return Counts(mac=node.output().numel * product(kernel[1:2]) * product(extents))


def gemm(node: Node, counts: Counts | None) -> Counts | None:
    """M × N × K multiply-adds and M × N additions, whether there is a bias or not.

    A MatMul is taken as a Gemm: M, K and N are read from the first two axes of its operands, whatever follows them.
    """
    left, right = node.input(0), node.input(1)
    if len(left.dims) < 2 or len(right.dims) < 2:
        return None
    m, k = (extent(node, left, axis) for axis in (0, 1))
    n = extent(node, right, 1)
    if node.op.endswith("Gemm"):
        m, k = (k, m) if node.attrs.get("transA", 0) else (m, k)
        n = extent(node, right, 0) if node.attrs.get("transB", 0) else n
    return Counts(mac=m * n * k, add=m * n)


def _windows(node: Node) -> int | None:
    if len(node.output().dims) != 4 or node.attrs.get("auto_pad") == "VALID":
        return None
    return node.output().numel * product(required(node, "kernel_shape"))


def _pool(once: Counts) -> Override:
    return scaled(once, _windows, "numel(Y) × kh × kw", "; two dimensions only, and auto_pad = VALID is refused")


def layer_names(nodes: Sequence[Node]) -> list[str]:
    """A node's own name, or its operator with its running number, and its group if it states one (``conv2_4``).

    ``n0``, ``n1`` ... are no names: the onnx package's copies of the published models number their nameless nodes so.
    """
    numbers: Counter[str] = Counter()
    names: list[str] = []
    for node in nodes:
        op = node.op.rpartition("::")[2]
        numbers[op] += 1
        group = node.attrs.get("group", -1)
        unnamed = f"{op.lower()}_{numbers[op]}" if group == -1 else f"{op.lower()}{numbers[op]}_{group}"
        names.append(unnamed if _NUMBERED.fullmatch(node.name) else node.name)
    return names


#: Outputs of a layer up to which it is listed.
_MOST_OUTPUTS = 2000


def listing(graph: Graph, rows: Sequence[Row], own: Collection[str]) -> list[Row]:
    """One entry per output tensor: a Dropout that also returns its mask is listed, and counted, twice.

    Raises:
        ModelError: a layer has so many outputs that the entries, each of which names all of them, would take gigabytes.
    """
    entries: list[Row] = []
    for row in renamed(graph, rows, layer_names(graph.nodes)):
        if (count := len(row.node.known_outputs)) > _MOST_OUTPUTS:
            raise ModelError(f"benanza lists a layer once for each of its outputs, and {row.name!r} has {count:,}")
        again = Row(row.name, row.type, row.node, Counts(), row.view, row.count)
        again = replace(again, missing=row.missing, note=row.note, again=True)
        entries += [row, *[again] * (len(row.node.known_outputs) - 1)]
    return entries


def human(number: int) -> str:
    """The number in the tool's short form.

    >>> human(5), human(4096), human(839808), human(1679616)
    ('5 Flops', '4.1 kFlop', '840 kFlop', '1.7 MFlop')
    """
    if number < 10:
        return f"{number} Flops"
    power = min(math.floor(math.log(number) / math.log(1000)), len(_UNITS) - 1)
    value = math.floor(number / 1000**power * 10 + 0.5) / 10
    return f"{value:.{1 if value < 10 else 0}f} {_UNITS[power]}"


CONVENTION = Convention(
    name="benanza",
    unit="FLOP",
    summary="Multiply-adds as 2, additions, divisions, exponentiations and comparisons as 1, as Benanza assigns them.",
    source="Benanza, rai-project/dlperf@88ce3475, pkg/layer",
    weights=TOTAL,
    overrides={
        **{op: scaled(once, _elements, "numel(X)") for op, once in PER_INPUT.items()},
        **{op: scaled(once, _elements_4d, "numel(X)", "; 4-D only") for op, once in PER_INPUT_4D.items()},
        **{op: scaled(once, _further_elements, "numel(X) × (inputs − 1)") for op, once in PER_FURTHER_INPUT.items()},
        **dict.fromkeys(FREE.split(), nothing),
        "Conv": conv,
        **dict.fromkeys(("Gemm", "MatMul"), gemm),
        "MaxPool": _pool(Counts(cmp=1)),
        "AveragePool": _pool(Counts(add=1)),
    },
    others="unknown",
    any_domain=True,
    unlisted=frozenset({"Constant", "ConstantOfShape"}),
    fold=False,
    listing=listing,
    layer_types=LAYER_TYPES,
    display=Display(classes=CLASS_TABLE, human=human),
    notes=(
        "Benanza stops at an operator that it does not know; here the rest of the model is counted",
        "Benanza's own shape inference is not reproduced: where it differs (asymmetric padding, Flatten, Transpose), "
        "figures follow the true shapes",
        "a layer counts once for each of its outputs (Dropout with a mask twice); views cost a comparison per element",
    ),
)
