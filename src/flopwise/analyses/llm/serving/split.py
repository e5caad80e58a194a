"""A request divided among devices: what the fullest of them has, computes and sends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from flopwise.analyses.llm.division import Division, part_of, refuse_experts
from flopwise.analyses.llm.program import Call, prefill, step
from flopwise.analyses.llm.runs import Runs
from flopwise.analyses.llm.serving.communication import Shares, prompt_bytes, step_bytes
from flopwise.analyses.llm.serving.memory import Cache, Growth, Workspace, cache_of
from flopwise.analyses.llm.serving.pieces import CountedCall, Piece, pieces
from flopwise.analyses.llm.serving.ways import Split
from flopwise.analyses.llm.serving.workspace import EngineStep
from flopwise.errors import InputError
from flopwise.memory.experts import experts_of


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


#: The attention of the first step.
_FIRST = Fraction(1)


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
    _workspaces: dict[int, Workspace | None] = field(default_factory=dict)
    _layers: dict[int, list[list[Piece]]] = field(default_factory=dict)
    _stretches: dict[tuple[int, int], list[list[Piece]]] = field(default_factory=dict)

    @cached_property
    def plan(self) -> Mapping[str, str]:
        """The division of the program's weights by tensor parallelism."""
        return self.runs.program.plan()

    @cached_property
    def growth(self) -> Growth:
        """The growth of a sequence's state."""
        return self.runs.growth(self.prompt, self.generate)

    @property
    def experts(self) -> int:
        """Experts of a layer; 0 for none, of layers with different numbers the greatest common divisor."""
        stacks = (experts_of(row.name, row.node) for row in self.prefill.profile.rows)
        return math.gcd(*(stack.matrices for stack in stacks if stack is not None))

    @cached_property
    def grown(self) -> Fraction:
        """The attention of a step on average over all steps, by that of the first."""
        runs, attention = self.runs, sum(sum(piece.attention.values()) for piece in self._divided(1)[-1])
        _, every = runs.generation(self.prompt, self.generate, runs.cache(self.prompt, self.generate))
        first = runs.run(step(runs.program, self.prompt)).cost.products
        more = Fraction(sum(every.values()), self.generate) - sum(first.values())
        return 1 + more / attention if attention else Fraction(1)

    def repeated(self, tp: int) -> Fraction:
        """The part of the weights' bytes in matrices that each of the devices that share products has whole."""
        call = self.prefill
        division = Division(call.profile, self.plan, tp, repeat_heads=True)
        stored = {t.name: t for row in call.profile.rows for t in division.folding.stored(row.node)}
        matrices = {
            name for name, t in stored.items() if len(t.dims) > 1
        } & call.nbytes.keys() - division.experts.keys()
        whole = sum((call.nbytes[name] for name in matrices if division.weight(name) == 1), Fraction(0))
        return whole / max(sum(call.nbytes.values(), Fraction(0)), Fraction(1))

    def with_batch(self, batch: int) -> Divisible:
        """The same with another number of sequences."""
        other = copy(self)  # with what is known already
        other.batch = batch
        return other

    def sequences(self, split: Split) -> int:
        """Sequences of the replica that has the most."""
        return -(-self.batch // split.dp)

    def rounds(self, split: Split) -> int:
        """Groups of a replica's sequences, on each of which another stage works at the same time."""
        return min(split.pp, self.sequences(split))

    def stages(self, split: Split) -> list[Stage]:
        """The fullest device of each stage.

        Raises:
            InputError: something does not divide.
        """
        split.check()
        stretches = self._stretched(split)
        if split.ep > 1:
            stacks = {name: stack.experts for own in stretches for name, stack in own[0].experts.items()}
            refuse_experts(stacks, split.ep)
        return [self._stage(split, own, number == split.pp - 1) for number, own in enumerate(stretches)]

    def workspace(self, split: Split) -> Workspace | None:
        """The workspace of a device in the largest step; None where the size of an activation is missing."""
        if split.tp not in self._workspaces:
            division = Division(self.largest.profile, self.plan, split.tp, repeat_heads=True)
            self._workspaces[split.tp] = self.largest.workspace(division)
        return self._workspaces[split.tp]

    def _stretched(self, split: Split) -> list[list[Piece]]:
        """The layers of each stage together, of the prompt's call and of the step's."""
        key = split.tp, split.pp
        if key not in self._stretches:
            calls = self._divided(split.tp)
            layers = len(calls[0])
            if split.pp > layers:
                raise InputError(f"pp {split.pp}: the model has {layers} layers")
            size, more = divmod(layers, split.pp)
            bounds = [size * n + min(n, more) for n in range(split.pp + 1)]
            self._stretches[key] = [[_merged(call[a:b]) for call in calls] for a, b in pairwise(bounds)]
        return self._stretches[key]

    def _divided(self, tp: int) -> list[list[Piece]]:
        """The layers of the prompt's call, and of the step's if there is one."""
        if tp not in self._layers:
            calls = [self.prefill, *([self.decode] if self.decode else [])]
            divisions = [Division(call.profile, self.plan, tp, repeat_heads=True) for call in calls]
            self._layers[tp] = [pieces(*one) for one in zip(calls, divisions, strict=True)]
        return self._layers[tp]

    def _stage(self, split: Split, calls: Sequence[Piece], last: bool) -> Stage:
        """The fullest device of a stage."""
        first, then = calls[0], calls[-1] if self.decode else None
        sequences = self.sequences(split)
        own = Fraction(sequences, self.prefill.batch)
        parts = then.state if then is not None else {}
        whole = self._cache(parts, 1)
        ring = sequences * (whole.nbytes(self.prompt) - whole.fixed_bytes)
        shares = Shares(own / split.cp, own)
        rounds = self.rounds(split)
        cache = self._cache(parts, split.cp)
        return Stage(
            weight_bytes=_weight_bytes(first, split)[0],
            cache=cache,
            prefill=Load(
                _sum(_times(first.products, shares.tokens), _times(first.attention, shares.tokens)),
                _weight_bytes(first, split)[1],
                prompt_bytes(split, first, shares, ring, last),
            ),
            decode=None if then is None else self._step(split, then, Fraction(sequences), cache, last),
            round=None if then is None else self._step(split, then, Fraction(sequences, rounds), cache, last),
            mean=None
            if then is None
            else self._step(split, then, Fraction(sequences, rounds), cache, last, self.grown),
        )

    def _step(
        self, split: Split, piece: Piece, sequences: Fraction, cache: Cache, last: bool, grown: Fraction = _FIRST
    ) -> Load:
        """A step of so many sequences, the first or one whose attention has grown: every device of a sequence computes
        all of it but attention."""
        own = sequences / self.prefill.batch
        products = _sum(_times(piece.products, own), _times(piece.attention, grown * own / split.cp))
        ends = self.prompt, self.prompt if grown is _FIRST else self.prompt + self.generate - 1
        state = Fraction(sum(cache.nbytes(tokens) for tokens in ends), 2)
        read = _weight_bytes(piece, split)[1] + math.ceil(sequences * state)
        return Load(products, read, step_bytes(split, piece, Shares(own, own), last))

    def _cache(self, parts: Mapping[str, Fraction], ranks: int) -> Cache:
        """The state of a sequence on a device: the parts of its tensors, by name."""
        one, far = (
            {name: part_of(nbytes, parts[name]) for name, nbytes in sizes.items() if name in parts}
            for sizes in (self.growth.one, self.growth.far)
        )
        return cache_of(one, far, self.growth.tokens, ranks)


def divisible(runs: Runs, prompt: int, generate: int, largest: EngineStep) -> Divisible:
    """A request to a program, run.

    Args:
        runs: the program, and its calls.
        prompt: tokens of the prompt of each sequence.
        generate: tokens that are generated after it.
        largest: the largest step of an engine.
    """
    program, batch = runs.program, runs.batch

    def counted(call: Call) -> CountedCall:
        state = frozenset(program.state(call, batch)) if call.past else frozenset()
        return CountedCall(runs.run(call).profile, program, batch, call.tokens, runs.last_logits, state)

    return Divisible(
        runs=runs,
        batch=batch,
        prompt=prompt,
        generate=generate,
        prefill=counted(prefill(program, prompt)),
        decode=counted(step(program, prompt)) if program.keeps_state else None,
        largest=largest,
    )


def _weight_bytes(piece: Piece, split: Split) -> tuple[int, int]:
    """Bytes that are stored, and bytes that a call reads of them at least."""
    experts = [stack.on_device(split) for stack in piece.experts.values()]
    stored, read = sum(piece.stored.values()), sum(piece.read.values())
    return stored + sum(whole for whole, _ in experts), read + sum(least for _, least in experts)


def _merged(layers: Sequence[Piece]) -> Piece:
    merged = Piece()
    for layer in layers:
        merged.add(layer)
    return merged


def _times(products: Mapping[tuple[str, ...], Fraction], part: Fraction) -> dict[tuple[str, ...], Fraction]:
    return {types: macs * part for types, macs in products.items()}


def _sum(
    one: Mapping[tuple[str, ...], Fraction], other: Mapping[tuple[str, ...], Fraction]
) -> dict[tuple[str, ...], Fraction]:
    return {types: one.get(types, Fraction(0)) + other.get(types, Fraction(0)) for types in {**one, **other}}
