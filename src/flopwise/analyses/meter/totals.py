"""The figures of a batch as terms in its open sizes, kept on disk under a digest of the model's structure."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flopwise._version import __version__
from flopwise.analyses.formula.conditions import Guard, Guards, recording
from flopwise.analyses.formula.dim import term
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.expressions import identifiers
from flopwise.analyses.formula.extras.source import function
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.rows import NO_FORMULA
from flopwise.analyses.formula.terms import Atom, Polynomial, Term, add_up, symbols, value
from flopwise.analyses.meter.cost import FIGURES, figures_of
from flopwise.analyses.timing.store import default_path
from flopwise.errors import InputError
from flopwise.rows import Row
from flopwise.writers.atomic import write

#: The operator of attention among sequences of many lengths in a row.
RAGGED = "aten::ragged_attention"


@dataclass(frozen=True)
class Totals:
    """The figures of a batch in its open sizes."""

    domains: tuple[Domain, ...]
    #: Where the terms hold, in the places of the symbols.
    guards: tuple[Guard, ...]
    #: Symbols that follow from others.
    tied: Mapping[str, Term]
    terms: Mapping[str, Term]
    #: The operations of them that attention among sequences in a row takes, of one sequence as long as the row; empty
    #: where there is none. The bytes that it moves are those of its tensors, whatever the lengths.
    ragged: Mapping[str, Term]
    exact: bool

    @functools.cached_property
    def _functions(self) -> tuple[dict[str, str], dict[str, Callable[..., int]]]:
        names = identifiers([d.name for d in self.domains])
        terms = {**self.terms, **{f"ragged_{name}": term for name, term in self.ragged.items()}}
        return names, function(terms, self.domains, self.guards)

    def at(self, point: Mapping[str, int]) -> dict[str, int] | None:
        """The figures at a size of each symbol; None where the terms do not hold."""
        if not self._holds(point):
            return None
        names, functions = self._functions
        sizes = {names[d.name]: point[d.name] for d in self.domains}
        return {figure: functions[figure](**sizes) for figure in self.terms}

    def of_lengths(self, point: Mapping[str, int], row: str, lengths: Sequence[int]) -> dict[str, int] | None:
        """The figures of sequences that lie in a row; None where the terms do not hold.

        Args:
            point: a size of each symbol.
            row: the symbol of the tokens in the row.
            lengths: of the sequences; they add up to the row.
        """
        figures = self.at(point)
        if figures is None or not self.ragged:
            return figures
        parts = {length: self._of_sequence({**point, row: length}) for length in {*lengths, point[row]}}
        whole = parts[point[row]]
        for name in whole:
            figures[name] += sum(parts[length][name] for length in lengths) - whole[name]
        figures.pop("saved_bytes", None)  # the borders are kept, too, of which there are more
        return figures

    def _of_sequence(self, point: Mapping[str, int]) -> dict[str, int]:
        names, functions = self._functions
        sizes = {names[d.name]: point[d.name] for d in self.domains}
        return {figure: functions[f"ragged_{figure}"](**sizes) for figure in self.ragged}

    def unmet(self, point: Mapping[str, int]) -> list[str]:
        """The symbols of the first condition that a size of each does not meet; none where the terms hold."""
        names: set[str] = set()
        places = {d.name: d.place(point[d.name]) for d in self.domains}
        if tie := next((name for name, tie in self.tied.items() if value(tie, point) != point[name]), None):
            names = {tie, *symbols(self.tied[tie])}
        elif domain := next((d for d in self.domains if not d.holds(point[d.name])), None):
            names = {domain.name}
        elif guard := next((guard for guard in self.guards if not guard.holds(places)), None):
            names = symbols(guard.expression)
        return [name for name in point if name in names]

    def _holds(self, point: Mapping[str, int]) -> bool:
        if any(value(tie, point) != point[name] for name, tie in self.tied.items()):
            return False
        names, functions = self._functions
        return bool(functions["holds"](**{names[d.name]: point[d.name] for d in self.domains}))

    def to_dict(self) -> dict[str, Any]:
        """The terms as plain values, which ``from_dict`` takes."""
        return {
            "domains": [[d.name, d.step, d.offset, d.low, d.high] for d in self.domains],
            "guards": [[_content(guard.expression), guard.relation] for guard in self.guards],
            **{key: {name: _content(one) for name, one in getattr(self, key).items()} for key in _MAPPINGS},
            "exact": self.exact,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Totals:
        """The totals of what ``to_dict`` gave."""
        return cls(
            domains=tuple(Domain(*domain) for domain in content["domains"]),
            guards=tuple(Guard(_term(one), relation) for one, relation in content["guards"]),
            **{key: {name: _term(one) for name, one in content[key].items()} for key in _MAPPINGS},
            exact=content["exact"],
        )


_MAPPINGS = ("tied", "terms", "ragged")


def totals_of(formula: Formula) -> Totals:
    """The totals of a formula.

    Raises:
        InputError: it does not hold for every size within its conditions, a layer has none, or there are no layers.
    """
    if not formula.rows:
        raise InputError("the model has no operators")
    if not formula.everywhere:
        raise InputError("the program takes another way at sizes for which no condition speaks")
    lacking = _lacking(formula.rows)
    guards = Guards({guard: why for guard, _, why in formula.guards.guards})
    with recording(guards):
        rows = [(row, _terms(row)) for row in formula.rows]
    ragged = _sums([terms for row, terms in rows if row.node.op == RAGGED])
    return Totals(
        domains=formula.domains,
        guards=tuple(guards.reasons),
        tied=formula.tied,
        terms={name: one for name, one in _sums([terms for _, terms in rows]).items() if name not in lacking},
        ragged={name: one for name, one in ragged.items() if not name.endswith("bytes")},
        exact=formula.exact,
    )


def _lacking(rows: Sequence[Row]) -> set[str]:
    """The figures that have no formula.

    Raises:
        InputError: a layer has no formula of its operations.
    """
    trained = any(row.backward_counts is not None for row in rows)
    without = [row for row in rows if row.note == NO_FORMULA]
    for row in without:
        if row.counts is None or (trained and row.backward_counts is None):
            raise InputError(f"layer {row.name!r} has no formula")
    return {"saved_bytes"} if any(row.saved_bytes is None for row in without) else set()


def _terms(row: Row) -> tuple[Term, ...]:
    return tuple([term(figure) for figure in figures_of(row)])


def _sums(rows: Sequence[tuple[Term, ...]]) -> dict[str, Term]:
    return {name: add_up(column) for name, column in zip(FIGURES, zip(*rows, strict=True), strict=False)}


def _content(one: Term) -> Any:
    """A term as plain values: a number, or a list of products."""
    if isinstance(one, int):
        return one
    return [[factor, [[_content_of_atom(a), power] for a, power in monomial]] for monomial, factor in one.terms.items()]


def _content_of_atom(atom: Atom) -> Any:
    return [atom.kind, str(atom), [_content(part) for part in atom.parts]]


def _term(content: Any) -> Any:
    if isinstance(content, int):
        return content
    return Polynomial(
        {
            tuple((Atom.of(kind, text, *map(_term, parts)), power) for (kind, text, parts), power in atoms): factor
            for factor, atoms in content
        }
    )


# Formulas of batches kept on disk, each under a digest of the model's structure.


SCHEMA = "flopwise.meter/1"


def structure(model: nn.Module) -> str:
    """A digest of a module's classes, settings, and shapes and types of its tensors, with the versions in use."""
    digest = hashlib.sha256(f"{__version__} {torch.__version__}".encode())
    for line in _lines(model):
        digest.update(line.encode("utf-8", "replace"))
    return digest.hexdigest()


def _lines(model: nn.Module) -> Iterator[str]:
    for path, module in model.named_modules():
        kind = type(module)
        settings = {k: v for k, v in vars(module).items() if isinstance(v, (bool, int, float, str, type(None)))}
        yield f"{path} {kind.__module__}.{kind.__qualname__} {module.extra_repr()} {sorted(settings.items())}\n"
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        yield f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.device.type} {tensor.requires_grad}\n"
    config: Any = getattr(model, "config", None)
    yield json.dumps(config.to_dict(), default=str, sort_keys=True) if hasattr(config, "to_dict") else ""


def path_of(digest: str) -> Path:
    """The file of a formula: beside the stored times of engines, in the user's data folder."""
    return default_path().parent / "meters" / f"{digest}.json"


def load(digest: str) -> Totals | None:
    """The formula that is kept under a digest; None where there is none, or its file is damaged."""
    try:
        content: Mapping[str, Any] = json.loads(path_of(digest).read_text("utf-8"))
        return Totals.from_dict(content) if content["schema"] == SCHEMA else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def keep(digest: str, totals: Totals) -> None:
    """Keep a formula; where the folder cannot be written, the next process derives it anew."""
    path = path_of(digest)
    with contextlib.suppress(OSError, InputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(json.dumps({"schema": SCHEMA, **totals.to_dict()}).encode(), path)
