"""Functions of the symbols that answer only where the formulas hold."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.extras.source import function
from flopwise.analyses.formula.guards import Guard
from flopwise.analyses.formula.terms.evaluation import magnitude
from flopwise.analyses.formula.terms.expressions import identifiers
from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.errors import InputError

#: Where a number at the largest sizes may be larger, Python's integers are counted with: 64 bits may be too few.
LARGE = 1 << 52


class Piece(NamedTuple):
    """A function of the symbols."""

    of: Callable[..., Any]
    #: Whether it is right at some sizes.
    holds: Callable[..., Any]
    #: What no number in it exceeds, where no size exceeds these.
    most: Callable[[Mapping[str, int]], int]


def pieces(terms: Mapping[str, Term], domains: Sequence[Domain], guards: Sequence[Guard]) -> dict[str, Piece]:
    """The functions of terms in the places of symbols, by name.

    Args:
        terms: the terms.
        domains: the symbols.
        guards: where the terms are right.
    """
    plain = function(terms, domains, guards)
    holds, names = plain.pop("holds"), identifiers([d.name for d in domains])

    def most(term: Term, sizes: Mapping[str, int]) -> int:
        places = {d.name: max(abs(d.place(sizes[names[d.name]])), 1) for d in domains}
        return max(magnitude(one, places) for one in (term, *(guard.expression for guard in guards)))

    return {name: Piece(made, holds, functools.partial(most, terms[name])) for name, made in plain.items()}


def checked(pieces: Sequence[Piece], point: Callable[[Mapping[str, int]], Mapping[str, int]]) -> Callable[..., object]:
    """The function in pieces as one, which refuses sizes at which none of them is right.

    Args:
        pieces: they take whole numbers, or arrays of them.
        point: raises InputError, which names the condition, where none is right.
    """
    function = pieces[0].of
    signature = inspect.signature(function)

    def answer(*sizes: object, **named: object) -> Any:
        try:
            by_name = dict(signature.bind(*sizes, **named).arguments)
        except TypeError as error:
            raise InputError(f"sizes of {', '.join(signature.parameters)} are needed: {error}") from None
        if not any(getattr(size, "ndim", 0) or isinstance(size, list | tuple) for size in by_name.values()):
            plain = {name: _integer(name, size) for name, size in by_name.items()}
            for piece in pieces:
                if piece.holds(**plain):
                    return piece.of(**plain)
            point(plain)
            return function(**plain)
        return _of_arrays(pieces, point, by_name)

    answer.__name__ = answer.__qualname__ = function.__name__
    answer.__doc__ = function.__doc__
    answer.__signature__ = signature  # type: ignore[attr-defined]
    return answer


def _integer(name: str, size: Any) -> int:
    try:
        return operator.index(size)
    except TypeError:
        raise InputError(f"{name} = {size} is not a whole number") from None


def _of_arrays(
    pieces: Sequence[Piece], point: Callable[[Mapping[str, int]], Mapping[str, int]], sizes: Mapping[str, object]
) -> object:
    import numpy

    arrays = {name: numpy.asarray(size) for name, size in sizes.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "iuO":
            raise InputError(f"{name} has elements of type {array.dtype}, which are not whole numbers")
    spread = dict(zip(arrays, numpy.broadcast_arrays(*arrays.values()), strict=True))
    shape = next(iter(spread.values())).shape
    if not math.prod(shape):
        return numpy.zeros(shape, dtype="i8")
    values, left = evaluated(pieces, {name: array.ravel() for name, array in spread.items()})
    if not len(left):
        return values.reshape(shape)
    first = {name: _integer(name, array.ravel()[left[0]]) for name, array in spread.items()}
    point(first)
    raise InputError(f"no formula holds at {', '.join(f'{n} = {s}' for n, s in first.items())}")


def evaluated(pieces: Sequence[Piece], sizes: Mapping[str, Any]) -> tuple[Any, Any]:
    """The values of a function in pieces at several points, and the places of those at which none of them is right.

    Args:
        pieces: they take arrays.
        sizes: arrays of one length, which is not 0.
    """
    import numpy

    largest = {name: max(_integer(name, array.max()), -_integer(name, array.min()), 1) for name, array in sizes.items()}
    short = max(largest.values()) < LARGE and all(piece.most(largest) < LARGE for piece in pieces)
    kind = "i8" if short else object
    left = {name: array.astype(kind) for name, array in sizes.items()}
    length = len(next(iter(left.values())))
    values, open_places = numpy.zeros(length, kind), numpy.arange(length)
    for piece in pieces:
        right = numpy.broadcast_to(numpy.asarray(piece.holds(**left), dtype=bool), open_places.shape)
        values[open_places[right]] = piece.of(**{name: array[right] for name, array in left.items()})
        open_places, left = open_places[~right], {name: array[~right] for name, array in left.items()}
        if not len(open_places):
            break
    return values, open_places
