"""What an operator executes, found by executing it: plain definitions on numbers that count.

Nothing here knows a formula. A definition is the operator's textbook loop, written with :class:`Number`, which notes
each operation it takes part in; padding is made of ordinary zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from . import attention, linear, normalization, pointwise, pooling, recurrent, reduction, resize, selection
from .number import Number, numbers, values

__all__ = ["DEFINITIONS", "Definition", "Number", "numbers", "values"]

#: Arrays of numbers (or plain arrays, for what is not arithmetic) and attributes -> an array, or a tuple of arrays.
Definition: TypeAlias = Callable[..., Any]

DEFINITIONS: Mapping[str, Definition] = {
    **linear.DEFINITIONS,
    **attention.DEFINITIONS,
    **recurrent.DEFINITIONS,
    **pooling.DEFINITIONS,
    **normalization.DEFINITIONS,
    **reduction.DEFINITIONS,
    **pointwise.DEFINITIONS,
    **resize.DEFINITIONS,
    **selection.DEFINITIONS,
}
