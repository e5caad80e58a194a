"""What of PyTorch's a model is: a module, a file of tensors, or a file with a program, by what its archive holds."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Collection
from types import BuiltinFunctionType, FunctionType, MethodType

from flopwise.readers.format import ends_in
from flopwise.readers.source.location import is_url


def members(name: str) -> list[str]:
    """The names in an archive; none where it is damaged, is not an archive, or is a device or a pipe."""
    import zipfile

    if not os.path.isfile(name):
        return []
    try:
        with zipfile.ZipFile(name) as archive:
            return archive.namelist()
    except Exception:  # zipfile raises all kinds: for a version to come NotImplementedError
        return []


def holds_program(members: Collection[str]) -> bool:
    """Whether an archive with these members is an exported program or a TorchScript file, not a checkpoint."""
    script = any("/code/" in m for m in members) and any(m.endswith("/constants.pkl") for m in members)
    return script or is_exported(members)


def is_exported(members: Collection[str]) -> bool:
    """Whether an archive with these members is an exported program."""
    return any(m.endswith(("models/model.json", "serialized_exported_program.json")) for m in members)


#: Endings of the files that PyTorch writes: programs, and checkpoints, which may hold a program too.
PROGRAMS = (".pt2", ".ts", ".torchscript")
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin")


def is_module(model: object) -> bool:
    """Whether a model is a PyTorch module or exported program; asks PyTorch only when somebody has imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(model, torch.nn.Module) or (
        "torch.export" in sys.modules and isinstance(model, torch.export.ExportedProgram)
    )


def is_program_of_file(model: object) -> bool:
    """Whether a module is the program of a file; asks for its class only when one has been read."""
    exported = sys.modules.get("flopwise.readers.torch.program.exported")
    return exported is not None and isinstance(model, exported.ExportedModule)


def is_function(model: object) -> bool:
    """Whether a model is a plain function, a method or a partial call, which is taken for one of tensors."""
    return "torch" in sys.modules and isinstance(
        model, (functools.partial, FunctionType, MethodType, BuiltinFunctionType)
    )


def is_checkpoint(model: object) -> bool:
    """Whether a model is a file of tensors and no program; by URL every checkpoint is taken for that.

    A file that is not there is none, so that whoever reads programs says so.
    """
    if not ends_in(model, CHECKPOINTS):
        return False
    name = os.fsdecode(model)  # type: ignore[arg-type] # a path, as its ending was looked at
    return is_url(name) or (os.path.isfile(name) and not holds_program(members(name)))
