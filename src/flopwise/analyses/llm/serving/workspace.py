"""The activations that a step of an engine keeps alive: attention in one piece, scores of the positions asked for."""

from __future__ import annotations

import math
from collections import Counter

from flopwise.analyses.llm.division import Division
from flopwise.analyses.llm.serving.memory import Workspace
from flopwise.analyses.needed.needed import logits_of
from flopwise.memory.attention import pair_tensors
from flopwise.memory.liveness import Buffer, liveness
from flopwise.profiles.profile import Profile


def workspace_of(
    profile: Profile, tokens: int, division: Division | None = None, last_logits: bool = True
) -> Workspace | None:
    """The workspace of a step from its profile; None where the size of an activation is missing.

    Args:
        profile: a call without a state before it, over all tokens of the step.
        tokens: how many those are.
        division: the parts of it that a device has; None: all.
        last_logits: whether the vocabulary is scored for sampled positions alone.
    """
    lives = liveness(profile.graph)
    if lives.missing:
        return None
    pairs, logits = pair_tensors(profile.graph), logits_of(profile) if last_logits else None
    fixed, each = Counter[int](), Counter[int]()

    def alive(changes: Counter[int], buffer: Buffer, nbytes: int) -> None:
        changes[buffer.first] += nbytes
        changes[buffer.last + 1] -= nbytes

    for buffer in lives.buffers:
        if logits is not None and buffer.name in logits.tensors:
            positions = max(buffer.tensors[0].numel // buffer.tensors[0].dims[-1], 1)
            alive(each, buffer, buffer.nbytes // positions)
        elif buffer.name not in pairs:
            part = 1 if division is None else max(division.result(tensor) for tensor in buffer.tensors)
            alive(fixed, buffer, math.ceil(buffer.nbytes * part))
    shares: set[tuple[int, int]] = set()
    now = (0, 0)
    for step in range(len(lives.steps)):
        now = (now[0] + fixed[step], now[1] + each[step])
        shares.add(now)
    most = max(shares)
    return Workspace(tokens, (most, *sorted(share for share in shares if share[1] > most[1])))
