"""Sequences and optionals: containers that hand their members on."""

from __future__ import annotations

from flopwise.operators import gradient, shape
from flopwise.operators.operator import Operator, nothing

OPERATORS: dict[str, Operator] = {
    "SequenceConstruct": nothing(
        "hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:construct"
    ),
    "SequenceAt": nothing("hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:at"),
    "SequenceInsert": nothing(
        "hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:inserted"
    ),
    "SequenceErase": nothing("hands members of a sequence on", gradient=gradient.GOES_BACK, shape="sequences:erased"),
    "SequenceEmpty": nothing("makes a sequence without members", gradient=gradient.GOES_BACK, shape="sequences:empty"),
    "SequenceLength": nothing(
        "reads the number of members, not the data",
        shape="making:scalar",
        value=shape.elements("structure:length", "none"),
        dtype="int64",
    ),
    "SplitToSequence": nothing(
        "copies elements to the members of a sequence", gradient=gradient.GOES_BACK, shape="sequences:split"
    ),
    "ConcatFromSequence": nothing(
        "copies the members of a sequence into one tensor",
        gradient=gradient.GOES_BACK,
        shape="sequences:joined",
        value=shape.elements("structure:joined_members", "none"),
    ),
    "Optional": nothing("hands on what an optional holds", gradient=gradient.GOES_BACK, shape="sequences:optional"),
    "OptionalGetElement": nothing(
        "hands on what an optional holds", gradient=gradient.GOES_BACK, shape="sequences:element"
    ),
    "OptionalHasElement": nothing(
        "reads whether there is an element, not the data",
        shape="making:scalar",
        value=shape.elements("structure:has_element", "none"),
        dtype="bool",
    ),
}
