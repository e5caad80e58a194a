"""Points written as texts: ``batch=1,2,4 seq=128:4096:128``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from flopwise.errors import InputError

#: More points than these are refused.
MOST_POINTS = 100_000

#: How points are written, for messages.
FORM = "NAME=VALUES, where VALUES are whole numbers with commas between them or a range START:STOP:STEP"


def grid(texts: Sequence[str]) -> Iterator[dict[str, int]]:
    """Every combination of the values in the texts, the last name changing fastest.

    Args:
        texts: each of one or more ``name=values`` with spaces between them. A range holds its stop if a step leads
            there; its step is 1 unless it is given.

    Raises:
        InputError: a text is not of that form, a name comes twice, or there are too many combinations.

    >>> list(grid(["batch=1,2 seq=128:256:64"]))[1:3]
    [{'batch': 1, 'seq': 192}, {'batch': 1, 'seq': 256}]
    """
    values: dict[str, Sequence[int]] = {}
    for text in itertools.chain.from_iterable(map(str.split, texts)):
        name, equals, spec = text.rpartition("=")
        if not equals or not name:
            raise InputError(f"cannot understand {text!r}; write {FORM}")
        if name in values:
            raise InputError(f"{name} is given twice")
        values[name] = _values(spec, text)
    if math.prod(map(len, values.values())) > MOST_POINTS:
        raise InputError(f"these are more than {MOST_POINTS:,} points; take larger steps")
    return (dict(zip(values, point, strict=True)) for point in itertools.product(*values.values()))


def _values(spec: str, text: str) -> Sequence[int]:
    sizes: list[int] = []
    for part in spec.split(","):
        numbers = part.split(":")
        if not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers) or len(numbers) > 3:
            raise InputError(f"cannot understand {text!r}; write {FORM}")
        start, stop, step = (*map(int, numbers), 1)[:3] if len(numbers) > 1 else (int(part), int(part), 1)
        if step == 0 or stop < start:
            raise InputError(f"the range {part!r} in {text!r} is empty; write {FORM}")
        if (stop - start) // step >= MOST_POINTS:
            raise InputError(f"these are more than {MOST_POINTS:,} points; take larger steps")
        sizes.extend(range(start, stop + 1, step))
    return list(dict.fromkeys(sizes))
