"""Where the operators of one step belong: rows by alignment, segments, the backward pass by sequence numbers, names."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from flopwise.analyses.traces.kineto import fused, names
from flopwise.analyses.traces.kineto.counts import ENCODERS, Work, work_of
from flopwise.analyses.traces.kineto.records import LABEL, Operator
from flopwise.analyses.traces.kineto.steps import Window
from flopwise.analyses.traces.kineto.threads import Thread
from flopwise.analyses.traces.kineto.tokens import Token, align, token, tokens_of
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Layer, layers_of
from flopwise.profiles.profile import Profile


def token_of(operator: Operator, modules: Container[str] = ()) -> Token:
    """An operator as it is compared with rows; a label of no module of the model says nothing where shapes do."""
    work = work_of(operator.name, operator.arguments)
    path = operator.label.removeprefix(LABEL)
    tensors = operator.arguments.tensors
    module = path if operator.label and (path in modules or not tensors) else None
    return token(operator.base, work.op, tensors, work.macs or -1 if work.product else 0, module)


class Model:
    """The rows that the operators of a trace are put on."""

    def __init__(self, profile: Profile) -> None:
        self.layers = layers_of(profile)
        self.tokens = tokens_of(profile)
        self._modules = {layer.module for layer in self.layers}
        self._aligned: dict[tuple[Token, ...], list[int | None]] = {}

    def places(self, operators: Sequence[Operator], trains: bool) -> dict[Operator, Place]:
        """The places of the operators of a forward pass.

        Args:
            operators: in the order of execution.
            trains: whether a backward pass follows: what comes after the last row then is the loss.
        """
        tokens = tuple(token_of(operator, self._modules) for operator in operators)
        if tokens not in self._aligned:
            self._aligned[tokens] = align(tokens, self.tokens)
        pairs = self._aligned[tokens]
        places: dict[Operator, Place] = {}
        gap: list[Operator] = []
        left: list[int] = []
        before = -1
        for operator, row in zip([*operators, None], [*pairs, len(self.tokens)], strict=True):
            if operator is not None and row is None:
                gap.append(operator)
                continue
            assert row is not None
            after = trains and operator is None
            rows = tuple(range(before + 1, row))
            landed = self._gap(gap, rows, left, after)
            places.update(landed)
            left += set(rows) - {place for each in landed.values() for place in each.layers}
            if operator is not None:
                places[operator] = Place((row,), FORWARD)
            gap, before = [], row
        return places

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
        compiled = [o for o in operators if fused.listed(o.name)]
        if compiled:
            return self._compiled(compiled, operators, rows, left, loss)
        macs = sum(work_of(o.name, o.arguments).macs or 0 for o in operators)
        if not macs or macs != sum(self.layers[row].macs or 0 for row in rows):
            return {o: Place(name=_remainder(o, loss)) for o in operators}
        inside = encoders or operators
        parts = self._parts(rows, len(encoders))
        segments = [Place(part, FORWARD) for part in parts]
        places = dict(zip(inside, segments if len(segments) > 1 else segments * len(inside), strict=True))
        return {o: places.get(o) or Place(name=_remainder(o, loss)) for o in operators}

    def _compiled(
        self,
        kernels: Sequence[Operator],
        operators: Sequence[Operator],
        rows: tuple[int, ...],
        left: list[int],
        loss: bool,
    ) -> Mapping[Operator, Place]:
        """The places of kernels that a compiler made of rows, by the operators in their names.

        ``left``: rows before that no event stands for yet; what these kernels stand for is taken out of it.
        """
        texts = [fused.listed(kernel.name) or "" for kernel in kernels]
        places = {o: Place(name=_remainder(o, loss)) for o in operators}
        for kernel, text, part in zip(
            kernels, texts, fused.parts(texts, [self.tokens[row] for row in rows]), strict=True
        ):
            if part:
                own = [rows[place] for place in part]
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

    def places(self, operators: Sequence[Operator], trains: bool) -> dict[Operator, Place]:
        """The places of the operators of a forward pass."""
        return {operator: self._place(operator, trains) for operator in operators}

    def _place(self, operator: Operator, trains: bool) -> Place:
        if not names.is_unit(operator.name):
            name = names.remainder_of(operator.name)
            if name not in (names.UNMATCHED, names.LAYOUT):
                return Place(name=name)
        key = (operator.name, operator.arguments)
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._works):
            shapes = " ".join("x".join(map(str, shape or ())) for shape in operator.arguments.tensors)
            self._works.append(work_of(*key))
            self._names.append((f"{operator.base} {shapes}".strip(), operator.name))
        return Place((number,), FORWARD)


def _remainder(operator: Operator, loss: bool) -> str:
    name = names.remainder_of(operator.name)
    return names.LOSS if loss and name in (names.UNMATCHED, names.LAYOUT) else name


def places_of(window: Window, threads: Mapping[str, Thread], model: Model | Listed) -> dict[Operator, Place]:
    """The place of every operator of a step that time is given to."""
    places: dict[Operator, Place] = {}
    forward: list[Operator] = []
    gradients: list[list[Operator]] = []
    for thread in threads.values():
        units = [o for o in thread.between(window.start, window.end) if o.unit is o]
        back = [o for o in units if thread.gradients or names.is_gradient(o.name)]
        gradients.append(back)
        first = min((o.start for o in back), default=window.end)
        for operator in units if not thread.gradients else ():
            if operator.context:
                places[operator] = Place(name=operator.context)
            elif names.is_gradient(operator.name):
                continue
            elif thread.name != window.thread:
                places[operator] = Place(name=unplaced(operator, window))
            elif operator.start > first:
                places[operator] = Place(name=_remainder_after(operator))
            else:
                forward.append(operator)
    places.update(model.places(forward, any(gradients)))
    owners = _owners(threads[window.thread], window, set(forward))
    for units in gradients:
        last = Place(name=names.UNMATCHED)
        for operator in units:
            last = places[operator] = _backward(operator, owners, places, last)
    return places


def _owners(thread: Thread, window: Window, forward: set[Operator]) -> dict[int, Operator]:
    """Number of a node of the backward pass -> the operator whose gradient it computes.

    What makes no node shows the number of the next one, so the last operator with a number owns it.
    """
    return {
        o.sequence: o.unit
        for o in thread.between(window.start, window.end)
        if o.sequence is not None and o.unit in forward
    }


def _backward(
    operator: Operator, owners: Mapping[int, Operator], places: Mapping[Operator, Place], last: Place
) -> Place:
    """The place of an operator of the backward pass; what has no number belongs to the gradient before it."""
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
