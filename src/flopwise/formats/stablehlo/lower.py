"""A module as nodes, and the table of operations: StableHLO's name -> the primitive of JAX's that it is.

Sources: https://openxla.org/stablehlo/spec, https://openxla.org/stablehlo/generated/chlo
"""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy

from flopwise._limits import spend
from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.formats.jax import nodes
from flopwise.formats.jax.nodes import Inner, Nodes, Place, tensor_of
from flopwise.formats.jax.table import Lowered
from flopwise.formats.limits import refuse_huge
from flopwise.formats.stablehlo.program import Body as Region
from flopwise.formats.stablehlo.program import Constant, Operation, Type, Value, steps_of, type_of
from flopwise.graph import Tensor

#: Functions that call each other, at most.
_DEEPEST = 200

#: Operators that rules name themselves.
_OPERATORS = frozenset({"Einsum", "QuantizeLinear", "DequantizeLinear"})

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


class Module(Nodes):
    """The nodes of one module: calls in place, regions as bodies."""

    def __init__(
        self, module: Json, trips: Mapping[str, int], per_device: bool, stored: Callable[[Constant], Tensor]
    ) -> None:
        """
        Args:
            module: as the decoder says it.
            trips: how often loops run, by the name of their node.
            per_device: whether what many devices run counts once.
            stored: the tensor of a constant.
        """
        self.functions: Json = module["functions"]
        regions = [function["region"] for function in self.functions.values() if function["region"]]
        places = [str(operation[5]) for region in regions for operation in _operations(region)]
        super().__init__({}, trips, any("transpose(" in place for place in places), per_device)
        self.axes: Mapping[str, Mapping[str, int]] = module["meshes"]
        self.stored = stored
        self.quantized = False
        self._left, self._calls = len(places), list[str]()
        #: The values that are known where the walk is, by number: those of a region over those around it.
        self.values: ChainMap[int, Value] = ChainMap()

    def main(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The results of the main function for some tensors; its nodes are added."""
        region = main_of(self.functions)
        self._calls.append(next(name for name, function in self.functions.items() if function["region"] is region))
        types = [type_of(described) for _, described, _ in region[0]]
        results = self.run(region, list(map(Value, types, arguments)), Place(), [])
        return [value.tensor for value in results]

    def run(self, body: Region, arguments: Sequence[Value], place: Place, path: Sequence[str]) -> list[Value]:
        """The values that a region or a function returns."""
        inner, operations = body
        self.values.update((number, value) for (number, *_), value in zip(inner, arguments, strict=True))
        for said in operations:
            op = Operation(*said)
            self._left -= 1
            spend(repeated_nodes=int(self._left < 0))
            if op.name.endswith(".return"):
                return [self.read(number) for number in op.operands]
            steps = steps_of(op.place)
            around = steps if not path or steps[: len(path)] == list(path) else [*path, *steps]
            results = translate(Site(self, op, place, around))
            rescaled = any(str(kind[1]).startswith("!quant") for _, kind in op.results)
            self.quantized |= rescaled and op.name != "stablehlo.uniform_quantize"
            for (number, _), value in zip(op.results, results, strict=True):
                self.values[number] = value
        return []

    def read(self, number: int) -> Value:
        """A value by its number.

        Raises:
            ModelError: nothing has made it.
        """
        if number not in self.values:
            raise ModelError("a value is used that nothing has made")
        return self.values[number]

    def called(self, name: str, site: Site) -> list[Value] | None:
        """The results of a function, whose nodes are added; None where there is none of this name and form.

        Raises:
            ModelError: it calls itself.
        """
        function = self.functions.get(name)
        if function is None or not function["region"] or len(function["region"][0]) != len(site.inputs):
            return None
        if name in self._calls or len(self._calls) > _DEEPEST:
            raise ModelError(f"function {name[:80]!r} calls itself, or calls go deeper than {_DEEPEST}")
        self._calls.append(name)
        kept, self.values = self.values, ChainMap()
        results = self.run(function["region"], site.inputs, site.place, site.path)
        self.values = kept
        self._calls.pop()
        return results


def main_of(functions: Json) -> Region:
    """The region of the function ``main``, or of the only one.

    Raises:
        ModelError: there is none.
    """
    names = [name for name, function in functions.items() if function["region"]]
    name = "main" if "main" in names else names[0] if len(names) == 1 else ""
    if not name:
        raise ModelError(f"has no function main (its functions: {', '.join(names[:5]) or 'none'})")
    region: Region = functions[name]["region"]
    return region


def _operations(region: Region) -> Iterator[tuple[Any, ...]]:
    """The operations of a region and of those in it."""
    for operation in region[1]:
        yield operation
        for inner in operation[4]:
            yield from _operations(inner)


class Site:
    """An operation where it stands, and the module whose nodes it adds to."""

    def __init__(self, module: Module, op: Operation, place: Place, path: Sequence[str]) -> None:
        self.module, self.op, self.place, self.path = module, op, place, path
        self.name = op.name.partition(".")[2]
        self.inputs = [module.read(number) for number in op.operands]

    def attr(self, name: str, default: T) -> T:
        """An attribute; ``default`` where it is not there, or of another kind."""
        value = self.op.attrs.get(name, default)
        if isinstance(value, dict) and "values" in value:
            value = value["values"] or [value["splat"]] * math.prod(value["shape"][:1] or [1])
        return value if isinstance(value, type(default)) else default

    @property
    def results(self) -> list[Type]:
        """The types of its results."""
        return [type_of(described) for _, described in self.op.results]

    def add(
        self,
        primitive: str,
        inputs: Sequence[Value] | None = None,
        results: Sequence[Type] | None = None,
        **params: object,
    ) -> list[Value]:
        """Add a node; its results."""
        return self.by(
            lambda operation: self.module.add(operation, _own(operation)), primitive, inputs, results, **params
        )

    def by(
        self,
        adding: Callable[[nodes.Operation], list[Tensor]],
        primitive: str,
        inputs: Sequence[Value] | None = None,
        results: Sequence[Type] | None = None,
        **params: object,
    ) -> list[Value]:
        """The results of what adds nodes for an operation."""
        types = self.results if results is None else results
        taken = [value.tensor for value in (self.inputs if inputs is None else inputs) if value.members is None]
        place = self.place.inside("/".join(self.path).split("/") if self.path else ())
        tensors = adding(nodes.Operation(primitive, params, taken, types, place, self.op.name))
        for tensor in tensors:
            refuse_huge(tensor.name, tensor.shape)
        return list(map(Value, types, tensors))

    def body(self, place: int) -> tuple[list[Value], Inner]:
        """A region: what it takes from outside, and the program, which takes that before its own arguments."""
        region, module, around = self.op.regions[place], self.module, self.module.values
        outside = {number: module.read(number) for number in _free(region)}
        outside = {n: value for n, value in outside.items() if value.number is None and value.members is None}
        captured = list({id(value.tensor): value for value in outside.values()}.values())
        types = [*(value.type for value in captured), *(type_of(described) for _, described, _ in region[0])]

        def run(arguments: Sequence[Tensor], place: Place) -> list[Tensor]:
            kept, module.values = module.values, around.new_child()
            handed = list(map(Value, types, arguments))
            inside = {id(value.tensor): own for value, own in zip(captured, handed, strict=False)}
            module.values.update((number, inside[id(value.tensor)]) for number, value in outside.items())
            results = module.run(region, handed[len(captured) :], place, self.path)
            module.values = kept
            return [value.tensor for value in results]

        return captured, Inner([tensor_of("", kind) for kind in types], run)

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


def _free(region: Region) -> dict[int, None]:
    """The numbers of the values that a region reads from outside, in order."""
    free: dict[int, None] = {}
    own = {number for number, *_ in region[0]}
    for _, operands, results, _, regions, _ in region[1]:
        free.update((number, None) for number in operands if number not in own)
        for inner in regions:
            free.update((number, None) for number in _free(inner) if number not in own)
        own.update(number for number, _ in results)
    return free


def _own(operation: nodes.Operation) -> Lowered | None:
    """The operator of what no primitive of JAX's is."""
    named = "::" in operation.primitive or operation.primitive in _OPERATORS
    return Lowered(operation.primitive, tuple(operation.taken), operation.params) if named else None


def literal(number: complex, kind: Type) -> Value:
    """One number in all places of a tensor, which has it for a name."""
    return Value(kind, tensor_of(str(numpy.asarray(number).item()), kind, "constant"), number)


def translate(site: Site) -> list[Value]:
    """Add the nodes of an operation; its results."""
    dialect, _, name = site.op.name.partition(".")
    rule = _RULES.get(site.op.name) or (_RULES.get(f"stablehlo.{name}") if dialect in ("chlo", "mhlo", "sdy") else None)
    if rule is not None:
        return rule(site)
    plain = name.removeprefix("broadcast_") if dialect == "chlo" else name
    primitive = SAME.get(plain) or (plain if plain in _OWN else "")
    if dialect not in ("stablehlo", "chlo", "mhlo", "sdy") or not primitive:
        return site.add(f"{dialect}::{name}")
    return site.add(primitive)


def constant(site: Site) -> list[Value]:
    said, kind = site.op.attrs.get("value") or {}, site.results[0]
    refuse_huge("constant", kind.shape)
    splat = said.get("splat")
    if splat is not None:
        return [literal(complex(*splat) if isinstance(splat, list) else splat, kind)]
    return [Value(kind, site.module.stored(Constant(kind.shape, kind.dtype, said)))]


def call(site: Site) -> list[Value]:
    name = str(site.attr("callee", ""))
    results = site.module.called(name, site)
    if results is None or len(results) != len(site.op.results):
        raise ModelError(f"calls the function {name[:80]!r}, which does not fit, or is not there")
    return results


def composite(site: Site) -> list[Value]:
    """An operation with a name, or what the function of its decomposition does."""
    name = str(site.attr("name", ""))
    dialect, _, plain = name.partition(".")
    if dialect == "chlo" and (plain in SAME or plain in _OWN):
        return site.add(SAME.get(plain, plain))
    results = site.module.called(str(site.attr("decomposition", "")), site)
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
    last = max(len(site.inputs[0].type.shape) - 1, 0)
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
    if name == "ne" and y.number is False and x.type.dtype == "bool":
        return [x]
    return site.add(name)


def broadcast(site: Site) -> list[Value]:
    """One number is the same in a larger tensor."""
    number = site.inputs[0].number
    if number is not None:
        refuse_huge("broadcast", site.results[0].shape)
        return [literal(number, site.results[0])]
    return site.add("broadcast_in_dim", site.inputs[:1])


def select(site: Site) -> list[Value]:
    which, then, other = site.inputs
    return site.add("select_n", (which, other, then))


def convert(site: Site) -> list[Value]:
    """A conversion; of a tensor that has the type already, none."""
    if site.results[0] == site.inputs[0].type:
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
    _, inner = site.body(0)
    return site.by(lambda operation: site.module.reduction(operation, inner), primitive, **params)


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
    (outer, condition), (inner, body) = site.body(0), site.body(1)
    return site.by(
        lambda operation: site.module.loop(operation, len(outer), len(inner), condition, body),
        "while",
        [*outer, *inner, *site.inputs],
    )


def case(site: Site) -> list[Value]:
    """A choice; each branch takes from outside what any of them does."""
    bodies = [site.body(place) for place in range(len(site.op.regions))]
    if site.name == "if":
        bodies.reverse()
    captured = list({id(value.tensor): value for values, _ in bodies for value in values}.values())
    places = {id(value.tensor): place for place, value in enumerate(captured)}

    def branch(values: list[Value], inner: Inner) -> Inner:
        own = [places[id(value.tensor)] for value in values]
        takes = [tensor_of("", value.type) for value in captured]
        return Inner(takes, lambda arguments, place: inner.run([arguments[n] for n in own], place))

    branches = [branch(values, inner) for values, inner in bodies]
    which = site.inputs[0]
    if which.number is not None:
        which = literal(int(which.number.real), which.type)
    return site.by(lambda operation: site.module.choice(operation, branches), "cond", [which, *captured])


def manual_computation(site: Site) -> list[Value]:
    """A program that each device of a mesh runs on its own part."""
    axes = _AXES.findall(str(site.attr("manual_axes", "")))
    meshes = site.module.axes
    mesh = next((sizes for sizes in meshes.values() if all(axis in sizes for axis in axes)), None)
    if mesh is None:
        raise ModelError("a computation per device names no mesh of the module")
    sizes = {axis: size for axis, size in mesh.items() if axis in axes}
    captured, inner = site.body(0)
    return site.by(
        lambda operation: site.module.devices(operation, sizes, inner), "shard_map", [*captured, *site.inputs]
    )


def quantize(site: Site) -> list[Value]:
    """A quantisation; from one quantised type to another by way of real numbers, as the specification has it."""
    x, result = site.inputs[0], site.results[0]
    if not x.type.dtype.startswith(("float", "bfloat")):
        (x,) = site.add("DequantizeLinear", [x, *_scaled(x.type)], [Type(x.type.shape, "float32")])
    return site.add("QuantizeLinear", [x, *_scaled(result)])


def dequantize(site: Site) -> list[Value]:
    x = site.inputs[0]
    return site.add("DequantizeLinear", [x, *_scaled(x.type)])


def _scaled(kind: Type) -> list[Value]:
    """Scale and zero point of a quantised type; no zero point where it is 0. They stand in the type."""
    scale = literal(1.0, Type((), "float32"))
    return [scale, literal(0, Type((), kind.dtype))] if kind.shifted else [scale]


def fft(site: Site) -> list[Value]:
    kind = _WORD.search(str(site.attr("fft_type", "")))
    return site.add("fft", fft_lengths=site.attr("fft_length", [1]), fft_type=kind[1] if kind else "FFT")


def all_reduce(site: Site) -> list[Value]:
    primitive = _ARRIVING.get(site.only())
    return site.add(primitive or "stablehlo::all_reduce", devices=site.devices)


def tuple_(site: Site) -> list[Value]:
    return [Value(Type((), "", False), Tensor("", (), None), members=tuple(site.inputs))]


def get_tuple_element(site: Site) -> list[Value]:
    value, place = site.inputs[0], site.attr("index", 0)
    if value.members is None or not 0 <= place < len(value.members):
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
