"""Sorting, searching and drawing of PyTorch's: how much there is to do depends on the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tests.operators.arrays import Input, positive, real
from tests.operators.calls import Call, call
from tests.operators.oracle.number import Number, floor, plain


def position(kept: Any, v: Any) -> int:
    """How many elements of a sorted list are smaller, by binary search."""
    low, high = 0, len(kept)
    while low < high:
        middle = (low + high) // 2
        if plain(v <= kept[middle]):
            high = middle
        else:
            low = middle + 1
    return low


def ordered(x: Any) -> list[Any]:
    """The elements in order: each finds its place among those before it."""
    kept: list[Any] = []
    for v in np.asarray(x, object).flat:
        kept.insert(position(kept, v), v)
    return kept


def middle(x: Any) -> Any:
    return ordered(x)[(x.size - 1) // 2]


def distinct(x: Any) -> Any:
    kept: list[Any] = []
    for v in x.flat:
        at = position(kept, v)
        if at == len(kept) or not v.equals(kept[at]).value:
            kept.insert(at, v)
    return np.array(kept, object)


def distinct_and_often(x: Any) -> tuple[Any, Any]:
    """The different elements, and how often each one is there."""
    kept, often = [], []
    for v in x.flat:
        at = position(kept, v)
        if at == len(kept) or not v.equals(kept[at]).value:
            kept.insert(at, v)
            often.insert(at, Number(0, v.tally))
        often[at] = often[at] + 1
    return np.array(kept, object), np.array(often, object)


def most_frequent(x: Any) -> Any:
    """The element with the longest run among the sorted ones."""
    tally = x.flat[0].tally
    run, longest, found = Number(0, tally), Number(0, tally), x.flat[0]
    before: Any = math.nan
    for v in ordered(x):
        longer = run + 1
        run = longer if v.equals(before).value else Number(1, tally)
        if (run > longest).value:
            longest, found = run, v
        before = v
    return found


def quantile(x: Any, chances: Any) -> Any:
    """Between the two neighbours of each place among the sorted elements."""
    kept, out = ordered(x), np.empty(chances.shape, object)
    for at, chance in np.ndenumerate(chances):
        place = chance * float(len(kept) - 1)
        low = floor(place) if isinstance(place, Number) else math.floor(place)
        index = int(plain(low))
        a, b = kept[index], kept[min(index + 1, len(kept) - 1)]
        out[at] = a + (b - a) * (place - low)
    return out


def scalar_quantile(x: Any) -> Any:
    return quantile(x, np.array(0.3))


def places_in(x: Any, kept: Any) -> Any:
    out = np.empty(x.shape, object)
    for at, v in np.ndenumerate(x):
        out[at] = position(list(kept), v)
    return out


def chosen(x: Any, chances: Any, replacement: bool) -> Any:
    """For each chance the first place whose running share is above it; what was chosen is gone without replacement."""
    left = list(range(len(x)))
    found = []
    shares: list[Any] = []
    for chance in chances:
        if not (replacement and shares):
            shares, total = [], 0.0
            for i in left:
                total = x[i] + total
                shares.append(total)
            shares = [share / total for share in shares]
        at = position(shares, chance)
        found.append(left[at])
        if not replacement:
            left.pop(at)
    return np.array(found, object)


def middle_of_share(weights: Any, replacement: bool) -> Callable[[Any], Any]:
    """Chances in the middle of the shares that were drawn."""

    def chances(drawn: Any) -> Any:
        left, found = list(range(len(weights))), []
        for index in drawn:
            own = weights[left] / weights[left].sum()
            at = left.index(index)
            found.append(own[:at].sum() + own[at] / 2)
            if not replacement:
                left.pop(at)
        return np.array(found)

    return chances


def calls() -> Iterator[Call]:
    x = real(3, 5)
    ties = Input(np.array([2.0, 1.0, 2.0, 3.0, 1.0, 2.0]))
    yield call("median", torch.median, middle, x)
    yield call("median", lambda x: torch.kthvalue(x, 2).values, lambda x: ordered(x)[1], real(7))
    yield call("median", lambda x: torch.mode(x).values, most_frequent, ties)
    yield call("unique", torch.unique, distinct, ties)
    yield call("unique", torch.unique, distinct, real(7))
    yield call("unique", torch.unique, distinct, real(15))
    chances = Input(np.array([0.1, 0.5, 0.77]))
    yield call("unique", lambda x: torch.unique(x, return_counts=True), distinct_and_often, ties)
    yield call("quantile", torch.quantile, quantile, real(7), chances)
    yield call("quantile", lambda x: torch.quantile(x, 0.3), scalar_quantile, real(7))
    edges = Input(np.sort(real(5).array))
    yield call("searchsorted", torch.searchsorted, lambda kept, x: places_in(x, kept), edges, x)
    yield call("searchsorted", torch.bucketize, places_in, x, edges)
    for replacement in (True, False):
        weights = positive(7)
        yield call(
            "multinomial",
            lambda x, r=replacement: torch.multinomial(x, 3, r),
            lambda x, chances, r=replacement: chosen(x, chances, r),
            weights,
            drawn=middle_of_share(weights.array, replacement),
        )
