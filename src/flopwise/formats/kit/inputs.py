"""The inputs of a model: what a file declares, what the user says of them, and sizes to suggest for what is open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from flopwise.errors import InputError, UnknownDimensionError, did_you_mean
from flopwise.formats.inputs import LARGEST_DIM, Declared, InputSpec, input_specs
from flopwise.formats.kit.program import (
    CONTROL_FLOW,
    Graph,
    Model,
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
    Value,
    bound,
    concrete,
    dims_of,
    dtype_of,
    is_tensor,
)
from flopwise.formats.kit.sizes import states_of
from flopwise.formats.kit.tensors import elements as stored_elements
from flopwise.formats.limits import elements
from flopwise.graph.dtypes import BITS, is_float
from flopwise.sizes.facts import Fact, Facts, Kind
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
        inputs: what the user says about inputs, see ``flopwise.formats.inputs.input_specs``.
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


# Inputs of an ONNX model that are sequences or optionals: what the user says about their members.


def settle_members(value: Value, spec: InputSpec, facts: Facts) -> tuple[Fact, Type | None, bool]:
    """The fact about a sequence or optional, its type, and whether its members have other shapes than in the file.

    Args:
        value: the input.
        spec: what the user says: a list for a sequence; None, a shape or an array for an optional.
        facts: where facts come from.

    Raises:
        InputError: the members are not given as such, or do not fit the type.
    """
    inner, sequence = value.type, False
    while isinstance(inner, SequenceType | OptionalType):
        sequence = sequence or isinstance(inner, SequenceType)
        inner = inner.element
    items = spec.items
    if items is None and not sequence:
        items = (spec,)
    elif items is None and spec.shape == () and spec.value is None:
        items = ()
    if items is None or type(inner) is not TensorType or (len(items) > 1 and not sequence):
        cure = "a list of shapes or arrays" if sequence else "None, a shape or an array"
        raise InputError(f"input {value.name!r} is not a tensor; its shape cannot be given: give {cure}, in Python")
    types = [_member(value.name, item, inner) for item in items]
    before = concrete(inner)
    common = _common(types) if types else inner
    members = [facts.tensor(one.dtype, concrete(one)) for one in types]
    kind: Kind = "sequence"
    if isinstance(value.type, OptionalType):
        kind = "optional sequence" if sequence else "optional"
    fact = facts.sequence(inner.dtype, members, kind)
    return fact, _with_inner(value.type, common), before is not None and before != concrete(common)


def _with_inner(type_: Type | None, inner: TensorType) -> Type:
    """The type with another one in the place of what is in the middle of it."""
    if isinstance(type_, SequenceType | OptionalType):
        return replace(type_, element=_with_inner(type_.element, inner))
    return inner


def _member(name: str, item: InputSpec, declared: TensorType) -> TensorType:
    """The type of a member."""
    dtype = item.dtype or declared.dtype
    if declared.dtype and dtype != declared.dtype:
        raise InputError(f"input {name!r} holds {declared.dtype}, but {item.dtype} is given")
    if item.items is not None or any(isinstance(d, str) for d in item.shape):
        raise InputError(f"input {name!r} holds tensors; the shape of each must be given in numbers")
    if declared.dims is not None and len(declared.dims) != len(item.shape):
        raise InputError(
            f"input {name!r} holds tensors of {len(declared.dims)} dimensions, "
            f"but {len(item.shape)} are given: {'x'.join(map(str, item.shape)) or 'a scalar'}"
        )
    return TensorType(dtype, tuple(item.shape))


def _common(types: Sequence[TensorType]) -> TensorType:
    """The type that all members have in common; extents that differ are open."""
    shapes = [type_.dims or () for type_ in types]
    if len(set(map(len, shapes))) > 1:
        return TensorType(types[0].dtype, None)
    dims = [extents[0] if len(set(extents)) == 1 else None for extents in zip(*shapes, strict=True)]
    return TensorType(types[0].dtype, tuple(dims))


# Sizes to suggest for inputs whose dimensions are open: such that the model can take them.

#: Heights and widths of images, the usual one first.
IMAGES: tuple[int, ...] = (224, 256, 640, 512, 299, 320, 416, 32, 28)

#: The extent of other open dimensions that are not the batch (tokens, frames, samples), the usual one first.
LENGTHS: tuple[int, ...] = (128, 64, 256, 512, 77, 32, 16, 8, 4, 2, 1)

#: Height and width of images, and the extent of other open dimensions.
Usual = tuple[int, int]

USUAL: Usual = (IMAGES[0], LENGTHS[0])

_CHANNELS = (1, 3, 4)
_INTEGERS = frozenset({"int32", "int64"})


def error_of(value: Value, usual: Usual = USUAL) -> str:
    """The error for an input without a concrete shape: its name, and what to type.

    Args:
        value: the input.
        usual: the sizes to suggest.
    """
    import shlex

    dims, dtype = dims_of(value.type), dtype_of(value.type) or "float32"
    if dims is None:
        what = shlex.quote(f"{value.name}:{dtype}:")
        return f"input {value.name!r} has no shape; give it with -i {what}SHAPE, such as 1x3x224x224"
    sizes = _sizes(value, usual)
    cure = f"-i {shlex.quote(f'{value.name}:{dtype}:' + 'x'.join(map(str, sizes)))}"
    symbols = {dim: size for dim, size in zip(dims, sizes, strict=True) if isinstance(dim, str)}
    if symbols and None not in dims:
        cure = f"{' '.join(f'--dim {shlex.quote(s)}={size}' for s, size in symbols.items())}, or with {cure}"
    return f"input {value.name!r} has open dimensions ({written(value)}); give them with {cure}"


def working_sizes(graph: Graph, names: Collection[str], fits: Callable[[Mapping[str, Type | None]], bool]) -> Usual:
    """The sizes, the usual ones first, with which a model runs when its open inputs have them.

    Args:
        graph: the graph of the model.
        names: its inputs that are open.
        fits: whether the model can run when inputs have these types.
    """
    opened = [v for v in graph.inputs if v.name in names]
    if any(dims_of(v.type) is None for v in opened):
        return USUAL
    images = any(_is_image(v) for v in opened)
    for usual in [(image, LENGTHS[0]) for image in IMAGES] if images else [(IMAGES[0], length) for length in LENGTHS]:
        if fits({v.name: TensorType(dtype_of(v.type), tuple(_sizes(v, usual))) for v in opened}):
            return usual
    return USUAL


def written(value: Value) -> str:
    """The dimensions of an input as the file has them."""
    return " x ".join("?" if dim is None else str(dim) for dim in dims_of(value.type) or ())


def has_all(shapes: Scope, graph: Graph) -> bool:
    """True if every result of a graph's operators has a shape."""
    return all(shapes.sized(o) for n in graph.nodes for o in n.outputs if o)


def _stated(value: Value) -> list[int | None]:
    return [dim if isinstance(dim, int) else None for dim in dims_of(value.type) or ()]


def _is_image(value: Value) -> bool:
    """True if an input is a batch of images with an open height or width, channels first or last."""
    stated = _stated(value)
    if len(stated) != 4 or dtype_of(value.type) in _INTEGERS or concrete(value.type) is not None:
        return False
    first = stated[1] in (*_CHANNELS, None)
    last = stated[3] in _CHANNELS and (stated[1] is None or stated[1] not in _CHANNELS)
    return (first and None in stated[2:]) or (last and None in stated[1:3])


def _sizes(value: Value, usual: Usual) -> list[int]:
    """All dimensions of an input: those that it has, and usual ones in place of those that are open."""
    stated = _stated(value)
    image, length = usual
    sizes = [length if dim is None else dim for dim in stated]
    if sizes and stated[0] is None:
        sizes[0] = 1
    if len(stated) >= 4 and dtype_of(value.type) not in _INTEGERS:
        last = stated[-1] in _CHANNELS and stated[1] not in _CHANNELS
        channels, edges = (len(stated) - 1, range(1, len(stated) - 1)) if last else (1, range(2, len(stated)))
        fixed = [stated[i] for i in edges if stated[i] is not None]
        for i in edges:
            if stated[i] is None:
                sizes[i] = fixed[0] or image if fixed else image if len(stated) == 4 else 16 if i == edges[0] else 112
        if stated[channels] is None:
            sizes[channels] = 3
    return sizes


# The inputs of an ONNX model as the file declares them, open dimensions included, before any size is chosen.


def declared(graph: Graph) -> tuple[Declared, ...]:
    """The inputs of a graph as it declares them, those with stored values left out."""
    return tuple(_declared(value) for value in graph.inputs if value.name not in graph.initializers)


def has_loops(graph: Graph) -> bool:
    """True if a graph has control flow, which may repeat an unknown number of times."""
    return any(node.op in CONTROL_FLOW for node in graph.nodes)


def _declared(value: Value) -> Declared:
    return Declared(value.name, dtype_of(value.type), dims_of(value.type))
