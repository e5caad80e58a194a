"""What flopwise knows about a format of models: what its files are called, who reads them, what they can be asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.readers.options import Options
from flopwise.readers.source.location import ending_of

if TYPE_CHECKING:
    from flopwise.graph import Graph
    from flopwise.readers.weights.tensor import StoredTensors


class Format(NamedTuple):
    """A format of models. Only ``name``, ``models``, ``read`` and ``endings`` (or ``matches``) have to be said.

    The functions import what they need when they are called: the table of formats is read at every start.
    """

    #: As in ``Graph.format``.
    name: str
    #: Its models in the plural, for messages: "Caffe nets (.prototxt)".
    models: str
    #: ``read(model, inputs, dims, batch_size, progress, options)`` -> the graph with resolved shapes.
    read: Callable[..., Graph]
    #: What the names of its files end in, in lower case.
    endings: tuple[str, ...] = ()
    #: Whether a model is one of these; None: by the endings alone.
    matches: Callable[[object], bool] | None = None
    #: The class of the options that it takes, besides inputs, dims and batch_size.
    options: type[Options] = Options
    #: ``stored(model, inputs, dims, batch_size, options)`` -> its stored tensors; None: those of its graph.
    stored: Callable[..., StoredTensors] | None = None
    #: Whether it has operators, and not tensors alone.
    has_graph: bool = True
    #: ``module(model, options, progress, in_memory=...)`` -> the PyTorch module that a model stands for.
    module: Callable[..., Any] | None = None
    #: Endings of the files in a directory that are models of their own.
    in_directories: tuple[str, ...] = ()
    #: Endings of the files whose tensors stand for themselves; those in a directory are its weights.
    weights: tuple[str, ...] = ()
    #: Whether ``flopwise formula`` makes formulas of its models, and whether ``flopwise shapes -o`` writes them.
    formulas: bool = False
    writable: bool = False

    def match(self, model: object) -> bool:
        """Whether a model is one of these; a file is looked into only where its name leaves that open."""
        if self.matches is not None:
            return self.matches(model)
        return ends_in(model, self.endings)


def ends_in(model: object, endings: tuple[str, ...]) -> bool:
    """Whether a model is given by a path or URL with one of these endings."""
    return isinstance(model, (str, os.PathLike)) and bool(endings) and ending_of(os.fsdecode(model)).endswith(endings)
