"""Inputs of a model as the user gives them: ``name:dtype:shape[:data]``."""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise._kinds import described
from flopwise.errors import InputError, UnknownDimensionError
from flopwise.graph.dtypes import ALIASES, BITS, canonical

if TYPE_CHECKING:
    from flopwise.formats.arrays import Held

#: Arrays up to this many elements may decide shapes; those of larger ones are not kept.
FEW = 8192

#: The form of an input, for messages.
FORM = "NAME:DTYPE:SHAPE[:DATA], for example x:float32:1x3x224x224"

#: A dimension is smaller than this.
LARGEST_DIM = 1 << 63

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
_NUMBERS = re.compile(r"[-\dx,]*")

#: What the libraries that add element types to NumPy and PyTorch call them, where that is not what ONNX calls them.
_OTHER_NAMES: dict[str, str] = {
    "float8e8m0fnu": "float8e8m0",
    "float6e2m3fn": "float6e2m3",
    "float6e3m2fn": "float6e3m2",
    "float4e2m1fn": "float4e2m1",
    "float4e2m1fnx2": "float4e2m1",
    "qint8": "int8",
    "quint8": "uint8",
    "qint32": "int32",
}


def dtype_of(name: str) -> str:
    """flopwise's name of an element type of NumPy's or PyTorch's ("torch.float8_e4m3fn")."""
    plain = name.removeprefix("torch.").replace("_", "")
    return _OTHER_NAMES.get(plain, plain)


@dataclass(frozen=True, slots=True)
class Value:
    """An argument of a program that is handed over as it is, where a sequence of whole numbers would be a shape.

    >>> import flopwise
    >>> flopwise.Value([(1, 8, 8)])
    Value(value=[(1, 8, 8)])
    """

    value: Any


#: What stands in front of a value in a text: ``img_shapes:value:[(1, 8, 8)]``.
VALUE = "value:"


class Declared(NamedTuple):
    """An input: its name, element type and dims, where None is a dimension without a name or number."""

    name: str
    dtype: str | None
    #: None when the file gives no shape, or the input is not a tensor.
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input as the user gives it. A dim may be a symbol; None stands for what the model has."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str | None = None
    #: For an input whose value decides shapes: a numpy array, or a list of them for a sequence.
    value: Any = field(default=None, compare=False)
    #: The members of a sequence, or what an optional holds; () for one that is empty, None for a tensor.
    items: tuple[InputSpec, ...] | None = None


def parse(text: str, names: Sequence[str], symbols: Collection[str] = ()) -> InputSpec:
    """The input that a text describes.

    Args:
        text: ``name:dtype:shape[:data]``; dtype and data may be left out, and so may the name when the model has one
            input. Names may contain colons. Dims are numbers or symbols, with x or commas between them; with data, one
            dim may be -1. Data are values with commas or x between them, or ``@file.npy``; then the shape may be left
            out as well.
        names: the model's inputs.
        symbols: the model's symbolic dims, which tell where one ends that is followed by an x.

    Raises:
        InputError: the text is not of that form, names no input of the model, or names a file that does not fit.

    >>> parse("input:0:f32:1x3x8x8", ["input:0"])
    InputSpec(name='input:0', shape=(1, 3, 8, 8), dtype='float32', value=None, items=None)
    """
    name, description = _split_name(text, names)
    dtype = None
    head, colon, tail = description.partition(":")
    if colon and is_dtype(head):
        dtype, description = canonical(head), tail
    elif colon and not head.startswith("@") and not _NUMBERS.fullmatch(head):
        canonical(head)  # says which element types there are
    elif is_dtype(head):
        raise InputError(f"cannot understand {text!r}; write {FORM}")
    if description.startswith("@"):
        return _from_file(name, dtype, None, description, text)
    shape, colon, data = description.partition(":")
    if not colon:
        return InputSpec(name, _shape(shape, text, None, symbols), dtype)
    if data.startswith("@"):
        return _from_file(name, dtype, _dims(shape, text, symbols), data, text)
    if ":" in data and dtype != "string":
        raise InputError(f"cannot understand {text!r}; write {FORM}")
    values = _data(data, dtype, text)
    import numpy

    dims = _shape(shape, text, len(values), symbols)
    return InputSpec(name, dims, dtype, numpy.array(values).reshape([int(d) for d in dims]))


def _split_name(text: str, names: Sequence[str]) -> tuple[str, str]:
    """The input that a text names, and the rest of the text."""
    heads = [n for n in names if text.startswith(n + ":")]
    if heads:
        name = max(heads, key=len)
        return name, text[len(name) + 1 :]
    head, colon, _ = text.partition(":")
    if len(names) == 1 and (not colon or is_dtype(head) or text.startswith("@")):
        return names[0], text
    raise InputError(f"no input is named as in {text!r}; the inputs are {_names_text(names)}; write {FORM}")


def input_specs(inputs: object, names: Sequence[str], symbols: Collection[str] = ()) -> list[InputSpec]:
    """The inputs as specs, from any form in which Python callers give them.

    Args:
        inputs: None; a mapping from name to shape, array, text or spec, to a list of shapes or arrays for a sequence,
            or to None for an empty optional; one shape or array when the model has one input; or texts of the form
            ``name:dtype:shape[:data]`` or ``@file.npz``. The elements of an array are kept as far as they may decide
            shapes: up to 8,192 of them.
        names: the model's inputs.
        symbols: the model's symbolic dims.

    Raises:
        InputError: the form is none of these, a name is unknown, or an input is given twice.
    """
    specs = _specs(inputs, names, symbols)
    names_given: set[str] = set()
    for spec in specs:
        if spec.name not in names:
            raise InputError(f"the model has no input {spec.name!r}; its inputs are {_names_text(names)}")
        if spec.name in names_given:
            raise InputError(f"input {spec.name!r} is given twice")
        names_given.add(spec.name)
    return specs


def _specs(inputs: object, names: Sequence[str], symbols: Collection[str]) -> list[InputSpec]:
    """The inputs as specs, from any form in which Python callers give them; not checked against the names."""
    if inputs is None:
        return []
    if isinstance(inputs, str):
        return _described_inputs(inputs, names, symbols)
    if isinstance(inputs, Mapping):
        return [_input_spec(name, value, names, symbols) for name, value in inputs.items()]
    if hasattr(inputs, "shape"):
        return [_input_spec(_only(names), inputs, names, symbols)]
    if isinstance(inputs, Iterable):
        items = list(inputs)
        if all(isinstance(i, InputSpec) for i in items):
            return items
        texts = all(isinstance(i, str) for i in items)
        if texts and (len(items) == 1 or not all(_SYMBOL.fullmatch(i) for i in items)):
            return [spec for i in items for spec in _described_inputs(i, names, symbols)]
        if not any(isinstance(i, InputSpec) or (isinstance(i, Iterable) and not isinstance(i, str)) for i in items):
            return [_input_spec(_only(names), tuple(items), names, symbols)]
    raise InputError(
        f"cannot understand inputs={described(inputs)}; give a shape, or a mapping from input name to shape"
    )


def _described_inputs(text: str, names: Sequence[str], symbols: Collection[str]) -> list[InputSpec]:
    """The inputs that a text describes: one, or all in an archive."""
    if text.startswith("@") and text.endswith(".npz"):
        from flopwise.formats.arrays import read_npz

        arrays = read_npz(text[1:], FEW)
        return [InputSpec(name, one.shape, _dtype(one.dtype, name), one.value) for name, one in arrays.items()]
    return [parse(text, names, symbols)]


def _input_spec(name: str, value: object, names: Sequence[str], symbols: Collection[str]) -> InputSpec:
    """The spec of one input from a shape, an array, a text or None."""
    if isinstance(value, InputSpec):
        return value
    if isinstance(value, Value):
        raise InputError(
            f"input {name!r} is a tensor here, and takes no value; values are arguments of PyTorch modules"
        )
    if isinstance(value, str):
        return parse(value if value.startswith(f"{name}:") else f"{name}:{value}", names, symbols)
    if value is None:
        return InputSpec(name, (), items=())
    shape = getattr(value, "shape", value)
    if not isinstance(shape, Iterable):
        raise InputError(f"the shape of input {name!r} is not a sequence: {shape!r}")
    if shape is value and any(isinstance(v, (list, tuple)) or _is_array(v) for v in value):
        items = tuple(_input_spec(name, part, names, symbols) for part in value)
        values = [item.value for item in items]
        return InputSpec(name, (), items[0].dtype, None if any(v is None for v in values) else values, items)
    dims = tuple(d if isinstance(d, str) else _checked_dim(d, f"input {name!r}") for d in shape)
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return InputSpec(name, dims)
    return InputSpec(name, dims, _dtype(dtype, name), _elements(value, dims, name))


def _is_array(value: object) -> bool:
    """True where a value is an array and not a number of a library that has arrays."""
    numpy = sys.modules.get("numpy")  # where there are arrays it has been imported
    return bool(getattr(value, "shape", ())) or (numpy is not None and isinstance(value, numpy.ndarray))


def _dtype(dtype: object, name: str) -> str | None:
    """The element type of an array of any library; None for raw bytes, which may be of any type."""
    kind = getattr(dtype, "kind", "")
    if kind in ("U", "S", "O", "T"):
        return "string"
    text = dtype_of(str(getattr(dtype, "name", dtype)))
    if kind == "V" and text.startswith("void"):
        return None
    try:
        return canonical(text)
    except InputError as error:
        raise InputError(f"input {name!r}: {error}") from None


def _elements(value: object, dims: tuple[int | str, ...], name: str) -> object:
    """The elements of an array as far as they may decide shapes; None when they cannot be had."""
    if not hasattr(value, "__array__") or math.prod(d for d in dims if isinstance(d, int)) > FEW:
        return None
    import numpy

    try:
        array = numpy.array(value)
    except Exception:  # tensors without memory, or of types that numpy has not, raise what they like
        return None
    if array.dtype == object and not all(isinstance(v, (str, bytes)) for v in array.ravel().tolist()):
        raise InputError(f"input {name!r} holds Python objects that are not text")
    return array


def _checked_dim(value: Any, where: str) -> int:
    try:
        dim = operator.index(value)
    except TypeError:
        raise InputError(f"{value!r} is not a dimension of {where}; it must be a whole number or a symbol") from None
    if not 0 <= dim < LARGEST_DIM:
        raise InputError(f"{dim} is not a dimension of {where}; it must be from 0 to 2^63 - 1")
    return dim


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise InputError(f"the model has {len(names)} inputs ({_names_text(names)}); give a shape for each by name")
    return names[0]


def is_dtype(text: str) -> bool:
    """True where a text is the name of an element type."""
    return text.lower() in BITS or text.lower() in ALIASES


def _from_file(name: str, dtype: str | None, dims: Sequence[int | str] | None, data: str, text: str) -> InputSpec:
    """An input whose data is in a file: ``@file.npy``."""
    from flopwise.formats.arrays import read_npy

    array = read_npy(data[1:], FEW)
    stored = _dtype(array.dtype, name)
    width = -(-BITS[dtype] // 8) if dtype else 0
    if dtype and stored != dtype and (stored is not None or array.dtype.itemsize != width):
        raise InputError(f"{text!r} asks for {dtype}, but the file holds {stored or array.dtype}")
    if dims is not None and not _fits(dims, array):
        expected, has = ("x".join(map(str, d)) or "()" for d in (dims, array.shape))
        raise InputError(f"{text!r} asks for the shape {expected}, but the file holds {has}")
    return InputSpec(name, array.shape, dtype or stored, array.value)


def _fits(dims: Sequence[int | str], array: Held) -> bool:
    if len(dims) != len(array.shape):
        return False
    return all(isinstance(d, str) or d in (-1, n) for d, n in zip(dims, array.shape, strict=True))


def _dims(text: str, description: str, symbols: Collection[str]) -> list[int | str]:
    plain = _NUMBERS.fullmatch(text) and ("x" not in symbols or not text)
    parts = (re.split(r"[x,]", text) if text else []) if plain else _symbolic(text, symbols)
    dims: list[int | str] = []
    for part in parts:
        if re.fullmatch(r"-?[0-9]{1,19}", part):
            dims.append(int(part))
        elif _SYMBOL.fullmatch(part) or part in symbols:
            dims.append(part)
        else:
            raise InputError(f"{part!r} in {description!r} is not a dimension; write {FORM}")
    return dims


def _shape(text: str, description: str, values: int | None, symbols: Collection[str]) -> tuple[int | str, ...]:
    """The dims of a text; one may be -1 where it is known how many values there are."""
    dims = _dims(text, description, symbols)
    product = math.prod(d for d in dims if isinstance(d, int) and d != -1)
    if values is not None and dims.count(-1) == 1 and product and values % product == 0:
        dims[dims.index(-1)] = values // product
    if any(isinstance(d, int) and not 0 <= d < LARGEST_DIM for d in dims):
        raise InputError(f"a dimension in {description!r} is negative or too large; write {FORM}")
    if values is not None and (not all(isinstance(d, int) for d in dims) or values != math.prod(map(int, dims))):
        raise InputError(f"{description!r} gives {values} values for the shape {text or '()'}")
    return tuple(dims)


def _symbolic(text: str, symbols: Collection[str]) -> list[str]:
    """Dims with symbols: separated by commas, or by an x next to a digit, a capital letter or a symbol of the model."""
    if "," in text:
        return [p.strip() for p in text.split(",")]
    return _at_symbols(text, symbols) or re.split(r"(?<=[\dA-Z])x|x(?=[\dA-Z])", text)


def _at_symbols(text: str, symbols: Collection[str]) -> list[str]:
    """Numbers and known symbols with an x between them; empty when the text is something else."""
    number = re.match(r"\d+", text)
    starts = [s for s in sorted(symbols, key=len, reverse=True) if s and text.startswith(s)]
    for start in [number[0], *starts] if number else starts:
        after = text[len(start) :]
        if not after:
            return [start]
        if after[0] == "x" and (others := _at_symbols(after[1:], symbols)):
            return [start, *others]
    return []


def _data(text: str, dtype: str | None, description: str) -> list[str] | list[float]:
    """The values in a text."""
    if dtype == "string":
        return text.split(",")
    words = {"true": True, "false": False} if dtype in ("bool", None) else {}
    try:
        return [words[v] if v in words else _number(v) for v in re.split("[,x]", text.lower())]
    except ValueError:
        raise InputError(f"{text!r} in {description!r} is not a list of numbers; write {FORM}") from None


def _number(text: str) -> int | float:
    return float(text) if re.search(r"[.e]|inf|nan", text) else int(text)


def _names_text(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return ", ".join(repr(n) for n in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class Dims:
    """The sizes that the caller gives by name, and the names that were looked up."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = sizes or {}
        self._names: set[str] = set()

    def find(self, name: str) -> int | None:
        """The size of this name; None where none is given."""
        self._names.add(name)
        return self._sizes.get(name)

    def knows(self, name: str) -> bool:
        """True if a size of this name is given."""
        return name in self._sizes and self.find(name) is not None

    def get(self, name: str, default: int) -> int:
        """The size of this name, else the default."""
        size = self.find(name)
        return default if size is None else size

    def check(self) -> None:
        """Refuse sizes of names that nobody has looked up.

        Raises:
            UnknownDimensionError: there is one.
        """
        for name in self._sizes.keys() - self._names:
            known = tuple(sorted(self._names))
            raise UnknownDimensionError(
                f"no input has a dimension named {name!r}; the named dimensions are: {', '.join(known) or 'none'}",
                name,
                known,
            )
