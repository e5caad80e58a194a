"""Programs in files, as data: the archive of an exported program, and the stored tensors of it and of TorchScript.

Nothing that a file names is run or imported.

Source: torch/export/pt2_archive/constants.py and torch/_export/serde/schema.py.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import math
import pickle
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise._limits import within_limit
from flopwise.errors import ModelError
from flopwise.formats.inputs import dtype_of
from flopwise.formats.sources.location import explained, in_words
from flopwise.formats.sources.source import FileSource
from flopwise.formats.sources.text import JsonObject
from flopwise.formats.torch.kinds import Kwargs
from flopwise.formats.weights.modules import stored_tensor
from flopwise.formats.weights.storage import Archive, Runs, SourceStorage, refuse_compressed
from flopwise.formats.weights.tensor import (
    ArrayElements,
    EncodedElements,
    StoredTensors,
    encoding,
    in_slots,
    length,
    parted,
    role_of,
    strided,
)
from flopwise.formats.weights.torch_files import RECORDED, is_exported, is_record, members
from flopwise.graph import Kind, StoredTensor
from flopwise.graph.stored import Elements

if TYPE_CHECKING:
    import torch

#: ScalarType of the schema -> PyTorch's name of the element type.
_TYPES = """
    1 uint8 2 int8 3 int16 4 int32 5 int64 6 float16 7 float32 8 float64 9 complex32 10 complex64 11 complex128 12 bool
    13 bfloat16 28 uint16 29 float8_e4m3fn 30 float8_e5m2 31 float8_e4m3fnuz 32 float8_e5m2fnuz 33 float8_e8m0fnu
    34 uint32 35 uint64
"""
DTYPES = {int(number): name for number, name in zip(*[iter(_TYPES.split())] * 2, strict=True)}

#: What an ETRecord of ExecuTorch's calls the members that PyTorch wrote before it had archives.
_RECORD: dict[str, str] = {
    "serialized_exported_program.json": RECORDED,
    "serialized_state_dict.pt": f"{RECORDED}_state_dict",
    "serialized_constants.pt": f"{RECORDED}_constants",
    "serialized_example_inputs.pt": f"{RECORDED}_example_inputs",
}

#: Layout of the schema for tensors whose elements lie at strides.
STRIDED = 7


class Place(NamedTuple):
    """Where a tensor of an archive is."""

    #: The member with its elements, the place of the first of them in the file, and its bytes.
    member: str
    start: int
    nbytes: int
    #: PyTorch's name of the element type.
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    #: Elements before the first.
    offset: int


class Content:
    """An archive of an exported program."""

    def __init__(self, path: str) -> None:
        """
        Raises:
            ModelError: it is damaged, or written in another way.
        """
        self.path, self.storage = path, SourceStorage.from_source(FileSource(path))
        with damaged(path):
            self._archive = Archive(self.storage)
            names = self._archive.members
            self._names = _RECORD if is_record(names) else {}
            ends = ("models/model.json", "serialized_exported_program.json")
            stated = (n.removesuffix(end) for end in ends for n in names if n.endswith(end))
            self._prefix = "" if self._names else next(stated)
            self._new = f"{self._prefix}models/model.json" in names
            if self._text("byteorder", b"little").strip() != b"little":
                raise ModelError(f"{path}: is big-endian; load and save it again")

    def close(self) -> None:
        """Close the file."""
        self.storage.close()

    def program(self) -> Kwargs:
        """The graph, its signature and its modules, as the schema has them."""
        name = "models/model.json" if self._new else "serialized_exported_program.json"
        with damaged(self.path):
            return dict(json.loads(self._text(name)))

    def tensors(self) -> tuple[dict[str, Place], dict[str, torch.Tensor], dict[str, Kind]]:
        """Tensors in members of their own, those that are pickled (loaded), and what each is for."""
        places: dict[str, Place] = {}
        loaded: dict[str, torch.Tensor] = {}
        kinds: dict[str, Kind] = {}
        with damaged(self.path):
            if not self._new:
                for member in ("serialized_state_dict.pt", "serialized_constants.pt"):
                    for name, tensor in self.unpickled(member, {}).items():
                        if hasattr(tensor, "untyped_storage"):
                            loaded[name] = tensor
                            weight = getattr(tensor, "requires_grad", False)
                            kinds[name] = "constant" if "constants" in member else "weight" if weight else "buffer"
                return places, loaded, kinds
            for folder, kind in (("weights", "weights"), ("constants", "constants")):
                text = self._text(f"data/{folder}/model_{kind}_config.json", b'{"config": {}}')
                for name, entry in json.loads(text)["config"].items():
                    kinds[name] = "weight" if entry["is_param"] else "buffer" if kind == "weights" else "constant"
                    member = f"data/{folder}/{entry['path_name']}"
                    if entry["tensor_meta"] is None:
                        continue  # an object, which no operator that is known takes
                    if entry["use_pickle"]:
                        loaded[name] = self.unpickled(member)
                    else:
                        places[name] = self._place(member, entry["tensor_meta"])
        return places, loaded, kinds

    def example(self) -> object:
        """The inputs that the program was exported with; None where the archive has none."""
        member = "data/sample_inputs/model.pt" if self._new else "serialized_example_inputs.pt"
        with damaged(self.path):
            return self.unpickled(member, None)

    def unpickled(self, member: str, default: object = ...) -> Any:
        """The content of a member, by PyTorch's loader of tensors and plain containers; the default if it is empty."""
        import torch

        data = self._text(member, b"" if default is not ... else None)
        if not data:
            return default
        if zipfile.is_zipfile(io.BytesIO(data)):
            refuse_compressed(io.BytesIO(data), f"{self.path}: {member}")
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)

    def _text(self, member: str, default: bytes | None = None) -> bytes:
        name = self._prefix + self._names.get(member, member)
        return self._archive.content(name) if default is None or name in self._archive.members else default

    def _place(self, member: str, meta: JsonObject) -> Place:
        info = self._archive.members[name := self._prefix + member]
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or meta["layout"] != STRIDED:
            raise ModelError(f"{self.path}: {member} is compressed, encrypted or sparse; load and save it again")
        start, dtype = self._archive.place(name), DTYPES[meta["dtype"]]
        shape, strides = (tuple(_size(size) for size in meta[key]) for key in ("sizes", "strides"))
        if len(shape) != len(strides) or len(shape) > 64:
            raise ModelError(f"{self.path}: {member} does not match its archive")
        return Place(member, start, info.file_size, dtype, shape, strides, _size(meta["storage_offset"]))


def _size(size: JsonObject) -> int:
    value = size["as_int"]
    if not fits(value):
        raise ValueError(f"{str(value)[:50]!r} is not a size")
    return int(value)


def last_element(place: Place) -> int:
    """The number of elements from the storage's first to the tensor's last."""
    if not math.prod(place.shape):
        return place.offset
    return place.offset + 1 + sum((d - 1) * s for d, s in zip(place.shape, place.strides, strict=True))


def damaged(path: str) -> contextlib.AbstractContextManager[None]:
    """Any error while an archive is taken apart becomes a ModelError of one line."""
    return explained(
        lambda error: (
            f"{path}: damaged, or not an archive of this kind ({type(error).__name__}: {in_words(error, 150)})"
        )
    )


def of_exported(path: str) -> StoredTensors:
    """The stored tensors of an exported program.

    Raises:
        ModelError: it is damaged.
    """
    content = Content(path)
    tensors: list[StoredTensor] = []
    strange: list[str] = []
    places, loaded, kinds = content.tensors()
    for name, place in places.items():
        tensors.append(at_place(name, place, _role(name, place.dtype, kinds[name]), content.storage))
    for name, tensor in loaded.items():
        one = stored_tensor(name, tensor, _role(name, str(tensor.dtype), kinds[name]))
        if one is None:
            strange.append(name)
        else:
            tensors.append(one)
    notes = tuple(f"tensor {name!r} is sparse, nested or of a type that holds no numbers; left out" for name in strange)
    return replace(StoredTensors.from_file(content.storage, "torch", in_slots(tensors), notes[:1]), model=path)


def _role(name: str, dtype: str, kind: str) -> str:
    """A single number that counts steps is a constant among the buffers."""
    return "constant" if kind == "buffer" and role_of(name, dtype.removeprefix("torch.")) == "constant" else kind


def at_place(name: str, place: Place, role: str, storage: SourceStorage, op: str = "") -> StoredTensor:
    """A tensor whose elements are in a member that is not compressed.

    Raises:
        ModelError: the member is shorter than the tensor says, or its type holds no numbers.
    """
    dtype = dtype_of(place.dtype)
    stored = encoding(dtype)
    if stored is None:
        raise ModelError(f"{storage.name}: tensor {name!r} has the type {place.dtype}, which holds no numbers")
    count, last = math.prod(place.shape), last_element(place)
    if last * stored.nbytes > place.nbytes or place.start + place.nbytes > storage.size:
        raise ModelError(f"{storage.name}: tensor {name!r} of shape {place.shape} is longer than what is stored")
    first = place.start + place.offset * stored.nbytes
    held = EncodedElements(Runs(storage, ((first, place.start + last * stored.nbytes),)), stored, last - place.offset)
    elements: Elements = held
    rows = [math.prod(place.shape[i + 1 :]) for i in range(len(place.shape))]
    if count > 1 and any(d > 1 and s != row for d, s, row in zip(place.shape, place.strides, rows, strict=True)):
        elements = ArrayElements(functools.partial(strided, held, place.shape, place.strides))
    return StoredTensor(name, place.shape, dtype, length(count, dtype), parted(name)[0], op, role, elements=elements)


def fits(value: object) -> bool:
    """True if a value from a file can be a size, a stride or a place: a whole number from 0 to 2^63 - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


# The stored tensors of a file with a program; of TorchScript the pickle is read with stand-ins for what it names.

#: Storage classes of PyTorch -> names of element types.
_STORAGES = {
    f"{name}Storage": dtype
    for name, dtype in {
        "Double": "float64",
        "Float": "float32",
        "Half": "float16",
        "BFloat16": "bfloat16",
        "Bool": "bool",
        "Long": "int64",
        "Int": "int32",
        "Short": "int16",
        "Char": "int8",
        "Byte": "uint8",
        "ComplexFloat": "complex64",
        "ComplexDouble": "complex128",
        "QInt8": "int8",
        "QUInt8": "uint8",
        "QInt32": "int32",
    }.items()
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
