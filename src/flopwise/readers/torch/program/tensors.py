"""The stored tensors of a file with a program."""

from __future__ import annotations

from flopwise.readers.torch.archive import is_exported, members
from flopwise.readers.torch.program.script import of_script
from flopwise.readers.torch.program.stored import of_exported
from flopwise.readers.weights.tensor import StoredTensors


def of_program(path: str) -> StoredTensors:
    """The stored tensors of an exported program or a TorchScript file.

    Raises:
        ModelError: it is damaged.
    """
    return of_exported(path) if is_exported(members(path)) else of_script(path)
