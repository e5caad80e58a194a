"""What the user says about a model's inputs: ``name:dtype:shape[:data]``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.dtypes import ALIASES, BITS, canonical
from flopwise.errors import InputError

#: The form of an input, for messages.
FORM = "NAME:DTYPE:SHAPE[:DATA], for example x:float32:1x3x224x224"

#: A dimension is smaller than this.
LARGEST_DIM = 1 << 63

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
_NUMBERS = re.compile(r"[-\dx,]*")


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
            input. Names may contain colons. With data, one dim may be -1.
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
    elif len(names) == 1 and (":" not in text or _is_dtype(text.partition(":")[0])):
        name, rest = names[0], text.split(":")
    else:
        raise InputError(f"no input is named as in {text!r}; the inputs are {_listed(names)}; write {FORM}")
    dtype = canonical(rest.pop(0)) if _is_dtype(rest[0]) else None
    if dtype is None and len(rest) > 1 and not _NUMBERS.fullmatch(rest[0]):
        canonical(rest[0])  # says which element types there are
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
        InputError: the form is none of these, a name is unknown, or an input is given twice.
    """
    specs = _specs(inputs, names)
    seen: set[str] = set()
    for spec in specs:
        if spec.name not in names:
            raise InputError(f"the model has no input {spec.name!r}; its inputs are {_listed(names)}")
        if spec.name in seen:
            raise InputError(f"input {spec.name!r} is given twice")
        seen.add(spec.name)
    return specs


def _specs(inputs: Any, names: Sequence[str]) -> list[InputSpec]:
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
        if all(isinstance(i, InputSpec) for i in items):
            return items
        texts = all(isinstance(i, str) for i in items)
        if texts and (len(items) == 1 or not all(_SYMBOL.fullmatch(i) for i in items)):
            return [parse(i, names) for i in items]
        if not any(isinstance(i, InputSpec) or (isinstance(i, Iterable) and not isinstance(i, str)) for i in items):
            return [_one(_only(names), tuple(items), names)]
    raise InputError(f"cannot understand inputs={inputs!r}; give a shape, or a mapping from input name to shape")


def _one(name: str, value: Any, names: Sequence[str]) -> InputSpec:
    if isinstance(value, InputSpec):
        return value
    if isinstance(value, str):
        return parse(value if value.startswith(f"{name}:") else f"{name}:{value}", names)
    shape = getattr(value, "shape", value)
    dtype = getattr(value, "dtype", None)
    if not isinstance(shape, Iterable):
        raise InputError(f"the shape of input {name!r} is not a sequence: {shape!r}")
    dims = tuple(d if isinstance(d, str) else _whole(d, f"input {name!r}") for d in shape)
    if dtype is None:
        return InputSpec(name, dims)
    return InputSpec(name, dims, canonical(str(dtype).removeprefix("torch.").replace("_", "")))


def _whole(value: Any, where: str) -> int:
    try:
        dim = operator.index(value)
    except TypeError:
        raise InputError(f"{value!r} is no dimension of {where}; it must be a whole number or a symbol") from None
    if not 0 <= dim < LARGEST_DIM:
        raise InputError(f"{dim} is no dimension of {where}; it must be from 0 to 2^63 - 1")
    return dim


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise InputError(f"the model has {len(names)} inputs ({_listed(names)}); give a shape for each by name")
    return names[0]


def _is_dtype(text: str) -> bool:
    return text.lower() in BITS or text.lower() in ALIASES


def _shape(text: str, whole: str, data: tuple[float, ...] | None) -> tuple[int | str, ...]:
    parts = (re.split(r"[x,]", text) if text else []) if _NUMBERS.fullmatch(text) else _symbolic(text)
    dims: list[int | str] = []
    for part in parts:
        if re.fullmatch(r"-?[0-9]{1,19}", part):
            dims.append(int(part))
        elif _SYMBOL.fullmatch(part):
            dims.append(part)
        else:
            raise InputError(f"{part!r} in {whole!r} is no dimension; write {FORM}")
    known = math.prod(d for d in dims if isinstance(d, int) and d != -1)
    if data is not None and dims.count(-1) == 1 and known and len(data) % known == 0:
        dims[dims.index(-1)] = len(data) // known
    if any(isinstance(d, int) and not 0 <= d < LARGEST_DIM for d in dims):
        raise InputError(f"a dimension in {whole!r} is negative or too large; write {FORM}")
    if data is not None and (not all(isinstance(d, int) for d in dims) or len(data) != math.prod(map(int, dims))):
        raise InputError(f"{whole!r} gives {len(data)} values for the shape {text or '()'}")
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
    if not names:
        return "none"
    return ", ".join(repr(n) for n in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
