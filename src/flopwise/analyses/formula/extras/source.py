"""Terms as functions: source code in Python, C and JavaScript, and Python functions that numpy's arrays go through."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flopwise._current_folder import without
from flopwise._results import Json
from flopwise.analyses.formula.conditions import Guard
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.expressions import identifiers
from flopwise.analyses.formula.rows import NO_FORMULA, OF_MODEL, Group
from flopwise.analyses.formula.terms import Atom, Polynomial, Term, magnitude
from flopwise.errors import InputError


class Way(NamedTuple):
    """The terms of one way through a program, and where they are right."""

    #: Terms on the symbols' scales, by the name of their function.
    terms: Mapping[str, Term]
    #: The symbols.
    domains: Sequence[Domain]
    #: Further conditions, in the places of the symbols.
    guards: Sequence[Guard] = ()
    #: Where they are right, for a comment.
    about: str = ""


@dataclass(frozen=True, slots=True)
class Language:
    """The notation of a language for functions of whole numbers."""

    #: Before all functions.
    head: str
    #: Before the lines of a function; takes its name, its parameters and what it returns in words.
    begin: Callable[[str, Sequence[str], str], str]
    #: One line that names a value.
    line: Callable[[str, str], str]
    #: What returns a value.
    answer: Callable[[str], str]
    #: What stands before lines that run where a condition is met.
    when: Callable[[str], str]
    #: What ends such lines, and a function; "" for nothing.
    end: str
    #: Whether a size is a whole number; "" where its type says so, or where whoever calls makes sure.
    whole: str
    #: What stands between conditions that must all hold.
    also: str
    #: What stands between conditions of which one must hold.
    either: str
    #: What a function is declared to return when that is a truth, in place of a number.
    truth: tuple[str, str] = ("", "")
    #: A number.
    number: Callable[[int], str] = str


_C = """\
/* Numbers, and the products of sizes within, are exact below 2**63. */
#include <stdint.h>

static inline int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t gcd_of(int64_t a, int64_t b) {
    while (b != 0) { int64_t rest = a % b; a = b; b = rest; }
    return a < 0 ? -a : a;
}
static inline int64_t bits_of(int64_t a) { int64_t n = 0; while (a != 0) { a /= 2; n++; } return n; }
"""

_JAVASCRIPT = """\
// Numbers, and the products of sizes within, are exact up to 2**53.
const floor_div = (a, b) => (b === 0 ? 0 : Math.floor(a / b));
const min_of = Math.min;
const max_of = Math.max;
const gcd_of = (a, b) => (b === 0 ? Math.abs(a) : gcd_of(b, a % b));
const bits_of = (a) => (a === 0 ? 0 : Math.abs(a).toString(2).length);
"""

_PYTHON = """\
def floor_div(a, b):
    return a // (b + (b == 0)) * (b != 0)


def min_of(a, b):
    return (a < b) * a + (a >= b) * b


def max_of(a, b):
    return (a > b) * a + (a <= b) * b


def gcd_of(a, b):
    import math

    if isinstance(a, int) and isinstance(b, int):
        return math.gcd(a, b)
    import numpy

    return numpy.gcd(a, b)


def bits_of(a):
    return sum((abs(a) >> n) > 0 for n in range(63))
"""

LANGUAGES: dict[str, Language] = {
    "c": Language(
        _C,
        lambda name, names, words: (
            f"\n/* {words} */\nint64_t {name}({', '.join(f'int64_t {n}' for n in names) or 'void'}) {{"
        ),
        lambda name, value: f"    const int64_t {name} = {value};",
        lambda value: f"    return {value};",
        lambda condition: f"    if ({condition}) {{",
        "}",
        "",
        " && ",
        " || ",
        ("int64_t holds", "int holds"),
        lambda number: f"INT64_C({number})" if abs(number) >= 1 << 31 else str(number),
    ),
    "javascript": Language(
        _JAVASCRIPT,
        lambda name, names, words: f"\n/** {words} */\nexport function {name}({', '.join(names)}) {{",
        lambda name, value: f"  const {name} = {value};",
        lambda value: f"  return {value};",
        lambda condition: f"  if ({condition}) {{",
        "}",
        "Number.isInteger({})",
        " && ",
        " || ",
    ),
    "python": Language(
        _PYTHON,
        lambda name, names, words: f'\n\ndef {name}({", ".join(names)}):\n    """{words}"""',
        lambda name, value: f"    {name} = {value}",
        lambda value: f"    return {value}",
        lambda condition: f"    if {condition}:",
        "",
        "({0} % 1 == 0)",
        " & ",
        " or ",
    ),
}


def source(ways: Sequence[Way], language: str) -> str:
    """Source code with a function for each term, and ``holds``, which says whether the others are right at some sizes.

    The parameters are the symbols, whole numbers. Of several ways each has a function of its own that says whether its
    terms are right (``holds_1``, ``holds_2`` ...), by which the others choose.

    Args:
        ways: each with its terms; there is a function for each term of the first.
        language: "python", "c" or "javascript".

    Raises:
        InputError: there is no such language.
    """
    if language not in LANGUAGES:
        raise InputError(f"source cannot be written in {language!r}; known: {', '.join(LANGUAGES)}")
    form = LANGUAGES[language]
    names = identifiers([d.name for d in ways[0].domains], code=language != "python")
    parameters = list(names.values())

    def made(name: str, words: str, lines: Sequence[str]) -> str:
        begin = form.begin(name, parameters, words.replace("*/", "* /").replace('"""', ""))
        begin = begin.replace(*form.truth) if name.startswith("holds") else begin
        return "\n".join(filter(None, (begin, *lines, form.end)))

    parts, about = [form.head], ways[0].about
    domain = about or "every size from 0 on"
    if len(ways) > 1:
        parts += [
            made(f"holds_{number}", f"Whether way {number} is taken: {way.about}", _holds(way, names, form))
            for number, way in enumerate(ways, 1)
        ]
        about, domain = "", f"the sizes of one of the {len(ways)} ways"
    calls = [f"holds_{number}({', '.join(parameters)})" for number in range(1, len(ways) + 1)]
    decided = [form.answer(form.either.join(calls))] if len(ways) > 1 else _holds(ways[0], names, form)
    parts.append(
        made("holds", f"Whether the functions below hold, for {domain}; at other sizes they are not defined", decided)
    )
    for name in ways[0].terms:
        bodies: dict[tuple[str, ...], list[str]] = {}
        for way, call in zip(ways, calls, strict=True):
            bodies.setdefault(tuple(_lines(way.terms.get(name, -1), way, names, form)), []).append(call)
        words = f"{name.replace('_', ' ')}{f', for {about}' if about else ''}"
        words += "; -1 where it has no formula" if any(name not in way.terms for way in ways) else ""
        parts.append(made(name, words, list(_chosen(bodies, form))))
    return "\n".join(parts) + "\n"


def _chosen(bodies: Mapping[tuple[str, ...], Sequence[str]], form: Language) -> Iterator[str]:
    """Lines for each of several conditions, one of which must hold, as the lines of one function."""
    *first, last = bodies
    for lines in first:
        before = form.when(form.either.join(bodies[lines]))
        margin = before[: len(before) - len(before.lstrip())]
        yield before
        yield from (margin + line for line in lines)
        if form.end:
            yield margin + form.end
    yield from last


def _holds(way: Way, names: Mapping[str, str], form: Language) -> list[str]:
    """The lines of the function that says whether the formulas of a way hold."""
    lines: list[str] = []
    parts = [form.whole.format(names[d.name]) for d in way.domains if form.whole]
    for d in way.domains:
        parts.append(f"({names[d.name]} >= {form.number(d.low)})")
        parts += [f"({names[d.name]} <= {form.number(d.high)})"] if d.high is not None else []
        parts += [f"(({names[d.name]} - {d.offset}) % {d.step} == 0)"] if d.step > 1 else []
    text = _writer(way.domains, names, form, lines)
    parts += [f"({text(guard.expression)} {guard.relation} 0)" for guard in way.guards]
    return [*lines, form.answer(form.also.join(parts) or "1")]


def _lines(term: Term, way: Way, names: Mapping[str, str], form: Language) -> list[str]:
    """The lines of a function: a name for each place and atom, and what it returns."""
    lines: list[str] = []
    result = _writer(way.domains, names, form, lines)(term)
    return [*lines, form.answer(result)]


def _writer(
    domains: Sequence[Domain], names: Mapping[str, str], form: Language, lines: list[str]
) -> Callable[[Term], str]:
    """A function that writes a term, and adds the lines that name its places and atoms."""
    written: dict[str, str] = {}

    def text(part: Term) -> str:
        if isinstance(part, int):
            return form.number(part)
        products = []
        for monomial, factor in part.terms.items():
            factors = [form.number(abs(factor))] if abs(factor) != 1 or not monomial else []
            factors += [atom(a) for a, power in monomial for _ in range(power)]
            products.append(("- " if factor < 0 else "+ ") + " * ".join(factors))
        return " ".join(products).removeprefix("+ ").replace("- ", "-", 1 if products[0][0] == "-" else 0)

    def atom(one: Atom) -> str:
        if one not in written:
            if one.kind == "symbol":
                written[one] = _place(next(d for d in domains if d.name == one), names[one], lines, form)
            else:
                call = {"floor": "floor_div", "min": "min_of", "max": "max_of", "bits": "bits_of", "gcd": "gcd_of"}[
                    one.kind
                ]
                value = f"{call}({', '.join(map(text, one.parts))})"
                written[one] = f"v{sum(n.startswith('v') for n in written.values())}_"
                lines.append(form.line(written[one], value))
        return written[one]

    return text


def _place(domain: Domain, name: str, lines: list[str], form: Language) -> str:
    """The place of a symbol on its scale: the size itself where every size is allowed."""
    if domain.step == 1 and not domain.offset:
        return name
    place = f"{name}_place_"  # no symbol's name ends in an underscore
    lines.append(form.line(place, f"floor_div({name} - {domain.offset}, {domain.step})"))
    return place


def function(
    terms: Mapping[str, Term], domains: Sequence[Domain], guards: Sequence[Guard] = ()
) -> dict[str, Callable[..., Any]]:
    """Python functions of the terms, which take whole numbers or numpy's arrays of them; and ``holds``."""
    scope: dict[str, Any] = {}
    exec(compile(source([Way(terms, domains, guards)], "python"), "<formula>", "exec"), scope)
    return {name: scope[name] for name in ("holds", *terms)}


def monotone(term: Term, name: str) -> bool:
    """True if the form of a term shows that it never falls as a symbol grows."""
    if isinstance(term, int):
        return True
    return all(factor > 0 or not _moves(monomial, name) for monomial, factor in term.terms.items() if monomial) and all(
        _rises(atom, name) for atom in term.atoms()
    )


def _moves(monomial: Any, name: str) -> bool:
    return any(not _fixed(atom, name) for atom, _ in monomial)


def _fixed(atom: Atom, name: str) -> bool:
    if atom.kind == "symbol":
        return atom != name
    parts = [p for p in atom.parts if isinstance(p, Polynomial)]
    return all(_fixed(a, name) for p in parts for a in p.atoms())


def _rises(atom: Atom, name: str) -> bool:
    if atom.kind == "symbol" or _fixed(atom, name):
        return True
    if atom.kind == "gcd" or (atom.kind == "floor" and isinstance(atom.parts[1], Polynomial)):
        return False
    return all(monotone(part, name) for part in atom.parts)


# Functions of the symbols that answer only where the formulas hold.


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


# The formulas of a model in the stable JSON schema ``flopwise.formula/1``.


def formula_json(formula: Any) -> Json:
    """A ``Formula`` as the JSON object ``flopwise.formula/1``, its formulas as text; ``Formula.to_dict`` returns it."""
    text, names = formula.text, identifiers([d.name for d in formula.domains])
    unknown: dict[str, int] = {}
    for row in formula.rows:
        if row.missing == "rule":
            unknown[row.node.op] = unknown.get(row.node.op, 0) + 1
    return {
        "schema": "flopwise.formula/1",
        "model": {"name": formula.graph.name, "source": formula.graph.source, "format": formula.graph.format},
        "inputs": [{"name": n, "dtype": d, "shape": [_number(text(t)) for t in s]} for n, d, s in formula.inputs],
        "convention": {"name": formula.convention.name, "unit": formula.convention.unit},
        "symbols": [
            {"name": d.name, "written": names[d.name], "low": d.low, "high": d.high, "step": d.step}
            for d in formula.domains
        ],
        "conditions": list(formula.conditions),
        "totals": _totals(formula),
        **({"ways": [_way(way) for way in formula.ways], "closed": formula.closed} if formula.ways else {}),
        "layers": [
            {
                "name": row.name,
                "op": row.node.op,
                "scope": row.node.module,
                **{f: _text(text, t) for f, t in layer.terms.items()},
                "ops": _operations(text, layer),
            }
            for row, layer in zip(formula.rows, formula.layers, strict=True)
        ],
        "coverage": {
            "nodes": len(formula.rows),
            "unknown": unknown,
            "without_formula": [row.name for row in formula.rows if row.note == NO_FORMULA],
            "unresolved": list(formula.unresolved),
        },
        "verified_at": [dict(p) for p in formula.verified_at],
        "notes": list(formula.notes),
    }


def _totals(formula: Any) -> Json:
    """Figure of the whole model -> its formula as text, None if it has none; operations by class under "ops"."""
    return {
        **{f: _text(formula.text, t) for f, t in formula.whole.terms.items()},
        **{f: _text(formula.text, formula.term(f)) for f in OF_MODEL},
        "ops": _operations(formula.text, formula.whole),
    }


def _way(way: Any) -> Json:
    """Conditions and totals of a way: formulas at sizes at which the program takes another branch."""
    return {
        "conditions": list(way.conditions),
        "totals": _totals(way),
        "verified_at": [dict(p) for p in way.verified_at],
    }


def _operations(text: Callable[[Term], str], group: Group) -> dict[str, str | None] | None:
    """Class of operations ("mac", "add" ...) -> its formula as text; None if no layer has a rule."""
    counted = any(row.counts is not None for row in group.rows)
    return {name: _text(text, term) for name, term in group.classes.items()} if counted else None


def _text(text: Callable[[Term], str], term: Term | None) -> str | None:
    return None if term is None else text(term)


def _number(text: str) -> int | str:
    """An extent: a number where it is fixed, else its formula as text."""
    return int(text) if text.isdigit() else text


# Costs against one symbol, drawn.


def drawn(symbol: str, sizes: Sequence[int], lines: Mapping[str, Sequence[int | None]], title: str) -> Any:
    """A figure of matplotlib with a line for each label.

    Args:
        symbol: what the x axis is.
        sizes: the places on it.
        lines: label -> a value for each size; None is a gap.
        title: stands above.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        with without("matplotlibrc"):
            from matplotlib.figure import Figure
    except ImportError:
        raise InputError("plots need matplotlib: pip install 'flopwise[figures]'") from None
    plot = Figure(layout="constrained")
    axes = plot.subplots()
    for label, values in lines.items():
        axes.plot(list(sizes), [float("nan") if v is None else v for v in values], label=label)
    axes.set_xlabel(symbol)
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.legend()
    return plot
