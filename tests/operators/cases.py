"""Small applications of every operator, and where the right values of each come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.operators import cases_beyond_networks, cases_of_caffe, cases_of_signals, cases_quantized
from tests.operators.arrays import Input, flags, given, mask, positive, real, reference, whole
from tests.operators.case import Case, case, label

from flopwise.operators.tables import OPERATORS

__all__ = ["BOUNDED", "CASES", "Case", "case", "label"]


def linear_cases() -> Iterator[Case]:
    yield case("Conv", real(2, 3, 7), real(4, 3, 3))
    yield case("Conv", real(1, 4, 6, 5), real(6, 2, 3, 2), real(6), group=2, pads=[1, 0, 1, 1], strides=[2, 1])
    yield case("Conv", real(1, 3, 7, 7), real(3, 1, 3, 3), real(3), group=3, dilations=[2, 2], pads=[2, 2, 2, 2])
    yield case("Conv", real(1, 2, 3, 4, 3), real(2, 2, 2, 2, 2), pads=[0, 1, 0, 0, 1, 0])
    yield case("ConvTranspose", real(2, 3, 4), real(3, 2, 3))
    yield case("ConvTranspose", real(1, 4, 3, 3), real(4, 2, 4, 4), real(2), strides=[2, 2], pads=[1, 1, 1, 1])
    x, w = real(1, 4, 3, 2), real(4, 3, 2, 3)
    halves = [reference("ConvTranspose", [Input(x.array[:, i : i + 2]), Input(w.array[i : i + 2])], 1) for i in (0, 2)]
    grouped = [np.concatenate([half[0] for half in halves], axis=1)]
    yield Case("ConvTranspose", (x, w), {"group": 2}, expected=lambda *_: grouped)
    yield case("MatMul", real(3, 4), real(4, 5))
    yield case("MatMul", real(2, 1, 3, 4), real(5, 4, 2))
    yield case("MatMul", real(4), real(4))
    yield case("MatMul", real(4), real(2, 4, 3))
    yield case("MatMul", real(2, 3, 4), real(4))
    yield case("Gemm", real(3, 4), real(4, 5))
    yield case("Gemm", real(4, 3), real(5, 4), real(5), transA=1, transB=1)
    yield case("Gemm", real(3, 4), real(4, 5), real(3, 1), alpha=0.5, beta=2.0)
    yield case("Gemm", real(3, 4), real(4, 5), alpha=2.0, beta=2.0)
    for equation, *shapes in (
        ("ij,jk->ik", (3, 4), (4, 2)),
        ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
        ("i,j->ij", (3,), (4,)),
        ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        ("ij,ij->ij", (2, 3), (2, 3)),
        ("ij,k->k", (2, 3), (4,)),
        ("ijk,k->i", (2, 3, 4), (4,)),
        ("bij,kj->bk", (2, 3, 4), (5, 4)),
        ("ij,j->ij", (2, 3), (3,)),
        ("ii,ij,jkl->k", (2, 2), (2, 3), (3, 4, 2)),
        ("bi,ir,rs,so->bo", (2, 4), (4, 2), (2, 3), (3, 5)),
        ("bcln,bcsn,bcls,bcsp->bclp", (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 3, 5), (1, 2, 5, 2)),
        ("...i,...j,ij->...", (2, 1, 3), (4, 2), (3, 2)),
        ("ij,ij,ij->", (2, 3), (2, 3), (2, 3)),
        ("ab,ab,ab,ab->a", (2, 3), (2, 3), (2, 3), (2, 3)),
        ("ij->i", (3, 4)),
        ("ij->ji", (3, 4)),
        ("ii->i", (3, 3)),
        ("...i->...", (2, 3, 4)),
    ):
        yield case("Einsum", *(real(*s) for s in shapes), equation=equation)


def attention_cases() -> Iterator[Case]:
    yield case("Attention", real(2, 2, 3, 4), real(2, 2, 5, 4), real(2, 2, 5, 6))
    yield case("Attention", real(2, 2, 3, 4), real(2, 2, 3, 4), real(2, 2, 3, 4), is_causal=1, scale=0.7, softcap=2.0)
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    flat = real(2, 3, 8), real(2, 5, 4), real(2, 5, 6)
    yield case("Attention", *flat, real(3, 5), **heads)
    yield case("Attention", *flat, mask(2, 1, 3, 5), **heads)
    yield case("Attention", *flat, real(4, 3, 5), is_causal=1, **heads)
    past = real(2, 2, 4, 2), real(2, 2, 4, 3)
    yield case("Attention", *flat, None, *past, outputs=3, is_causal=1, **heads)
    yield case("Attention", *flat, mask(3, 9), *past, outputs=3, **heads)
    tables = real(7, 2), real(7, 2)
    yield case("RotaryEmbedding", real(2, 3, 5, 4), *tables, given([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]]))
    yield case("RotaryEmbedding", real(2, 3, 5, 4), real(2, 5, 2), real(2, 5, 2), interleaved=1)
    partial = {"num_heads": 2, "rotary_embedding_dim": 4}
    yield case("RotaryEmbedding", real(2, 5, 12), real(2, 5, 2), real(2, 5, 2), **partial)
    yield case("RotaryEmbedding", real(2, 3, 5, 8), real(2, 5, 2), real(2, 5, 2), rotary_embedding_dim=4)


def recurrent_cases() -> Iterator[Case]:
    """Input size 3, hidden size 2, 3 steps, batch 2."""
    x, inputs, hidden = real(3, 2, 3), 3, 2
    for op, gates, outputs in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 2)):

        def weights(directions: int, gates: int = gates) -> list[Input]:
            return [
                real(directions, gates * hidden, inputs),
                real(directions, gates * hidden, hidden),
                real(directions, 2 * gates * hidden),
            ]

        w, r, b = weights(1)
        per = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        yield case(op, x, w, r, outputs=outputs, hidden_size=hidden)
        yield case(op, x, w, r, b, None, real(1, 2, 2), outputs=outputs, hidden_size=hidden)
        yield case(op, real(2, 4, 3), w, r, b, outputs=outputs, hidden_size=hidden, layout=1)
        both = {"hidden_size": hidden, "direction": "bidirectional"}
        yield case(op, x, *weights(2), outputs=outputs, **both)
        if op != "RNN":
            yield case(op, x, w, r, b, outputs=outputs, hidden_size=hidden, direction="reverse")
        # onnx's reference implementation knows neither other activations nor clip nor coupled gates.
        yield Case(op, (x, w, r, b), {"hidden_size": hidden, "clip": 0.3}, outputs=outputs, expected="onnxruntime")
        for names, alpha, beta in (
            (["Relu", "Softsign", "Elu"], [], []),
            (["Softplus", "HardSigmoid", "Relu"], [], []),
            (["LeakyRelu", "ThresholdedRelu", "Tanh"], [0.01, 1.0], []),
            (["Affine", "ScaledTanh", "Tanh"], [1.0, 1.0], [0.0, 1.0]),
        ):
            attrs = {"hidden_size": hidden, "activations": names[:per]}
            attrs |= {"activation_alpha": alpha[:per]} if alpha else {}
            attrs |= {"activation_beta": beta[:per]} if beta else {}
            yield Case(op, (x, w, r, b), attrs, outputs=outputs, expected="onnxruntime")
        named = [*["Sigmoid", "Tanh", "Softsign"][:per], *["HardSigmoid", "Relu", "Tanh"][:per]]
        attrs = {**both, "activations": named}
        yield Case(op, (x, *weights(2)), attrs, outputs=outputs, expected="onnxruntime")
        if op == "LSTM":
            yield case(op, x, w, r, b, None, None, real(1, 2, 2), real(1, 6), outputs=3, hidden_size=hidden)
            coupled = {"hidden_size": hidden, "input_forget": 1}
            peeping = (x, w, r, b, None, None, None, real(1, 6))
            yield Case(op, peeping, coupled, outputs=3, expected="onnxruntime")
        if op == "GRU":
            yield case(op, x, w, r, b, outputs=2, hidden_size=hidden, linear_before_reset=1)
            yield case(op, x, w, r, outputs=2, hidden_size=hidden, linear_before_reset=1)


def pooling_cases() -> Iterator[Case]:
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield case(op, real(2, 3, 8), kernel_shape=[3], strides=[2])
        yield case(op, real(1, 2, 6, 5), kernel_shape=[3, 2], strides=[2, 1])
        yield case(op, real(1, 2, 4, 4, 4), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    yield case("MaxPool", real(1, 2, 6, 6), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    yield case("MaxPool", real(1, 2, 6, 6), kernel_shape=[2, 2], dilations=[2, 2])
    yield case("AveragePool", real(1, 2, 6, 6), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    yield case("LpPool", real(1, 2, 6, 6), kernel_shape=[2, 2], p=1)
    yield case("LpPool", real(1, 2, 6, 6), kernel_shape=[2, 2], p=3)
    yield case("GlobalMaxPool", real(2, 3, 4, 5))
    yield case("GlobalAveragePool", real(2, 3, 4, 5))
    for p in (1, 2, 3):
        x = real(2, 3, 4, 5)
        norm = np.power(np.power(np.abs(x.array), p).sum((2, 3), keepdims=True), 1 / p)
        yield Case("GlobalLpPool", (x,), {"p": p}, expected=lambda *_, norm=norm: [norm])


def _mean_variance(x: Any, axes: tuple[int, ...]) -> list[Any]:
    """onnx's reference implementation takes float32 alone."""
    return [(x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)]


def _local_response(x: Any, size: int, alpha: float, beta: float, bias: float) -> list[Any]:
    """onnx's reference implementation normalises as many channels as the batch is large."""
    before, channels = (size - 1) // 2, x.shape[1]
    total = np.stack(
        [(x[:, max(0, c - before) : min(channels, c - before + size)] ** 2).sum(1) for c in range(channels)], 1
    )
    return [x / (bias + alpha / size * total) ** beta]


def normalization_cases() -> Iterator[Case]:
    channels = real(3), real(3), real(3), positive(3)
    yield case("BatchNormalization", real(2, 3, 4, 5), *channels)
    yield case("BatchNormalization", real(4, 3), *channels, epsilon=0.1)
    yield case("BatchNormalization", real(2, 3, 4), *channels, outputs=3, training_mode=1)
    yield case("InstanceNormalization", real(2, 3, 4, 5), real(3), real(3))
    yield case("GroupNormalization", real(2, 4, 3, 3), real(4), real(4), num_groups=2)
    yield case("GroupNormalization", real(2, 4, 5), real(4), real(4), num_groups=4, epsilon=0.1)
    yield case("LayerNormalization", real(2, 3, 4), real(4), real(4))
    yield case("LayerNormalization", real(2, 3, 4), real(3, 4), axis=1)
    stashed = Case("LayerNormalization", (real(2, 3, 4), real(4), real(4)), outputs=3, told={"outputs": 3})
    yield stashed
    yield case("RMSNormalization", real(2, 3, 4), real(4))
    yield case("RMSNormalization", real(2, 3, 4), real(3, 4), axis=-2)
    for size in (1, 3, 4):
        attrs = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 2.0}
        yield Case("LRN", (real(1, 5, 2, 2),), attrs, expected=lambda x, attrs=attrs: _local_response(x, **attrs))
    yield case("LpNormalization", positive(2, 3, 4))
    yield case("LpNormalization", positive(2, 3, 4), axis=1, p=1)
    op = "MeanVarianceNormalization"
    yield Case(op, (real(2, 3, 4, 5),), expected=lambda x: _mean_variance(x, (0, 2, 3)))
    yield Case(op, (real(2, 3, 4),), {"axes": [2]}, expected=lambda x: _mean_variance(x, (2,)))
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield case(op, real(2, 3, 4))
        yield case(op, real(2, 3, 4), axis=1)
    for op, finish in (("Softmax", np.asarray), ("LogSoftmax", np.log)):
        for axis in (1, 2):

            def matrix(x: Any, axis: int = axis, finish: Any = finish) -> list[Any]:
                e = np.exp(x.reshape(int(np.prod(x.shape[:axis])), -1))
                return [finish(e / e.sum(1, keepdims=True)).reshape(x.shape)]

            yield Case(op, (real(2, 3, 4),), {"axis": axis}, 11, expected=matrix, told={"version": 11})


def reduction_cases() -> Iterator[Case]:
    for op in OPERATORS:
        if not op.startswith("Reduce"):
            continue
        yield case(op, positive(2, 3, 4))
        yield case(op, positive(2, 3, 4), given([1]), keepdims=0)
        yield case(op, positive(2, 3, 4), given([0, -1]))
        yield case(op, positive(2, 3, 4), given([]), noop_with_empty_axes=1)
        yield case(op, positive(2, 3), noop_with_empty_axes=1)
        yield case(op, positive(2, 3, 4), given([2]), noop_with_empty_axes=1)
        yield case(op, positive(2, 3, 4), axes=[1, 2], version=12 if op == "ReduceSum" else 17)
    for op in ("ArgMax", "ArgMin"):
        yield case(op, real(2, 3, 4), axis=1)
        yield case(op, real(2, 3, 4), axis=-1, keepdims=0)
    yield case("CumSum", real(2, 3, 4), given(1))
    yield case("CumSum", real(2, 3, 4), given(2), exclusive=1, reverse=1)
    for op in ("Sum", "Mean", "Max", "Min"):
        yield case(op, real(2, 3))
        yield case(op, real(2, 3), real(3))
        # onnx's reference implementation of Mean cannot broadcast its first input.
        shapes = [(4, 2, 3), (3,), (2, 1)] if op == "Mean" else [(2, 1), (3,), (4, 1, 1)]
        yield case(op, *(real(*shape) for shape in shapes))


def pointwise_cases() -> Iterator[Case]:
    binary = {"Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
    for op in sorted(binary):
        yield case(op, positive(2, 3), positive(2, 3))
        yield case(op, positive(2, 1, 3), positive(4, 1))
    unary = """
        Sqrt Reciprocal Abs Neg Sign Floor Ceil Round Exp Log Erf Tanh Sin Cos Tan Asin Acos Atan Sinh Cosh
        Asinh Atanh Relu Sigmoid Softplus Softsign HardSwish Mish IsNaN IsInf LeakyRelu Elu Selu Celu ThresholdedRelu
        HardSigmoid Shrink Gelu Swish
    """
    for op in unary.split():
        inputs = positive if op in ("Sqrt", "Log", "Asin", "Acos", "Atanh") else real
        yield case(op, inputs(2, 3, 4))
        if op != "Softsign":  # onnx's reference implementation refuses a scalar
            yield case(op, inputs())
    yield case("Acosh", Input(1.0 + positive(3, 4).array))
    yield case("LeakyRelu", real(3, 4), alpha=0.3)
    yield case("Elu", real(3, 4), alpha=0.5)
    yield case("Selu", real(3, 4), alpha=2.0, gamma=3.0)
    yield case("Celu", real(3, 4), alpha=2.0)
    yield case("ThresholdedRelu", real(3, 4), alpha=0.5)
    yield case("HardSigmoid", real(3, 4), alpha=0.3, beta=0.6)
    yield case("Shrink", real(3, 4), lambd=0.4, bias=0.2)
    yield case("Swish", real(3, 4), alpha=1.7)
    yield case("Gelu", real(3, 4), approximate="tanh")
    yield case("PRelu", real(2, 3, 4), real(3, 1))
    yield case("Clip", real(3, 4), Input(np.array(-0.5)), Input(np.array(0.5)))
    yield case("Clip", real(3, 4), None, Input(np.array(0.5)))
    yield case("Clip", real(3, 4), Input(np.array(-0.5)))
    yield case("Clip", real(3, 4))
    yield case("Clip", real(3, 4), version=6, min=-0.5, max=0.5)
    yield case("Mod", whole(2, 3), whole(3))
    yield case("Mod", real(2, 3), positive(2, 3), fmod=1)
    yield case("Where", mask(2, 3), real(2, 3), real(3))
    for op in ("And", "Or", "Xor"):
        yield case(op, flags(2, 3), flags(4, 1, 1))
    yield case("Not", flags(2, 3))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield case(op, whole(2, 3), whole(3))
    yield case("BitwiseNot", Input(np.arange(6).reshape(2, 3)))
    yield case("BitShift", whole(2, 3), whole(2, 3), direction="LEFT")
    yield case("BitShift", whole(2, 3), whole(3), direction="RIGHT")


def resize_cases() -> Iterator[Case]:
    for mode in ("nearest", "linear", "cubic"):
        yield case("Resize", real(1, 2, 4), None, None, given([1, 2, 7]), mode=mode)
        yield case("Resize", real(1, 2, 3, 4), None, None, given([1, 2, 5, 6]), mode=mode)
        yield case("Resize", real(1, 2, 6, 4), None, given([1, 1, 0.5, 1], np.float64), mode=mode)
        yield case("Resize", real(1, 1, 2, 3), None, None, given([1, 1, 2, 3]), mode=mode)
    yield case("Resize", real(1, 1, 2, 3, 2), None, None, given([1, 1, 3, 4, 5]), mode="linear")
    for mode in ("linear", "cubic"):
        yield case("Resize", real(1, 1, 9, 5), None, None, given([1, 1, 4, 8]), mode=mode, antialias=1)
        yield case("Resize", real(1, 1, 12), None, None, given([1, 1, 3]), mode=mode, antialias=1)
    yield case("Upsample", real(1, 2, 3), given([1, 1, 2], np.float64), version=9, mode="nearest")
    zoom = given([1, 1, 2, 2], np.float64)
    x = real(1, 1, 2, 3)
    bilinear = reference(
        "Resize", [x, None, zoom], 1, {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
    )
    yield Case("Upsample", (x, zoom), {"mode": "linear"}, 9, expected=lambda *_: bilinear)
    places = Input(np.random.default_rng(1).uniform(-1.2, 1.2, (2, 2, 3, 2)))
    for mode in ("nearest", "linear", "cubic"):
        for corners in (0, 1):
            yield case("GridSample", real(2, 3, 4, 5), places, mode=mode, align_corners=corners)
    yield case("GridSample", real(2, 1, 4, 5), places, mode="linear", padding_mode="border")
    x = real(2, 1, 4, 5)
    cubic = reference("GridSample", [x, places], 1, {"mode": "cubic"})
    yield Case("GridSample", (x, places), {"mode": "bicubic"}, 16, expected=lambda *_: cubic)
    volume = Input(np.random.default_rng(2).uniform(-1.0, 1.0, (1, 2, 1, 2, 3)))
    yield case("GridSample", real(1, 2, 3, 4, 3), volume, mode="linear")


def selection_cases() -> Iterator[Case]:
    for reduction in ("none", "add", "mul", "min", "max"):
        yield case(
            "ScatterElements", real(3, 4), given([[0, 2, 2], [1, 1, 3]]), real(2, 3), axis=1, reduction=reduction
        )
        yield case("ScatterND", real(4, 3), given([[0], [2], [2]]), real(3, 3), reduction=reduction)
        yield case("ScatterND", real(4, 3), given([[0, 1], [2, 2]]), real(2), reduction=reduction)


FAMILIES = (
    linear_cases,
    attention_cases,
    recurrent_cases,
    pooling_cases,
    normalization_cases,
    reduction_cases,
    pointwise_cases,
    resize_cases,
    selection_cases,
    *cases_quantized.FAMILIES,
    *cases_of_signals.FAMILIES,
    *cases_beyond_networks.FAMILIES,
    *cases_of_caffe.FAMILIES,
)
CASES = [one for family in FAMILIES for one in family()]

#: Operators whose work depends on the data.
BOUNDED = [
    case("TopK", real(3, 20), given([4]), axis=1),
    case("TopK", real(15, 2), given([15]), axis=0, largest=0),
    case("Unique", whole(30)),
    case("Unique", real(4, 5)),
    case("NonZero", Input(np.array([[0.0, 1.0], [2.0, 0.0]]))),
    case("Compress", real(2, 3), flags(6)),
    case(
        "NonMaxSuppression", positive(2, 7, 4), positive(2, 3, 7), given([7]), given([0.5], float), given([0.2], float)
    ),
    case(
        "NonMaxSuppression",
        positive(1, 9, 4),
        positive(1, 1, 9),
        given([9]),
        given([1.0], float),
        given([0.0], float),
        center_point_box=1,
    ),
    *(
        one
        for family in (*cases_of_signals.BOUNDED, *cases_beyond_networks.BOUNDED, *cases_of_caffe.BOUNDED)
        for one in family()
    ),
]
