"""Patterns that several rules look for: convolutions, attention, paddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flopwise.analyses.advice.rule import Change
from flopwise.analyses.advice.subject import Subject, argument, chain
from flopwise.errors import ModelError
from flopwise.formats.inputs import InputSpec
from flopwise.graph import Node, Tensor
from flopwise.graph.stored import Array
from flopwise.operators.tables import row
from flopwise.storage.attention import TRIANGLE, Unfused, is_flags, makes_flags


class Convolution(NamedTuple):
    """A convolution over two axes without dilation, whose weights are stored."""

    position: int
    node: Node
    #: Channels of the input and of the result.
    taken: int
    made: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    groups: int

    @property
    def source(self) -> Tensor:
        """The tensor that it is applied to."""
        return self.node.input(0)

    @property
    def result(self) -> Tensor:
        """Its result."""
        return self.node.output()

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of its result."""
        height, width = self.result.dims[2:]
        return int(height), int(width)


def convolutions(subject: Subject) -> Iterator[Convolution]:
    """The convolutions over two axes."""
    for position, node in subject.live("Conv"):
        kernel = node.input(1)
        if len(kernel.dims) != 4 or not subject.stored(kernel) or set(node.attrs.get("dilations") or (1,)) != {1}:
            continue
        if len(node.output().dims) != 4:
            continue
        strides = tuple(node.attrs.get("strides") or (1, 1))
        groups = int(node.attrs.get("group") or 1)
        made, each, height, width = (int(extent) for extent in kernel.dims)
        yield Convolution(position, node, each * groups, made, (height, width), strides, groups)


def convolution(
    source: Tensor,
    name: str,
    channels: int,
    kernel: Sequence[int],
    grid: Sequence[int],
    groups: int = 1,
    result: Tensor | None = None,
) -> Node:
    """A convolution that makes a grid of channels.

    Args:
        source: what it is applied to.
        name: of the operator; its result and its weights are named after it.
        channels: of the result.
        kernel: height and width.
        grid: height and width of the result; the least strides and padding follow.
        groups: of channels.
        result: the tensor that it makes; None for a new one.
    """
    batch, taken, height, width = (int(extent) for extent in source.dims)
    both = zip(grid, kernel, (height, width), strict=True)
    strides = [max(1, -(-(e - k) // (g - 1))) if g > 1 else max(1, e) for g, k, e in both]
    pads = [max(0, (g - 1) * s + k - e) for g, s, k, e in zip(grid, strides, kernel, (height, width), strict=True)]
    weight = Tensor(f"{name}.weight", (channels, taken // groups, *kernel), source.dtype, "weight")
    made = result or Tensor(f"{name}.result", (batch, channels, *grid), source.dtype)
    attributes = {
        "kernel_shape": list(kernel),
        "strides": strides,
        "pads": [p // 2 for p in pads] + [p - p // 2 for p in pads],
        "group": groups,
    }
    return Node("Conv", name, (source, weight), (made,), attributes)


def as_modules(change: Change) -> str:
    """The convolutions that come, as modules of PyTorch one after the other."""
    modules = [_as_module(node) for node in change.after]
    return modules[0] if len(modules) == 1 else f"nn.Sequential({', '.join(modules)})"


def _as_module(node: Node) -> str:
    made, each, *kernel = (int(extent) for extent in node.input(1).dims)
    groups, sides = int(node.attrs["group"]), node.attrs["pads"]
    settings = {"stride": tuple(node.attrs["strides"]), "padding": tuple(sides[: len(kernel)]), "groups": groups}
    usual = {"stride": (1, 1), "padding": (0, 0), "groups": 1}
    text = "".join(f", {name}={_short(value)}" for name, value in settings.items() if value != usual[name])
    module = f"nn.Conv2d({each * groups}, {made}, {_short(tuple(kernel))}{text})"
    if sides[: len(kernel)] == sides[len(kernel) :]:
        return module
    top, left, bottom, right = sides
    unpadded = module.replace(f", padding={_short(tuple(sides[:2]))}", "")
    return f"nn.ZeroPad2d({(left, right, top, bottom)}), {unpadded}"


def _short(value: object) -> str:
    return str(value[0]) if isinstance(value, tuple) and len(set(value)) == 1 else str(value)


# Pairs of a query and a key that an attention operator by operator uses, by the masks that are stored.


#: What is added to a masked score is less than this.
MASKED = -1e4


def pairs_used(subject: Subject, attention: Unfused) -> int:
    """Pairs that its mask leaves; all of them where no mask is known."""
    if attention.left is not None:
        return attention.left
    flags = masked_pairs(subject, attention)
    return attention.pairs if flags is None else attention.pairs - round(float(flags.mean()) * attention.pairs)


def is_causal(flags: Array) -> bool:
    """True where exactly the keys behind each query are masked."""
    import numpy as np

    queries, keys = flags.shape[-2:]
    return bool((flags == ~np.tri(queries, keys, keys - queries, dtype=bool)).all())


def masked_pairs(subject: Subject, attention: Unfused) -> Array | None:
    """Which pairs a stored mask between the scores and their Softmax takes out; None where none is stored."""
    scores = subject.nodes[attention.scores[0]].output()
    positions, _ = chain(subject, scores, lambda node, _: row(node.op).in_place)
    for position in positions:
        node = subject.nodes[position]
        for number, tensor in enumerate(node.inputs):
            mask = None if tensor is None else _elements(subject, tensor)
            if mask is not None and mask.ndim > 1:
                return _flags(node, number, mask)
    return None


def relates_positions(subject: Subject, attention: Unfused) -> bool:
    """True where a mask holds queries against keys: by a triangle, or by a comparison over both axes."""
    scores = subject.nodes[attention.scores[0]].output()
    positions, last = chain(subject, scores, lambda node, _: row(node.op).in_place)
    behind = [*positions, *([] if last is None else [last[0]])]
    tensors = [tensor for position in behind for tensor in subject.nodes[position].known_inputs]
    seen = {scores.name, *(t.name for p in behind for t in subject.nodes[p].known_outputs)}
    while tensors:
        tensor = tensors.pop()
        if tensor.name in seen:
            continue
        seen.add(tensor.name)
        maker = subject.maker(tensor)
        both = tensor.shape is not None and len(tensor.shape) > 1 and 1 not in tensor.shape[-2:]
        if both and (is_flags(tensor) if maker is None else maker[1].op == TRIANGLE or makes_flags(maker[1])):
            return True
        tensors += () if maker is None or row(maker[1].op).inputs.has_factors else maker[1].known_inputs
    return False


def _elements(subject: Subject, tensor: Tensor) -> Array | None:
    """The elements of a stored mask, or of what is cut out of one, negated or compared; None for others."""
    stored = subject.graph.weights.get(tensor.name)
    if stored is not None:
        try:
            return stored.array()
        except ModelError:  # elements outside, or none at all
            return None
    maker = subject.maker(tensor)
    if maker is None or maker[0] not in subject.folding.positions or not maker[1].known_inputs:
        return None
    node, elements = maker[1], _elements(subject, maker[1].known_inputs[0])
    if elements is None:
        return None
    if node.op in ("Not", "BitwiseNot") and elements.dtype == bool:
        return ~elements
    if node.op == "Equal" and isinstance(number := argument(node, "other"), int | float):
        equal: Array = elements == number
        return equal
    if node.origin == "aten.getitem" and isinstance(cut := argument(node, "arg1"), tuple):
        part: Array | None = elements[cut] if all(isinstance(one, slice) for one in cut) else None
        return part
    return None


def _flags(node: Node, number: int, mask: Array) -> Array | None:
    """The pairs that a mask takes out, by the operator that it is an input of."""
    if node.op == "Where" and number == 0:
        masks_true = not node.has_input(2) or (node.input(2).resolved and node.input(2).numel > 1)
        return mask if masks_true else ~mask
    return mask <= MASKED if node.op == "Add" and mask.dtype.kind == "f" else None


# Inputs without the tokens that a mask takes out of every sequence.


def unpadded_inputs(specs: Sequence[InputSpec], tensors: Sequence[Tensor]) -> list[str]:
    """The inputs, as texts, without columns that are zero throughout a mask; [] where no mask is given, or all count.

    Args:
        specs: the inputs as the user gave them.
        tensors: the inputs of the model.
    """
    masks = [spec.value for spec in specs if "mask" in spec.name.lower() and getattr(spec.value, "ndim", 0) == 2]
    used = [int((mask != 0).any(axis=0).sum()) for mask in masks]
    if not masks or not 0 < used[0] < masks[0].shape[1]:
        return []
    tokens = masks[0].shape[1]
    texts = []
    for tensor in tensors:
        dims = [used[0] if place == 1 and size == tokens else size for place, size in enumerate(tensor.dims)]
        texts.append(f"{tensor.name}:{tensor.dtype}:{'x'.join(map(str, dims))}")
    return texts
