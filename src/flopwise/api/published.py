"""Published figures beside what flopwise counts today."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flopwise.analyses.zoo.published.figures import Figure, Source, Way, agrees, build, sources
from flopwise.api.profile import profile
from flopwise.errors import FlopwiseError, InputError

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: The way of counting parameters.
PARAMETERS = Way("params")


@dataclass(frozen=True, slots=True)
class Checked:
    """A figure as it is counted now."""

    figure: Figure
    #: As recorded, with the way and the count of now; the recorded one where nothing could be counted.
    now: Figure
    #: Why nothing could be counted, such as a package that is not installed; "" else.
    obstacle: str = ""

    @property
    def same(self) -> bool:
        """True where the outcome is the recorded one, or is not known."""
        return bool(self.obstacle) or (self.now.way, self.now.count) == (self.figure.way, self.figure.count)


def check(figures: Sequence[Figure], progress: Callable[[str], None] = lambda step: None) -> Iterator[Checked]:
    """Each figure as it is counted now, in the ways of its source in turn until one agrees.

    Args:
        figures: published figures, those of a model side by side.
        progress: called with what is being done.
    """
    works = sources()
    counts: dict[tuple[str, str, Way], int] = {}
    for number, figure in enumerate(figures, 1):
        progress(f"{number} of {len(figures)}: {figure.source} {figure.model}")
        if not figure.build:
            yield Checked(figure, figure)
            continue
        source = works[figure.source]
        ways = source.ways
        if figure.quantity == "parameters":
            binary = all("binary" in way.options for way in ways)
            ways = (Way("params", options=("binary",)) if binary else PARAMETERS,)
        try:
            yield Checked(figure, _check_figure(figure, source, ways, counts))
        except FlopwiseError as error:
            yield Checked(figure, figure, str(error))


def _check_figure(
    figure: Figure, source: Source, ways: Sequence[Way], counts: dict[tuple[str, str, Way], int]
) -> Figure:
    """The figure with the first way that agrees; else with the count of the first way.

    Raises:
        InputError: the package is not installed.
    """
    first: int | None = None
    for way in ways:
        options = tuple(option for option in way.options if option != "binary")
        key = (figure.build, figure.input, Way(way.convention, options=options))
        if key not in counts:
            profile = profiled(figure, way)
            if "reparameterized" not in options:
                counts.setdefault((*key[:2], PARAMETERS), int(profile.total("params")))
            if key[2] != PARAMETERS:
                counts[key] = _total(figure, way, profile)
        first = counts[key] if first is None else first
        if agrees(figure, source, counts[key], way):
            return replace(figure, way=str(way), count=counts[key])
    return replace(figure, way="", count=first)


def _total(figure: Figure, way: Way, profile: Profile) -> int:
    """The operations of a profile.

    Raises:
        InputError: they are unknown.
    """
    value = profile.total("count")
    if not isinstance(value, int):
        raise InputError(f"{figure.build}: the {way.convention} count is unknown")
    return value


def profiled(figure: Figure, way: Way) -> Profile:
    """The profile of a figure's model.

    Raises:
        InputError: the package is not installed.
    """
    shape = tuple(int(extent) for extent in figure.input.split("x"))
    module, inputs = build(figure.build, shape, "reparameterized" in way.options)
    convention = "macs" if way.convention == PARAMETERS.convention else way.convention
    return profile(module, inputs, convention=convention)
