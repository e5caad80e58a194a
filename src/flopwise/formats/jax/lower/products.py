"""Products and convolutions."""

from __future__ import annotations

import string
from collections.abc import Sequence

from flopwise.formats.jax.lower.lowered import Equation, Lowered, Lowering, extent_of
from flopwise.graph import Tensor


def dot_general(equation: Equation) -> Lowered:
    """A MatMul or Gemm where the axes lie as it has them, else an Einsum."""
    left, right = equation.inputs[:2]
    (left_summed, right_summed), (left_batch, right_batch) = _axes(equation.params["dimension_numbers"])
    ranks = len(left.dims), len(right.dims)
    if not left_batch and len(left_summed) == 1 and ranks[1] == 1 and left_summed[0] == ranks[0] - 1:
        return Lowered("MatMul", (left, right))
    if not left_batch and len(left_summed) == 1 and ranks[1] == 2:
        if left_summed[0] == ranks[0] - 1 and right_summed[0] == 0:
            return Lowered("MatMul", (left, right))
        if ranks[0] == 2:
            transposed = {"transA": int(left_summed[0] == 0), "transB": int(right_summed[0] == 1)}
            return Lowered("Gemm", (left, right), transposed)
    batch = list(range(len(left_batch)))
    if (
        ranks == (len(batch) + 2, len(batch) + 2)
        and batch == left_batch == right_batch
        and left_summed == [ranks[0] - 1]
        and right_summed == [ranks[1] - 2]
    ):
        return Lowered("MatMul", (left, right))
    return _einsum(left, right, left_summed, right_summed, left_batch, right_batch)


def _axes(
    numbers: Sequence[Sequence[Sequence[int]]],
) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
    """The summed axes of both operands, and their batch axes."""
    (left, right), (left_batch, right_batch) = [[list(map(int, axes)) for axes in pair] for pair in numbers]
    return (left, right), (left_batch, right_batch)


def _einsum(
    left: Tensor,
    right: Tensor,
    left_summed: list[int],
    right_summed: list[int],
    left_batch: list[int],
    right_batch: list[int],
) -> Lowered:
    letters = iter(string.ascii_letters)
    of_left = [next(letters) for _ in left.dims]
    shared = dict(zip([*right_batch, *right_summed], [of_left[a] for a in [*left_batch, *left_summed]], strict=True))
    of_right = [shared.get(axis) or next(letters) for axis in range(len(right.dims))]
    batch = [of_left[axis] for axis in left_batch]
    summed = {of_left[axis] for axis in left_summed}
    free = [label for label in [*of_left, *of_right] if label not in batch and label not in summed]
    return Lowered(
        "Einsum", (left, right), {"equation": f"{''.join(of_left)},{''.join(of_right)}->{''.join(batch + free)}"}
    )


def ragged_dot_general(equation: Equation) -> Lowered:
    numbers = equation.params["ragged_dot_dimension_numbers"]
    (_, summed), (_, batch) = _axes(numbers.dot_dimension_numbers)
    taken = {*summed, *batch, *map(int, numbers.rhs_group_dimensions)}
    free = [axis for axis in range(len(equation.inputs[1].dims)) if axis not in taken]
    return Lowered("lax::ragged_dot_general", equation.inputs, {"free": free})


def convolution(equation: Equation) -> Lowered:
    params = equation.params
    numbers = params["dimension_numbers"]
    attrs = {name: list(map(int, getattr(numbers, name))) for name in ("lhs_spec", "rhs_spec", "out_spec")}
    attrs |= {name: list(map(int, params[name])) for name in ("window_strides", "lhs_dilation", "rhs_dilation")}
    attrs["padding"] = [extent_of(pad) for pads in params["padding"] for pad in pads]
    groups = {name: int(params[name]) for name in ("feature_group_count", "batch_group_count")}
    return Lowered("lax::conv_general_dilated", equation.inputs, {**attrs, **groups})


LOWERINGS: dict[str, Lowering] = {
    "dot_general": dot_general,
    "ragged_dot_general": ragged_dot_general,
    "conv_general_dilated": convolution,
}
