"""The tensors of PyTorch's checkpoints as stored tensors.

A checkpoint is loaded with ``weights_only=True``: tensors and plain containers, and no code that a pickle names.
"""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise._limits import within_limit
from flopwise.errors import ModelError, message
from flopwise.readers.source.location import explained, shown
from flopwise.readers.source.source import FileSource, Source
from flopwise.readers.weights.modules import Finder, TorchElements, stored_by_name
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import StoredTensors
from flopwise.readers.weights.zip import refuse_compressed

if TYPE_CHECKING:
    import torch

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
    from flopwise.readers.weights.remote_checkpoint import load

    storage = SourceStorage.from_source(source)
    with explained(lambda error: f"{name}: {_reason(error)}"):
        loaded, find = load(storage, name)
    stored = _without_duplicates(name, _tensors_by_path(loaded, name), find)
    return replace(stored, notes=(*stored.notes, source.network_summary()), storages=(storage,))


def _open_file(path: str) -> StoredTensors:
    import torch

    from flopwise.formats.torch.stored import of_program
    from flopwise.readers.weights.torch_files import holds_program, members

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
