"""The inputs of an ONNX model made concrete: the user's shapes, symbols and batch size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import onnx
from onnx import numpy_helper

from flopwise.errors import InputError, UnknownDimensionError, did_you_mean
from flopwise.graph.dtypes import is_float
from flopwise.readers.inputs import LARGEST_DIM, InputSpec, input_specs
from flopwise.readers.onnx.file.skeleton import CODES, DTYPES
from flopwise.readers.onnx.sequence_inputs import settle_members
from flopwise.readers.onnx.states import states_of
from flopwise.readers.onnx.suggestions import error_of, written
from flopwise.readers.onnx.types import Facts, Shapes, array_of, concrete, describe, elements


class OpenInputError(InputError):
    """An input still has no concrete shape."""

    def __init__(self, value: onnx.ValueInfoProto, names: Sequence[str]) -> None:
        """
        Args:
            value: the input.
            names: all inputs that are open.
        """
        super().__init__(error_of(value))
        self.value = value
        self.names = names


class Settled(NamedTuple):
    """What the user's inputs come to."""

    #: Whether an input has another shape than the concrete one in the file.
    changed: bool
    #: Whether the file leaves sizes open, so that the user chooses them.
    chosen: bool
    #: Facts about inputs that are not tensors.
    facts: dict[str, Facts]
    #: The inputs that are still open because outputs say their shapes, and these outputs.
    states: dict[str, str]
    #: Values of symbols.
    symbols: dict[str, int]
    #: What to warn of.
    warnings: tuple[str, ...]


def settle(
    model: onnx.ModelProto,
    inputs: Any,
    dims: Mapping[str, int],
    batch_size: int | None,
    states: Mapping[str, str] | None = None,
    assume: Mapping[str, int] | None = None,
    stored: Collection[str] | None = None,
) -> Settled:
    """Give each input of the model a concrete shape, but for states whose shapes outputs say.

    Args:
        model: changed in place. An input whose data the user gives becomes an initialiser as well.
        inputs: what the user says about inputs, see ``flopwise.readers.inputs.input_specs``.
        dims: values of symbols.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        states: inputs that take what an output gave before, and these outputs; more are found by name.
        assume: sizes of dimensions that nothing else says, by name; "*" for all others.
        stored: the names of the stored tensors, where they have been listed before.

    Raises:
        InputError: an input, symbol or rank does not fit, or a shape is missing.
    """
    graph = model.graph
    stored = {t.name for t in graph.initializer} if stored is None else stored
    values = [i for i in graph.input if i.name not in stored]
    named = {d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim if d.dim_param} | dims.keys()
    specs = {s.name: s for s in input_specs(inputs, [v.name for v in values], named)}
    _refuse_bad_symbols(graph, dims, specs)
    fed = states_of(graph, stored, states or {}, frozenset(specs))
    before = {v.name: concrete(v.type) for v in values}
    facts: dict[str, Facts] = {}
    extents = _Extents(dims)
    changed = False
    for value in values:
        spec = specs.get(value.name)
        if spec is None:
            continue
        if value.type.WhichOneof("value") in ("sequence_type", "optional_type"):
            facts[value.name], other = settle_members(value, spec)
            changed = changed or other
        else:
            _override(graph, value, spec, extents)
    symbols = extents.certain()
    if batch_size is not None:
        _set_batch(values, batch_size, specs, symbols)
    _bind((v for v in graph.input if v.name in fed), dims)
    _bind((v for v in (*graph.input, *graph.value_info, *graph.output) if v.name not in fed), symbols)
    assumed = close([v for v in values if v.name not in fed], {}, assume or {})
    changed = changed or any(before[v.name] is not None and before[v.name] != concrete(v.type) for v in values)
    chosen = any(before[v.name] is None and not v.type.HasField("sequence_type") for v in values)
    return Settled(changed, chosen, facts, fed, symbols, (*extents.warnings(), *assumed))


def close(values: Iterable[onnx.ValueInfoProto], symbols: Mapping[str, int], assume: Mapping[str, int]) -> list[str]:
    """Put numbers in place of symbols in inputs; what was assumed, for a warning.

    Raises:
        OpenInputError: an input still has no concrete shape.
    """
    listed = list(values)
    _bind(listed, symbols)
    assumed = []
    for value in listed:
        if value.type.WhichOneof("value") not in ("tensor_type", None) or concrete(value.type) is not None:
            continue
        for dim in value.type.tensor_type.shape.dim if assume else ():
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                size = assume.get(dim.dim_param, assume.get("*"))
                if size is not None:
                    dim.dim_value = size
        if concrete(value.type) is None:
            raise OpenInputError(value, [v.name for v in listed if concrete(v.type) is None])
        assumed.append(f"{value.name} {written(value).replace(' ', '')}")
    return [f"sizes are assumed: {', '.join(assumed)}; give them with -i"] if assumed else []


class _Extents:
    """What the user says about symbols: by their names, and by the shapes of inputs, which win for their input."""

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


def _refuse_bad_symbols(graph: onnx.GraphProto, symbols: Mapping[str, int], specs: Mapping[str, InputSpec]) -> None:
    declared = {d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim if d.dim_param}
    declared |= {d for s in specs.values() for d in s.shape if isinstance(d, str)}
    for name, value in symbols.items():
        if name not in declared:
            listed = ", ".join(sorted(declared)) or "none"
            near = did_you_mean(name, declared) or ";"
            message = f"no input has a dimension named {name!r}{near} the symbolic dimensions are: {listed}"
            raise UnknownDimensionError(message, name, tuple(sorted(declared)))
        if not isinstance(value, int) or not 0 <= value < LARGEST_DIM:
            raise InputError(f"dimension {name} cannot be {value!r}")


def _override(graph: onnx.GraphProto, value: onnx.ValueInfoProto, spec: InputSpec, extents: _Extents) -> None:
    """Write the user's shape, type and data into an input."""
    if value.type.WhichOneof("value") not in ("tensor_type", None):
        raise InputError(f"input {value.name!r} is not a tensor; its shape cannot be given")
    if spec.items is not None:
        what = "a list" if spec.items else "None"
        raise InputError(f"input {value.name!r} is a tensor, but {what} is given; give its shape")
    tensor = value.type.tensor_type
    shape = spec.shape
    if tensor.HasField("shape"):
        old = tensor.shape.dim
        if not old and spec.value is not None and elements(map(int, shape)) == 1:
            shape = ()  # one value for a scalar, however it is written
        if len(old) != len(shape):
            raise InputError(
                f"input {value.name!r} has {len(old)} dimensions ({written(value) or 'a scalar'}), "
                f"but {len(shape)} are given: {'x'.join(map(str, shape)) or 'a scalar'}"
            )
        for dim, new in zip(old, shape, strict=True):
            if dim.dim_param and isinstance(new, int):
                extents.add(dim.dim_param, new, value.name)
    code = CODES[spec.dtype] if spec.dtype else tensor.elem_type or onnx.TensorProto.FLOAT
    value.type.CopyFrom(onnx.helper.make_tensor_type_proto(code, list(shape)))
    if spec.value is not None:
        graph.initializer.append(_tensor(value.name, code, shape, spec.value))


def _tensor(name: str, code: int, shape: tuple[int | str, ...], value: Any) -> onnx.TensorProto:
    """The elements of an input as a tensor of the input's type.

    Raises:
        InputError: the type cannot hold them.
    """
    try:
        kind = onnx.helper.tensor_dtype_to_np_dtype(code)
        array = numpy.asarray(value).reshape([int(d) for d in shape])
        if code == onnx.TensorProto.STRING:
            if array.dtype.kind in "USO":
                return numpy_helper.from_array(array.astype(object), name)
        elif array.dtype == kind:
            return numpy_helper.from_array(array, name)
        elif array.dtype.kind == "V" and array.dtype.itemsize == kind.itemsize:  # files know no such type
            return numpy_helper.from_array(array.view(kind), name)
        elif array.dtype.kind not in "USV":
            with numpy.errstate(all="ignore"):
                cast = array.astype(kind)
            if is_float(DTYPES[code]) or cast.tolist() == array.tolist():
                return numpy_helper.from_array(cast, name)
    except (KeyError, NotImplementedError, OverflowError, TypeError, ValueError):
        pass
    raise InputError(f"the data of input {name!r} does not fit its type, {DTYPES.get(code, 'unknown')}")


def _bind(values: Iterable[onnx.ValueInfoProto], symbols: Mapping[str, int]) -> None:
    """Put numbers in place of symbols, in inputs and in the shapes that the file gives."""
    if not symbols:
        return
    for value in values:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]


def _set_batch(
    values: list[onnx.ValueInfoProto],
    batch_size: int,
    specs: Mapping[str, InputSpec],
    symbols: dict[str, int],
) -> None:
    """Set the first dimension of every input that has the batch there: the same symbol or number as the first input."""
    if not isinstance(batch_size, int) or not 1 <= batch_size < LARGEST_DIM:
        raise InputError(f"{batch_size!r} is not a batch size")
    firsts = [(v, v.type.tensor_type.shape.dim[0]) for v in values if len(v.type.tensor_type.shape.dim)]
    if not firsts:
        raise InputError("no input has a first dimension that could be the batch; give the shapes with -i")
    batch = firsts[0][1].SerializeToString()
    for value, dim in firsts:
        if dim.SerializeToString() != batch and not _looks_like_batch(dim):
            continue
        given_as = specs[value.name].shape[0] if value.name in specs else symbols.get(dim.dim_param, dim.dim_param)
        if isinstance(given_as, int):
            if given_as != batch_size:
                raise InputError(f"input {value.name!r} is given with the batch {given_as}, not {batch_size}")
            continue
        if dim.dim_param:
            symbols[dim.dim_param] = batch_size
        dim.dim_value = batch_size


def _looks_like_batch(dim: Any) -> bool:
    return dim.dim_param.lower() in ("n", "b", "batch", "batch_size", "batchsize")


def check_reshapes(model: onnx.ModelProto, shapes: Shapes, batch_size: int) -> None:
    """Refuse a batch size that a Reshape with a fixed first dimension cannot carry.

    Raises:
        InputError: there is such a Reshape.
    """
    stored = {t.name for t in model.graph.initializer}
    for node, target in _reshapes(model.graph):
        if node.input[0] in stored or not target or target[0] <= 0:
            continue
        taken, made = shapes.shape(node.input[0]), shapes.shape(node.output[0])
        if not taken or taken[0] % batch_size or taken[0] == 0:
            continue
        keeps = made and elements(made) == elements(taken) and made[0] % batch_size == 0
        if not keeps:
            raise InputError(
                f"batch size {batch_size} is impossible: {describe(node)} always makes the shape "
                f"{tuple(target)}; export the model with a dynamic batch"
            )


def _reshapes(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, list[int]]]:
    """Each Reshape to a fixed shape, and that shape."""
    fixed = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output and node.attribute:
            fixed[node.output[0]] = node.attribute[0].t
        if node.op_type != "Reshape" or not node.input or not node.output:
            continue
        if len(node.input) == 1:  # before operator set 5 the shape was an attribute
            yield node, [d for a in node.attribute if a.name == "shape" for d in a.ints]
        elif node.input[1] in fixed:
            target = array_of(fixed[node.input[1]])
            if target is not None and target.dtype.kind == "i":
                yield node, target.ravel().tolist()
