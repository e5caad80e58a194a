"""What PyTorch's archives hold, by the names of their members: a program or tensors alone."""

from __future__ import annotations

from collections.abc import Collection


def members(name: str) -> list[str]:
    """The names in an archive; none where it is damaged, or is not an archive."""
    import zipfile

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
