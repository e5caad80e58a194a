"""Points at which a model may be read first: the search for sizes that it takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from flopwise.analyses.formula.terms.polynomial import Term, symbol

PRIMES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149)

#: Larger ones, for programs that treat small sizes on their own.
LARGE_PRIMES = (307, 313, 317, 331, 347, 349, 353, 359, 373, 379)

#: First points that are tried: what the i-th symbol is. Different primes show which extent comes from which symbol.
FIRST: tuple[Callable[[int], int], ...] = (
    lambda i: PRIMES[i % 10],
    lambda i: (11, 13, 17, 19, 23, 29)[i % 6],
    lambda i: 32 * (5, 7, 11, 13)[i % 4],
    lambda i: (2, 3, 5, 7)[i % 4],
    lambda i: 64 * (3, 5, 7, 11)[i % 4],
    lambda i: (513, 257, 641, 129)[i % 4],
    lambda i: 96 * (3, 5, 7, 11)[i % 4],
)

#: Sizes that are tried for all symbols together where nothing else is taken.
EQUAL = (224, 256, 512, 128, 64, 1)

#: Sizes that are tried for one symbol where no first point suits all.
SINGLE = (1, 2, 32, 224, 256, 512, 8)


def different(names: Sequence[str], hints: Mapping[str, int], large: bool = False) -> Iterator[dict[str, int]]:
    """Sizes that differ from each other, those known to fit first.

    Args:
        names: the symbols.
        hints: sizes that the model is known to take.
        large: whether larger sizes come first.
    """
    if large:
        yield {n: LARGE_PRIMES[i % 10] for i, n in enumerate(names)}
    points = [{n: size(i) for i, n in enumerate(names)} for size in FIRST]
    if hints:
        yield {**points[0], **hints}
    yield from points


def single(names: Sequence[str], best: Mapping[str, int], hints: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Points with one size changed.

    Args:
        names: the symbols.
        best: the best point so far; empty when there is none.
        hints: sizes that the model is known to take.
    """
    starts = [best] if best else [{n: size(i) for i, n in enumerate(names)} for size in (FIRST[0], FIRST[2])]
    for start, name in itertools.product(starts, names if len(names) > 1 else ()):
        for size in dict.fromkeys((*(h for n, h in hints.items() if n == name), *SINGLE)):
            yield {**start, name: size}


def equal(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """The same size for all symbols."""
    return (dict.fromkeys(names, size) for size in EQUAL)


def ties(names: Sequence[str]) -> Iterator[tuple[str, Term]]:
    """A symbol and what it may always be: the sum of two others, or the same as another."""
    for name in names:
        others = [n for n in names if n != name]
        for one, two in itertools.combinations(others, 2):
            yield name, symbol(one) + symbol(two)
        for one in others:
            yield name, symbol(one)
