"""Convolutions as rules of advice take them apart, and put others in their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flopwise.analyses.advice.rule import Change
from flopwise.analyses.advice.subject import Subject
from flopwise.graph import Node, Tensor


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
