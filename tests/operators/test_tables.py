"""The operator tables: expected counts as plain numbers, laws between counts, and what every row must have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias

import onnx.defs
import pytest
from tests.operators.nodes import cost, node

from flopwise.errors import FlopwiseError, ModelError, ShapeError
from flopwise.graph import Node, Shape, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import FAMILIES, NOT_RULED, OPERATORS, count, with_effect

Shapes: TypeAlias = "list[Shape | None]"
Row: TypeAlias = "tuple[str, Shapes, Shapes, dict[str, Any], Counts]"

ROWS: list[Row] = [
    # ResNet-50: stem, a 1x1, a 3x3 and the classifier.
    (
        "Conv",
        [(1, 3, 224, 224), (64, 3, 7, 7), (64,)],
        [(1, 64, 112, 112)],
        {},
        Counts(mac=118_013_952, add=802_816),
    ),
    ("Conv", [(1, 64, 56, 56), (256, 64, 1, 1)], [(1, 256, 56, 56)], {}, Counts(mac=51_380_224)),
    ("Conv", [(1, 32, 8, 8), (32, 1, 3, 3)], [(1, 32, 8, 8)], {"group": 32}, Counts(mac=18_432)),
    ("Gemm", [(1, 2048), (1000, 2048), (1000,)], [(1, 1000)], {"transB": 1}, Counts(mac=2_048_000, add=1000)),
    # What other tools count differently.
    (
        "ConvTranspose",
        [(1, 64, 32, 32), (64, 32, 4, 4)],
        [(1, 32, 64, 64)],
        {"strides": [2, 2]},
        Counts(mac=33_554_432),
    ),
    (
        "ConvTranspose",
        [(1, 512, 32, 32), (512, 3, 4, 4)],
        [(1, 3, 64, 64)],
        {"strides": [2, 2]},
        Counts(mac=25_165_824),
    ),
    (
        "ConvTranspose",
        [(1, 64, 32, 32), (64, 1, 4, 4)],
        [(1, 64, 64, 64)],
        {"group": 64},
        Counts(mac=1_048_576),
    ),
    ("MatMul", [(8, 1, 64, 64), (1, 8, 64, 64)], [(8, 8, 64, 64)], {}, Counts(mac=16_777_216)),
    ("MatMul", [(64, 64), (64,)], [(64,)], {}, Counts(mac=4096)),
    ("Einsum", [(8, 64, 64), (8, 64, 64)], [(8, 64, 64)], {"equation": "...ij,...jk"}, Counts(mac=2_097_152)),
    ("Einsum", [(2, 3), (3, 4), (4, 5)], [(2, 5)], {"equation": "ij, jk, kl -> il"}, Counts(mac=24 + 40)),
    ("Einsum", [(2, 3), (3, 4), (4, 5)], [(2, 5)], {"equation": "ij,jk,kl->il", "path": [1, 2, 0, 1]}, Counts(mac=90)),
    ("Einsum", [(64,), (16,)], [(64, 16)], {"equation": "i,j->ij"}, Counts(mul=1024)),
    ("Einsum", [(9, 10), (11,)], [(11,)], {"equation": "ij,k->k"}, Counts(add=90, mul=11)),
    ("Einsum", [(4, 4)], [()], {"equation": "ii"}, Counts(add=4)),
    ("Einsum", [(4, 5)], [(4, 5)], {"equation": "ij"}, Counts()),
    (
        "LSTM",
        [(100, 1, 64), (1, 256, 64), (1, 256, 64), (1, 512)],
        [(100, 1, 1, 64)],
        {},
        Counts(mac=3_276_800, add=102_400, mul=19_200, div=19_200, exp=19_200, tanh=12_800, bit=19_200),
    ),
    (
        "LSTM",
        [(100, 1, 64), (2, 256, 64), (2, 256, 64)],
        [(100, 2, 1, 64)],
        {"direction": "bidirectional"},
        Counts(mac=6_553_600, add=102_400, mul=38_400, div=38_400, exp=38_400, tanh=25_600, bit=38_400),
    ),
    (
        "GRU",
        [(100, 1, 64), (1, 192, 64), (1, 192, 64)],
        [None, (1, 1, 64)],
        {},
        Counts(mac=2_457_600, add=44_800, mul=19_200, div=12_800, exp=12_800, tanh=6400, bit=12_800),
    ),
    ("RNN", [(100, 1, 64), (1, 64, 64), (1, 64, 64)], [None], {}, Counts(mac=819_200, add=6400, tanh=6400)),
    ("MaxPool", [(1, 8, 16, 16, 16)], [(1, 8, 8, 8, 8)], {"kernel_shape": [2, 2, 2]}, Counts(cmp=32_768)),
    ("AveragePool", [(1, 8, 16, 16)], [(1, 8, 8, 8)], {"kernel_shape": [2, 2]}, Counts(add=2048, div=512)),
    ("Max", [(1, 64, 32, 32)] * 5, [(1, 64, 32, 32)], {}, Counts(cmp=262_144)),
    ("Sum", [(64,), (8, 1), (64,)], [(8, 64)], {}, Counts(add=1024)),
    ("Mean", [(64,), (64,)], [(64,)], {}, Counts(add=64, div=64)),
    # A block of a vision transformer, without its projections.
    (
        "LayerNormalization",
        [(1, 197, 768), (768,), (768,)],
        [(1, 197, 768)],
        {},
        Counts(add=605_578, mul=302_789, div=151_690, sqrt=197),
    ),
    (
        "Attention",
        [(1, 12, 197, 64)] * 3,
        [(1, 12, 197, 64)],
        {},
        Counts(mac=59_610_624, mul=302_592, cmp=465_708, add=931_416, exp=465_708, div=465_708),
    ),
    (
        "Softmax",
        [(1, 12, 197, 197)],
        [(1, 12, 197, 197)],
        {},
        Counts(cmp=465_708, add=931_416, exp=465_708, div=465_708),
    ),
    ("Gelu", [(1, 10)], [(1, 10)], {}, Counts(div=10, erf=10, add=10, mul=20)),
    ("Gelu", [(1, 10)], [(1, 10)], {"approximate": "tanh"}, Counts(pow=10, mul=40, add=20, tanh=10)),
    # Llama: grouped heads, one new token after 127, rotary embedding, RMS normalisation.
    (
        "Attention",
        [(1, 32, 1, 128), (1, 8, 1, 128), (1, 8, 1, 128), None, (1, 8, 127, 128), (1, 8, 127, 128)],
        [(1, 32, 1, 128), (1, 8, 128, 128), (1, 8, 128, 128)],
        {"is_causal": 1},
        Counts(mac=1_048_576, mul=528_384, add=12_288, cmp=4096, exp=4096, div=4096),
    ),
    ("Attention", [(2, 5, 4)] * 3, [(2, 5, 4)], {}, Counts(mac=400, mul=80, cmp=50, add=100, exp=50, div=50)),
    ("RotaryEmbedding", [(1, 32, 10, 128)], [(1, 32, 10, 128)], {}, Counts(mul=81_920, add=40_960)),
    ("RMSNormalization", [(1, 10, 64), (64,)], [(1, 10, 64)], {}, Counts(mul=1280, add=650, div=650, sqrt=10)),
    # Classic networks.
    (
        "BatchNormalization",
        [(2, 64, 7, 7), *[(64,)] * 4],
        [(2, 64, 7, 7)],
        {},
        Counts(mul=6336, add=6336 + 64, sqrt=64, div=64),
    ),
    ("LRN", [(1, 96, 2, 2)], [(1, 96, 2, 2)], {"size": 5}, Counts(mul=768, add=2304, pow=384, div=384)),
    ("GlobalAveragePool", [(1, 2048, 7, 7)], [(1, 2048, 1, 1)], {}, Counts(add=100_352, div=2048)),
    ("ReduceMean", [(1, 2048, 7, 7), (2,)], [(1, 2048)], {"keepdims": 0}, Counts(add=100_352, div=2048)),
    ("Relu", [(1, 64)], [(1, 64)], {}, Counts(cmp=64)),
    ("Clip", [(1, 64), (), ()], [(1, 64)], {}, Counts(cmp=128)),
    ("HardSwish", [(1, 64)], [(1, 64)], {}, Counts(mul=128, add=64, cmp=128)),
    ("Sigmoid", [(1, 64)], [(1, 64)], {}, Counts(bit=64, exp=64, add=64, div=64)),
    ("Add", [(8, 1, 4), (5, 1)], [(8, 5, 4)], {}, Counts(add=160)),
    ("Dropout", [(1, 64)], [(1, 64), (1, 64)], {}, Counts()),
    # Resampling.
    ("Resize", [(1, 3, 8, 8), None, (4,)], [(1, 3, 16, 16)], {"mode": "linear"}, Counts(mul=3072, add=3072)),
    ("Resize", [(1, 3, 8, 8), None, (4,)], [(1, 3, 16, 8)], {"mode": "linear"}, Counts(mul=768, add=768)),
    ("Resize", [(1, 3, 8, 8), None, (4,)], [(1, 3, 16, 16)], {"mode": "cubic"}, Counts(mul=12_288, add=12_288)),
    ("Resize", [(1, 3, 8, 8), None, (4,)], [(1, 3, 16, 16)], {}, Counts()),
    ("Resize", [(1, 1, 9), None, (3,)], [(1, 1, 4)], {"mode": "linear", "antialias": 1}, Counts(mul=24, add=24)),
    ("Resize", [(1, 3, 4, 4, 4)], [(1, 3, 8, 8, 8)], {"mode": "trilinear"}, Counts(mul=12_288, add=12_288)),
    ("Upsample", [(1, 3, 8, 8), (4,)], [(1, 3, 16, 16)], {"mode": "bilinear"}, Counts(mul=3072, add=3072)),
    # Upper bounds.
    ("TopK", [(1, 1000), (1,)], [(1, 5), (1, 5)], {}, Counts(cmp=3000)),
    (
        "NonMaxSuppression",
        [(2, 10, 4), (2, 3, 10)],
        [(4, 3)],
        {},
        Counts(cmp=2210, add=1120, mul=290, div=270),
    ),
    (
        "NonMaxSuppression",
        [(2, 10, 4), (2, 3, 10), (1,), (1,), (1,)],
        [(4, 3)],
        {"center_point_box": 1},
        Counts(cmp=2190, add=1200, mul=290, div=310),
    ),
    ("NonZero", [(3, 4)], [(2, 7)], {}, Counts(cmp=12)),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "expected"), ROWS)
def test_row(op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], expected: Counts) -> None:
    assert cost(op, inputs, outputs, **attrs) == expected


def test_training_mode_costs_its_statistics() -> None:
    shapes: Shapes = [(2, 64, 7, 7), *[(64,)] * 4]
    inference = cost("BatchNormalization", shapes, [(2, 64, 7, 7)])
    training = cost("BatchNormalization", shapes, [(2, 64, 7, 7), (64,), (64,)], training_mode=1)
    assert training == cost("BatchNormalization", shapes, [(2, 64, 7, 7), *[(64,)] * 4], version=7)
    assert training == inference + Counts(add=3, mul=1) * 6272 + Counts(div=2, mul=4, add=2) * 64


def test_statistics_per_position_of_old_batch_normalization() -> None:
    """With spatial = 0 (before opset 9) every position has its own scale."""
    counts = cost("BatchNormalization", [(2, 8, 3, 3), *[(8, 3, 3)] * 4], [(2, 8, 3, 3)], version=7, spatial=0)
    assert counts == Counts(mul=144 + 72, add=144 + 2 * 72, sqrt=72, div=72)


def test_old_softmax_normalises_everything_from_its_axis_on() -> None:
    for version in (1, 11):
        assert cost("LogSoftmax", [(2, 3, 4)], [(2, 3, 4)], version=version).log == 2
        assert cost("LogSoftmax", [(2, 3, 4)], [(2, 3, 4)], version=version, axis=2).log == 6
    assert cost("LogSoftmax", [(2, 3, 4)], [(2, 3, 4)]).log == 6
    assert cost("LogSoftmax", [(2, 3, 4)], [(2, 3, 4)], axis=1).log == 8


def test_batch_normalization_without_parameters_still_folds_its_channels() -> None:
    x: Shape = (2, 8, 3, 3)
    assert cost("BatchNormalization", [x], [x]) == cost("BatchNormalization", [x, *[(8,)] * 4], [x])


# Laws.

BATCHED: list[tuple[str, Callable[[int], Shapes], Callable[[int], Shapes], dict[str, Any]]] = [
    ("Conv", lambda n: [(n, 3, 9, 9), (8, 3, 3, 3), (8,)], lambda n: [(n, 8, 7, 7)], {}),
    ("ConvTranspose", lambda n: [(n, 3, 9, 9), (3, 8, 3, 3), (8,)], lambda n: [(n, 8, 11, 11)], {}),
    ("Gemm", lambda n: [(n, 5), (5, 7), (7,)], lambda n: [(n, 7)], {"alpha": 0.5}),
    ("MatMul", lambda n: [(n, 4, 5), (5, 7)], lambda n: [(n, 4, 7)], {}),
    ("Einsum", lambda n: [(n, 4, 5), (n, 5, 7)], lambda n: [(n, 4, 7)], {"equation": "bij,bjk->bik"}),
    ("Attention", lambda n: [(n, 2, 5, 4)] * 3, lambda n: [(n, 2, 5, 4)], {"is_causal": 1, "softcap": 1.0}),
    ("Attention", lambda n: [(n, 5, 8)] * 3, lambda n: [(n, 5, 8)], {"q_num_heads": 2, "kv_num_heads": 2}),
    ("RotaryEmbedding", lambda n: [(n, 2, 5, 4)], lambda n: [(n, 2, 5, 4)], {"rotary_embedding_dim": 2}),
    ("LSTM", lambda n: [(6, n, 3), (1, 8, 3), (1, 8, 2)], lambda n: [(6, 1, n, 2)], {}),
    ("GRU", lambda n: [(n, 6, 3), (1, 6, 3), (1, 6, 2)], lambda n: [(n, 6, 1, 2)], {"layout": 1}),
    ("RNN", lambda n: [(6, n, 3), (1, 2, 3), (1, 2, 2)], lambda n: [(6, 1, n, 2)], {"clip": 1.0}),
    ("MaxPool", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 4, 4)], {"kernel_shape": [2, 2]}),
    ("AveragePool", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 4, 4)], {"kernel_shape": [2, 2]}),
    ("LpPool", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 4, 4)], {"kernel_shape": [2, 2], "p": 3}),
    ("GlobalAveragePool", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 1, 1)], {}),
    ("InstanceNormalization", lambda n: [(n, 3, 8, 8), (3,), (3,)], lambda n: [(n, 3, 8, 8)], {}),
    ("GroupNormalization", lambda n: [(n, 4, 8), (4,), (4,)], lambda n: [(n, 4, 8)], {"num_groups": 2}),
    ("LayerNormalization", lambda n: [(n, 4, 8), (8,), (8,)], lambda n: [(n, 4, 8), None, (n, 4, 1)], {}),
    ("RMSNormalization", lambda n: [(n, 4, 8), (8,)], lambda n: [(n, 4, 8)], {}),
    ("LRN", lambda n: [(n, 4, 8, 8)], lambda n: [(n, 4, 8, 8)], {"size": 3}),
    ("LpNormalization", lambda n: [(n, 4, 8)], lambda n: [(n, 4, 8)], {}),
    ("MeanVarianceNormalization", lambda n: [(n, 4, 8)], lambda n: [(n, 4, 8)], {"axes": [2]}),
    ("Softmax", lambda n: [(n, 8)], lambda n: [(n, 8)], {}),
    ("LogSoftmax", lambda n: [(n, 8)], lambda n: [(n, 8)], {}),
    ("ReduceL2", lambda n: [(n, 8)], lambda n: [(n, 1)], {"axes": [1]}),
    ("Mean", lambda n: [(n, 8), (8,)], lambda n: [(n, 8)], {}),
    ("Gelu", lambda n: [(n, 8)], lambda n: [(n, 8)], {}),
    ("Clip", lambda n: [(n, 8), (), None], lambda n: [(n, 8)], {}),
    ("Swish", lambda n: [(n, 8)], lambda n: [(n, 8)], {}),
    ("Resize", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 16, 16)], {"mode": "linear"}),
    ("GridSample", lambda n: [(n, 3, 8, 8), (n, 4, 4, 2)], lambda n: [(n, 3, 4, 4)], {"mode": "cubic"}),
    ("ScatterND", lambda n: [(9, 4), (n, 1), (n, 4)], lambda n: [(9, 4)], {"reduction": "add"}),
    ("TopK", lambda n: [(n, 50), (1,)], lambda n: [(n, 5), (n, 5)], {}),
    ("NonMaxSuppression", lambda n: [(n, 20, 4), (n, 3, 20)], lambda n: [(9, 3)], {}),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs"), BATCHED)
def test_doubling_the_batch_doubles_the_counts(op: str, inputs: Any, outputs: Any, attrs: dict[str, Any]) -> None:
    assert cost(op, inputs(6), outputs(6), **attrs) == cost(op, inputs(3), outputs(3), **attrs) * 2


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs"), BATCHED)
def test_symbols_count_like_the_numbers_they_stand_for(
    op: str, inputs: Any, outputs: Any, attrs: dict[str, Any]
) -> None:
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)
    symbolic = cost(op, inputs(n), outputs(n), **attrs)
    assert Counts(*(sympy.sympify(v).subs(n, 5) for _, v in symbolic.items())) == cost(
        op, inputs(5), outputs(5), **attrs
    )


def test_symbolic_lengths() -> None:
    sympy = pytest.importorskip("sympy")
    s, t = sympy.symbols("s t", positive=True, integer=True)
    attended = cost("Attention", [(1, 2, s, 4), (1, 2, t, 4), (1, 2, t, 4), (s, t)], [(1, 2, s, 4)])
    assert sympy.expand(attended.mac) == 16 * s * t
    assert cost("Resize", [(1, 3, s, t)], [(1, 3, 2 * s, 2 * t)], mode="linear").mul == 48 * s * t
    assert cost("TopK", [(1, s), (1,)], [(1, t), (1, t)]).cmp == s * t


def test_groups_divide_the_work_of_a_convolution() -> None:
    whole = cost("Conv", [(1, 8, 9, 9), (16, 8, 3, 3)], [(1, 16, 7, 7)])
    for group in (2, 4, 8):
        part = cost("Conv", [(1, 8, 9, 9), (16, 8 // group, 3, 3)], [(1, 16, 7, 7)], group=group)
        assert part * group == whole


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolution_is_the_convolution_of_the_swapped_shapes(group: int) -> None:
    small, large, weight = (2, 8, 5, 5), (2, 6, 11, 11), (8, 6 // group, 3, 3)
    assert cost("ConvTranspose", [small, weight], [large]) == cost("Conv", [large, weight], [small])


def test_one_product_under_four_names() -> None:
    product = cost("MatMul", [(3, 4), (4, 5)], [(3, 5)])
    assert product == cost("Gemm", [(3, 4), (4, 5)], [(3, 5)])
    assert product == cost("Einsum", [(3, 4), (4, 5)], [(3, 5)], equation="ij,jk->ik")
    assert product == cost("Conv", [(3, 4, 1), (5, 4, 1)], [(3, 5, 1)])
    assert cost("Gemm", [(3, 4), (4, 5), (5,)], [(3, 5)]) == product + cost("Add", [(3, 5), (5,)], [(3, 5)])


def test_one_pooling_under_three_names() -> None:
    x, y = (2, 3, 8, 8), (2, 3, 1, 1)
    for kind, reduction in (("Average", "ReduceMean"), ("Max", "ReduceMax"), ("Lp", "ReduceL2")):
        whole = cost(f"Global{kind}Pool", [x], [y])
        assert whole == cost(f"{kind}Pool", [x], [y], kernel_shape=[8, 8])
        assert whole == cost(reduction, [x], [y], axes=[2, 3])


def test_attention_is_its_parts() -> None:
    q, k, scores = (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 5, 7)
    parts = [
        cost("Mul", [q, ()], [q]),
        cost("Mul", [k, ()], [k]),
        cost("MatMul", [q, (2, 3, 4, 7)], [scores]),
        cost("Softmax", [scores], [scores]),
        cost("MatMul", [scores, k], [q]),
    ]
    plain = sum(parts, Counts())
    assert cost("Attention", [q, k, k], [q]) == plain
    assert cost("Attention", [q, k, k], [q], is_causal=1) == plain + cost("Add", [scores, (5, 7)], [scores])
    assert cost("Attention", [(2, 5, 12), (2, 7, 12), (2, 7, 12)], [(2, 5, 12)], q_num_heads=3, kv_num_heads=3) == plain


def test_two_directions_cost_twice_one() -> None:
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        once = cost(op, [(5, 2, 3), (1, gates * 4, 3), (1, gates * 4, 4)], [(5, 1, 2, 4)])
        twice = cost(op, [(5, 2, 3), (2, gates * 4, 3), (2, gates * 4, 4)], [(5, 2, 2, 4)], direction="bidirectional")
        assert twice == once * 2


# What every row must have.


def test_no_operator_in_two_families() -> None:
    assert sum(map(len, FAMILIES.values())) == len(OPERATORS)


#: The domains of the standard, and every operator that any version of them has.
#: What onnxruntime adds to ONNX's own domain.
ADDED = {"SimplifiedLayerNormalization"}

STANDARD = {"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"}
SCHEMAS = {
    f"{s.domain}::{s.name}" if s.domain else s.name
    for s in onnx.defs.get_all_schemas_with_history()
    if s.domain in STANDARD
}


def test_rows_name_onnx_operators_and_say_what_they_count() -> None:
    for op, row in OPERATORS.items():
        if op not in {*FAMILIES["early"], *ADDED} and op.rpartition("::")[0] in STANDARD:
            assert op in SCHEMAS or onnx.defs.onnx_opset_version() < 28, f"{op}: the newest came with opset 28"
        assert row.formula == row.formula.strip() != "", op
        assert ("at most" in row.formula or op in ("NonZero", "Compress")) == (row.claim == "bound"), op
        if row.claim == "nothing":
            assert count(node(op, [], [])) == Counts(), op


def test_every_operator_of_the_standard_is_ruled_or_unknown_on_purpose() -> None:
    assert SCHEMAS - OPERATORS.keys() <= NOT_RULED.keys()
    assert not NOT_RULED.keys() & OPERATORS.keys()


@pytest.mark.parametrize("op", [*NOT_RULED, "MyOp", "acme::Conv"])
def test_operator_without_a_rule_is_unknown_and_not_free(op: str) -> None:
    assert count(node(op, [(1, 2)], [(1, 2)])) is None


# Errors.

MALFORMED: list[tuple[str, Shapes, Shapes, dict[str, Any], type[FlopwiseError], str]] = [
    ("MatMul", [(2, 3)], [None], {}, ShapeError, "MatMul 'matmul' has no output 0"),
    ("MatMul", [(), (3,)], [(3,)], {}, ShapeError, "MatMul 'matmul': 'x0' of shape () has no axis -1"),
    ("MaxPool", [(1, 2, 4)], [(1, 2, 2)], {}, ShapeError, "MaxPool 'maxpool' has no attribute 'kernel_shape'"),
    ("Einsum", [(2, 3)], [(2,)], {"equation": "ij,jk->ik"}, ShapeError, "'ij,jk' has 2 terms for 1 operands"),
    ("Einsum", [(2, 3, 4)], [(2,)], {"equation": "ij->i"}, ShapeError, "'ij' does not fit 'x0' of shape (2, 3, 4)"),
    (
        "LSTM",
        [(5, 1, 3), (1, 8, 3), (1, 8, 2)],
        [None],
        {"activations": ["Cube"] * 3},
        ModelError,
        "unknown activation in",
    ),
    ("LSTM", [(5, 1, 3), (1, 8, 3), (1, 8, 2)], [None], {"activations": ["Relu"]}, ModelError, "3 activations per"),
    ("Resize", [(1, 2, 4)], [(1, 2, 8)], {"mode": "sinc"}, ShapeError, "unknown mode 'sinc'"),
    ("Resize", [(2, 4)], [(1, 2, 8)], {"mode": "linear"}, ShapeError, "differ in rank"),
    ("LRN", [(1, 2, 4)], [(1, 2, 4)], {}, ShapeError, "LRN 'lrn' has no attribute 'size'"),
    ("RotaryEmbedding", [(1, 5, 8)], [(1, 5, 8)], {"rotary_embedding_dim": 2}, ShapeError, "num_heads"),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "error", "text"), MALFORMED)
def test_error_names_the_node_and_what_is_wrong(
    op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], error: type[FlopwiseError], text: str
) -> None:
    with pytest.raises(error) as caught:
        cost(op, inputs, outputs, **attrs)
    assert text in str(caught.value)
    assert op.lower() in str(caught.value)


def test_antialias_asks_for_numbers() -> None:
    sympy = pytest.importorskip("sympy")
    s = sympy.Symbol("s")
    with pytest.raises(ShapeError, match="--dim"):
        cost("Resize", [(1, 1, s)], [(1, 1, 2 * s)], mode="linear", antialias=1)


def test_damaged_nodes_are_counted_or_refused_but_never_crash() -> None:
    for shape in (None, (), (2,), (2, 2), (2, 2, 2), (2, 2, 2, 2)):
        for operands in (0, 1, 2, 8):
            tensors = tuple(Tensor(f"t{i}", shape, None) for i in range(operands))
            for op in OPERATORS:
                with contextlib.suppress(FlopwiseError):
                    assert count(Node(op, "damaged", tensors, tensors[:3])) is not None, op


@pytest.mark.parametrize(("effect", "home"), [("bodies", "control"), ("shape query", "movement")])
def test_readers_load_one_family_for_an_effect(effect: Any, home: str) -> None:
    """Who asks a file for its operators of an effect would overlook those of another one."""
    standard = {op for op in with_effect(effect) if "::" not in op}
    assert with_effect(effect, home) == standard
