"""The search for blocks against onnx-tool 1.0.1, and right where that is wrong."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tests.answers.sparsity.test_measuring import held
from tests.sparse_models import conv, in_blocks, matmul, model, scattered, two_of_four

import flopwise
from flopwise.answers.sparsity import measuring
from flopwise.answers.sparsity.asking import sparsity_query
from flopwise.answers.sparsity.measuring import Weight, measure
from flopwise.answers.sparsity.views import PLAIN, as_stored, transposed

tool = pytest.importorskip("onnx_tool.tensor")


def of_tool(array: Any) -> tuple[tuple[int, int], float, float]:
    """What onnx-tool reports: block, share of zero blocks, share of zeros."""
    message = helper.make_tensor(
        "w", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True
    )
    found = tool.Tensor(message).sparsity
    return tuple(found["blocksize"]), float(found["blockratio"]), float(found["ratio"])


def of_ours(array: Any, transpose: bool = False, **options: Any) -> tuple[tuple[int, int], float, float]:
    view = transposed(array.shape) if transpose else as_stored(array.shape)
    (found,) = measure([Weight(held(array, 100_000), view, PLAIN)], sparsity_query(**options))
    assert found.ratio is not None
    if found.found is None:
        return (1, 1), 0.0, found.ratio
    return (found.found.first, found.found.second), found.found.ratio, found.ratio


def brute(array: Any, tolerance: float = 0.1) -> tuple[tuple[int, int], float]:
    """The rule in words: sizes in a row from 2 on, along each axis, then the square."""
    flags = array.reshape(*array.shape[:2], -1) == 0
    first, second, inner = flags.shape
    least = flags.mean() - tolerance

    def ratio(a: int, b: int) -> float:
        blocks = flags.reshape(first // a, a, second // b, b, inner)
        return float(blocks.all(axis=(1, 3)).mean())

    def longest(extent: int, of: Any) -> int:
        size = 1
        while extent % (2 * size) == 0 and of(2 * size) > least:
            size *= 2
        return size

    high = longest(first, lambda s: ratio(s, 1)) if flags.size else 1
    wide = longest(second, lambda s: ratio(1, s)) if flags.size else 1
    if high == wide > 1 and ratio(high, wide) > least:
        return (high, wide), ratio(high, wide)
    if wide > high or (wide == high and ratio(1, wide) >= ratio(high, 1)):
        return (1, wide), ratio(1, wide)
    return (high, 1), ratio(high, 1)


SAME = {
    "dense": scattered((128, 96), 0.0),
    "39 %": scattered((128, 96), 0.39),
    "random 50 %": scattered((128, 96), 0.5),
    "1x4 at 80 %": in_blocks((128, 96), (1, 4), 0.8),
    "8x1 at 60 %": in_blocks((128, 96), (8, 1), 0.6),
    "4x4": in_blocks((128, 96), (4, 4), 0.8),
    "16x16": in_blocks((128, 96), (16, 16), 0.7),
    "1x3": in_blocks((128, 96), (1, 3), 0.8),
    "2:4 of fixed columns": numpy.tile(numpy.float32([1, 1, 0, 0]), (128, 24)),
    "2:4": two_of_four((128, 96)),
    "all zero": numpy.zeros((128, 96), numpy.float32),
    "odd": scattered((131, 97), 0.7),
    "conv": scattered((64, 32, 3, 3), 0.5),
    "conv filters": numpy.where(numpy.arange(64)[:, None, None, None] % 16 < 8, 0, scattered((64, 32, 3, 3), 0.0)),
    "conv blocks": numpy.kron(in_blocks((64, 32), (4, 4), 0.7)[:, :, None, None], numpy.ones((1, 1, 3, 3))),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_to_onnx_tool(name: str) -> None:
    array = numpy.asarray(SAME[name])
    assert of_ours(array) == of_tool(array)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int8"])
def test_equal_to_onnx_tool_in_its_types(dtype: str) -> None:
    array = (in_blocks((128, 96), (1, 4), 0.8) * 50).astype(dtype)
    assert of_ours(array) == of_tool(array)


@pytest.mark.parametrize("name", ["1x4 at 80 %", "8x1 at 60 %", "4x4", "random 50 %"])
def test_the_search_is_along_the_axes_of_storage(name: str) -> None:
    assert of_ours(SAME[name], transpose=True) == of_tool(SAME[name])


@settings(max_examples=150, deadline=None)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 32]), min_size=2, max_size=5),
    share=st.sampled_from([0.45, 0.7, 0.95, 1.0]),
    runs=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    seed=st.integers(0, 99),
    band=st.integers(1, 4000),
)
def test_against_the_rule_in_words(shape: list[int], share: float, runs: tuple[int, int], seed: int, band: int) -> None:
    random = numpy.random.default_rng(seed)
    grid = random.random([-(-shape[0] // runs[0]), -(-shape[1] // runs[1]), *shape[2:]]) >= share
    array = grid.repeat(runs[0], 0)[: shape[0]].repeat(runs[1], 1)[:, : shape[1]].astype(numpy.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "BAND", band)
        block, ratio, zeros = of_ours(array, min_size=0, min_ratio=0)
    if zeros:
        assert (block, pytest.approx(ratio)) == brute(array)


@pytest.mark.parametrize("share", [0.9, 0.92])
def test_a_square_that_does_not_hold(share: float) -> None:
    """Where pairs hold along both axes, onnx-tool names the square of a matrix whether it holds or not."""
    array = scattered((128, 96), share)
    zeros = float((array == 0).mean())
    squares, pairs = (
        float((array.reshape(128 // a, a, 96 // b, b) == 0).all(axis=(1, 3)).mean()) for a, b in ((2, 2), (1, 2))
    )
    block, ratio, _ = of_tool(array)
    assert block == (2, 2)
    assert squares < zeros - 0.1 < ratio  # its figure is that of 2x1
    ours, our_ratio, _ = of_ours(array)
    assert (ours, our_ratio) == brute(array)
    assert ours in ((1, 2), (2, 1))
    assert our_ratio >= pairs


def _filters_in_pairs() -> Any:
    """A convolution whose zeros come in pairs of filters, a few of them alone."""
    random = numpy.random.default_rng(6)
    flags = numpy.repeat(random.random((32, 32, 3, 3)) < 0.6, 2, axis=0) | (random.random((64, 32, 3, 3)) < 0.05)
    return numpy.where(flags, 0, random.standard_normal((64, 32, 3, 3))).astype(numpy.float32)


def test_the_axis_of_a_convolution_block() -> None:
    """onnx-tool names the axis that did not hold: it compares with the share of single zeros there."""
    array = _filters_in_pairs()
    zeros = float((array == 0).mean())
    assert of_tool(array) == ((1, 2), zeros, zeros)  # its figure is that of 1x1
    true = float((array.reshape(64, 16, 2, 3, 3) == 0).all(axis=2).mean())
    assert true < zeros - 0.1
    pairs = float((array.reshape(32, 2, 32, 3, 3) == 0).all(axis=1).mean())
    assert of_ours(array) == ((2, 1), pytest.approx(pairs), zeros)


def test_a_block_that_is_larger_than_the_axis() -> None:
    """onnx-tool gives a convolution's second axis the size that the first one reached."""
    array = numpy.where(numpy.arange(32)[:, None, None] % 16 < 12, 0, scattered((64, 32, 3, 3), 0.0))
    assert of_tool(array) == ((1, 64), 0.75, 0.75)  # of 32 channels
    assert of_ours(array) == ((64, 1), 0.75, 0.75)


def _first(model: bytes, **options: Any) -> Any:
    return flopwise.sparsity(model, **options).tensors[0]


def test_uint8_of_zeros() -> None:
    """onnx-tool takes 128 for the zero of every uint8 tensor."""
    array = numpy.zeros((128, 64), numpy.uint8)
    assert of_tool(array)[2] == 0.0
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
    assert _first(model(nodes, {"x": (2, 128)}, {"w": array}, TensorProto.UINT8)).ratio == 1.0


@pytest.mark.parametrize("point", [0, 7, 128, 255])
def test_uint8_with_its_zero_point(point: int) -> None:
    array = numpy.random.default_rng(7).integers(0, 256, (128, 64)).astype(numpy.uint8)
    array[::2] = point
    nodes = [helper.make_node("MatMulInteger", ["x", "w", "", "z"], ["y"])]
    weights = {"w": array, "z": numpy.array(point, numpy.uint8)}
    found = _first(model(nodes, {"x": (2, 128)}, weights, TensorProto.UINT8))
    assert found.zeros == (array == point).sum()
    assert found.zero_point == str(point)
    assert of_tool(array)[2] == (array == 128).mean()  # whatever the zero point is


def test_int8_in_int32_data() -> None:
    """onnx-tool reads the empty raw_data of int8 elements that lie in int32_data."""
    message = helper.make_tensor("w", TensorProto.INT8, (128, 64), [1] * 8192)
    assert not message.raw_data
    assert tool.Tensor(message).sparsity["ratio"] == 1.0
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
    found = _first(model(nodes, {"x": (2, 128)}, {"w": message}, TensorProto.INT8))
    assert (found.zeros, found.ratio) == (0, 0.0)


@pytest.mark.parametrize("shape", [(64, 32, 5), (32, 16, 3, 3, 3)])
def test_ranks_that_onnx_tool_leaves_out(shape: tuple[int, ...]) -> None:
    array = scattered(shape, 0.0)
    array[: shape[0] // 2] = 0
    assert of_tool(array) == ((1, 1), 0, 0)
    found = _first(conv(array))
    assert found.ratio == 0.5
    assert tuple(found.found) == (shape[1], shape[1], 0.5)
    assert _first(conv(array), ranks=(2, 4)).found is None  # as onnx-tool does


def test_types_that_onnx_tool_leaves_out() -> None:
    array = numpy.zeros((128, 64), numpy.int64)
    assert of_tool(array)[2] == 0
    assert of_ours(array)[2] == 1.0


def test_small_tensors() -> None:
    array = in_blocks((64, 64), (1, 4), 0.8)
    assert of_tool(array) == ((1, 1), 0, 0)
    found = _first(matmul(array))
    assert found.ratio == (array == 0).mean()
    assert found.found is None
    assert tuple(_first(matmul(array), min_size=0).found)[:2] == (1, 4)


def test_two_of_four_is_seen() -> None:
    array = two_of_four((128, 96)).T.copy()  # the reduction of x @ w is w's first axis
    assert of_tool(array)[0] == (1, 1)
    found = _first(matmul(array), patterns="2:4,1:4,4:8")
    assert [(g.holds, g.ratio) for g in found.patterns] == [(True, 1.0), (False, 0.0), (True, 1.0)]


def test_the_thresholds() -> None:
    array = in_blocks((128, 96), (1, 4), 0.3)
    assert of_ours(array)[0] == (1, 1)
    assert of_ours(array, min_ratio=0.2)[0] == (1, 4)
    random = scattered((128, 96), 0.5)
    assert of_ours(random, tolerance=0.3)[0] != (1, 1)


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_have_one_orientation(axis: int) -> None:
    """A weight of MatMul lies as (inputs, outputs): the search's block is shown as outputs x inputs, as --block is."""
    array = numpy.ones((64, 128), numpy.float32)
    zeros = numpy.arange(64 * 128 // 4) % 5 < 4
    if axis == 0:
        array.reshape(16, 4, 128)[:] = numpy.where(zeros.reshape(16, 128), 0, 1)[:, None, :]
    else:
        array.reshape(64, 32, 4)[:] = numpy.where(zeros.reshape(64, 32), 0, 1)[:, :, None]
    found = flopwise.sparsity(matmul(array), blocks="4x1,1x4")
    (weight,) = found.tensors
    ratios = {str(b.block): b.ratio for b in weight.blocks}
    assert weight.found is not None
    assert (weight.found.first, weight.found.second) == ((4, 1) if axis == 0 else (1, 4))
    assert str(weight.block) == ("1x4" if axis == 0 else "4x1")
    assert ratios[str(weight.block)] == weight.found.ratio
    (layer,) = found.layers
    assert layer.block == weight.block
    assert "block (out x in)" in str(found)
