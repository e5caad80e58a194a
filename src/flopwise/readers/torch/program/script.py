"""The stored tensors of a file with a program; of TorchScript the pickle is read with stand-ins for what it names.

Nothing that the pickle names is imported: its classes become plain objects that hold attributes, and the functions that
make tensors become notes of where these lie. What else it names ends the reading. The code beside it is looked at as
text, for the names of parameters and buffers.

Source: torch/csrc/jit/docs/serialization.md.
"""

from __future__ import annotations

import io
import itertools
import pickle
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from flopwise._limits import within_limit
from flopwise.errors import ModelError
from flopwise.graph import StoredTensor
from flopwise.readers.source.source import FileSource
from flopwise.readers.torch.program.content import Place, at_place, damaged, fits, of_exported
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import StoredTensors, in_slots, role_of
from flopwise.readers.weights.torch_files import is_exported, members
from flopwise.readers.weights.zip import Archive

#: Storage classes of PyTorch -> names of element types.
_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "QInt32Storage": "int32",
}

#: How deep modules may nest.
DEEPEST = 64

_CLASS = re.compile(
    r"^class (\w+)\(Module\):\n  __parameters__ = \[([^\]\n]*)\]\n  __buffers__ = \[([^\]\n]*)\]", re.MULTILINE
)


class _Object:
    """An object of a class that a pickle names; it holds what the pickle gives it."""

    kind = ""
    state: Any = None

    def __new__(cls, *arguments: object) -> _Object:
        return object.__new__(cls)

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Tensor:
    """In place of the functions that make tensors: where one is stored. A pickle cannot change anything about it."""

    __slots__ = ()

    def __call__(
        self, storage: tuple[str, str], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
    ) -> Place:
        member, dtype = storage
        if len(shape) != len(strides) or len(shape) > 64 or not all(map(fits, (offset, *shape, *strides))):
            raise ModelError("a tensor has an impossible shape")
        return Place(member, 0, 0, dtype, tuple(shape), tuple(strides), offset)

    def __setstate__(self, state: object) -> None:
        raise ModelError("its pickle modifies objects that it did not create")


def of_program(path: str) -> StoredTensors:
    """The stored tensors of an exported program or a TorchScript file.

    Raises:
        ModelError: it is damaged.
    """
    return of_exported(path) if is_exported(members(path)) else of_script(path)


def of_script(path: str) -> StoredTensors:
    """The stored tensors of a TorchScript file.

    Raises:
        ModelError: it is damaged, or its pickle names what is neither a module nor a tensor.
    """
    storage = SourceStorage.from_source(FileSource(path))
    with damaged(path):
        archive = Archive(storage)
        prefix = next(name.removesuffix("constants.pkl") for name in archive.members if name.endswith("/constants.pkl"))
        root = _Reader(archive, prefix).load()
        classes = _classes(archive, prefix)
        tensors: list[StoredTensor] = []
        seen: dict[object, str] = {}
        notes: list[str] = []
        for name, owner, attribute, place in _places(root, "", 0, itertools.count()):
            if seen.setdefault(place, name) != name:
                notes = notes or [f"tensor {name!r} is stored under another name too ({seen[place]!r}); counted once"]
                continue
            parameters, buffers = classes.get(owner, ((), ()))
            role = "weight" if attribute in parameters else role_of(name, place.dtype)
            if role == "weight" and attribute in buffers and attribute not in parameters:
                role = "buffer"
            start = archive.place(place.member)
            at = place._replace(start=start, nbytes=archive.members[place.member].file_size)
            tensors.append(at_place(name, at, role, storage, owner.rpartition(".")[2]))
    return replace(StoredTensors.from_file(storage, "torch", in_slots(tensors), tuple(notes)), model=path)


def _places(value: Any, path: str, depth: int, seen: Iterator[int]) -> Iterator[tuple[str, str, str, Place]]:
    """The tensors of a module and those in it: name, class of the owner, attribute, place."""
    within_limit("checkpoint_values", next(seen), "its modules hold", "values")
    if depth > DEEPEST:
        raise ModelError(f"its modules nest deeper than {DEEPEST}")
    state = value.state if isinstance(value, _Object) and value.kind.startswith("__torch__") else None
    if not isinstance(state, dict):
        return
    for key, item in state.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(item, Place):
            yield name, value.kind, str(key), item
        else:
            yield from _places(item, name, depth + 1, seen)


def _classes(archive: Archive, prefix: str) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """The parameters and the buffers of the classes in an archive's code, by qualified name."""
    classes: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
    for member in archive.members:
        if member.startswith(f"{prefix}code/") and member.endswith(".py"):
            module = member[len(prefix) + 5 : -3].replace("/", ".")
            for match in _CLASS.finditer(archive.content(member).decode()):
                parameters, buffers = (re.findall(r'"([^"]*)"', match[i]) for i in (2, 3))
                classes[f"{module}.{match[1]}"] = parameters, buffers
    return classes


class _Reader(pickle.Unpickler):
    """Reads the pickle of modules; every name in it stands for something of this file."""

    def __init__(self, archive: Archive, prefix: str) -> None:
        super().__init__(io.BytesIO(archive.content(f"{prefix}data.pkl")), encoding="utf-8")
        self._archive = archive
        self._prefix = prefix
        self._kinds: dict[str, type[_Object]] = {}

    def find_class(self, module: str, name: str) -> object:
        qualified = f"{module}.{name}"
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_qtensor"):
            return _Tensor()
        if module == "torch" and name in _STORAGES:
            return name
        if qualified in ("collections.OrderedDict", "builtins.dict"):
            return dict
        if module.startswith(("__torch__", "torch.jit._pickle")) or qualified == "torch.device":
            return self._kinds.setdefault(qualified, type("_Named", (_Object,), {"kind": qualified}))
        raise ModelError(f"its pickle names {qualified[:100]!r}, which is neither a module nor a tensor")

    def persistent_load(self, pid: Any) -> object:
        _, kind, key, _, _ = pid
        member = f"{self._prefix}data/{key}"
        if kind not in _STORAGES or member not in self._archive.members:
            raise ModelError(f"its archive has no storage {str(key)[:100]!r}")
        return member, _STORAGES[kind]
