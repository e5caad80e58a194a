"""A language model's decoder by the parts that formulas of engines and trainers name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from flopwise.conventions.convention import Convention, Whole
from flopwise.conventions.papers.language_models import following, token_ids
from flopwise.graph import Graph, Node, Tensor
from flopwise.memory.attention import AttentionSize, attention_sizes, unfused_attention
from flopwise.memory.experts import GROUPED, experts_of, picked_for
from flopwise.operators.counts import Counts
from flopwise.operators.folding import constant
from flopwise.operators.tables import row as row_of

#: An attention stands at the product of its scores. Of products with stored weights there are those that route tokens
#: to experts, that score the vocabulary, and all others; embeddings are looked up. The rest multiplies nothing.
Kind: TypeAlias = Literal["attention", "router", "experts", "vocabulary", "product", "embedding", "rest"]


@dataclass(frozen=True, slots=True)
class Part:
    """An operator of a decoder."""

    kind: Kind
    #: Multiply-adds that it executes; of an attention those of all its products.
    macs: int
    #: Rows that it multiplies with its weights.
    rows: int
    #: Trained weights first used here.
    weights: tuple[Tensor, ...]
    attention: AttentionSize | None = None


@dataclass(frozen=True)
class Decoder:
    """The sizes of a language model that formulas name, and its operators in order."""

    #: Sequences, and tokens of all of them that are fed.
    batch: int
    tokens: int
    vocabulary: int
    width: int
    parts: tuple[Part, ...]

    @property
    def attentions(self) -> list[AttentionSize]:
        """The sizes of its attentions."""
        return [part.attention for part in self.parts if part.attention is not None]

    @property
    def latent(self) -> bool:
        """True where keys and values of a head differ in width, as those made of latents do."""
        return any(one.key_width != one.value_width for one in self.attentions)

    def new(self, part: Part) -> int:
        """Multiply-adds of a product for the fed tokens alone, where it is computed anew for those of the past."""
        again = part.kind == "product" and part.rows > self.tokens
        return part.macs * self.tokens // part.rows if again else part.macs


#: The multiply-adds that a formula has for a part.
Formula: TypeAlias = Callable[[Decoder, Part], int]


def decoder(graph: Graph, canonical: Sequence[Counts | None]) -> Decoder | None:
    """The parts of a language model; None for a graph whose input is no tokens that are looked up in a table."""
    name = token_ids(graph)
    ids = next((tensor for tensor in graph.inputs if tensor.name == name), None)
    if ids is None or not ids.resolved:
        return None
    reader = _Reader(graph, canonical, {ids.name})
    parts = tuple(reader.part(place, node) for place, node in enumerate(graph.nodes))
    if not reader.tables:
        return None
    rows, columns = max(reader.tables)
    return Decoder(int(ids.dims[0]), int(ids.numel), rows, columns, parts)


class _Reader:
    """The operators of a graph as parts of a decoder."""

    def __init__(self, graph: Graph, canonical: Sequence[Counts | None], ids: Collection[str]) -> None:
        self._canonical, self._by_ids, self._folding = canonical, following(graph, ids), constant(graph)
        self._attentions = attention_sizes(graph)
        self._inside = {place for one in unfused_attention(graph) for place in one.places}
        self._routers = _routers(graph)
        self._stacks = {node.module: stack for node in graph.nodes if (stack := experts_of("", node))}
        self._scores = _before_outputs(graph)
        self._owned: set[str] = set()
        #: Rows and columns of the tables that tokens are looked up in.
        self.tables: list[tuple[int, int]] = []

    def part(self, place: int, node: Node) -> Part:
        stored = [] if place in self._folding.positions else self._folding.stored(node)
        weights = tuple(t for t in stored if t.kind == "weight" and t.resolved and t.name not in self._owned)
        self._owned.update(tensor.name for tensor in weights)
        counts = self._canonical[place]
        macs = 0 if counts is None else counts.mac
        size = self._attentions.get(place)
        if size is not None:
            return Part("attention", size.heads * size.queries * size.keys * size.products, 0, weights, size)
        looked_up = node.op == "Gather" and len(weights) == 1 and len(weights[0].dims) == 2
        if looked_up and picked_for(node, weights[0], self._stacks) is None:  # biases of experts are picked, too
            if node.has_input(1) and node.input(1).name in self._by_ids:
                self.tables.append((int(weights[0].dims[0]), int(weights[0].dims[1])))
            return Part("embedding", 0, 0, weights)
        if not macs or place in self._inside or not any(len(t.dims) > 1 for t in stored if t.resolved):
            return Part("rest", 0, 0, weights)
        rows = node.output().numel // int(node.output().dims[-1])
        return Part(self._kind(place, node), macs, int(rows), weights)

    def _kind(self, place: int, node: Node) -> Kind:
        if node.op == GROUPED:
            return "experts"
        if place in self._routers:
            return "router"
        return "vocabulary" if place == self._scores else "product"


def _routers(graph: Graph) -> frozenset[int]:
    """Places of the products whose results reach a TopK before another product."""
    found: set[int] = set()
    reaching: set[str] = set()
    for place in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[place]
        if row_of(node.op).inputs.has_factors or node.op == GROUPED:
            if any(tensor.name in reaching for tensor in node.known_outputs):
                found.add(place)
        elif node.op == "TopK" or any(tensor.name in reaching for tensor in node.known_outputs):
            reaching.update(tensor.name for tensor in node.known_inputs[:1])
    return frozenset(found)


def _before_outputs(graph: Graph) -> int | None:
    """The place of the last product before the first output; None where there is none."""
    names = {graph.outputs[0].name} if graph.outputs else set()
    for place in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[place]
        if not any(tensor.name in names for tensor in node.known_outputs):
            continue
        if row_of(node.op).inputs.has_factors:
            return place
        names.update(tensor.name for tensor in node.known_inputs)
    return None


def convention(
    name: str,
    summary: str,
    source: str,
    formula: Formula,
    notes: Sequence[str],
    refuses: Mapping[Callable[[Decoder], bool], str] | None = None,
) -> Convention:
    """A tool's formula for a forward pass of a language model, as a convention.

    Args:
        name: of the convention.
        summary: what it counts, in a line.
        source: tool, commit and file.
        formula: the multiply-adds of each part.
        notes: what a reader should know.
        refuses: models that the formula cannot be worked out for, each with the reason.
    """

    def reasons(graph: Graph, whole: Decoder | None) -> list[str]:
        if whole is None:
            return ["the formula is for language models, whose inputs are tokens that are looked up in a table"]
        return [reason for refused, reason in (refuses or {}).items() if refused(whole)]

    def counts(graph: Graph, canonical: Sequence[Counts | None]) -> Sequence[Counts | None]:
        whole = decoder(graph, canonical)
        if whole is None or reasons(graph, whole):
            return [None] * len(graph.nodes)
        return [Counts(mac=formula(whole, part)) for part in whole.parts]

    def remarks(graph: Graph) -> Sequence[str]:
        return reasons(graph, decoder(graph, [None] * len(graph.nodes)))

    return Convention(
        name=name,
        unit="FLOP",
        summary=summary,
        source=source,
        weights=Counts(mac=2),
        others="zero",
        fold=False,
        whole=Whole(counts, remarks=remarks, programs=False),
        notes=tuple(notes),
    )
