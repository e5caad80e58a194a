"""A file with tensors and no graph as a Graph: one row for each tensor, whose operator nobody knows.

So its parameters and bytes can be listed and added up, while what it computes stays unknown, not zero.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph, Kind, Module, Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.readers.formats import shown
from flopwise.readers.weights.tensor import Payload, Stored, open_payloads

#: The operator of each row.
OP = "flopwise::Tensor"


def read_weights(model: str, inputs: object = None, batch_size: int | None = None) -> Graph:
    """The tensors of a file or of all files that an index names; only headers are read.

    Args:
        model: path or URL.
        inputs: refused, as such a file has none.
        batch_size: refused likewise.

    Raises:
        ModelError: the file cannot be read.
        InputError: inputs or a batch size are given.
    """
    name = shown(model)
    if inputs or batch_size is not None:
        raise InputError(f"{name}: holds weights and no graph, so it has no inputs")
    with open_payloads(model) as stored:
        if not stored.payloads:
            raise ModelError(f"{name}: holds no tensors")
        rows = [_row(payload, stored.format) for payload in stored.payloads]
        told = f"{name} holds weights and no operators: what they compute, and activations, are unknown"
        notes = (told, *stored.notes)
        again = _Again(model)
        return Graph(
            name=_title(name),
            format=stored.format,
            source=name,
            inputs=(),
            outputs=(),
            nodes=tuple(rows),
            weights={payload.name: functools.partial(elements, again, payload.name) for payload in stored.payloads},
            warnings=notes,
        )


class _Again:
    """The payloads of a file, which is opened once more when somebody asks for elements, and stays open."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._stored: Stored | None = None
        self._payloads: dict[str, Payload] = {}

    def payload(self, name: str) -> Payload:
        """The payload of a name.

        Raises:
            ModelError: the file cannot be read any more.
        """
        if self._stored is None:
            self._stored = open_payloads(self._model)
            self._payloads = {payload.name: payload for payload in self._stored.payloads}
        found = self._payloads.get(name)
        if found is None:
            raise ModelError(f"{shown(self._model)}: changed while it was read; it has no tensor {name!r} any more")
        return found

    def told(self) -> str:
        """What came over the network for the elements."""
        return next((text for tell in (self._stored.telling if self._stored else ()) if (text := tell())), "")


def elements(again: _Again, name: str) -> Any:
    """The elements of a tensor, as ``Payload.array`` gives them."""
    return again.payload(name).array()


def _row(payload: Payload, origin: str) -> Node:
    kind: Kind = "weight"
    if payload.role != "weight":  # tables take memory too; single numbers do not count
        kind = "buffer" if payload.shape else "constant"
    attrs: dict[str, Any] = {}
    if payload.dtype in BITS:
        tensor = Tensor(payload.name, payload.shape, payload.dtype, kind)
    else:  # blocks of bytes, which hold more elements than bytes
        tensor = Tensor(payload.name, (payload.nbytes,), "uint8", kind)
        attrs |= {"elements": payload.numel, "shape": payload.shape, "blocks": payload.dtype}
    taken, made = (Tensor(f"{payload.name}:{end}", None, None) for end in ("input", "output"))
    return Node(OP, payload.name, (tensor, taken), (made,), attrs, _scope(payload.layer), f"{origin}:{payload.dtype}")


def _scope(layer: str) -> tuple[Module, ...]:
    parts = layer.split(".") if layer else []
    return tuple(Module(".".join(parts[: i + 1]), "") for i in range(len(parts)))


def _title(name: str) -> str:
    base = os.path.basename(name.rstrip("/")) or name
    for ending in (".safetensors.index.json", ".bin.index.json"):
        base = base.removesuffix(ending)
    return os.path.splitext(base)[0] or base
