"""Engines: what runs a model, node by node. An engine knows neither the store nor the reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.sampling import Clock
from flopwise.errors import InputError

#: Name of an engine -> its package on the registry.
ENGINES: dict[str, str] = {"onnxruntime": "onnxruntime"}

#: Optimisation levels of a graph, from none to all.
LEVELS = ("off", "basic", "extended", "all")


class UnsupportedError(Exception):
    """An engine does not run a node alone; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an engine runs a model."""

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
    facts: Mapping[str, Any]
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


class Engine(Protocol):
    """The module of an engine."""

    def open_program(self, model: str, inputs: Mapping[str, Any], options: Options, folder: str) -> Program:
        """A model as the engine executes it.

        Args:
            model: path of the model.
            inputs: shapes by input name; whatever the engine needs to make data.
            options: how to run it.
            folder: where temporary files may be written.
        """


def load(name: str) -> Engine:
    """The module of an engine, by its name or, of one outside flopwise, by its dotted path; no package is imported.

    Raises:
        InputError: there is no such engine, or its package is not installed.
    """
    if "." not in name:
        known_version(name)
    engine: Engine = import_module(name if "." in name else f"flopwise.analyses.timing.engines.{name}")
    return engine


def known_version(name: str) -> str:
    """The installed version of an engine, found without importing it.

    Raises:
        InputError: there is no such engine, or its package is not installed.
    """
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    try:
        return version(ENGINES[name])
    except PackageNotFoundError:
        raise InputError(f"{name} is not installed: pip install 'flopwise[time]'") from None


def early_facts(name: str, options: Options) -> dict[str, Any]:
    """What identifies an engine before it is imported.

    Raises:
        InputError: there is no such engine, or its package is not installed.
    """
    return {"name": name, "version": known_version(name), **asdict(options)}
