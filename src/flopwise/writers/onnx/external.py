"""The files beside an ONNX model that hold its weights, where the model is written to another folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from flopwise.errors import InputError
from flopwise.formats.onnx.file.skeleton import Skeleton, Stored
from flopwise.writers.atomic import atomic_file


def files(skeleton: Skeleton) -> list[str]:
    """The files that a model needs beside it, in the order in which it names them."""
    stored = [*skeleton.initializers.values(), *skeleton.inner.values()]
    return list(dict.fromkeys(location for tensor in stored for location in _locations(tensor)))


def _locations(tensor: Stored) -> Iterator[str]:
    if "location" in tensor.external:
        yield tensor.external["location"]
    for part in tensor.sparse or ():
        yield from _locations(part)


def copies(locations: Iterable[str], old: Path | None, new: Path, copy: bool) -> dict[Path, Path]:
    """The files to copy: file -> copy; {} where the new model lies in the folder of the files.

    Args:
        locations: the files, from the folder of the model.
        old: the folder of the model; None when it did not come from a file.
        new: the folder of the model that is written.
        copy: whether files may be copied.

    Raises:
        InputError: they may not, or cannot, or another file of the same name is in the way.
    """
    targets: dict[Path, Path] = {}
    for location in locations:
        if old is None:
            raise InputError(
                f"its data is in {location!r} beside the model, which was not given as a path; "
                "give the path, or leave the weights out (--no-weights)"
            )
        source, target = old / location, new / location
        if not os.path.realpath(source).startswith(os.path.join(os.path.realpath(old), "")):
            raise InputError(f"its data {location!r} is outside the model's folder; refused")
        if not source.is_file():
            if old.samefile(new):
                continue
            raise InputError(f"{source}: no such file, so the data cannot be copied; leave it out with --no-weights")
        if target.exists() and source.samefile(target):
            continue
        if target.exists():
            raise InputError(f"{target}: exists already and is not the model's data; choose another folder")
        if not copy:
            raise InputError(
                f"its data is in {location!r} beside the model, which must be beside the new one as well; write to "
                f"that folder, or add --copy-data, or leave the weights out with --no-weights"
            )
        targets[source] = target
    return targets


@contextlib.contextmanager
def copied(files: Mapping[Path, Path]) -> Iterator[None]:
    """Copy files, and take the copies away again when the context ends with an error.

    Raises:
        InputError: a file cannot be copied.
    """
    with contextlib.ExitStack() as undo:
        for source, target in files.items():
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(source, "rb") as read, atomic_file(str(target)) as write:
                    shutil.copyfileobj(read, write)
            except OSError as error:
                raise InputError(f"{target}: cannot be written ({error.strerror})") from error
            undo.callback(lambda path=target: path.unlink(missing_ok=True))  # type: ignore[misc] # mypy sees no default
        yield
        undo.pop_all()
