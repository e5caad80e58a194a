"""The stored tensors of a model, from any kind of file: what they are, and their elements in a stream.

Nothing is read before somebody asks for elements. Then they come in blocks that fit into a cache; the elements of a
local file that is not compressed are views of one mapping.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy

from flopwise.errors import FlopwiseError, ModelError
from flopwise.graph import Graph
from flopwise.readers import formats
from flopwise.readers.weights.encoding import coding, length
from flopwise.readers.weights.storage import Coded, Elements, Loaded, Runs, Store

#: Elements of a block.
BLOCK = 1 << 18

#: What a note says that tells how much came over the network.
NETWORK = " over the network in "


@dataclass(frozen=True)
class Payload:
    """One stored tensor, and where its elements lie."""

    #: As in the file.
    name: str
    shape: tuple[int, ...]
    #: A name of :mod:`flopwise.graph.dtypes`, or the block type of a GGUF file ("q4_K").
    dtype: str
    #: Stored bytes.
    nbytes: int
    #: The operator or module it belongs to: in a graph the first operator that uses it, through operators on stored
    #: tensors alone; else the name without its last part. "" where nobody knows.
    layer: str = ""
    #: The operator that uses it ("Conv"); "" where nobody knows.
    op: str = ""
    #: "weight", "buffer" or "constant".
    role: str = "weight"
    #: Position among the payloads of its layer (weight 0, bias 1).
    slot: int = 0
    #: Names of the payloads with its zero points and scales; "" where there are none.
    zero_point: str = ""
    scale: str = ""
    elements: Elements = field(default_factory=lambda: Loaded(lambda: numpy.empty(0)), repr=False, compare=False)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def blocks(self, elements: int = BLOCK) -> Iterator[Any]:
        """The elements in the row-major order of the shape, in one-dimensional arrays of about ``elements``.

        Floats of 16 bits and less come as float32, integers of less than a byte as int8 or uint8; all others in their
        own type. What is stored in blocks (GGUF) is dequantised to float32.

        Raises:
            ModelError: the elements are not there, or cannot be read.
        """
        found = 0
        for block in self.elements.blocks(max(elements, 1)):
            found += block.size
            yield block
        if found != self.numel:
            raise ModelError(f"tensor {self.name!r} of shape {self.shape} has {found:,} elements")

    def raw(self) -> Any:
        """All elements in their stored type (bfloat16 as uint16) as a one-dimensional view that cannot be written to.

        None where that cannot be: packed, compressed, remote, or in another order.
        """
        found = self.elements.raw()
        return found if found is not None and found.size == self.numel else None

    def array(self) -> Any:
        """All elements in the tensor's shape, in the types that ``blocks`` gives.

        Raises:
            ModelError: as for ``blocks``.
        """
        found: Any = None
        at = 0
        for block in self.blocks():
            if found is None:
                found = block if block.size == self.numel else numpy.empty(self.numel, block.dtype)
            if found is not block:
                found[at : at + block.size] = block
            at += block.size
        return (numpy.empty(0, numpy.float32) if found is None else found).reshape(self.shape)


@dataclass(frozen=True)
class Stored:
    """The stored tensors of a model. ``close()`` lets go of the files; arrays that look into them stay valid."""

    model: str
    format: str
    payloads: tuple[Payload, ...]
    #: What the user should know, one line each.
    notes: tuple[str, ...] = ()
    #: Other names of tensors among the payloads.
    others: frozenset[str] = frozenset()
    closing: tuple[Callable[[], None], ...] = field(default=(), repr=False, compare=False)
    #: What came over the network by now, as a line; "" where nothing did.
    telling: tuple[Callable[[], str], ...] = field(default=(), repr=False, compare=False)

    def notes_by_now(self) -> tuple[str, ...]:
        """The notes, with what came over the network since the file was opened."""
        now = dict.fromkeys(text for tell in self.telling if (text := tell()))
        return (*(note for note in self.notes if NETWORK not in note), *now)

    def close(self) -> None:
        """Let go of the files."""
        for close in self.closing:
            close()

    def __enter__(self) -> Stored:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_payloads(model: object, **options: Any) -> Stored:
    """The stored tensors of a model; no element is read yet.

    Args:
        model: path or URL of an ONNX file, a Caffe net, a safetensors, GGUF or NumPy file, a PyTorch checkpoint, an
            index of several files (model.safetensors.index.json), or a folder with one of these; the bytes of an ONNX
            file; a Graph; a ``torch.nn.Module``.
        options: as for :func:`flopwise.read`, where the model is one that has a graph.

    Raises:
        ModelError: the model cannot be read.
    """
    name = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""
    try:
        return _opened(model, name, options)
    except FlopwiseError as error:
        text = " ".join(str(error).split())
        shown = formats.shown(name)
        if not shown or text.startswith(shown):
            raise type(error)(text) from error.__cause__
        raise type(error)(f"{shown}: {text}") from error.__cause__


def _opened(model: object, name: str, options: dict[str, Any]) -> Stored:
    if isinstance(model, Graph):
        from flopwise.readers.weights.graphs import of_graph

        return of_graph(model)
    if formats.is_module(model) or formats.is_callable(model):
        from flopwise.readers.weights.modules import of_module

        if formats.is_callable(model):
            from flopwise.readers.torch import load as torch_load

            model = torch_load.made(name, options.get("arguments"), in_memory=True)
        return of_module(model, name)
    if name:
        found, kind = formats.weight_file(name)
        if kind:
            from flopwise.readers.weights.files import open_file

            return open_file(found, kind)
        model = found
    from flopwise.readers.weights.graphs import of_model

    return of_model(model, options)


def in_memory(name: str, load: Callable[[], Any], shape: tuple[int, ...], dtype: str, **known: Any) -> Payload:
    """A payload whose elements are an array in memory; ``dtype`` is a name of :mod:`flopwise.graph.dtypes`."""
    return Payload(name, shape, dtype, length(math.prod(shape), dtype), elements=Loaded(load), **known)


def in_store(
    name: str, shape: tuple[int, ...], dtype: str, store: Store, runs: tuple[tuple[int, int], ...], **known: Any
) -> Payload:
    """A payload whose elements lie in ranges of a store, the lowest byte first.

    Raises:
        ModelError: the ranges lie outside the store, or do not hold the elements that shape and type say.
    """
    found = coding(dtype)
    if found is None:
        raise ModelError(f"{store.name}: tensor {name!r} has the type {dtype}, which holds no numbers")
    count = math.prod(shape)
    expected, there = length(count, dtype), sum(end - start for start, end in runs)
    if expected != there:
        raise ModelError(
            f"{store.name}: tensor {name!r} of shape {shape} and type {dtype} takes {expected:,} bytes, "
            f"but {there:,} are stored"
        )
    if any(not 0 <= start <= end <= store.size for start, end in runs):
        first = next((s, e) for s, e in runs if not 0 <= s <= e <= store.size)
        raise ModelError(
            f"{store.name}: tensor {name!r} lies at bytes {first[0]:,} to {first[1]:,}, but the file has {store.size:,}"
        )
    return Payload(name, shape, dtype, there, elements=Coded(Runs(store, runs), found, count), **known)


def parted(name: str) -> tuple[str, str]:
    """The layer and the last part of a tensor's name.

    >>> parted("model.layers.0.q_proj.weight"), parted("weight")
    (('model.layers.0.q_proj', 'weight'), ('', 'weight'))
    """
    layer, _, last = name.rpartition(".")
    return layer, last


#: Last parts of the names of tensors that are statistics and tables, not trained weights.
BUFFERS = frozenset({"running_mean", "running_var", "position_ids", "inv_freq", "attn_mask"})


def role_of(name: str, dtype: str) -> str:
    """What a tensor is for, as far as its name and type tell.

    >>> role_of("bn.running_mean", "float32"), role_of("fc.weight", "int8"), role_of("bn.num_batches_tracked", "int64")
    ('buffer', 'weight', 'constant')
    """
    last = parted(name)[1]
    if last in BUFFERS:
        return "buffer"
    if dtype in ("int64", "int32", "int16", "uint64", "uint32", "uint16", "bool") and "weight" not in last:
        return "constant"
    return "weight"


def in_slots(payloads: list[Payload]) -> tuple[Payload, ...]:
    """The payloads with their positions in their layers: weight first, bias second, then the others as they come."""
    from dataclasses import replace

    first = {"weight": 0, "bias": 1}
    groups: dict[str, list[Payload]] = {}
    for payload in payloads:
        groups.setdefault(payload.layer, []).append(payload)
    slots: dict[str, int] = {}
    for group in groups.values():
        for slot, payload in enumerate(sorted(group, key=lambda p: first.get(parted(p.name)[1], 2))):
            slots[payload.name] = slot
    return tuple(replace(p, slot=slots[p.name]) for p in payloads)
