"""Engines: what runs a model, node by node. An engine knows neither the store nor the reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol, TypeAlias

from flopwise._results import Json
from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.sampling import Clock
from flopwise.errors import InputError
from flopwise.formats.sources.text import JsonObject

#: Name of an engine -> its package on the registry.
ENGINES: dict[str, str] = {"onnxruntime": "onnxruntime"}

#: The package that makes the models which engines run.
MODELS_BY = "onnx"

#: Optimisation levels of a graph, from none to all.
LEVELS = ("off", "basic", "extended", "all")

#: The type beside the model's own that engines multiply in.
QUANTIZED = "int8"


class UnsupportedError(Exception):
    """An engine does not run a node alone; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run in an engine."""

    level: str = "all"
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Task:
    """Something to time: a whole model, a node, or an empty run."""

    run: Callable[[], object]
    #: How many executions of the node one run holds.
    copies: int = 1
    #: Name of the empty run that is subtracted; "" for none.
    null: str = ""


class Program(Protocol):
    """A model as an engine executes it."""

    #: Name, version, build and options of the engine.
    facts: JsonObject
    executed: Sequence[Executed]
    clock: Clock
    #: What is odd about the model's data, such as denormal weights.
    notes: Sequence[str]

    def whole(self) -> Task:
        """The whole model, in an engine session of its own each time this is called."""

    def nulls(self) -> Mapping[str, Task]:
        """Empty runs by the names that tasks refer to."""

    def calibration(self) -> Task:
        """A fixed piece of work, whose time tells whether the processor keeps its speed."""

    def node(self, key: str, mode: str, calibrate: Callable[[Task], float]) -> Task | None:
        """A node measured alone; None where the mode does not measure it.

        Args:
            key: of the benchmark.
            mode: one of ``benchmark.MODES``.
            calibrate: nanoseconds of one run of a task, roughly.

        Raises:
            UnsupportedError: the engine does not run it alone.
        """


#: The model of a path as an engine executes it, for shapes by input name (or whatever the engine needs to make data),
#: options, and a folder for temporary files.
Engine: TypeAlias = Callable[[str, JsonObject, Options, str], Program]


def load(name: str) -> Engine:
    """``open_program`` of the module of an engine; its package is not imported.

    Args:
        name: of an engine, or the dotted path of a module outside flopwise.

    Raises:
        InputError: there is no such engine, or its package is not installed.
    """
    if "." not in name:
        known_version(name)
    module = import_module(name if "." in name else f"flopwise.analyses.timing.engines.{name}")
    return module.open_program  # type: ignore[no-any-return]


def known_version(name: str) -> str:
    """The installed version of an engine, found without importing it.

    Raises:
        InputError: there is no such engine, or its package is not installed.
    """
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    for package in (MODELS_BY, ENGINES[name]):
        try:
            installed = version(package)
        except PackageNotFoundError:
            raise InputError(f"{package} is not installed: pip install 'flopwise[time]'") from None
    return installed


def early_facts(name: str, options: Options) -> Json:
    """The identity of an engine as far as it is known before the import.

    Raises:
        InputError: there is no such engine, or its package is not installed.
    """
    return {"name": name, "version": known_version(name), **asdict(options)}
