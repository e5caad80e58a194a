"""The table of primitives: JAX's name -> the operator that it is.

What is not here has a row under its own name (``lax::sort``) in ``flopwise.operators.lax``, or no row at all: then
nobody knows what it costs.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

from flopwise.graph import Tensor
from flopwise.operators.size import larger, smaller

# An operator as the lowerings hand it over, and the equation that they make it of.


class Lowered(NamedTuple):
    """An operator's name, its inputs (None = left out), and its attributes."""

    op: str
    inputs: tuple[Tensor | None, ...]
    attrs: Mapping[str, object] = {}


class Equation(NamedTuple):
    """An application of a primitive: its parameters, and the tensors that it takes and makes."""

    primitive: str
    params: Mapping[str, Any]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    #: Devices along each named axis of the mesh around it.
    mesh: Mapping[str, int]


#: What makes an operator of an equation.
Lowering: TypeAlias = Callable[[Equation], Lowered]

#: Names of symbolic dimensions -> their sizes, while a function is traced with such.
SYMBOLS: ContextVar[Mapping[str, int]] = ContextVar("SYMBOLS", default={})  # noqa: B039 # nobody writes into it


def extent_of(extent: Any) -> int:
    """An extent as a number; a symbolic one with the sizes of its symbols, term by term."""
    if not hasattr(extent, "_sorted_terms"):
        return int(extent)
    total = 0
    for term, times in extent._sorted_terms:
        product = int(times)
        for factor, power in term._factors:
            for _ in range(power):
                product = _factor(factor) * product
        total = total + product
    return total


def _factor(factor: Any) -> int:
    """A symbol, or an operation on two extents."""
    if factor.var is not None:
        return SYMBOLS.get()[factor.var]
    one, other = map(extent_of, factor.operands)
    if factor.operation == "floordiv":
        return one // other
    if factor.operation == "mod":
        return one % other
    return larger(one, other) if factor.operation == "max" else smaller(one, other)


# Products and convolutions.


def dot_general(equation: Equation) -> Lowered:
    """A MatMul or Gemm where the axes lie as it has them, else an Einsum."""
    left, right = equation.inputs[:2]
    (left_summed, right_summed), (left_batch, right_batch) = _axes(equation.params["dimension_numbers"])
    ranks = len(left.dims), len(right.dims)
    if not left_batch and len(left_summed) == 1 and ranks[1] == 1 and left_summed[0] == ranks[0] - 1:
        return Lowered("MatMul", (left, right))
    if not left_batch and len(left_summed) == 1 and ranks[1] == 2:
        if left_summed[0] == ranks[0] - 1 and right_summed[0] == 0:
            return Lowered("MatMul", (left, right))
        if ranks[0] == 2:
            transposed = {"transA": int(left_summed[0] == 0), "transB": int(right_summed[0] == 1)}
            return Lowered("Gemm", (left, right), transposed)
    batch = list(range(len(left_batch)))
    if (
        ranks == (len(batch) + 2, len(batch) + 2)
        and batch == left_batch == right_batch
        and left_summed == [ranks[0] - 1]
        and right_summed == [ranks[1] - 2]
    ):
        return Lowered("MatMul", (left, right))
    return _einsum(left, right, left_summed, right_summed, left_batch, right_batch)


def _axes(
    numbers: Sequence[Sequence[Sequence[int]]],
) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
    """The summed axes of both operands, and their batch axes."""
    (left, right), (left_batch, right_batch) = [[list(map(int, axes)) for axes in pair] for pair in numbers]
    return (left, right), (left_batch, right_batch)


def _einsum(
    left: Tensor,
    right: Tensor,
    left_summed: list[int],
    right_summed: list[int],
    left_batch: list[int],
    right_batch: list[int],
) -> Lowered:
    letters = iter(string.ascii_letters)
    of_left = [next(letters) for _ in left.dims]
    shared = dict(zip([*right_batch, *right_summed], [of_left[a] for a in [*left_batch, *left_summed]], strict=True))
    of_right = [shared.get(axis) or next(letters) for axis in range(len(right.dims))]
    batch = [of_left[axis] for axis in left_batch]
    summed = {of_left[axis] for axis in left_summed}
    free = [label for label in [*of_left, *of_right] if label not in batch and label not in summed]
    return Lowered(
        "Einsum", (left, right), {"equation": f"{''.join(of_left)},{''.join(of_right)}->{''.join(batch + free)}"}
    )


def ragged_dot_general(equation: Equation) -> Lowered:
    numbers = equation.params["ragged_dot_dimension_numbers"]
    (_, summed), (_, batch) = _axes(numbers.dot_dimension_numbers)
    taken = {*summed, *batch, *map(int, numbers.rhs_group_dimensions)}
    free = [axis for axis in range(len(equation.inputs[1].dims)) if axis not in taken]
    return Lowered("lax::ragged_dot_general", equation.inputs, {"free": free})


def convolution(equation: Equation) -> Lowered:
    params = equation.params
    numbers = params["dimension_numbers"]
    attrs = {name: list(map(int, getattr(numbers, name))) for name in ("lhs_spec", "rhs_spec", "out_spec")}
    attrs |= {name: list(map(int, params[name])) for name in ("window_strides", "lhs_dilation", "rhs_dilation")}
    attrs["padding"] = [extent_of(pad) for pads in params["padding"] for pad in pads]
    groups = {name: int(params[name]) for name in ("feature_group_count", "batch_group_count")}
    return Lowered("lax::conv_general_dilated", equation.inputs, {**attrs, **groups})


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


def lower(equation: Equation) -> Lowered:
    """The operator that an equation is."""
    special = LOWERINGS.get(equation.primitive)
    if special is not None:
        return special(equation)
    return Lowered(SAME.get(equation.primitive, f"lax::{equation.primitive}"), equation.inputs)


LOWERINGS: dict[str, Lowering] = {
    "dot_general": dot_general,
    "ragged_dot_general": ragged_dot_general,
    "conv_general_dilated": convolution,
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
