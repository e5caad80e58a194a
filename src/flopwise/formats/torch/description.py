"""Tensors made from what a caller says of them: a shape, a text, an array."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy
import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.errors import InputError
from flopwise.formats.inputs import FORM, VALUE, Dims, InputSpec, Value, is_dtype, parse
from flopwise.formats.torch.containers import tensors_inside
from flopwise.formats.torch.record.values import DTYPES, is_mask

_BY_NAME = {name: dtype for dtype, name in reversed(DTYPES.items())}

#: Parameters of forward() that hold whole numbers: positions in a table, and flags of what is padding.
_WHOLE = """
    input_ids decoder_input_ids token_type_ids position_ids attention_mask decoder_attention_mask labels ids tokens
    input_tokens pixel_attention_mask bbox idx indices token_ids
"""
WHOLE = frozenset(_WHOLE.split())


#: Words in annotations of parameters that are numbers, texts, or sequences of them, and never tensors.
_NUMBERS = frozenset(("int", "float", "bool", "str"))
_AROUND = """
    bytes list tuple dict set List Tuple Dict Set Sequence Iterable Collection Mapping Optional Union None NoneType
    Literal Size typing collections abc builtins class torch
"""
_VALUES = _NUMBERS | frozenset(_AROUND.split())

#: A text of sizes that is no word of a program's own: ``1x3x224x224``, ``batchx3x8x8``.
_SIZES = re.compile(r"\d+([x,]\w+)*|[A-Za-z_]\w*?([x,]\d+){2,}")


def is_shape(value: object) -> TypeGuard[Sequence[int | str]]:
    """True if a value is a plain sequence of sizes, one at least, some of them perhaps by name."""
    if type(value) not in (tuple, list, torch.Size) or not value:
        return False
    return all(_is_size(v) for v in value)  # type: ignore[attr-defined] # a sequence, as was asked


def _is_size(value: object) -> bool:
    if isinstance(value, str):
        return value.isidentifier()
    return isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)


def takes_tensor(parameter: inspect.Parameter) -> bool | None:
    """True if a parameter takes tensors by its annotation, False if by that or by its default it takes none; None where
    neither says.
    """
    annotation = parameter.annotation
    words = set(re.findall(r"\w+", annotation if isinstance(annotation, str) else str(annotation)))
    if annotation is not parameter.empty and any(word.endswith("Tensor") for word in words):
        return None if words & {*_NUMBERS, "Any"} else True
    if annotation is not parameter.empty and words & _NUMBERS and words <= _VALUES:
        return False
    return False if isinstance(parameter.default, (str, tuple, list, dict)) else None


def position_name(names: Sequence[str], position: int) -> str:
    return names[position] if position < len(names) else f"input{position}"


class Making:
    """Tensors made from the caller's description."""

    def __init__(self, model: nn.Module, dims: Dims, batch: int | None, symbols: bool = False) -> None:
        """
        Args:
            model: the module.
            dims: values of names that stand for sizes.
            batch: the first dimension of every input.
            symbols: whether names without a value stand for sizes, too.
        """
        self._open = symbols
        self._dims = dims
        self._batch = batch
        self._dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        if self._dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            self._dtype = torch.float32
        self.made: set[int] = set()
        #: Whether an input has taken the batch size.
        self.batched = False
        #: Whether lists of whole numbers are shapes: where nothing else is a shape or a tensor.
        self._lists = False
        #: The first argument that may have been meant otherwise, and what would say so.
        self.doubt = ""

    def call(self, arguments: Sequence[tuple[str, object]], parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
        """The arguments of a call by name, for what a caller hands over in Python.

        Where the first of them that is a tensor or a shape is a tensor, all are what they are; else sequences of sizes
        are shapes, wherever they stand. What a parameter takes by its annotation or default comes before that.
        """
        takes, described, tensors, first = self.forms(arguments, parameters)
        arrays = self._lists or first in described or not any(_holds_tensors(v, (TorchTensor,)) for _, v in arguments)
        made = {}
        for name, value in arguments:
            expected = takes.get(name)
            shapes = first not in tensors if expected is None else expected
            if arrays and isinstance(value, numpy.ndarray):
                value = torch.from_numpy(value.copy())
            made[name] = self.one(name, value, shapes)
            sizes = type(value) in (tuple, list) and self.describes(value) if shapes else type(value) is tuple
            plain = expected is True or name in WHOLE or is_mask(name)
            if sizes and not plain and name != first and (shapes or is_shape(value)):
                self.doubt = self.doubt or _doubt(name, value, shapes)
        return made

    def forms(
        self, arguments: Sequence[tuple[str, object]], parameters: Sequence[inspect.Parameter]
    ) -> tuple[Mapping[str, bool | None], Container[str], Container[str], str]:
        """What each parameter says that it takes, the arguments that describe tensors, those that hold some, and the
        first of both, "" where there is none.
        """
        takes = {p.name: takes_tensor(p) for p in parameters}
        places = {p.name: place for place, p in enumerate(parameters)}
        order = sorted(arguments, key=lambda one: places.get(one[0], len(places)))

        def described() -> list[str]:
            return [name for name, value in order if takes.get(name) is not False and self.describes(value, name)]

        shapes, tensors = described(), [name for name, value in order if _holds_tensors(value)]
        self._lists = not (shapes or tensors)
        shapes = described() if self._lists else shapes
        return takes, shapes, tensors, next((name for name, _ in order if name in (*shapes, *tensors)), "")

    def describes(self, value: object, name: str = "") -> bool:
        """True if a value describes tensors: it is a tuple of sizes or a text with one, or holds some."""
        if isinstance(value, InputSpec):
            return True
        if isinstance(value, str):
            return value.startswith(f"{name}:") or self._is_description(value)
        if self._is_shape(value):
            return True
        parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        return any(self.describes(part) for part in parts if not isinstance(part, str))  # type: ignore[attr-defined]

    def one(self, name: str, value: object, shapes: bool = True) -> object:
        """The argument that a value stands for.

        Args:
            name: of the argument.
            value: what the caller gives for it.
            shapes: whether sequences of sizes and texts in it may describe tensors.
        """
        if isinstance(value, TorchTensor):
            return value
        if isinstance(value, Value):
            return value.value
        if isinstance(value, InputSpec):
            return self._from(value)
        if shapes and isinstance(value, numpy.ndarray):
            return torch.from_numpy(value.copy())
        if shapes and isinstance(value, str):
            return self._described(name, value)
        if shapes and self._is_shape(value):
            return self._tensor(name, tuple(value), None)
        if type(value) is dict:  # a mapping of another kind is an object of the program's own
            return {key: self.one(key, part, shapes) for key, part in value.items()}
        if type(value) in (list, tuple):  # and so is a tuple with names
            parts: Iterable[object] = value  # type: ignore[assignment]
            return type(value)([part if isinstance(part, str) else self.one(name, part, shapes) for part in parts])  # type: ignore[call-arg]
        return value

    def _is_shape(self, value: object) -> TypeGuard[Sequence[int | str]]:
        """True if a value is a shape where shapes may stand; a list of words is one if they are names of sizes."""
        if not is_shape(value):
            return False
        if all(isinstance(size, str) for size in value):
            named = all(self._dims.knows(str(size)) for size in value) or (self._open and self._lists)
            return type(value) is not list or named
        return type(value) is not list or self._lists or any(isinstance(size, str) for size in value)

    def _described(self, name: str, text: str) -> object:
        """What a text stands for: a value that it spells, a tensor that it describes, or itself."""
        if text.startswith(VALUE):
            return literal(name, text.removeprefix(VALUE))
        own = text.removeprefix(f"{name}:")
        return self._from(parse(f"{name}:{own}", [name])) if own != text or self._is_description(own) else text

    def _is_description(self, text: str) -> bool:
        head, colon, tail = text.partition(":")
        if colon:
            return is_dtype(head) or _SIZES.fullmatch(head) is not None or _SIZES.fullmatch(tail) is not None
        if text.startswith("@") or _SIZES.fullmatch(text):
            return True
        parts = re.split("[x,]", text)
        return any(map(self._dims.knows, parts)) or (self._open and any(map(str.isdecimal, parts)))

    def text(self, text: str, names: Sequence[str], position: int) -> tuple[str | None, object]:
        """The name that a text gives, None when it gives none, and the argument."""
        named = next((name for name in names if text.startswith(f"{name}:{VALUE}")), None)
        if named is not None:
            return named, literal(named, text.removeprefix(f"{named}:{VALUE}"))
        if text.startswith(VALUE):
            return None, literal(position_name(names, position), text.removeprefix(VALUE))
        if any(text.startswith(f"{name}:") for name in names):
            spec = parse(text, names)
            return spec.name, self._from(spec)
        head = text.partition(":")[0]
        if (
            head != text
            and head.isidentifier()
            and names
            and not (is_dtype(head) or ("x" in head and head.replace("x", "").isdigit()))
        ):
            raise InputError(
                f"no input is named as in {text!r}; the inputs are {', '.join(map(repr, names))}; write {FORM}"
            )
        spec = parse(text, [position_name(names, position)])
        return None, self._from(spec)

    def _from(self, spec: InputSpec) -> object:
        if spec.value is not None:
            dtype = _BY_NAME.get(spec.dtype or "")
            tensor = torch.as_tensor(numpy.asarray(spec.value))
            return tensor.to(dtype or (self._dtype if tensor.is_floating_point() else tensor.dtype))
        return self._tensor(spec.name, spec.shape, spec.dtype)

    def _tensor(self, name: str, shape: Sequence[int | str], dtype: str | None) -> TorchTensor:
        sizes = [self._size(d, name) for d in shape]
        if self._batch is not None and sizes:
            sizes[0], self.batched = self._batch, True
        if any(size < 0 for size in sizes):
            raise InputError(f"input {name!r}: {'x'.join(map(str, sizes))} has a negative size")
        if dtype is not None and dtype not in _BY_NAME:
            raise InputError(f"input {name!r}: PyTorch has no element type {dtype}")
        kind = _BY_NAME[dtype] if dtype else torch.int64 if name in WHOLE else self._dtype
        if math.prod(sizes) * kind.itemsize >= 1 << 63:
            raise InputError(f"input {name!r}: {'x'.join(map(str, sizes))} has more bytes than PyTorch can count")
        with torch.device("meta"):
            tensor = torch.empty(sizes, dtype=kind)
        self.made.add(id(tensor))
        return tensor

    def _size(self, dim: int | str, name: str) -> int:
        if not isinstance(dim, str):
            return int(dim)
        size = self._dims.find(dim)
        if size is None:
            raise InputError(
                f"input {name!r}: {dim!r} has no value; give --dim {dim}=NUMBER, or where it is no size "
                f"{name}:value:{dim!r} (in Python flopwise.Value({dim!r}))"
            )
        return size


def _holds_tensors(value: object, kinds: tuple[type, ...] = (TorchTensor, numpy.ndarray)) -> bool:
    """True for a tensor or array, and for what holds a tensor."""
    return isinstance(value, kinds) or (
        not isinstance(value, (Value, InputSpec)) and any(True for _ in tensors_inside(value))
    )


def _doubt(name: str, value: object, shapes: bool) -> str:
    """How to say that an argument was meant otherwise than it was taken."""
    text = repr(value) if len(repr(value)) < 60 else "..."
    if shapes:
        return f"{name!r} was read as the shape of a tensor; flopwise.Value({text}) hands it over as it is"
    return f"{name!r} was handed over as it is, beside a tensor; torch.empty({text}, device='meta') makes it one"


def literal(name: str, text: str) -> object:
    """The value that a text spells as Python does; nothing is evaluated.

    Raises:
        InputError: it is no number, text, list, tuple, dict, set, True, False or None.
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise InputError(
            f"input {name!r}: {text[:100]!r} is no value; write it as in Python, for example {name}:value:[(1, 8, 8)]"
        ) from None


#: The way to run in which the truth of what was made up is the other one, and how often: a loop has to end.
DENIED, DENIALS = 3, 100


def filled(tensor: TorchTensor, name: str, way: int = 0) -> TorchTensor:
    """Elements for an input of which only the shape is known: ones for masks, zeros for whole numbers, else chance.

    Args:
        tensor: of that shape.
        name: of the input.
        way: 0; else other whole numbers, by which it shows whether they matter: 1 for different ones, 2 for ones. In
            that of ``DENIED`` they are the same, and what is asked of them gets the other answer.
    """
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        chance = torch.Generator().manual_seed(0)
        return torch.rand(tensor.shape, dtype=torch.float32, generator=chance).to(tensor.dtype)
    if way == 1 and not is_mask(name):
        return torch.arange(1, tensor.numel() + 1).reshape(tensor.shape).to(tensor.dtype)
    hiding = name.endswith("key_padding_mask")  # of torch.nn's attention: what it marks is left out
    return torch.full(tensor.shape, int(not hiding if is_mask(name) else way == 2), dtype=tensor.dtype)
