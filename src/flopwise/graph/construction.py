"""Records that are fast to make, without searches for garbage, for models of a million operators.

What is made while a model is read stays, so looking for garbage in between is in vain.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # Python 3.10 has it for type checkers alone

    def dataclass_transform(**_):
        return lambda function: function


Record = TypeVar("Record")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[Record]) -> type[Record]:
    """A dataclass with slots for what a model has a million of: hashable, and as fast to make as assignments are.

    Type checkers refuse assignments to its fields, as if it were frozen. While a program runs nothing does: a frozen
    dataclass writes each field through ``object.__setattr__``, which takes most of the time of making one.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


#: New objects from which on it pays to spare them the next search for garbage.
YOUNG = 10_000

#: Operators from which on memory is handed back between the steps.
MANY = 5000


@contextlib.contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Switch off the search for garbage while the context lasts; afterwards it is as before.

    What was made meanwhile counts as old then: it is no garbage, and the first search looks at all that is young.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # To ask what the user froze, which would thaw, takes as long as a search among it.
        if gc.get_count()[0] > YOUNG and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def give_back() -> None:
    """Hand back to the system what the C library keeps of memory that is free; it would stay with the process."""
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)
