"""Executed nodes and the times of their benchmarks: nodes with equal keys take equally long."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from flopwise._kinds import Kind, kind_of
from flopwise.formats.sources.text import JsonObject

#: How a benchmark's time came to be. "alias": the node does nothing but rename its input.
Status: TypeAlias = Literal["ok", "noisy", "alias", "timeout", "memory", "unsupported", "crashed"]

#: hot: inputs and weights in caches; streamed: weights that must come from beyond the second cache.
MODES = ("hot", "streamed")


@dataclass(frozen=True, slots=True)
class Executed:
    """A node of the graph that an engine executes, in order of execution."""

    name: str
    op: str
    #: Digest of its operator, attributes and operands, without names.
    key: str
    #: Whether it only renames its input, and takes no time of its own.
    alias: bool = False
    #: Names of the layers of the model that it does the work of; () where nobody could tell.
    rows: tuple[str, ...] = ()
    #: Operations and bytes, from flopwise's own count of the executed graph; None where it has none.
    macs: int | None = None
    flops: int | None = None
    nbytes: int | None = None
    dtypes: tuple[str, ...] = ()
    #: Names of the nodes that it waits for, by position in the program.
    needs: tuple[int, ...] = ()

    @staticmethod
    def from_dict(value: JsonObject) -> Executed:
        """The node of a plain value.

        Raises:
            TypeError: it is no mapping, or a field is missing, unknown or of another type.
        """
        node = Executed(**value)
        for name, kind in _kinds_of_fields().items():
            if fault := kind.fault(getattr(node, name)):
                raise TypeError(f"{name} of a node is {fault}")
        return replace(node, rows=tuple(node.rows), dtypes=tuple(node.dtypes), needs=tuple(node.needs))


@functools.cache
def _kinds_of_fields() -> dict[str, Kind]:
    return {name: kind_of(annotation, globals()) for name, annotation in Executed.__annotations__.items()}


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times of one benchmark in one session, in nanoseconds for one execution of the node."""

    key: str
    mode: str
    status: Status
    best_ns: float | None = None
    median_ns: float | None = None
    #: 90th percentile over 10th.
    spread: float | None = None
    runs: int = 0
    #: Least time of an empty run, which is subtracted from the others.
    null_ns: float | None = None
    cpu_ns: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """The results of one session: a model, its nodes, and how quiet the machine was."""

    environment: JsonObject
    model: str
    inputs: str
    executed: tuple[Executed, ...]
    measurements: tuple[Measurement, ...]
    #: Least times of the whole model in two engine sessions of the same kind, in nanoseconds.
    whole_ns: tuple[float, float]
    median_ns: float
    cpu_ns: float
    rounds: int
    #: |least A / least B - 1| of the two.
    noise: float
    #: CPU time over wall time of the whole.
    cpu_share: float
    #: "quiet", or why it was not.
    verdict: str
    seconds: float
    started: str
    facts: JsonObject = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def best_ns(self) -> float:
        """Least time of the whole model."""
        return min(self.whole_ns)
