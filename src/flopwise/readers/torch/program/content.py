"""The content of an exported program's archive: tensors, graph, example inputs; as PyTorch 2.5 and later write it.

Its stored tensors are had without running or importing anything that it names.

Source: torch/export/pt2_archive/constants.py and torch/_export/serde/schema.py.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.graph import Kind, StoredTensor
from flopwise.graph.stored import Elements
from flopwise.readers.inputs import dtype_of
from flopwise.readers.source.location import explained, in_words
from flopwise.readers.source.source import FileSource
from flopwise.readers.source.text import JsonObject
from flopwise.readers.torch.kinds import Kwargs
from flopwise.readers.weights.encoding import EncodedElements, encoding, length, strided
from flopwise.readers.weights.memory import ArrayElements
from flopwise.readers.weights.modules import stored_tensor
from flopwise.readers.weights.storage import Runs, SourceStorage
from flopwise.readers.weights.tensor import StoredTensors, in_slots, parted, role_of
from flopwise.readers.weights.torch_files import RECORDED, is_record
from flopwise.readers.weights.zip import refuse_compressed, within_bounds

if TYPE_CHECKING:
    import torch

#: ScalarType of the schema -> PyTorch's name of the element type.
DTYPES: dict[int, str] = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu",
    34: "uint32",
    35: "uint64",
}

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
        self.path = path
        with damaged(path):
            self._archive = zipfile.ZipFile(path)
            names = self._archive.namelist()
            self._members = _RECORD if is_record(names) else {}
            self._prefix = (
                ""
                if self._members
                else next(
                    n.removesuffix(end)
                    for end in ("models/model.json", "serialized_exported_program.json")
                    for n in names
                    if n.endswith(end)
                )
            )
            self._new = f"{self._prefix}models/model.json" in names
            if self._text("byteorder", b"little").strip() != b"little":
                raise ModelError(f"{path}: is big-endian; load and save it again")

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

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
        name = self._prefix + self._members.get(member, member)
        if default is not None and name not in self._archive.NameToInfo:
            return default
        info = self._archive.getinfo(name)
        within_bounds(info, self.path)
        return self._archive.read(info)

    def _place(self, member: str, meta: JsonObject) -> Place:
        info = self._archive.getinfo(self._prefix + member)
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or meta["layout"] != STRIDED:
            raise ModelError(f"{self.path}: {member} is compressed, encrypted or sparse; load and save it again")
        with open(self.path, "rb") as file:
            file.seek(info.header_offset)
            head = file.read(30)
        start = info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        shape, strides = (tuple(_size(size) for size in meta[key]) for key in ("sizes", "strides"))
        place = Place(
            member, start, info.file_size, DTYPES[meta["dtype"]], shape, strides, _size(meta["storage_offset"])
        )
        if head[:4] != b"PK\x03\x04" or len(shape) != len(strides) or len(shape) > 64:
            raise ModelError(f"{self.path}: {member} does not match its archive")
        return place


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
    storage = SourceStorage.from_source(FileSource(path))
    tensors: list[StoredTensor] = []
    notes: tuple[str, ...] = ()
    with contextlib.closing(Content(path)) as content:
        places, loaded, kinds = content.tensors()
        for name, place in places.items():
            tensors.append(at_place(name, place, _role(name, place.dtype, kinds[name]), storage))
        strange = []
        for name, tensor in loaded.items():
            one = stored_tensor(name, tensor, _role(name, str(tensor.dtype), kinds[name]))
            if one is None:
                strange.append(name)
            else:
                tensors.append(one)
        if strange:
            notes = (f"tensor {strange[0]!r} is sparse, nested or of a type that holds no numbers; left out",)
    return replace(StoredTensors.from_file(storage, "torch", in_slots(tensors), notes), model=path)


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
