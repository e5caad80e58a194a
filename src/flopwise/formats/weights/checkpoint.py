"""The tensors of PyTorch's checkpoints as stored tensors, of one by URL too: of its archive the directory and the
pickle are read, and elements on demand.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import itertools
import pickle
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise._limits import within_limit
from flopwise.errors import ModelError, message
from flopwise.formats.sources.location import explained, in_words, shown
from flopwise.formats.sources.source import FileSource, Source
from flopwise.formats.weights.modules import Finder, TorchElements, stored_by_name
from flopwise.formats.weights.storage import Archive, SourceStorage, refuse_compressed
from flopwise.formats.weights.tensor import ArrayElements, EncodedElements, StoredTensors, encoding, strided
from flopwise.graph.stored import Elements

if TYPE_CHECKING:
    import torch


# The tensors of a checkpoint by URL: of its archive the directory and the pickle are read, and elements on demand.
#
# PyTorch itself unpickles, with ``weights_only=True`` and on the meta device, from an archive in memory with the
# same pickle and with empty storages. By the place of a storage in that archive its name is known, and so where its
# elements lie.


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
    from flopwise.formats.weights.torch_files import holds_program

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


# The tensors of PyTorch's checkpoints as stored tensors.
#
# A checkpoint is loaded with ``weights_only=True``: tensors and plain containers, and no code that a pickle names.

#: Where checkpoints of training keep the weights.
_WEIGHTS = ("state_dict", "model_state_dict", "model", "module", "net")

#: How deep containers in a checkpoint may nest.
DEEPEST = 32


def open_checkpoint(source: Source) -> StoredTensors:
    """The tensors of a checkpoint, or, from a local file, of an exported program or a TorchScript file.

    Raises:
        ModelError: it is damaged, needs more than tensors and plain containers, or PyTorch is missing.
    """
    name = shown(source.name)
    if importlib.util.find_spec("torch") is None:
        raise ModelError(f"{name}: PyTorch is needed for that: pip install torch")
    if isinstance(source, FileSource):
        source.close()
        return _open_file(source.name)

    storage = SourceStorage.from_source(source)
    with explained(lambda error: f"{name}: {_reason(error)}"):
        loaded, find = load(storage, name)
    stored = _without_duplicates(name, _tensors_by_path(loaded, name), find)
    return replace(stored, notes=(*stored.notes, source.network_summary()), storages=(storage,))


def _open_file(path: str) -> StoredTensors:
    import torch

    from flopwise.formats.torch.stored import of_program
    from flopwise.formats.weights.torch_files import holds_program, members

    names = members(path)
    if holds_program(names):
        return of_program(path)
    zipped = bool(names)
    with open(path, "rb") as file:
        if file.read(1) not in (b"\x80", b"P", b""):
            raise ModelError(f"{path}: not a PyTorch checkpoint, or damaged (neither a ZIP archive nor a pickle)")
    with explained(lambda error: f"{path}: {_reason(error)}"), warnings.catch_warnings():
        if zipped:
            refuse_compressed(path, path)
        warnings.simplefilter("ignore")  # about what a pickle looks like; what matters is an error
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    return _without_duplicates(path, _tensors_by_path(content, path))


def _tensors_by_path(loaded: object, name: str) -> dict[str, torch.Tensor]:
    """The tensors in a loaded checkpoint by their dotted path.

    Args:
        loaded: what ``torch.load`` gave.
        name: the file, for errors.

    Raises:
        ModelError: there are none, or their views of the same storages have more elements than the limit.
    """
    import torch

    tensors = dict(_walk(loaded, torch.Tensor))
    if not tensors:
        raise ModelError(f"{name}: holds no tensors")
    views = {_view_key(tensor): tensor for tensor in tensors.values() if _is_strided(tensor)}
    totals: dict[int, int] = {}
    stored: dict[int, int] = {}
    for view, tensor in views.items():
        if not view[0]:  # nothing says which of them share a storage
            continue
        totals[view[0]] = totals.get(view[0], 0) + tensor.numel()
        stored[view[0]] = tensor.untyped_storage().nbytes() // tensor.element_size()
    repeated = sum(total for place, total in totals.items() if total > _MOST_VIEWS * stored[place])
    within_limit("repeated_elements", repeated, f"{name}: has tensors that repeat the same elements to", "elements")
    return tensors


#: Views of one storage with up to this many times its elements are taken without a limit.
_MOST_VIEWS = 16


def _view_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """A key that tensors of the same elements share; its first part is the address of their storage, 0 if unknown."""
    storage = tensor.untyped_storage()
    place = getattr(storage, "_checkpoint_offset", None) or storage.data_ptr()
    return place, tensor.storage_offset(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _is_strided(tensor: torch.Tensor) -> bool:
    """True if a tensor is an ordinary strided one: neither sparse nor nested."""
    import torch

    return tensor.layout is torch.strided and not tensor.is_nested


def _without_duplicates(title: str, tensors: Mapping[str, torch.Tensor], find: Finder = TorchElements) -> StoredTensors:
    """Stored tensors of a checkpoint, tied ones (the same elements under several names) once, with a note.

    Args:
        title: the file, for notes and errors.
        tensors: by their dotted path.
        find: gives the elements of a tensor when they are asked for.
    """
    distinct: dict[str, torch.Tensor] = {}
    names: dict[object, str] = {}
    again: list[tuple[str, str]] = []
    for name, tensor in tensors.items():
        if not _is_strided(tensor) or not tensor.numel():
            distinct[name] = tensor
            continue
        view = _view_key(tensor)
        first = names.setdefault(view, name) if view[0] else name
        if first == name:
            distinct[name] = tensor
        else:
            again.append((name, first))
    stored = stored_by_name(title, distinct, find=find)
    if not again:
        return stored
    (name, first), more = again[0], len(again) - 1
    others = f" and {more} more are" if more else " is"
    note = f"tensor {name!r}{others} stored under another name too ({first!r}); counted once"
    return replace(stored, notes=(*stored.notes, note), others=frozenset(name for name, _ in again))


def _reason(error: Exception) -> str:
    """PyTorch's error without its advice to load the pickle all the same."""
    text = message(error)
    if "Unsupported global" in text or "WeightsUnpickler" in text or "weights_only" in text.lower():
        what = text.partition("GLOBAL ")[2].split(" ")[0] or text.partition("WeightsUnpickler error: ")[2][:80]
        named = f" ({what})" if what else ""
        return f"its pickle holds more than tensors{named}, and is not loaded; save its state_dict() instead"
    if "zip archive" in text:
        text = text.partition(": ")[2].partition(". ")[0] or text  # what follows is advice for PyTorch's developers
    return f"not a PyTorch checkpoint, or truncated or damaged ({text[:150]})"


def _walk(
    value: object, kind: type[object], prefix: str = "", depth: int = 0, counter: Iterator[int] | None = None
) -> Iterator[tuple[str, Any]]:
    """Dotted path and tensor of each tensor in nested containers; of a training checkpoint only the model's weights.

    Args:
        value: a tensor, mapping, list or tuple; anything else holds none.
        kind: ``torch.Tensor``.
        prefix: path of ``value``.
        depth: containers around it.
        counter: counts the values met so far, for the limit.
    """
    counter = counter or itertools.count()
    if depth > DEEPEST:
        raise ModelError(f"its containers nest deeper than {DEEPEST}")
    within_limit("checkpoint_values", next(counter), "its containers hold", "values")
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, kind):
        yield prefix or "tensor", value
    elif isinstance(value, Mapping):
        inner = next((value[k] for k in _WEIGHTS if isinstance(value.get(k), Mapping)), None) if depth == 0 else None
        if inner is not None and not any(isinstance(v, kind) for v in value.values()):
            yield from _walk(inner, kind, "", depth + 1, counter)
            return
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, item in items:
        yield from _walk(item, kind, f"{prefix}.{key}" if prefix else str(key), depth + 1, counter)
