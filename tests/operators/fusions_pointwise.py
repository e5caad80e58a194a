"""Pointwise operators, normalisations and the rest of onnxruntime's, and the same written with ONNX's operators."""

from __future__ import annotations

import numpy as np
from tests.operators.fusions import Fusion, number, real, swiglu

_ROWS = {"x": real(2, 3, 8), "b": real(8)}
_SKIP = {"x": real(2, 3, 8), "skip": real(2, 3, 8), "g": real(8), "b": real(8)}
_COMPLEX = {"x": real(3, 5, 2), "w": real(3, 5, 2)}

_GELUS = [
    Fusion("Gelu", "y = com.microsoft.Gelu(x)", "y = Gelu(x)", {"x": real(2, 3)}),
    Fusion(
        "FastGelu",
        "y = com.microsoft.FastGelu(x, b)",
        'z = Add(x, b)\ny = Gelu<approximate = "tanh">(z)',
        _ROWS,
    ),
    Fusion("FastGelu, plain", "y = com.microsoft.FastGelu(x)", 'y = Gelu<approximate = "tanh">(x)', {"x": real(2, 3)}),
    Fusion(
        "QuickGelu",
        "y = com.microsoft.QuickGelu<alpha = 1.5>(x)",
        "a = Constant<value_float = 1.5>()\nz = Mul(x, a)\ns = Sigmoid(z)\ny = Mul(x, s)",
        {"x": real(2, 3)},
    ),
    Fusion("BiasGelu", "y = com.microsoft.BiasGelu(x, b)", "z = Add(x, b)\ny = Gelu(z)", _ROWS),
    Fusion(
        "BiasSplitGelu",
        "y = com.microsoft.BiasSplitGelu(x, b)",
        "z = Add(x, b)\nl, r = Split<axis = -1, num_outputs = 2>(z)\ng = Gelu(r)\ny = Mul(l, g)",
        _ROWS,
        runs=False,
    ),
    Fusion(
        "ScaledSiLU",
        "y = com.microsoft.ScaledSiLU<alpha = 1.5>(x)",
        "a = Constant<value_float = 1.5>()\nz = Mul(x, a)\ns = Sigmoid(z)\ny = Mul(z, s)",
        {"x": real(2, 3)},
    ),
    Fusion(
        "GatedAdd",
        "y = com.microsoft.GatedAdd(x, z, g)",
        "p = Mul(z, g)\ny = Add(x, p)",
        {"x": real(2, 3), "z": real(2, 3), "g": real(2, 1)},
    ),
    Fusion(
        "GatedAdd, a product in the gate",
        "y = com.microsoft.GatedAdd(x, z, g, w)",
        "p = MatMul(g, w)\ns = Sigmoid(p)\nm = Mul(z, s)\ny = Add(x, m)",
        {"x": real(2, 3), "z": real(2, 3), "g": real(2, 5), "w": real(5, 1)},
        runs=False,
    ),
    Fusion(
        "SwiGLU",
        "y = com.microsoft.SwiGLU<activation_alpha = 1.5, activation_beta = 1.0, limit = 2.0>(g0, l0)",
        swiglu("y"),
        {"g0": real(2, 3, 4), "l0": real(2, 3, 4)},
        runs=False,
    ),
    Fusion(
        "SwiGLU of both halves",
        "y = com.microsoft.SwiGLU(x)",
        "g, l = Split<axis = -1, num_outputs = 2>(x)\ns = Sigmoid(g)\na = Mul(g, s)\ny = Mul(a, l)",
        {"x": real(2, 3, 8)},
        runs=False,
    ),
    Fusion(
        "RMSNormRotary",
        "y, n = com.microsoft.RMSNormRotary<input_start = 2, input_width = 6, rotary_embedding_dim = 4>(x, g, i, c, s)",
        """
            start = Constant<value_ints = [2]>()
            end = Constant<value_ints = [8]>()
            last = Constant<value_ints = [-1]>()
            flat = Constant<value_ints = [0, 0, -1]>()
            part = Slice(x, start, end, last)
            n = RMSNormalization<axis = -1>(part, g)
            t = Transpose<perm = [0, 2, 1, 3]>(n)
            r = RotaryEmbedding<rotary_embedding_dim = 4>(t, c, s, i)
            b = Transpose<perm = [0, 2, 1, 3]>(r)
            y = Reshape(b, flat)
        """,
        {"x": real(2, 3, 4, 10), "g": real(6), "i": np.tile(np.arange(3), (2, 1)), "c": real(9, 2), "s": real(9, 2)},
        runs=False,
    ),
    Fusion(
        "BiasAdd",
        "y = com.microsoft.BiasAdd(x, b, skip)",
        "z = Add(x, b)\ny = Add(z, skip)",
        {**_ROWS, "skip": real(2, 3, 8)},
        runs=False,
    ),
    Fusion(
        "BiasDropout",
        "y, mask = com.microsoft.BiasDropout(x, b, skip)",
        "z = Add(x, b)\nd = Dropout(z)\ny = Add(d, skip)",
        {**_ROWS, "skip": real(2, 3, 8)},
        runs=False,
    ),
    Fusion(
        "BiasSoftmax",
        "y = com.microsoft.BiasSoftmax<axis = 3, is_inner_broadcast = 0>(x, b)",
        "z = Add(x, b)\ny = Softmax<axis = -1>(z)",
        {"x": real(2, 4, 5, 5), "b": real(2, 1, 5, 5)},
        runs=False,
    ),
    Fusion(
        "ComplexMul",
        "y = com.microsoft.ComplexMul(x, w)",
        """
            a, b = Split<axis = -1, num_outputs = 2>(x)
            c, d = Split<axis = -1, num_outputs = 2>(w)
            ac = Mul(a, c)
            bd = Mul(b, d)
            ad = Mul(a, d)
            bc = Mul(b, c)
            re = Sub(ac, bd)
            im = Add(ad, bc)
            y = Concat<axis = -1>(re, im)
        """,
        _COMPLEX,
        runs=False,
    ),
    Fusion(
        "IsAllFinite",
        "y = com.microsoft.IsAllFinite<isnan_only = 1>(x, w)",
        "a = IsNaN(x)\nb = IsNaN(w)\ny = Concat<axis = 0>(a, b)",
        _COMPLEX,
        runs=False,
    ),
]

_NORMS = [
    Fusion(
        "SkipLayerNormalization",
        "y = com.microsoft.SkipLayerNormalization<epsilon = 1e-5>(x, skip, g, b, c)",
        "s = Add(x, skip)\nt = Add(s, c)\ny = LayerNormalization<epsilon = 1e-5>(t, g, b)",
        {**_SKIP, "c": real(8)},
    ),
    Fusion(
        "SkipLayerNormalization, its sum and no beta",
        "y, m, i, sum = com.microsoft.SkipLayerNormalization<epsilon = 1e-5>(x, skip, g)",
        "s = Add(x, skip)\ny, m, i = LayerNormalization<epsilon = 1e-5>(s, g)",
        {n: x for n, x in _SKIP.items() if n != "b"},
        runs=False,  # the kernel for the processor makes no means
    ),
    Fusion(
        "SkipSimplifiedLayerNormalization",
        "y, , , sum = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 1e-5>(x, skip, g, c)",
        "s = Add(x, skip)\nt = Add(s, c)\ny = RMSNormalization<epsilon = 1e-5>(t, g)",
        {**{n: x for n, x in _SKIP.items() if n != "b"}, "c": real(8)},
    ),
    Fusion(
        "SimplifiedLayerNormalization",
        "y = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-5>(x, g)",
        "y = RMSNormalization<axis = -1, epsilon = 1e-5>(x, g)",
        {"x": real(2, 3, 8), "g": real(8)},
    ),
    Fusion(
        "EmbedLayerNormalization",
        "y, n, sum = com.microsoft.EmbedLayerNormalization<epsilon = 1e-5>(i, t, w, p, u, g, b, mask)",
        """
            wi = Gather<axis = 0>(w, i)
            ti = Gather<axis = 0>(u, t)
            pi = Gather<axis = 0>(p, places)
            s1 = Add(wi, pi)
            s2 = Add(s1, ti)
            y = LayerNormalization<epsilon = 1e-5>(s2, g, b)
            last = Constant<value_ints = [1]>()
            n = ReduceSum<keepdims = 0>(mask, last)
        """,
        {
            "i": np.array([[1, 4, 2], [0, 3, 3]], np.int32),
            "t": np.array([[0, 0, 1], [0, 1, 1]], np.int32),
            "w": real(6, 8),
            "p": real(4, 8),
            "u": real(2, 8),
            "g": real(8),
            "b": real(8),
            "mask": np.array([[1, 1, 1], [1, 1, 0]], np.int32),
        },
        constants={"places": np.arange(3)[None]},
    ),
    Fusion(
        "GroupNorm",
        "y = com.microsoft.GroupNorm<groups = 2, activation = 1>(x, g, b)",
        """
            t = Transpose<perm = [0, 3, 1, 2]>(x)
            z = GroupNormalization<num_groups = 2>(t, g, b)
            i = Sigmoid(z)
            u = Mul(z, i)
            y = Transpose<perm = [0, 2, 3, 1]>(u)
        """,
        {"x": real(2, 5, 5, 4), "g": real(4), "b": real(4)},
        runs=False,
    ),
    Fusion(
        "SkipGroupNorm",
        "y = com.microsoft.SkipGroupNorm<groups = 2, activation = 1, channels_last = 0>(x, g, b, skip, c)",
        """
            s = Add(x, skip)
            t = Add(s, c)
            z = GroupNormalization<num_groups = 2>(t, g, b)
            i = Sigmoid(z)
            y = Mul(z, i)
        """,
        {"x": real(2, 4, 5, 5), "g": real(4), "b": real(4), "skip": real(2, 4, 5, 5), "c": real(4, 1, 1)},
        runs=False,
    ),
    Fusion(
        "GatedRMSNorm",
        "y = com.microsoft.GatedRMSNorm<epsilon = 1e-5>(x, g, z)",
        """
            apart = Constant<value_ints = [2, 3, 2, 4]>()
            x4 = Reshape(x, apart)
            n4 = RMSNormalization<axis = -1, epsilon = 1e-5>(x4, g)
            whole = Constant<value_ints = [2, 3, 8]>()
            n = Reshape(n4, whole)
            i = Sigmoid(z)
            s = Mul(z, i)
            y = Mul(n, s)
        """,
        {"x": real(2, 3, 8), "g": real(4), "z": real(2, 3, 8)},
    ),
    Fusion(
        "GatedRMSNorm by a sigmoid",
        'y = com.microsoft.GatedRMSNorm<epsilon = 1e-5, activation = "sigmoid">(x, g, z)',
        "n = RMSNormalization<axis = -1, epsilon = 1e-5>(x, g)\ni = Sigmoid(z)\ny = Mul(n, i)",
        {"x": real(2, 3, 8), "g": real(8), "z": real(2, 3, 8)},
    ),
    Fusion(
        "BranchwiseRMSNorm",
        "y = com.microsoft.BranchwiseRMSNorm<epsilon = 1e-5, num_branches = 2>(x, g)",
        """
            apart = Constant<value_ints = [2, 3, 2, 4]>()
            x4 = Reshape(x, apart)
            n4 = RMSNormalization<axis = -1, epsilon = 1e-5>(x4, g)
            whole = Constant<value_ints = [2, 3, 8]>()
            y = Reshape(n4, whole)
        """,
        {"x": real(2, 3, 8), "g": real(4)},
    ),
]

_MATRICES = {"x": real(3, 4), "w": real(5, 4)}
_DISTANCES = """
    one = Constant<value_ints = [1]>()
    last = Constant<value_ints = [-1]>()
    a = Unsqueeze(x, one)
    d = Sub(a, w)
    q = Mul(d, d)
    s = ReduceSum<keepdims = 0>(q, last)
"""


def _crop(mode: str) -> str:
    """Text of CropAndResize: places of rows and columns, and the four neighbours or the nearest."""
    text = """
        y1, x1, y2, x2 = Split<axis = 1, num_outputs = 4>(rois)
        imaged = Gather<axis = 0>(x, which)
        channels_last = Transpose<perm = [0, 2, 3, 1]>(imaged)
        zero = Constant<value_float = 0.0>()
    """
    for axis in "yx":
        text += f"""
            {axis}long = Sub({axis}2, {axis}1)
            {axis}wide = Mul({axis}long, {axis}most)
            {axis}step = Div({axis}wide, {axis}gaps)
            {axis}start = Mul({axis}1, {axis}most)
            {axis}far = Mul({axis}step, {axis}range)
            {axis}at = Add({axis}start, {axis}far)
            {axis}below = Less({axis}at, zero)
            {axis}above = Greater({axis}at, {axis}most)
        """
    if mode == "nearest":
        for axis in "yx":
            text += f"{axis}r = Round({axis}at)\n{axis}i = Cast<to = 7>({axis}r)\n"
        return text + _corner("yi", "xi", "n") + "y = Transpose<perm = [0, 3, 1, 2]>(n)\n"
    for axis in "yx":
        text += f"""
            {axis}lo = Floor({axis}at)
            {axis}hi = Ceil({axis}at)
            {axis}il = Cast<to = 7>({axis}lo)
            {axis}ih = Cast<to = 7>({axis}hi)
            {axis}wh = Sub({axis}at, {axis}lo)
            {axis}wl = Sub(unit, {axis}wh)
        """
    stacked, weights = [], []
    for row in "lh":
        for column in "lh":
            name = row + column
            text += _corner(f"yi{row}", f"xi{column}", f"v{name}")
            text += f"""
                a{name} = Unsqueeze(yw{row}, last)
                b{name} = Unsqueeze(xw{column}, middle)
                w{name} = Mul(a{name}, b{name})
            """
            stacked.append(f"v{name}")
            weights.append(f"w{name}")
    return text + (
        "".join(f"s{n} = Unsqueeze({n}, last)\n" for n in stacked)
        + "".join(f"s{n} = Unsqueeze({n}, ends)\n" for n in weights)
        + f"""
            values = Concat<axis = -1>({", ".join(f"s{n}" for n in stacked)})
            shares = Concat<axis = -1>({", ".join(f"s{n}" for n in weights)})
            shared = Mul(values, shares)
            m4 = ReduceSum<keepdims = 0>(shared, last)
            y = Transpose<perm = [0, 3, 1, 2]>(m4)
        """
    )


def _corner(rows: str, columns: str, made: str) -> str:
    """Text that gathers the elements at rows (R, h) and columns (R, w) of images (R, H, W, C)."""
    return f"""
        {made}r0 = Unsqueeze({rows}, last)
        {made}r = Expand({made}r0, grid)
        {made}c0 = Unsqueeze({columns}, middle)
        {made}c = Expand({made}c0, grid)
        {made}r4 = Unsqueeze({made}r, last)
        {made}c4 = Unsqueeze({made}c, last)
        {made}i = Concat<axis = -1>({made}r4, {made}c4)
        {made} = GatherND<batch_dims = 1>(channels_last, {made}i)
    """


_CROPPED = {
    "x": real(2, 3, 8, 6),
    "rois": np.array([[0.1, 0.2, 0.8, 0.93], [0.3, 0.0, 0.5, 0.66]], np.float32),
    "which": np.array([1, 0], np.int32),
    "size": np.array([4, 5], np.int32),
}
_CONSTANTS = {
    "ymost": number(7),
    "xmost": number(5),
    "ygaps": number(3),
    "xgaps": number(4),
    "yrange": np.arange(4, dtype=np.float32)[None],
    "xrange": np.arange(5, dtype=np.float32)[None],
    "unit": number(1),
    "last": np.array([-1]),
    "middle": np.array([1]),
    "ends": np.array([-1, -2]),
    "grid": np.array([2, 4, 5]),
}

_REST = [
    Fusion("CDist", 'y = com.microsoft.CDist<metric = "sqeuclidean">(x, w)', _DISTANCES + "y = Identity(s)", _MATRICES),
    Fusion(
        "CDist, its root", 'y = com.microsoft.CDist<metric = "euclidean">(x, w)', _DISTANCES + "y = Sqrt(s)", _MATRICES
    ),
    Fusion(
        "Rfft",
        "y = com.microsoft.Rfft<onesided = 1, normalized = 0, signal_ndim = 1>(x)",
        "one = Constant<value_ints = [-1]>()\na = Unsqueeze(x, one)\naxis = Constant<value_int = 1>()\n"
        "y = DFT<onesided = 1>(a, , axis)",
        {"x": real(3, 8)},
        runs=False,
    ),
    Fusion(
        "NhwcMaxPool",
        "y = com.microsoft.NhwcMaxPool<kernel_shape = [2, 3], strides = [2, 1]>(x)",
        "t = Transpose<perm = [0, 3, 1, 2]>(x)\nu = MaxPool<kernel_shape = [2, 3], strides = [2, 1]>(t)\n"
        "y = Transpose<perm = [0, 2, 3, 1]>(u)",
        {"x": np.arange(168, dtype=np.uint8).reshape(1, 7, 8, 3)},
    ),
    Fusion(
        "GridSample",
        "y = com.microsoft.GridSample(x, g)",
        'y = GridSample<mode = "linear">(x, g)',
        {"x": real(1, 3, 5, 6), "g": real(1, 4, 4, 2) / 2},
    ),
    Fusion(
        "CropAndResize",
        "y = com.microsoft.CropAndResize(x, rois, which, size)",
        _crop("bilinear"),
        _CROPPED,
        stored=("size",),
        constants=_CONSTANTS,
    ),
    Fusion(
        "CropAndResize, nearest",
        'y = com.microsoft.CropAndResize<mode = "nearest">(x, rois, which, size)',
        _crop("nearest"),
        _CROPPED,
        stored=("size",),
        constants=_CONSTANTS,
    ),
    Fusion(
        "GatedRelativePositionBias",
        "y = com.microsoft.GatedRelativePositionBias<num_heads = 4>(q, qb, rel, w, b, eco)",
        """
            q1 = Add(q, qb)
            apart = Constant<value_ints = [0, 0, 4, -1]>()
            q3 = Reshape(q1, apart)
            q4 = Transpose<perm = [0, 2, 1, 3]>(q3)
            u0 = MatMul(q4, w)
            u1 = Add(u0, b)
            halves = Constant<value_ints = [0, 0, 0, 2, -1]>()
            u2 = Reshape(u1, halves)
            last = Constant<value_ints = [-1]>()
            u3 = ReduceSum<keepdims = 0>(u2, last)
            u = Sigmoid(u3)
            gu, gr = Split<axis = -1, num_outputs = 2>(u)
            one = Constant<value_float = 1.0>()
            two = Constant<value_float = 2.0>()
            a = Mul(gr, eco)
            c = Sub(a, one)
            d = Mul(gu, c)
            e = Add(d, two)
            y = Mul(e, rel)
        """,
        {
            "q": real(2, 5, 12),
            "qb": real(12),
            "rel": real(1, 4, 5, 5),
            "w": real(3, 6),
            "b": real(6),
            "eco": real(1, 4, 1, 1),
        },
        runs=False,
    ),
]

FUSIONS = [*_GELUS, *_NORMS, *_REST]
