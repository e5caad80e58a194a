"""Operators whose results nobody uses."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.errors import counted


def find(subject: Subject) -> Iterator[Change]:
    """The operators that no output depends on, those that hang together as one change."""
    dead = sorted(subject.dead - subject.folding.positions)
    groups: dict[int, list[int]] = {}
    leader: dict[int, int] = {}
    for position in reversed(dead):  # the last of a chain leads it
        for tensor in subject.nodes[position].known_inputs:
            maker = subject.maker(tensor)
            if maker is not None and maker[0] in subject.dead:
                leader.setdefault(maker[0], leader.get(position, position))
        groups.setdefault(leader.get(position, position), []).append(position)
    for group in groups.values():
        yield Change(tuple(sorted(group)), f"no output depends on {_these(len(group))}")


def _these(number: int) -> str:
    return "it" if number == 1 else f"these {counted(number, 'operator')}"


RULE = Rule(
    name="dead-work",
    about="Leave out operators whose results no output depends on.",
    exactness="same",
    source="arithmetic; onnxruntime 1.31 executes dead operators at every level that its own clean-up does not reach",
    find=find,
)
