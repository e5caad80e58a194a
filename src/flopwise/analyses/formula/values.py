"""Figures at one point, and a point without any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flopwise.errors import InputError


class OutsideError(InputError):
    """A point at which the formulas do not hold."""

    def __init__(self, message: str, point: Mapping[str, int]) -> None:
        super().__init__(message)
        self.point = point


class Values(dict[str, "int | None"]):
    """Figures at one point by name; those in ``lower_bounds`` are at least as large as they say."""

    def __init__(self, figures: Mapping[str, int | None], lower_bounds: Sequence[str] = ()) -> None:
        super().__init__(figures)
        self.lower_bounds = tuple(lower_bounds)
