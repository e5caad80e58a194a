"""The inputs of an ONNX model made concrete: the user's shapes, symbols and batch size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from flopwise.errors import InputError, UnknownDimensionError, did_you_mean
from flopwise.formats.onnx.file.literal import elements as stored_elements
from flopwise.formats.onnx.file.model import Graph, Model, Node, OptionalType, SequenceType, TensorType, Type, Value
from flopwise.formats.onnx.states import states_of
from flopwise.formats.onnx.suggestions import error_of, written
from flopwise.formats.onnx.types import bound, concrete, dims_of, is_tensor
from flopwise.graph.dtypes import BITS, is_float
from flopwise.readers.inputs import LARGEST_DIM, InputSpec, input_specs
from flopwise.readers.limits import elements
from flopwise.sizes.facts import Fact, Facts
from flopwise.sizes.scope import Scope


class OpenInputError(InputError):
    """An input still has no concrete shape."""

    def __init__(self, value: Value, names: Sequence[str]) -> None:
        """
        Args:
            value: the input.
            names: all inputs that are open.
        """
        super().__init__(error_of(value))
        self.value = value
        self.names = names


class Settled(NamedTuple):
    """A model with the user's inputs, and the facts, sizes and warnings that come with them."""

    #: The model with these inputs.
    model: Model
    #: Whether an input has another shape than the concrete one in the file.
    changed: bool
    #: Whether the file leaves sizes open, so that the user chooses them.
    chosen: bool
    #: Facts about inputs that are not tensors, or whose elements the user gives.
    given: dict[str, Fact]
    #: The inputs that are still open because outputs say their shapes, and these outputs.
    states: dict[str, str]
    #: Sizes of symbols.
    symbols: dict[str, int]
    #: What to warn of.
    warnings: tuple[str, ...]


def with_inputs(model: Model, types: Mapping[str, Type | None]) -> Model:
    """The model with other types of inputs, by name."""
    return replace(model, graph=replace(model.graph, inputs=_typed(model.graph.inputs, types)))


def _typed(values: Iterable[Value], types: Mapping[str, Type | None]) -> list[Value]:
    return [v._replace(type=types[v.name]) if v.name in types else v for v in values]


def settle(
    model: Model,
    inputs: object,
    dims: Mapping[str, int],
    batch_size: int | None,
    facts: Facts,
    states: Mapping[str, str] = {},
    assume: Mapping[str, int] = {},
) -> Settled:
    """Give each input of the model a concrete shape, but for states whose shapes outputs say.

    Args:
        model: the model.
        inputs: what the user says about inputs, see ``flopwise.readers.inputs.input_specs``.
        dims: values of symbols.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        facts: where facts come from.
        states: inputs that take what an output gave before, and these outputs; more are found by name.
        assume: sizes of dimensions that nothing else says, by name; "*" for all others.

    Raises:
        InputError: an input, symbol or rank does not fit, or a shape is missing.
    """
    graph, values = model.graph, model.graph.inputs
    named = set(_symbols(values)) | dims.keys()
    specs = {s.name: s for s in input_specs(inputs, [v.name for v in values], named)}
    if batch_size is not None:
        specs = {**specs, **_in_batch(specs, values, batch_size)}
    _refuse_bad_symbols(graph, dims, specs)
    fed = states_of(graph, states, frozenset(specs))
    types: dict[str, Type | None] = {v.name: v.type for v in values}
    before = {v.name: concrete(v.type) for v in values}
    extents = _Extents(dims)
    given: dict[str, Fact] = {}
    changed = False
    for value in values:
        spec = specs.get(value.name)
        if spec is None:
            continue
        if isinstance(value.type, SequenceType | OptionalType):
            from flopwise.formats.onnx.sequence_inputs import settle_members

            given[value.name], types[value.name], other = settle_members(value, spec, facts)
            changed |= other
        else:
            tensor = _overridden(value, spec, extents)
            types[value.name] = tensor
            if spec.value is not None:
                given[value.name] = _with_elements(value.name, tensor, spec.value, facts)
    symbols = extents.certain()
    if batch_size is not None:
        types.update(_batch(_typed(values, types), batch_size, specs, symbols))
    for name, type_ in types.items():
        types[name] = bound(type_, dims if name in fed else symbols)
    closed, assumed = close([v for v in _typed(values, types) if v.name not in fed], {}, assume)
    types.update(closed)
    changed = changed or any(s is not None and s != concrete(types[name]) for name, s in before.items())
    chosen = any(before[v.name] is None and not isinstance(v.type, SequenceType) for v in values)
    return Settled(with_inputs(model, types), changed, chosen, given, fed, symbols, (*extents.warnings(), *assumed))


def _symbols(values: Iterable[Value]) -> Iterator[str]:
    """The names of open dimensions."""
    for value in values:
        if is_tensor(value.type):
            yield from (dim for dim in dims_of(value.type) or () if isinstance(dim, str))


def close(
    values: Iterable[Value], symbols: Mapping[str, int], assume: Mapping[str, int]
) -> tuple[dict[str, Type | None], list[str]]:
    """The types of inputs with numbers in place of symbols, and what was assumed, for a warning.

    Raises:
        OpenInputError: an input still has no concrete shape.
    """
    listed = [value._replace(type=bound(value.type, symbols)) for value in values]
    types, assumed = {value.name: value.type for value in listed}, []
    for value in listed:
        if not is_tensor(value.type) or concrete(value.type) is not None:
            continue
        dims = dims_of(value.type)
        if dims is not None and assume:
            sizes = [d if isinstance(d, int) else assume.get(d or "", assume.get("*", d)) for d in dims]
            types[value.name] = replace(value.type, dims=tuple(sizes))  # type: ignore[type-var] # it has dims
        if concrete(types[value.name]) is None:
            open_ones = [v.name for v in listed if concrete(types[v.name]) is None]
            raise OpenInputError(value._replace(type=types[value.name]), open_ones)
        assumed.append(f"{value.name} {written(value._replace(type=types[value.name])).replace(' ', '')}")
    return types, [f"sizes are assumed: {', '.join(assumed)}; give them with -i"] if assumed else []


class _Extents:
    """Sizes of symbols as the user gives them: by name, and by the shapes of inputs, which win for their input."""

    def __init__(self, dims: Mapping[str, int]) -> None:
        self.dims = dims
        #: Symbol -> extent -> the inputs that have it.
        self._seen: dict[str, dict[int, list[str]]] = {}

    def add(self, symbol: str, extent: int, name: str) -> None:
        """Take in a dimension of an input whose shape the user gives."""
        self._seen.setdefault(symbol, {}).setdefault(extent, []).append(name)

    def certain(self) -> dict[str, int]:
        """The values of symbols but for those that several inputs take for several extents."""
        one = {symbol: next(iter(seen)) for symbol, seen in self._seen.items() if len(seen) == 1}
        return {**one, **self.dims}

    def warnings(self) -> Iterator[str]:
        """One line about the symbols that stand for several extents."""
        several = []
        for symbol, seen in self._seen.items():
            places = {f"{extent} in {names[0]!r}": extent for extent, names in seen.items()}
            if symbol in self.dims:
                places[f"{self.dims[symbol]} in --dim"] = self.dims[symbol]
            if len(set(places.values())) > 1:
                several.append(f"{symbol} ({', '.join(places)})")
        if several:
            yield f"one name stands for several sizes: {', '.join(several)}; each input keeps the shape that is given"


def _refuse_bad_symbols(graph: Graph, symbols: Mapping[str, int], specs: Mapping[str, InputSpec]) -> None:
    declared = {*_symbols(graph.inputs)} | {d for s in specs.values() for d in s.shape if isinstance(d, str)}
    for name, value in symbols.items():
        if name not in declared:
            listed = ", ".join(sorted(declared)) or "none"
            near = did_you_mean(name, declared) or ";"
            message = f"no input has a dimension named {name!r}{near} the symbolic dimensions are: {listed}"
            raise UnknownDimensionError(message, name, tuple(sorted(declared)))
        if not isinstance(value, int) or not 0 <= value < LARGEST_DIM:
            raise InputError(f"dimension {name} cannot be {value!r}")


def _overridden(value: Value, spec: InputSpec, extents: _Extents) -> TensorType:
    """The type of an input with the user's shape and element type."""
    if not is_tensor(value.type):
        raise InputError(f"input {value.name!r} is not a tensor; its shape cannot be given")
    if spec.items is not None:
        what = "a list" if spec.items else "None"
        raise InputError(f"input {value.name!r} is a tensor, but {what} is given; give its shape")
    shape, old = spec.shape, dims_of(value.type)
    if old is not None:
        if not old and spec.value is not None and elements(map(int, shape)) == 1:
            shape = ()  # one value for a scalar, however it is written
        if len(old) != len(shape):
            raise InputError(
                f"input {value.name!r} has {len(old)} dimensions ({written(value) or 'a scalar'}), "
                f"but {len(shape)} are given: {'x'.join(map(str, shape)) or 'a scalar'}"
            )
        for dim, new in zip(old, shape, strict=True):
            if isinstance(dim, str) and isinstance(new, int):
                extents.add(dim, new, value.name)
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    return TensorType(spec.dtype or dtype or "float32", tuple(shape))


def _with_elements(name: str, type_: TensorType, value: object, facts: Facts) -> Fact:
    """The fact about an input whose elements the user gives.

    Raises:
        InputError: the type cannot hold them.
    """
    import numpy

    shape = tuple([d for d in type_.dims or () if isinstance(d, int)])
    dtype, plain = type_.dtype or "float32", facts.tensor(type_.dtype, shape)
    try:
        array = numpy.asarray(value).reshape(shape)
        if dtype == "string":
            if array.dtype.kind in "USO":
                return facts.constant(plain, tuple(map(str, array.ravel().tolist())))
        elif array.dtype.kind == "V":  # files know no such type
            if array.dtype.itemsize == (BITS[dtype] + 7) // 8:
                return plain
        elif array.dtype.kind not in "USO":
            cast = _cast(array, dtype)
            if cast is None:
                return plain
            if is_float(dtype) or cast.tolist() == array.tolist():
                return facts.constant(plain, tuple(cast.ravel().tolist()))
    except (KeyError, NotImplementedError, OverflowError, TypeError, ValueError):
        pass
    raise InputError(f"the data of input {name!r} does not fit its type, {dtype}")


def _cast(array: Any, dtype: str) -> Any:
    """An array in another element type; None for a type that NumPy has no numbers for."""
    import numpy

    if dtype in ("int2", "int4", "uint2", "uint4"):
        bits = BITS[dtype]
        low, high = (-(1 << bits - 1), 1 << bits - 1) if dtype[0] == "i" else (0, 1 << bits)
        if not ((low <= array) & (array < high)).all():
            raise ValueError
        return array.astype("int64")
    try:
        kind = numpy.dtype(dtype)
    except TypeError:
        return None
    with numpy.errstate(all="ignore"):
        return array.astype(kind)


def _batch(
    values: list[Value], batch_size: int, specs: Mapping[str, InputSpec], symbols: dict[str, int]
) -> dict[str, Type | None]:
    """The types of the inputs that have the batch in their first dimension: the same symbol or number as the first."""
    if not isinstance(batch_size, int) or not 1 <= batch_size < LARGEST_DIM:
        raise InputError(f"{batch_size!r} is not a batch size")
    firsts = [(v, dims[0]) for v in values if (dims := dims_of(v.type))]
    if not firsts:
        raise InputError("no input has a first dimension that could be the batch; give the shapes with -i")
    batch = firsts[0][1]
    types: dict[str, Type | None] = {}
    for value, dim in firsts:
        if dim != batch and not (isinstance(dim, str) and _looks_like_batch(dim)):
            continue
        symbol = dim if isinstance(dim, str) else ""
        size = specs[value.name].shape[0] if value.name in specs else symbols.get(symbol, symbol)
        if isinstance(size, int):
            if size != batch_size:
                raise InputError(f"input {value.name!r} is given with the batch {size}, not {batch_size}")
            continue
        if symbol:
            symbols[symbol] = batch_size
        types[value.name] = TensorType(value.type.dtype, (batch_size, *(dims_of(value.type) or ())[1:]))  # type: ignore[union-attr]
    return types


def _in_batch(specs: Mapping[str, InputSpec], values: Sequence[Value], batch_size: int) -> dict[str, InputSpec]:
    """The shapes that are given for one sample, with the batch in their place for it."""
    firsts = {v.name: dims[0] for v in values if (dims := dims_of(v.type))}
    batch = next(iter(firsts.values()), None)
    return {
        name: replace(specs[name], shape=(batch_size, *specs[name].shape[1:]))
        for name, dim in firsts.items()
        if name in specs and specs[name].value is None and specs[name].shape[:1] == (1,)
        if dim == batch or (isinstance(dim, str) and _looks_like_batch(dim))
    }


def _looks_like_batch(dim: str) -> bool:
    return dim.lower() in ("n", "b", "batch", "batch_size", "batchsize")


def check_reshapes(graph: Graph, shapes: Scope, batch_size: int) -> None:
    """Refuse a batch size that a Reshape with a fixed first dimension cannot carry.

    Raises:
        InputError: there is such a Reshape.
    """
    for node, target in _reshapes(graph):
        if node.inputs[0] in graph.initializers or not target or target[0] <= 0:
            continue
        before, after = shapes.shape(node.inputs[0]), shapes.shape(node.outputs[0])
        if not before or before[0] % batch_size or before[0] == 0:
            continue
        keeps = after and elements(after) == elements(before) and after[0] % batch_size == 0
        if not keeps:
            raise InputError(
                f"batch size {batch_size} is impossible: {node} always makes the shape "
                f"{tuple(target)}; export the model with a dynamic batch"
            )


def _reshapes(graph: Graph) -> Iterator[tuple[Node, Sequence[int]]]:
    """Each Reshape to a fixed shape, and that shape."""
    fixed = dict(graph.initializers)
    for node in graph.nodes:
        if node.op == "Constant" and node.outputs and node.attributes.get("value") is not None:
            fixed[node.outputs[0]] = node.attributes.get("value")
        if node.op != "Reshape" or not node.inputs or not node.outputs:
            continue
        if len(node.inputs) == 1:  # before operator set 5 the shape was an attribute
            yield node, node.attributes.get("shape") or ()
        elif node.inputs[1] in fixed:
            target = stored_elements(fixed[node.inputs[1]])
            if target is not None and all(type(n) is int for n in target):
                yield node, target  # type: ignore[misc] # all are integers
