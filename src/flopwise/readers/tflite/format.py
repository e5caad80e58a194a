"""TensorFlow Lite in the table of formats."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flopwise.readers.format import Format, ends_in
from flopwise.readers.options import Progress, Sizes, TfliteOptions

if TYPE_CHECKING:
    from flopwise.graph import Graph


def _read(
    model: object, inputs: object, dims: Sizes, batch_size: int | None, progress: Progress, options: TfliteOptions
) -> Graph:
    from flopwise.readers.tflite.read import read_tflite

    return read_tflite(model, inputs, dims, batch_size, progress, options)


#: Endings of the names of models, and of archives of them.
_ENDINGS = (".tflite", ".lite", ".task")


def _matches(model: object) -> bool:
    """True where a model is one by its name, or by the identifier behind its first four bytes."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model[4:8]) == b"TFL3"
    if not isinstance(model, (str, os.PathLike)) or ends_in(model, _ENDINGS):
        return ends_in(model, _ENDINGS)
    if not os.path.isfile(model):  # a pipe or a device would be read for ever
        return False
    try:
        with open(model, "rb") as file:
            return file.read(8)[4:] == b"TFL3"
    except (OSError, ValueError):
        return False


TFLITE = Format(
    "tflite",
    "TensorFlow Lite models (.tflite)",
    _read,
    endings=_ENDINGS,
    matches=_matches,
    takes=("inputs", "batch_size"),
    options=TfliteOptions,
    in_directories=(".tflite",),
    formulas=True,
)
