"""Sequences and optionals: containers that hand their members on."""

from __future__ import annotations

from flopwise.operators.operator import Operator, nothing

_MEMBERS = "hands members of a sequence on"
_HELD = "hands on what an optional holds"

OPERATORS: dict[str, Operator] = {
    "SequenceConstruct": nothing(_MEMBERS),
    "SequenceEmpty": nothing("makes a sequence without members"),
    "SequenceAt": nothing(_MEMBERS),
    "SequenceInsert": nothing(_MEMBERS),
    "SequenceErase": nothing(_MEMBERS),
    "SequenceLength": nothing("reads the number of members, not the data"),
    "SplitToSequence": nothing("copies elements to the members of a sequence"),
    "ConcatFromSequence": nothing("copies the members of a sequence into one tensor"),
    "Optional": nothing(_HELD),
    "OptionalGetElement": nothing(_HELD),
    "OptionalHasElement": nothing("reads whether there is an element, not the data"),
}
