"""Where the operators of one step belong: rows by alignment, segments, the backward pass by sequence numbers, names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from flopwise.analyses.traces.kineto import fused, names
from flopwise.analyses.traces.kineto.counts import ENCODERS, Work, work_of
from flopwise.analyses.traces.kineto.gradients import Gradients
from flopwise.analyses.traces.kineto.graphs import Replay
from flopwise.analyses.traces.kineto.records import LABEL, Operator
from flopwise.analyses.traces.kineto.steps import Window
from flopwise.analyses.traces.kineto.threads import Thread
from flopwise.analyses.traces.kineto.tokens import Token, align, siblings, token, tokens_of
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Layer, layers_of
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


class Model:
    """The rows that the operators of a trace are put on."""

    def __init__(self, profile: Profile, nodes: Mapping[str, str]) -> None:
        self.layers = layers_of(profile)
        self.tokens = tokens_of(profile)
        #: Name of a compiled kernel -> the operators in it, where a file tells them.
        self._nodes = nodes
        self._modules = {layer.module for layer in self.layers}
        self._siblings = siblings(profile)
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
        tokens = tuple(token_of(operator, self._modules) for operator in operators)
        if tokens not in self._aligned:
            self._aligned[tokens] = align(tokens, self._entry_tokens)
        places: dict[Operator, Place] = {}
        gap: list[Operator] = []
        left: list[int] = []
        taken: set[int] = set()
        before = -1
        for operator, entry in zip([*operators, None], [*self._aligned[tokens], len(self._entries)], strict=True):
            own = self._entries[entry] if operator is not None and entry is not None else ()
            if operator is not None and not (views or names.computes(operator.name) or operator.context):
                entry = None
            if entry is None or not taken.isdisjoint(own):
                gap += [] if operator is None else [operator]
                continue
            taken.update(own)
            rows = tuple(
                each[0] for each in self._entries[before + 1 : entry] if len(each) == 1 and each[0] not in taken
            )
            if operator is not None and gap and _counts_batches(gap[-1], self.tokens[own[0]]):
                places[gap.pop()] = Place(own, FORWARD)
            landed = self._gap(gap, rows, left, trains and operator is None)
            places.update(landed)
            left += set(rows) - {place for each in landed.values() for place in each.layers}
            if operator is not None:
                places[operator] = Place(own, FORWARD)
            gap, before = [], entry
        self._join(places)
        return places

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
        """
        encoders = [o for o in operators if o.base in ENCODERS]
        if any(o.label for o in encoders):
            named = {o: Place(self._under(o.label.removeprefix(LABEL), rows), FORWARD) for o in encoders}
            return {
                o: named[o] if o in named and named[o].layers else Place(name=_remainder(o, loss)) for o in operators
            }
        texts = {o: text for o in operators if (text := fused.text_of(o, self._nodes))}
        macs = sum(work_of(o.name, o.arguments).macs or 0 for o in operators)
        equal = macs and macs == sum(self.layers[row].macs or 0 for row in rows)
        if texts and (not equal or any(text.listed for text in texts.values())):
            return self._compiled(texts, operators, rows, left, loss)
        if not equal:
            return {o: Place(name=_remainder(o, loss)) for o in operators}
        inside = encoders or operators
        parts = self._parts(rows, len(encoders))
        segments = [Place(part, FORWARD) for part in parts]
        places = dict(zip(inside, segments if len(segments) > 1 else segments * len(inside), strict=True))
        return {o: places.get(o) or Place(name=_remainder(o, loss)) for o in operators}

    def _compiled(
        self,
        kernels: Mapping[Operator, fused.Text],
        operators: Sequence[Operator],
        rows: tuple[int, ...],
        left: list[int],
        loss: bool,
    ) -> Mapping[Operator, Place]:
        """The places of kernels that are made of rows, by the words in their names.

        ``left``: rows before that no event stands for yet; what these kernels stand for is taken out of it.
        """
        places = {o: Place(name=_remainder(o, loss)) for o in operators}
        told = fused.parts(list(kernels.values()), [self.tokens[row] for row in rows])
        for (kernel, text), part in zip(kernels.items(), told, strict=True):
            if part:
                own = [rows[place] for place in part]
                late = None
                if text.listed:
                    late = fused.earlier(text, [self.tokens[row] for row in own], [self.tokens[row] for row in left])
                places[kernel] = Place((*([] if late is None else [left.pop(late)]), *own), FORWARD)
            elif fused.is_layout(text):
                places[kernel] = Place(name=names.LAYOUT)
        return places

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


class Listed:
    """Without a model: an operator with its shapes is a layer of its own."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, object], int] = {}
        self._works: list[Work] = []
        self._names: list[tuple[str, str]] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The operators that were seen so far, with the work of one call."""
        return tuple(
            Layer(name, op, work.flops, work.bytes, None, work.macs, uncounted=work.product and work.macs is None)
            for (name, op), work in zip(self._names, self._works, strict=True)
        )

    def places(self, operators: Sequence[Operator], trains: bool, views: bool = True) -> dict[Operator, Place]:
        """The places of the operators of a forward pass."""
        return {operator: self._place(operator, trains) for operator in operators}

    def gradients(self, operators: Sequence[Operator]) -> dict[Operator, Place]:
        """The places of the operators of a compiled backward pass."""
        places = {operator: self._place(operator, trains=True) for operator in operators}
        return {operator: place._replace(phase=BACKWARD) for operator, place in places.items() if place.layers}

    def _place(self, operator: Operator, trains: bool) -> Place:
        if not names.is_unit(operator.name) and operator.context != names.GRAPHS:
            name = names.remainder_of(operator.name)
            if name not in (names.UNMATCHED, names.LAYOUT, names.COMPILED):
                return Place(name=name)
        key = (operator.name, operator.arguments)
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._works):
            shapes = " ".join("x".join(map(str, shape or ())) for shape in operator.arguments.tensors)
            self._works.append(work_of(*key))
            bare = names.bare(operator.name) if operator.context == names.GRAPHS else operator.base
            self._names.append((f"{bare} {shapes}".strip(), operator.name))
        return Place((number,), FORWARD)


def _counts_batches(operator: Operator, row: Token) -> bool:
    """True for the sum by which a normalisation counts its batches in training, of which programs show nothing."""
    return row.name == "batch_norm" and operator.base == "add" and not operator.arguments.tensors


def _remainder(operator: Operator, loss: bool) -> str:
    name = operator.context or names.remainder_of(operator.name)
    return names.LOSS if loss and name in (names.UNMATCHED, names.LAYOUT) else name


def places_of(
    window: Window, threads: Mapping[str, Thread], model: Model | Listed, replays: Sequence[Replay] = ()
) -> dict[Operator, Place]:
    """The place of every operator of a step that time is given to, those behind CUDA graphs in their turn."""
    places: dict[Operator, Place] = {}
    forward: list[Operator] = []
    gradients: list[list[Operator]] = []
    for thread in threads.values():
        units = [o for o in thread.between(window.start, window.end) if o.unit is o]
        back = [o for o in units if thread.gradients or o.gradient or names.is_gradient(o.name)]
        gradients.append(back)
        first = min((o.start for o in back), default=window.end)
        for operator in units if not thread.gradients else ():
            if operator.context:
                places[operator] = Place(name=operator.context)
            elif operator.gradient or names.is_gradient(operator.name):
                continue
            elif thread.name != window.thread:
                places[operator] = Place(name=unplaced(operator, window))
            elif operator.start > first:
                places[operator] = Place(name=_remainder_after(operator))
            else:
                forward.append(operator)
    graphs = [_parts_of(replay) for replay in replays]
    for replay, (before, _, after) in zip(replays, graphs, strict=True):
        at = sum(o.start <= replay.start for o in forward[: len(forward)])
        forward[at:at] = before
        places.update((o, Place(name=o.context or _remainder_after(o))) for o in after)
    trains = any(gradients) or any(back for _, back, _ in graphs)
    written = any(fused.is_written(o) for replay in replays for o in replay.units)
    places.update(model.places(forward, trains, views=not written))
    known = set(forward)
    owners = _owners(threads[window.thread].between(window.start, window.end), known)
    for units in gradients:
        _place_gradients(units, owners, places)
        places.update(model.gradients([o for o in units if o.gradient]))
    for replay, (_, back, _) in zip(replays, graphs, strict=True):
        _place_gradients(back, _owners(replay.inside, known), places)
        places.update(model.gradients([o for o in back if o.gradient]))
    return places


def _parts_of(replay: Replay) -> tuple[list[Operator], list[Operator], list[Operator]]:
    """The operators of a graph in its forward pass, in its backward pass, and behind that."""
    back = [o for o in replay.units if o.gradient or names.is_gradient(o.name)]
    first = back[0].start if back else None
    rest = [o for o in replay.units if not (o.gradient or names.is_gradient(o.name))]
    late = [o for o in rest if (first is not None and o.start > first) or o.context not in ("", names.GRAPHS)]
    return [o for o in rest if o not in set(late)], back, late


def _place_gradients(units: Sequence[Operator], owners: Mapping[int, Operator], places: dict[Operator, Place]) -> None:
    """Add the places of the operators of a backward pass."""
    last = Place(name=names.UNMATCHED)
    for operator in units:
        last = places[operator] = _backward(operator, owners, places, last)


def _owners(operators: Iterable[Operator], forward: set[Operator]) -> dict[int, Operator]:
    """Number of a node of the backward pass -> the operator whose gradient it computes.

    What makes no node shows the number of the next one, so the last operator with a number owns it.
    """
    return {o.sequence: o.unit for o in operators if o.sequence is not None and o.unit in forward}


def _backward(
    operator: Operator, owners: Mapping[int, Operator], places: Mapping[Operator, Place], last: Place
) -> Place:
    """The place of an operator of the backward pass; what has no number belongs to the gradient before it."""
    if operator.gradient:
        return Place(name=names.remainder_of(operator.name))
    if "AccumulateGrad" in operator.name:
        return Place(name=names.ACCUMULATION)
    if not names.is_gradient(operator.name):
        return last if last.name != names.ACCUMULATION else Place(name=names.ACCUMULATION)
    owner = owners.get(operator.sequence) if operator.sequence is not None else None
    if owner is None:
        return Place(name=names.UNMATCHED)
    place = places[owner]
    return place._replace(phase=BACKWARD) if place.layers else place


def unplaced(operator: Operator, window: Window) -> str:
    """The name of an operator that is on no row of a step: it is of another thread, or began before the step."""
    name = names.remainder_of(operator.name)
    other = operator.thread != window.thread and name in (names.UNMATCHED, names.LAYOUT)
    return names.OTHER_THREADS if other else name


def _remainder_after(operator: Operator) -> str:
    """The name of what runs between the backward pass and the end of the step: gradients are clipped, averaged."""
    name = names.remainder_of(operator.name)
    return names.OPTIMISER if name in (names.UNMATCHED, names.LAYOUT) else name
