"""Control flow: the operators in its bodies cost, not the operator around them."""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.ops.operator import Operator, nothing

OPERATORS: Mapping[str, Operator] = {
    "If": nothing("runs one of its branches; the branch's operators are counted, the dearer branch where both can run"),
    "Loop": nothing("runs its body; the body's operators are counted once for each trip"),
    "Scan": nothing("runs its body; the body's operators are counted once for each scanned element"),
    "SequenceMap": nothing("runs its body; the body's operators are counted once for each member of the sequence"),
}
