"""Rules of conventions on nodes that may lack shapes, or have attributes without sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flopwise.errors import FlopwiseError

T = TypeVar("T")

#: What a rule raises on attributes of a wrong type, or that are missing.
_SENSELESS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def attempt(rule: Callable[[], T | None]) -> T | None:
    """What a rule gives; None where a shape is missing or an attribute makes no sense."""
    try:
        return rule()
    except (FlopwiseError, *_SENSELESS):
        return None
