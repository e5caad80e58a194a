"""The backward pass of compiled code, whose operators have no sequence numbers: on the rows whose gradients they are.

The two gradients of a matrix product contract what the product leaves, and leave what it contracts; that of a
convolution, and of an attention, takes the operands themselves. Rows come in the reverse of their order. What a
compiler fused between two such products stands for rows between them, by its name.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence

from flopwise.analyses.traces.alignment import in_order
from flopwise.analyses.traces.kineto import fused
from flopwise.analyses.traces.kineto.records import Operator
from flopwise.analyses.traces.kineto.tokens import Token
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import BACKWARD
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: Operators of matrix products -> the position of the left factor.
_FACTORS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}


class Gradients:
    """The rows of a model by the shapes that their gradients have."""

    def __init__(self, profile: Profile, tokens: Sequence[Token], nodes: Mapping[str, str]) -> None:
        self._tokens, self._nodes = tokens, nodes
        self._rows: defaultdict[Hashable, list[int]] = defaultdict(list)
        for place in reversed(range(len(tokens))):
            if tokens[place].product:
                for key in _keys_of_row(profile.rows[place]):
                    self._rows[key].append(place)

    def places(self, operators: Sequence[Operator]) -> dict[Operator, Place]:
        """The places of operators of a compiled backward pass, in the order of execution; of some, none is known."""
        left = {key: deque(rows) for key, rows in self._rows.items()}
        rows: dict[Operator, int] = {}
        for each in operators:
            own = left.get(_key_of(each))
            if own:
                rows[each] = own.popleft()
        places = {operator: Place((row,), BACKWARD) for operator, row in rows.items()}
        # The gradient of a weight may come whenever nobody waits for it: those in order bound what is between them.
        kept = list(rows)
        ranks = [place - len(kept) * rows[operator] for place, operator in enumerate(kept)]
        bounds = {kept[place]: rows[kept[place]] for place in (in_order(ranks) if ranks else ())}
        between: list[Operator] = []
        after = len(self._tokens)
        for operator in [*operators, None]:
            if operator is not None and operator not in bounds:
                between += [] if operator in rows else [operator]
                continue
            before = -1 if operator is None else bounds[operator]
            places.update(self._between(between, range(after - 1, before, -1)))
            between, after = [], before
        return places

    def _between(self, operators: Sequence[Operator], rows: range) -> Iterator[tuple[Operator, Place]]:
        """The places of what a compiler fused, from rows in the reverse of their order."""
        texts = {o: text for o in operators if (text := fused.text_of_gradient(o, self._nodes))}
        own = [row for row in rows if not self._tokens[row].product]
        parts = fused.parts(list(texts.values()), [self._tokens[row] for row in own])
        for operator, part in zip(texts, parts, strict=True):
            if part:
                yield operator, Place(tuple(sorted(own[place] for place in part)), BACKWARD)


def _keys_of_row(row: Row) -> Iterator[Hashable]:
    """The shapes of the gradients of a row that computes a product."""
    shapes = [tensor.dims for tensor in row.node.known_inputs]
    if row.node.op in ("Gemm", "MatMul") and row.macs and len(shapes) > 1:
        inner = int(shapes[0][-1])
        batch = math.prod(map(int, shapes[0][:-2])) if len(shapes[1]) > 2 else 1
        outer = math.prod(map(int, shapes[0][:-1])) // batch
        other = row.macs // (batch * outer * inner)
        yield _product(batch, other, outer, inner)
        yield _product(batch, outer, other, inner)
    elif len(shapes) > 1:
        yield _operands(row.node.op == "Attention", shapes[0], shapes[1])
        if row.node.op == "Attention" and shapes[0][:-2] == shapes[1][:-2]:
            yield from _decomposed(*(tuple(map(int, shape)) for shape in shapes[:2]))


def _decomposed(query: Sequence[int], key: Sequence[int]) -> Iterator[Hashable]:
    """The same of an attention with dropout, which a compiler takes apart: of weights, queries, keys and values."""
    batch, width = math.prod(query[:-2]), query[-1]
    yield _product(batch, width, query[-2], key[-2])
    yield _product(batch, key[-2], query[-2], width)
    yield _product(batch, query[-2], key[-2], width)
    yield _product(batch, query[-2], key[-2], width)


def _product(batch: int, contracted: int, one: int, other: int) -> Hashable:
    return batch, contracted, *sorted((one, other))


def _operands(attends: bool, one: Sequence[int], other: Sequence[int]) -> Hashable:
    """The key of a convolution or an attention by its operands; keys of fewer heads may come repeated."""
    return attends, one, (*other[-2:],) if attends else other


def _key_of(operator: Operator) -> Hashable:
    """The same of an operator; None for one that computes no product."""
    shapes, place = operator.arguments.shapes, _FACTORS.get(operator.base)
    if place is not None and len(shapes) > place + 1 and len(shapes[place]) > 1 and len(shapes[place + 1]) > 1:
        left, right = shapes[place], shapes[place + 1]
        return _product(math.prod(left[:-2]), left[-1], left[-2], right[-1])
    if operator.base.endswith("_backward") and len(shapes) > 2:
        return _operands("attention" in operator.base, shapes[1], shapes[2])
    return None
