"""Work counted in place of seconds, which differ from machine to machine and from hour to hour."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple


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


def lines(work: Callable[[], object]) -> Counter[str]:
    """How often some work executes each line of flopwise's own code, in all threads that it starts.

    A loop that calls nothing is seen as well.
    """
    seen: dict[int, tuple[CodeType, list[int], Callable[..., Any] | None]] = {}

    def enters(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        known = seen.get(id(code))  # a code object's hash is that of all it holds, each time anew
        if known is None:
            numbers: list[int] = []
            ours = f"{os.sep}flopwise{os.sep}" in code.co_filename
            known = seen[id(code)] = code, numbers, noting(numbers.append) if ours else None
        return known[2]

    before = sys.gettrace()
    threading.settrace(enters)
    sys.settrace(enters)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type] # none is None
    total: Counter[str] = Counter()
    for code, numbers, _ in seen.values():
        total.update({f"{code.co_filename}:{line} {code.co_name}": n for line, n in Counter(numbers).items()})
    return total


def noting(note: Callable[[int], None]) -> Callable[..., Any]:
    """A function for ``sys.settrace`` that notes the number of each line of one code object."""

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            note(frame.f_lineno)
        return inside

    return inside


class Growth(NamedTuple):
    """How some work grows where its size doubles: 2 for linear work, 4 for quadratic."""

    #: Of all lines together.
    whole: float
    #: Lines that are executed more than three times as often, whatever their part is.
    steep: list[str]


def growth(work: Callable[[int], object], size: int) -> Growth:
    """How the work grows from the second of three sizes, each twice the one before, to the third.

    What does not grow is taken off, by the difference between sizes.

    Args:
        work: does the work of a size.
        size: the smallest of the three.
    """
    work(size)  # what is made at the first use alone is made
    one, two, four = (lines(functools.partial(work, size * times)) for times in (1, 2, 4))
    whole = (four.total() - two.total()) / max(two.total() - one.total(), 1)
    steep = [line for line in four if four[line] - two[line] > max(3 * (two[line] - one[line]), 8 * size)]
    return Growth(whole, steep)
