"""Files with tensors and no graph in the table of formats. What says how many operations they are for is unknown."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from flopwise.errors import InputError, ModelError
from flopwise.formats.format import Format
from flopwise.formats.options import Options, Progress, Sizes
from flopwise.formats.sources.location import is_url, shown
from flopwise.formats.weights.torch_files import CHECKPOINTS, NO_PROGRAM, is_checkpoint

if TYPE_CHECKING:
    from flopwise.formats.sources.source import Source
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import Graph

Path: TypeAlias = "str | os.PathLike[str]"


def _open(format: str, source: Source) -> StoredTensors:
    """The stored tensors of an open file of a format; its parser is imported now."""
    if format == "safetensors":
        from flopwise.formats.weights.read import open_safetensors as opened
    elif format == "gguf":
        from flopwise.formats.weights.gguf import open_gguf as opened
    elif format == "npz":
        from flopwise.formats.weights.numpy import open_npz as opened
    elif format == "npy":
        from flopwise.formats.weights.numpy import open_npy as opened
    else:
        from flopwise.formats.weights.checkpoint import open_checkpoint as opened
    return opened(source)


def _open_index(format: str, endings: tuple[str, ...], source: Source) -> StoredTensors:
    from flopwise.formats.weights.read import open_parts

    return open_parts(source, format, partial(_open, format), endings)


def tensor_format(
    name: str,
    models: str,
    endings: tuple[str, ...],
    opener: Callable[[Source], StoredTensors] | None = None,
    in_folders: bool = True,
    matches: Callable[[object], bool] | None = None,
) -> Format:
    """A format of files with tensors and no graph.

    Args:
        name: as in ``Graph.format``.
        models: its files in the plural, for messages.
        endings: of the names of its files.
        opener: takes an open file apart; None: what is known by the name.
        in_folders: whether a file of it in a directory is the weights of the model there.
        matches: as in ``Format``.
    """
    opener = opener or partial(_open, name)

    def read(
        model: Path, inputs: object, dims: Sizes, batch_size: int | None, progress: Progress, options: Options
    ) -> Graph:
        from flopwise.formats.weights.read import read_weights

        progress("reading the header")
        return read_weights(opener, os.fsdecode(model))

    def stored(model: Path, inputs: object, dims: Sizes, batch_size: int | None, options: Options) -> StoredTensors:
        from flopwise.formats.weights.read import open_weights

        return open_weights(opener, os.fsdecode(model))

    weights = endings if in_folders else ()
    return Format(name, models, read, endings, matches, stored=stored, has_graph=False, weights=weights)


def _read_checkpoint(
    model: Path, inputs: object, dims: Sizes, batch_size: int | None, progress: Progress, options: Options
) -> Graph:
    name = os.fsdecode(model)
    if inputs is None:
        return _CHECKPOINT.read(model, inputs, dims, batch_size, progress, options)
    if is_url(name):
        raise InputError(
            f"{shown(name)}: inputs are for a model with operators; of a URL only tensors are read: "
            "download a program first, and give a module as package.module:callable"
        )
    raise ModelError(f"{name}: {NO_PROGRAM}")


SAFETENSORS_INDEX = tensor_format(
    "safetensors",
    "indexes of safetensors files",
    (".safetensors.index.json",),
    partial(_open_index, "safetensors", (".safetensors",)),
)
CHECKPOINT_INDEX = tensor_format(
    "torch", "indexes of PyTorch checkpoints", (".bin.index.json",), partial(_open_index, "torch", CHECKPOINTS)
)
SAFETENSORS = tensor_format("safetensors", "safetensors files", (".safetensors",))
GGUF = tensor_format("gguf", "GGUF files", (".gguf",))
NPZ = tensor_format("npz", "NumPy archives", (".npz",))
NPY = tensor_format("npy", "NumPy arrays", (".npy",), in_folders=False)
_CHECKPOINT = tensor_format("torch", "PyTorch checkpoints", CHECKPOINTS, matches=is_checkpoint)
CHECKPOINT = _CHECKPOINT._replace(read=_read_checkpoint, takes=("inputs",))
