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


_ADAPTED = {
    "x": real(2, 3, 64),
    **_BITS,
    "a": octets(3, 2, 32),
    "sa": real(3, 2),
    "b": octets(6, 1, 32),
    "sb": real(6, 1),
}

_STORED = [
    *(
        Fusion(
            f"MatMulPacked, {kind}",
            f'y = com.microsoft.MatMulPacked<K = 64, N = 6, packed_type = 2, activation_type = "{kind}">(x, w{scale})',
            "z0 = MatMul(x, m)\n" + ("z = Mul(z0, g)\n" if scale else "z = Identity(z0)\n") + parts,
            {"x": real(2, 3, 64), "w": octets(6, 36), **({"g": real()} if scale else {})},
            stored=("w",),
            constants={"m": _MATRIX},
            runs=False,
        )
        for kind, scale, parts in (
            ("none", "", "y = Identity(z)"),
            ("relu2", ", g", "r = Relu(z)\ny = Mul(r, r)"),
            ("silu", ", g", "s = Sigmoid(z)\ny = Mul(z, s)"),
        )
    ),
    Fusion(
        "MatMulNBitsQLoRA",
        f"y = com.microsoft.MatMulNBitsQLoRA<{_PACKED}>(x, w, s, a, sa, b, sb)",
        "z = MatMul(x, m)\nd = MatMul(x, down)\nu = MatMul(d, up)\ny = Add(z, u)",
        _ADAPTED,
        stored=("w", "s", "a", "sa", "b", "sb"),
        constants={"m": _MATRIX, "down": real(64, 3), "up": real(3, 6)},
        runs=False,
    ),
    Fusion(
        "MatMulNBitsQLoRA, nothing goes up",
        f"y = com.microsoft.MatMulNBitsQLoRA<{_PACKED}>(x, w, s, a, sa, b, sb)",
        "y = MatMul(x, m)",
        {**_ADAPTED, "b": octets(6, 0, 32)},
        stored=("w", "s", "a", "sa", "b", "sb"),
        constants={"m": _MATRIX},
        runs=False,
    ),
    Fusion(
        "MatMulNBitsQLoRA, nothing comes down",
        f"y = com.microsoft.MatMulNBitsQLoRA<{_PACKED}>(x, w, s, a, sa, b, sb)",
        "z = MatMul(x, m)\nu = MatMul(none, up)\ny = Add(z, u)",
        {**_ADAPTED, "a": octets(0, 2, 32), "none": np.zeros((2, 3, 3), np.float32)},
        stored=("w", "s", "a", "sa", "b", "sb"),
        constants={"m": _MATRIX, "up": real(3, 6)},
        runs=False,
    ),
    Fusion(
        "MatMulNBits without weights",
        f"y = com.microsoft.MatMulNBits<{_PACKED}>(x, w, s, , , b)",
        "z = Identity(zeros)\ny = Add(z, b)",
        {"x": real(2, 3, 64), "w": octets(0, 4, 8), "s": real(0), "b": real(6)},
        stored=("w", "s"),
        constants={"zeros": np.zeros((2, 3, 6), np.float32)},
        since="1.32",
    ),
]

FUSIONS = [*_CONVOLUTIONS, *_PRODUCTS, *_NBITS, *_STORED]
