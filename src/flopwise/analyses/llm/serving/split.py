"""A request divided among devices: what the fullest of them has, computes and sends, and the time that links take."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from flopwise.analyses.llm.division import (
    Division,
    Split,
    by_layer,
    layer_of,
    order_of,
    part_of,
    refuse_experts,
    stages,
)
from flopwise.analyses.llm.runs import Runs, prefill, step
from flopwise.analyses.llm.serving.memory import Cache, EngineStep, Growth, Workspace, cache_of
from flopwise.analyses.llm.step import CountedCall, stored_tensors
from flopwise.errors import InputError
from flopwise.rows import Row
from flopwise.storage.attention import is_fused
from flopwise.storage.experts import GROUPED

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device

#: Types that products may be computed in -> multiply-adds.
Products: TypeAlias = "dict[tuple[str, ...], Fraction]"

#: The attention of the first step.
_FIRST = Fraction(1)

_BLOCK = re.compile(r"(?:^|\.)\d+(?:\.|$)[^.]*(?:\.\d+(?=\.|$))?")


@dataclass(frozen=True)
class Load:
    """A call on one device: multiply-adds by the types of arithmetic, bytes that it reads at least, bytes it sends."""

    products: Mapping[tuple[str, ...], Fraction]
    read_bytes: int
    #: By the way for which they are sent.
    sent_bytes: Mapping[str, int]

    @property
    def macs(self) -> int:
        """Multiply-adds of all types."""
        return math.ceil(sum(self.products.values(), Fraction(0)))


@dataclass(frozen=True)
class Stage:
    """The fullest device of a stage."""

    weight_bytes: int
    #: The state of one sequence.
    cache: Cache
    prefill: Load
    #: A step of all sequences of the device; None for an encoder alone.
    decode: Load | None
    #: The same, of the sequences that a stage has while others have the rest.
    round: Load | None
    #: The same on average over all steps, at least: a cache grows no faster later on.
    mean: Load | None = None


class Stack(NamedTuple):
    """A stored stack of experts, whole: its matrices, their bytes, and how many of them a token takes."""

    experts: int
    nbytes: Fraction
    chosen: int
    #: Whether tp divides each.
    divided: bool

    def on_device(self, split: Split) -> tuple[int, int]:
        """Bytes on a device, and those that a call reads at least: of a token's experts one device has the most."""
        one = self.nbytes / self.experts / (split.sharers // split.ep if self.divided else 1)
        most = -(-self.chosen // split.ep)
        return part_of(one, Fraction(self.experts, split.ep)), part_of(one, Fraction(most))


@dataclass
class Piece:
    """A layer on a device, or several, with the batch that was run; in multiply-adds and bytes."""

    #: What is stored, and what a call reads of it at least; tensors that several layers use by their name, and experts.
    stored: int = 0
    read: int = 0
    common: dict[str, tuple[int, int]] = field(default_factory=dict)
    experts: Counter[Stack] = field(default_factory=Counter)
    #: Attention's scores and values, and all else.
    attention: Products = field(default_factory=dict)
    products: Products = field(default_factory=dict)
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

    def add(self, other: Piece, times: int) -> None:
        """Take in so many layers that are alike."""
        for name in ("stored", "read", "reduced_experts", "reduced", "scores", "dispatched", "attended"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        for name, (stored, read) in other.common.items():
            self.common[name] = stored, max(read, self.common.get(name, (0, 0))[1])
        for stack, count in other.experts.items():
            self.experts[stack] += times * count
        for own, others in ((self.attention, other.attention), (self.products, other.products)):
            for types, macs in others.items():
                own[types] = own.get(types, 0) + times * macs

    def weight_bytes(self, split: Split) -> tuple[int, int]:
        """Bytes that are stored, and bytes that a call reads of them at least."""
        stored = self.stored + sum(own for own, _ in self.common.values())
        read = self.read + sum(least for _, least in self.common.values())
        for stack, count in self.experts.items():
            own, least = stack.on_device(split)
            stored, read = stored + count * own, read + count * least
        return stored, read


class _Layers:
    """The layers of a call on the fullest of the devices that share each product, by the path of the layer."""

    def __init__(self, call: CountedCall, tp: int, state: Collection[str]) -> None:
        self.call, self.division = call, Division(call.profile, tp)
        groups = by_layer(call.profile.rows)
        self._works = {id(row): work for row, work in zip(call.profile.rows, call.works, strict=True)}
        self._stored = stored_tensors(call.profile)
        users: dict[str, set[str]] = {}
        for path, rows in groups.items():
            for row in rows:
                for tensor in self.division.folding.stored(row.node):
                    users.setdefault(tensor.name, set()).add(path)
        self._common = {name for name, paths in users.items() if len(paths) > 1}
        self.pieces = {path: self._piece(rows) for path, rows in groups.items()}
        #: The part of each tensor of the state that a device has, by the path of the layer that takes it.
        self.state: dict[str, list[tuple[str, Fraction]]] = {}
        for path, name, part in self._state(dict(zip(state, state, strict=True))):
            self.state.setdefault(path, []).append((name, part))

    def _piece(self, rows: Sequence[Row]) -> Piece:
        """The piece that rows are, one of each where a row stands for several."""
        call, division, piece = self.call, self.division, Piece()
        blocks: dict[str, int] = {}
        seen: set[str] = set()
        for row in rows:
            node, part = row.node, division.row(row)
            for tensor in division.folding.stored(node):
                if tensor.name not in seen and tensor.name in call.nbytes:
                    seen.add(tensor.name)
                    self._store(piece, tensor.name)
            work = self._works[id(row)]
            if work.least:
                sums = piece.attention if id(node) in call.attention else piece.products
                macs = Fraction(work.least, node.copies) * part
                sums[work.arithmetic] = sums.get(work.arithmetic, 0) + macs
            if id(node) in self._attended:
                piece.attended += part_of(node.output().nbytes, division.result(node.output()))
            if id(row) in division.reduced:  # what an attention or a network of a layer adds up is reduced once
                width, output = _width(row), node.output()
                blocks[_block(row)] = min(call.tokens * width, output.nbytes)  # a decoder starts with one token
            elif node.way is not None and node.way.kind == "vocabulary" and part < 1:
                output = node.output()
                piece.scores += (call.batch if call.last_logits else output.numel // output.dims[-1]) * _width(row)
        mixtures = [row for row in rows if row.node.op == GROUPED]
        if mixtures:
            sent, back = mixtures[0].node.input(0), mixtures[-1].node.output()
            # they are sent in the type in which products take them
            narrow = "float8e4m3fn" in self._works[id(mixtures[0])].dtypes
            piece.dispatched = (sent.numel if narrow else sent.nbytes) + back.nbytes
        of_experts = {_block(row) for row in mixtures}
        piece.reduced_experts = sum(nbytes for block, nbytes in blocks.items() if block in of_experts)
        piece.reduced = sum(blocks.values()) - piece.reduced_experts
        piece.handed_on = sum(t.nbytes for t in rows[-1].node.known_outputs if t.sized) if rows else 0
        return piece

    @cached_property
    def _attended(self) -> set[int]:
        """The nodes whose results are those of attention, by identity."""
        nodes = self.call.profile.graph.nodes
        return {id(nodes[one.places[-1]]) for one in self.call.unfused}.union(
            id(node) for node in nodes if is_fused(node)
        )

    def _store(self, piece: Piece, name: str) -> None:
        """Count the bytes of a stored tensor, and those that the call reads at least."""
        call, division = self.call, self.division
        nbytes, part = call.nbytes[name] / self._stored[name][1], division.weight(name)
        least = call.touched.shares[name][2] if name in call.touched.shares else Fraction(0)
        if name in division.experts:
            experts = division.experts[name]
            piece.experts[Stack(experts, nbytes, math.ceil(least * experts), part < 1)] += 1
            return
        own = part_of(nbytes, part), part_of(nbytes * least, part)
        if name in self._common:
            piece.common[name] = own
        else:
            piece.stored, piece.read = piece.stored + own[0], piece.read + own[1]

    def _state(self, names: dict[str, str]) -> Iterator[tuple[str, str, Fraction]]:
        """The layer that takes each tensor of the state, its name, and the part of it that a device has.

        Where new tokens come in heads that are divided, the state is; of latents every device has all.
        """
        for row in self.call.profile.rows:
            tensors = {names[t.name] for t in row.node.known_inputs if t.name in names}
            if tensors and row.node.op == "Slice":  # a window leaves its first token out
                names.update((t.name, name) for t in row.node.known_outputs for name in tensors)
            elif tensors:
                part = self.division.inside(row)
                yield from ((layer_of(row.node), name, part) for name in sorted(tensors))
                names = {alias: name for alias, name in names.items() if name not in tensors}


def _width(row: Row) -> int:
    """Bytes of a position of a result."""
    output = row.node.output()
    return output.dims[-1] * output.nbytes // max(output.numel, 1)


def _block(row: Row) -> str:
    """The part of a layer that a row is in, such as "model.layers.3.mlp" or "encoder.block.3.layer.1"."""
    match = _BLOCK.search(row.node.module)
    return row.node.module[: match.end()] if match else row.node.module


@dataclass
class Divisible:
    """A request whose calls were run, for any split."""

    runs: Runs
    #: Sequences; the calls may have been run with another number of them. Tokens of the prompt of each, and generated.
    batch: int
    prompt: int
    generate: int
    prefill: CountedCall
    decode: CountedCall | None
    #: The largest step of an engine.
    largest: EngineStep
    #: The model that guesses tokens, whose guesses ``decode`` checks; None: there is none.
    draft: Draft | None = None
    #: Stored tensors that it has in common with the model whose tokens it guesses.
    shared: Collection[str] = ()
    _workspaces: dict[int, Workspace | None] = field(default_factory=dict)
    _calls: dict[int, list[_Layers]] = field(default_factory=dict)

    @cached_property
    def growth(self) -> Growth:
        """The growth of a sequence's state."""
        return self.runs.growth(self.prompt, self.generate)

    @property
    def experts(self) -> int:
        """Experts of a layer; 0 for none, of layers with different numbers the greatest common divisor."""
        return math.gcd(*self.whole.experts.values())

    @property
    def whole(self) -> Division:
        """The program on one device."""
        return self._divided(1)[0].division

    @cached_property
    def order(self) -> Sequence[Sequence[str]]:
        """The paths of the layers of each number, whose rows may stand for others that are alike."""
        paths = self._divided(1)[0].pieces
        order = self.runs.program.order
        if order is None:
            return order_of(paths)
        each, others = [list(layer) for layer in order], {path for path in paths if path not in ("", "after")}
        for path in sorted(others.difference(*each)):
            each[0].append(path)
        return each

    @cached_property
    def grown(self) -> Fraction:
        """The attention of a step on average over all steps, by that of the first."""
        runs, layers = self.runs, self._divided(1)[-1]
        pieces = [layers.pieces[path] for own in self.order for path in own if path in layers.pieces]
        attention = sum(sum(piece.attention.values()) for piece in pieces)
        _, every = runs.generation(self.prompt, self.generate)
        first = runs.run(step(runs.program, self.prompt)).cost.products
        more = Fraction(sum(every.values()), self.generate) - sum(first.values())
        return 1 + more / attention if attention else Fraction(1)

    def repeated(self, tp: int) -> Fraction:
        """The part of the weights' bytes in matrices that each of the devices that share products has whole."""
        call, division = self.prefill, self._divided(tp)[0].division
        matrices = [n for n, (t, _) in stored_tensors(call.profile).items() if len(t.dims) > 1 and n in call.nbytes]
        whole = (call.nbytes[name] for name in matrices if name not in division.experts and division.weight(name) == 1)
        return sum(whole, Fraction(0)) / max(sum(call.nbytes.values(), Fraction(0)), Fraction(1))

    def with_batch(self, batch: int) -> Divisible:
        """The same with another number of sequences."""
        other = copy(self)  # with what is known already
        other.batch = batch
        return other

    def drafted(self, draft: Divisible, guesses: int, tokens: float, check: CountedCall) -> Divisible:
        """The same with a draft.

        Args:
            draft: the request to the draft.
            guesses: guesses of a round.
            tokens: tokens of a sequence that a round gives on average.
            check: the step that checks the guesses of a round.
        """
        return replace(self, decode=check, draft=Draft(draft, guesses, tokens), _calls={})

    def shared_bytes(self, split: Split) -> int:
        """Bytes on a device of what it has in common with the model whose tokens it guesses, on the last stage of
        which it is; the first one's embeddings are not there, but where they are the table of scores, too."""
        division, nbytes = self._divided(split.tp)[0].division, self.prefill.nbytes
        names = [name for name in self.shared if name in nbytes]
        return sum(part_of(nbytes[name], division.weight(name)) for name in names[-1 if split.pp > 1 else 0 :])

    def sequences(self, split: Split) -> int:
        """Sequences of the replica that has the most."""
        return -(-self.batch // split.dp)

    def rounds(self, split: Split) -> int:
        """Groups of a replica's sequences, on each of which another stage works at the same time."""
        return min(split.pp, self.sequences(split))

    def stages(self, split: Split) -> list[Stage]:
        """The fullest device of each stage; stages that are alike are the same.

        Raises:
            InputError: something does not divide.
        """
        split.check()
        refuse_experts(self.whole.experts, split.ep)
        split.check_stage()
        each: dict[tuple[object, bool], Stage] = {}
        result = []
        for number, paths in enumerate(stages(self.order, split.pp)):
            own, last = Counter(paths), number == split.pp - 1
            alike = frozenset(own.items()), last
            if alike not in each:
                each[alike] = self._stage(split, own, last)
            result.append(each[alike])
        return result

    def workspace(self, split: Split) -> Workspace | None:
        """The workspace of a device in the largest step; None where the size of an activation is missing."""
        if split.tp not in self._workspaces:
            division = Division(self.largest.profile, split.tp)
            self._workspaces[split.tp] = self.largest.workspace(division)
        return self._workspaces[split.tp]

    def _divided(self, tp: int) -> list[_Layers]:
        """The layers of the prompt's call, and of the step's if there is one."""
        if tp not in self._calls:
            calls = [(self.prefill, ()), *([(self.decode, self.growth.far)] if self.decode is not None else [])]
            self._calls[tp] = [_Layers(call, tp, state) for call, state in calls]
        return self._calls[tp]

    def _stage(self, split: Split, paths: Mapping[str, int], last: bool) -> Stage:
        """The fullest device of a stage of so many layers of each path."""
        layers = self._divided(split.tp)
        merged = [self._merged(own, paths) for own in layers]
        first, then = merged[0], merged[-1] if self.decode else None
        sequences = self.sequences(split)
        own = Fraction(sequences, self.prefill.batch)
        parts = [(name, part, n) for path, n in paths.items() for name, part in layers[-1].state.get(path, ())]
        whole, cache = (cache_of(self.growth, parts, ranks) for ranks in (1, split.cp))
        ring = sequences * (whole.nbytes(self.prompt) - whole.fixed_bytes)
        shares = Shares(own / split.cp, own)
        stored, read = first.weight_bytes(split)
        products = dict(first.products)
        for types, macs in first.attention.items():
            products[types] = products.get(types, 0) + macs
        products = {types: macs * shares.tokens for types, macs in products.items()}
        reading = Load(products, read, prompt_bytes(split, first, shares, ring, last))
        if then is None:
            return Stage(stored, cache, reading, None, None)
        few = Fraction(sequences, self.rounds(split))
        steps = [(Fraction(sequences), _FIRST), (few, _FIRST), (few, _FIRST if self.draft else self.grown)]
        return Stage(stored, cache, reading, *(self._step(split, then, n, cache, last, grown) for n, grown in steps))

    def _merged(self, layers: _Layers, paths: Mapping[str, int]) -> Piece:
        """So many layers of each path together."""
        merged = Piece()
        for path, count in paths.items():
            if path in layers.pieces:
                merged.add(layers.pieces[path], count)
        inside = [path for path in paths if path not in ("", "after") and path in layers.pieces]
        merged.handed_on = layers.pieces[inside[-1]].handed_on if inside else 0
        return merged

    def _step(
        self, split: Split, piece: Piece, sequences: Fraction, cache: Cache, last: bool, grown: Fraction = _FIRST
    ) -> Load:
        """A step of so many sequences, the first or one whose attention has grown: every device of a sequence computes
        all of it but attention."""
        own = sequences / self.prefill.batch
        products = {types: macs * own for types, macs in piece.products.items()}
        for types, macs in piece.attention.items():
            products[types] = products.get(types, 0) + macs * grown * own / split.cp
        ends = self.prompt, self.prompt if grown is _FIRST else self.prompt + self.generate - 1
        state = Fraction(sum(cache.nbytes(tokens) for tokens in ends), 2)
        read = piece.weight_bytes(split)[1] + math.ceil(sequences * state)
        return Load(products, read, step_bytes(split, piece, Shares(own, own), last))


class Draft(NamedTuple):
    """A model that guesses so many tokens of a round, which gives so many on average."""

    request: Divisible
    guesses: int
    tokens: float

    def stage(self, request: Divisible, split: Split) -> Stage:
        """The fullest device of the draft, which is on the last stage of a request and divided as that is; where it
        does not divide by tp, each device has all of it."""
        batch = max(request.batch // request.rounds(split), 1)
        own = self.request.with_batch(batch)
        ep = split.ep if self.request.experts else 1
        try:
            (stage,) = own.stages(replace(split, pp=1, ep=ep))
        except InputError:
            (stage,) = own.stages(Split(cp=split.cp, dp=split.dp))
        return replace(stage, weight_bytes=stage.weight_bytes - self.request.shared_bytes(split))


def divisible(runs: Runs, prompt: int, generate: int, largest: EngineStep) -> Divisible:
    """A request to a program, run.

    Args:
        runs: the program, and its calls.
        prompt: tokens of the prompt of each sequence.
        generate: tokens that are generated after it.
        largest: the largest step of an engine.
    """
    first = runs.run(prefill(runs.program, prompt)).call
    then = runs.run(step(runs.program, prompt)).call if runs.program.keeps_state else None
    return Divisible(runs, runs.batch, prompt, generate, first, then, largest)


# Bytes that a device sends in a call, and the time that links take.


class Shares(NamedTuple):
    """A device's part of what was run: of the tokens, and of the sequences."""

    tokens: Fraction
    sequences: Fraction


def prompt_bytes(split: Split, piece: Piece, shares: Shares, cached_bytes: int, last: bool) -> dict[str, int]:
    """Bytes that a device sends while it goes through a prompt, by way.

    Args:
        split: how the request is divided.
        piece: the layers of a stage.
        shares: the device's part.
        cached_bytes: keys and values of the prompt, of all devices of a ring.
        last: whether it is the last stage.
    """
    ring = part_of(cached_bytes, _others(split.cp))
    return _nonzero({**_in_layers(split, piece, shares), "cp": ring, "pp": _handed(piece, shares, last)})


def step_bytes(split: Split, piece: Piece, shares: Shares, last: bool) -> dict[str, int]:
    """Bytes that a device sends in a step, by way; see ``prompt_bytes``."""
    reduced = part_of(piece.attended, 2 * _others(split.cp) * shares.tokens)
    return _nonzero({**_in_layers(split, piece, shares), "cp": reduced, "pp": _handed(piece, shares, last)})


def seconds(split: Split, sent: Mapping[str, int], device: Device) -> float | None:
    """The least time in which links and network take what a device sends; None where there is no figure.

    Ranks of tp are neighbours, then those of cp, dp and pp. What leaves the devices that a link connects goes over the
    network, of a sum what is left after these have added their parts. Without a figure of the network the link counts.
    """
    link, network = device.link("link"), device.link("network")
    if link is None:
        return None if sent else 0.0
    reach = link.devices if network is not None else None
    ends = {"tp": split.tp, "cp": split.tp * split.cp, "ep": split.sharers * split.cp, "pp": split.devices}
    near = far = 0.0
    for way, nbytes in sent.items():
        inside, outside = _routes(way, ends[way], reach)
        near, far = near + nbytes * inside, far + nbytes * outside
    return max(near / link.value, far / network.value if network is not None else 0.0)


def _routes(way: str, ranks: int, reach: int | None) -> tuple[float, float]:
    """The parts of what ranks send that go over links, which reach so many devices, and over the network."""
    if reach is None or ranks <= reach:
        return 1.0, 0.0
    if way == "tp":  # a sum within each node, one of a part of it among nodes
        nodes, whole = ranks / reach, (ranks - 1) / ranks
        return (reach - 1) / reach / whole, (nodes - 1) / nodes / reach / whole
    if way == "ep":
        return (reach - 1) / (ranks - 1), (ranks - reach) / (ranks - 1)
    return 1.0, 1.0  # of a ring or a chain, some devices send to the next node


def _others(ranks: int) -> Fraction:
    """The part of a whole that the other ranks have."""
    return Fraction(ranks - 1, ranks)


def _in_layers(split: Split, piece: Piece, shares: Shares) -> dict[str, int]:
    """Bytes for tp and ep: a ring all-reduce of each sum, and scores of the vocabulary from those that made them."""
    sums = piece.reduced + (0 if split.exchanges else piece.reduced_experts)
    reduced = sums * shares.tokens * 2 * _others(split.tp)
    scores = piece.scores * shares.sequences * Fraction(1, split.tp) if split.tp > 1 else Fraction(0)
    routed = piece.dispatched * shares.tokens / split.tp * _others(split.ep) if split.exchanges else Fraction(0)
    return {"tp": math.ceil(reduced + scores), "ep": math.ceil(routed)}


def _handed(piece: Piece, shares: Shares, last: bool) -> int:
    return 0 if last else part_of(piece.handed_on, shares.tokens)


def _nonzero(sent: Mapping[str, int]) -> dict[str, int]:
    return {way: nbytes for way, nbytes in sent.items() if nbytes}


def assumptions_of_links(device: Device) -> list[str]:
    """In a line, what the times of several devices assume."""
    link, network = device.link("link"), device.link("network")
    if link is None:
        return [f"link bandwidth of {device.name} is not known: times on several devices leave communication out"]
    reach = f" among {link.devices}" if link.devices and network is not None else ""
    beyond = f", {network.via} between nodes, {network.value / 1e9:g} GB/s" if network is not None else ""
    return [
        f"communication over {link.via}{reach}, {link.value / 1e9:g} GB/s each way{beyond}, overlapped with compute: "
        "ring all-reduce, 2 (n - 1) / n of each sum; experts with balanced routing"
    ]
