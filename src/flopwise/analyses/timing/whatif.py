"""What a model would take otherwise: the same nodes with other times, and the same model in other environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise.analyses.timing.schedule import with_workers

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, BoundRow

#: Operators that compute each element from those at the same place: an engine could do them in the node before.
ELEMENTWISE: frozenset[str] = frozenset(
    {
        *("Abs", "Add", "Cast", "Ceil", "Clip", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid"),
        *("HardSwish", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "QuickGelu"),
        *("Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Swish", "Tanh", "Where"),
    }
)

#: Operators that only move elements.
MOVES: frozenset[str] = frozenset(
    {
        *("Concat", "Expand", "Gather", "Pad", "ReorderInput", "ReorderOutput", "Slice", "Split", "Tile"),
        *("Transpose",),
    }
)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One other way, and what the model would take."""

    what: str
    #: A floor, or a measured time; nanoseconds.
    ns: float
    #: What ``ns`` is: "floor" (no engine of this kind is faster), "measured", or "estimate".
    kind: str


def what_ifs(bound: Bound, workers: int = 2) -> list[WhatIf]:
    """Other ways for a model that was measured: from the most to the least.

    Args:
        bound: with an engine's floor.
        workers: how many nodes may run at once on a device that they share.
    """
    engine = bound.engine
    if engine is None:
        return []
    rows, hot = bound.rows, engine.hot_ns
    changes = [WhatIf("as it is", hot, "floor")]

    def without(what: str, chosen: Callable[[BoundRow], bool]) -> Iterator[WhatIf]:
        saved = sum(row.floor_ns or 0.0 for row in rows if chosen(row))
        if saved:
            yield WhatIf(what, hot - saved, "floor")

    changes += without("element-wise nodes fused into others", lambda row: _plain(row) in ELEMENTWISE)
    changes += without("no node that only moves elements", lambda row: _plain(row) in MOVES)
    times = [row.floor_ns or 0.0 for row in rows]
    if engine.critical_ns < 0.999 * hot:
        changes.append(
            WhatIf(f"{workers} workers that share the cores", with_workers(times, engine.needs, workers), "floor")
        )
        changes.append(WhatIf("independent nodes at once", engine.critical_ns, "floor"))
    if bound.machine is not None:
        changes.append(WhatIf("every product at the measured peak", bound.machine.ns, "estimate"))
    changes.append(WhatIf("every product at the device's peak", bound.physical.ns, "floor"))
    changes += [WhatIf(other.label, other.ns, "measured") for other in engine.others]
    return changes


def _plain(row: BoundRow) -> str:
    return row.op.rpartition("::")[2]
