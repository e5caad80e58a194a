"""The inputs of an ONNX model made concrete: the user's shapes, symbols and batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy
import onnx
from onnx import numpy_helper

from flopwise.errors import InputError
from flopwise.readers.inputs import InputSpec, given
from flopwise.readers.onnx_shapes import Shapes, concrete, describe, has_payload
from flopwise.readers.onnx_wire import DTYPES

_CODES = {name: code for code, name in DTYPES.items()}


def settle(model: onnx.ModelProto, inputs: Any, dims: Mapping[str, int], batch_size: int | None) -> bool:
    """Give each input of the model a concrete shape; whether one differs from a concrete shape in the file.

    Args:
        model: changed in place. An input whose data the user gives becomes an initialiser as well.
        inputs: what the user says about inputs, see :func:`flopwise.readers.inputs.given`.
        dims: values of symbols.
        batch_size: first dimension of the inputs whose first dimension is the batch.

    Raises:
        InputError: an input, symbol or rank does not fit, or a shape is missing.
    """
    graph = model.graph
    stored = {t.name for t in graph.initializer}
    values = [i for i in graph.input if i.name not in stored]
    names = [v.name for v in values]
    specs = {s.name: s for s in given(inputs, names)}
    symbols = dict(dims)
    for name, value in symbols.items():
        if value < 0:
            raise InputError(f"dimension {name} cannot be {value}")
    _refuse_unknown_symbols(graph, symbols, specs)
    before = {v.name: concrete(v.type) for v in values}
    for value in values:
        if value.name in specs:
            _override(graph, value, specs[value.name], symbols)
    _bind(graph, symbols)
    if batch_size is not None:
        _set_batch(values, batch_size, specs, symbols)
        _bind(graph, symbols)
    for value in values:
        if value.type.HasField("tensor_type") and concrete(value.type) is None:
            raise InputError(_missing(value))
    return any(before[v.name] is not None and before[v.name] != concrete(v.type) for v in values)


def _refuse_unknown_symbols(graph: onnx.GraphProto, symbols: Mapping[str, int], specs: Mapping[str, InputSpec]) -> None:
    known = {d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim if d.dim_param}
    known |= {d for s in specs.values() for d in s.shape if isinstance(d, str)}
    for name in symbols:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InputError(f"no input has a dimension named {name!r}; the symbolic dimensions are: {listed}")


def _override(graph: onnx.GraphProto, value: onnx.ValueInfoProto, spec: InputSpec, symbols: dict[str, int]) -> None:
    """Write the user's shape, type and data into an input."""
    tensor = value.type.tensor_type
    if tensor.HasField("shape"):
        old = tensor.shape.dim
        if len(old) != len(spec.shape) and spec.data is None:
            raise InputError(
                f"input {value.name!r} has {len(old)} dimensions ({_written(value)}), "
                f"but {len(spec.shape)} are given: {'x'.join(map(str, spec.shape))}"
            )
        for dim, new in zip(old, spec.shape, strict=False):
            if dim.dim_param and isinstance(new, int) and symbols.setdefault(dim.dim_param, new) != new:
                raise InputError(
                    f"dimension {dim.dim_param} of input {value.name!r} is given as {new}, "
                    f"and elsewhere as {symbols[dim.dim_param]}"
                )
    code = _CODES[spec.dtype] if spec.dtype else tensor.elem_type or onnx.TensorProto.FLOAT
    value.type.CopyFrom(onnx.helper.make_tensor_type_proto(code, list(spec.shape)))
    if spec.data is not None:
        if not all(isinstance(d, int) for d in spec.shape):
            raise InputError(f"input {value.name!r} has data, so its shape must be numbers")
        array = numpy.array(spec.data, dtype=onnx.helper.tensor_dtype_to_np_dtype(code)).reshape(spec.shape)
        graph.initializer.append(numpy_helper.from_array(array, value.name))


def _bind(graph: onnx.GraphProto, symbols: Mapping[str, int]) -> None:
    """Put numbers in place of symbols, in inputs and in the shapes that the file gives."""
    if not symbols:
        return
    for value in (*graph.input, *graph.value_info, *graph.output):
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
    if batch_size < 1:
        raise InputError(f"a batch of {batch_size} is no batch")
    firsts = [(v, v.type.tensor_type.shape.dim[0]) for v in values if len(v.type.tensor_type.shape.dim)]
    if not firsts:
        raise InputError("no input has a first dimension that could be the batch; give the shapes with -i")
    batch = firsts[0][1].SerializeToString()
    for value, dim in firsts:
        if dim.SerializeToString() != batch and not _looks_like_batch(dim):
            continue
        if value.name in specs and isinstance(specs[value.name].shape[0], int):
            if specs[value.name].shape[0] != batch_size:
                raise InputError(f"input {value.name!r} is given with the batch {specs[value.name].shape[0]}")
            continue
        if dim.dim_param:
            symbols[dim.dim_param] = batch_size
        dim.dim_value = batch_size


def _looks_like_batch(dim: Any) -> bool:
    return dim.dim_param.lower() in ("n", "b", "batch", "batch_size", "batchsize")


def _missing(value: onnx.ValueInfoProto) -> str:
    """The error for an input without a concrete shape: its name, and what to type."""
    tensor = value.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type, "float32")
    if not tensor.HasField("shape"):
        return f"input {value.name!r} has no shape; give it with -i {value.name}:{dtype}:SHAPE, such as 1x3x224x224"
    symbols = list(dict.fromkeys(d.dim_param for d in tensor.shape.dim if d.dim_param))
    example = "x".join(str(d.dim_value) if d.HasField("dim_value") else "1" for d in tensor.shape.dim)
    binding = " ".join(f"--dim {s}=1" for s in symbols)
    if binding and all(d.HasField("dim_value") or d.dim_param for d in tensor.shape.dim):
        cure = f"give them with {binding}, or with -i {value.name}:{dtype}:{example}"
    else:
        cure = f"give them with -i {value.name}:{dtype}:{example}"
    return f"input {value.name!r} has open dimensions ({_written(value)}); {cure}"


def _written(value: onnx.ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return "x".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in dims)


def check_reshapes(model: onnx.ModelProto, shapes: Shapes, batch_size: int) -> None:
    """Refuse a batch size that a Reshape with a fixed first dimension cannot carry.

    Raises:
        InputError: there is such a Reshape.
    """
    fixed = {t.name: t for t in model.graph.initializer if has_payload(t)}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            fixed[node.output[0]] = node.attribute[0].t
        if node.op_type != "Reshape" or len(node.input) < 2 or node.input[1] not in fixed:
            continue
        target = [int(d) for d in numpy_helper.to_array(fixed[node.input[1]]).ravel()]
        taken, made = shapes.shape(node.input[0]), shapes.shape(node.output[0])
        if taken is None or not taken or taken[0] % batch_size or taken[0] == 0 or node.input[0] in fixed:
            continue
        keeps = made is not None and math.prod(made) == math.prod(taken) and made[0] % batch_size == 0
        if not keeps and target and target[0] > 0:
            raise InputError(
                f"batch size {batch_size} is impossible: {describe(node)} always makes the shape "
                f"{tuple(target)}; export the model with a dynamic batch"
            )
