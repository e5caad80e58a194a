"""What autograd keeps of each operation, in its own words: through its hooks on saved tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.readers.torch.capture.stand_ins import StandIns, storage_of


class SavedStorages:
    """The storages that autograd keeps of the running operation."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self._storages: dict[int, Any] = {}

    def hooks(self) -> AbstractContextManager[Any]:
        """The hooks through which autograd says what it keeps."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def forget(self) -> None:
        """Forget what was kept: an operation begins."""
        if self._storages:
            self._storages = {}

    def take(self) -> tuple[tuple[str, int], ...] | None:
        """The storages of the operation that ends: the name of the tensor that has it, "" for one of its own, and its
        bytes; None where the program keeps tensors in its own way (a checkpoint).
        """
        storages, self._storages = self._storages, {}
        top: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if top is None or top[0] != self._pack:
            return None
        return tuple([(self._stand_ins.owner_of(storage), storage.nbytes()) for storage in storages.values()])

    def _pack(self, tensor: TorchTensor) -> TorchTensor:
        with torch._C.DisableTorchFunction():
            storage = storage_of(tensor)
            if storage is not None:
                self._storages[storage._cdata] = storage
        return tensor


def _unpack(tensor: TorchTensor) -> TorchTensor:
    return tensor
