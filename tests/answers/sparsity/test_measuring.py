"""Zeros, blocks, patterns and channels against loops over the definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopwise.answers.sparsity import measuring
from flopwise.answers.sparsity.asking import sparsity_query
from flopwise.answers.sparsity.measuring import Measured, Weight, measure
from flopwise.answers.sparsity.model import total
from flopwise.answers.sparsity.views import PLAIN, View, ZeroPoint, as_stored, conv_transpose, stacked, transposed
from flopwise.errors import ModelError


@dataclass(frozen=True, eq=False)
class Held:
    """A stored tensor that is an array, handed over in pieces of any length."""

    array: Any
    piece: int = 7
    shape: tuple[int, ...] = ()
    name: str = "w"
    dtype: str = "float32"
    bits: Any = None

    def blocks(self, elements: int = 0) -> Iterator[Any]:
        flat = self.array.reshape(-1)
        for start in range(0, flat.size, self.piece):
            yield flat[start : start + self.piece]

    def raw(self) -> Any:
        return self.bits


def held(array: Any, piece: int = 7, **more: Any) -> Held:
    return Held(array, piece, array.shape, **more)


def matrices(array: Any, view: View, kind: str, groups: int) -> list[Any]:
    """The matrices (outputs, reduction) of a weight, written down once more for each kind."""
    if array.ndim < 2:
        return [array.reshape(1, -1)]
    if kind == "stored":
        return [array.reshape(array.shape[0], -1)]
    if kind == "channels-last":
        return [numpy.moveaxis(array, 1, -1).reshape(array.shape[0], -1)]
    if kind == "stacked":
        return list(array.reshape(-1, *array.shape[-2:]))
    if kind == "transposed":
        return [m.T for m in array.reshape(-1, *array.shape[-2:])]
    parts = numpy.split(array, groups)
    return [numpy.moveaxis(part, 1, 0).reshape(array.shape[1], -1) for part in parts]


def brute_blocks(matrix: Any, rows: int, columns: int) -> tuple[int, int, int]:
    """Blocks, zero blocks, and elements in zero blocks."""
    every = zero = inside = 0
    for r in range(0, matrix.shape[0], rows):
        for c in range(0, matrix.shape[1], columns):
            part = matrix[r : r + rows, c : c + columns]
            every += 1
            zero += not part.any()
            inside += 0 if part.any() else part.size
    return every, zero, inside


def brute_pattern(matrix: Any, kept: int, size: int) -> tuple[int, int, int]:
    """Groups, groups that hold, and elements that are kept of all."""
    groups = holding = keeps = 0
    for row in matrix:
        for c in range(0, len(row), size):
            part = row[c : c + size]
            groups += 1
            holding += numpy.count_nonzero(part) <= kept
            keeps += min(kept, len(part))
    return groups, holding, keeps


def check(found: Measured, parts: list[Any]) -> None:
    assert found.zeros == sum(int((p == 0).sum()) for p in parts)
    assert found.zero_outputs == sum(int((~p.any(axis=1)).sum()) for p in parts)
    assert found.outputs == sum(len(p) for p in parts)
    for b in found.blocks:
        every, zero, inside = numpy.sum([brute_blocks(p, *b.block) for p in parts], axis=0)
        assert (b.blocks, b.zero, b.elements) == (every, zero, inside), b
        assert b.at_edges == every - sum((p.shape[0] // b.block[0]) * (p.shape[1] // b.block[1]) for p in parts)
    for g in found.patterns:
        assert (g.groups, g.holding, g.kept) == tuple(numpy.sum([brute_pattern(p, *g.pattern) for p in parts], axis=0))


KINDS = ("stored", "channels-last", "stacked", "transposed", "conv_transpose")


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    groups=st.integers(1, 3),
    share=st.sampled_from([0.0, 0.3, 0.8, 0.97, 1.0]),
    seed=st.integers(0, 99),
    blocks=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12)), max_size=3),
    patterns=st.lists(st.tuples(st.integers(0, 3), st.integers(4, 9)), max_size=3),
    piece=st.integers(1, 500),
    band=st.integers(1, 300),
)
def test_against_loops(
    kind: str,
    shape: list[int],
    groups: int,
    share: float,
    seed: int,
    blocks: list[Any],
    patterns: list[Any],
    piece: int,
    band: int,
) -> None:
    if kind == "conv_transpose":
        shape = [shape[0] * groups, *shape[1:]] if len(shape) > 1 else [groups, 1]
    if kind in ("stacked", "transposed") and len(shape) < 2:
        shape = [*shape, 3]
    random = numpy.random.default_rng(seed)
    array = (random.random(shape) >= share).astype(numpy.float32)
    of = tuple(shape)
    view = {
        "stored": lambda: as_stored(of),
        "channels-last": lambda: as_stored(of, "channels-last"),
        "stacked": lambda: stacked(of),
        "transposed": lambda: transposed(of),
        "conv_transpose": lambda: conv_transpose(of, groups),
    }[kind]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "BAND", band)
        (found,) = measure([Weight(held(array, piece), view, PLAIN)], sparsity_query(blocks, patterns))
    parts = matrices(array, view, kind, groups)
    assert [(view.rows, view.columns)] * view.matrices == [p.shape for p in parts]
    check(found, parts)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("order", ["stored", "channels-last"])
@pytest.mark.parametrize("band", [1, 50, 1 << 19])
def test_zero_inputs_of_convolutions(groups: int, order: str, band: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BAND", band)
    array = numpy.random.default_rng(1).standard_normal((8, 6, 3, 3)).astype(numpy.float32)
    array[: 8 // groups, 2] = 0
    array[:, 5] = 0
    array[3] = 0
    (found,) = measure([Weight(held(array), as_stored(array.shape, order, groups), PLAIN)], sparsity_query())
    parts = numpy.split(array, groups)
    assert found.zero_inputs == sum(not p[:, c].any() for p in parts for c in range(6)) == groups + 1
    assert (found.inputs, found.zero_outputs) == (6 * groups, 1)


@pytest.mark.parametrize("make", [transposed, lambda s: conv_transpose(s, 2)])
def test_zero_inputs_where_the_reduction_comes_first(make: Any) -> None:
    array = numpy.random.default_rng(1).standard_normal((6, 4)).astype(numpy.float32)
    array[[1, 4]] = 0
    (found,) = measure([Weight(held(array), make((6, 4)), PLAIN)], sparsity_query())
    assert (found.zero_inputs, found.inputs) == (2, 6)


@pytest.mark.parametrize(
    ("array", "zeros"),
    [
        (numpy.array([0.0, -0.0, numpy.nan, numpy.inf, 1e-45], numpy.float32), 2),
        (numpy.array([0.0, -0.0, numpy.nan, 5e-324], numpy.float64), 2),
        (numpy.array([0, 1, -1], numpy.int8), 1),
        (numpy.array([0, 1, 2**63], numpy.uint64), 1),
        (numpy.array([True, False, False]), 2),
        (numpy.array([0, 1j, -0.0], numpy.complex64), 2),
        (numpy.zeros(0, numpy.float32), 0),
    ],
)
def test_what_is_zero(array: Any, zeros: int) -> None:
    (found,) = measure([Weight(held(array), as_stored(array.shape), PLAIN)], sparsity_query())
    assert found.zeros == zeros
    assert found.ratio == (zeros / array.size if array.size else 0.0)


def test_16_bit_floats_by_their_bits() -> None:
    array = numpy.array([0.0, -0.0, numpy.nan, 6e-8, numpy.inf, 1], numpy.float16)
    (found,) = measure(
        [Weight(held(array, dtype="float16", bits=array), as_stored((6,)), PLAIN)], sparsity_query("1x2")
    )
    assert (found.zeros, found.blocks[0].zero) == (2, 1)


@pytest.mark.parametrize("piece", [1, 13, 1000])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_zero_points_per_axis(axis: int, piece: int) -> None:
    random = numpy.random.default_rng(2)
    array = random.integers(0, 4, (6, 5, 4)).astype(numpy.uint8)
    points = random.integers(0, 4, array.shape[axis])
    shape = [1, 1, 1]
    shape[axis] = -1
    (found,) = measure(
        [Weight(held(array, piece), as_stored(array.shape), ZeroPoint(points, axis))], sparsity_query("2x3")
    )
    check(
        found,
        matrices(array != points.reshape(shape), as_stored(array.shape), "stored", 1)[:0]
        or [_plain(array, points.reshape(shape))],
    )
    assert found.zero_point == "per axis"


def test_zero_points_per_block() -> None:
    random = numpy.random.default_rng(3)
    array = random.integers(0, 4, (10, 6)).astype(numpy.int8)
    points = random.integers(0, 4, (4, 6))
    (found,) = measure([Weight(held(array), transposed(array.shape), ZeroPoint(points, 0, 3))], sparsity_query("2x3"))
    whole = numpy.repeat(points, 3, axis=0)[:10]
    check(found, [_plain(array, whole).T])
    assert found.zero_point == "per block"


def _plain(array: Any, points: Any) -> Any:
    """1 where an element is not its zero point."""
    return (array.astype(int) != points).astype(int).reshape(array.shape[0], -1)


def test_an_unknown_zero_point_leaves_no_figure() -> None:
    weight = Weight(held(numpy.zeros((4, 4), numpy.uint8)), as_stored((4, 4)), None, "unknown: nobody knows")
    (found,) = measure([weight], sparsity_query("2x2", "2:4"))
    assert (found.zeros, found.ratio, found.zero_outputs, found.blocks, found.patterns) == (None, None, None, (), ())
    assert (found.zero_point, found.note) == ("unknown", "unknown: nobody knows")


@pytest.mark.parametrize("shape", [(0,), (), (0, 5), (5, 0), (0, 3, 4), (3, 0, 4), (3, 4, 0)])
@pytest.mark.parametrize("make", [as_stored, stacked, transposed, conv_transpose])
def test_no_elements(shape: tuple[int, ...], make: Any) -> None:
    if len(shape) < 2 and make is not as_stored:
        return
    array = numpy.ones(shape, numpy.float32)
    (found,) = measure([Weight(held(array), make(shape), PLAIN)], sparsity_query("2x2", "2:4", min_size=0))
    assert (found.elements, found.zeros, found.ratio, found.found) == (array.size, 0, 0.0, None)
    assert found.blocks[0].zero == found.zero_outputs == 0


@pytest.mark.parametrize("length", [0, 15, 17])
def test_a_tensor_that_is_not_as_long_as_its_shape_says(length: int) -> None:
    short = Held(numpy.ones(length, numpy.float32), 7, (4, 4))
    with pytest.raises(ModelError, match=f"tensor 'w' holds {length} elements, not 16"):
        measure([Weight(short, as_stored((4, 4)), PLAIN)], sparsity_query())


def test_blocks_of_any_height_in_one_pass() -> None:
    array = numpy.kron(numpy.arange(30).reshape(30, 1) % 2, numpy.ones((7, 5))).astype(numpy.float32)
    (found,) = measure(
        [Weight(held(array), as_stored(array.shape), PLAIN)], sparsity_query("7x5,5x1,11x2,64x1,1000x1,1048576x1048576")
    )
    check(found, [array])


@pytest.mark.parametrize(("values", "expected"), [([], 0), ([1, 2], 3), ([0, 0], 0), ([1, None], None), ([None], None)])
def test_a_sum_with_something_unknown_is_unknown(values: list[int | None], expected: int | None) -> None:
    assert total(values) == expected
