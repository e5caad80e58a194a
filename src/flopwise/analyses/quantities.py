"""Quantities as people write them (``4.1 G``, ``25.6M``, ``100 MB``), and the figures that they compare and limit."""

from __future__ import annotations

import re
from fractions import Fraction

from flopwise.errors import InputError

#: Figures of models, of their operators and of their layers.
FIGURES: tuple[str, ...] = (
    "count",
    "macs",
    "flops",
    "params",
    "buffers",
    "weight_bytes",
    "activations",
    "output_bytes",
)

#: Shorter names of figures.
ALIASES = {"peak_memory": "peak_activation_bytes", "peak": "peak_activation_bytes", "weights": "weight_bytes"}

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}

_FORM = re.compile(
    r"(?P<number>\d[\d_]*(\.\d+)?|\.\d+)(e(?P<exponent>[+-]?\d{1,2}))?\s*"
    r"(?P<prefix>[kmgtpe]?)(?P<binary>i?)(?P<unit>b|flops?|macs?|)",
    re.IGNORECASE,
)

#: A number of more characters is not one that a person writes.
LONGEST = 40


def quantity(text: str, bytes_: bool = False) -> Fraction:
    """The number that a text stands for. k, M, G, T, P and E are powers of 1000; KiB, MiB ... of 1024.

    Args:
        text: the number, with an SI prefix and a unit if there is one: B for bytes, else FLOPs or MACs.
        bytes_: whether it is a number of bytes.

    Raises:
        InputError: the text is no such number, or has the wrong unit.

    >>> quantity("4.1 G"), quantity("25_000"), quantity("1.5 KiB", bytes_=True)
    (Fraction(4100000000, 1), Fraction(25000, 1), Fraction(1536, 1))
    """
    form = "100 MB or 1.5 GiB" if bytes_ else "4.1 G or 25600000"
    match = _FORM.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match is None:
        raise InputError(f"{text[:LONGEST]!r} is not a number; write for example {form}")
    unit, binary = match["unit"].lower(), bool(match["binary"])
    if (unit and (unit == "b") != bytes_) or (binary and not (match["prefix"] and bytes_)):
        raise InputError(f"{text!r} has the wrong unit; write for example {form}")
    value = Fraction(f"{match['number'].replace('_', '')}e{match['exponent'] or 0}")
    factor: int = (1024 if binary else 1000) ** _POWERS[match["prefix"].lower()]
    return value * factor
