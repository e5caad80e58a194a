"""Rows and their sums: the figures of one layer, and of several together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from flopwise.errors import counted
from flopwise.graph import Node
from flopwise.graph.construction import record
from flopwise.operators.counts import FLOPS, Counts, total
from flopwise.storage.traffic import traffic

#: Why a row has no count: there is no rule for its operator, or the rule lacks a fact about its node.
Missing: TypeAlias = Literal["", "rule", "fact"]

#: Figures that rows and sums both have, by name.
FIGURES: tuple[str, ...] = (
    "count",
    "macs",
    "needed_macs",
    "flops",
    "params",
    "buffers",
    "weight_bytes",
    "input_bytes",
    "output_bytes",
    "activations",
    "read_bytes",
    "written_bytes",
)

#: Figures of FIGURES that are computed from others when they are asked for.
_FOUND = ("macs", "needed_macs", "flops", "read_bytes", "written_bytes")

#: Figures of one training step, which rows and sums have once a profile is trained.
TRAINED: tuple[str, ...] = ("backward", "backward_macs", "backward_flops", "recomputed_macs", "saved_bytes")

_ADDED = (*(figure for figure in FIGURES if figure not in _FOUND), "unknown", "backward", "saved_bytes")

_NONE = Counts()


@record
class Row:
    """One layer: a node and its figures. A figure that cannot be known is None, never zero."""

    name: str
    #: What the convention calls the operator; the operator itself is ``node.op``.
    type: str
    node: Node
    #: Canonical operations; None when the operator has no rule or a shape is missing.
    counts: Counts | None
    #: Operations as the convention sees them; None when it cannot count the node.
    view: Counts | None
    #: ``view`` weighed by the convention, in the convention's unit.
    count: int | None
    #: Elements of trained weights first used here.
    params: int = 0
    #: Elements of statistics kept beside the weights (BatchNorm mean and variance), first used here.
    buffers: int = 0
    #: Stored bytes of weights, buffers and constant tables first used here.
    weight_bytes: int = 0
    #: Bytes of the inputs that change from one inference to the next; None when a shape is missing.
    input_bytes: int | None = 0
    #: Bytes of all outputs; None when a shape is missing.
    output_bytes: int | None = 0
    #: Elements of all outputs; None when a shape is missing.
    activations: int | None = 0
    #: How often the layer runs in one inference, and for what its figures stand; 0 in a branch that does not count,
    #: None when that is unknown.
    times: int | None = 1
    #: The control flow around the layer, outermost first: row name of the operator and which of its graphs.
    within: tuple[str, ...] = ()
    #: Why there is no count: there is no rule for the operator, or the rule lacks a fact about this node.
    missing: Missing = ""
    #: The same in words.
    note: str = ""
    #: Whether the figures are upper bounds, because the data decide how much work there is or how large a tensor is.
    bound: bool = False
    #: Whether the convention's tool sees the layer as part of the one before.
    merged: bool = False
    #: Whether the convention's tool lists the layer once more: what it moves is in the row before.
    again: bool = False
    #: Of an attention: canonical operations on the pairs of queries and keys that its masks leave; None: ``counts``.
    needed: Counts | None = None
    #: Canonical operations of the backward pass; None when there is no rule, or no training was asked for.
    backward_counts: Counts | None = None
    #: The same weighed by the convention; None when the convention says nothing of a backward pass.
    backward: int | None = None
    #: Canonical operations of the forward pass that a fused kernel executes once more on the way back.
    recomputed: Counts | None = None
    #: Canonical operations of the forward pass that checkpoints execute once more on the way back: in
    #: ``backward_counts`` too.
    checkpointed: Counts | None = None
    #: Bytes of activations that the layer is the first to keep for the backward pass.
    saved_bytes: int | None = None
    #: Why there is no count of the backward pass.
    untrained: str = ""

    @property
    def read_bytes(self) -> int | None:
        """Bytes that the operator reads, stored ones included; None when a shape is missing."""
        return self._moved(traffic(self.node).read)

    @property
    def written_bytes(self) -> int | None:
        """Bytes that the operator writes, views left out; None when a shape is missing."""
        return self._moved(traffic(self.node).written)

    def _moved(self, once: int | None) -> int | None:
        if self.again or self.times == 0:
            return 0
        return None if once is None or self.times is None else once * self.times

    @property
    def backward_macs(self) -> int | None:
        """Canonical multiply-accumulates of the backward pass."""
        return None if self.backward_counts is None else self.backward_counts.mac

    @property
    def recomputed_macs(self) -> int | None:
        """Canonical multiply-accumulates that a fused kernel recomputes in the backward pass."""
        return None if self.recomputed is None else self.recomputed.mac

    @property
    def backward_flops(self) -> int | None:
        """Canonical floating-point operations of the backward pass."""
        return None if self.backward_counts is None else self.backward_counts.dot(FLOPS)

    @property
    def macs(self) -> int | None:
        """Canonical multiply-accumulates."""
        return None if self.counts is None else self.counts.mac

    @property
    def needed_macs(self) -> int | None:
        """Canonical multiply-accumulates; of an attention only those that its masks leave."""
        return self.macs if self.needed is None else self.needed.mac

    @property
    def flops(self) -> int | None:
        """Canonical floating-point operations: 2 per multiply-accumulate, 1 per other arithmetic operation."""
        return None if self.counts is None else self.counts.dot(FLOPS)

    @property
    def unknown(self) -> int:
        """1 when the row has no count in its convention, else 0."""
        return int(self.count is None)

    def __repr__(self) -> str:
        """One line: the layer, its operator and its main figures."""
        return f"<Row {self.name!r}: {self.node.op}, {_main(self, self.count is None)}>"


@dataclass(frozen=True, slots=True)
class Sum:
    """Rows added up: the figures of the rows that have them, and how many rows have no count (``unknown``)."""

    name: str
    rows: tuple[Row, ...]
    counts: Counts
    view: Counts
    count: int
    params: int
    buffers: int
    weight_bytes: int
    input_bytes: int
    output_bytes: int
    activations: int
    #: Rows without a count: when there are any, the true figure is at least the one given.
    unknown: int
    #: Class of the module when the rows were grouped by module, else "".
    kind: str = ""
    #: Nesting depth when the rows were grouped by module, else 0.
    depth: int = 0
    #: Of a training step: see ``Row``.
    backward_counts: Counts = _NONE
    backward: int = 0
    saved_bytes: int = 0

    def __repr__(self) -> str:
        """One line: what is added up, how many layers, and the main figures."""
        return f"<Sum {self.name!r}: {counted(len(self.rows), 'layer')}, {_main(self, self.unknown > 0)}>"

    @property
    def read_bytes(self) -> int:
        """Bytes that the rows read, where they are known."""
        return sum(row.read_bytes or 0 for row in self.rows)

    @property
    def written_bytes(self) -> int:
        """Bytes that the rows write, where they are known."""
        return sum(row.written_bytes or 0 for row in self.rows)

    @property
    def backward_macs(self) -> int:
        """Canonical multiply-accumulates of the backward pass of the rows that have a count."""
        return self.backward_counts.mac

    @property
    def recomputed_macs(self) -> int:
        """Canonical multiply-accumulates that fused kernels recompute in the backward pass."""
        return sum(row.recomputed_macs or 0 for row in self.rows)

    @property
    def backward_flops(self) -> int:
        """Canonical floating-point operations of the backward pass of the rows that have a count."""
        return self.backward_counts.dot(FLOPS)

    @property
    def macs(self) -> int:
        """Canonical multiply-accumulates of the rows that have a count."""
        return self.counts.mac

    @property
    def needed_macs(self) -> int:
        """Canonical multiply-accumulates of the rows that have a count; of attention only those that masks leave."""
        return sum(row.needed_macs or 0 for row in self.rows)

    @property
    def flops(self) -> int:
        """Canonical floating-point operations of the rows that have a count."""
        return self.counts.dot(FLOPS)


def add_up(name: str, rows: Iterable[Row], kind: str = "", depth: int = 0) -> Sum:
    """The sum of the rows, under a name."""
    rows = tuple(rows)
    return Sum(
        name=name,
        rows=rows,
        counts=total(r.counts for r in rows if r.counts is not None),
        view=total(r.view for r in rows if r.view is not None),
        backward_counts=total(r.backward_counts for r in rows if r.backward_counts is not None),
        kind=kind,
        depth=depth,
        **{key: sum((v for v in (getattr(r, key) for r in rows) if v is not None), 0) for key in _ADDED},
    )


def _main(item: Row | Sum, partial: bool) -> str:
    """Count, MACs, FLOPs and parameters in words; a sum of which some rows are unknown is a lower bound."""
    least = ">= " if partial and isinstance(item, Sum) else ""
    figures = (("count", item.count), ("MACs", item.macs), ("FLOPs", item.flops))
    texts = [f"{name} {'?' if value is None else least + text_of(value)}" for name, value in figures]
    return ", ".join([*texts, f"params {text_of(item.params)}"])


def text_of(value: object) -> str:
    """A figure with every digit, or as a formula."""
    return f"{value:,}" if isinstance(value, int) else str(value)
