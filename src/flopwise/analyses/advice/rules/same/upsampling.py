"""Upsampling before a 1x1 convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.graph import Node, Tensor

#: Ways of interpolating whose weights sum up to one, so that they and a 1x1 convolution may change places.
_MODES = frozenset({"nearest", "linear", "bilinear", "cubic"})


def find(subject: Subject) -> Iterator[Change]:
    """A Resize to larger extents whose result a 1x1 convolution alone takes."""
    for position, node in subject.live("Resize", "Upsample"):
        source, large = node.input(0), node.output()
        mode = node.attrs.get("mode", "nearest")
        crop = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        taker = subject.only_taker(large)
        if taker is None or mode not in _MODES or crop or not large.numel > source.numel:
            continue
        between: tuple[int, ...] = ()
        if taker[1].op.endswith("::ReorderInput"):
            between = (taker[0],)
            taker = subject.only_taker(taker[1].output())
        if taker is None or not _is_pointwise(taker[1]) or source.dims[:2] != large.dims[:2]:
            continue
        product = taker[1]
        if mode != "nearest" and product.attrs.get("activation"):
            continue
        end = product.output()
        shape = (*end.dims[:2], *source.dims[2:])
        small = Tensor(f"{end.name}.small", shape, end.dtype)
        inputs = (source, *product.inputs[1:])
        attributes = _of_extents(product.attrs)
        first = Node(product.op, product.name, inputs, (small,), attributes, version=product.version)
        resized, values = _resized(node, end)
        second = Node(node.op, node.name, (small, *resized), (end,), node.attrs, version=node.version)
        factor = large.numel // source.numel
        text = f"the convolution runs on {factor} times the positions that differ"
        yield Change((position, *between, taker[0]), text, (first, second), values=values, fixed=_sizes(node))


def _sizes(node: Node) -> tuple[str, ...]:
    """Name of the tensor that says the sizes of the result; () where it takes scales."""
    return (node.input(3).name,) if node.has_input(3) else ()


def _resized(node: Node, end: Tensor) -> tuple[tuple[Tensor | None, ...], Callable[[object], dict[str, Any]] | None]:
    """Inputs of a Resize beside its tensor, and elements of new stored ones: its sizes, with other channels."""
    rest = node.inputs[1:]
    if not node.has_input(3) or node.input(3).dims[0] != len(end.dims):
        return rest, None
    sizes = Tensor(f"{end.name}.sizes", (len(end.dims),), "int64", "constant")

    def values(read: object) -> dict[str, object]:
        import numpy as np

        return {sizes.name: np.array(end.dims, np.int64)}

    return (*rest[:2], sizes), values


def _of_extents(attributes: Any) -> dict[str, object]:
    return {key: value for key, value in attributes.items() if key != "args"}


def _is_pointwise(node: Node) -> bool:
    """True for a 1x1 convolution of stride 1 without padding."""
    if bare(node.op) != "Conv" or not node.has_input(1) or set(node.input(1).dims[2:]) != {1} or node.has_input(3):
        return False
    ones = (set(node.attrs.get("strides") or (1,)), set(node.attrs.get("pads") or (0,)))
    return ones == ({1}, {0})


RULE = Rule(
    name="upsampling",
    about="Upsample behind a 1x1 convolution, and not before it.",
    exactness="same",
    source="arithmetic: weights of interpolation sum up to one, so that the two change places; up to rounding",
    find=find,
    code=lambda change: "resized(conv(x)) in place of conv(resized(x))",
)
