"""The inputs of a model: what it states itself, at the sizes that the user chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flopwise._user_code import on_command_line
from flopwise.errors import InputError
from flopwise.readers.inputs import Dims, InputSpec, input_specs


@dataclass(frozen=True)
class Stated:
    """An input that a model states: its name, its shape with None for sizes that are open, its element type."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str


def stated_inputs(model: object) -> tuple[tuple[Stated, ...], object] | None:
    """The inputs of a model of layers, and the nested structure in which it takes them; None where it states none."""
    functional = getattr(model, "_functional", None) or model
    struct = getattr(functional, "_inputs_struct", None)
    tensors = getattr(functional, "inputs", None)
    if struct is None or not tensors:
        return None
    return tuple([Stated(t.name, tuple(t.shape), t.dtype) for t in tensors]), struct


def chosen(
    stated: tuple[Stated, ...], inputs: object, dims: Mapping[str, int] | None, batch_size: int | None, source: str
) -> list[InputSpec]:
    """The inputs at their sizes, in the model's order; a first size that is open is the batch, and 1.

    Args:
        stated: as the model has them.
        inputs: shapes or arrays by name, in the model's order, or texts of the form ``name:dtype:shape[:data]``.
        dims: values of names that stand for sizes in shapes.
        batch_size: the first size of every input.
        source: the model, for messages.

    Raises:
        InputError: a size is open and nobody has chosen it, or a shape does not fit.
    """
    names = [one.name for one in stated]
    specs = {spec.name: spec for spec in input_specs(_by_name(inputs, names), names)}
    sizes = Dims(dims)
    result = [_one(one, specs.get(one.name), sizes, batch_size, source) for one in stated]
    sizes.check()
    return result


def _by_name(inputs: object, names: list[str]) -> object:
    """A sequence of shapes or arrays as a mapping from the names of inputs."""
    if isinstance(inputs, (list, tuple)) and len(inputs) == len(names):
        shapes = all(isinstance(one, (list, tuple)) or hasattr(one, "shape") for one in inputs)
        if shapes:
            return dict(zip(names, inputs, strict=True))
    return inputs


def _one(one: Stated, spec: InputSpec | None, sizes: Dims, batch_size: int | None, source: str) -> InputSpec:
    """An input at its size."""
    shape = list(one.shape) if spec is None else _given(one, spec, sizes, source)
    if batch_size is not None and shape:
        if one.shape[0] not in (None, batch_size):
            raise InputError(f"{source}: the batch of input {one.name!r} is fixed at {one.shape[0]}")
        shape[0] = batch_size
    elif shape and shape[0] is None:
        shape[0] = sizes.get("batch", 1)
    if None in shape:
        raise InputError(
            f"{source}: sizes of input {one.name!r} are open ({_text(one.shape)}); {_cure(one.name, shape)}"
        )
    dtype = spec.dtype if spec is not None and spec.dtype else one.dtype
    value = spec.value if spec is not None else None
    return InputSpec(one.name, tuple([size for size in shape if size is not None]), dtype, value)


def _given(one: Stated, spec: InputSpec, sizes: Dims, source: str) -> list[int | None]:
    """The shape that the user gave, if it is one of the input's."""
    if len(spec.shape) != len(one.shape):
        raise InputError(f"{source}: input {one.name!r} has {len(one.shape)} dimensions, not {len(spec.shape)}")
    shape: list[int | None] = [_size(size, sizes, one.name) for size in spec.shape]
    if any(own not in (None, size) for size, own in zip(shape, one.shape, strict=True)):
        raise InputError(f"{source}: input {one.name!r} is {_text(one.shape)} (?: any size), not {_text(shape)}")
    return shape


def _cure(name: str, shape: list[int | None]) -> str:
    """An example of how sizes are given."""
    sizes = ["64" if size is None else str(size) for size in shape]
    if on_command_line():
        return f"give -i {name}:{'x'.join(sizes)}, for example"
    return f"give inputs={{{name!r}: ({', '.join(sizes)})}}, for example"


def _size(size: int | str, sizes: Dims, name: str) -> int:
    if isinstance(size, int):
        return size
    value = sizes.find(size)
    if value is None:
        raise InputError(f"input {name!r}: {size!r} has no value; give --dim {size}=NUMBER")
    return value


def _text(shape: Sequence[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape)
