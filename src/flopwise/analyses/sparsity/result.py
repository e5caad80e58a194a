"""The sparsity of a model as a result: its tensors, its layers, and what JSON says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flopwise._arguments import checked
from flopwise._results import Json, Printed, fields
from flopwise.analyses.sparsity.asking import Block, SparsityQuery
from flopwise.analyses.sparsity.measuring import Measured
from flopwise.analyses.sparsity.search import FoundBlock
from flopwise.errors import InputError, did_you_mean
from flopwise.rows import Row


@dataclass(frozen=True, slots=True)
class Effective:
    """Multiply-accumulates of a layer, or of a model, that are left when zeros are skipped.

    Of a layer None where its multiply-accumulates or its zeros are unknown.
    """

    macs: int | None
    #: Without those of single zero weights.
    zeros: int | None
    #: Without those of zero blocks, for each block that was asked for.
    blocks: tuple[int | None, ...] = ()
    #: Without those that a pattern saves where all groups of a weight hold it.
    patterns: tuple[int | None, ...] = ()
    #: Without those of the zero blocks that the search found.
    found: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One layer: its weights, and its multiply-accumulates."""

    row: Row
    #: All its trained weights.
    weights: tuple[Measured, ...]
    effective: Effective
    #: Why its multiply-accumulates are counted in full although it has weights ("" when they are not).
    full: str = ""
    #: Whether the model does not hold the elements of one of its weights.
    absent: bool = False

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.row.name

    @property
    def elements(self) -> int:
        """Elements of its weights."""
        return sum(w.elements for w in self.weights)

    @property
    def zeros(self) -> int | None:
        """Zeros in its weights; None when they are unknown in one."""
        return None if self.absent else total([w.zeros for w in self.weights])

    @property
    def found(self) -> FoundBlock | None:
        """The block that the search found in its largest weight."""
        return self._largest.found if self._largest else None

    @property
    def block(self) -> Block | None:
        """The block that the search found in its largest weight, as rows (outputs) and columns (inputs)."""
        return self._largest.block if self._largest else None

    @property
    def _largest(self) -> Measured | None:
        return max(self.weights, key=lambda w: w.elements, default=None)


@dataclass(frozen=True, eq=False)
class Sparsity(Printed):
    """The zeros of a model, each stored weight once."""

    name: str
    source: str
    format: str
    query: SparsityQuery
    tensors: tuple[Measured, ...]
    #: The layers that have weights; () where the file has no operators.
    layers: tuple[Layer, ...]
    #: Of all layers; None where the file has no operators.
    effective: Effective | None
    notes: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Elements of all tensors whose zeros are known."""
        return sum(t.elements for t in self.tensors if t.zeros is not None)

    @property
    def zeros(self) -> int:
        """Zeros of all tensors in which they are known."""
        return sum(t.zeros for t in self.tensors if t.zeros is not None)

    @property
    def unknown(self) -> tuple[Measured, ...]:
        """The tensors in which it is unknown what stands for zero."""
        return tuple(t for t in self.tensors if t.zeros is None)

    @property
    def ratio(self) -> float | None:
        """Share of zeros in the tensors in which they are known; None when there are none."""
        return self.zeros / self.elements if self.elements else None

    @checked
    def tensor(self, name: str) -> Measured:
        """The tensor of a name.

        Raises:
            InputError: there is none.
        """
        tensor = next((t for t in self.tensors if t.name == name), None)
        if tensor is None:
            raise InputError(unknown_tensor(name, [t.name for t in self.tensors]))
        return tensor

    def to_dict(self) -> Json:
        """The stable JSON schema ``flopwise.sparsity/1``: integers, shares between 0 and 1, texts, or None."""
        query = self.query
        return {
            "schema": "flopwise.sparsity/1",
            "model": fields(self, "name source format"),
            "asked": {
                "blocks": [str(b) for b in query.blocks],
                "patterns": [str(p) for p in query.patterns],
                **fields(query, "min_size min_ratio tolerance"),
                "ranks": None if query.ranks is None else sorted(query.ranks),
                "order": query.order,
            },
            "totals": {
                "tensors": len(self.tensors),
                **fields(self, "elements zeros ratio"),
                "unknown": len(self.unknown),
                **_effective(self.effective, self),
            },
            "tensors": [_tensor(t) for t in self.tensors],
            "layers": [_layer(layer, self) for layer in self.layers],
            "notes": list(self.notes),
        }


def unknown_tensor(name: str, names: Sequence[str]) -> str:
    """The error for a tensor that is not there."""
    listed = f"weights: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
    return f"no weight is named {name!r}; {did_you_mean(name, names, '') or listed}"


#: Figures of the blocks and of the groups of a tensor, as JSON lists them.
_OF_BLOCKS = "blocks at_edges zero ratio elements"
_OF_GROUPS = "groups holding ratio holds"


def _effective(effective: Effective | None, sparsity: Sparsity) -> Json:
    if effective is None:
        return {"macs": None, "effective_macs": None}
    query = sparsity.query
    return {
        "macs": effective.macs,
        "effective_macs": {
            "zeros": effective.zeros,
            "search": effective.found,
            "blocks": {str(b): macs for b, macs in zip(query.blocks, effective.blocks, strict=True)},
            "patterns": {str(p): macs for p, macs in zip(query.patterns, effective.patterns, strict=True)},
        },
    }


def _tensor(tensor: Measured) -> Json:
    block = tensor.found
    return {
        **fields(tensor, "name layer op"),
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "matrix": fields(tensor, "matrices rows columns"),
        **fields(tensor, "elements zero_point zeros ratio"),
        "search": None if block is None else {"block": [block.first, block.second], "ratio": block.ratio},
        "blocks": [{"block": str(b.block), **fields(b, _OF_BLOCKS)} for b in tensor.blocks],
        "patterns": [{"pattern": str(g.pattern), **fields(g, _OF_GROUPS)} for g in tensor.patterns],
        **fields(tensor, "outputs zero_outputs inputs zero_inputs note"),
    }


def _layer(layer: Layer, sparsity: Sparsity) -> Json:
    zeros, elements = layer.zeros, layer.elements
    return {
        "name": layer.name,
        "op": layer.row.node.op,
        "tensors": [w.name for w in layer.weights],
        "elements": elements,
        "zeros": zeros,
        "ratio": None if zeros is None else zeros / elements if elements else 0.0,
        **_effective(layer.effective, sparsity),
    }


def total(values: Sequence[int | None]) -> int | None:
    """The sum; None where one of the values is unknown."""
    return None if None in values else sum(v for v in values if v is not None)
