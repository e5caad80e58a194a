"""What the user says about a model's inputs: ``name:dtype:shape[:data]``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.dtypes import ALIASES, BITS, canonical
from flopwise.errors import InputError

#: The form of an input, for messages.
FORM = "NAME:DTYPE:SHAPE[:DATA], for example x:float32:1x3x224x224"

_DIM = re.compile(r"-?\d+|[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What the user says about one input. A dim may be a symbol; what is None stays as the model has it."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str | None = None
    #: Elements in row order, for an input whose value decides shapes.
    data: tuple[float, ...] | None = None


def parse(text: str, names: Sequence[str]) -> InputSpec:
    """The input that a text describes.

    Args:
        text: ``name:dtype:shape[:data]``; dtype and data may be left out, and so may the name when the model has one
            input. Names may contain colons.
        names: the model's inputs.

    Raises:
        InputError: the text is not of that form, or names no input of the model.

    >>> parse("input:0:f32:1x3x8x8", ["input:0"])
    InputSpec(name='input:0', shape=(1, 3, 8, 8), dtype='float32', data=None)
    """
    found = [n for n in names if text.startswith(n + ":")]
    if found:
        name = max(found, key=len)
        rest = text[len(name) + 1 :].split(":")
    elif len(names) == 1 and ":" not in text and not re.search(r"[^\dx,]", text):
        name, rest = names[0], [text]
    else:
        raise InputError(f"no input is named as in {text!r}; the inputs are {_listed(names)}; write {FORM}")
    dtype = None
    if rest and (rest[0].lower() in BITS or rest[0].lower() in ALIASES):
        dtype = canonical(rest.pop(0))
    if not rest or len(rest) > 2:
        raise InputError(f"cannot understand {text!r}; write {FORM}")
    data = _data(rest[1], text) if len(rest) == 2 else None
    return InputSpec(name, _shape(rest[0], text, data), dtype, data)


def given(inputs: Any, names: Sequence[str]) -> list[InputSpec]:
    """The inputs as specs, from any form in which Python callers give them.

    Args:
        inputs: None; a mapping from name to shape, array or spec; one shape when the model has one input; or texts of
            the form ``name:dtype:shape[:data]``.
        names: the model's inputs.

    Raises:
        InputError: the form is none of these, or a name is unknown.
    """
    if inputs is None:
        return []
    if isinstance(inputs, str):
        return [parse(inputs, names)]
    if isinstance(inputs, Mapping):
        return [_one(name, value, names) for name, value in inputs.items()]
    if hasattr(inputs, "shape"):
        return [_one(_only(names), inputs, names)]
    if isinstance(inputs, Iterable):
        items = list(inputs)
        if items and all(isinstance(i, str) and ":" in i for i in items):
            return [parse(i, names) for i in items]
        if all(isinstance(i, InputSpec) for i in items):
            return items
        if all(isinstance(i, (int, str)) for i in items):
            return [_one(_only(names), tuple(items), names)]
    raise InputError(f"cannot understand inputs={inputs!r}; give a shape, or a mapping from input name to shape")


def _one(name: str, value: Any, names: Sequence[str]) -> InputSpec:
    if name not in names:
        raise InputError(f"the model has no input {name!r}; its inputs are {_listed(names)}")
    if isinstance(value, InputSpec):
        return value
    if isinstance(value, str):
        return parse(value if value.startswith(name + ":") else f"{name}:{value}", names)
    shape = getattr(value, "shape", value)
    dtype = getattr(value, "dtype", None)
    if not isinstance(shape, Iterable):
        raise InputError(f"the shape of input {name!r} is not a sequence: {shape!r}")
    dims = tuple(d if isinstance(d, str) else int(d) for d in shape)
    return InputSpec(name, dims, None if dtype is None else canonical(str(dtype).removeprefix("torch.")))


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise InputError(f"the model has {len(names)} inputs ({_listed(names)}); give a shape for each by name")
    return names[0]


def _shape(text: str, whole: str, data: tuple[float, ...] | None) -> tuple[int | str, ...]:
    parts = [p for p in re.split(r"[x,]", text) if p] if re.fullmatch(r"[-\dx,]*", text) else _symbolic(text)
    dims: list[int | str] = []
    for part in parts:
        if not _DIM.fullmatch(part):
            raise InputError(f"{part!r} in {whole!r} is no dimension; write {FORM}")
        dims.append(int(part) if part.lstrip("-").isdigit() else part)
    if data is not None and dims in ([-1], []) and len(data) > (0 if dims else 1):
        dims = [len(data)]
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise InputError(f"a dimension in {whole!r} is negative; write {FORM}")
    if data is not None and len(data) != math.prod(d for d in dims if isinstance(d, int)):
        raise InputError(f"{whole!r} gives {len(data)} values for the shape {text}")
    return tuple(dims)


def _symbolic(text: str) -> list[str]:
    """Dims with symbols: separated by commas, or by an x next to a digit or a capital letter."""
    if "," in text:
        return [p.strip() for p in text.split(",")]
    return re.split(r"(?<=[\dA-Z])x|x(?=[\dA-Z])", text)


def _data(text: str, whole: str) -> tuple[float, ...]:
    try:
        return tuple(float(v) if re.search(r"[.eE]|inf|nan", v) else int(v) for v in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} in {whole!r} is no list of numbers; write {FORM}") from None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "none"
