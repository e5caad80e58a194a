"""Limits on the cost of reading a model: each has a default here, and is an option.

In Python ``with flopwise.limits(request_seconds=600): ...``, on the command line
``flopwise --limit request_seconds=600 COMMAND ...``.

What one model costs altogether is a budget (``budget``, ``spend``): whichever reader is at work spends seconds, bytes
that it unpacks, and nodes that a file names again and again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from flopwise.errors import InputError, ModelError


class Limits(NamedTuple):
    """The limits in force; bytes and counts are whole numbers."""

    #: Seconds for one request over the network, from the connection to the last byte, with its redirects and tries.
    request_seconds: float = 300.0
    #: Seconds that a server may stay silent.
    silent_seconds: float = 30.0
    #: Bytes of what steers the reading of weights: a header, an index, the directory of an archive, a pickle.
    header_bytes: int = 256 << 20
    #: Values in the containers of a checkpoint, which a pickle may name many times over.
    checkpoint_values: int = 1 << 22
    #: Elements of a checkpoint's tensors that are the same ones more than 16 times over.
    repeated_elements: int = 1 << 28
    #: Bytes of a compressed part of a file that is unpacked as a whole: a program, a pickle, and arrays that grow much.
    unpacked_bytes: int = 8 << 20
    #: Bytes that all compressed parts of a model may have beyond 64 times those that are stored.
    unpacked_total: int = 1 << 30
    #: Seconds that reading a model may take, but for what a program of the user's or of a library's does.
    reading_seconds: float = 600.0
    #: Seconds of the processor, and as many more for each 2.5 megabytes, that a library's own code may work on a file
    #: without asking for more of it: HDF5, MLIR.
    native_seconds: float = 2.5
    #: Operators that a model has beyond those in its file: calls of functions and subgraphs, what a file names again.
    repeated_nodes: int = 100_000
    #: Bytes of a file of text: a budget, rules, a list of models, the configuration of a language model.
    text_bytes: int = 8 << 20
    #: Layers that the configuration of a language model may ask for.
    language_layers: int = 200
    #: Modules that the model of a configuration may have: layers, and the experts in them.
    language_modules: int = 100_000


_CURRENT: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 - it is frozen


def current() -> Limits:
    """The limits in force in this thread."""
    return _CURRENT.get()


@contextlib.contextmanager
def limits(**values: float | str) -> Iterator[Limits]:
    """Other limits than the defaults, for what is read in the ``with`` block by this thread.

    Args:
        values: limits by name, as numbers or texts; see ``Limits``.

    Raises:
        InputError: there is no such limit, or it is not a number above 0 (a whole one for bytes and counts).

    >>> with limits(request_seconds=600):
    ...     current().request_seconds
    600.0
    """
    checked: dict[str, Any] = {name: _checked(name, value) for name, value in values.items()}
    token = _CURRENT.set(_CURRENT.get()._replace(**checked))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)


def within_limit(name: str, value: float, what: str, unit: str = "bytes") -> None:
    """Raise ModelError if a value exceeds a limit.

    Args:
        name: of the limit.
        value: what is bounded by it.
        what: what the value belongs to, as the beginning of a sentence.
        unit: of the value.

    Raises:
        ModelError: it is not; the message names the limit.
    """
    most = getattr(_CURRENT.get(), name)
    if value > most:
        raise ModelError(f"{what} {value:,} {unit}, more than the limit {name} of {most:,}")


class Budget:
    """The cost so far of reading one model.

    Args:
        name: of the model, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.end = time.monotonic() + current().reading_seconds
        self.repeated_nodes = self.unpacked_total = 0


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextlib.contextmanager
def budget(name: str) -> Iterator[None]:
    """The ``with`` block reads a model of this name, whose cost is counted from here on, apart from all others."""
    token = _BUDGET.set(Budget(name))
    try:
        yield
    finally:
        _BUDGET.reset(token)


def spend(*, repeated_nodes: int = 0, unpacked_total: int = 0) -> None:
    """Charge the model that is being read with what a reader does for it, and with the time that has passed.

    Args:
        repeated_nodes: operators that are there beyond those in the file.
        unpacked_total: bytes beyond 64 times those that are stored.

    Raises:
        ModelError: it costs more than a limit; the message names the limit.
    """
    spent = _BUDGET.get()
    if spent is None:
        return
    if repeated_nodes:
        spent.repeated_nodes += repeated_nodes
        most = current().repeated_nodes
        if spent.repeated_nodes > most:
            raise ModelError(
                f"{spent.name}: names the same parts so often that it has more than {most:,} operators beyond those in "
                "the file (the limit repeated_nodes)"
            )
    if unpacked_total:
        spent.unpacked_total += unpacked_total
        within_limit("unpacked_total", spent.unpacked_total, f"{spent.name}: unpacks to")
    if time.monotonic() > spent.end:
        seconds = current().reading_seconds
        raise ModelError(f"{spent.name}: takes longer to read than the limit reading_seconds of {seconds:g}")


def native_seconds(size: int) -> float:
    """Seconds of the processor that a library's own code may work on so many bytes without asking for more."""
    return current().native_seconds * (1 + size / 2.5e6)


#: How many times as long as it is stored an array may get without a limit.
_PACKED = 64


def within_unpacking(packed: int, unpacked: int, what: str) -> None:
    """Raise ModelError if an array that is unpacked as a whole gets much longer than it is stored.

    Args:
        packed: its bytes in the file.
        unpacked: its bytes in memory.
        what: the array, as the beginning of a sentence.

    Raises:
        ModelError: it gets more than 64 times as long, and longer than the limit ``unpacked_bytes``.
    """
    if unpacked > _PACKED * packed:
        spend(unpacked_total=unpacked - _PACKED * packed)
        within_limit("unpacked_bytes", unpacked, f"{what} is stored in {packed:,} bytes and has")


def _checked(name: str, value: object) -> float:
    kinds: dict[str, Any] = {name: type(default) for name, default in Limits._field_defaults.items()}
    if name not in kinds:
        raise InputError(f"there is no limit {name!r}; there are {', '.join(kinds)}")
    try:
        number = 0 if isinstance(value, bool) else kinds[name](value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if not number > 0 or number == float("inf"):
        raise InputError(f"the limit {name} is {'a whole number' if kinds[name] is int else 'a number'} above 0")
    return number
