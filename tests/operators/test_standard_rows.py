"""The remaining operators of the standard: expected counts as plain numbers, laws, and models that make no sense."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from tests.operators.nodes import cost

from flopwise.errors import FlopwiseError, ModelError, ShapeError
from flopwise.graph import Shape
from flopwise.operators.counts import Counts

Shapes: TypeAlias = "list[Shape | None]"
_ML, _TRAINING = "ai.onnx.ml::", "ai.onnx.preview.training::"

ROWS: list[tuple[str, Shapes, Shapes, dict[str, Any], Counts]] = [
    # Speech: 30 s at 16 kHz in frames of 400 samples every 160, as Whisper cuts them.
    (
        "STFT",
        [(1, 480_400, 1), (), (400,)],
        [(1, 3001, 201, 2)],
        {},
        Counts(mul=4160 * 3001 + 1_200_400, add=5600 * 3001),
    ),
    ("DFT", [(1, 400, 1)], [(1, 201, 2)], {"onesided": 1}, Counts(mul=4160, add=5600)),
    ("DFT", [(1, 8, 2)], [(1, 8, 2)], {"inverse": 1}, Counts(mul=48, add=72, div=16)),
    ("HannWindow", [()], [(400,)], {}, Counts(mul=1602, add=802, trig=800, div=1)),
    (
        "MelWeightMatrix",
        [(), (), (), (), ()],
        [(5, 3)],
        {},
        Counts(mul=15 + 2, add=13 + 6 + 10 + 4, div=13 + 10 + 3, cmp=6 + 5, pow=5, log=2),
    ),
    # Detection.
    (
        "RoiAlign",
        [(1, 256, 50, 50), (100, 4), (100,)],
        [(100, 256, 7, 7)],
        {"output_height": 7, "output_width": 7, "sampling_ratio": 2},
        Counts(add=20_070_400 + 157_400, mul=20_070_400 + 157_200, div=39_400 + 1_254_400, cmp=196_400),
    ),
    (
        "MaxRoiPool",
        [(1, 4, 14, 14), (3, 5)],
        [(3, 4, 7, 7)],
        {"pooled_shape": [7, 7]},
        Counts(mul=600, add=600, div=6, cmp=5292 + 1764 + 18),
    ),
    # A deformable convolution costs its convolution, the samples and their places.
    (
        "DeformConv",
        [(1, 8, 6, 6), (16, 8, 3, 3), (1, 18, 4, 4), (16,), (1, 9, 4, 4)],
        [(1, 16, 4, 4)],
        {},
        Counts(mac=18_432, add=4608 + 256 + 864, mul=4608 + 576 + 1152, cmp=288),
    ),
    ("AffineGrid", [(2, 2, 3), (4,)], [(2, 10, 10, 2)], {}, Counts(mac=1200)),
    ("Col2Im", [(1, 27, 100), (2,), (2,)], [(1, 3, 12, 12)], {}, Counts(add=2700)),
    ("Det", [(5, 3, 3)], [(5,)], {}, Counts(mac=25, div=15, mul=15, bit=45, cmp=30)),
    # A gated delta network: 2 key heads of 16, values of 32, 4 query heads.
    (
        "LinearAttention",
        [(1, 10, 64), (1, 10, 32), (1, 10, 64), None, (1, 10, 2), (1, 10, 2)],
        [(1, 10, 128), (1, 2, 16, 32)],
        {"q_num_heads": 4, "kv_num_heads": 2},
        Counts(mac=40_960, add=10_240 + 640, mul=10_240 + 640 + 1280, exp=20),
    ),
    (
        "CausalConvWithState",
        [(1, 64, 10), (64, 1, 4), (64,)],
        [(1, 64, 10), (1, 64, 3)],
        {"activation": "silu"},
        Counts(mac=2560, add=1280, mul=640, bit=640, exp=640, div=640),
    ),
    ("SwiGLU", [(2, 5), (2, 5)], [(2, 5)], {}, Counts(mul=30, bit=10, exp=10, add=10, div=10)),
    # Losses.
    ("NegativeLogLikelihoodLoss", [(8, 10), (8,)], [()], {}, Counts(bit=8, add=8, div=1)),
    (
        "SoftmaxCrossEntropyLoss",
        [(8, 10), (8,), (10,)],
        [()],
        {"reduction": "sum"},
        Counts(cmp=80, add=248, exp=80, log=8, bit=8, mul=8),
    ),
    # Random numbers.
    ("RandomNormal", [], [(2, 3)], {}, Counts()),
    ("RandomUniform", [], [(2, 3)], {"low": -1.0}, Counts(mul=6, add=6)),
    ("Multinomial", [(2, 100)], [(2, 5)], {"sample_size": 5}, Counts(cmp=200 + 70, add=400, exp=200, mul=10)),
    # Optimizers: one step on 10 weights.
    (
        f"{_TRAINING}Adam",
        [(), (), *[(10,)] * 4],
        [(10,)] * 3,
        {},
        Counts(mul=81, add=52, div=11, sqrt=11, pow=2, cmp=1),
    ),
    (f"{_TRAINING}Momentum", [(), (), *[(10,)] * 3], [(10,)] * 2, {"mode": "nesterov"}, Counts(mul=50, add=40, cmp=1)),
    # Classical machine learning: 100 samples of 4 features.
    (
        f"{_ML}LinearClassifier",
        [(100, 4)],
        [(100,), (100, 3)],
        {
            "coefficients": [0.5] * 12,
            "intercepts": [0.0] * 3,
            "classlabels_ints": [0, 1, 2],
            "post_transform": "SOFTMAX",
        },
        Counts(mac=1200, add=300 + 600, cmp=300 + 300, exp=300, div=300),
    ),
    (
        f"{_ML}SVMRegressor",
        [(100, 4)],
        [(100, 1)],
        {"n_supports": 10, "kernel_type": "RBF", "rho": [0.0]},
        Counts(mac=4000 + 1000, add=4000 + 100, mul=1000, exp=1000),
    ),
    (f"{_ML}Normalizer", [(100, 4)], [(100, 4)], {"norm": "L2"}, Counts(mul=400, add=400, div=400, sqrt=100, cmp=100)),
    (f"{_ML}Scaler", [(100, 4)], [(100, 4)], {"offset": [1.0] * 4, "scale": [2.0] * 4}, Counts(add=400, mul=400)),
    # Early experiments.
    ("FC", [(2, 8), (4, 8), (4,)], [(2, 4)], {}, Counts(mac=64, add=8)),
    ("GRUUnit", [(3, 4), (3, 12)], [(3, 4)], {}, Counts(bit=12, exp=12, add=36, div=12, tanh=12, mul=24)),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "expected"), ROWS)
def test_row(op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], expected: Counts) -> None:
    assert cost(op, inputs, outputs, **attrs) == expected


# Laws.


def test_deformable_convolution_is_a_convolution_of_sampled_elements() -> None:
    """What remains is the sampling: four neighbours for each channel, kernel place and position."""
    deformed = cost("DeformConv", [(1, 8, 6, 6), (16, 8, 3, 3), (1, 18, 4, 4)], [(1, 16, 4, 4)])
    plain = cost("Conv", [(1, 8, 6, 6), (16, 8, 3, 3)], [(1, 16, 4, 4)])
    assert deformed.mac == plain.mac
    assert deformed.add - plain.add == 8 * 9 * 16 * 4 + 3 * 18 * 16


def test_causal_convolution_is_a_depthwise_convolution() -> None:
    fused = cost("CausalConvWithState", [(2, 8, 10), (8, 1, 4), (8,)], [(2, 8, 10), (2, 8, 3)])
    assert fused == cost("Conv", [(2, 8, 13), (8, 1, 4), (8,)], [(2, 8, 10)], group=8)


def test_flex_attention_is_attention() -> None:
    shapes: Shapes = [(1, 4, 3, 8), (1, 2, 5, 8), (1, 2, 5, 6)]
    flex = cost("ai.onnx.preview::FlexAttention", shapes, [(1, 4, 3, 6)])
    assert flex == cost("Attention", shapes, [(1, 4, 3, 6)])


def test_cross_entropy_is_log_softmax_and_likelihood() -> None:
    logs = cost("LogSoftmax", [(8, 10)], [(8, 10)], axis=1)
    loss = cost("NegativeLogLikelihoodLoss", [(8, 10), (8,)], [()])
    assert cost("SoftmaxCrossEntropyLoss", [(8, 10), (8,)], [()]) == logs + loss


def test_linear_models_are_one_product() -> None:
    product = cost("Gemm", [(100, 4), (4, 3), (3,)], [(100, 3)])
    model = {"coefficients": [1.0] * 12, "intercepts": [1.0] * 3}
    assert cost(f"{_ML}LinearRegressor", [(100, 4)], [(100, 3)], targets=3, **model) == product
    classes = cost(f"{_ML}LinearClassifier", [(100, 4)], [None], classlabels_ints=[0, 1, 2], **model)
    assert classes == product + Counts(cmp=300)


def test_half_a_spectrum_says_all_of_a_real_signal() -> None:
    whole = cost("DFT", [(3, 64, 1)], [(3, 64, 2)])
    assert whole == cost("DFT", [(3, 64, 1)], [(3, 33, 2)], onesided=1)
    assert whole * 2 == cost("DFT", [(3, 64, 2)], [(3, 64, 2)])


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "attrs"),
    [
        ("DFT", lambda n: [(n, 16, 1)], lambda n: [(n, 9, 2)], {"onesided": 1}),
        ("STFT", lambda n: [(n, 64, 1), (), (8,)], lambda n: [(n, 15, 5, 2)], {}),
        ("DeformConv", lambda n: [(n, 4, 6, 6), (8, 4, 3, 3), (n, 18, 4, 4)], lambda n: [(n, 8, 4, 4)], {}),
        ("Det", lambda n: [(n, 3, 3)], lambda n: [(n,)], {}),
        ("RoiAlign", lambda n: [(1, 4, 8, 8), (n, 4), (n,)], lambda n: [(n, 4, 3, 2)], {}),
        ("SoftmaxCrossEntropyLoss", lambda n: [(n, 10), (n,)], lambda n: [()], {"reduction": "sum"}),
        ("Multinomial", lambda n: [(n, 9)], lambda n: [(n, 4)], {"sample_size": 4}),
        (f"{_ML}Normalizer", lambda n: [(n, 9)], lambda n: [(n, 9)], {"norm": "L1"}),
        (f"{_ML}LinearRegressor", lambda n: [(n, 2)], lambda n: [(n, 1)], {"coefficients": [1.0, 2.0]}),
        (
            "LinearAttention",
            lambda n: [(n, 5, 8), (n, 5, 4), (n, 5, 6)],
            lambda n: [(n, 5, 12), (n, 2, 2, 3)],
            {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"},
        ),
    ],
)
def test_doubling_the_batch_doubles_the_counts_of_symbols_too(
    op: str, inputs: Any, outputs: Any, attrs: dict[str, Any]
) -> None:
    three = cost(op, inputs(3), outputs(3), **attrs)
    assert cost(op, inputs(6), outputs(6), **attrs) == three * 2
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)
    symbolic = cost(op, inputs(n), outputs(n), **attrs)
    assert Counts(*(sympy.sympify(v).subs(n, 3) for _, v in symbolic.items())) == three


def test_axis_among_symbols() -> None:
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)
    with pytest.raises(ShapeError, match="--dim"):
        cost("DFT", [(n, n, 1), None, ()], [(n, n, 2)])


def test_axis_that_is_an_input_shows_in_the_extents() -> None:
    assert cost("DFT", [(8, 16, 1), None, ()], [(8, 9, 2)], onesided=1).mul == 8 * 16 * 4
    assert cost("DFT", [(8, 16, 1), None, ()], [(5, 16, 2)], onesided=1).mul == 16 * 8 * 3
    assert cost("DFT", [(8, 16, 1), None, ()], [(8, 16, 2)]).mul == 8 * 16 * 4


def test_early_normalisation_has_means_of_each_sample() -> None:
    op, x = "MeanVarianceNormalization", (2, 3, 4, 5)
    assert cost(op, [x], [x], version=1) == cost(op, [x], [x], axes=[2, 3])
    assert cost(op, [x], [x], version=1, across_channels=1) == cost(op, [x], [x], axes=[1, 2, 3])
    assert cost(op, [x], [x], version=1, normalize_variance=0) == Counts(add=240, div=6)


# Trees.

STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "n_targets": 1,
}


def chain(depth: int) -> dict[str, Any]:
    """A tree whose every test leads to a leaf or to the next test."""
    inner = range(depth)
    return {
        "tree_roots": [0],
        "nodes_truenodeids": [*inner],
        "nodes_falsenodeids": [i + 1 for i in inner],
        "nodes_trueleafs": [1] * depth,
        "nodes_falseleafs": [0] * (depth - 1) + [1],
        "n_targets": 1,
    }


def test_deepest_path_counts() -> None:
    assert cost(f"{_ML}TreeEnsembleRegressor", [(10, 4)], [(10, 1)], **STUMP) == Counts(cmp=10, add=20)
    for depth in (1, 7, 50_000):
        counts = cost(f"{_ML}TreeEnsemble", [(10, 4)], [(10, 1)], **chain(depth))
        assert counts == Counts(cmp=10 * depth, add=10)


# Errors.

MALFORMED: list[tuple[str, Shapes, Shapes, dict[str, Any], type[FlopwiseError], str]] = [
    (f"{_ML}TreeEnsembleRegressor", [(1, 4)], [(1, 1)], {}, ShapeError, "no attribute 'nodes_treeids'"),
    (
        f"{_ML}TreeEnsembleRegressor",
        [(1, 4)],
        [(1, 1)],
        {**STUMP, "nodes_falsenodeids": [0, 0, 0]},
        ModelError,
        "a path through tree node 0 never ends",
    ),
    (
        f"{_ML}TreeEnsembleRegressor",
        [(1, 4)],
        [(1, 1)],
        {**STUMP, "nodes_falsenodeids": [9, 0, 0]},
        ModelError,
        "a branch of tree 0 leads to no node",
    ),
    (
        f"{_ML}TreeEnsembleRegressor",
        [(1, 4)],
        [(1, 1)],
        {**STUMP, "nodes_modes": ["LEAF"]},
        ModelError,
        "are not of one length",
    ),
    (
        f"{_ML}TreeEnsembleRegressor",
        [(1, 4)],
        [(1, 1)],
        {**STUMP, "aggregate_function": "MEDIAN"},
        ModelError,
        "unknown aggregate_function 'MEDIAN'",
    ),
    (f"{_ML}TreeEnsemble", [(1, 4)], [(1, 1)], {**chain(2), "tree_roots": [5]}, ModelError, "do not exist"),
    (f"{_ML}TreeEnsemble", [(1, 4)], [(1, 1)], {**chain(2), "post_transform": 9}, ModelError, "unknown post_transform"),
    (
        f"{_ML}TreeEnsemble",
        [(1, 4)],
        [(1, 1)],
        {**chain(2), "nodes_falsenodeids": [7, 0]},
        ModelError,
        "tree node 0 leads to one that does not exist",
    ),
    (
        f"{_ML}LinearRegressor",
        [(1, 4)],
        [(1, 1)],
        {"coefficients": [1.0] * 4, "post_transform": "CUBE"},
        ModelError,
        "unknown post_transform 'CUBE'",
    ),
    (f"{_ML}Normalizer", [(1, 4)], [(1, 4)], {"norm": "L7"}, ModelError, "unknown norm 'L7'"),
    (
        f"{_ML}SVMRegressor",
        [(1, 4)],
        [(1, 1)],
        {"n_supports": 2, "kernel_type": "CUBE"},
        ModelError,
        "unknown kernel_type 'CUBE'",
    ),
    (f"{_TRAINING}Adam", [(), (), (2,), (2,)], [(2,)], {}, ShapeError, "4 tensors for each optimized one"),
    (
        "LinearAttention",
        [(1, 2, 4)] * 3,
        [(1, 2, 4)],
        {"kv_num_heads": 1, "update_rule": "cubic"},
        ShapeError,
        "unknown update_rule 'cubic'",
    ),
    (
        "ai.onnx.preview::FlexAttention",
        [(1, 2, 3, 4)] * 3,
        [(1, 2, 3, 4)],
        {"score_mod": "graph"},
        ShapeError,
        "the graph in its attribute score_mod is not analysed",
    ),
    ("DeformConv", [(1, 2), (1, 2), (1, 2)], [(1, 2)], {}, ShapeError, "has no spatial axes"),
    ("DFT", [(2, 3, 1), None, ()], [(2, 3)], {}, ShapeError, "do not fit each other"),
    ("GridSample", [(1, 1, 4, 4), (1, 2, 2, 9)], [(1, 1, 2, 2)], {}, ShapeError, "2 spatial axes"),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "error", "text"), MALFORMED)
def test_error_names_the_node_and_what_is_wrong(
    op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], error: type[FlopwiseError], text: str
) -> None:
    with pytest.raises(error) as caught:
        cost(op, inputs, outputs, **attrs)
    assert text in str(caught.value)
    assert op.lower() in str(caught.value)
