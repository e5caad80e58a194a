"""The tensors of a checkpoint by URL: of its archive the directory and the pickle are read, and elements on demand.

PyTorch itself unpickles, with ``weights_only=True`` and on the meta device, from an archive in memory with the same
pickle and with empty storages. By the place of a storage in that archive its name is known, and so where its elements
lie.
"""

from __future__ import annotations

import functools
import io
import pickle
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

from flopwise.errors import ModelError
from flopwise.graph.stored import Elements
from flopwise.readers.source.location import explained, in_words
from flopwise.readers.weights.encoding import EncodedElements, encoding, strided
from flopwise.readers.weights.memory import ArrayElements
from flopwise.readers.weights.modules import Finder
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.zip import Archive

if TYPE_CHECKING:
    import torch


def load(storage: SourceStorage, name: str) -> tuple[Any, Finder]:
    """The content of a checkpoint, with tensors on the meta device, and a finder of their elements.

    Raises:
        ModelError: it is not an archive, holds a program, or its directory or pickle are too long or damaged.
        Exception: whatever PyTorch says about the pickle.
    """
    archive = _open_archive(storage, name)
    prefix = next(iter(archive.members), "").partition("/")[0]
    if f"{prefix}/data.pkl" not in archive.members:
        raise ModelError(f"{name}: not a PyTorch checkpoint: its archive has no data.pkl")
    text = archive.content(f"{prefix}/data.pkl")
    order = ">" if _word(archive, f"{prefix}/byteorder") == b"big" else "<"
    storages = [member for member in archive.members if member.startswith(f"{prefix}/data/")]
    hollow, places = _hollow(prefix, text, _word(archive, f"{prefix}/version") or b"3", storages)

    def find(tensor: torch.Tensor, dtype: str, count: int) -> Elements:
        storage = tensor.untyped_storage()
        place = getattr(storage, "_checkpoint_offset", None)
        if place not in places:
            raise ModelError(f"{name}: the elements of a tensor are not found by this version of PyTorch; download it")
        return _elements(archive, places[place], tensor, dtype, order)

    return _unpickled(hollow), find


def _open_archive(storage: SourceStorage, name: str) -> Archive:
    if bytes(storage.read(0, min(4, storage.size))) != b"PK\x03\x04":
        raise ModelError(
            f"{name}: not an archive, so not a checkpoint of PyTorch 1.6 or later; an older one can only be read "
            "from a local file: download it first"
        )
    with explained(lambda error: f"{name}: not a PyTorch checkpoint, or truncated or damaged ({in_words(error, 150)})"):
        archive = Archive(storage)
    from flopwise.readers.weights.torch_files import holds_program

    if holds_program(archive.members):
        raise ModelError(
            f"{name}: an exported program or a TorchScript file is read from a local file; download it first"
        )
    return archive


def _word(archive: Archive, name: str) -> bytes:
    return archive.content(name).strip() if name in archive.members else b""


def _hollow(prefix: str, text: bytes, version: bytes, storages: list[str]) -> tuple[io.BytesIO, dict[int, str]]:
    """An archive with the same pickle and empty storages, and which storage lies where in it."""
    archive = io.BytesIO()
    places = {}
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr(f"{prefix}/data.pkl", text)
        written.writestr(f"{prefix}/version", version)
        for storage in storages:
            written.writestr(storage, b"")
            places[archive.tell()] = storage
    archive.seek(0)
    return archive, places


def _unpickled(hollow: io.BytesIO) -> object:
    import torch

    def read() -> Any:
        hollow.seek(0)
        return torch.load(hollow, map_location="meta", weights_only=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read()
        except pickle.UnpicklingError:
            raise
        except Exception as error:
            if "Quantized" in str(error):
                raise ModelError(
                    "its quantised tensors can only be read from a local file; download it first"
                ) from None
            from torch._subclasses.fake_tensor import FakeTensorMode

            # PyTorch before 2.11 reads the elements on meta too (pytorch/pytorch#170619); fake tensors never had any
            with FakeTensorMode():
                return read()


def _elements(archive: Archive, member: str, tensor: Any, dtype: str, order: str) -> Elements:
    """The elements of a tensor in a storage.

    Raises:
        ModelError: the storage is shorter than the tensor or the pickle says.
    """
    stored = encoding(dtype, order)
    assert stored is not None
    width = tensor.element_size()
    shape, strides = tuple(tensor.shape), tensor.stride()
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) if tensor.numel() else -1
    start, end = tensor.storage_offset() * width, (tensor.storage_offset() + last + 1) * width
    if tensor.untyped_storage().nbytes() > archive.members[member].file_size:
        raise ModelError(
            f"storage {member!r} should have {tensor.untyped_storage().nbytes():,} bytes, "
            f"but has {archive.members[member].file_size:,}"
        )
    elements = EncodedElements(archive.span(member, start, end), stored, (last + 1) * stored.elements)
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return elements
    marks = (tensor.is_conj(), tensor.is_neg())
    return ArrayElements(functools.partial(strided, elements, shape, strides, stored.elements, marks))
