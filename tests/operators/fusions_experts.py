"""Mixtures of experts of onnxruntime, and the same written with ONNX's operators."""

from __future__ import annotations

import numpy as np
from tests.operators.fusions import Fusion, octets, real, swiglu

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
        + PICKED
    )


#: Text that multiplies with the first matrices of the chosen experts.
PICKED = """
    w1 = Gather<axis = 0>(f1, i)
    w2 = Gather<axis = 0>(f2, i)
    xs = Constant<value_ints = [4, 1, 8, 1]>()
    x4 = Reshape(x, xs)
    h4 = MatMul(w1, x4)
    h0 = Squeeze(h4, last)
"""

#: Text that takes the two halves of the results apart, whose elements take turns.
HALVES = """
    hs = Constant<value_ints = [4, 2, 8, 2]>()
    h = Reshape(h0, hs)
    g4, l4 = Split<axis = -1, num_outputs = 2>(h)
"""

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
        + HALVES
        + """
            g0 = Squeeze(g4, last)
            l0 = Squeeze(l4, last)
        """
        + swiglu("a")
        + BLENDED,
        {"x": real(4, 8), "r": real(4, 5), "f1": real(5, 16, 8), "f2": real(5, 8, 8)},
    ),
    Fusion(
        "MoE, geglu",
        'y = com.microsoft.MoE<k = 2, activation_type = "geglu", swiglu_fusion = 2>(x, r, f1, , f2)',
        chosen()
        + HALVES
        + """
            g0 = Squeeze(g4, last)
            l0 = Squeeze(l4, last)
            gg = Gelu<approximate = "tanh">(g0)
            a = Mul(gg, l0)
        """
        + BLENDED,
        {"x": real(4, 8), "r": real(4, 5), "f1": real(5, 16, 8), "f2": real(5, 8, 8)},
        runs=False,
    ),
    Fusion(
        "MoE, relu2",
        'y = com.microsoft.MoE<k = 2, activation_type = "relu2">(x, r, f1, , f2)',
        chosen() + "h = Relu(h0)\na = Mul(h, h)" + BLENDED,
        {n: x for n, x in _EXPERTS.items() if n != "b1"},
        runs=False,
    ),
]

#: Gate, up and down of five experts, in blocks and as matrices.
_BLOBS = {"x": real(4, 8), "r": real(4, 5), "wg": octets(5, 16, 9), "wu": octets(5, 16, 9), "wd": octets(5, 8, 9)}
_MATRICES = {"f1": real(5, 16, 8), "f3": real(5, 16, 8), "f2": real(5, 8, 16)}
_TYPES = "gate_type = 2, up_type = 2, down_type = 2, k = 2"


def weighed(scores: str, epsilon: bool) -> str:
    """Text that chooses two experts by scores for each token, and normalises and scales weights of their own."""
    text = f"""
        k = Constant<value_ints = [2]>()
        last = Constant<value_ints = [-1]>()
        mid = Constant<value_ints = [1]>()
        zero = Constant<value_float = 0.0>()
        p0, i = TopK({scores}, k)
        p1 = GatherElements<axis = 1>(rw, i)
        t0 = ReduceSum(p1, last)
    """
    if epsilon:
        text += "tiny = Constant<value_float = 0.001>()\nt = Add(t0, tiny)\np2 = Div(p1, t)\n"
    else:
        text += "t = Identity(t0)\nt1 = Reciprocal(t)\np2 = Mul(p1, t1)\n"
    return text + "none = Equal(t, zero)\nfactor = Constant<value_float = 2.5>()\np = Mul(p2, factor)\n" + PICKED


_STORED = [
    Fusion(
        "MoEPacked",
        f"y = com.microsoft.MoEPacked<{_TYPES}>(x, r, wg, wu, wd)",
        chosen(normalized=True)
        + """
            w3 = Gather<axis = 0>(f3, i)
            l4 = MatMul(w3, x4)
            l0 = Squeeze(l4, last)
            s = Sigmoid(h0)
            g = Mul(h0, s)
            a = Mul(g, l0)
        """
        + BLENDED,
        _BLOBS,
        stored=("wg", "wu", "wd"),
        constants=_MATRICES,
        runs=False,
    ),
    Fusion(
        "MoEPacked, relu2",
        f'y = com.microsoft.MoEPacked<{_TYPES}, activation_type = "relu2", normalize_routing_weights = 0>'
        "(x, r, wg, , wd)",
        chosen() + "h = Relu(h0)\na = Mul(h, h)" + BLENDED,
        {n: x for n, x in _BLOBS.items() if n != "wu"},
        stored=("wg", "wd"),
        constants=_MATRICES,
        runs=False,
    ),
    *(
        Fusion(
            f"MoEPacked with weights of its own{', and an epsilon' if epsilon else ''}",
            f'y = com.microsoft.MoEPacked<{_TYPES}, activation_type = "relu_squared", routed_scaling_factor = 2.5'
            f"{', routing_epsilon = 0.001' if epsilon else ''}>(x, r, wg, , wd, rw)",
            weighed("r", epsilon) + "h = Relu(h0)\na = Mul(h, h)" + BLENDED,
            {n: x for n, x in _BLOBS.items() if n != "wu"} | {"rw": np.abs(real(4, 5))},
            stored=("wg", "wd"),
            constants=_MATRICES,
            runs=False,
        )
        for epsilon in (False, True)
    ),
]

#: 12 experts in 4 groups; of each token two groups and three experts.
_ROUTED = """
    last = Constant<value_ints = [-1]>()
    two = Constant<value_ints = [2]>()
    three = Constant<value_ints = [3]>()
    grouped = Constant<value_ints = [-1, 4, 3]>()
    flat = Constant<value_ints = [-1, 6]>()
    tiny = Constant<value_float = 1e-20>()
    s = Sigmoid(x2)
    c = Add(s, bias)
    g = Reshape(c, grouped)
    t, _0 = TopK(g, two)
    best = ReduceSum<keepdims = 0>(t, last)
    _1, gi0 = TopK(best, two)
    gi = Unsqueeze(gi0, last)
    kept0 = GatherND<batch_dims = 1>(g, gi)
    kept = Reshape(kept0, flat)
    names0 = GatherND<batch_dims = 1>(numbers, gi)
    names = Reshape(names0, flat)
    _2, at = TopK(kept, three)
    e = GatherElements<axis = 1>(names, at)
    chosen = GatherElements<axis = 1>(s, e)
    most = Max(chosen, tiny)
    l = Log(most)
    y = ScatterElements<axis = 1>(low, e, l)
"""
_GROUPS = "n_group = 4, topk_group = 2, group_topk = 2, top_k = 3"
_LOW, _NUMBERS = np.full((6, 12), -1e4, np.float32), np.tile(np.arange(12).reshape(1, 4, 3), (6, 1, 1))

_ROUTERS = [
    Fusion(
        "MoEGroupRouter",
        f"y = com.microsoft.MoEGroupRouter<{_GROUPS}>(x, bias)",
        "rows = Constant<value_ints = [-1, 12]>()\nx2 = Reshape(x, rows)\n" + _ROUTED,
        {"x": real(2, 3, 12), "bias": real(12)},
        constants={"low": _LOW, "numbers": _NUMBERS},
        since="1.32",
    ),
    Fusion(
        "MoEGroupRouter, scores of all experts",
        ", y, w = com.microsoft.MoEGroupRouter<top_k = 3>(x, bias, pw)",
        "pt = Transpose<perm = [1, 0]>(pw)\nz = MatMul(x, pt)\nw = Sigmoid(z)\ny = Add(w, bias)",
        {"x": real(6, 256), "bias": real(12), "pw": real(12, 256)},
        runs=False,
    ),
    Fusion(
        "RouterGateUpProj",
        "y, a = com.microsoft.RouterGateUpProj<router_size = 4, activation_alpha = 1.5, activation_beta = 1.0,"
        " limit = 2.0>(x, w)",
        "z = MatMul(x, w)\nsizes = Constant<value_ints = [4, 5, 5]>()\ny, g0, l0 = Split<axis = -1>(z, sizes)\n"
        + swiglu("a"),
        {"x": real(2, 3, 8), "w": real(8, 14)},
        runs=False,
    ),
]

FUSIONS = [*_MIXTURES, *_STORED, *_ROUTERS]
