"""Files that PyTorch writes: checkpoints and programs, told apart by what their archive holds."""

from __future__ import annotations

import os
from collections.abc import Collection


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
    """True where an archive with these members is an exported program or a TorchScript file, not a checkpoint."""
    script = any("/code/" in m for m in members) and any(m.endswith("/constants.pkl") for m in members)
    return script or is_exported(members)


def is_exported(members: Collection[str]) -> bool:
    """True where an archive with these members is an exported program."""
    return any(m.endswith(("models/model.json", "serialized_exported_program.json")) for m in members) or is_record(
        members
    )


#: The program of a module in an ETRecord of ExecuTorch's.
RECORDED = "exported_program"


def is_record(members: Collection[str]) -> bool:
    """True where an archive with these members is an ETRecord with the program that was lowered."""
    return "ETRECORD_V0" in members and RECORDED in members


#: Endings of the files that PyTorch writes: programs, and checkpoints, which may hold a program too.
PROGRAMS = (".pt2", ".ts", ".torchscript", ".etrecord")
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin")


#: After the name of a file that torch.save made, whose operators are asked for.
NO_PROGRAM = (
    "a file of torch.save holds tensors, or a module as a pickle, which is never loaded; give the model as "
    "package.module:callable or file.py:callable, or export it with torch.export.save"
)
