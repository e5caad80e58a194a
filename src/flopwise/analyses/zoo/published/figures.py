"""The published figures: what is stated and where, and under which convention it is reproduced."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources

from flopwise.errors import InputError

#: The first letter of a unit -> how many it stands for; "M" is also the unit of parameters in millions.
PREFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}

#: The columns of a source's file.
COLUMNS = ("model", "quantity", "stated", "unit", "input", "year", "page", "build", "way", "count", "note")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to count a figure: a convention, whether it is doubled, and what is done to the model before."""

    convention: str
    #: Two where the source calls a multiply-add two operations and the convention calls it one.
    times: int = 1
    #: "reparameterized": after the branches of the model are fused for inference; "binary": G is 2^30, and M is 2^20.
    options: tuple[str, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> Way:
        """The way that a text such as ``2*thop reparameterized`` stands for."""
        first, *options = text.split()
        times, _, convention = first.rpartition("*")
        return cls(convention, int(times or 1), tuple(options))

    def __str__(self) -> str:
        return " ".join((f"{self.times}*{self.convention}" if self.times > 1 else self.convention, *self.options))


@dataclass(frozen=True, slots=True)
class Source:
    """A source of published figures."""

    name: str
    about: str
    #: Digits behind the point of its operations and of its parameters; None: as many as each figure shows.
    decimals: int | None
    #: The ways to count operations, its own first.
    ways: tuple[Way, ...]
    #: Versions of what the recorded counts were made with.
    versions: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure, and how flopwise comes to it."""

    source: str
    #: As the page calls it.
    model: str
    #: "operations" or "parameters".
    quantity: str
    #: The number as it is printed, and its unit: "G", "M", or "" for one.
    stated: str
    unit: str
    #: The size of the input, such as 3x224x224.
    input: str
    year: int
    #: The public page that the figure stands on.
    page: str
    #: How the model is made, such as ``timm:resnet50``; "" where no package that can be installed defines it.
    build: str
    #: The way that gives the figure; "" where none does.
    way: str
    #: What flopwise counts in that way, else in the first way of the source.
    count: int | None
    #: Why the figure is not reproduced.
    note: str

    @property
    def reproduced(self) -> bool:
        """True where flopwise comes to the figure under a named convention."""
        return bool(self.way)


def sources() -> dict[str, Source]:
    """The sources by name."""
    return {
        row["source"]: Source(
            row["source"],
            row["about"],
            int(row["decimals"]) if row["decimals"] else None,
            tuple(Way.from_text(text) for text in row["ways"].split(";")),
            row["versions"],
        )
        for row in _rows("sources.csv")
    }


def figures(source: str | None = None, models: Sequence[str] = ()) -> list[Figure]:
    """The published figures, source by source.

    Args:
        source: only those of this source.
        models: only models whose name on the page matches one of these patterns (``*``, ``?``).

    Raises:
        InputError: there is no such source, or no model matches.
    """
    works = sources()
    if source is not None and source not in works:
        raise InputError(f"unknown source {source!r}; known: {', '.join(works)}")
    chosen = [figure for name in works if source in (None, name) for figure in _figures(name)]
    if models:
        from fnmatch import fnmatchcase

        chosen = [f for f in chosen if any(fnmatchcase(f.model.lower(), pattern.lower()) for pattern in models)]
        if not chosen:
            raise InputError(f"no figures are published for a model named {', '.join(models)}")
    return chosen


def _figures(source: str) -> Iterable[Figure]:
    for row in _rows(f"{source}.csv"):
        count = int(row.pop("count") or -1)
        year = int(row.pop("year"))
        yield Figure(source=source, year=year, count=None if count < 0 else count, **row)


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("flopwise.analyses.zoo.published").joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def agrees(figure: Figure, source: Source, count: int, way: Way) -> bool:
    """True where a count rounds to the stated figure: it differs by at most half of the last digit that is printed."""
    stated = Decimal(figure.stated)
    places = -int(stated.as_tuple().exponent)
    if source.decimals is not None and figure.unit:
        places = max(places, source.decimals)
    return abs(scaled(figure, count, way) - stated) <= Decimal(5).scaleb(-places - 1)


def scaled(figure: Figure, count: int, way: Way) -> Decimal:
    """A count in the unit of a figure."""
    unit = PREFIXES.get(figure.unit, 1)
    if "binary" in way.options:
        unit = {10**6: 2**20, 10**9: 2**30}.get(unit, unit)
    return Decimal(count * way.times) / unit
