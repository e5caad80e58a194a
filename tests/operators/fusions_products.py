"""Products of onnxruntime with something fused to them, and the same written with ONNX's operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.operators.fusions import Fusion, octets, real

_IMAGE = {"x": real(1, 4, 7, 6), "w": real(6, 2, 3, 3), "b": real(6)}
_CONV = "group = 2, strides = [2, 1], pads = [1, 0, 1, 2]"
_GEMM = {"x": real(3, 4), "w": real(5, 4), "b": real(5)}


def _activated(name: str, attributes: str, parts: str) -> list[Fusion]:
    """One activation behind a convolution and behind a product; ``attributes`` holds its parameters."""
    numbers = [part.partition("=")[2].strip() for part in attributes.split(",")] if attributes else []
    params = f", activation_params = [{', '.join(numbers)}]" if numbers else ""
    named = f", {attributes}" if attributes else ""
    return [
        Fusion(
            f"FusedConv, {name}",
            f'y = com.microsoft.FusedConv<{_CONV}, activation = "{name}"{params}>(x, w, b)',
            f"z = Conv<{_CONV}>(x, w, b)\n{parts}",
            _IMAGE,
        ),
        Fusion(
            f"FusedGemm, {name}",
            f'y = com.microsoft.FusedGemm<transB = 1, alpha = 0.5, activation = "{name}"{named}>(x, w, b)',
            f"z = Gemm<transB = 1, alpha = 0.5>(x, w, b)\n{parts}",
            _GEMM,
        ),
    ]


_CONVOLUTIONS = [
    *_activated("Relu", "", "y = Relu(z)"),
    *_activated("Tanh", "", "y = Tanh(z)"),
    *_activated("Sigmoid", "", "y = Sigmoid(z)"),
    *_activated("LeakyRelu", "activation_alpha = 0.25", "y = LeakyRelu<alpha = 0.25>(z)"),
    *_activated(
        "HardSigmoid",
        "activation_alpha = 0.25, activation_beta = 0.5",
        "y = HardSigmoid<alpha = 0.25, beta = 0.5>(z)",
    ),
    Fusion(
        "FusedConv, Clip",
        f'y = com.microsoft.FusedConv<{_CONV}, activation = "Clip", activation_params = [-0.5, 0.5]>(x, w)',
        f"z = Conv<{_CONV}>(x, w)\nlo = Constant<value_float = -0.5>()\nhi = Constant<value_float = 0.5>()\n"
        "y = Clip(z, lo, hi)",
        {"x": _IMAGE["x"], "w": _IMAGE["w"]},
    ),
    Fusion(
        "FusedConv, a sum",
        f'y = com.microsoft.FusedConv<{_CONV}, activation = "Relu">(x, w, b, more)',
        f"z0 = Conv<{_CONV}>(x, w, b)\nz = Add(z0, more)\ny = Relu(z)",
        {**_IMAGE, "more": real(1, 6, 4, 6)},
    ),
    Fusion(
        "NhwcFusedConv",
        f'y = com.microsoft.NhwcFusedConv<{_CONV}, activation = "Relu">(x, w, b, more)',
        f"""
            xt = Transpose<perm = [0, 3, 1, 2]>(x)
            z0 = Conv<{_CONV}>(xt, w, b)
            zt = Transpose<perm = [0, 2, 3, 1]>(z0)
            z = Add(zt, more)
            y = Relu(z)
        """,
        {"x": real(1, 7, 6, 4), "w": real(6, 2, 3, 3), "b": real(6), "more": real(1, 4, 6, 6)},
        runs=False,
    ),
    Fusion(
        "NhwcConv",
        f"y = com.microsoft.NhwcConv<{_CONV}>(x, w, b)",
        f"""
            xt = Transpose<perm = [0, 3, 1, 2]>(x)
            z = Conv<{_CONV}>(xt, w, b)
            y = Transpose<perm = [0, 2, 3, 1]>(z)
        """,
        {"x": real(1, 7, 6, 4), "w": real(6, 2, 3, 3), "b": real(6)},
        runs=False,
    ),
    Fusion(
        "ConvTransposeWithDynamicPads",
        "y = com.microsoft.ConvTransposeWithDynamicPads<strides = [2, 2]>(x, w, p, b)",
        "y = ConvTranspose<strides = [2, 2], pads = [1, 0, 0, 1]>(x, w, b)",
        {"x": real(1, 4, 5, 5), "w": real(4, 3, 3, 3), "p": np.array([1, 0, 0, 1]), "b": real(3)},
        stored=("p",),
    ),
]

_PRODUCTS = [
    Fusion(
        "FusedMatMul",
        "y = com.microsoft.FusedMatMul<transA = 1, transB = 1, alpha = 0.5>(a, b)",
        """
            at = Transpose<perm = [0, 2, 1]>(a)
            bt = Transpose<perm = [0, 2, 1]>(b)
            c = MatMul(at, bt)
            half = Constant<value_float = 0.5>()
            y = Mul(c, half)
        """,
        {"a": real(2, 4, 3), "b": real(2, 5, 4)},
    ),
    Fusion(
        "FusedMatMul, batches inside",
        "y = com.microsoft.FusedMatMul<transBatchA = 1, transA = 1>(a, b)",
        "at = Transpose<perm = [1, 2, 0]>(a)\ny = MatMul(at, b)",
        {"a": real(4, 2, 3), "b": real(2, 4, 5)},
    ),
    Fusion(
        "FusedMatMul of a vector",
        "y = com.microsoft.FusedMatMul(a, b)",
        "y = MatMul(a, b)",
        {"a": real(4), "b": real(2, 4, 5)},
    ),
    Fusion(
        "TransposeMatMul",
        "y = com.microsoft.TransposeMatMul<transA = 1>(a, b)",
        "at = Transpose<perm = [1, 0]>(a)\ny = MatMul(at, b)",
        {"a": real(4, 3), "b": real(4, 5)},
    ),
    Fusion(
        "FusedMatMulActivation",
        'y = com.microsoft.FusedMatMulActivation<transA = 1, activation = "Relu">(a, b)',
        "at = Transpose<perm = [1, 0]>(a)\nc = MatMul(at, b)\ny = Relu(c)",
        {"a": real(4, 3), "b": real(4, 5)},
        runs=False,
    ),
    Fusion(
        "GemmFastGelu",
        "y = com.microsoft.GemmFastGelu(a, b, c)",
        'd = MatMul(a, b)\ne = Add(d, c)\ny = Gelu<approximate = "tanh">(e)',
        {"a": real(2, 3, 4), "b": real(4, 5), "c": real(5)},
        runs=False,
    ),
    Fusion(
        "GemmFloat8",
        'y = com.microsoft.GemmFloat8<transB = 1, alpha = 0.5, activation = "RELU", dtype = 1>(a, b, c)',
        "d = Gemm<transB = 1, alpha = 0.5>(a, b, c)\ny = Relu(d)",
        {"a": real(3, 4), "b": real(5, 4), "c": real(5)},
        runs=False,
    ),
    Fusion(
        "MatMulInteger16",
        "y = com.microsoft.MatMulInteger16(a, b)",
        "af = Cast<to = 6>(a)\nbf = Cast<to = 6>(b)\ny = MatMul(af, bf)",
        {"a": octets(2, 4, dtype=np.int16), "b": octets(4, 5, dtype=np.int16)},
    ),
]


def _packed(rows: int, columns: int, block: int) -> tuple[dict[str, Any], Any]:
    """Random 4-bit weights as MatMulNBits takes them (columns, blocks, bytes), and the matrix (rows, columns)."""
    blocks = rows // block
    low, high = octets(columns, blocks, block // 2) % 16, octets(columns, blocks, block // 2) % 16
    scales = real(columns, blocks)
    values = np.stack([low, high], -1).reshape(columns, blocks, block).astype(np.float32) - 8
    matrix = (values * scales[..., None]).reshape(columns, rows).T
    return {"w": (low + 16 * high).astype(np.uint8), "s": scales}, np.ascontiguousarray(matrix)


_BITS, _MATRIX = _packed(64, 6, 16)
_PACKED = "K = 64, N = 6, bits = 4, block_size = 16"
_NORMED = "n = RMSNormalization<axis = -1, epsilon = 1e-5>(x, g)\n"

_NBITS = [
    Fusion(
        "MatMulNBits",
        f"y = com.microsoft.MatMulNBits<{_PACKED}>(x, w, s, , , b)",
        "z = MatMul(x, m)\ny = Add(z, b)",
        {"x": real(2, 3, 64), "b": real(6), **_BITS},
        stored=("w", "s"),
        constants={"m": _MATRIX},
    ),
    Fusion(
        "MatMulNBitsMlp",
        f'y = com.microsoft.MatMulNBitsMlp<{_PACKED}, activation = "silu">(x, , g, w, s, , w, s, b)',
        _NORMED + "a = MatMul(n, m)\nu0 = MatMul(n, m)\nu = Add(u0, b)\ni = Sigmoid(a)\nz = Mul(a, i)\ny = Mul(z, u)",
        {"x": real(2, 3, 64), "g": real(64), "b": real(6), **_BITS},
        stored=("w", "s"),
        constants={"m": _MATRIX},
        runs=False,
    ),
    Fusion(
        "MatMulNBitsQkv",
        "y, k, v = com.microsoft.MatMulNBitsQkv<K = 64, Nq = 6, Nkv = 6, bits = 4, block_size = 16>"
        "(x, more, g, w, s, b, w, s, , w, s)",
        "sum = Add(x, more)\n"
        + _NORMED.replace("(x, g)", "(sum, g)")
        + "q = MatMul(n, m)\ny = Add(q, b)\nk = MatMul(n, m)\nv = MatMul(n, m)",
        {"x": real(2, 3, 64), "more": real(2, 3, 64), "g": real(64), "b": real(6), **_BITS},
        stored=("w", "s"),
        constants={"m": _MATRIX},
        runs=False,
    ),
]

_EXPERTS = {"x": real(4, 8), "r": real(4, 5), "f1": real(5, 16, 8), "b1": real(5, 16), "f2": real(5, 8, 16)}


def chosen(normalized: bool = False) -> str:
    """Text that chooses two experts for each token: their weights p, and their matrices and biases."""
    return (
        """
        k = Constant<value_ints = [2]>()
        last = Constant<value_ints = [-1]>()
        mid = Constant<value_ints = [1]>()
        r1 = Softmax<axis = -1>(r)
        p0, i = TopK(r1, k)
    """
        + ("t = ReduceSum(p0, last)\np = Div(p0, t)\n" if normalized else "p = Identity(p0)\n")
        + """
        w1 = Gather<axis = 0>(f1, i)
        w2 = Gather<axis = 0>(f2, i)
        xs = Constant<value_ints = [4, 1, 8, 1]>()
        x4 = Reshape(x, xs)
        h4 = MatMul(w1, x4)
        h0 = Squeeze(h4, last)
    """
    )


BLENDED = """
    a4 = Unsqueeze(a, last)
    o4 = MatMul(w2, a4)
    o = Squeeze(o4, last)
    pp = Unsqueeze(p, mid)
    z = MatMul(pp, o)
    y = Squeeze(z, mid)
"""

_MIXTURES = [
    Fusion(
        "MoE",
        'y = com.microsoft.MoE<k = 2, activation_type = "relu">(x, r, f1, b1, f2)',
        chosen() + "c1 = Gather<axis = 0>(b1, i)\nh = Add(h0, c1)\na = Relu(h)" + BLENDED,
        _EXPERTS,
    ),
    Fusion(
        "MoE, normalised, silu",
        'y = com.microsoft.MoE<k = 2, activation_type = "silu", normalize_routing_weights = 1>(x, r, f1, , f2)',
        chosen(normalized=True) + "g = Sigmoid(h0)\na = Mul(h0, g)" + BLENDED,
        {n: x for n, x in _EXPERTS.items() if n != "b1"},
    ),
    Fusion(
        "MoE, gelu",
        'y = com.microsoft.MoE<k = 2, activation_type = "gelu">(x, r, f1, , f2)',
        chosen() + 'a = Gelu<approximate = "tanh">(h0)' + BLENDED,
        {n: x for n, x in _EXPERTS.items() if n != "b1"},
        tolerance=5e-3,
    ),
    Fusion(
        "MoE, swiglu",
        'y = com.microsoft.MoE<k = 2, activation_type = "swiglu", swiglu_fusion = 1, activation_alpha = 1.5,'
        " activation_beta = 1.0, swiglu_limit = 2.0>(x, r, f1, , f2)",
        chosen()
        + """
            hs = Constant<value_ints = [4, 2, 8, 2]>()
            h = Reshape(h0, hs)
            g4, l4 = Split<axis = -1, num_outputs = 2>(h)
            g0 = Squeeze(g4, last)
            l0 = Squeeze(l4, last)
            top = Constant<value_float = 2.0>()
            low = Constant<value_float = -2.0>()
            g = Min(g0, top)
            l = Clip(l0, low, top)
            alpha = Constant<value_float = 1.5>()
            one = Constant<value_float = 1.0>()
            ga = Mul(g, alpha)
            gs = Sigmoid(ga)
            gg = Mul(g, gs)
            lb = Add(l, one)
            a = Mul(gg, lb)
        """
        + BLENDED,
        {"x": real(4, 8), "r": real(4, 5), "f1": real(5, 16, 8), "f2": real(5, 8, 8)},
    ),
]

FUSIONS = [*_CONVOLUTIONS, *_PRODUCTS, *_NBITS, *_MIXTURES]
