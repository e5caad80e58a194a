"""The rows of a model, and the operators of a trace on them: pairs by alignment, segments between the pairs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, NoReturn

from flopwise.analyses.executed import in_order
from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.names import Token, align, pairs_by_name, siblings, token, tokens_of
from flopwise.analyses.traces.kineto.records import DTYPES, ENCODERS, LABEL, Operator, Work, work_of
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Layer, layers_of
from flopwise.errors import ModelError
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

# The operators of a trace without a model: one with its shapes is a layer of its own.


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

    def has_products_of(self, kernels: Sequence[Operator], called: Sequence[Operator]) -> bool:
        """True: each kernel is a layer of its own."""
        return True

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


# The backward pass of compiled code, whose operators have no sequence numbers: on the rows whose gradients they are.
#
# The two gradients of a matrix product contract what the product leaves, and leave what it contracts; that of a
# convolution, and of an attention, takes the operands themselves. Rows come in the reverse of their order. What a
# compiler fused between two such products stands for rows between them, by its name.


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
        texts = {o: text for o in operators if (text := names.text_of_gradient(o, self._nodes))}
        own = [row for row in rows if not self._tokens[row].product]
        parts = names.parts(list(texts.values()), [self._tokens[row] for row in own])
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
        compiled = any((text := names.text_of(o, self._nodes)) and text.listed for o in operators)
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
        texts = {o: text for o in operators if (text := names.text_of(o, self._nodes))}
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
        self, kernels: Mapping[Operator, names.Text], rows: tuple[int, ...], left: list[int]
    ) -> Iterator[tuple[Operator, Place]]:
        """The places of kernels that are made of rows, by the words in their names."""
        parts = names.parts(list(kernels.values()), [self.tokens[row] for row in rows])
        for (kernel, text), part in zip(kernels.items(), parts, strict=True):
            if part:
                own = [rows[place] for place in part]
                late = self._put_off(text, own, left) if text.listed else set()
                left[:] = [row for row in left if row not in late]
                yield kernel, Place((*sorted(late), *own), FORWARD)
            elif names.is_layout(text):
                yield kernel, Place(name=names.LAYOUT)

    def _put_off(self, text: names.Text, own: Sequence[int], left: Sequence[int]) -> set[int]:
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
        return late if all(names.tells_of(text, self.tokens[row]) for row in computed) else set()

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
            text = names.text_of(o, self._nodes)
            if macs or (text and text.listed and any(names.tells_of(text, self.tokens[row]) for row in own)):
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


# The products of a trace, which tell whether it is one of a model: how much of their time is on rows.


#: Products by which the sizes of a trace of other inputs are told.
FIRST = 10_000


class Products:
    """The products of a trace: the share of their time that is on rows, and the element type of most of it."""

    def __init__(self, model: Model | Listed) -> None:
        self._model = model
        #: Time of products that are on a row, and of those that are on none.
        self._times: Counter[bool] = Counter()
        self._numbers: Counter[bool] = Counter()
        self._dtypes: Counter[str] = Counter()
        #: Time of products of CUDA graphs that may be any row's.
        self.untold = 0
        #: The first of them.
        self.first: list[Operator] = []

    def add(
        self, times: Mapping[Operator, int], places: Mapping[Operator, Place], called: Iterable[Operator] = ()
    ) -> None:
        """Add those of a step.

        Args:
            times: of its operators, in nanoseconds.
            places: of its operators.
            called: the operators of its threads. The last product that another calls has the type of what is computed,
                which under autocast is not that of what the other is given.
        """
        last = {o.unit: o for o in called if o.unit is not None and work_of(o.name, o.arguments).product}
        for operator, time in times.items():
            place = places.get(operator)
            if place is not None and place.name == names.GRAPHS and names.product_of(operator.name):
                self.untold += time
            if place is None or not self._has(operator, place):
                continue
            self._times[bool(place.layers)] += time
            self._numbers[bool(place.layers)] += 1
            types = last.get(operator, operator).arguments.types
            self._dtypes[next((DTYPES[kind] for kind in types if kind in DTYPES), "")] += time
            if len(self.first) < FIRST:
                self.first.append(operator)

    def _has(self, operator: Operator, place: Place) -> bool:
        """True for an operator that computes products: by its own shapes, or by those of its row."""
        if operator.arguments.tensors or place.phase != FORWARD:
            return place.phase == FORWARD and token_of(operator).product
        return any(self._model.layers[number].macs for number in place.layers)

    @property
    def share(self) -> float | None:
        """The share of their time that is on rows; None where there is none."""
        total = self._times.total() + self.untold
        return self._times[True] / total if total else None

    @property
    def confirm(self) -> bool:
        """True if they are the model's: at least half of those that are told, and of their time, is on rows."""
        told = self._times.total()
        return told > 0 and 2 * self._times[True] >= told and self._numbers[True] >= self._numbers[False]

    @property
    def dtype(self) -> str:
        """The element type that most of their time was spent on; "" where no type was recorded."""
        return self._dtypes.most_common(1)[0][0] if self._dtypes else ""


# Why a trace is not one of a model: other shapes, or another model.


def refuse_other_model(
    name: str, operators: Sequence[Operator], model: Model, profile: Profile | None, share: float | None
) -> NoReturn:
    """Raise ModelError for a trace whose products are not the model's.

    Args:
        name: the file.
        operators: the products of the trace.
        model: the rows.
        profile: the model.
        share: how much of the products' time was matched.
    """
    seen = [token_of(o) for o in operators]
    products = [row for row in model.tokens if row.product]
    pairs = align(seen[: 2 * len(products)], products, shapes=False)
    ratios: Counter[Fraction | None] = Counter()
    sizes = ""
    for one, place in zip(seen, pairs, strict=False):
        if place is not None:
            ratio, texts = _ratio(one.shapes, products[place].shapes)
            ratios[ratio] += 1
            sizes = sizes or texts
    ratio, often = max(ratios.items(), key=lambda item: item[1], default=(None, 0))
    batch = _batch(profile)
    if ratio and ratio != 1 and often >= 0.8 * len(products) and batch and (batch * ratio).denominator == 1:
        raise ModelError(f"{name}: the trace's batch is {batch * ratio}, the model's {batch}: -b {batch * ratio}")
    if sizes and sum(ratios.values()) >= 0.8 * len(products):
        raise ModelError(f"{name}: the trace is of other input sizes: {sizes}; give them with -i")
    text = "none" if not share else f"{100 * share:.1f} %"
    raise ModelError(
        f"{name}: the trace is of another model: {text} of its matmul and convolution time matches "
        f"{profile.graph.name if profile else 'the model'}"
    )


def _ratio(
    seen: Sequence[tuple[int, ...] | None], row: Sequence[tuple[int, ...] | None]
) -> tuple[Fraction | None, str]:
    """The factor by which the first axis of the data is longer in a trace, else None; the sizes in words."""
    one, other = (tuple(shapes[0] or ()) for shapes in (seen, row)) if seen and row else ((), ())
    if sorted(map(_key, seen[1:])) != sorted(map(_key, row[1:])):
        return None, ""
    rank = max(len(one), len(other))
    long, short = ((1,) * (rank - len(shape)) + shape for shape in (one, other))
    text = "" if long == short else f"{'x'.join(map(str, long))} where the model has {'x'.join(map(str, short))}"
    if not rank or long[1:] != short[1:] or not short[0]:
        return None, text
    return Fraction(long[0], short[0]), text


def _batch(profile: Profile | None) -> int | None:
    first = next((t.shape for t in profile.graph.inputs if t.shape), None) if profile else None
    return first[0] if first and isinstance(first[0], int) else None


def _key(shape: tuple[int, ...] | None) -> tuple[int, ...]:
    return shape or ()


#: A model of which a part this large was passed over between layers that ran is another one.
_PASSED = 0.25

#: What is in the path of modules of which a program runs only those that its data choose.
_CHOSEN = "expert"


def refuse_passed_rows(name: str, model: Model, seen: Collection[int], profile: Profile) -> None:
    """Raise ModelError where a large part of a model has no time between its first and its last product, which have.

    Where only a part of a model ran, one of these is missing; what ran around a part is a smaller model of such layers.

    Args:
        name: the file.
        model: the rows.
        seen: those that have time.
        profile: the model.
    """
    products = [place for place, layer in enumerate(model.layers) if layer.macs]
    if not products or not {products[0], products[-1]} <= set(seen):
        return
    passed = [place for place in products if place not in seen and _CHOSEN not in model.layers[place].module]
    macs = sum(layer.macs or 0 for layer in model.layers)
    share = sum(model.layers[place].macs or 0 for place in passed) / max(1, macs)
    if share >= _PASSED:
        first, last = (model.layers[place].name for place in (passed[0], passed[-1]))
        raise ModelError(
            f"{name}: the trace is of another model: {first} to {last} of {profile.graph.name}, between layers that "
            f"ran, have no time: {share:.1%} of the MACs"
        )
