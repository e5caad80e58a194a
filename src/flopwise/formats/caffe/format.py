"""Caffe in the table of formats."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flopwise.formats.format import Format, ends_in
from flopwise.formats.options import CaffeOptions, Progress, Sizes

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import Graph

#: Endings of files with a net's weights.
_WEIGHTS = (".caffemodel", ".caffemodel.h5")


def _read(
    model: object, inputs: object, dims: Sizes, batch_size: int | None, progress: Progress, options: CaffeOptions
) -> Graph:
    from flopwise.formats.caffe.read import read_caffe

    return read_caffe(model, inputs, dims, batch_size, progress, options)


def _stored(
    model: str | os.PathLike[str], inputs: object, dims: Sizes, batch_size: int | None, options: CaffeOptions
) -> StoredTensors:
    from flopwise.formats.caffe.read import open_caffemodel
    from flopwise.formats.weights.graphs import stored_in_graph

    if ends_in(model, _WEIGHTS):
        return open_caffemodel(os.fsdecode(model))
    return stored_in_graph(_read(model, inputs, dims, batch_size, lambda step: None, options))


CAFFE = Format(
    "caffe",
    "Caffe nets (.prototxt)",
    _read,
    endings=(".prototxt", *_WEIGHTS),
    takes=("inputs", "batch_size"),
    options=CaffeOptions,
    stored=_stored,
    in_directories=(".prototxt",),
    formulas=True,
    weights=_WEIGHTS,
)
