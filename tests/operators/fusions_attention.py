"""Attention operators of onnxruntime, and the same written with ONNX's operators."""

from __future__ import annotations

import numpy as np
from tests.operators.fusions import Fusion, causal, heads, hide, merge, number, octets, real, softmax, split

_PROJECTED = """
    w1 = MatMul(x, w)
    w2 = Add(w1, b)
    q, k, v = Split<axis = -1, num_outputs = 3>(w2)
"""

_MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
_LAYER = {"x": real(2, 5, 12), "w": real(12, 48), "b": real(48)}
_CACHE = {"x": real(2, 1, 12), "w": real(12, 48), "b": real(48), "past": real(2, 2, 4, 6, 4)}
_THREE = {"q": real(2, 5, 16), "k": real(2, 7, 16), "v": real(2, 7, 16)}

WITH_PAST = (
    split("q", 4)
    + split("k", 4, "kn")
    + split("v", 4, "vn")
    + """
    kp = Constant<value_int = 0>()
    vp = Constant<value_int = 1>()
    pk = Gather<axis = 0>(past, kp)
    pv = Gather<axis = 0>(past, vp)
    k4 = Concat<axis = 2>(pk, kn)
    v4 = Concat<axis = 2>(pv, vn)
"""
)

#: Attention with projections.
_SELF = [
    Fusion("Attention", "y = com.microsoft.Attention<num_heads = 4>(x, w, b)", _PROJECTED + heads(), _LAYER),
    Fusion(
        "Attention without bias",
        "y = com.microsoft.Attention<num_heads = 4>(x, w)",
        "w1 = MatMul(x, w)\nq, k, v = Split<axis = -1, num_outputs = 3>(w1)" + heads(),
        {"x": _LAYER["x"], "w": _LAYER["w"]},
        since="1.32",  # 1.31 crashes
    ),
    Fusion(
        "Attention, narrow values",
        "y = com.microsoft.Attention<num_heads = 4, qkv_hidden_sizes = [16, 16, 8]>(x, w, b)",
        "w1 = MatMul(x, w)\nw2 = Add(w1, b)\nn = Constant<value_ints = [16, 16, 8]>()\n"
        "q, k, v = Split<axis = -1>(w2, n)" + heads(),
        {"x": real(2, 5, 12), "w": real(12, 40), "b": real(40)},
    ),
    Fusion(
        "causal Attention",
        "y = com.microsoft.Attention<num_heads = 4, unidirectional = 1>(x, w, b)",
        _PROJECTED + heads(["later"]),
        _LAYER,
        constants={"later": causal(5, 5)},
    ),
    Fusion(
        "Attention with a mask and a bias of the scores",
        "y = com.microsoft.Attention<num_heads = 4>(x, w, b, mask, , bias)",
        _PROJECTED + hide("mask", "m") + heads(["m", "bias"]),
        {**_LAYER, "mask": _MASK, "bias": real(1, 4, 5, 5)},
    ),
    Fusion(
        "Attention with a cache",
        "y, present = com.microsoft.Attention<num_heads = 4>(x, w, b, , past)",
        _PROJECTED + WITH_PAST + softmax("q4", "k4", "v4", "o", 4) + merge("o"),
        _CACHE,
    ),
    Fusion(
        "QAttention",
        "y = com.microsoft.QAttention<num_heads = 4>(x, w, b, sx, sw, , zx, zw)",
        "w0 = MatMulInteger(x, w, zx, zw)\nwf = Cast<to = 1>(w0)\ns = Mul(sx, sw)\nw1 = Mul(wf, s)\nw2 = Add(w1, b)\n"
        "q, k, v = Split<axis = -1, num_outputs = 3>(w2)" + heads(),
        {
            "x": octets(2, 5, 12),
            "w": octets(12, 48),
            "b": real(48),
            "sx": number(0.02),
            "sw": number(0.01),
            "zx": number(60, np.uint8),
            "zw": number(64, np.uint8),
        },
    ),
]

#: Attention of given queries, keys and values.
_GIVEN = [
    Fusion("MultiHeadAttention", "y = com.microsoft.MultiHeadAttention<num_heads = 4>(q, k, v)", heads(), _THREE),
    Fusion(
        "MultiHeadAttention with biases",
        "y = com.microsoft.MultiHeadAttention<num_heads = 4>(q0, k0, v0, b)",
        """
            bq, bk, bv = Split<axis = -1, num_outputs = 3>(b)
            q = Add(q0, bq)
            k = Add(k0, bk)
            v = Add(v0, bv)
        """
        + heads(),
        {"q0": real(2, 5, 16), "k0": real(2, 7, 16), "v0": real(2, 7, 16), "b": real(48)},
    ),
    Fusion(
        "MultiHeadAttention, masked, narrow values",
        "y = com.microsoft.MultiHeadAttention<num_heads = 4>(q, k, v, , mask, bias)",
        hide("mask", "m") + heads(["m", "bias"]),
        {
            **_THREE,
            "v": real(2, 7, 8),
            "mask": np.array([[1] * 5 + [0] * 2, [1] * 3 + [0] * 4], np.int32),
            "bias": real(2, 1, 5, 7),
        },
    ),
    Fusion(
        "MultiHeadAttention on keys in heads",
        "y = com.microsoft.MultiHeadAttention<num_heads = 4>(q, k4, v4)",
        split("q", 4) + softmax("q4", "k4", "v4", "o", 4) + merge("o"),
        {"q": real(2, 5, 16), "k4": real(2, 4, 7, 4), "v4": real(2, 4, 7, 4)},
    ),
    Fusion(
        "causal MultiHeadAttention with a cache",
        "y, kn4, vn4 = com.microsoft.MultiHeadAttention<num_heads = 4, unidirectional = 1>(q, k, v, , , , pk, pv)",
        split("q", 4)
        + split("k", 4, "kn")
        + split("v", 4, "vn")
        + "k4 = Concat<axis = 2>(pk, kn)\nv4 = Concat<axis = 2>(pv, vn)"
        + softmax("q4", "k4", "v4", "o", 4, ["later"])
        + merge("o"),
        {
            **{n: real(2, 3, 16) for n in "qkv"},
            "pk": real(2, 4, 6, 4),
            "pv": real(2, 4, 6, 4),
        },
        constants={"later": causal(3, 9)},
    ),
    Fusion(
        "DecoderMaskedMultiHeadAttention",
        "y = com.microsoft.DecoderMaskedMultiHeadAttention<num_heads = 4>(q, k4, v4, mask)",
        hide("mask", "m") + split("q", 4) + softmax("q4", "k4", "v4", "o", 4, ["m"]) + merge("o"),
        {
            "q": real(2, 1, 16),
            "k4": real(2, 4, 7, 4),
            "v4": real(2, 4, 7, 4),
            "mask": np.array([[1] * 7, [1] * 3 + [0] * 4], np.int32),
        },
    ),
]

_SIZES = {"len": np.array([7], np.int32), "total": np.array(8, np.int32)}
_CACHED = {"pk": real(1, 2, 5, 8), "pv": real(1, 2, 5, 8), **_SIZES}
_NEW = {"q": real(1, 3, 32), "k": real(1, 3, 16), "v": real(1, 3, 16)}
_REPEATED = """
    k2 = Concat<axis = 2>(pk, kn)
    v2 = Concat<axis = 2>(pv, vn)
    k4 = Gather<axis = 1>(k2, twice)
    v4 = Gather<axis = 1>(v2, twice)
"""
_TWICE = {"twice": np.array([0, 0, 1, 1])}
_GROUPED = "num_heads = 4, kv_num_heads = 2"


def _grouped(
    queries: str = "q4",
    keys: str = "",
    masks: tuple[str, ...] = ("later",),
    attention: str | None = None,
    size: int = 8,
) -> str:
    parts = split("q", 4) + split("k", 2, "kn") + split("v", 2, "vn") + keys + _REPEATED
    return parts + (attention or softmax(queries, "k4", "v4", "o", size, masks)) + merge("o")


#: The softmax of scores beside one more score for each head, which has no value.
_SINK = """
    oc = Constant<value_float = 0.594603558>()
    oq = Mul(q4, oc)
    ok = Mul(k4, oc)
    ot = Transpose<perm = [0, 1, 3, 2]>(ok)
    os0 = MatMul(oq, ot)
    os = Add(os0, later)
    last = Constant<value_ints = [-1]>()
    most0 = ReduceMax(os, last)
    most = Max(most0, sinks)
    off = Sub(os, most)
    e = Exp(off)
    sum0 = ReduceSum(e, last)
    offs = Sub(sinks, most)
    es = Exp(offs)
    sum = Add(sum0, es)
    p = Div(e, sum)
    o = MatMul(p, v4)
"""

_SOFTCAP = """
    oc = Constant<value_float = 0.594603558>()
    oq = Mul(q4, oc)
    ok = Mul(k4, oc)
    ot = Transpose<perm = [0, 1, 3, 2]>(ok)
    os0 = MatMul(oq, ot)
    cap = Constant<value_float = 2.0>()
    d = Div(os0, cap)
    t = Tanh(d)
    c = Mul(t, cap)
    os = Add(c, later)
    p = Softmax<axis = -1>(os)
    o = MatMul(p, v4)
"""

_LATER = {**_TWICE, "later": causal(3, 8)}

#: Attention of grouped heads, with a cache.
_GROUPS = [
    Fusion(
        "GroupQueryAttention",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}>(q, k, v, pk, pv, len, total)",
        _grouped(),
        {**_NEW, **_CACHED},
        stored=("total",),
        constants=_LATER,
    ),
    Fusion(
        "GroupQueryAttention that is rotated",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}, do_rotary = 1>(q, k, v, pk, pv, len, total, c, s)",
        _grouped(
            "qr",
            "qr = RotaryEmbedding(q4, c, s, at)\nkr = RotaryEmbedding(kn, c, s, at)\n",
            size=16,
        ).replace("Concat<axis = 2>(pk, kn)", "Concat<axis = 2>(pk, kr)"),
        {
            "q": real(1, 3, 64),
            **{n: real(1, 3, 32) for n in "kv"},
            **{n: real(1, 2, 5, 16) for n in ("pk", "pv")},
            **_SIZES,
            **{n: real(8, 8) for n in "cs"},
        },
        stored=("total",),
        constants={**_LATER, "at": np.array([[5, 6, 7]])},
    ),
    Fusion(
        "GroupQueryAttention with softcap",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}, softcap = 2.0>(q, k, v, pk, pv, len, total)",
        _grouped(attention=_SOFTCAP),
        {**_NEW, **_CACHED},
        stored=("total",),
        constants=_LATER,
    ),
    Fusion(
        "GroupQueryAttention with a bias of the scores",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}>(q, k, v, pk, pv, len, total, , , , bias)",
        _grouped(masks=("bias", "later")),
        {**_NEW, **_CACHED, "bias": real(1, 4, 3, 8)},
        stored=("total",),
        constants=_LATER,
    ),
    Fusion(
        "GroupQueryAttention with sinks",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}>(q, k, v, pk, pv, len, total, , , , , sink)",
        _grouped(attention="hs = Constant<value_ints = [1, 4, 1, 1]>()\nsinks = Reshape(sink, hs)\n" + _SINK),
        {**_NEW, **_CACHED, "sink": real(4)},
        stored=("total",),
        constants=_LATER,
    ),
    Fusion(
        "GroupQueryAttention with smooth softmax",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}, smooth_softmax = 1>(q, k, v, pk, pv, len, total)",
        _grouped(attention=_SINK),
        {**_NEW, **_CACHED},
        stored=("total",),
        constants={**_LATER, "sinks": np.zeros((1, 4, 1, 1), np.float32)},
    ),
    Fusion(
        "GroupQueryAttention, packed",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}>(qkv, , , pk, pv, len, total)",
        "n = Constant<value_ints = [32, 16, 16]>()\nq, k, v = Split<axis = -1>(qkv, n)" + _grouped(),
        {"qkv": real(1, 3, 64), **_CACHED},
        stored=("total",),
        constants=_LATER,
    ),
    Fusion(
        "GroupQueryAttention of a prompt, in both directions",
        f"y, kk, vv = com.microsoft.GroupQueryAttention<{_GROUPED}, causal = 0>(q, k, v, , , len, total)",
        split("q", 4)
        + split("k", 2, "kn")
        + split("v", 2, "vn")
        + "k4 = Gather<axis = 1>(kn, twice)\nv4 = Gather<axis = 1>(vn, twice)"
        + softmax("q4", "k4", "v4", "o", 8)
        + merge("o"),
        {**_NEW, "len": np.array([2], np.int32), "total": np.array(3, np.int32)},
        stored=("total",),
        constants=_TWICE,
    ),
]

#: Rotation by positions.
_ROTATED = [
    Fusion(
        "RotaryEmbedding",
        "y = com.microsoft.RotaryEmbedding(x, at, c, s)",
        "y = RotaryEmbedding(x, c, s, at)",
        {"x": real(2, 3, 5, 8), "at": np.arange(10).reshape(2, 5), "c": real(10, 4), "s": real(10, 4)},
    ),
    Fusion(
        "RotaryEmbedding of a part",
        "y = com.microsoft.RotaryEmbedding<num_heads = 3, rotary_embedding_dim = 4>(x, at, c, s)",
        "y = RotaryEmbedding<num_heads = 3, rotary_embedding_dim = 4>(x, c, s, at)",
        {"x": real(2, 5, 24), "at": np.arange(10).reshape(2, 5), "c": real(10, 2), "s": real(10, 2)},
    ),
    Fusion(
        "MRotaryEmbedding",
        "y = com.microsoft.MRotaryEmbedding<mrope_section = [4, 0, 0]>(x, at, c, s)",
        "first = Constant<value_int = 0>()\nat0 = Gather<axis = 0>(at, first)\ny = RotaryEmbedding(x, c, s, at0)",
        {"x": real(2, 3, 5, 8), "at": np.arange(30).reshape(3, 2, 5) % 10, "c": real(10, 4), "s": real(10, 4)},
    ),
    Fusion(
        "GemmaRotaryEmbedding",
        "y, z = com.microsoft.GemmaRotaryEmbedding(e, q, qr, k, kr)",
        """
            one = Constant<value_ints = [1]>()
            sn = Sin(e)
            cs = Cos(e)
            s4 = Unsqueeze(sn, one)
            c4 = Unsqueeze(cs, one)
            qa = Mul(q, c4)
            qb = Mul(qr, s4)
            y = Add(qa, qb)
            ka = Mul(k, c4)
            kb = Mul(kr, s4)
            z = Add(ka, kb)
        """,
        {"e": real(2, 5, 8), **{n: real(2, 3, 5, 8) for n in ("q", "qr", "k", "kr")}},
        runs=False,
    ),
]

FUSIONS = [*_SELF, *_GIVEN, *_GROUPS, *_ROTATED]
