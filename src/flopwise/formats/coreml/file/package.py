"""A package of Core ML: a folder with a manifest that says which of its files is the specification.

https://apple.github.io/coremltools/docs-guides/source/convert-to-ml-program.html
"""

from __future__ import annotations

import json
import os

from flopwise.errors import ModelError
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import FileSource, Source

#: The manifest of a package, and the folder in it that its paths start from.
MANIFEST, DATA = "Manifest.json", "Data"

#: Bytes that a manifest may take.
_LARGEST = 1 << 20


def is_package(path: str) -> bool:
    """True for a folder that is a package by its name, or by the manifest and the data in it."""
    if not os.path.isdir(path):
        return False
    named = path.rstrip("/\\").lower().endswith(".mlpackage")
    return named or all(os.path.exists(os.path.join(path, name)) for name in (MANIFEST, DATA))


def opened(model: object) -> tuple[Source, str]:
    """The specification of a model, and what to call the model: a package by its path, or a file, bytes or a stream.

    Raises:
        ModelError: it cannot be read, or the manifest names a file outside the package.
    """
    if not isinstance(model, (str, os.PathLike)) or not os.path.isdir(model):
        source = open_source(model)
        if source.read(0, min(source.size, 4)) == b"PK\x03\x04":
            source.close()
            raise ModelError(f"{source.name}: a Core ML package in a ZIP archive; unpack it first")
        return source, source.name
    path = os.path.normpath(os.fsdecode(model))
    return FileSource(_inside(path, os.path.join(DATA, _specification(path)))), path


def _specification(path: str) -> str:
    """Path of the specification in a package's data."""
    try:
        manifest = FileSource(_inside(path, MANIFEST))
    except ModelError as error:
        raise ModelError(f"{path}: no package of Core ML ({error})") from None
    try:
        if manifest.size > _LARGEST:
            raise ModelError(f"{path}: {MANIFEST} takes {manifest.size:,} bytes")
        listed = json.loads(manifest.read(0, manifest.size))
        entry = listed["itemInfoEntries"][listed["rootModelIdentifier"]]["path"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ModelError(f"{path}: {MANIFEST} names no model") from None
    finally:
        manifest.close()
    if not isinstance(entry, str) or "\0" in entry:
        raise ModelError(f"{path}: {MANIFEST} names no model")
    return entry


def _inside(package: str, name: str) -> str:
    """The path of a file of a package.

    Raises:
        ModelError: it lies outside, be it through a link.
    """
    path = os.path.join(package, name)
    root = os.path.join(os.path.realpath(package), DATA if name.startswith(DATA) else "")
    if not os.path.realpath(path).startswith(os.path.join(root, "")):
        raise ModelError(f"{package}: {name!r} lies outside the package; refused")
    return path
