"""Transposes that are taken back, and those that move only axes of extent 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, chain, pointwise_in, replaced
from flopwise.graph import Node, Tensor


def find(subject: Subject) -> Iterator[Change]:
    """Two Transposes with nothing but element-wise operators between them, which make one or none."""
    used: set[int] = set()
    for position, node in () if subject.of_program else subject.live("Transpose"):
        if position in used:
            continue
        source = node.input(0)
        between, last = chain(subject, node.output(), pointwise_in)
        if last is None or last[1].op != "Transpose":
            continue
        first, second = permutation(node), permutation(last[1])
        whole = [first[axis] for axis in second]
        positions = (position, *between, last[0])
        used.update(positions)
        end = last[1].output()
        identity = whole == sorted(whole)
        if identity and not between and end.name in subject.outputs:
            continue
        after = _after(subject, between, source, end, None if identity else whole)
        same = {end.name: source.name} if identity and not between else {}
        text = "the second Transpose takes the first back" if identity else "two Transposes make one"
        yield Change(positions, text, after, same)


def permutation(node: Node) -> list[int]:
    """Axis of the input at each axis of the result."""
    rank = len(node.input(0).dims)
    return [int(axis) % rank for axis in node.attrs.get("perm") or range(rank - 1, -1, -1)]


def _after(
    subject: Subject, between: Sequence[int], source: Tensor, end: Tensor, perm: list[int] | None
) -> tuple[Node, ...]:
    """The element-wise operators on the elements as they lie, and the Transpose that is left, if any."""
    after, before = [], source
    for position in between:
        node = subject.nodes[position]
        old = node.output()
        last = perm is None and position == between[-1]
        result = end if last else Tensor(old.name, source.shape, old.dtype)
        taken = next(t for t in node.known_inputs if t.shape == old.shape)
        after.append(replaced(node, {taken.name: before, old.name: result}))
        before = result
    if perm is not None:
        after.append(Node("Transpose", f"{end.name}.transpose", (before,), (end,), {"perm": perm}))
    return tuple(after)


RULE = Rule(
    name="layout",
    about="Leave out Transposes that are taken back, and make one of two.",
    exactness="same",
    source="arithmetic; onnxruntime cancels neighbours from level basic on",
    find=find,
)
