"""The activations that a step of an engine keeps alive: attention in one piece, scores of the positions asked for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from flopwise.analyses.llm.division import Division
from flopwise.analyses.llm.serving.memory import Workspace
from flopwise.analyses.needed.needed import logits_of
from flopwise.memory.attention import pair_tensors
from flopwise.memory.liveness import Buffer, Liveness, liveness
from flopwise.profiles.profile import Profile


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
