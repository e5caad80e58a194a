"""Nodes that onnx's C++ shape inference must not see: it does not check them, and crashes, hangs or takes all memory.

Found by giving every operator random inputs and attributes (onnx 1.23.2). Invalid nodes stay without shape, and a
warning says so. Nodes that are not proven safe in a model are inferred by themselves later, when the types of their
inputs are certain.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx
from onnx import numpy_helper

from flopwise.readers.onnx.listing import Listed, complete, initial
from flopwise.readers.onnx.native.proven import PROVEN, has_negative_extent, is_proven
from flopwise.readers.onnx.types import CONTROL_FLOW, bodies, describe

#: A domain that onnx does not know; it leaves such operators alone.
_UNKNOWN = "flopwise.suspect"

#: No tensor has a higher rank, so an axis beyond it is a mistake, and so is a shape with more dimensions.
_RANK = 1 << 10


#: Operators of whose inputs some say sizes, of which a negative one makes a negative extent.
_SIZED = frozenset({"AffineGrid", "CenterCropPad", "Col2Im", "Expand", "Pad", "Resize", "Split", "TopK", "Upsample"})

#: Rare operators whose results have a negative extent at many settings.
_SHRINKING = frozenset({"ConvTranspose", "DFT", "DeformConv", "MaxRoiPool", "MaxUnpool", "STFT"})

#: Attributes that say sizes, by the operators that have them.
_SIZES = {
    **dict.fromkeys(("Pad", "Split"), ("pads", "paddings", "split")),
    "Multinomial": ("sample_size",),
    "RoiAlign": ("output_height", "output_width"),
}

#: Element types of sizes and scales.
_NUMBERS = frozenset({onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE})

_WINDOWS = frozenset({"AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv"})

#: Letters, and in each operand three dots at most once.
_TERM = rb"[a-zA-Z]*(\.{3})?[a-zA-Z]*"
_EQUATION = re.compile(rb"%(term)s(,%(term)s)*(->%(term)s)?" % {b"term": _TERM})


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == name), default)


def _axis(node: onnx.NodeProto, long: set[str]) -> str:
    axis = _attribute(node, "axis", -1)
    return "" if abs(axis) < _RANK else f"axis {axis}"


def _batch_dims(node: onnx.NodeProto, long: set[str]) -> str:
    dims = _attribute(node, "batch_dims", 0)
    return "" if 0 <= dims < _RANK else f"batch_dims {dims}"


def _num_outputs(node: onnx.NodeProto, long: set[str]) -> str:
    number = _attribute(node, "num_outputs", len(node.output))
    return "" if number == len(node.output) else f"num_outputs {number}, but {len(node.output)} outputs"


def _input(node: onnx.NodeProto, long: set[str]) -> str:
    return "" if node.input and node.input[0] else "no input"


def _equation(node: onnx.NodeProto, long: set[str]) -> str:
    """What is wrong with the equation of an Einsum: onnx takes all but letters for dots, and looks on for three."""
    equation = next((a.s for a in node.attribute if a.name == "equation"), b"").replace(b" ", b"")
    return "" if _EQUATION.fullmatch(equation) else f"equation {equation.decode('utf-8', 'replace')!r}"


def _shape(node: onnx.NodeProto, long: set[str]) -> str:
    return f"a shape with more than {_RANK} dimensions" if long.intersection(node.input[1:2]) else ""


#: What is wrong with a node, by operator; "" if nothing is. ``long`` are the tensors that are too long to be a shape.
_CHECKS: dict[str, Callable[[onnx.NodeProto, set[str]], str]] = {
    "Einsum": _equation,
    "Expand": _shape,
    "EyeLike": _input,
    "GatherND": _batch_dims,
    "LayerNormalization": _axis,
    "RMSNormalization": _axis,
    "RegexFullMatch": _input,
    "Split": _num_outputs,
}


class Suspects:
    """The nodes of a model that onnx must not see with the whole model."""

    def __init__(self, model: onnx.ModelProto, listed: Sequence[Listed] | None = None) -> None:
        """
        Args:
            model: what onnx is to look at.
            listed: the nodes of its graph, where they have been listed before.
        """
        #: What is wrong with each invalid node.
        self.warnings: list[str] = []
        self._holders: tuple[Any, ...] = (model, *model.functions)
        self._invalid: list[tuple[onnx.NodeProto, str]] = []
        self._unproven: list[tuple[onnx.NodeProto, str]] = []
        nodes = _suspicious(model, listed)
        long = _long(model.graph, listed or ()) if any(n.op_type == "Expand" for n in nodes) else set()
        for node in nodes:
            check = None if node.domain else _CHECKS.get(node.op_type)
            wrong = check(node, long) if check else ""
            if wrong:
                self.warnings.append(f"{describe(node)} is invalid ({wrong}), so its output has no shape")
                self._invalid.append((node, node.domain))
            elif not is_proven(node):
                self._unproven.append((node, node.domain))
        self._hidden = False
        self._hide()

    def _hide(self) -> None:
        """Take the suspects out of onnx's sight."""
        for node, _ in (*self._invalid, *self._unproven):
            node.domain = _UNKNOWN
        if (self._invalid or self._unproven) and not self._hidden:
            self._hidden = True
            for holder in self._holders:
                holder.opset_import.add(domain=_UNKNOWN, version=1)

    def beware(self, values: Sequence[onnx.TensorProto]) -> None:
        """Take the Slices out of sight where an operator takes negative sizes from these values."""
        names = {tensor.name for tensor in values if _has_negative(tensor)}
        nodes = list(_with_bodies(self._holders[0].graph)) if names else []
        if any(node.op_type in _SIZED and names.intersection(node.input[1:]) for node in nodes):
            slices = (node for node in nodes if node.op_type == "Slice" and not node.domain)
            self._unproven += [(node, node.domain) for node in slices]
            self._hide()

    @property
    def any(self) -> bool:
        """Whether there are suspects."""
        return self._hidden

    def reveal_unproven(self) -> None:
        """Bring the nodes back that are not proven safe in a model; they may be looked at one by one."""
        for node, domain in self._unproven:
            node.domain = domain
        self._unproven = []

    def reveal(self) -> None:
        """Bring all nodes back."""
        self.reveal_unproven()
        for node, domain in self._invalid:
            node.domain = domain
        if self._hidden:
            for holder in self._holders:
                holder.opset_import.pop()


@contextlib.contextmanager
def hidden(model: onnx.ModelProto, listed: Sequence[Listed] | None = None) -> Iterator[Suspects]:
    """Hide suspects from onnx while the context lasts: their operators go by a domain that it leaves alone.

    Args:
        model: what onnx is to look at.
        listed: the nodes of its graph, where they have been listed before.
    """
    if listed and listed[0].messages.missing and not _is_clear(model.graph, listed):
        complete(listed)
    suspects = Suspects(model, listed)
    try:
        yield suspects
    finally:
        suspects.reveal()


def _is_clear(graph: onnx.GraphProto, listed: Sequence[Listed]) -> bool:
    """Whether nothing is to be hidden in a graph that has no messages of its nodes."""
    operators = {node.op for node in listed}
    if "Slice" in operators and (operators & _SIZED or operators & (_SHRINKING | _SIZES.keys()) or _has_unfit(listed)):
        return False
    nodes = [node.proto for node in listed if node.op not in _UNSUSPICIOUS or node.domain]
    long = _long(graph, listed) if "Expand" in operators else set()
    return all(is_proven(n) and not (n.op_type in _CHECKS and _CHECKS[n.op_type](n, long)) for n in nodes)


def _has_unfit(listed: Sequence[Listed]) -> bool:
    """Whether windows of an operator may be so much larger than some image that onnx counts fewer than none."""
    first = {(node.op, *node.attributes): node for node in listed if node.op in _WINDOWS}
    return any(_may_not_fit(node.proto, ()) for node in first.values())


def _suspicious(model: onnx.ModelProto, listed: Sequence[Listed] | None) -> list[onnx.NodeProto]:
    """The nodes that there is a check for or that are not proven, those in functions and in bodies included."""
    nodes: list[onnx.NodeProto] = []
    plain = listed is not None and not model.functions
    sliced = _shrinks(model.graph, listed)
    if plain and not sliced and all(n.op in _UNSUSPICIOUS and not n.domain for n in listed or ()):
        return nodes
    waiting = [model.graph.node, *(f.node for f in model.functions)]
    while waiting:
        for node in waiting.pop():
            op = node.op_type
            if op in _UNSUSPICIOUS and not node.domain and not (sliced and op == "Slice"):
                continue
            if op in _CHECKS or not is_proven(node):
                nodes.append(node)
            if node.domain or op in CONTROL_FLOW:
                waiting.extend(b.node for b in bodies(node))
    return nodes


def _shrinks(graph: onnx.GraphProto, listed: Sequence[Listed] | None) -> bool:
    """Whether a Slice may meet a negative extent, which ends onnx's process: windows that do not fit may make one."""
    operators = {node.op_type for node in graph.node}
    if "Slice" not in operators and not operators & CONTROL_FLOW:
        return False
    nodes = list(_with_bodies(graph))
    if not any(node.op_type == "Slice" for node in nodes):
        return False
    if any(node.op_type in _SHRINKING or (node.op_type in _SIZES and _says_less(node)) for node in nodes):
        return True
    stored = {tensor.name: tensor for tensor in graph.initializer}
    for node in nodes:
        if node.op_type in CONTROL_FLOW:
            stored.update((tensor.name, tensor) for body in bodies(node) for tensor in body.initializer)
    negative = {node.output[0] for node in nodes if node.op_type == "Constant" and node.output and _is_negative(node)}
    if any(node.op_type == "Constant" and _has_no_sense(node) for node in nodes):
        return True
    fit = listed is not None and not operators & CONTROL_FLOW and not _has_unfit(listed)
    checked: dict[bytes, bool] = {}  # models repeat themselves
    for node in nodes:
        if node.op_type in _SIZED:
            held = [stored[name] for name in node.input[1:] if name in stored]
            if not negative.isdisjoint(node.input[1:]) or any(map(_has_negative, held)):
                return True
        elif not fit and node.op_type in _WINDOWS:
            place = 3 if node.op_type == "QLinearConv" else 1
            weight = stored.get(node.input[place]) if len(node.input) > place else None
            extents = list(weight.dims[2:]) if weight is not None else []
            key = b"".join(a.SerializeToString() for a in node.attribute) + repr(extents).encode()
            if key not in checked:
                checked[key] = _may_not_fit(node, extents)
            if checked[key]:
                return True
    return False


def _says_less(node: onnx.NodeProto) -> bool:
    """Whether attributes of a node say negative sizes, or so many parts that onnx may count a negative last one."""
    names = _SIZES[node.op_type]
    if any(a.name in names and min((a.i, *a.ints)) < 0 for a in node.attribute):
        return True
    return node.op_type == "Split" and _attribute(node, "num_outputs", 0) > 2


def _is_negative(node: onnx.NodeProto) -> bool:
    """Whether the value of a Constant has a negative element."""
    return any(
        _has_negative(a.t) if a.HasField("t") else min((a.i, a.f, *a.ints, *a.floats)) < 0 for a in node.attribute
    )


def _has_no_sense(node: onnx.NodeProto) -> bool:
    """Whether the value of a Constant has a negative extent."""
    return any(min((*a.t.dims, *a.sparse_tensor.dims), default=0) < 0 for a in node.attribute)


def may_shrink(graph: onnx.GraphProto) -> bool:
    """Whether a Slice may meet a negative extent in a graph without bodies, whose inputs may have one."""
    return any(node.op_type == "Slice" for node in graph.node) and (
        any(has_negative_extent(value.type) for value in graph.input) or _shrinks(graph, None)
    )


def _with_bodies(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        if node.op_type in CONTROL_FLOW:
            for body in bodies(node):
                yield from _with_bodies(body)


def _has_negative(tensor: onnx.TensorProto) -> bool:
    """Whether a stored tensor of sizes has a negative one."""
    if sum(tensor.dims) > 2 * _RANK or tensor.data_type not in _NUMBERS:
        return False
    try:
        return bool((numpy_helper.to_array(tensor) < 0).any())
    except (TypeError, ValueError):  # it is without its elements
        return True


def _may_not_fit(node: onnx.NodeProto, extents: Sequence[int]) -> bool:
    """Whether windows may be so much larger than some image that onnx counts fewer than none."""
    held = {a.name: a for a in node.attribute}
    mode = held["auto_pad"].s if "auto_pad" in held else b""
    if mode.startswith(b"SAME"):
        return False
    kernel = list(held["kernel_shape"].ints) if "kernel_shape" in held else list(extents)
    rank = len(kernel)
    strides = list(held["strides"].ints) if "strides" in held else [1] * rank
    dilations = list(held["dilations"].ints) if "dilations" in held else [1] * rank
    pads = list(held["pads"].ints) if "pads" in held and mode != b"VALID" else [0] * 2 * rank
    if not rank or not len(strides) == len(dilations) == len(pads) / 2 == rank:
        return True
    sides = zip(kernel, strides, dilations, pads[:rank], pads[rank:], strict=True)
    return any(d * (k - 1) + 1 - before - after >= 2 * stride for k, stride, d, before, after in sides)


def _long(graph: onnx.GraphProto, listed: Sequence[Listed]) -> set[str]:
    """Inputs and initialisers that are too long to be a shape."""
    inputs = {v.name for v in graph.input if sum(d.dim_value for d in v.type.tensor_type.shape.dim) > _RANK}
    return inputs | {t.name for t in initial(graph, listed) if sum(t.dims) > _RANK}


#: Operators of the standard domain that need no second look; a Slice does where an extent may be negative.
_UNSUSPICIOUS: frozenset[str] = (PROVEN | {"Slice"}) - _CHECKS.keys() - CONTROL_FLOW
