"""Caffe layers: what each becomes, the shapes of its tops and of its stored blobs, and what it computes."""

from __future__ import annotations

import pytest
from tests.cases import each
from tests.formats.caffe.layers.layer import layer, node, one
from tests.formats.caffe.layers.rows import CONV, ROWS, X

from flopwise.formats.caffe.table import LAYERS, lower
from flopwise.graph import Shape
from flopwise.operators.tables import OPERATORS, count


@each(("kind", "params", "bottoms", "op", "outputs", "blobs"), ROWS)
def test_row(kind: str, params: str, bottoms: list[Shape], op: str, outputs: list[Shape], blobs: list[Shape]) -> None:
    lowered = one(kind, params, bottoms, len(outputs))
    assert lowered.op == op
    assert list(lowered.outputs) == outputs
    assert [shape for _, shape, _ in lowered.weights] == blobs
    counts = count(node(lowered, bottoms))
    assert (counts is None) == (op in UNRULED)


#: Operators whose shapes are known and whose work is not.
UNRULED = {"caffe::MultiBoxLoss"}


def test_every_type_has_a_row() -> None:
    asked = {"HDF5Data", "WindowData", "Bn"}
    assert {row[0] for row in ROWS} | asked == LAYERS.keys()


def test_every_rule_for_caffe_is_reached_by_a_layer() -> None:
    reached = {row[3] for row in ROWS} | {"caffe::HDF5Data", "caffe::WindowData"}
    assert {op for op in OPERATORS if op.startswith("caffe::")} == {
        op for op in reached if op.startswith("caffe::")
    } - UNRULED


@pytest.mark.parametrize(
    ("kind", "params", "bottoms", "macs"),
    [
        ("Convolution", CONV % (256, 5, "pad: 2 group: 2"), [(1, 96, 27, 27)], 223_948_800),
        ("Convolution", CONV % (6, 3, "axis: 2"), [(2, 3, 4, 8, 8)], 46_656),
        ("Deconvolution", CONV % (4, 3, "stride: 2"), [(2, 3, 6, 4)], 5184),
        ("Deconvolution", CONV % (3, 3, "stride: 2 group: 3"), [(2, 3, 6, 4)], 1296),
        ("InnerProduct", "inner_product_param { num_output: 10 axis: 2 }", [(4, 2, 6, 5)], 2400),
        ("InnerProduct", "inner_product_param { num_output: 10 axis: 2 transpose: true }", [(4, 2, 6, 5)], 2400),
        ("LSTM", "recurrent_param { num_output: 256 }", [(16, 10, 4096), (16, 10)], 713_031_680),
        ("LSTM", "recurrent_param { num_output: 7 }", [(4, 3, 5), (4, 3), (3, 2, 2)], 4 * 3 * 28 * 12 + 3 * 28 * 4),
        ("RNN", "recurrent_param { num_output: 7 }", [(4, 3, 5), (4, 3)], 4 * 3 * (7 * 5 + 2 * 49)),
        ("BatchNorm", "", [X], 0),
        ("Scale", "scale_param { bias_term: true }", [X], 0),
    ],
)  # fmt: skip
def test_multiply_accumulates(kind: str, params: str, bottoms: list[Shape], macs: int) -> None:
    counts = count(node(one(kind, params, bottoms), bottoms))
    assert counts is not None
    assert counts.mac == macs


def test_a_bias_is_one_addition_for_each_output() -> None:
    for kind, params, bottom, outputs in (
        ("Convolution", "convolution_param { num_output: 4 kernel_size: 3 %s }", (1, 2, 8, 8), 144),
        ("InnerProduct", "inner_product_param { num_output: 10 %s }", (4, 2, 6), 40),
        ("Embed", "embed_param { num_output: 7 input_dim: 50 %s }", (4, 9), 252),
    ):
        with_bias, without = (
            count(node(one(kind, params % term, [bottom]), [bottom])) for term in ("", "bias_term: false")
        )
        assert with_bias is not None
        assert without is not None
        assert with_bias.add - without.add == outputs


def test_several_bottoms_share_the_weights() -> None:
    shapes: list[Shape] = [(1, 2, 8, 8)] * 2
    both = lower(layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", 2, 2), shapes, {})
    assert [(part.reads, part.writes, part.outputs) for part in both] == [
        ((0,), (0,), ((1, 4, 6, 6),)),
        ((1,), (1,), ((1, 4, 6, 6),)),
    ]
    assert both[0].weights == both[1].weights


def test_kinds_of_stored_blobs() -> None:
    def kinds(kind: str, params: str = "") -> list[str]:
        return [kind for _, _, kind in one(kind, params, [X]).weights]

    assert kinds("BatchNorm") == ["buffer"] * 3
    assert kinds("BN") == ["weight", "weight", "buffer", "buffer"]
    assert kinds("Scale", "scale_param { bias_term: true }") == ["weight", "weight"]
    assert kinds("PReLU") == kinds("Normalize") == ["weight"]


def test_batch_norm_computes_its_statistics_in_training() -> None:
    inference, training = (one("BatchNorm", "", [X], phase=phase) for phase in ("TEST", "TRAIN"))
    assert inference.attrs["use_global_stats"] == 1
    assert training.attrs["use_global_stats"] == 0
    fixed = one("BatchNorm", "batch_norm_param { use_global_stats: true }", [X], phase="TRAIN")
    assert fixed.attrs == inference.attrs


def test_what_the_image_decides_is_an_upper_bound() -> None:
    for row in ROWS:
        bound = one(row[0], row[1], row[2], len(row[4])).bound
        assert bound == (row[0] in ("Filter", "DetectionOutput", "Proposal"))


@pytest.mark.parametrize(("height", "kernels", "bins"), [(1, [[9, 8]], [1]), (3, [[9, 8], [5, 4], [3, 2]], [1, 4, 16])])
def test_levels_of_a_pyramid(height: int, kernels: list[list[int]], bins: list[int]) -> None:
    lowered = one("SPP", f"spp_param {{ pyramid_height: {height} }}", [(2, 3, 9, 8)], 1)
    assert lowered.attrs == {"pool": "MAX", "kernels": kernels, "bins": bins}
