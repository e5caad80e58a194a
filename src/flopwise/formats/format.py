"""The facts about a format of models: what its files are called, who reads them, what they can be asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise._limits import budget
from flopwise._user_code import on_command_line
from flopwise.errors import InputError, UnknownDimensionError
from flopwise.formats.options import Options, is_given
from flopwise.formats.sources.location import ending_of, shown

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import Graph

#: The arguments that choose the sizes of a model, and the options of the command line.
_OPTIONS = {"inputs": "-i", "batch_size": "-b", "dims": "--dim"}


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
    #: Which of "inputs", "dims" and "batch_size" it takes; a format whose sizes are fixed in the file takes none.
    takes: tuple[str, ...] = ()
    #: The class of the options that it takes besides.
    options: type[Options] = Options
    #: ``stored(model, inputs, dims, batch_size, options)`` -> its stored tensors; None: those of its graph.
    stored: Callable[..., StoredTensors] | None = None
    #: Whether it has operators, and not tensors alone.
    has_graph: bool = True
    #: ``module(model, options, progress, in_memory=...)`` -> the PyTorch module that a model stands for.
    module: Callable[..., Any] | None = None
    #: Endings of the files in a directory that are models of their own.
    in_directories: tuple[str, ...] = ()
    #: Whether a file in a directory with such an ending is one by its content; None: all are.
    is_model: Callable[[str], bool] | None = None
    #: Endings of the files whose tensors stand for themselves; those in a directory are its weights.
    weights: tuple[str, ...] = ()
    #: Whether ``flopwise formula`` makes formulas of its models.
    formulas: bool = False
    #: Why it makes none, as the end of a sentence ("whose dimensions have no names").
    no_formulas: str = ""
    #: Whether ``flopwise shapes -o`` writes them.
    writable: bool = False

    def graph(
        self,
        model: object,
        inputs: object,
        dims: Mapping[str, int] | None,
        batch_size: int | None,
        progress: Callable[[str], None],
        options: Options,
    ) -> Graph:
        """The graph of a model at the sizes that are asked for.

        Raises:
            InputError: the format does not take what is given.
        """
        self._check(model, inputs=inputs, batch_size=batch_size, dims=dims)
        with budget(_named(model)):
            return self.read(model, inputs, dims, batch_size, progress, options)

    def tensors(
        self,
        model: object,
        inputs: object,
        dims: Mapping[str, int] | None,
        batch_size: int | None,
        progress: Callable[[str], None],
        options: Options,
    ) -> StoredTensors:
        """The stored tensors of a model, whose graph is at these sizes.

        Raises:
            InputError: the format does not take what is given.
        """
        self._check(model, inputs=inputs, batch_size=batch_size, dims=dims)
        from flopwise.formats.weights.graphs import stored_in_graph

        with budget(_named(model)):
            if self.stored is not None:
                return self.stored(model, inputs, dims, batch_size, options)
            return stored_in_graph(self.read(model, inputs, dims, batch_size, progress, options))

    def _check(self, model: object, **sizes: Any) -> None:
        """Raise InputError if sizes are given that the format does not take."""
        for name, value in sizes.items():
            if name in self.takes or not is_given(value):
                continue
            where = f"{_named(model)}: " if isinstance(model, (str, os.PathLike)) else ""
            why = "whose sizes are fixed"
            if not self.has_graph:
                why = "which hold tensors and no operators"
            elif self.takes:
                why = "which have no such sizes" if name != "dims" else "whose dimensions have no names"
            option = _OPTIONS[name] if on_command_line() else f"{name}="
            message = f"{where}{option} does not apply to {self.models}, {why}"
            raise UnknownDimensionError(message, next(iter(value))) if name == "dims" else InputError(message)

    def match(self, model: object) -> bool:
        """True where a model has this format; a file is looked into only where its name leaves that open."""
        if self.matches is not None:
            return self.matches(model)
        return ends_in(model, self.endings)


def _named(model: object) -> str:
    return shown(os.fsdecode(model)) if isinstance(model, (str, os.PathLike)) else f"<{type(model).__name__}>"


def ends_in(model: object, endings: tuple[str, ...]) -> bool:
    """True where a model is given by a path or URL with one of these endings."""
    return isinstance(model, (str, os.PathLike)) and bool(endings) and ending_of(os.fsdecode(model)).endswith(endings)
