"""Attention in a graph: as one operator, or as products of its own around a Softmax."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.operators.folding import constant
from flopwise.operators.masks import ABSORBED, pairs_left, pairs_within
from flopwise.operators.tables import row as row_of

#: Operators that are a whole attention.
_FUSED = frozenset({"Attention", "ai.onnx.preview::FlexAttention", "com.microsoft::GroupQueryAttention"})

#: What keeps one side of a diagonal.
TRIANGLE = "Trilu"


@dataclass(frozen=True)
class Unfused:
    """An attention that a graph computes operator by operator."""

    #: Places of the operators that multiply queries with keys, and weights with values.
    scores: tuple[int, ...]
    sums: tuple[int, ...]
    #: Pairs of a query and a key, over all heads, and those that the mask leaves; None where no mask is known.
    pairs: int
    left: int | None
    #: Pairs that a causal mask would leave, where a mask that is not known follows from positions; else None.
    causal: int | None

    @property
    def places(self) -> tuple[int, ...]:
        """Places of all its products."""
        return (*self.scores, *self.sums)


def is_fused(node: Node) -> bool:
    """True where an operator is a whole attention."""
    return node.op in _FUSED


def unfused_attention(graph: Graph) -> list[Unfused]:
    """The attentions that a graph computes operator by operator.

    The first product multiplies two tensors that are no weights, and nothing but operators without products stands
    between it and the Softmax; the second multiplies what comes from that Softmax with a tensor that is no weight.
    """
    folding = constant(graph)
    scores: dict[str, frozenset[int]] = {}  # tensor -> products whose results it holds
    probabilities: dict[str, frozenset[int]] = {}  # the same, behind a Softmax: places of the Softmax
    masked: set[str] | None = None  # what follows from positions, and scores that it met; None while there are none
    before: dict[int, tuple[frozenset[int], bool]] = {}
    after: dict[int, list[int]] = {}
    for place, node in enumerate(graph.nodes):
        if place in folding.positions or node.op in _FUSED:
            continue
        multiplies = row_of(node.op).inputs.has_factors
        if multiplies and any(tensor.kind == "weight" for tensor in folding.stored(node)):
            continue
        results = [tensor.name for tensor in node.known_outputs]
        names = [tensor.name for tensor in node.known_inputs]
        products, behind = _held(scores, names), _held(probabilities, names)
        if multiplies:
            for softmax in behind:
                after.setdefault(softmax, []).append(place)
            if not behind:
                scores.update(dict.fromkeys(results, frozenset({place})))
            continue
        if products:
            masked = _positional(graph) if masked is None else masked
            meets = not masked.isdisjoint(names)
            masked.update(results if meets else ())
            if node.op == "Softmax":
                before[place] = products, meets
                behind |= {place}
            else:
                scores.update(dict.fromkeys(results, products))
        if behind:
            probabilities.update(dict.fromkeys(results, behind))
    return [_unfused(graph.nodes, place, *before[place], after[place]) for place in sorted(after)]


@dataclass(frozen=True, slots=True)
class AttentionSize:
    """The sizes of an attention: heads of all sequences, tokens, and widths of a head."""

    heads: int
    queries: int
    keys: int
    key_width: int
    value_width: int
    #: The most keys that a query sees: all of them, where there is no window.
    window: int

    @property
    def products(self) -> int:
        """Multiply-adds of one pair of a query and a key."""
        return self.key_width + self.value_width


def attention_sizes(graph: Graph) -> dict[int, AttentionSize]:
    """The sizes of a graph's attentions of four axes, by the place of the operator, or of the product of its scores."""
    sizes: dict[int, AttentionSize] = {}
    for place, node in enumerate(graph.nodes):
        if is_fused(node) and all(node.has_input(n) and len(node.input(n).dims) == 4 for n in range(3)):
            batch, heads, queries, width = (int(extent) for extent in node.input(0).dims)
            keys, values = int(node.input(1).dims[-2]), int(node.input(2).dims[-1])
            left = pairs_left(node, batch, heads, queries, keys)
            width, values = node.attrs.get(ABSORBED) or (width, values)
            sizes[place] = _size(batch * heads, queries, keys, width, values, left)
    for one in unfused_attention(graph):
        if not one.pairs:
            continue
        scores, values = graph.nodes[one.scores[0]], int(graph.nodes[one.sums[0]].output().dims[-1])
        queries, keys = (int(extent) for extent in scores.output().dims[-2:])
        width = int(scores.input(0).dims[-1])
        sizes[one.scores[0]] = _size(one.pairs // (queries * keys), queries, keys, width, values, one.left)
    return sizes


def _size(heads: int, queries: int, keys: int, width: int, values: int, left: int | None) -> AttentionSize:
    """The sizes of an attention of whose pairs a mask leaves so many; the window is the least that leaves them."""

    def leaves(window: int) -> int:
        return heads * pairs_within(queries, keys, keys - queries, window - 1, 0)

    window = keys if left is None else bisect_left(range(1, keys + 1), left, key=leaves) + 1
    return AttentionSize(heads, queries, keys, width, values, min(window, keys))


def pair_tensors(graph: Graph) -> frozenset[str]:
    """Names of the tensors with an element for each pair of a query and a key, which engines, whose attention is one
    operator, do not keep: scores and masks. A sink is a key more.
    """
    starts = {place for attention in unfused_attention(graph) for place in attention.scores}
    sizes = attention_sizes(graph).values()
    extents = {(size.queries, size.keys + sink) for size in sizes for sink in (0, 1)}
    names = _positional(graph)
    for place, node in enumerate(graph.nodes):
        held = not row_of(node.op).inputs.has_factors and any(tensor.name in names for tensor in node.known_inputs)
        if place in starts or held:
            names.update(tensor.name for tensor in node.known_outputs)
    tensors = (tensor for node in graph.nodes for tensor in node.known_outputs if tensor.name in names)
    return frozenset(tensor.name for tensor in tensors if (tensor.shape or ())[-2:] in extents)


def _held(places: Mapping[str, frozenset[int]], names: Sequence[str]) -> frozenset[int]:
    """The places of the operators whose results are in these tensors."""
    return frozenset().union(*[places[name] for name in names if name in places])


def _unfused(nodes: Sequence[Node], softmax: int, products: frozenset[int], masked: bool, sums: list[int]) -> Unfused:
    """The attention around a Softmax, with what its mask leaves."""
    scores = tuple(sorted(products))
    shape, attrs = nodes[scores[0]].output().shape, nodes[softmax].attrs
    sized = shape is not None and len(shape) > 1 and all(isinstance(extent, int) for extent in shape)
    if shape is None or not sized:
        return Unfused(scores, tuple(sums), 0, None, None)
    queries, keys = int(shape[-2]), int(shape[-1])
    heads = nodes[scores[0]].output().numel // max(queries * keys, 1)

    def within(left: int | None, ahead: int | None) -> int:
        return int(heads * pairs_within(queries, keys, keys - queries, left, ahead))

    window, causal = attrs.get("left_window_size", -1), attrs.get("is_causal")
    pairs = heads * queries * keys
    if causal is not None:
        unmasked = within(None if window < 0 else window, 0 if causal else None)
        return Unfused(scores, tuple(sums), pairs, unmasked, None)
    return Unfused(scores, tuple(sums), pairs, None, within(None, 0) if masked else None)


def _positional(graph: Graph) -> set[str]:
    """Names of the tensors that follow from flags about positions, as causal masks do.

    Such flags are stored, are one side of a diagonal, or are made of numbers that follow from no input's elements.
    """
    data = {tensor.name for tensor in graph.inputs}
    names: set[str] = set()
    for node in graph.nodes:
        entry, results = row_of(node.op), [tensor.name for tensor in node.known_outputs]
        if "shape query" not in entry.effects and any(tensor.name in data for tensor in node.known_inputs):
            data.update(results)
        elif node.op == TRIANGLE or makes_flags(node):
            names.update(results)
        if not entry.inputs.has_factors:
            sources = node.known_inputs[:1] if "picks" in entry.effects else node.known_inputs
            names.update(results if any(t.name in names or is_flags(t) for t in sources) else ())
    return names


def makes_flags(node: Node) -> bool:
    """True where a node compares numbers."""
    results = node.known_outputs[:1]
    return bool(results) and results[0].dtype == "bool" and all(tensor.dtype != "bool" for tensor in node.known_inputs)


def is_flags(tensor: Tensor) -> bool:
    """True where a tensor is a stored table of flags, of as many axes as a mask has."""
    return tensor.kind in STORED and tensor.dtype in ("bool", "uint8") and len(tensor.shape or ()) > 1
