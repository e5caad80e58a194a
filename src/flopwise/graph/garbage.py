"""A pause of Python's search for garbage while a large model is taken in: all that is made then stays."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

#: Operators from which on memory is handed back between the steps.
MANY = 5000


@contextlib.contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Nothing is searched for garbage while the context lasts; as before afterwards.

    What was made meanwhile counts as old then: it is no garbage, and the first search looks at all that is young.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else what the user froze would thaw
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
