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

#: Text that takes queries, keys, values and gates (B, S, N, ...) apart into two steps of heads.
_STEPS = (
    "".join(
        f"{n}4 = Transpose<perm = [0, 2, 1, 3]>({n})\n{n}0, {n}1 = Split<axis = 2, num_outputs = 2>({n}4)\n"
        for n in "qkv"
    )
    + "s0 = Transpose<perm = [0, 1, 3, 2]>(past)\n"
)
_CLOSING = "y4 = Concat<axis = 2>(y0, y1)\ny = Transpose<perm = [0, 2, 1, 3]>(y4)"


def _gates(*names: str) -> str:
    """Text that takes gates (B, S, N) apart in the same way."""
    return "".join(
        f"{n}5 = Unsqueeze({n}, ends)\n{n}4 = Transpose<perm = [0, 2, 1, 3]>({n}5)\n"
        f"{n}0, {n}1 = Split<axis = 2, num_outputs = 2>({n}4)\n"
        for n in names
    )


_DELTA = {"q": real(2, 2, 2, 4), "k": real(2, 2, 2, 4), "v": real(2, 2, 2, 3), "past": real(2, 2, 3, 4)}


def _delta_net(gate: str, parts: str) -> Fusion:
    """Two steps whose decay is made by the operator."""
    return Fusion(
        f"GatedDeltaNet, {gate}",
        f'y, last = com.microsoft.GatedDeltaNet<gate_activation = "{gate}", beta_activation = "sigmoid">'
        "(q, k, v, , g_raw, b_raw, past, a_log, bias)",
        _STEPS
        + "b = Sigmoid(b_raw)\nrate = Exp(a_log)\nh = Add(g_raw, bias)\n"
        + parts
        + _gates("g", "b")
        + steps_of_attention("gated_delta", 2, 4)
        + _CLOSING,
        {**_DELTA, "a_log": real(2), "bias": real(2), "g_raw": real(2, 2, 2), "b_raw": real(2, 2, 2)},
        constants={"ends": np.array([-1])},
        since="1.32",
    )


_DELTA_NETS = [
    Fusion(
        "GatedDeltaNet",
        "y, last = com.microsoft.GatedDeltaNet(q, k, v, , g, b, past)",
        _STEPS + _gates("g", "b") + steps_of_attention("gated_delta", 2, 4) + _CLOSING,
        {**_DELTA, "g": real(2, 2, 2), "b": np.abs(real(2, 2, 2))},
        constants={"ends": np.array([-1])},
        since="1.32",
    ),
    *(_delta_net(name, "less = Neg(rate)\np = Softplus(h)\ng = Mul(less, p)\n") for name in ("softplus", "qwen")),
    *(
        _delta_net(
            name, "lower = Constant<value_float = -5.0>()\nm = Mul(rate, h)\np = Sigmoid(m)\ng = Mul(lower, p)\n"
        )
        for name in ("sigmoid", "kda")
    ),
]

_MIXED = Fusion(
    "HyperConnectionLowRankMix",
    "y, gate, all = com.microsoft.HyperConnectionLowRankMix<num_branches = 4, epsilon = 1e-5, silu_alpha = 1.5,"
    " reduction_scale = 0.5, gate_div = 2.0, gate_mul = 3.0>(x, gn, wd, wu, wi, o, p)",
    """
        one = Constant<value_ints = [-2]>()
        apart = Constant<value_ints = [0, 0, 4, 5]>()
        flat = Constant<value_ints = [0, 0, 20]>()
        oo = Unsqueeze(o, one)
        pp = Unsqueeze(p, last)
        before = Mul(pp, oo)
        x4 = Reshape(x, apart)
        h = Add(x4, before)
    """
    + _rms("h", "g4")
    + """
        hf = Reshape(hn, flat)
        alpha = Constant<value_float = 1.5>()
        d0 = MatMul(hf, wd)
        d1 = Mul(d0, alpha)
        ds = Sigmoid(d1)
        d = Mul(d1, ds)
        u = MatMul(d, wu)
        g = Sigmoid(u)
        e = Reshape(g, apart)
        sum = Einsum<equation = "bsch,bsch->bsh">(hn, e)
        half = Constant<value_float = 0.5>()
        y = Mul(sum, half)
        i0 = MatMul(hf, wi)
        two = Constant<value_float = 2.0>()
        i1 = Div(i0, two)
        i2 = Sigmoid(i1)
        three = Constant<value_float = 3.0>()
        gate = Mul(i2, three)
    """,
    {
        "x": real(2, 3, 20),
        "gn": real(20),
        "wd": real(20, 3),
        "wu": real(3, 20),
        "wi": real(20, 4),
        "o": real(2, 3, 5),
        "p": real(2, 3, 4),
    },
    constants={"last": np.array([-1]), "epsilon": np.array(1e-5, np.float32), "g4": real(4, 5)},
    runs=False,
)

_MIXED_PLAINLY = Fusion(
    "HyperConnectionLowRankMix, nothing before and no factors",
    "y, gate = com.microsoft.HyperConnectionLowRankMix<num_branches = 4>(x, gn, wd, wu, wi)",
    """
        apart = Constant<value_ints = [0, 0, 4, 5]>()
        flat = Constant<value_ints = [0, 0, 20]>()
        h = Reshape(x, apart)
    """
    + _rms("h", "g4")
    + """
        hf = Reshape(hn, flat)
        d1 = MatMul(hf, wd)
        ds = Sigmoid(d1)
        d = Mul(d1, ds)
        u = MatMul(d, wu)
        g = Sigmoid(u)
        e = Reshape(g, apart)
        y = Einsum<equation = "bsch,bsch->bsh">(hn, e)
        i = MatMul(hf, wi)
        gate = Sigmoid(i)
    """,
    {"x": real(2, 3, 20), "gn": real(20), "wd": real(20, 3), "wu": real(3, 20), "wi": real(20, 4)},
    constants={"last": np.array([-1]), "epsilon": np.array(1e-5, np.float32), "g4": real(4, 5)},
    runs=False,
)


def _mamba_step(t: int) -> str:
    """Text of one step of two heads (d_state 4, head_dim 3), each with B and C of its own."""
    return f"""
        x{t} = Reshape(xr{t}, row)
        b{t} = Reshape(br{t}, column)
        c{t} = Reshape(cr{t}, across)
        t{t} = Reshape(tr{t}, each)
        e{t} = Reshape(er{t}, each)
        s{t}d = Mul(s{t}, e{t})
        x{t}t = Mul(x{t}, t{t})
        n{t} = MatMul(b{t}, x{t}t)
        s{t + 1} = Add(s{t}d, n{t})
        r{t} = MatMul(c{t}, s{t + 1})
        k{t} = Mul(x{t}, d)
        o{t} = Add(r{t}, k{t})
    """


_MAMBA = Fusion(
    "Mamba2Verify",
    "y, c1, s1 = com.microsoft.Mamba2Verify<heads = 2, n_groups = 2, head_dim = 3, d_state = 4>"
    "(p, conv, ssm, w, cb, tb, a, dd, gn, at)",
    """
        sizes = Constant<value_ints = [6, 22, 2]>()
        parts = Constant<value_ints = [6, 8, 8]>()
        row = Constant<value_ints = [2, 1, 3]>()
        column = Constant<value_ints = [2, 4, 1]>()
        across = Constant<value_ints = [2, 1, 4]>()
        each = Constant<value_ints = [2, 1, 1]>()
        heads = Constant<value_ints = [2, 2, 3]>()
        first = Constant<value_ints = [0]>()
        least = Constant<value_float = 0.001>()
        gate, xbc, dt = Split<axis = -1>(p, sizes)
        xt0 = Transpose<perm = [1, 0]>(xbc)
        xt = Unsqueeze(xt0, first)
        l = Concat<axis = 2>(conv, xt)
        z = Conv<group = 22>(l, w3, cb)
        zg = Sigmoid(z)
        zs = Mul(z, zg)
        z0 = Squeeze(zs, first)
        zt = Transpose<perm = [1, 0]>(z0)
        xs, bs, cs = Split<axis = -1>(zt, parts)
        dt0 = Add(dt, tb)
        dt1 = Softplus(dt0)
        dt2 = Max(dt1, least)
        da = Mul(dt2, a)
        de = Exp(da)
        xr0, xr1 = Split<axis = 0, num_outputs = 2>(xs)
        br0, br1 = Split<axis = 0, num_outputs = 2>(bs)
        cr0, cr1 = Split<axis = 0, num_outputs = 2>(cs)
        tr0, tr1 = Split<axis = 0, num_outputs = 2>(dt2)
        er0, er1 = Split<axis = 0, num_outputs = 2>(de)
        d = Reshape(dd, each)
        s0 = Squeeze(ssm, first)
    """
    + _mamba_step(0)
    + _mamba_step(1)
    + """
        o01 = Concat<axis = 1>(o0, o1)
        o = Transpose<perm = [1, 0, 2]>(o01)
        gh = Reshape(gate, heads)
        gg = Sigmoid(gh)
        gs = Mul(gh, gg)
        h = Mul(o, gs)
    """
    + _rms("h", "g2")
    + "flat = Constant<value_ints = [2, 6]>()\ny = Reshape(hn, flat)",
    {
        "p": real(2, 30),
        "conv": real(1, 22, 3),
        "ssm": real(1, 2, 4, 3),
        "w": real(22, 4),
        "cb": real(22),
        "tb": real(2),
        "a": real(2),
        "dd": real(2),
        "gn": real(6),
        "at": np.array([0], np.int32),
    },
    constants={
        "last": np.array([-1]),
        "epsilon": np.array(1e-5, np.float32),
        "w3": real(22, 1, 4),
        "g2": real(2, 3),
    },
    runs=False,
)

_DYNAMIC = Fusion(
    "VarlenCausalConvWithState with taps of each token",
    "y, present = com.microsoft.VarlenCausalConvWithState<group_size = 2>(x, w, lengths, , past, , delta, mask)",
    """
        last = Constant<value_ints = [-1]>()
        end = Constant<value_ints = [-2]>()
        taps0 = Add(w2, deltas)
        taps = Unsqueeze(taps0, last)
        before = Mul(earlier, mask)
        b3 = Unsqueeze(before, last)
        x3 = Unsqueeze(x, last)
        both = Concat<axis = -1>(b3, x3)
        b4 = Unsqueeze(both, end)
        y4 = MatMul(b4, taps)
        y3 = Squeeze(y4, last)
        y = Squeeze(y3, last)
    """,
    {
        "x": real(7, 4),
        "w": real(4, 1, 2),
        "lengths": np.array([0, 3, 7], np.int32),
        "past": real(2, 4, 1),
        "delta": real(7, 2, 2),
        "mask": real(7, 1),
        "earlier": real(7, 4),
        "deltas": real(7, 4, 2),
    },
    constants={"w2": real(4, 2)},
    runs=False,
)

_OF_1_32 = [*_DELTA_NETS, _MIXED, _MIXED_PLAINLY, _MAMBA, _DYNAMIC]

FUSIONS = [*map(_linear, ("linear", "gated", "delta", "gated_delta")), *_GATES, _ENGRAM, *_OF_1_32]
