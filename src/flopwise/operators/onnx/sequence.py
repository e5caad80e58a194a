"""Sequences and optionals: containers that hand their members on."""

from __future__ import annotations

from flopwise.operators import gradient
from flopwise.operators.operator import Operator, nothing

_MEMBERS = "hands members of a sequence on"
_HELD = "hands on what an optional holds"

OPERATORS: dict[str, Operator] = {
    "SequenceConstruct": nothing(_MEMBERS, gradient=gradient.GOES_BACK),
    "SequenceEmpty": nothing("makes a sequence without members", gradient=gradient.GOES_BACK),
    "SequenceAt": nothing(_MEMBERS, gradient=gradient.GOES_BACK),
    "SequenceInsert": nothing(_MEMBERS, gradient=gradient.GOES_BACK),
    "SequenceErase": nothing(_MEMBERS, gradient=gradient.GOES_BACK),
    "SequenceLength": nothing("reads the number of members, not the data"),
    "SplitToSequence": nothing(
        "copies elements to the members of a sequence",
        gradient=gradient.GOES_BACK,
    ),
    "ConcatFromSequence": nothing(
        "copies the members of a sequence into one tensor",
        gradient=gradient.GOES_BACK,
    ),
    "Optional": nothing(_HELD, gradient=gradient.GOES_BACK),
    "OptionalGetElement": nothing(_HELD, gradient=gradient.GOES_BACK),
    "OptionalHasElement": nothing("reads whether there is an element, not the data"),
}
