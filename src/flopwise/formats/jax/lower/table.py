"""The table of primitives: JAX's name -> the operator that it is.

What is not here has a row under its own name (``lax::sort``) in ``flopwise.operators.lax``, or no row at all: then
nobody knows what it costs.
"""

from __future__ import annotations

import math

from flopwise.formats.jax.lower.lowered import Equation, Lowered, Lowering, extent_of
from flopwise.formats.jax.lower.products import LOWERINGS as PRODUCTS

#: Primitives that are an operator of ONNX's or PyTorch's, with the same inputs in the same order.
SAME: dict[str, str] = {
    "add": "Add", "add_any": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "rem": "Mod", "neg": "Neg", "abs": "Abs",
    "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round", "max": "Max", "min": "Min", "pow": "Pow",
    "sqrt": "Sqrt", "rsqrt": "aten::rsqrt", "square": "aten::square", "reciprocal": "Reciprocal",
    "exp": "Exp", "exp2": "aten::exp2", "expm1": "aten::expm1", "log": "Log", "log1p": "aten::log1p",
    "tanh": "Tanh", "logistic": "Sigmoid", "erf": "Erf", "erfc": "aten::erfc", "erf_inv": "aten::erfinv",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "atan2": "aten::atan2",
    "lgamma": "aten::lgamma", "digamma": "aten::digamma", "polygamma": "aten::polygamma", "igamma": "aten::igamma",
    "igammac": "aten::igammac", "zeta": "aten::special_zeta", "bessel_i0e": "aten::i0e", "bessel_i1e": "aten::i1e",
    "nextafter": "aten::nextafter", "conj": "Neg",
    "eq": "Equal", "ne": "aten::ne", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "eq_to": "Equal", "lt_to": "Less", "le_to": "LessOrEqual", "is_finite": "IsInf",
    "shift_left": "BitShift", "shift_right_logical": "BitShift", "shift_right_arithmetic": "BitShift",
    "convert_element_type": "Cast", "bitcast_convert_type": "BitCast", "copy": "Identity",
    "stop_gradient": "Identity", "name": "Identity",
    "device_put": "Identity", "optimization_barrier": "Identity", "sharding_constraint": "Identity",
    "layout_constraint": "Identity", "reshard": "Identity", "pvary": "Identity", "preduced": "Identity",
    "reduced_vary_cast_p": "Identity", "vary_unreduced_cast_p": "Identity", "tie": "Identity",
    "with_memory_space_constraint": "Identity", "remat_opt": "Identity", "squeeze": "Squeeze",
    "concatenate": "Concat", "stack": "Concat", "split": "Split", "unstack": "Split", "tile": "Tile", "pad": "Pad",
    "dynamic_slice": "Slice", "gather": "Gather",
    "reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_and": "aten::all",
    "reduce_or": "aten::any", "reduce_xor": "aten::any", "argmax": "ArgMax", "argmin": "ArgMin", "cumsum": "CumSum",
    "cumprod": "CumProd", "cummax": "aten::cummax", "cummin": "aten::cummax", "cumlogsumexp": "aten::logcumsumexp",
    "lu": "aten::linalg_lu", "cholesky": "aten::linalg_cholesky",
    "random_bits": "aten::random", "rng_bit_generator": "aten::random", "rng_uniform": "aten::random",
    "threefry2x32": "aten::random", "threefry4x32": "aten::random", "philox2x32": "aten::random",
    "philox4x32": "aten::random", "iota": "Range",
}  # fmt: skip

#: An integer exponent -> the operator of its power.
_POWERS = {2: "aten::square", 3: "aten::cube", 1: "Identity", -1: "Reciprocal"}


def integer_pow(equation: Equation) -> Lowered:
    exponent = int(equation.params["y"])
    if exponent in _POWERS:
        return Lowered(_POWERS[exponent], equation.inputs)
    return Lowered("lax::integer_pow", equation.inputs, {"y": exponent})


def clamp(equation: Equation) -> Lowered:
    low, x, high = equation.inputs
    return Lowered("Clip", (x, low, high))


def select(equation: Equation) -> Lowered:
    which, *cases = equation.inputs
    return Lowered("Where", (which, *reversed(cases)))


def _logic(op: str) -> Lowering:
    """A logical operator on flags, a bitwise one on integers."""
    return lambda equation: Lowered(op if equation.inputs[0].dtype == "bool" else f"Bitwise{op}", equation.inputs)


def broadcast(equation: Equation) -> Lowered:
    x, y = equation.inputs[0], equation.outputs[0]
    return Lowered("Unsqueeze" if math.prod(x.dims) == math.prod(y.dims) else "Expand", (x,))


def transpose(equation: Equation) -> Lowered:
    return Lowered("Transpose", equation.inputs, {"perm": list(map(int, equation.params["permutation"]))})


def slice_(equation: Equation) -> Lowered:
    steps = list(map(int, equation.params["strides"] or ()))
    return Lowered("Slice", equation.inputs, {"steps": steps} if any(step != 1 for step in steps) else {})


def reduce_sum(equation: Equation) -> Lowered:
    axes = list(map(int, equation.params["axes"]))
    return Lowered("ReduceSum", equation.inputs, {"axes": axes}) if axes else Lowered("Identity", equation.inputs)


def _scatter(reduction: str) -> Lowering:
    return lambda equation: Lowered("ScatterND", equation.inputs, {"reduction": reduction})


def top_k(equation: Equation) -> Lowered:
    axis = equation.params.get("axis", equation.params.get("reduction_dimension", -1))
    return Lowered("TopK", equation.inputs, {"axis": int(axis)})


def _windows(equation: Equation) -> Lowered:
    window = list(map(extent_of, equation.params["window_dimensions"]))
    return Lowered(f"lax::{equation.primitive}", equation.inputs, {"window": window})


def fft(equation: Equation) -> Lowered:
    lengths, kind = equation.params["fft_lengths"], str(equation.params["fft_type"]).rpartition(".")[2].upper()
    attrs = {"axes": list(range(-len(lengths), 0)), "scaled": int(kind.startswith("I"))}
    return Lowered("aten::fft", equation.inputs, attrs)


def triangular_solve(equation: Equation) -> Lowered:
    unit = int(bool(equation.params.get("unit_diagonal")))
    return Lowered("aten::linalg_solve_triangular", equation.inputs, {"unit": unit})


def sort(equation: Equation) -> Lowered:
    params = equation.params
    return Lowered("lax::sort", equation.inputs, {name: int(params[name]) for name in ("dimension", "num_keys")})


def _collective(equation: Equation) -> Lowered:
    """The number of devices that take part is an attribute."""
    if "devices" in equation.params:
        return Lowered(f"lax::{equation.primitive}", equation.inputs, {"devices": int(equation.params["devices"])})
    names = equation.params.get("axes", equation.params.get("axis_name", ()))
    named = names if isinstance(names, (tuple, list)) else (names,)
    devices = math.prod(equation.mesh.get(name, 1) for name in named if isinstance(name, str))
    return Lowered(f"lax::{equation.primitive}", equation.inputs, {"devices": devices})


def kernel(equation: Equation) -> Lowered:
    """A kernel of one's own with its name and its grid, which a rule may ask for."""
    params = equation.params
    source = getattr(getattr(params.get("jaxpr"), "debug_info", None), "func_src_info", "")
    name = params.get("name") or params.get("target_name") or str(source).partition(" ")[0]
    grid = getattr(params.get("grid_mapping"), "grid", ())
    sizes = [extent if isinstance(extent, int) else None for extent in grid]
    return Lowered(f"lax::{equation.primitive}", equation.inputs, {"name": str(name), "grid": sizes})


LOWERINGS: dict[str, Lowering] = {
    **PRODUCTS,
    "integer_pow": integer_pow,
    "clamp": clamp,
    "select_n": select,
    "and": _logic("And"),
    "or": _logic("Or"),
    "xor": _logic("Xor"),
    "not": _logic("Not"),
    "broadcast_in_dim": broadcast,
    "reshape": lambda equation: Lowered("Reshape", equation.inputs[:1]),
    "transpose": transpose,
    "slice": slice_,
    "reduce_sum": reduce_sum,
    "scatter": _scatter("none"),
    "scatter-add": _scatter("add"),
    "scatter-sub": _scatter("add"),
    "scatter-mul": _scatter("mul"),
    "scatter-min": _scatter("min"),
    "scatter-max": _scatter("max"),
    "top_k": top_k,
    "approx_top_k": top_k,
    **dict.fromkeys(
        (
            "reduce_window_sum",
            "reduce_window_max",
            "reduce_window_min",
            "select_and_scatter_add",
            "select_and_gather_add",
        ),
        _windows,
    ),
    "fft": fft,
    "triangular_solve": triangular_solve,
    "sort": sort,
    **dict.fromkeys(
        (
            *("psum", "psum_start", "psum_invariant", "psum_invariant_start", "unreduced_psum", "unreduced_psum_start"),
            *("pmax", "pmin", "reduce_scatter", "reduce_scatter_start"),
            *("unreduced_reduce_scatter", "unreduced_reduce_scatter_start"),
        ),
        _collective,
    ),
    **dict.fromkeys(("pallas_call", "ffi_call", "core_map", "mpmd_map"), kernel),
}


def lower(equation: Equation) -> Lowered:
    """The operator that an equation is."""
    special = LOWERINGS.get(equation.primitive)
    if special is not None:
        return special(equation)
    return Lowered(SAME.get(equation.primitive, f"lax::{equation.primitive}"), equation.inputs)
