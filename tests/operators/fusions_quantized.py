"""Quantised operators of onnxruntime, and the same written with ONNX's operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.operators.fusions import Fusion, number, octets, real

_A = {"a": octets(2, 1, 4), "sa": number(0.02), "za": number(60, np.uint8)}
_B = {"b": octets(3, 1), "sb": number(0.03), "zb": number(40, np.uint8)}
_Y = {"sy": number(0.05), "zy": number(100, np.uint8)}
_X = {"a": octets(1, 3, 7, 7), "sa": number(0.02), "za": number(60, np.uint8)}
_XA = "x = DequantizeLinear(a, sa, za)\n"
_OUT = "y = QuantizeLinear(z, sy, zy)\n"


def _two(name: str, plain: str) -> Fusion:
    return Fusion(
        f"QLinear{plain}",
        f"y = com.microsoft.QLinear{plain}(a, sa, za, b, sb, zb, sy, zy)",
        _XA + f"w = DequantizeLinear(b, sb, zb)\nz = {plain}(x, w)\n" + _OUT,
        {**_A, **_B, **_Y},
        tolerance=1,
    )


def _one(plain: str, attributes: str = "", extra: str = "", inputs: dict[str, Any] | None = None) -> Fusion:
    """The same between dequantisation and quantisation; results may be one step apart, by the order of roundings."""
    both = f"<{attributes}>" if attributes else ""
    named = ", ".join(part for part in (attributes, extra) if part)
    return Fusion(
        f"QLinear{plain}{both}",
        f"y = com.microsoft.QLinear{plain}{f'<{named}>' if named else ''}(a, sa, za, sy, zy)",
        _XA + f"z = {plain}{both}(x)\n" + _OUT,
        inputs or {**_X, **_Y},
        tolerance=1,
    )


_BETWEEN = [
    _two("a", "Add"),
    _two("a", "Mul"),
    _one("LeakyRelu", "alpha = 0.25"),
    _one("Sigmoid"),
    _one("Softmax", "axis = -1", "opset = 13", {**_A, "sy": number(1 / 256), "zy": number(0, np.uint8)}),
    _one("AveragePool", "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 0]"),
    _one("GlobalAveragePool"),
    Fusion(
        "QLinearGlobalAveragePool, channels last",
        "y = com.microsoft.QLinearGlobalAveragePool<channels_last = 1>(a, sa, za, sy, zy)",
        _XA
        + "t = Transpose<perm = [0, 3, 1, 2]>(x)\nu = GlobalAveragePool(t)\nz = Transpose<perm = [0, 2, 3, 1]>(u)\n"
        + _OUT,
        {**_X, "a": octets(1, 7, 7, 3), **_Y},
        tolerance=1,
    ),
    Fusion(
        "QLinearLeakyRelu without zero points",
        "y = com.microsoft.QLinearLeakyRelu<alpha = 0.25>(a, sa, , sy)",
        "x = DequantizeLinear(a, sa)\nz = LeakyRelu<alpha = 0.25>(x)\ny = QuantizeLinear(z, sy)",
        {"a": octets(2, 3), "sa": number(0.02), "sy": number(0.05)},
        runs=False,  # onnxruntime 1.31 and 1.32 crash
    ),
    Fusion(
        "QLinearReduceMean",
        "y = com.microsoft.QLinearReduceMean<axes = [2], keepdims = 0>(a, sa, za, sy, zy)",
        "n = Constant<value_ints = [2]>()\n" + _XA + "z = ReduceMean<keepdims = 0>(x, n)\n" + _OUT,
        {**_X, **_Y},
        runs=False,
    ),
    Fusion(
        "QLinearConcat",
        "y = com.microsoft.QLinearConcat<axis = 1>(sy, zy, a, sa, za, b, sb, zb)",
        _XA + "w = DequantizeLinear(b, sb, zb)\nz = Concat<axis = 1>(x, w)\n" + _OUT,
        {**_A, **_B, **_Y, "a": octets(2, 3), "b": octets(2, 4)},
        tolerance=1,
    ),
    Fusion(
        "QLinearWhere",
        "y = com.microsoft.QLinearWhere(c, a, sa, za, b, sb, zb, sy, zy)",
        _XA + "w = DequantizeLinear(b, sb, zb)\nz = Where(c, x, w)\n" + _OUT,
        {"c": np.array([[True, False, True, False]]), **_A, **_B, **_Y},
        tolerance=1,
    ),
    Fusion(
        "QuantizeLinear",
        "y = com.microsoft.QuantizeLinear(x, sy, zy)",
        "y = QuantizeLinear(x, sy, zy)",
        {"x": real(3, 4), **_Y},
        tolerance=1,
    ),
    Fusion(
        "DequantizeLinear",
        "y = com.microsoft.DequantizeLinear<axis = 1>(a, sa, za)",
        "y = DequantizeLinear<axis = 1>(a, sa, za)",
        {"a": octets(2, 3), "sa": real(3), "za": octets(3)},
    ),
]

_MATRIX = {"a": octets(2, 3, 4), "b": octets(4, 5)}
_SCALES = {"sa": number(0.02), "sb": real(5), "za": number(60, np.uint8), "zb": octets(5)}

_PRODUCTS = [
    Fusion(
        "MatMulIntegerToFloat",
        "y = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za, zb, c)",
        "i = MatMulInteger(a, b, za, zb)\nf = Cast<to = 1>(i)\ns = Mul(sa, sb)\ng = Mul(f, s)\ny = Add(g, c)",
        {**_MATRIX, **_SCALES, "c": real(5)},
    ),
    Fusion(
        "MatMulIntegerToFloat without zero points",
        "y = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb)",
        "i = MatMulInteger(a, b)\nf = Cast<to = 1>(i)\ns = Mul(sa, sb)\ny = Mul(f, s)",
        {**_MATRIX, "sa": number(0.02), "sb": real(5)},
    ),
    Fusion(
        "DynamicQuantizeMatMul",
        "y = com.microsoft.DynamicQuantizeMatMul(x, b, sb, zb, c)",
        "a, sa, za = DynamicQuantizeLinear(x)\ni = MatMulInteger(a, b, za, zb)\nf = Cast<to = 1>(i)\ns = Mul(sa, sb)\n"
        "g = Mul(f, s)\ny = Add(g, c)",
        {"x": real(2, 3, 4), "b": _MATRIX["b"], "sb": real(5), "zb": octets(5), "c": real(5)},
    ),
    Fusion(
        "QGemm to real numbers",
        "y = com.microsoft.QGemm<transB = 1>(a, sa, za, b, sb, zb)",
        "t = Transpose<perm = [1, 0]>(b)\ni = MatMulInteger(a, t, za, zb)\nf = Cast<to = 1>(i)\ns = Mul(sa, sb)\n"
        "y = Mul(f, s)",
        {"a": octets(3, 4), "b": octets(5, 4), **_SCALES},
    ),
    Fusion(
        "QGemm",
        "y = com.microsoft.QGemm(a, sa, za, b, sb, zb, , sy, zy)",
        "y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)",
        {**_A, "a": octets(3, 4), "b": octets(4, 5), "sb": number(0.03), "zb": number(40, np.uint8), **_Y},
        tolerance=1,
    ),
    Fusion(
        "QGemm with a bias",
        "y = com.microsoft.QGemm(a, sa, za, b, sb, zb, c)",
        "i = MatMulInteger(a, b, za, zb)\nj = Add(i, c)\nf = Cast<to = 1>(j)\ns = Mul(sa, sb)\ny = Mul(f, s)",
        {"a": octets(3, 4), "b": octets(4, 5), **_SCALES, "c": octets(5, dtype=np.int32)},
    ),
    Fusion(
        "QLinearConv, channels last",
        "y = com.microsoft.QLinearConv<channels_last = 1, pads = [1, 0, 1, 2]>(a, sa, za, b, sb, zb, sy, zy)",
        "t = Transpose<perm = [0, 3, 1, 2]>(a)\nu = QLinearConv<pads = [1, 0, 1, 2]>(t, sa, za, b, sb, zb, sy, zy)\n"
        "y = Transpose<perm = [0, 2, 3, 1]>(u)",
        {**_A, "a": octets(1, 7, 6, 3), **_B, "b": octets(4, 3, 3, 3), **_Y},
        tolerance=1,
    ),
    Fusion(
        "MulInteger",
        "y = com.microsoft.MulInteger(a, za, b, zb)",
        """
            ai = Cast<to = 6>(a)
            bi = Cast<to = 6>(b)
            zai = Cast<to = 6>(za)
            zbi = Cast<to = 6>(zb)
            ad = Sub(ai, zai)
            bd = Sub(bi, zbi)
            y = Mul(ad, bd)
        """,
        {"a": _A["a"], "za": _A["za"], "b": _B["b"], "zb": _B["zb"]},
        runs=False,
    ),
    Fusion(
        "ReduceSumInteger",
        "y = com.microsoft.ReduceSumInteger<axes = [1], keepdims = 1>(a)",
        "n = Constant<value_ints = [1]>()\ni = Cast<to = 6>(a)\ny = ReduceSum<keepdims = 1>(i, n)",
        {"a": octets(2, 3, 4)},
        runs=False,
    ),
]

_GATHERED = {"d": octets(6, 16), "i": np.array([[0, 5], [3, 3]]), "s": real(6, 2)}


def _unpacked() -> Any:
    """The 4-bit elements of the table, 8 subtracted, and a scale for each."""
    low, high = _GATHERED["d"] % 16, _GATHERED["d"] // 16
    return np.stack([low, high], -1).reshape(6, 32).astype(np.uint8), np.repeat(_GATHERED["s"], 16, axis=1)


_TABLE, _EACH = _unpacked()
_HALVES = real(6, 64).astype(np.float16)


def _table(kind: str) -> tuple[Any, Any, Any]:
    """A table of 6 rows of 64 elements in blocks of 32 with a scale of 2 bytes; its elements, and a scale for each."""
    scales = np.abs(real(6, 2, 1)).astype(np.float16)
    if kind == "q8_0":
        values = octets(6, 2, 32, dtype=np.int8)
        codes = values.view(np.uint8)
    else:
        values = octets(6, 2, 32) % 16
        codes = values[..., :16] | values[..., 16:] << 4
    blob = np.concatenate([scales.view(np.uint8), codes], -1).reshape(6, -1)
    return blob, values.reshape(6, 64), np.repeat(scales.astype(np.float32), 32, -1).reshape(6, 64)


def _gathered_packed(kind: str, code: int, offset: bool) -> Fusion:
    blob, table, each = _table(kind)
    return Fusion(
        f"GatherPacked, {kind}",
        f"y = com.microsoft.GatherPacked<K = 64, packed_type = {code}, output_dtype = 1>(d, i)",
        """
            g = Gather<axis = 0>(table, i)
            gs = Gather<axis = 0>(each, i)
            f = Cast<to = 1>(g)
        """
        + ("middle = Constant<value_float = 8.0>()\no = Sub(f, middle)\n" if offset else "o = Identity(f)\n")
        + "y = Mul(o, gs)",
        {"d": blob, "i": np.array([[0, 5], [3, 3]])},
        stored=("d",),
        constants={"table": table, "each": each},
        since="1.32",
    )


_OTHERS = [
    _gathered_packed("q4_0", 2, offset=True),
    _gathered_packed("q8_0", 8, offset=False),
    Fusion(
        "GatherPacked, float16",
        "y = com.microsoft.GatherPacked<K = 64, packed_type = 1, output_dtype = 1>(d, i)",
        "g = Gather<axis = 0>(table, i)\ny = Cast<to = 1>(g)",
        {"d": _HALVES.view(np.uint8), "i": np.array([[0, 5], [3, 3]])},
        stored=("d",),
        constants={"table": _HALVES},
        since="1.32",
    ),
    Fusion(
        "GatherBlockQuantized",
        "y = com.microsoft.GatherBlockQuantized<bits = 4, block_size = 16, quantize_axis = 1>(d, i, s)",
        """
            g = Gather<axis = 0>(table, i)
            gs = Gather<axis = 0>(each, i)
            f = Cast<to = 1>(g)
            middle = Constant<value_float = 8.0>()
            o = Sub(f, middle)
            y = Mul(o, gs)
        """,
        _GATHERED,
        stored=("d", "s"),
        constants={"table": _TABLE, "each": _EACH},
    ),
    Fusion(
        "QEmbedLayerNormalization",
        "y, n = com.microsoft.QEmbedLayerNormalization<epsilon = 1e-5>"
        "(i, t, w, p, u, g, b, , sw, sp, su, sg, sb, zw, zp, zu, zg, zb)",
        """
            wi = Gather<axis = 0>(w, i)
            ti = Gather<axis = 0>(u, t)
            pi = Gather<axis = 0>(p, places)
            we = DequantizeLinear(wi, sw, zw)
            te = DequantizeLinear(ti, su, zu)
            pe0 = Expand(pi, whole)
            pe = DequantizeLinear(pe0, sp, zp)
            ge = DequantizeLinear(g, sg, zg)
            be = DequantizeLinear(b, sb, zb)
            s1 = Add(we, pe)
            s2 = Add(s1, te)
            y = LayerNormalization<epsilon = 1e-5>(s2, ge, be)
        """,
        {
            "i": np.array([[1, 4, 2], [0, 3, 3]], np.int32),
            "t": np.array([[0, 0, 1], [0, 1, 1]], np.int32),
            "w": octets(6, 8),
            "p": octets(4, 8),
            "u": octets(2, 8),
            "g": octets(8),
            "b": octets(8),
            **{f"s{x}": number(0.01 * i) for i, x in enumerate("wpugb", 1)},
            **{f"z{x}": number(10 * i, np.uint8) for i, x in enumerate("wpugb", 1)},
        },
        constants={"places": np.arange(3)[None], "whole": np.array([2, 3, 8])},
    ),
]


def _lstm() -> Fusion:
    """One direction, as the quantised steps that onnxruntime's kernel takes."""
    hidden, width, steps, batch = 2, 3, 2, 1
    text = f"""
        first = Constant<value_ints = [0]>()
        xq, xs, xz = DynamicQuantizeLinear(x)
        w1 = Squeeze(w, first)
        ri = Cast<to = 6>(r)
        rzi = Cast<to = 6>(rz)
        rd = Sub(ri, rzi)
        rq = Cast<to = 3>(rd)
        r1 = Squeeze(rq, first)
        xi = MatMulInteger(xq, w1, xz, wz)
        xf0 = Cast<to = 1>(xi)
        xf1 = Mul(xf0, xs)
        xf = Mul(xf1, ws)
        b1 = Squeeze(b, first)
        bw, br = Split<axis = 0, num_outputs = 2>(b1)
        x0, x1 = Split<axis = 0, num_outputs = {steps}>(xf)
    """
    for step in range(steps):
        state = "h0" if step == 0 else f"h{step}"
        text += f"""
            t{step} = Squeeze(x{step}, first)
            hq{step}, hs{step}, hz{step} = DynamicQuantizeLinear({state})
            hi{step} = MatMulInteger(hq{step}, r1, hz{step})
            ha{step} = Cast<to = 1>(hi{step})
            hb{step} = Mul(ha{step}, hs{step})
            hc{step} = Mul(hb{step}, rs)
            g{step}a = Add(t{step}, hc{step})
            g{step}b = Add(g{step}a, bw)
            g{step}c = Add(g{step}b, br)
            i{step}, o{step}, f{step}, k{step} = Split<axis = -1, num_outputs = 4>(g{step}c)
            is{step} = Sigmoid(i{step})
            os{step} = Sigmoid(o{step})
            fs{step} = Sigmoid(f{step})
            kt{step} = Tanh(k{step})
            fc{step} = Mul(fs{step}, c{step})
            ik{step} = Mul(is{step}, kt{step})
            c{step + 1} = Add(fc{step}, ik{step})
            ct{step} = Tanh(c{step + 1})
            h{step + 1} = Mul(os{step}, ct{step})
        """
    return Fusion(
        "DynamicQuantizeLSTM",
        f"h, y, c = com.microsoft.DynamicQuantizeLSTM<hidden_size = {hidden}>"
        "(x, w, r, b, , h00, c00, , ws, wz, rs, rz)",
        "h0 = Squeeze(h00, first0)\nc0 = Squeeze(c00, first0)\n" + text + f"y = Unsqueeze(h{steps}, first)\n",
        {
            "x": real(steps, batch, width),
            "w": octets(1, width, 4 * hidden),
            "r": octets(1, hidden, 4 * hidden),
            "b": real(1, 8 * hidden),
            "h00": real(1, batch, hidden),
            "c00": real(1, batch, hidden),
            "ws": number(0.02).reshape(1),
            "wz": number(60, np.uint8).reshape(1),
            "rs": number(0.03).reshape(1),
            "rz": number(40, np.uint8).reshape(1),
        },
        constants={"first0": np.array([0])},
        tolerance=2e-2,
    )


FUSIONS = [*_BETWEEN, *_PRODUCTS, *_OTHERS, _lstm()]
