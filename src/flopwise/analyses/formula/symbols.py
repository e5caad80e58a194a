"""The symbols of a formula: their names in the model and in code, and the sizes at which the formula holds."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping

from flopwise._arguments import checked
from flopwise.analyses.formula.conditions import Conditions
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.terms.expressions import identifiers
from flopwise.analyses.formula.values import OutsideError
from flopwise.errors import InputError, did_you_mean


class Symbols:
    """The open sizes of a model."""

    domains: tuple[Domain, ...]
    conditions: tuple[str, ...]
    guards: Conditions

    @functools.partial(checked, name="Formula.named")
    def named(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes by the model's own names of the symbols.

        Raises:
            InputError: a symbol is unknown.
        """
        point = {self.own_name(name): size for name, size in sizes.items()}
        for name in point:
            if name not in self._names:
                raise self.no_symbol(name)
        return {d.name: point[d.name] for d in self.domains if d.name in point}

    def no_symbol(self, name: str) -> InputError:
        """The error that there is no symbol of a name, with the nearest."""
        symbols = [d.name for d in self.domains]
        return InputError(
            f"no symbol {name!r}{did_you_mean(name, symbols) or ';'} the symbols are {', '.join(symbols) or 'none'}"
        )

    def own_name(self, name: str) -> str:
        """The symbol that is called so in the formulas or in the model."""
        return self._names.get(name, name)

    def require_symbols(self, sizes: Mapping[str, int]) -> None:
        """Refuse a point that lacks a size for a symbol.

        Raises:
            InputError: a symbol is missing or unknown.
        """
        with contextlib.suppress(OutsideError):
            self.own_point(sizes)

    def places(self, point: Mapping[str, int]) -> dict[str, int]:
        """The places of sizes in their domains."""
        return {d.name: d.place(point[d.name]) for d in self.domains}

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """Spelling of a symbol -> its name."""
        names = [d.name for d in self.domains]
        written = (*identifiers(names, code=True).items(), *identifiers(names).items())
        return {**{clean: name for name, clean in written}, **{n: n for n in names}}

    def own_point(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The same of this way alone.

        Args:
            sizes: by the symbol's name, or as it is written in the formulas.

        Raises:
            InputError: a symbol is missing or unknown, or the formulas do not hold there.
        """
        point = {self._names.get(name, name): size for name, size in sizes.items()}
        if strange := [n for n in point if n not in self._names]:
            raise self.no_symbol(strange[0])
        for domain in self.domains:
            if domain.low == domain.high:
                point.setdefault(domain.name, domain.low)
            if domain.name not in point:
                raise InputError(f"a size for {domain.name} is missing")
            if not isinstance(point[domain.name], int) or not domain.holds(point[domain.name]):
                own = [c for c in self.conditions if c.startswith(f"{domain.name} ")]
                conditions = " and ".join(own or domain.conditions()) or f"{domain.name} >= {domain.low}"
                raise OutsideError(
                    f"the formulas do not hold for {domain.name} = {point[domain.name]}; they need {conditions}", point
                )
        point = {d.name: point[d.name] for d in self.domains}
        if broken := self.guards.broken(self.places(point)):
            guard, why = broken
            place = ", ".join(f"{n} = {s}" for n, s in point.items())
            message = f"the formulas do not hold for {place}; they need {guard}" + (f" ({why})" if why else "")
            raise OutsideError(message, point)
        return point
