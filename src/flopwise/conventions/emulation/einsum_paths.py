"""The work of an einsum as numpy prints it, which several tools take over."""

from __future__ import annotations

import string

from flopwise.graph import Node

#: With more operands, looking for the best order takes too long.
_MOST = 6


def renamed(equation: str) -> str | None:
    """The equation without spaces, its letters renamed to a, b, c ... in the order in which they appear.

    None where there are more than 26.

    >>> renamed("bhid, bhjd -> bhij")
    'abcd,abed->abce'
    """
    letters = dict.fromkeys(c for c in equation if c.isalpha())
    if len(letters) > len(string.ascii_lowercase):
        return None
    table = {ord(letter): string.ascii_lowercase[place] for place, letter in enumerate(letters)}
    return equation.replace(" ", "").translate(table)


def printed_flops(node: Node) -> float:
    """The "optimized FLOP count" that numpy prints, with four digits.

    Raises:
        ValueError: the equation has too many letters or operands.
    """
    import numpy

    equation = renamed(node.attrs["equation"])
    if equation is None or len(node.known_inputs) > _MOST:
        raise ValueError("the equation is too long")
    hollow = [numpy.broadcast_to(numpy.float32(0), t.dims) for t in node.known_inputs]  # takes no memory
    text = str(numpy.einsum_path(equation, *hollow, optimize="optimal")[1])
    return next(float(line.split(":")[-1]) for line in text.splitlines() if "optimized flop" in line.lower())
