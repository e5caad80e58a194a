"""What an engine executes, and the key of a node's benchmark: equal keys take equally long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from flopwise.analyses.timing.environment import digest

#: How a benchmark's time came to be. "alias": the node does nothing but rename its input.
Status: TypeAlias = Literal["ok", "noisy", "alias", "timeout", "memory", "unsupported", "crashed"]

#: hot: inputs and weights in caches; streamed: weights that must come from beyond the second cache.
MODES = ("hot", "streamed")


@dataclass(frozen=True, slots=True)
class Operand:
    """An input or output of a node, as far as it matters for time."""

    kind: Literal["weight", "activation", "absent"]
    dtype: str = ""
    shape: tuple[int, ...] = ()
    #: Digest of the elements of a small integer weight, such as axes or a target shape; None for others.
    value: str | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkKey:
    """A node without its name: operator, attributes and operands."""

    op: str
    domain: str
    opset: int
    #: Attributes as canonical values; tensors and graphs as digests.
    attributes: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    @property
    def id(self) -> str:
        """SHA-256 of the key."""
        return digest(asdict(self))


@dataclass(frozen=True, slots=True)
class Executed:
    """A node of the graph that an engine executes, in order of execution."""

    name: str
    op: str
    #: ``BenchmarkKey.id``.
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
    def from_dict(value: Mapping[str, Any]) -> Executed:
        """The node of a plain value.

        Raises:
            TypeError: a field is missing or unknown.
        """
        lists = {k: tuple(value[k]) for k in ("rows", "dtypes", "needs") if k in value}
        return Executed(**{**value, **lists})


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
    """What one session measured: a model, its nodes, and how quiet the machine was."""

    environment: Mapping[str, Any]
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
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def best_ns(self) -> float:
        """Least time of the whole model."""
        return min(self.whole_ns)

    @property
    def noisy(self) -> bool:
        """Whether the machine was too busy for the figures to be tight; a floor holds all the same."""
        return self.verdict != "quiet"
