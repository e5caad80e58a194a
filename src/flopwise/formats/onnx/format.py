"""ONNX in the table of formats. What is not a path, and what has an ending that is unknown, is taken for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flopwise.readers.format import Format, ends_in
from flopwise.readers.options import OnnxOptions, Progress, Sizes

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import Graph


def _matches(model: object) -> bool:
    return not isinstance(model, (str, os.PathLike)) or ends_in(model, ONNX.endings)


def _read(
    model: object, inputs: object, dims: Sizes, batch_size: int | None, progress: Progress, options: OnnxOptions
) -> Graph:
    from flopwise.formats.onnx.read import read_onnx

    return read_onnx(model, inputs, dims, batch_size, options, progress)


def _stored(model: object, inputs: object, dims: Sizes, batch_size: int | None, options: OnnxOptions) -> StoredTensors:
    from flopwise.formats.onnx.read import read_stored
    from flopwise.formats.weights.graphs import stored_in_graph

    return stored_in_graph(read_stored(model, inputs=inputs, dims=dims, batch_size=batch_size, options=options))


ONNX = Format(
    "onnx",
    "ONNX models",
    _read,
    endings=(".onnx",),
    matches=_matches,
    takes=("inputs", "dims", "batch_size"),
    options=OnnxOptions,
    stored=_stored,
    in_directories=(".onnx",),
    formulas=True,
    writable=True,
)
