"""Operators of onnxruntime cost what the standard operators cost that they are made of."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.nodes import cost

from flopwise.operators.counts import Counts, total

Shapes = list[Any]

#: One application of a standard operator.
Part = tuple[str, Shapes, Shapes, dict[str, Any]]


def part(op: str, inputs: Shapes, outputs: Shapes, **attrs: Any) -> Part:
    return (op, inputs, outputs, attrs)


B, S, T, N, D, H = 2, 5, 7, 4, 16, 24
ROWS, WIDE, SCORES = (B, S, D), (B, S, 3 * H), (B, N, S, S)


def standard_attention(length: int, keys: int, width: int = H, heads: int = N, **attrs: Any) -> Part:
    q, k = (B, length, width), (B, keys, width)
    return part("Attention", [q, k, k], [q], q_num_heads=heads, kv_num_heads=heads, **attrs)


CASES: dict[str, tuple[Part, list[Part]]] = {
    "Gelu": (part("Gelu", [ROWS], [ROWS]), [part("Gelu", [ROWS], [ROWS])]),
    "FastGelu": (part("FastGelu", [ROWS], [ROWS]), [part("Gelu", [ROWS], [ROWS], approximate="tanh")]),
    "FastGelu with a bias": (
        part("FastGelu", [ROWS, (D,)], [ROWS]),
        [part("Add", [ROWS, (D,)], [ROWS]), part("Gelu", [ROWS], [ROWS], approximate="tanh")],
    ),
    "QuickGelu": (part("QuickGelu", [ROWS], [ROWS], alpha=1.7), [part("Swish", [ROWS], [ROWS], alpha=1.7)]),
    "BiasGelu": (
        part("BiasGelu", [ROWS, (D,)], [ROWS]),
        [part("Add", [ROWS, (D,)], [ROWS]), part("Gelu", [ROWS], [ROWS])],
    ),
    "BiasAdd": (part("BiasAdd", [ROWS, (D,), ROWS], [ROWS]), [part("Add", [ROWS, (D,)], [ROWS])] * 2),
    "BiasSoftmax": (
        part("BiasSoftmax", [SCORES, SCORES], [SCORES], axis=3),
        [part("Add", [SCORES, SCORES], [SCORES]), part("Softmax", [SCORES], [SCORES])],
    ),
    "SkipLayerNormalization": (
        part("SkipLayerNormalization", [ROWS, ROWS, (D,), (D,), (D,)], [ROWS]),
        [part("Add", [ROWS, ROWS], [ROWS])] * 2 + [part("LayerNormalization", [ROWS, (D,), (D,)], [ROWS])],
    ),
    "SkipSimplifiedLayerNormalization": (
        part("SkipSimplifiedLayerNormalization", [ROWS, ROWS, (D,)], [ROWS]),
        [part("Add", [ROWS, ROWS], [ROWS]), part("RMSNormalization", [ROWS, (D,)], [ROWS])],
    ),
    "EmbedLayerNormalization": (
        part("EmbedLayerNormalization", [(B, S), (B, S), (9, D), (8, D), (2, D), (D,), (D,)], [ROWS]),
        [part("Add", [ROWS, ROWS], [ROWS])] * 2 + [part("LayerNormalization", [ROWS, (D,), (D,)], [ROWS])],
    ),
    "GroupNorm": (
        part("GroupNorm", [(B, 8, 5, 5), (8,), (8,)], [(B, 8, 5, 5)], groups=2, activation=1),
        [
            part("GroupNormalization", [(B, 8, 5, 5), (8,), (8,)], [(B, 8, 5, 5)], num_groups=2),
            part("Sigmoid", [(B, 8, 5, 5)], [(B, 8, 5, 5)]),
            part("Mul", [(B, 8, 5, 5)] * 2, [(B, 8, 5, 5)]),
        ],
    ),
    "FusedConv": (
        part("FusedConv", [(1, 3, 8, 8), (5, 3, 3, 3), (5,), (1, 5, 6, 6)], [(1, 5, 6, 6)], activation="Relu"),
        [
            part("Conv", [(1, 3, 8, 8), (5, 3, 3, 3), (5,)], [(1, 5, 6, 6)]),
            part("Add", [(1, 5, 6, 6)] * 2, [(1, 5, 6, 6)]),
            part("Relu", [(1, 5, 6, 6)], [(1, 5, 6, 6)]),
        ],
    ),
    "NhwcConv": (
        part("NhwcConv", [(1, 8, 8, 3), (5, 3, 3, 3), (5,)], [(1, 6, 6, 5)]),
        [part("Conv", [(1, 3, 8, 8), (5, 3, 3, 3), (5,)], [(1, 5, 6, 6)])],
    ),
    "FusedGemm": (
        part("FusedGemm", [(3, 4), (4, 5), (5,)], [(3, 5)], alpha=0.5, activation="Tanh"),
        [part("Gemm", [(3, 4), (4, 5), (5,)], [(3, 5)], alpha=0.5), part("Tanh", [(3, 5)], [(3, 5)])],
    ),
    "FusedMatMul": (
        part("FusedMatMul", [(2, 4, 3), (2, 4, 5)], [(2, 3, 5)], transA=1, alpha=0.5),
        [part("MatMul", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)]), part("Mul", [(2, 3, 5), ()], [(2, 3, 5)])],
    ),
    "FusedMatMul with batches inside": (
        part("FusedMatMul", [(4, 2, 3), (2, 4, 5)], [(2, 3, 5)], transA=1, transBatchA=1),
        [part("MatMul", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)])],
    ),
    "GemmFastGelu": (
        part("GemmFastGelu", [(3, 4), (4, 5), (5,)], [(3, 5)]),
        [
            part("MatMul", [(3, 4), (4, 5)], [(3, 5)]),
            part("Add", [(3, 5), (5,)], [(3, 5)]),
            part("Gelu", [(3, 5)], [(3, 5)], approximate="tanh"),
        ],
    ),
    "MatMulNBits": (
        part("MatMulNBits", [(B, 3, 32), (8, 2, 8), (16,), None, None, (8,)], [(B, 3, 8)], K=32, N=8),
        [part("MatMul", [(B, 3, 32), (32, 8)], [(B, 3, 8)]), part("Add", [(B, 3, 8), (8,)], [(B, 3, 8)])],
    ),
    "MatMulNBitsQkv": (
        part("MatMulNBitsQkv", [(B, 3, 32), None, None], [(B, 3, 32), (B, 3, 8), (B, 3, 8)], K=32, Nq=32, Nkv=8),
        [part("MatMul", [(B, 3, 32), (32, 48)], [(B, 3, 48)])],
    ),
    "QLinearAdd": (
        part("QLinearAdd", [(2, 4), (), (), (4,), (), (), (), ()], [(2, 4)]),
        [
            part("DequantizeLinear", [(2, 4), (), ()], [(2, 4)]),
            part("DequantizeLinear", [(4,), (), ()], [(4,)]),
            part("Add", [(2, 4), (4,)], [(2, 4)]),
            part("QuantizeLinear", [(2, 4), (), ()], [(2, 4)]),
        ],
    ),
    "QLinearSoftmax": (
        part("QLinearSoftmax", [(2, 4), (), (), (), ()], [(2, 4)]),
        [
            part("DequantizeLinear", [(2, 4), (), ()], [(2, 4)]),
            part("Softmax", [(2, 4)], [(2, 4)]),
            part("QuantizeLinear", [(2, 4), (), ()], [(2, 4)]),
        ],
    ),
    "QLinearGlobalAveragePool": (
        part("QLinearGlobalAveragePool", [(1, 3, 8, 8), (), (), (), ()], [(1, 3, 1, 1)]),
        [
            part("DequantizeLinear", [(1, 3, 8, 8), (), ()], [(1, 3, 8, 8)]),
            part("GlobalAveragePool", [(1, 3, 8, 8)], [(1, 3, 1, 1)]),
            part("QuantizeLinear", [(1, 3, 1, 1), (), ()], [(1, 3, 1, 1)]),
        ],
    ),
    "MatMulIntegerToFloat": (
        part("MatMulIntegerToFloat", [(3, 4), (4, 5), (), (5,), (), (5,), (5,)], [(3, 5)]),
        [
            part("MatMulInteger", [(3, 4), (4, 5), (), (5,)], [(3, 5)]),
            part("Mul", [(), (5,)], [(5,)]),
            part("Mul", [(3, 5), (5,)], [(3, 5)]),
            part("Add", [(3, 5), (5,)], [(3, 5)]),
        ],
    ),
    "DynamicQuantizeMatMul": (
        part("DynamicQuantizeMatMul", [(3, 4), (4, 5), (), ()], [(3, 5)]),
        [
            part("DynamicQuantizeLinear", [(3, 4)], [(3, 4), (), ()]),
            part("MatMulInteger", [(3, 4), (4, 5), (), ()], [(3, 5)]),
            part("Mul", [(), ()], [()]),
            part("Mul", [(3, 5), ()], [(3, 5)]),
        ],
    ),
    "MultiHeadAttention": (
        part("MultiHeadAttention", [(B, S, H), (B, T, H), (B, T, H)], [(B, S, H)], num_heads=N),
        [standard_attention(S, T)],
    ),
    "MultiHeadAttention with a bias": (
        part("MultiHeadAttention", [(B, S, H), (B, T, H), (B, T, H), (3 * H,)], [(B, S, H)], num_heads=N),
        [standard_attention(S, T), *(part("Add", [s, (H,)], [s]) for s in ((B, S, H), (B, T, H), (B, T, H)))],
    ),
    "Attention": (
        part("Attention", [ROWS, (D, 3 * H), (3 * H,)], [(B, S, H)], num_heads=N),
        [
            part("MatMul", [ROWS, (D, 3 * H)], [WIDE]),
            part("Add", [WIDE, (3 * H,)], [WIDE]),
            standard_attention(S, S),
        ],
    ),
    "causal Attention": (
        part("Attention", [ROWS, (D, 3 * H), None], [(B, S, H)], num_heads=N, unidirectional=1),
        [part("MatMul", [ROWS, (D, 3 * H)], [WIDE]), standard_attention(S, S, is_causal=1)],
    ),
    "GroupQueryAttention": (
        part(
            "GroupQueryAttention",
            [(B, S, H), (B, S, H // 2), (B, S, H // 2), None, None, (B,), ()],
            [(B, S, H), (B, 2, S, H // N), (B, 2, S, H // N)],
            num_heads=N,
            kv_num_heads=2,
        ),
        [standard_attention(S, S, is_causal=1)],
    ),
    "RotaryEmbedding": (
        part("RotaryEmbedding", [(B, S, H), (1,), (9, 3), (9, 3)], [(B, S, H)]),
        [part("RotaryEmbedding", [(B, N, S, 6), (B, S, 3), (B, S, 3)], [(B, N, S, 6)])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sum_of_its_parts(name: str) -> None:
    (op, inputs, outputs, attrs), parts = CASES[name]
    fused = cost(f"com.microsoft::{op}", inputs, outputs, **attrs)
    assert fused == total(cost(p, i, o, **a) for p, i, o, a in parts)


def test_only_the_experts_that_a_token_takes_count() -> None:
    tokens, width, inner, number, taken = 10, 8, 32, 6, 2
    inputs = [(tokens, width), (tokens, number), (number, inner, width), None, (number, width, inner)]
    work = cost("com.microsoft::MoE", inputs, [(tokens, width)], k=taken, activation_type="relu")
    assert work.mac == tokens * taken * (2 * width * inner + width)
    assert work.exp == tokens * number
    assert cost("com.microsoft::MoE", inputs, [(tokens, width)], k=1).mac * 2 == work.mac


def test_keys_of_the_cache_count() -> None:
    past = (2, B, N, T, H // N)
    one = cost("com.microsoft::Attention", [(B, 1, D), (D, 3 * H), None, None, past], [(B, 1, H)], num_heads=N)
    assert one.mac == B * D * 3 * H + 2 * B * (T + 1) * H
    shared = {"num_heads": N, "past_present_share_buffer": 1}
    buffered = cost("com.microsoft::Attention", [(B, 1, D), (D, 3 * H), None, None, past], [(B, 1, H)], **shared)
    assert buffered.mac == B * D * 3 * H + 2 * B * T * H


def test_an_activation_that_nobody_knows_is_no_zero() -> None:
    from flopwise.errors import ShapeError

    with pytest.raises(ShapeError, match="unknown activation 'Wobble'"):
        cost("com.microsoft::FusedGemm", [(3, 4), (4, 5)], [(3, 5)], activation="Wobble")
    assert cost("com.microsoft::FusedGemm", [(3, 4), (4, 5)], [(3, 5)]) == Counts(mac=60)
