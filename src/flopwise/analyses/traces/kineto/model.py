"""The rows of a model, and the operators of a trace on them: pairs by alignment, segments between the pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from flopwise.analyses.traces.kineto import fused, names
from flopwise.analyses.traces.kineto.counts import ENCODERS, work_of
from flopwise.analyses.traces.kineto.gradients import Gradients
from flopwise.analyses.traces.kineto.records import LABEL, Operator
from flopwise.analyses.traces.kineto.tokens import Token, align, pairs_by_name, siblings, token, tokens_of
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import FORWARD, layers_of
from flopwise.profiles.profile import Profile


def token_of(operator: Operator, modules: Container[str] = ()) -> Token:
    """An operator as it is compared with rows; a label of no module of the model says nothing where shapes do."""
    work = work_of(operator.name, operator.arguments)
    product = "" if work.op else names.product_of(operator.name)
    if product:  # a kernel, or a product of another library: how much it multiplies is not known
        return Token(product, "Gemm", (), -1)
    path = operator.label.removeprefix(LABEL)
    tensors = operator.arguments.tensors
    module = path if operator.label and (path in modules or not tensors) else None
    return token(operator.base, work.op, tensors, work.macs or -1 if work.product else 0, module)


class _Stretch(NamedTuple):
    """A pair of an operator and rows, and what lies between it and the pair before."""

    #: The operators that are no row's, and the rows that no operator is paired with.
    gap: list[Operator]
    rows: tuple[int, ...]
    #: None behind the last pair.
    operator: Operator | None
    own: tuple[int, ...]


class Model:
    """The rows that the operators of a trace are put on."""

    def __init__(self, profile: Profile, nodes: Mapping[str, str]) -> None:
        self.layers = layers_of(profile)
        self.tokens = tokens_of(profile)
        #: Name of a compiled kernel -> the operators in it, where a file tells them.
        self._nodes = nodes
        self._modules = {layer.module for layer in self.layers}
        made = {t.name: place for place, row in enumerate(profile.rows) for t in row.node.known_outputs}
        #: For each row the rows whose results it takes.
        self._makers = [[made[t.name] for t in row.node.known_inputs if t.name in made] for row in profile.rows]
        self._siblings = siblings(profile)
        self._weighted = {
            place for place, row in enumerate(profile.rows) if any(t.kind == "weight" for t in row.node.known_inputs)
        }
        together = {rows[0]: rows for rows in self._siblings}
        #: What an operator may be: a row, or before the first of several siblings all of them at once.
        self._entries: list[tuple[int, ...]] = []
        for row in range(len(self.tokens)):
            self._entries += [together[row]] if row in together else []
            self._entries.append((row,))
        self._entry_tokens = [self._token(rows) for rows in self._entries]
        self._gradients = Gradients(profile, self.tokens, nodes)
        self._aligned: dict[tuple[Token, ...], list[int | None]] = {}

    def _token(self, rows: tuple[int, ...]) -> Token:
        """A row as it is compared; of several, what multiplies as often as they do together."""
        first = self.tokens[rows[0]]
        if len(rows) == 1:
            return first._replace(sibling=any(rows[0] in several for several in self._siblings))
        return Token(first.name, first.op, (), sum(self.tokens[row].macs for row in rows), several=True)

    def places(self, operators: Sequence[Operator], trains: bool, views: bool = True) -> dict[Operator, Place]:
        """The places of the operators of a forward pass.

        Args:
            operators: in the order of execution.
            trains: whether a backward pass follows: what comes after the last row then is the loss.
            views: whether rows that only make or move elements pair: programs for serving have others, between kernels
                of many rows.
        """
        places: dict[Operator, Place] = {}
        left: list[int] = []
        before: list[Operator] = []
        compiled = any((text := fused.text_of(o, self._nodes)) and text.listed for o in operators)
        for gap, rows, operator, own in self._stretches(operators, views):
            if operator is not None and gap and _counts_batches(gap[-1], self.tokens[own[0]]):
                places[gap.pop()] = Place(own, FORWARD)
            landed = self._gap(gap, rows, left, trains and operator is None)
            before += [o for o, place in landed.items() if not place.layers]
            if compiled:
                landed = {**landed, **dict(self._decomposed(before, rows))}
            places.update(landed)
            left += set(rows) - {place for each in landed.values() for place in each.layers}
            if operator is not None:
                places[operator] = Place(own, FORWARD)
        self._join(places)
        return places

    def has_products_of(self, kernels: Sequence[Operator], called: Sequence[Operator]) -> bool:
        """True if kernels that tell no more than their names are as many products as the rows that they pair with.

        Rows that multiply one operand may be computed at once, and those without weights in an attention's own kernel.
        One product more, such as those of an attention that was taken apart, and each of them might be another row's.

        Args:
            kernels: of CUDA graphs.
            called: operators of a program beside them.
        """
        seen = Counter(name for kernel in kernels if (name := names.product_of(kernel.name)))
        for name, number in seen.items():
            alike = {row for row, each in enumerate(self.tokens) if pairs_by_name(name, each)}
            number += sum(any(pairs_by_name(o.base, self.tokens[row]) for row in alike) for o in called)
            least = most = len(alike & self._weighted)
            least -= sum(len(rows) - 1 for rows in self._siblings if alike.issuperset(rows))
            if not any(least + more <= number <= most + more for more in {0, len(alike - self._weighted)}):
                return False
        return True

    def _stretches(self, operators: Sequence[Operator], views: bool) -> Iterator[_Stretch]:
        """The pairs of operators and rows, each with what lies before it; last, what lies behind all of them."""
        tokens = tuple(token_of(operator, self._modules) for operator in operators)
        if tokens not in self._aligned:
            self._aligned[tokens] = align(tokens, self._entry_tokens)
        gap: list[Operator] = []
        taken: set[int] = set()
        before = -1
        for operator, entry in zip(operators, self._aligned[tokens], strict=True):
            pairs = entry is not None and (views or names.computes(operator.name) or bool(operator.context))
            own = self._entries[entry] if entry is not None and pairs else ()
            if entry is None or not own or not taken.isdisjoint(own):
                gap.append(operator)
                continue
            taken.update(own)
            yield _Stretch(gap, self._between(before, entry, taken), operator, own)
            gap, before = [], entry
        yield _Stretch(gap, self._between(before, len(self._entries), taken), None, ())

    def _between(self, before: int, entry: int, taken: Container[int]) -> tuple[int, ...]:
        """The rows between two entries that no operator is paired with."""
        entries = self._entries[before + 1 : entry]
        return tuple(rows[0] for rows in entries if len(rows) == 1 and rows[0] not in taken)

    def gradients(self, operators: Sequence[Operator]) -> dict[Operator, Place]:
        """The places of the operators of a compiled backward pass, as far as they are known."""
        return self._gradients.places(operators)

    def _join(self, places: dict[Operator, Place]) -> None:
        """Put products of unknown size on all siblings where they are fewer: which each computes is unknown."""
        owners = {place.layers: operator for operator, place in places.items() if len(place.layers) == 1}
        for rows in self._siblings:
            own = [owners[row,] for row in rows if (row,) in owners]
            if 0 < len(own) < len(rows) and all(not o.arguments.shapes for o in own):
                places.update(dict.fromkeys(own, Place(rows, FORWARD)))

    def _gap(
        self, operators: Sequence[Operator], rows: tuple[int, ...], left: list[int], loss: bool
    ) -> Mapping[Operator, Place]:
        """The places of operators that are no row's, from the rows between those of their neighbours.

        They are a segment where both compute the same number of products: an encoder layer in one kernel, or others.
        ``left``: rows before that no event stands for yet; what these kernels stand for is taken out of it.
        """
        places = {o: Place(name=_remainder(o, loss)) for o in operators}
        encoders = [o for o in operators if o.base in ENCODERS]
        texts = {o: text for o in operators if (text := fused.text_of(o, self._nodes))}
        if any(o.label for o in encoders):
            places.update(self._labelled(encoders, rows))
        elif any(text.listed for text in texts.values()) or (texts and not self._multiply_alike(operators, rows)):
            places.update(self._compiled(texts, rows, left))
        elif self._multiply_alike(operators, rows):
            places.update(self._segments(encoders or operators, rows, len(encoders)))
        return places

    def _labelled(self, encoders: Sequence[Operator], rows: tuple[int, ...]) -> Iterator[tuple[Operator, Place]]:
        """The places of fused encoder layers by the modules that they ran in."""
        for encoder in encoders:
            inside = self._under(encoder.label.removeprefix(LABEL), rows)
            if inside:
                yield encoder, Place(inside, FORWARD)

    def _multiply_alike(self, operators: Sequence[Operator], rows: tuple[int, ...]) -> bool:
        """True if operators compute the products of rows, and there are any."""
        macs = sum(work_of(o.name, o.arguments).macs or 0 for o in operators)
        return macs > 0 and macs == sum(self.layers[row].macs or 0 for row in rows)

    def _segments(
        self, operators: Sequence[Operator], rows: tuple[int, ...], number: int
    ) -> Iterator[tuple[Operator, Place]]:
        """The places of operators on rows in so many parts that are alike, else on all of them together."""
        segments = [Place(part, FORWARD) for part in self._parts(rows, number)]
        return zip(operators, segments if len(segments) > 1 else segments * len(operators), strict=True)

    def _compiled(
        self, kernels: Mapping[Operator, fused.Text], rows: tuple[int, ...], left: list[int]
    ) -> Iterator[tuple[Operator, Place]]:
        """The places of kernels that are made of rows, by the words in their names."""
        parts = fused.parts(list(kernels.values()), [self.tokens[row] for row in rows])
        for (kernel, text), part in zip(kernels.items(), parts, strict=True):
            if part:
                own = [rows[place] for place in part]
                late = self._put_off(text, own, left) if text.listed else set()
                left[:] = [row for row in left if row not in late]
                yield kernel, Place((*sorted(late), *own), FORWARD)
            elif fused.is_layout(text):
                yield kernel, Place(name=names.LAYOUT)

    def _put_off(self, text: fused.Text, own: Sequence[int], left: Sequence[int]) -> set[int]:
        """Rows of before that a kernel takes the results of, if its name tells of them: no event stands for them yet.

        A compiler puts off work until behind the next product, such as an activation until it is multiplied.
        """
        late: set[int] = set()
        takers = [*own]
        while takers:
            for maker in self._makers[takers.pop()]:
                if maker in left and maker not in late and not self.tokens[maker].product:
                    late.add(maker)
                    takers.append(maker)
        computed = [row for row in late if names.computes(f"aten::{self.tokens[row].name}")]
        return late if all(fused.tells_of(text, self.tokens[row]) for row in computed) else set()

    def _decomposed(self, before: list[Operator], rows: tuple[int, ...]) -> Iterator[tuple[Operator, Place]]:
        """The places of the products that a compiler made of rows, such as the two of an attention, and of its softmax.

        Args:
            before: operators without a row up to here; those that are placed are taken out of it. The first of the
                products may be before that of another row, such as the values of an attention.
            rows: those behind the last pair.
        """
        own = tuple(row for row in rows if self.layers[row].macs)
        left = sum(self.layers[row].macs or 0 for row in own)
        parts: list[Operator] = []
        for o in reversed(before if own else ()):
            macs = work_of(o.name, o.arguments).macs or 0
            text = fused.text_of(o, self._nodes)
            if macs or (text and text.listed and any(fused.tells_of(text, self.tokens[row]) for row in own)):
                parts.append(o)
            left -= macs
            if left <= 0:
                break
        if parts and not left:
            before[:] = [o for o in before if o not in set(parts)]
            yield from ((part, Place(own, FORWARD)) for part in parts)

    def _under(self, module: str, rows: tuple[int, ...]) -> tuple[int, ...]:
        """The rows in a module and in those below it."""
        return tuple(row for row in rows if f"{self.layers[row].module}.".startswith(f"{module}." if module else ""))

    def _parts(self, rows: tuple[int, ...], number: int) -> list[tuple[int, ...]]:
        """Rows in so many parts that are alike; in one where they are not."""
        size, rest = divmod(len(rows), max(1, number))
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        kinds = [[self.tokens[row]._replace(module=None) for row in part] for part in parts]
        alike = not rest and all(kind == kinds[0] for kind in kinds)
        return parts if alike else [rows]


def _counts_batches(operator: Operator, row: Token) -> bool:
    """True for the sum by which a normalisation counts its batches in training, of which programs show nothing."""
    return row.name == "batch_norm" and operator.base == "add" and not operator.arguments.tensors


def _remainder(operator: Operator, loss: bool) -> str:
    name = operator.context or names.remainder_of(operator.name)
    return names.LOSS if loss and name in (names.UNMATCHED, names.LAYOUT) else name
