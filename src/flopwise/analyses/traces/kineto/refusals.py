"""Why a trace is not one of a model: other shapes, or another model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import NoReturn

from flopwise.analyses.traces.kineto.model import Model, token_of
from flopwise.analyses.traces.kineto.records import Operator
from flopwise.analyses.traces.kineto.tokens import align
from flopwise.errors import ModelError
from flopwise.profiles.profile import Profile


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
