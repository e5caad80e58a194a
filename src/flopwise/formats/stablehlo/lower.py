"""The table of operations: StableHLO's name -> the primitive of JAX's that it is, with its parameters.

Sources: https://openxla.org/stablehlo/spec, https://openxla.org/stablehlo/generated/chlo
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.formats.stablehlo.program import (
    Constant,
    Equation,
    Follower,
    Info,
    Literal,
    Operation,
    Primitive,
    Region,
    Scope,
    Stack,
    Tuple,
    Type,
    Value,
    Var,
    type_of,
)
from flopwise.readers.limits import refuse_huge

#: Operations whose name differs from the primitive's, and nothing else.
SAME: dict[str, str] = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "remainder": "rem", "power": "pow", "negate": "neg",
    "maximum": "max", "minimum": "min", "exponential": "exp", "exponential_minus_one": "expm1", "log_plus_one": "log1p",
    "sine": "sin", "cosine": "cos", "round_nearest_even": "round", "round_nearest_afz": "round", "reverse": "rev",
    "bitcast_convert": "bitcast_convert_type", "count_leading_zeros": "clz", "popcnt": "population_count",
    "next_after": "nextafter", "is_inf": "is_finite", "is_neg_inf": "is_finite", "is_pos_inf": "is_finite",
    "dynamic_reshape": "reshape", "dynamic_iota": "iota",
    "dynamic_gather": "gather", "dynamic_pad": "pad", "real_dynamic_slice": "dynamic_slice", "rng": "random_bits",
    "torch_index_select": "gather", "get_dimension_size": "dimension_size",
    "set_dimension_size": "dimension_size", "partition_id": "axis_index", "replica_id": "axis_index",
    "collective_permute": "ppermute", "collective_broadcast": "pbroadcast", "sharding_constraint": "copy",
    "propagation_barrier": "copy", "reshard": "copy", "constant_like": "zeros_like", "topk": "top_k",
    "sharding_group": "delay",
}  # fmt: skip

#: Operations that go by the primitive's own name.
_OWN = frozenset({
    "abs", "acos", "acosh", "add", "after_all", "all_gather", "all_to_all", "and", "asin", "asinh", "atan", "atan2",
    "atanh", "bessel_i1e", "cbrt", "ceil", "cholesky", "clamp", "complex", "concatenate", "conj", "cosh",
    "create_token", "digamma", "dynamic_slice", "dynamic_update_slice", "erf", "erf_inv", "erfc", "floor", "gather",
    "imag", "iota", "is_finite", "lgamma", "log", "logistic", "not", "optimization_barrier", "or", "pad", "polygamma",
    "real", "reduce_precision", "reshape", "rng_bit_generator", "rsqrt", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sinh", "sqrt", "square", "tan", "tanh", "top_k", "xor", "zeta"
})  # fmt: skip

#: Targets of custom calls that compute nothing, or are an operation.
_TARGETS: Mapping[str, str] = {
    "Sharding": "copy", "xla.sdy.FuncResultSharding": "copy", "annotate_device_placement": "copy",
    "LayoutConstraint": "copy", "shape_assertion": "shape_assertion", "mhlo.topk": "top_k", "mhlo.erf": "erf",
}  # fmt: skip

#: Operation in the body of a reduction -> the end of the primitive's name.
_REDUCED = {
    "add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod", "and": "and", "or": "or", "xor": "xor"
}  # fmt: skip
_ARRIVING = {"add": "psum", "maximum": "pmax", "minimum": "pmin"}
_SCATTERED = {"add": "scatter-add", "multiply": "scatter-mul", "minimum": "scatter-min", "maximum": "scatter-max"}

_WORD = re.compile(r"(\w+)>?$")
_AXES = re.compile(r'"([^"]+)"')

T = TypeVar("T")
Rule = Callable[["Site"], "list[Value]"]


class Site:
    """An operation where it stands, and the program that it becomes a part of."""

    def __init__(self, follower: Follower, op: Operation, region: Region, path: Sequence[str]) -> None:
        self.follower, self.op, self.into, self.path = follower, op, region, path
        self.name = op.name.partition(".")[2]
        self.inputs = [region.read(number) for number in op.operands]

    def attr(self, name: str, default: T) -> T:
        """An attribute; ``default`` where it is not there, or of another kind."""
        value = self.op.attrs.get(name, default)
        if isinstance(value, dict) and "values" in value:
            value = value["values"] or [value["splat"]] * math.prod(value["shape"][:1] or [1])
        return value if isinstance(value, type(default)) else default

    def add(
        self,
        primitive: str,
        inputs: Sequence[Value] | None = None,
        results: Sequence[Var] | None = None,
        **params: object,
    ) -> list[Value]:
        """Add an equation; its results."""
        results = [Var(type_of(said)) for _, said in self.op.results] if results is None else results
        info = Info(Stack((Scope("/".join(self.path)),) if self.path else ()))
        taken = self.inputs if inputs is None else inputs
        taken = [value for value in taken if not isinstance(value, Tuple)]
        self.into.program.eqns.append(Equation(Primitive(primitive), params, taken, results, info, self.op.name))
        return list(results)

    def body(self, place: int) -> Region:
        """The program of a region."""
        return self.follower.region(self.op.regions[place], self.into, self.path)

    def only(self, place: int = 0) -> str:
        """The one operation that a region applies to all of its arguments; "" for any other region."""
        arguments, operations = self.op.regions[place]
        if len(operations) != 2 or len(arguments) != 2:
            return ""
        numbers = {number for number, *_ in arguments}
        name, operands, results, *_ = operations[0]
        whole = set(operands) == numbers and [number for number, _ in results] == operations[1][1]
        return str(name).partition(".")[2] if whole else ""

    @property
    def devices(self) -> int:
        """The devices of a group that exchanges."""
        groups = self.op.attrs.get("replica_groups")
        return int(groups["shape"][-1]) if isinstance(groups, dict) and groups.get("shape") else 1


def translate(follower: Follower, op: Operation, region: Region, path: Sequence[str]) -> list[Value]:
    """Add an operation to a program; its results."""
    dialect, _, name = op.name.partition(".")
    site = Site(follower, op, region, path)
    rule = _RULES.get(op.name) or (_RULES.get(f"stablehlo.{name}") if dialect in ("chlo", "mhlo", "sdy") else None)
    if rule is not None:
        return rule(site)
    plain = name.removeprefix("broadcast_") if dialect == "chlo" else name
    primitive = SAME.get(plain) or (plain if plain in _OWN else "")
    if dialect not in ("stablehlo", "chlo", "mhlo", "sdy") or not primitive:
        return site.add(f"{dialect}::{name}")
    return site.add(primitive)


def constant(site: Site) -> list[Value]:
    said, kind = site.op.attrs.get("value") or {}, type_of(site.op.results[0][1])
    refuse_huge("constant", kind.shape)
    splat = said.get("splat")
    if splat is not None:
        return [Literal(complex(*splat) if isinstance(splat, list) else splat, kind)]
    value = Var(kind)
    site.into.program.constvars.append(value)
    site.into.consts.append(Constant(kind.shape, kind.dtype, said))
    return [value]


def call(site: Site) -> list[Value]:
    name = str(site.attr("callee", ""))
    results = site.follower.called(name, site.inputs, site.into, site.path)
    if results is None or len(results) != len(site.op.results):
        raise ModelError(f"calls the function {name[:80]!r}, which does not fit, or is not there")
    return results


def composite(site: Site) -> list[Value]:
    """An operation with a name, or what the function of its decomposition does."""
    name = str(site.attr("name", ""))
    dialect, _, plain = name.partition(".")
    if dialect == "chlo" and (plain in SAME or plain in _OWN):
        return site.add(SAME.get(plain, plain))
    results = site.follower.called(str(site.attr("decomposition", "")), site.inputs, site.into, site.path)
    return site.add(f"composite::{name or 'unnamed'}") if results is None else results


def custom_call(site: Site) -> list[Value]:
    target = str(site.attr("call_target_name", ""))
    return site.add(_TARGETS.get(target) or f"custom_call::{target or 'unnamed'}")


def dot_general(site: Site) -> list[Value]:
    numbers: Json = site.attr("dot_dimension_numbers", {})
    sides = ("lhs", "rhs")
    summed, batch = (
        tuple(numbers.get(f"{side}_{part}_dimensions", []) for side in sides) for part in ("contracting", "batching")
    )
    return site.add("dot_general", dimension_numbers=(summed, batch))


def dot(site: Site) -> list[Value]:
    last = max(len(site.inputs[0].aval.shape) - 1, 0)
    return site.add("dot_general", dimension_numbers=(([last], [0]), ([], [])))


def convolution(site: Site) -> list[Value]:
    numbers: Json = site.attr("dimension_numbers", {})
    if "kernel_spatial_dimensions" not in numbers:
        return site.add("stablehlo::convolution")
    axes = len(numbers["kernel_spatial_dimensions"])
    specs = SimpleNamespace(
        **{
            f"{side}_spec": (
                numbers[f"{name}_{first}"],
                numbers[f"{name}_{second}"],
                *numbers[f"{name}_spatial_dimensions"],
            )
            for side, name, first, second in (
                ("lhs", "input", "batch_dimension", "feature_dimension"),
                ("rhs", "kernel", "output_feature_dimension", "input_feature_dimension"),
                ("out", "output", "batch_dimension", "feature_dimension"),
            )
        }
    )
    ones = [1] * axes
    pads = site.op.attrs.get("padding")
    flat = pads["values"] or [pads["splat"]] * (2 * axes) if isinstance(pads, dict) else [0] * (2 * axes)
    return site.add(
        "conv_general_dilated",
        site.inputs[:2],
        dimension_numbers=specs,
        window_strides=site.attr("window_strides", ones),
        lhs_dilation=site.attr("lhs_dilation", ones),
        rhs_dilation=site.attr("rhs_dilation", ones),
        padding=[flat[place : place + 2] for place in range(0, len(flat), 2)],
        feature_group_count=site.op.attrs["feature_group_count"],
        batch_group_count=site.op.attrs["batch_group_count"],
    )


def compare(site: Site) -> list[Value]:
    """A comparison; that of a flag with false, as JAX writes a conversion to a flag, is none."""
    direction = _WORD.search(str(site.attr("comparison_direction", "EQ")))
    name = direction[1].lower() if direction else "eq"
    x, y = site.inputs[:2]
    if name == "ne" and isinstance(y, Literal) and y.val is False and x.aval.dtype == "bool":
        return [x]
    return site.add(name)


def broadcast(site: Site) -> list[Value]:
    """One number is the same in a larger tensor."""
    if isinstance(site.inputs[0], Literal):
        kind = type_of(site.op.results[0][1])
        refuse_huge("broadcast", kind.shape)
        return [site.inputs[0]._replace(aval=kind)]
    return site.add("broadcast_in_dim", site.inputs[:1])


def select(site: Site) -> list[Value]:
    which, then, other = site.inputs
    return site.add("select_n", (which, other, then))


def convert(site: Site) -> list[Value]:
    """A conversion; of a tensor that has the type already, none."""
    if type_of(site.op.results[0][1]) == site.inputs[0].aval:
        return [site.inputs[0]]
    return site.add("convert_element_type")


def reduce(site: Site) -> list[Value]:
    end = _REDUCED.get(site.only())
    operands = site.inputs[: len(site.inputs) // 2]
    if end and len(operands) == 1:
        return site.add(f"reduce_{end}", operands, axes=site.attr("dimensions", [0]))
    return _with_body(site, "reduce")


def reduce_window(site: Site) -> list[Value]:
    end = _REDUCED.get(site.only())
    window = site.attr("window_dimensions", [1])
    operands = site.inputs[: len(site.inputs) // 2]
    if end in ("sum", "max", "min") and len(operands) == 1:
        return site.add(f"reduce_window_{end}", operands, window_dimensions=window)
    return _with_body(site, "reduce_window", window_dimensions=window)


def _with_body(site: Site, primitive: str, **params: Any) -> list[Value]:
    region = site.body(0)
    return site.add(primitive, jaxpr=region.closed(list(region.captured)), **params)


def select_and_scatter(site: Site) -> list[Value]:
    x, source, *_ = site.inputs
    if site.only(1) != "add":
        return site.add("select_and_scatter")
    return site.add("select_and_scatter_add", (source, x), window_dimensions=site.attr("window_dimensions", [1]))


def scatter(site: Site) -> list[Value]:
    return site.add(_SCATTERED.get(site.only(), "scatter"))


def sort(site: Site) -> list[Value]:
    """The keys are the operands that the comparison reads."""
    arguments, operations = site.op.regions[0]
    read = {number for operation in operations for number in operation[1]}
    keys = {place // 2 for place, (number, *_) in enumerate(arguments) if number in read}
    return site.add("sort", dimension=site.attr("dimension", 0), num_keys=max(len(keys), 1))


def while_(site: Site) -> list[Value]:
    condition, body = site.body(0), site.body(1)
    outer, inner = list(condition.captured), list(body.captured)
    return site.add(
        "while",
        [*outer, *inner, *site.inputs],
        cond_jaxpr=condition.closed(outer),
        body_jaxpr=body.closed(inner),
        cond_nconsts=len(outer),
        body_nconsts=len(inner),
    )


def case(site: Site) -> list[Value]:
    regions = [site.body(place) for place in range(len(site.op.regions))]
    if site.name == "if":
        regions.reverse()
    captured = list(dict.fromkeys(value for region in regions for value in region.captured))
    branches = [region.closed(captured) for region in regions]
    which = site.inputs[0]
    if isinstance(which, Literal):
        which = Literal(int(which.val.real), which.aval)
    return site.add("cond", [which, *captured], branches=branches)


def manual_computation(site: Site) -> list[Value]:
    """A program that each device of a mesh runs on its own part."""
    axes = _AXES.findall(str(site.attr("manual_axes", "")))
    meshes = site.follower.meshes
    mesh = next((sizes for sizes in meshes.values() if all(axis in sizes for axis in axes)), None)
    if mesh is None:
        raise ModelError("a computation per device names no mesh of the module")
    region = site.body(0)
    captured = list(region.captured)
    return site.add(
        "shard_map",
        [*captured, *site.inputs],
        jaxpr=region.closed(captured),
        mesh=SimpleNamespace(shape=mesh),
        manual_axes=axes,
    )


def quantize(site: Site) -> list[Value]:
    """A quantisation; from one quantised type to another by way of real numbers, as the specification has it."""
    x, result = site.inputs[0], site.op.results[0][1]
    if not x.aval.dtype.startswith(("float", "bfloat")):
        real = Var(Type(x.aval.shape, "float32"))
        site.add("DequantizeLinear", [x, *_scaled(x.aval)], results=[real])
        x = real
    return site.add("QuantizeLinear", [x, *_scaled(type_of(result))])


def dequantize(site: Site) -> list[Value]:
    x = site.inputs[0]
    return site.add("DequantizeLinear", [x, *_scaled(x.aval)])


def _scaled(kind: Type) -> list[Literal]:
    """Scale and zero point of a quantised type; no zero point where it is 0. They stand in the type."""
    scale = Literal(1.0, Type((), "float32"))
    return [scale, Literal(0, Type((), kind.dtype))] if kind.shifted else [scale]


def fft(site: Site) -> list[Value]:
    kind = _WORD.search(str(site.attr("fft_type", "")))
    return site.add("fft", fft_lengths=site.attr("fft_length", [1]), fft_type=kind[1] if kind else "FFT")


def all_reduce(site: Site) -> list[Value]:
    primitive = _ARRIVING.get(site.only())
    return site.add(primitive or "stablehlo::all_reduce", devices=site.devices)


def tuple_(site: Site) -> list[Value]:
    return [Tuple(site.inputs)]


def get_tuple_element(site: Site) -> list[Value]:
    value, place = site.inputs[0], site.attr("index", 0)
    if not isinstance(value, Tuple) or not 0 <= place < len(value.members):
        raise ModelError("a member is read of what is no tuple")
    return [value.members[place]]


_RULES: Mapping[str, Rule] = {
    "stablehlo.constant": constant,
    "func.call": call,
    "stablehlo.composite": composite,
    "stablehlo.custom_call": custom_call,
    "stablehlo.dot_general": dot_general,
    "stablehlo.dot": dot,
    "stablehlo.convolution": convolution,
    "stablehlo.dynamic_conv": convolution,
    "stablehlo.compare": compare,
    "chlo.broadcast_compare": compare,
    **dict.fromkeys(
        ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim", "stablehlo.broadcast"), broadcast
    ),
    "stablehlo.select": select,
    "chlo.broadcast_select": select,
    "stablehlo.convert": convert,
    "stablehlo.transpose": lambda site: site.add("transpose", permutation=site.attr("permutation", [])),
    "stablehlo.slice": lambda site: site.add("slice", strides=site.attr("strides", [1])),
    "stablehlo.reduce": reduce,
    "stablehlo.map": lambda site: _with_body(site, "reduce"),
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.select_and_scatter": select_and_scatter,
    "stablehlo.scatter": scatter,
    "stablehlo.sort": sort,
    "stablehlo.fft": fft,
    "stablehlo.uniform_quantize": quantize,
    "stablehlo.uniform_dequantize": dequantize,
    "stablehlo.triangular_solve": lambda site: site.add(
        "triangular_solve", unit_diagonal=site.attr("unit_diagonal", False)
    ),
    "stablehlo.einsum": lambda site: site.add("Einsum", equation=site.attr("einsum_config", "")),
    "stablehlo.while": while_,
    "stablehlo.if": case,
    "stablehlo.case": case,
    "stablehlo.all_reduce": all_reduce,
    "stablehlo.reduce_scatter": lambda site: site.add("reduce_scatter", devices=site.devices),
    "stablehlo.tuple": tuple_,
    "stablehlo.get_tuple_element": get_tuple_element,
    "sdy.manual_computation": manual_computation,
}  # fmt: skip
