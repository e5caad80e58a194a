"""What a rule makes of a node, whatever is wrong with the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from flopwise.errors import FlopwiseError, RuleError
from flopwise.operators.counts import Counts


def guarded(rule: Callable[[], Counts | None], unknown: str) -> tuple[Counts | None, Literal["", "rule", "fact"], str]:
    """What a rule gives, or None, what is missing, and in words: ``unknown``, or what is wrong with the node.

    Raises:
        RuleError: a rule of the user's own is wrong, not the node.
    """
    try:
        counts = rule()
        total = 0 if counts is None else sum(counts)  # attributes of a wrong type multiply as well
        if isinstance(total, float) or (type(total) is int and counts is not None and min(counts) < 0):
            raise ValueError("a count is not a whole number")
    except RuleError:
        raise
    except FlopwiseError as error:
        return None, "fact", str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # attributes without sense
        return None, "fact", f"its attributes or shapes make no sense: {type(error).__name__}: {error}"
    return (None, "rule", unknown) if counts is None else (counts, "", "")
