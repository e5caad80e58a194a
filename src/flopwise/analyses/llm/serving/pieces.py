"""The layers of a program as the fullest device has them: what each stores, multiplies, reads and sends."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

from flopwise.analyses.llm.division import NUMBER, Division, layer_of, layers_of, part_of, stages
from flopwise.analyses.llm.program import Program
from flopwise.analyses.llm.serving.ways import Split
from flopwise.analyses.llm.step import works_of
from flopwise.analyses.llm.traffic import bytes_by_name, touched
from flopwise.analyses.needed.needed import needed
from flopwise.analyses.timing.quantities import Work
from flopwise.graph import STORED
from flopwise.memory.attention import Unfused, is_fused, unfused_attention
from flopwise.memory.experts import Experts, experts_of
from flopwise.operators.folding import constant
from flopwise.operators.tables import row as row_of
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

_Size = TypeVar("_Size")

_LAYER = re.compile(r"\.layers\.\d+\.")
_BLOCK = re.compile(NUMBER.pattern + r"[^.]*(?:\.\d+(?=\.|$))?")


@dataclass(frozen=True)
class CountedCall:
    """A call of a program that was run, and its work row by row."""

    profile: Profile
    program: Program
    #: Sequences, and tokens that are fed to each.
    batch: int
    new: int
    #: Whether the vocabulary is scored for the last position of each sequence alone.
    last_logits: bool = True
    #: Names of the state's tensors.
    state: frozenset[str] = frozenset()

    @property
    def tokens(self) -> int:
        """Tokens fed, over all sequences."""
        return self.batch * self.new

    @cached_property
    def works(self) -> dict[int, Work]:
        """The work of each row, by the row's identity."""
        rows, program = self.profile.rows, self.program
        least = needed(self.profile, self.last_logits).least
        each = works_of(self.profile, least, program.types, program.state_type)
        return {id(row): work for row, work in zip(rows, each, strict=True)}

    @cached_property
    def layers(self) -> list[list[Row]]:
        """The rows of each layer, the first and the last with what comes before and after them."""
        return stages(self.profile.rows, max(layers_of(self.profile.rows), 1))

    @cached_property
    def unfused(self) -> list[Unfused]:
        """The attentions that are computed operator by operator."""
        return unfused_attention(self.profile.graph)

    @cached_property
    def nbytes(self) -> dict[str, Fraction]:
        """Bytes of each stored tensor, by name."""
        return bytes_by_name(self.profile, self.program.widths)

    @cached_property
    def copies(self) -> dict[str, int]:
        """For how many tensors each stored tensor stands, by name."""
        folding = constant(self.profile.graph)
        return {t.name: row.node.copies for row in self.profile.rows for t in folding.stored(row.node)}

    @cached_property
    def least(self) -> dict[str, Fraction]:
        """The part of each stored tensor that is read at least, by name."""
        return {name: shares[2] for name, shares in touched(self.profile, self.tokens).shares.items()}

    @cached_property
    def handed_on(self) -> list[int]:
        """Bytes that each layer makes and later layers take."""
        numbers = {id(row): number for number, rows in enumerate(self.layers) for row in rows}
        inside = [row for row in self.profile.rows if layer_of(row) is not None]
        last = {t.name: numbers[id(row)] for row in inside for t in row.node.known_inputs}
        sums = [0] * len(self.layers)
        for row in inside:
            later = [t for t in row.node.known_outputs if last.get(t.name, 0) > numbers[id(row)] and t.sized]
            sums[numbers[id(row)]] += sum(t.nbytes for t in later)
        return sums


@dataclass(frozen=True)
class Stack:
    """A stored stack of experts, whole."""

    experts: Experts
    nbytes: Fraction
    #: How many of them a token takes, and whether tp divides each.
    chosen: int
    divided: bool

    def on_device(self, split: Split) -> tuple[int, int]:
        """Bytes on a device, and those that a call reads at least: of a token's experts one device has the most."""
        one = self.nbytes / self.experts.matrices / (split.sharers // split.ep if self.divided else 1)
        most = -(-self.chosen // split.ep)
        return part_of(one, Fraction(self.experts.matrices, split.ep)), part_of(one, Fraction(most))


@dataclass
class Piece:
    """A layer on a device, or several, with the batch that was run; in multiply-adds and bytes."""

    #: What is stored, and what a call reads of it at least, by the name of the stored tensor; experts are apart.
    stored: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    experts: dict[str, Stack] = field(default_factory=dict)
    #: Types that products may be computed in -> multiply-adds, of attention's scores and values and of all else.
    attention: dict[tuple[str, ...], Fraction] = field(default_factory=dict)
    products: dict[tuple[str, ...], Fraction] = field(default_factory=dict)
    #: The parts of the state's tensors, by name.
    state: dict[str, Fraction] = field(default_factory=dict)
    #: Sums of all devices' parts: of experts, and of everything else.
    reduced_experts: int = 0
    reduced: int = 0
    #: Scores of the vocabulary for the positions that are asked for.
    scores: int = 0
    #: What all tokens send to their experts, and get back from them.
    dispatched: int = 0
    #: Results of attention, and what the next layer takes over.
    attended: int = 0
    handed_on: int = 0

    def numbered(self, number: int) -> Piece:
        """The layer of this number, which is like this one: with tensors of its own."""

        def own(tensors: Mapping[str, _Size]) -> dict[str, _Size]:
            return {name if ".shared." in name else f"{number}:{name}": size for name, size in tensors.items()}

        return replace(
            self,
            stored=own(self.stored),
            read=own(self.read),
            experts=own(self.experts),
            attention=dict(self.attention),
            products=dict(self.products),
            state={_LAYER.sub(f".layers.{number}.", name, count=1): part for name, part in self.state.items()},
        )

    def add(self, other: Piece) -> None:
        """Take the next layer in; tensors that both use are stored and read once."""
        self.stored.update(other.stored)
        self.state.update(other.state)
        self.experts.update(other.experts)
        self.read.update((name, max(nbytes, self.read.get(name, 0))) for name, nbytes in other.read.items())
        for own, others in ((self.attention, other.attention), (self.products, other.products)):
            own.update((types, own.get(types, Fraction(0)) + macs) for types, macs in others.items())
        for name in ("reduced_experts", "reduced", "scores", "dispatched", "attended"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.handed_on = other.handed_on


def pieces(call: CountedCall, division: Division) -> list[Piece]:
    """The layers of a call on the fullest device, the first and the last with what comes before and after them."""
    order = call.program.order
    groups = call.layers if order is None else list(_kinds(call.profile.rows))
    each = list(_each(call, division, groups))
    if order is None:
        return each
    head, kinds, tail = each[0], each[1:-1], each[-1]
    layers = [kinds[kind].numbered(number) for number, kind in enumerate(order)]
    layers[-1].handed_on = 0
    layers[-1].add(tail)
    head.add(layers[0])
    return [head, *layers[1:]] if len(layers) > 1 else [head]


def _kinds(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows before the layers, those of each kind of layer, and those after them."""
    inside = [n for n, row in enumerate(rows) if layer_of(row) is not None]
    yield list(rows[: inside[0]])
    kinds: dict[object, list[Row]] = {}
    for row in rows[inside[0] : inside[-1] + 1]:
        kinds.setdefault(layer_of(row), []).append(row)
    yield from kinds.values()
    yield list(rows[inside[-1] + 1 :])


def _each(call: CountedCall, division: Division, groups: Sequence[Sequence[Row]]) -> Iterator[Piece]:
    """The pieces that groups of rows are on the fullest device, one of each where a row stands for several."""
    nodes = call.profile.graph.nodes
    attention = {id(node) for node in nodes if is_fused(node)} | {id(nodes[one.places[-1]]) for one in call.unfused}
    scores = attention | {id(nodes[place]) for one in call.unfused for place in one.places}
    stored = _stored_bytes(call, division)
    stacks = {
        name: Stack(
            experts,
            call.nbytes[name] / call.copies[name],
            math.ceil(call.least.get(name, 0) * experts.matrices),
            division.weight(name) < 1,
        )
        for name, experts in division.experts.items()
    }
    state = dict(_state_parts(call, division))
    handed = call.handed_on if len(groups) == len(call.layers) and groups[0] is call.layers[0] else None
    for number, rows in enumerate(groups):
        last = rows[-1].node.known_outputs if rows else ()
        piece = Piece(handed_on=handed[number] if handed is not None else sum(t.nbytes for t in last))
        for row in rows:
            for tensor in division.folding.stored(row.node):
                if tensor.name in stacks:
                    piece.experts[tensor.name] = stacks[tensor.name]
                elif tensor.name in stored:
                    piece.stored[tensor.name], piece.read[tensor.name] = stored[tensor.name]
            work = call.works[id(row)]
            if work.least:
                sums = piece.attention if id(row.node) in scores else piece.products
                sums[work.arithmetic] = sums.get(work.arithmetic, Fraction(0)) + Fraction(
                    work.least, row.node.copies
                ) * division.row(row)
            piece.state.update(state.get(id(row), {}))
            if id(row.node) in attention:
                piece.attended += part_of(row.node.output().nbytes, division.result(row.node.output()))
        _add_traffic(piece, rows, call, division)
        yield piece


def _stored_bytes(call: CountedCall, division: Division) -> dict[str, tuple[int, int]]:
    """Bytes of each stored tensor on a device, and those that the call reads at least, by name."""
    parts = {name: division.weight(name) / call.copies[name] for name in call.nbytes}
    return {
        name: (part_of(nbytes, parts[name]), part_of(nbytes * call.least.get(name, 0), parts[name]))
        for name, nbytes in call.nbytes.items()
    }


def _state_parts(call: CountedCall, division: Division) -> Iterator[tuple[int, dict[str, Fraction]]]:
    """The row that takes each tensor of the state first -> the part of it that a device has.

    Where new tokens come in heads that are divided, the state is; latents are not, and every device has all of them.
    """
    names = {name: name for name in call.state}
    for row in call.profile.rows:
        tensors = {names[t.name] for t in row.node.known_inputs if t.name in names}
        if tensors and row.node.op == "Slice":  # a window leaves its first token out
            names.update((t.name, name) for t in row.node.known_outputs for name in tensors)
        elif tensors:
            yield id(row), dict.fromkeys(tensors, division.inside(row))
            names = {alias: name for alias, name in names.items() if name not in tensors}


def _add_traffic(piece: Piece, rows: Sequence[Row], call: CountedCall, division: Division) -> None:
    """Count what the devices of a layer tell each other."""
    mixtures = [row for row in rows if experts_of(row.name, row.node) is not None]
    of_experts = {_block(row) for row in mixtures}
    blocks = _sums(piece, rows, call, division)
    piece.reduced_experts = sum(nbytes for block, nbytes in blocks.items() if block in of_experts)
    piece.reduced = sum(nbytes for block, nbytes in blocks.items() if block not in of_experts)
    if mixtures:
        sent, back = mixtures[0].node.input(0), mixtures[-1].node.output()
        narrow = (
            "float8e4m3fn" in call.works[id(mixtures[0])].dtypes
        )  # the products take them in this type, so it is sent
        piece.dispatched = (sent.numel if narrow else sent.nbytes) + back.nbytes


def _sums(piece: Piece, rows: Sequence[Row], call: CountedCall, division: Division) -> dict[str, int]:
    """Bytes of the results that all devices add up, by the part of the layer; and the scores of the vocabulary."""
    reduced = {id(row) for row in division.reduced}
    blocks: dict[str, int] = {}
    for row in rows:
        if (division.row(row) == 1 and id(row) not in reduced) or not row.node.known_outputs:
            continue
        output = row.node.output()
        width = output.dims[-1] * output.nbytes // max(output.numel, 1)
        if layer_of(row) is None and "picks" not in row_of(row.node.op).effects:
            if any(t.kind in STORED and len(t.dims) > 1 for t in division.folding.stored(row.node)):
                piece.scores += (call.batch if call.last_logits else output.numel // output.dims[-1]) * width
        elif id(row) in reduced:  # what an attention or a network of a layer adds up is reduced once
            blocks[_block(row)] = min(call.tokens * width, output.nbytes)  # a decoder starts with one token
    return blocks


def _block(row: Row) -> str:
    """The part of a layer that a row is in, such as "model.layers.3.mlp" or "encoder.block.3.layer.1"."""
    match = _BLOCK.search(row.node.module)
    return row.node.module[: match.end()] if match else row.node.module
