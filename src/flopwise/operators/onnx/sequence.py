"""Sequences and optionals: containers that hand their members on."""

from __future__ import annotations

from flopwise.operators import gradient
from flopwise.operators.operator import Operator, nothing

OPERATORS: dict[str, Operator] = {
    **dict.fromkeys(
        ("SequenceConstruct", "SequenceAt", "SequenceInsert", "SequenceErase"),
        nothing("hands members of a sequence on", gradient=gradient.GOES_BACK),
    ),
    "SequenceEmpty": nothing("makes a sequence without members", gradient=gradient.GOES_BACK),
    "SequenceLength": nothing("reads the number of members, not the data"),
    "SplitToSequence": nothing(
        "copies elements to the members of a sequence",
        gradient=gradient.GOES_BACK,
    ),
    "ConcatFromSequence": nothing(
        "copies the members of a sequence into one tensor",
        gradient=gradient.GOES_BACK,
    ),
    **dict.fromkeys(
        ("Optional", "OptionalGetElement"),
        nothing("hands on what an optional holds", gradient=gradient.GOES_BACK),
    ),
    "OptionalHasElement": nothing("reads whether there is an element, not the data"),
}
