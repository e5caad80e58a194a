"""Recurrent states: inputs that take what an output gave in the step before, so that the output says their shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

import onnx
from onnx import TypeProto

from flopwise.errors import InputError
from flopwise.readers.onnx.types import Shapes, concrete, tensor_type

#: Steps after which a state has settled, or grows for ever.
STEPS = 8

#: What names of inputs say, and what the names of the outputs that feed them say in its place.
_SPELLINGS: tuple[tuple[str, str], ...] = (
    (r"(?<![a-zA-Z])input(?![a-zA-Z])", "output"),
    (r"(?<![a-zA-Z])in(?![a-zA-Z])", "out"),
    (r"(?<![a-zA-Z])prev(ious)?(?![a-zA-Z])", "next"),
    (r"(?<![a-zA-Z])old(?![a-zA-Z])", "new"),
    (r"i$", "o"),
    (r"(?<=[a-zA-Z_])0$", "n"),
    (r"$", "_out"),
    (r"$", "_new"),
    (r"$", "_next"),
    (r"$", "n"),
    (r"^", "new_"),
    (r"^", "next_"),
    (r"^", "updated_"),
)


def states_of(
    graph: onnx.GraphProto, stored: Collection[str], stated: Mapping[str, str], fixed: frozenset[str]
) -> dict[str, str]:
    """Input -> the output that feeds it, for the states whose shapes the user does not give.

    Args:
        graph: the graph of the model.
        stored: the names of its stored tensors.
        stated: the pairs that the user names.
        fixed: names of the inputs whose shapes the user gives.

    Raises:
        InputError: the user names an input or an output that the model does not have.
    """
    inputs = {v.name: v for v in graph.input if v.name not in stored}
    outputs = {v.name: v for v in graph.output}
    for name, output in stated.items():
        for word, one, names in (("input", name, inputs), ("output", output, outputs)):
            if one not in names:
                listed = ", ".join(map(repr, names)) or "none"
                raise InputError(f"the model has no {word} {one!r} for a state; its {word}s are {listed}")
    pairs = dict(stated)
    for name, value in inputs.items():
        if name not in pairs and name not in fixed and len(inputs) > 1 and concrete(value.type) is None:
            feeding = next((o for o in _fed_by(name) if o in outputs and o not in inputs), None)
            if feeding is not None and _alike(value.type, outputs[feeding].type):
                pairs[name] = feeding
    return {name: output for name, output in pairs.items() if name not in fixed}


def settled_states(
    model: onnx.ModelProto, states: Mapping[str, str], resolved: Callable[[onnx.ModelProto], Shapes]
) -> tuple[list[str], list[str]]:
    """Give each state the shape that its output has when it has that shape itself.

    Args:
        model: its other inputs have concrete shapes; those of the states are written into it.
        states: input -> output.
        resolved: the shapes of a copy of the model.

    Returns:
        What the states became, for a warning; and the names of those that do not settle, which stay as they are.
    """
    values = {v.name: v for v in model.graph.input if v.name in states}
    before = {name: _copy(value.type) for name, value in values.items()}
    for value in values.values():
        value.type.CopyFrom(_opened(value.type))  # what a name stands for elsewhere says nothing of a state
    for _ in range(STEPS + len(values)):
        if _step(model, values, states, resolved):
            continue
        still_open = next((v for v in values.values() if concrete(v.type) is None), None)
        if still_open is None:
            listed = ", ".join(f"{n} {'x'.join(map(str, _dims(v.type)))} (as {states[n]})" for n, v in values.items())
            return [f"states take the shapes of the outputs that feed them: {listed}; -i changes that"], []
        for dim in tensor_type(still_open.type).shape.dim:  # some models make a state of ones as large as they need it
            if not dim.HasField("dim_value"):
                dim.dim_value = 1
    for name, value in values.items():
        value.type.CopyFrom(before[name])
    return [], list(states)


def _step(
    model: onnx.ModelProto,
    values: Mapping[str, onnx.ValueInfoProto],
    states: Mapping[str, str],
    resolved: Callable[[onnx.ModelProto], Shapes],
) -> bool:
    """Give each state the shape that its output has now; whether that changes one."""
    trial = onnx.ModelProto()
    trial.CopyFrom(model)
    shapes = resolved(trial)
    changed = False
    for name, value in values.items():
        dims, after = _dims(value.type), _dims(shapes.type(states[name]))
        sizes = [a if b is None else b for a, b in zip(dims, after, strict=True)] if len(after) == len(dims) else dims
        if sizes != dims:
            _set_dims(value.type, sizes)
            changed = True
    return changed


def _fed_by(name: str) -> list[str]:
    """What the output that feeds a state may be called."""
    return [new for old, instead in _SPELLINGS if (new := re.sub(old, instead, name, count=1)) != name]


def _alike(one: TypeProto, other: TypeProto) -> bool:
    """Whether two types may be those of one state: the same elements and rank, as far as they are known."""
    a, b = tensor_type(one), tensor_type(other)
    if a is None or b is None or (a.elem_type and b.elem_type and a.elem_type != b.elem_type):
        return False
    return a.HasField("shape") and (not b.HasField("shape") or len(a.shape.dim) == len(b.shape.dim))


def _copy(type_: TypeProto) -> TypeProto:
    new = TypeProto()
    new.CopyFrom(type_)
    return new


def _opened(type_: TypeProto) -> TypeProto:
    """The type with the extents open that the file does not state."""
    new = _copy(type_)
    for dim in tensor_type(new).shape.dim:
        if not dim.HasField("dim_value"):
            dim.ClearField("value")
    return new


def _dims(type_: TypeProto | None) -> list[int | None]:
    tensor = None if type_ is None else tensor_type(type_)
    if tensor is None:
        return []
    return [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]


def _set_dims(type_: TypeProto, dims: list[int | None]) -> None:
    for dim, value in zip(tensor_type(type_).shape.dim, dims, strict=True):
        dim.ClearField("value")
        if value is not None:
            dim.dim_value = value
