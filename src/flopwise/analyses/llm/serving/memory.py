"""Memory as a serving engine takes it: weights, a cache in blocks, and the workspace of the largest step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from flopwise.analyses.llm.division import Division
from flopwise.analyses.needed import logits_of
from flopwise.profiles.profile import Profile
from flopwise.storage.attention import pair_tensors
from flopwise.storage.liveness import Buffer, Liveness, liveness

#: Where a search stops: more of it is no limit by memory.
FAR = 1 << 40


@dataclass(frozen=True)
class Kept:
    """The tensors of the state of one sequence that grow with its tokens up to the same window."""

    bytes_per_token: int
    #: The most tokens of which it keeps something; None where it keeps all.
    window: int | None = None
    #: Devices that share its tokens.
    ranks: int = 1

    def tokens(self, length: int, block: int) -> int:
        """The tokens that it has room for, in whole blocks, after a sequence of so many."""
        tokens = length if self.window is None else min(length, self.window)
        return -(-tokens // (self.ranks * block)) * block


@dataclass(frozen=True)
class Cache:
    """The state of one sequence."""

    kept: tuple[Kept, ...] = ()
    #: Bytes that do not grow, such as those of recurrent states.
    fixed_bytes: int = 0
    #: Bytes that a token after the prompt adds; None where only the tensors say so.
    further: int | None = None

    def nbytes(self, tokens: int, block: int = 1) -> int:
        """Bytes after so many tokens, in blocks of so many."""
        return self.fixed_bytes + sum(kept.bytes_per_token * kept.tokens(tokens, block) for kept in self.kept)

    def shared_bytes(self, prefix: int, block: int = 1) -> int:
        """Bytes of the whole blocks of a prefix that several sequences share; windows and recurrent states are each
        sequence's own."""
        return sum(
            kept.bytes_per_token * (prefix // (kept.ranks * block) * block) for kept in self.kept if kept.window is None
        )

    def bytes_per_token(self, tokens: int) -> int:
        """Bytes of a further token after so many, to which full windows add nothing."""
        if self.further is not None:
            return self.further
        return sum(kept.bytes_per_token for kept in self.kept if kept.window is None or tokens < kept.window)


class Growth(NamedTuple):
    """The growth of a sequence's state: bytes by tensor after one token, and after more than any window has."""

    one: Mapping[str, int]
    far: Mapping[str, int]
    #: How many tokens those are.
    tokens: int


def cache_of(growth: Growth, parts: Iterable[tuple[str, Fraction, int]] | None = None, ranks: int = 1) -> Cache:
    """The state of a sequence by its growth.

    Args:
        growth: how each of its tensors grows.
        parts: of a device, names of its tensors, the part of each that it has, and for how many each stands; None: all.
        ranks: devices that share the tokens.
    """
    kept: dict[int | None, int] = {}
    fixed = 0
    whole = Fraction(1)
    for name, part, times in ((name, whole, 1) for name in growth.far) if parts is None else parts:
        one, far = growth.one.get(name), growth.far[name]
        if far == one:
            fixed += times * -(-far * part.numerator // part.denominator)
        elif one:
            window = None if far == growth.tokens * one else far // one
            kept[window] = kept.get(window, 0) + times * -(-one * part.numerator // part.denominator)
    return Cache(tuple(Kept(nbytes, window, ranks) for window, nbytes in kept.items()), fixed)


@dataclass(frozen=True)
class Workspace:
    """Bytes of activations alive in a step: a share of its tokens, and one of each position that is sampled."""

    #: Tokens of the step.
    tokens: int
    #: Pairs of both shares, one of which is the largest.
    shares: tuple[tuple[int, int], ...]
    #: Scores of a sampled position.
    scores: int = 0

    def nbytes(self, sampled: int) -> int:
        """Bytes with so many sampled positions."""
        return max(fixed + each * sampled for fixed, each in self.shares)


@dataclass(frozen=True)
class Memory:
    """The memory of one device."""

    weight_bytes: int
    cache: Cache
    workspace: Workspace
    #: Tokens of a block of the cache, and of a prefix that all sequences share.
    block: int = 16
    prefix: int = 0

    def cache_bytes(self, sequences: int, tokens: int) -> int:
        """Bytes of the caches of so many sequences of so many tokens."""
        shared = self.cache.shared_bytes(min(self.prefix, tokens), self.block)
        return shared + sequences * (self.cache.nbytes(tokens, self.block) - shared)

    def workspace_bytes(self, sequences: int) -> int:
        """Bytes of the largest step, which samples a position of each sequence, but no more than it has tokens."""
        return self.workspace.nbytes(min(sequences, self.workspace.tokens))

    def must_fit_bytes(self, sequences: int, tokens: int) -> int:
        """Bytes of the weights, the caches and the workspace."""
        return self.weight_bytes + self.cache_bytes(sequences, tokens) + self.workspace_bytes(sequences)

    def most_sequences(self, tokens: int, have: int) -> int | None:
        """The most sequences of so many tokens that fit into ``have`` bytes; None where nothing grows."""
        return largest(lambda sequences: self.must_fit_bytes(sequences, tokens), have)

    def most_tokens(self, sequences: int, have: int) -> int | None:
        """The longest context of so many sequences that fits into ``have`` bytes; None where nothing grows."""
        return largest(lambda tokens: self.must_fit_bytes(sequences, tokens), have)


def largest(memory: Callable[[int], int], have: int) -> int | None:
    """The largest number whose memory is at most ``have`` bytes; 0 where that of 1 is more, None where it has no end.

    Args:
        memory: number -> bytes, never fewer for a larger one.
        have: bytes.

    >>> largest(lambda n: 100 + 7 * n, 1000)
    128
    """
    low, high = 0, FAR
    if memory(high) <= have:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if memory(middle) <= have else (low, middle)
    return low


# The activations that a step of an engine keeps alive: attention in one piece, scores of the positions asked for.


@dataclass(frozen=True)
class EngineStep:
    """The largest step of an engine."""

    #: A call without a state before it, over all tokens of the step; and how many those are.
    profile: Profile
    tokens: int
    #: Whether the vocabulary is scored for sampled positions alone.
    last_logits: bool = True

    @cached_property
    def _lives(self) -> Liveness:
        return liveness(self.profile.graph)

    @cached_property
    def _buffers(self) -> list[tuple[Buffer, int]]:
        """The buffers that an engine keeps, each with the positions whose scores it holds; 0 for any other."""
        pairs, logits = pair_tensors(self.profile.graph), logits_of(self.profile) if self.last_logits else None
        buffers = []
        for buffer in self._lives.buffers:
            if logits is not None and buffer.name in logits.tensors:
                buffers.append((buffer, max(buffer.tensors[0].numel // buffer.tensors[0].dims[-1], 1)))
            elif buffer.name not in pairs:
                buffers.append((buffer, 0))
        return buffers

    def workspace(self, division: Division | None = None) -> Workspace | None:
        """The workspace on a device; None where the size of an activation is missing.

        Args:
            division: the parts of the step that the device has; None: all.
        """
        if self._lives.missing:
            return None
        fixed, each = Counter[int](), Counter[int]()
        for buffer, positions in self._buffers:
            if positions:
                changes, nbytes = each, buffer.nbytes // positions
            else:
                part = 1 if division is None else max(division.result(tensor) for tensor in buffer.tensors)
                changes, nbytes = fixed, math.ceil(buffer.nbytes * part)
            changes[buffer.first] += nbytes
            changes[buffer.last + 1] -= nbytes
        shares: set[tuple[int, int]] = set()
        now = (0, 0)
        for step in range(len(self._lives.steps)):
            now = (now[0] + fixed[step], now[1] + each[step])
            shares.add(now)
        most = max(shares)
        scores = max((buffer.tensors[0].dims[-1] for buffer, positions in self._buffers if positions), default=0)
        return Workspace(self.tokens, (most, *sorted(share for share in shares if share[1] > most[1])), int(scores))
