"""The sparsity of a model: its tensors, its layers, and what the zeros are worth in multiply-accumulates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flopwise._arguments import checked
from flopwise._results import Json, Printed, fields
from flopwise.answers.sparsity.asking import Block, Pattern, SparsityQuery
from flopwise.answers.sparsity.measuring import FoundBlock, Measured, Weight, measure
from flopwise.answers.sparsity.views import PLAIN, Unpacked, Use, Uses, as_stored, concrete, multiplies_weights
from flopwise.errors import InputError, did_you_mean
from flopwise.graph import Graph
from flopwise.graph.stored import Stored
from flopwise.operators.folding import Folding, constant
from flopwise.operators.tables import row as row_of
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.graph import Tensor

# The sparsity of a model as a result: its tensors, its layers, and what JSON says of them.


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
    def exact(self) -> bool:
        """True if the zeros of all weights and the MACs of all layers are known."""
        return not self.unknown and all(layer.effective.macs is not None for layer in self.layers)

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
            "layers": [_layer_content(layer, self) for layer in self.layers],
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


def _layer_content(layer: Layer, sparsity: Sparsity) -> Json:
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


#: The operator that stands for a tensor in a file without operators.
ALONE = "flopwise::Tensor"


def sparsity_of(
    profile: Profile,
    query: SparsityQuery,
    tensors: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Sparsity:
    """The zeros of a profiled model, its weights streamed from where they are stored.

    Args:
        profile: its convention does not matter: multiply-accumulates are canonical.
        query: what to look for.
        tensors: names of the weights to read; None: all.
        threads: how many threads count; None: one for each core.
        progress: called with what is being done.

    Raises:
        ModelError: a weight cannot be read.
        InputError: a weight is not there.
    """
    from flopwise.formats.weights.graphs import stored_in_graph
    from flopwise.formats.weights.tensor import NETWORK

    graph = profile.graph
    folding, uses = constant(graph), Uses.from_graph(graph)
    with stored_in_graph(graph) as stored:
        holders = _Weights(graph, query, {p.name: p for p in stored.tensors})
        by_row = [(row, *holders.take(row, folding, uses)) for row in profile.rows]
        names = _chosen(tensors, list(holders.weights))
        measured = {m.name: m for m in measure([holders.weights[n] for n in names], query, threads, progress)}
        fetched = tuple(note for note in stored.notes_by_now() if NETWORK in note)
    layers = tuple(_layer(row, names, used, measured, query) for row, names, used in by_row)
    total = None if tensors is not None else _total([layer.effective for layer in layers], query)
    return Sparsity(
        graph.name,
        graph.source,
        graph.format,
        query,
        tuple(measured.values()),
        tuple(layer for layer in layers if layer.weights or layer.absent),
        total,
        (*_notes(tuple(measured.values()), layers), *holders.notes(), *fetched),
    )


def sparsity_of_stored(
    source: str,
    format: str,
    payloads: Sequence[Stored],
    why: str,
    query: SparsityQuery,
    tensors: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Sparsity:
    """The zeros of tensors whose operators are unknown: rows are the first axis, zero is 0.

    Args:
        source: where they come from.
        format: of the file.
        payloads: the tensors.
        why: why nothing is known of operators.
        query: what to look for.
        tensors: names of the tensors to read; None: all.
        threads: how many threads count; None: one for each core.
        progress: called with what is being done.

    Raises:
        ModelError: a tensor cannot be read.
        InputError: a tensor is not there.
    """
    names = _chosen(tensors, [p.name for p in payloads])
    weights = [
        Weight(p, as_stored(tuple(p.shape), query.order), PLAIN, layer=getattr(p, "layer", ""), op=getattr(p, "op", ""))
        for p in payloads
        if p.name in names and p.dtype != "string"
    ]
    measured = tuple(measure(weights, query, threads, progress))
    notes = [f"no layers and no effective MACs, because {why}; rows are the first axis of each tensor"]
    integers = [m.name for m in measured if m.dtype.startswith(("int", "uint"))]
    if integers:
        notes.append(f"zero points are not known; 0 counts as zero in {_first_names(integers)}")
    return Sparsity("", source, format, query, measured, (), None, (*notes, *_notes(measured, ())))


def _chosen(tensors: Sequence[str] | None, names: Sequence[str]) -> dict[str, None]:
    """The names of the weights to read, in the order of the model.

    Raises:
        InputError: one is not there.
    """
    there = dict.fromkeys(names)
    if missing := [name for name in tensors or () if name not in there]:
        raise InputError(unknown_tensor(missing[0], names))
    selected = there.keys() if tensors is None else {*tensors}
    return {name: None for name in there if name in selected}


class _Weights:
    """The weights of a graph, each once, by the first layer that uses it."""

    def __init__(self, graph: Graph, query: SparsityQuery, payloads: Mapping[str, Stored]) -> None:
        self._graph, self._query, self._payloads = graph, query, payloads
        self.weights: dict[str, Weight] = {}
        self._absent: list[str] = []

    def take(self, row: Row, folding: Folding, uses: Uses) -> tuple[tuple[str, ...], tuple[Use, ...]]:
        """Names of all weights of a layer, and the uses of those that it multiplies with."""
        used = {use.tensor.name: use for use in uses.weights(row.node, self._query.order)}
        behind = [t for t in folding.stored(row.node) if t.kind == "weight"]
        trained = [t for t in behind if t.name in self._graph.weights and concrete(t) and t.sized]
        self._absent += [t.name for t in behind if t.name not in self._graph.weights]
        for tensor in trained:
            if tensor.name not in self.weights:
                self.weights[tensor.name] = self._weight(tensor, row, used.get(tensor.name))
        return tuple(t.name for t in behind), tuple(use for name, use in used.items() if name in self.weights)

    def _weight(self, tensor: Tensor, row: Row, use: Use | None) -> Weight:
        """The weight as it is measured: its elements, their view as matrices, and its zero point."""
        shape = tuple(int(d) for d in tensor.dims)
        stored = self._payloads.get(tensor.name)
        if stored is not None and row.node.op == ALONE:  # blocks of bytes, of which the file says what they hold
            return Weight(stored, as_stored(tuple(stored.shape), self._query.order), PLAIN, "", row.name, row.node.op)
        if stored is None or tuple(stored.shape) != shape:
            stored = replace(self._graph.weights[tensor.name], shape=shape)
        if use is not None and use.packing is not None:
            unpacked = Unpacked(stored, use.packing)
            return Weight(unpacked, use.view, use.zero, use.reason, row.name, row.node.op)
        if use is not None:
            zero, reason = use.zero, use.reason
            if zero is not None and not zero.fits(shape):
                zero, reason = None, "unknown: its zero points do not fit its shape"
            return Weight(stored, use.view, zero, reason, row.name, row.node.op, use.assumed)
        packed = row_of(row.node.op).inputs.packed
        reason = "unknown: its elements are packed by the operator" if packed and tensor.dtype == "uint8" else ""
        return Weight(
            stored, as_stored(shape, self._query.order), None if reason else PLAIN, reason, row.name, row.node.op
        )

    def notes(self) -> tuple[str, ...]:
        """A note on weights that are not there."""
        absent = list(dict.fromkeys(self._absent))
        return (f"unknown: the elements of {_first_names(absent)} are not in the model",) if absent else ()


def _layer(
    row: Row, names: tuple[str, ...], used: tuple[Use, ...], measured: Mapping[str, Measured], query: SparsityQuery
) -> Layer:
    """The zeros of a layer's weights, and the multiply-accumulates that are left without them."""
    weights = tuple(measured[name] for name in dict.fromkeys(names) if name in measured)
    factors = [measured[use.tensor.name] for use in used if use.tensor.name in measured]
    elements = sum(f.elements for f in factors)
    macs, absent = row.macs, not set(names) <= set(measured)
    if macs is None or (absent and multiplies_weights(row.node.op)):
        nothing = tuple([None] * len(query.blocks)), tuple([None] * len(query.patterns))
        return Layer(row, weights, Effective(macs, None, *nothing, None), absent=absent)
    if not factors or not macs or not elements or macs % elements or len(factors) < len(used):
        full = "unknown uses" if weights and macs else ""
        same = Effective(macs, macs, (macs,) * len(query.blocks), (macs,) * len(query.patterns), macs)
        return Layer(row, weights, same, full, absent)
    each = macs // elements

    def left(skipped: Callable[[Measured], int]) -> int | None:
        return None if any(f.zeros is None for f in factors) else macs - each * sum(map(skipped, factors))

    def of_block(block: Block) -> int | None:
        return left(lambda f: next(b.elements for b in f.blocks if b.block == block))

    def of_pattern(pattern: Pattern) -> int | None:
        def saved(factor: Measured) -> int:
            groups = next(g for g in factor.patterns if g.pattern == pattern)
            return factor.elements - groups.kept if groups.holds else 0

        return left(saved)

    return Layer(
        row,
        weights,
        Effective(
            macs,
            left(lambda f: f.zeros or 0),
            tuple(of_block(b) for b in query.blocks),
            tuple(of_pattern(p) for p in query.patterns),
            left(lambda f: round(f.found.ratio * f.elements) if f.found else 0),
        ),
    )


def _total(parts: Sequence[Effective], query: SparsityQuery) -> Effective:
    """All layers together; a figure that a layer lacks adds that layer in full where its own figure is known."""

    def sums(figures: Sequence[int | None]) -> int | None:
        full = [p.macs if figure is None else figure for p, figure in zip(parts, figures, strict=True)]
        numbers = [number for number in full if number is not None]
        return sum(numbers) if numbers or not parts else None

    return Effective(
        sums([p.macs for p in parts]),
        sums([p.zeros for p in parts]),
        tuple(sums([p.blocks[i] for p in parts]) for i in range(len(query.blocks))),
        tuple(sums([p.patterns[i] for p in parts]) for i in range(len(query.patterns))),
        sums([p.found for p in parts]),
    )


def _notes(measured: Sequence[Measured], layers: Sequence[Layer]) -> tuple[str, ...]:
    notes = []
    unknown = [m for m in measured if m.zeros is None]
    if unknown:
        notes.append(
            f"unknown: the zeros of {_first_names([m.name for m in unknown])} ({unknown[0].note.partition(': ')[2]})"
        )
    uncounted = [layer.name for layer in layers if layer.effective.macs is None]
    if uncounted:
        notes.append(f"unknown: the MACs of {_first_names(uncounted)}; totals are lower bounds")
    full = sorted({layer.row.node.op for layer in layers if layer.full})
    if full:
        notes.append(
            f"effective MACs count {_first_names(full)} in full: it is not known how often each weight is used"
        )
    assumed = [m.name for m in measured if m.zeros is not None and m.note]
    if assumed:
        notes.append(
            f"rows of {_first_names(assumed)} are assumed to be the first axis, because the operators do not say"
        )
    return tuple(notes)


def _first_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more
