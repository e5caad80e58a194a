"""Graph + operator rules + convention -> Profile: one row per layer, totals, and groupings of the rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise._results import Json, Printed
from flopwise.conventions.convention import Convention
from flopwise.errors import InputError, counted, did_you_mean
from flopwise.graph import Graph, Tensor
from flopwise.operators.operator import Rule
from flopwise.rows import FIGURES, TRAINED, Row, Sum, add_up, text_of
from flopwise.storage.liveness import peak_activation_bytes

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from flopwise.profiles.training import Training


@dataclass(frozen=True, eq=False)
class Profile(Printed):
    """The cost of a model in one convention, for the input shapes in ``graph.inputs``."""

    graph: Graph
    convention: Convention
    rows: tuple[Row, ...]
    #: Operators without a rule in this convention -> how many rows.
    unknown: Mapping[str, int]
    #: Names of tensors whose shape could not be resolved.
    unresolved: tuple[str, ...]
    notes: tuple[str, ...]
    #: What one training step takes; None without training.
    training: Training | None = None
    #: The user's own rules, and whether operators on constants were left out (None: as the convention does).
    rules: Mapping[str, Rule] = field(default_factory=dict, repr=False, compare=False)
    folding: bool | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def sum(self) -> Sum:
        """All rows added up."""
        return add_up("Total", self.rows)

    @functools.cached_property
    def peak_activation_bytes(self) -> int | None:
        """Largest sum of bytes of activations alive at once, in execution order; None when a shape is missing."""
        return peak_activation_bytes(self.graph)

    @property
    def state_bytes(self) -> int:
        """Bytes of the state that the model is handed, such as a cache of keys and values; 0 without one.

        Numbers that a cache notes for itself are no part of it.
        """
        return sum(t.nbytes for t in self.graph.inputs if t.kind == "state" and t.sized and t.dims)

    @functools.cached_property
    def own(self) -> dict[str, int]:
        """Totals that the convention's tool defines in its own way, by name ("params")."""
        view = self.convention.whole
        return {} if view is None else {name: of(self.graph) for name, of in view.totals.items()}

    @property
    def estimated(self) -> bool:
        """True where the convention's tool counts PyTorch programs and this is a file: its own count may differ."""
        return self.convention.sees == "programs" and not self.graph.program.modules

    @functools.cached_property
    def bounded(self) -> tuple[str, ...]:
        """Names of the layers whose figures are upper bounds, because they depend on the data."""
        return tuple(dict.fromkeys(row.name for row in self.rows if row.bound and row.times != 0))

    @functools.cached_property
    def stated(self) -> tuple[str, ...]:
        """Names of the tensors whose size the data decide and the file alone states."""
        results = (t for row in self.rows if row.times != 0 for t in row.node.known_outputs)
        return tuple(dict.fromkeys(t.name for t in results if t.name in self.graph.stated)) if self.graph.stated else ()

    @property
    def exact(self) -> bool:
        """True where the totals are neither lower nor upper bounds, nor one of several possible answers.

        Every row has a count and every tensor a shape; no count or shape is an upper bound, no shape that the data
        decide is taken from the file, no branch or loop is left to the data, and no elements were made up that may
        have decided what ran. Of a training step the same holds for the backward pass and for what it keeps.
        """
        return self._exact_forward and (self.training is None or self.training.exact)

    @property
    def _exact_forward(self) -> bool:
        gaps = any(row.unknown for row in self.rows) or self.unresolved
        return not (gaps or self.bounded or self.stated or self.graph.program.guessed)

    @checked
    def total(self, figure: str) -> int:
        """The model's sum of one figure; a lower bound unless ``exact``.

        Raises:
            InputError: there is no figure of that name.
        """
        figures = FIGURES if self.training is None else (*FIGURES, *TRAINED)
        if figure not in figures:
            raise InputError(
                f"unknown figure {figure!r}{did_you_mean(figure, figures) or ';'} known: {', '.join(figures)}"
            )
        value: int = getattr(self.sum, figure)
        return value

    @checked
    def by(self, key: str, depth: int | None = None) -> list[Sum]:
        """Rows grouped and summed.

        Args:
            key: "layer" (each row by itself), "op" (by operator, the most expensive first), "dtype" (by the element
                types that are computed with, the most expensive first), or "module" (by module path, in execution
                order; the whole model first, and a module's sum includes what lies below it).
            depth: with "module", how many levels of the path to show; None for all.

        Raises:
            InputError: the key is none of these.
        """
        if key == "layer":
            return [add_up(row.name, (row,)) for row in self.rows]
        from flopwise.profiles import grouping

        if key == "op":
            return grouping.by_op(self.rows)
        if key == "dtype":
            return grouping.by_dtype(self.rows, self.graph)
        if key == "module":
            return grouping.by_module(self.rows, depth, self.graph.program.modules)
        raise InputError(f"cannot group by {key!r}; choose layer, op, dtype or module")

    def _seen(self, figure: str) -> bool:
        """True where any row has a figure of ``Row``, so that its sum is meaningful."""
        return not self.rows or any(getattr(row, figure) is not None for row in self.rows)

    def to_dict(self) -> Json:
        """The profile in the stable JSON schema ``flopwise.profile/1``: every number an integer or None.

        A total is None when no row has the figure, and a lower bound when "coverage" names what is missing.
        """
        model, sums = self.graph, self.sum
        counted = not self.rows or sums.unknown < len(self.rows)
        has_counts = self._seen("counts")
        return {
            "schema": "flopwise.profile/1",
            "model": {"name": model.name, "source": model.source, "format": model.format},
            "inputs": [_input(t) for t in model.inputs],
            "convention": {"name": self.convention.name, "unit": self.convention.unit},
            "totals": {
                "count": sums.count if counted else None,
                "macs": sums.macs if has_counts else None,
                "needed_macs": sums.needed_macs if has_counts else None,
                "flops": sums.flops if has_counts else None,
                "ops": sums.counts.to_dict() if has_counts else None,
                "params": sums.params,
                "buffers": sums.buffers,
                "weight_bytes": sums.weight_bytes,
                "activations": sums.activations if self._seen("activations") else None,
                "output_bytes": sums.output_bytes if self._seen("output_bytes") else None,
                "peak_activation_bytes": self.peak_activation_bytes,
                **({"state_bytes": self.state_bytes} if self.state_bytes else {}),
                **({"own": self.own} if self.own else {}),
            },
            **({} if self.training is None else {"training": self.training.to_dict(self.rows, self.sum)}),
            "layers": [_layer(row, self.training is not None) for row in self.rows],
            "coverage": {
                "nodes": len(self.rows),
                "exact": self.exact,
                "unknown": dict(self.unknown),
                "unresolved": list(self.unresolved),
                "bounded": list(self.bounded),
                "stated": list(self.stated),
            },
            "notes": list(self.notes),
        }

    def to_pandas(self) -> pandas.DataFrame:
        """One line per layer, in the columns of the JSON schema (needs the ``pandas`` extra)."""
        import pandas

        return pandas.DataFrame([_layer(row, self.training is not None) for row in self.rows])

    def to_arrow(self) -> pyarrow.Table:
        """One line per layer, in the columns of the JSON schema (needs the ``arrow`` extra).

        The model, the inputs, the convention and the totals are JSON in the metadata of the table's schema, under the
        key "flopwise".

        Raises:
            InputError: a figure is too large for 64 bits, or a formula, not a number.
        """
        from flopwise.profiles.arrow import arrow_table

        return arrow_table(self.to_dict())

    def __repr__(self) -> str:
        """One line: the model, its convention and its main figures."""
        least, convention = "" if self._exact_forward else ">= ", self.convention
        count = f"{least}{text_of(self.sum.count)} {convention.unit} ({convention.name})"
        figures = f"{count}, {text_of(self.sum.params)} parameters, {counted(len(self.rows), 'layer')}"
        return f"<Profile {self.graph.name or 'model'!r}: {figures}>"


def _shape(tensor: Tensor | None) -> list[Any] | None:
    if tensor is None or tensor.shape is None:
        return None
    return [d if isinstance(d, int) else str(d) for d in tensor.shape]


def _input(tensor: Tensor) -> Json:
    entry = {"name": tensor.name, "dtype": tensor.dtype, "shape": _shape(tensor)}
    return {**entry, "kind": "state"} if tensor.kind == "state" else entry


def _layer(row: Row, trained: bool) -> Json:
    return {
        "name": row.name,
        "op": row.node.op,
        "origin": row.node.origin,
        "scope": row.node.module,
        "inputs": [_shape(t) for t in row.node.inputs],
        "outputs": [_shape(t) for t in row.node.outputs],
        "count": row.count,
        "macs": row.macs,
        **({} if row.needed is None else {"needed_macs": row.needed_macs}),
        "flops": row.flops,
        "ops": None if row.counts is None else row.counts.to_dict(),
        "params": row.params,
        "buffers": row.buffers,
        "weight_bytes": row.weight_bytes,
        "activations": row.activations,
        "output_bytes": row.output_bytes,
        **({"times": row.times, "within": list(row.within)} if row.within else {}),
        **({key: getattr(row, key) for key in TRAINED} if trained else {}),
    }
