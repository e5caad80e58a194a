"""Work counted in place of seconds, which differ from machine to machine and from hour to hour."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


class TooMuchWork(BaseException):
    """More calls than were allowed; no handler of errors in the code under test takes it for one of its own."""


@contextlib.contextmanager
def calls_at_most(limit: int) -> Iterator[None]:
    """A context in which this thread may make so many calls, of functions in Python and in C.

    Work that grows without bounds is stopped, and does not have to be waited for.

    Raises:
        TooMuchWork: more calls were made.
    """
    made = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        if event in ("call", "c_call"):
            made += 1
            if made > limit:
                sys.setprofile(None)
                raise TooMuchWork(f"more than {limit:,} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
