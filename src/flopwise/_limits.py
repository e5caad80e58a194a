"""Limits on the cost of reading a model: each has a default here, and is an option.

In Python ``with flopwise.limits(request_seconds=600): ...``, on the command line
``flopwise --limit request_seconds=600 COMMAND ...``.
"""

from __future__ import annotations

import contextlib
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
