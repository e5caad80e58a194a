"""The facts about a format of models: what its files are called, who reads them, what they can be asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise._limits import budget
from flopwise._user_code import on_command_line
from flopwise.errors import InputError, ModelError, UnknownDimensionError
from flopwise.formats.options import Options, is_given
from flopwise.formats.sources.location import ending_of, is_callable, shown

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import Graph

#: The arguments that choose the sizes of a model, and the options of the command line.
_OPTIONS = {"inputs": "-i", "batch_size": "-b", "dims": "--dim"}

#: The first bytes of a file that formats are told by.
_HEAD = 4096


class Context:
    """A model as it is given, and what tells its format: each fact is looked up once, for all formats."""

    def __init__(self, model: object) -> None:
        self.model = model
        #: The path, URL or other text; "" for anything else.
        self.name = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""

    @cached_property
    def head(self) -> bytes:
        """The first 4,096 bytes of a regular file, or of bytes; b"" of anything else."""
        if isinstance(self.model, (bytes, bytearray, memoryview)):
            return bytes(self.model[:_HEAD])
        from flopwise.formats.sources.source import head

        return head(self.name, _HEAD) if self.name else b""

    @cached_property
    def members(self) -> list[str]:
        """The names in an archive; none where it is damaged, is not an archive, or is a device or a pipe."""
        from flopwise.formats.weights.torch_files import members

        return members(self.name) if self.name else []

    @cached_property
    def is_folder(self) -> bool:
        """True for the path of a directory."""
        return bool(self.name) and os.path.isdir(self.name)

    @cached_property
    def is_callable(self) -> bool:
        """True for a text that names a callable."""
        return is_callable(self.model)

    def ends_in(self, *endings: str) -> bool:
        """True for a path or URL with one of these endings, in lower case."""
        return bool(self.name) and ending_of(self.name).endswith(endings)


class MissingError(ModelError):
    """A folder of ``formats/`` that this installation lacks."""


def late(place: str) -> Callable[..., Any]:
    """A function of a folder of ``formats/``, imported when it is called: ``late("caffe.read:read_caffe")``."""
    module, _, name = place.partition(":")

    def call(*arguments: Any, **keywords: Any) -> Any:
        return getattr(_imported(module), name)(*arguments, **keywords)

    return call


def _imported(module: str) -> Any:
    """A module of ``formats/`` by its dotted name there.

    Raises:
        MissingError: it, or another part of flopwise that it needs, is not there.
    """
    try:
        return import_module(f"flopwise.formats.{module}")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("flopwise."):
            raise
        raise MissingError(f"{error.name} is needed for that, which this installation lacks") from None


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
    matches: Callable[[Context], bool] | None = None
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
    is_model: Callable[[Context], bool] | None = None
    #: Endings of the files whose tensors stand for themselves; those in a directory are its weights.
    weights: tuple[str, ...] = ()
    #: Whether ``flopwise formula`` makes formulas of its models.
    formulas: bool = False
    #: Why it makes none, as the end of a sentence ("whose dimensions have no names").
    no_formulas: str = ""
    #: Whether ``flopwise shapes -o`` writes them.
    writable: bool = False
    #: ``opened(model, options, progress)`` -> a program of the kit's before any size is chosen.
    opened: Callable[..., Any] | None = None
    #: The folders of ``formats/`` that read it; without one of them, reading is one error that names it.
    folders: tuple[str, ...] = ()

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
        """Raise InputError if sizes are given that the format does not take, and MissingError if it lacks a folder."""
        for folder in self.folders:
            try:
                _imported(folder)
            except MissingError:
                needed = f"{self.models} need flopwise.formats.{folder}"
                raise MissingError(f"{_named(model)}: {needed}, which this installation lacks") from None
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
        """True for a model, or a context, of this format; a file is opened only where its name does not tell."""
        context = model if isinstance(model, Context) else Context(model)
        if self.matches is None:
            return bool(self.endings) and context.ends_in(*self.endings)
        try:
            return bool(self.matches(context))
        except MissingError:
            return False  # without its folder nobody can tell


def _named(model: object) -> str:
    return shown(os.fsdecode(model)) if isinstance(model, (str, os.PathLike)) else f"<{type(model).__name__}>"


def ends_in(model: object, endings: tuple[str, ...]) -> bool:
    """True where a model is given by a path or URL with one of these endings."""
    return isinstance(model, (str, os.PathLike)) and bool(endings) and ending_of(os.fsdecode(model)).endswith(endings)
