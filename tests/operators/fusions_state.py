"""Operators of onnxruntime with a recurrent state, and the same written step by step with ONNX's operators."""

from __future__ import annotations

import numpy as np
from tests.operators.fusions import Fusion, real


def steps_of_attention(rule: str, steps: int, size: int) -> str:
    """Text of a linear attention: each step of q, k, v (B, N, 1, d) with decay (B, N, 1, 1 or d) and beta."""
    text = f"c = Constant<value_float = {size**-0.5:.9f}>()\nlast = Constant<value_ints = [-1]>()\n"
    for t in range(steps):
        state = f"s{t}"
        text += f"k{t}t = Transpose<perm = [0, 1, 3, 2]>(k{t})\n"
        if "gated" in rule:
            text += f"g{t}e = Exp(g{t})\ng{t}t = Transpose<perm = [0, 1, 3, 2]>(g{t}e)\ns{t}g = Mul({state}, g{t}t)\n"
            state = f"s{t}g"
        value = f"v{t}"
        if "delta" in rule:
            text += f"r{t} = MatMul(k{t}, {state})\nd{t} = Sub(v{t}, r{t})\nw{t} = Mul(d{t}, b{t})\n"
            value = f"w{t}"
        text += f"""
            n{t} = MatMul(k{t}t, {value})
            s{t + 1} = Add({state}, n{t})
            o{t} = MatMul(q{t}, s{t + 1})
            y{t} = Mul(o{t}, c)
        """
    return text


def _linear(rule: str) -> Fusion:
    """Two steps of two heads."""
    names = ["q", "k", "v", *(["g"] if "gated" in rule else []), *(["b"] if "delta" in rule else [])]
    text = ""
    for name in names:
        text += f"""
            {name}shape = Constant<value_ints = [0, 0, 2, -1]>()
            {name}s = Reshape({name}, {name}shape)
            {name}4 = Transpose<perm = [0, 2, 1, 3]>({name}s)
            {name}0, {name}1 = Split<axis = 2, num_outputs = 2>({name}4)
        """
    gates = ", ".join(n if n in names else "" for n in "gb").rstrip(", ")
    inputs = {"q": real(2, 2, 8), "k": real(2, 2, 8), "v": real(2, 2, 6), "s0": real(2, 2, 4, 3)}
    if "g" in names:
        inputs["g"] = real(2, 2, 2)
    if "b" in names:
        inputs["b"] = np.abs(real(2, 2, 2))
    return Fusion(
        f"LinearAttention, {rule}",
        f'y, present = com.microsoft.LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = "{rule}">'
        f"(q, k, v, s0{', ' + gates if gates else ''})",
        text
        + steps_of_attention(rule, 2, 4)
        + """
            y4 = Concat<axis = 2>(y0, y1)
            yt = Transpose<perm = [0, 2, 1, 3]>(y4)
            whole = Constant<value_ints = [0, 0, -1]>()
            y = Reshape(yt, whole)
        """,
        inputs,
    )


def _rms(name: str, scale: str) -> str:
    """Text of an RMS normalisation whose scale has two axes: ONNX's takes one."""
    return f"""
        {name}sq = Mul({name}, {name})
        {name}mean = ReduceMean({name}sq, last)
        {name}eps = Add({name}mean, epsilon)
        {name}root = Sqrt({name}eps)
        {name}unit = Div({name}, {name}root)
        {name}n = Mul({name}unit, {scale})
    """


_CONVOLVED = {"x": real(2, 4, 5), "w": real(4, 1, 3), "b": real(4), "past": real(2, 4, 2)}

_GATES = [
    Fusion(
        "LinearAttentionGate",
        "y, beta = com.microsoft.LinearAttentionGate(a, t, d, b)",
        "s = Add(a, t)\np = Softplus(s)\ny = Mul(p, d)\nbeta = Sigmoid(b)",
        {"a": real(2, 3, 4), "t": real(4), "d": real(4), "b": real(2, 3, 4)},
    ),
    Fusion(
        "CausalConvWithState",
        'y, present = com.microsoft.CausalConvWithState<activation = "silu">(x, w, b, past)',
        "l = Concat<axis = 2>(past, x)\nz = Conv<group = 4>(l, w, b)\ni = Sigmoid(z)\ny = Mul(z, i)",
        _CONVOLVED,
    ),
    Fusion(
        "CausalConvWithState, channels last",
        "y, present = com.microsoft.CausalConvWithState<channels_last = 1>(x, w, b, past)",
        "l = Concat<axis = 1>(past, x)\nt = Transpose<perm = [0, 2, 1]>(l)\nz = Conv<group = 4>(t, w, b)\n"
        "y = Transpose<perm = [0, 2, 1]>(z)",
        {**_CONVOLVED, "x": real(2, 5, 4), "past": real(2, 2, 4)},
    ),
    Fusion(
        "HyperConnectionPreMix",
        "y = com.microsoft.HyperConnectionPreMix<reduction_scale = 0.5>(x, m)",
        """
            one = Constant<value_ints = [-2]>()
            r = Unsqueeze(m, one)
            s = MatMul(r, x)
            t = Squeeze(s, one)
            half = Constant<value_float = 0.5>()
            y = Mul(t, half)
        """,
        {"x": real(2, 3, 4, 5), "m": real(2, 3, 4)},
    ),
    Fusion(
        "HyperConnectionPostMix",
        "y = com.microsoft.HyperConnectionPostMix(x, o, p, m)",
        """
            one = Constant<value_ints = [-2]>()
            last = Constant<value_ints = [-1]>()
            mt = Transpose<perm = [0, 1, 3, 2]>(m)
            s = MatMul(mt, x)
            r = Unsqueeze(o, one)
            pp = Unsqueeze(p, last)
            g = Mul(pp, r)
            y = Add(s, g)
        """,
        {"x": real(2, 3, 4, 5), "o": real(2, 3, 5), "p": real(2, 3, 4), "m": real(2, 3, 4, 4)},
    ),
]


_ENGRAM = Fusion(
    "EngramGate",
    "y, z = com.microsoft.EngramGate<epsilon = 1e-5>(k, q, v, gk, gq, gc)",
    _rms("k", "gk")
    + _rms("q", "gq")
    + """
        one = Constant<value_ints = [-2]>()
        kr = Unsqueeze(kn, one)
        qc = Unsqueeze(qn, last)
        dot0 = MatMul(kr, qc)
        dot1 = Squeeze(dot0, last)
        root = Constant<value_float = 2.828427125>()
        dot = Div(dot1, root)
        size = Abs(dot)
        tiny = Constant<value_float = 1e-6>()
        most = Max(size, tiny)
        half = Sqrt(most)
        sign = Sign(dot)
        signed = Mul(sign, half)
        gate = Sigmoid(signed)
        v4 = Unsqueeze(v, one)
        y = Mul(gate, v4)
    """
    + _rms("y", "gc"),
    {n: real(*s) for n, s in {"k": (2, 3, 2, 8), "q": (2, 3, 2, 8), "v": (2, 3, 8), "gk": (2, 8), "gq": (2, 8)}.items()}
    | {"gc": real(2, 8)},
    constants={"last": np.array([-1]), "epsilon": np.array(1e-5, np.float32)},
)

FUSIONS = [*map(_linear, ("linear", "gated", "delta", "gated_delta")), *_GATES, _ENGRAM]
