"""Operators of onnxruntime for packed tokens, caches in blocks, hashes and packed weights, and what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.operators.fusions import Fusion, causal, hide, merge, number, octets, real, softmax, split
from tests.operators.fusions_attention import WITH_PAST
from tests.operators.fusions_experts import BLENDED, chosen

#: Three sequences of four tokens, none of them padding.
_TOKENS = {"offset": np.arange(12, dtype=np.int32).reshape(3, 4), "ends": np.array([0, 4, 8, 12], np.int32)}
_APART = """
    dense = Constant<value_ints = [3, 4, -1]>()
    flat = Constant<value_ints = [12, -1]>()
"""


def _dense(*names: str) -> str:
    return _APART + "".join(f"{name} = Reshape({name}0, dense)\n" for name in names)


_PACKED = [
    Fusion(
        "PackedAttention",
        "y = com.microsoft.PackedAttention<num_heads = 4>(x, w, b, offset, ends, bias)",
        "w1 = MatMul(x, w)\nw2 = Add(w1, b)\nq0, k0, v0 = Split<axis = -1, num_outputs = 3>(w2)\n"
        + _dense("q", "k", "v")
        + split("q", 4)
        + split("k", 4)
        + split("v", 4)
        + softmax("q4", "k4", "v4", "o", 4, ["bias"])
        + merge("o", "z")
        + "y = Reshape(z, flat)",
        {"x": real(12, 8), "w": real(8, 48), "b": real(48), **_TOKENS, "bias": real(1, 4, 4, 4)},
        runs=False,
    ),
    Fusion(
        "PackedMultiHeadAttention",
        "y = com.microsoft.PackedMultiHeadAttention<num_heads = 4>(q00, k00, v00, b, offset, ends)",
        "bq, bk, bv = Split<axis = -1, num_outputs = 3>(b)\n"
        + "".join(f"{n}0 = Add({n}00, b{n})\n" for n in "qkv")
        + _dense("q", "k", "v")
        + split("q", 4)
        + split("k", 4)
        + split("v", 4)
        + softmax("q4", "k4", "v4", "o", 4)
        + merge("o", "z")
        + "y = Reshape(z, flat)",
        {**{f"{n}00": real(12, 16) for n in "qkv"}, "b": real(48), **_TOKENS},
        runs=False,
    ),
    Fusion(
        "PagedAttention",
        "y, kk, vv = com.microsoft.PagedAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>"
        "(q0, kn0, vn0, pk, pv, ends, past, table, c, s)",
        """
            qs = Constant<value_ints = [3, 4, 4, 8]>()
            ks = Constant<value_ints = [3, 4, 2, 8]>()
            cs = Constant<value_ints = [3, 32, 2, 8]>()
            ls = Constant<value_ints = [12, 32]>()
            q5 = Reshape(q0, qs)
            q6 = Transpose<perm = [0, 2, 1, 3]>(q5)
            q4 = RotaryEmbedding(q6, c, s, at)
            kn5 = Reshape(kn0, ks)
            kn6 = Transpose<perm = [0, 2, 1, 3]>(kn5)
            kn4 = RotaryEmbedding(kn6, c, s, at)
            kg = Gather<axis = 0>(pk, table)
            vg = Gather<axis = 0>(pv, table)
            kc = Reshape(kg, cs)
            vc = Reshape(vg, cs)
            kt = Transpose<perm = [0, 2, 1, 3]>(kc)
            vt = Transpose<perm = [0, 2, 1, 3]>(vc)
            k4 = Gather<axis = 1>(kt, twice)
            v4 = Gather<axis = 1>(vt, twice)
        """
        + softmax("q4", "k4", "v4", "o", 8, ["later"])
        + "oz = Transpose<perm = [0, 2, 1, 3]>(o)\ny = Reshape(oz, ls)",
        {
            "q0": real(12, 32),
            "kn0": real(12, 16),
            "vn0": real(12, 16),
            "pk": real(6, 16, 2, 8),
            "pv": real(6, 16, 2, 8),
            "ends": _TOKENS["ends"],
            "past": np.array([28, 28, 28], np.int32),
            "table": np.arange(6, dtype=np.int32).reshape(3, 2),
            "c": real(32, 4),
            "s": real(32, 4),
        },
        constants={"twice": np.array([0, 0, 1, 1]), "at": np.tile(np.arange(28, 32), (3, 1)), "later": causal(4, 32)},
        runs=False,
    ),
    Fusion(
        "VarlenCausalConvWithState",
        'y, last = com.microsoft.VarlenCausalConvWithState<activation = "silu">(x, w, ends, b, past)',
        """
            dense = Constant<value_ints = [3, 4, 5]>()
            flat = Constant<value_ints = [12, 5]>()
            x3 = Reshape(x, dense)
            xt = Transpose<perm = [0, 2, 1]>(x3)
            l = Concat<axis = 2>(past, xt)
            z = Conv<group = 5>(l, w, b)
            i = Sigmoid(z)
            u = Mul(z, i)
            ut = Transpose<perm = [0, 2, 1]>(u)
            y = Reshape(ut, flat)
        """,
        {"x": real(12, 5), "w": real(5, 1, 3), "ends": _TOKENS["ends"], "b": real(5), "past": real(3, 5, 2)},
        runs=False,
    ),
]

_WITH_CACHE = [
    Fusion(
        "DecoderMaskedSelfAttention",
        "y, present = com.microsoft.DecoderMaskedSelfAttention<num_heads = 4>(x, w, b, mask, past, , length)",
        "w1 = MatMul(x, w)\nw2 = Add(w1, b)\nq, k, v = Split<axis = -1, num_outputs = 3>(w2)\n"
        + WITH_PAST
        + hide("mask", "m")
        + softmax("q4", "k4", "v4", "o", 4, ["m"])
        + merge("o"),
        {
            "x": real(2, 1, 12),
            "w": real(12, 48),
            "b": real(48),
            "mask": np.ones((2, 7), np.int32),
            "past": real(2, 2, 4, 6, 4),
            "length": np.array([6], np.int32),
        },
        runs=False,
    ),
    Fusion(
        "SparseAttention",
        "y, kk, vv = com.microsoft.SparseAttention<num_heads = 4, kv_num_heads = 2, sparse_block_size = 16>"
        "(q, k, v, pk, pv, rows, columns, total, lengths)",
        split("q", 4)
        + "k4 = Gather<axis = 1>(pk, twice)\nv4 = Gather<axis = 1>(pv, twice)\n"
        + softmax("q4", "k4", "v4", "o", 8, ["later"])
        + merge("o"),
        {
            "q": real(1, 3, 32),
            "k": real(1, 3, 16),
            "v": real(1, 3, 16),
            "pk": real(1, 2, 32, 8),
            "pv": real(1, 2, 32, 8),
            "rows": np.array([[0, 1, 3]], np.int32),
            "columns": np.array([[0, 0, 1]], np.int32),
            "total": np.array([32], np.int32),
            "lengths": np.array([32], np.int32),
        },
        constants={"twice": np.array([0, 0, 1, 1]), "later": causal(3, 32)},
        runs=False,
    ),
    Fusion(
        "DecoderAttention",
        "y = com.microsoft.DecoderAttention<num_heads = 4>(q0, k0, wq, wkv, b, , , , no, no, no, no)",
        """
            n = Constant<value_ints = [8, 16]>()
            bq, bkv = Split<axis = -1>(b, n)
            q1 = MatMul(q0, wq)
            q2 = Add(q1, bq)
            q = Transpose<perm = [1, 0, 2]>(q2)
            kv1 = MatMul(k0, wkv)
            kv2 = Add(kv1, bkv)
            kv = Transpose<perm = [1, 0, 2]>(kv2)
            k, v = Split<axis = -1, num_outputs = 2>(kv)
        """
        + split("q", 4)
        + split("k", 4)
        + split("v", 4)
        + softmax("q4", "k4", "v4", "o", 2)
        + merge("o", "z")
        + "y = Transpose<perm = [1, 0, 2]>(z)",
        {
            "q0": real(5, 2, 8),
            "k0": real(7, 2, 8),
            "wq": real(8, 8),
            "wkv": real(8, 16),
            "b": real(24),
            "no": np.array([False]),
        },
        runs=False,
    ),
]


def _attended_lstm() -> Fusion:
    """Two steps of an LSTM whose input is X beside what it attends to."""
    text = """
        first = Constant<value_ints = [0]>()
        last = Constant<value_ints = [-1]>()
        w1 = Squeeze(w, first)
        wt = Transpose<perm = [1, 0]>(w1)
        r1 = Squeeze(r, first)
        rt = Transpose<perm = [1, 0]>(r1)
        qw1 = Squeeze(qw, first)
        mw1 = Squeeze(mw, first)
        v1 = Squeeze(v, first)
        keys = MatMul(m, mw1)
        x0, x1 = Split<axis = 0, num_outputs = 2>(x)
    """
    for t in range(2):
        text += f"""
            xs{t} = Squeeze(x{t}, first)
            in{t} = Concat<axis = -1>(xs{t}, a{t})
            gx{t} = MatMul(in{t}, wt)
            gh{t} = MatMul(h{t}, rt)
            g{t} = Add(gx{t}, gh{t})
            i{t}, o{t}, f{t}, k{t} = Split<axis = -1, num_outputs = 4>(g{t})
            is{t} = Sigmoid(i{t})
            os{t} = Sigmoid(o{t})
            fs{t} = Sigmoid(f{t})
            kt{t} = Tanh(k{t})
            fc{t} = Mul(fs{t}, c{t})
            ik{t} = Mul(is{t}, kt{t})
            c{t + 1} = Add(fc{t}, ik{t})
            ct{t} = Tanh(c{t + 1})
            h{t + 1} = Mul(os{t}, ct{t})
            p{t} = MatMul(h{t + 1}, qw1)
            ps{t} = Unsqueeze(p{t}, one)
            s{t} = Add(keys, ps{t})
            st{t} = Tanh(s{t})
            al{t} = MatMul(st{t}, v1)
            as{t} = Softmax<axis = -1>(al{t})
            ar{t} = Unsqueeze(as{t}, one)
            am{t} = MatMul(ar{t}, m)
            a{t + 1} = Squeeze(am{t}, one)
        """
    return Fusion(
        "AttnLSTM",
        "all, y = com.microsoft.AttnLSTM<hidden_size = 3>(x, w, r, , , , , , qw, mw, v, m)",
        text + "y = Unsqueeze(h2, first)\n",
        {
            "x": real(2, 1, 8),
            "w": real(1, 12, 14),
            "r": real(1, 12, 3),
            "qw": real(1, 3, 5),
            "mw": real(1, 6, 5),
            "v": real(1, 5),
            "m": real(1, 7, 6),
        },
        constants={
            "one": np.array([1]),
            "a0": np.zeros((1, 6), np.float32),
            "h0": np.zeros((1, 3), np.float32),
            "c0": np.zeros((1, 3), np.float32),
        },
    )


_HASHED = """
    earlier = Slice(padded, from1, to1, axis)
    before = Slice(padded, from0, to0, axis)
    f0, f1, f2 = Split<axis = 0, num_outputs = 3>(factors)
    m0 = Mul(ids, f0)
    m1 = Mul(earlier, f1)
    m2 = Mul(before, f2)
    two = BitwiseXor(m0, m1)
    three = BitwiseXor(two, m2)
    last = Constant<value_ints = [-1]>()
    a = Unsqueeze(two, last)
    b = Unsqueeze(three, last)
    v2, v3 = Split<axis = 0, num_outputs = 2>(sizes)
    r2 = Mod(a, v2)
    r3 = Mod(b, v3)
    r = Concat<axis = -1>(r2, r3)
    y = Add(r, offsets)
"""


def _hashes(varying: bool) -> Fusion:
    """Both orders of n-grams, two heads each, of ids padded with zeros."""
    ids = np.array([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]])
    told = "pad_id = 0, n_head_per_ngram = 2, max_ngram_size = 3"
    name, call = "NGramHashMapping", "(ids, factors, sizes, , offsets)"
    text = "start = Constant<value_ints = [0, 2, 0, 0]>()\npadded = Pad(ids, start)\n" + _HASHED
    inputs = {"ids": ids, "factors": np.array([3, 5, 7]), "sizes": np.array([11, 13, 17, 19])}
    inputs["offsets"] = np.array([0, 11, 24, 41])
    axis = 1
    if varying:
        name, call = "VarlenNGramHashMapping", "(ids, factors, sizes, ends, , offsets)"
        text = text.replace("[0, 2, 0, 0]", "[2, 0]")
        inputs |= {"ids": ids[0], "ends": np.array([0, 5], np.int32)}
        axis = 0
    constants = {"from1": [1], "to1": [6], "from0": [0], "to0": [5], "axis": [axis]}
    return Fusion(
        name,
        f"y = com.microsoft.{name}<{told}>{call}",
        text,
        inputs,
        constants={key: np.array(value) for key, value in constants.items()},
    )


#: The values of a 4-bit normal float (Dettmers et al. 2023, appendix E).
_NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
        *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
        *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)


def _bnb4() -> Fusion:
    packed, scales = octets(96) * 2, np.abs(real(6))
    values = _NF4[np.stack([packed // 16, packed % 16], -1).reshape(6, 32)] * scales[:, None]
    return Fusion(
        "MatMulBnb4",
        "y = com.microsoft.MatMulBnb4<K = 32, N = 6, block_size = 32, quant_type = 1>(x, w, s)",
        "y = MatMul(x, m)",
        {"x": real(2, 3, 32), "w": packed, "s": scales},
        stored=("w", "s"),
        constants={"m": np.ascontiguousarray(values.T)},
    )


def _quantized_experts() -> Fusion:
    """Symmetric 4-bit weights, one scale for each row; a sum of many small products is less alike than one."""
    inputs: dict[str, Any] = {"x": real(4, 32), "r": real(4, 5)}
    matrices = {}
    for name, rows, columns in (("f1", 32, 32), ("f2", 32, 32)):
        packed, scales = octets(5, rows, columns // 2), np.abs(real(5, rows)) / 8
        values = np.stack([packed % 16, packed // 16], -1).reshape(5, rows, columns).astype(np.float32) - 8
        inputs |= {f"{name}q": packed, f"{name}s": scales}
        matrices[name] = values * scales[..., None]
    return Fusion(
        "QMoE",
        'y = com.microsoft.QMoE<k = 2, activation_type = "relu", normalize_routing_weights = 1>'
        "(x, r, f1q, f1s, , f2q, f2s)",
        chosen(normalized=True).replace("[4, 1, 8, 1]", "[4, 1, 32, 1]") + "a = Relu(h0)" + BLENDED,
        inputs,
        stored=("f1q", "f1s", "f2q", "f2s"),
        constants=matrices,
        tolerance=2e-2,
    )


_WEIGHTS = [
    _bnb4(),
    _quantized_experts(),
    Fusion(
        "MatMulFpQ4",
        "y = com.microsoft.MatMulFpQ4(x, w, shape)",
        "y = MatMul(x, m)",
        {"x": real(2, 3, 32), "w": octets(120), "shape": np.array([32, 6])},
        stored=("w", "shape"),
        constants={"m": real(32, 6)},
        runs=False,
    ),
    Fusion(
        "MatMulBlockQuantizedFp4Weight",
        "y = com.microsoft.MatMulBlockQuantizedFp4Weight(x, w, s, s2, , b)",
        "z = MatMul(x, m)\ny = Add(z, b)",
        {"x": real(2, 3, 32), "w": octets(6, 16), "s": octets(6, 2), "s2": number(1), "b": real(6)},
        stored=("w", "s", "s2"),
        constants={"m": real(32, 6)},
        runs=False,
    ),
]

_INTEGERS = {"x": octets(1, 4, 8, dtype=np.int8), "sx": number(0.02), "sy": number(0.05)}
_ORDERS = "order_X = 1, order_Y = 1"

_ORDERED = [
    Fusion(
        "QOrderedGelu",
        f"y = com.microsoft.QOrderedGelu<{_ORDERS}>(x, sx, sy)",
        "d = DequantizeLinear(x, sx)\ng = Gelu(d)\ny = QuantizeLinear<output_dtype = 3>(g, sy)",
        _INTEGERS,
        runs=False,
    ),
    Fusion(
        "QOrderedLayerNormalization",
        f"y = com.microsoft.QOrderedLayerNormalization<{_ORDERS}>(x, sx, g, b, sy)",
        "d = DequantizeLinear(x, sx)\nn = LayerNormalization(d, g, b)\ny = QuantizeLinear<output_dtype = 3>(n, sy)",
        {**_INTEGERS, "g": real(8), "b": real(8)},
        runs=False,
    ),
    Fusion(
        "QuantizeWithOrder",
        "y = com.microsoft.QuantizeWithOrder<order_input = 1, order_output = 1>(x, s)",
        "y = QuantizeLinear<output_dtype = 3>(x, s)",
        {"x": real(1, 4, 8), "s": number(0.05)},
        runs=False,
    ),
    Fusion(
        "DequantizeWithOrder",
        "y = com.microsoft.DequantizeWithOrder<order_input = 1, order_output = 1, to = 1>(x, sx)",
        "y = DequantizeLinear(x, sx)",
        {"x": _INTEGERS["x"], "sx": _INTEGERS["sx"]},
        runs=False,
    ),
]

FUSIONS = [
    *_PACKED,
    *_WITH_CACHE,
    *_WEIGHTS,
    *_ORDERED,
    _attended_lstm(),
    _hashes(varying=False),
    _hashes(varying=True),
]
