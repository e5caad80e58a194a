"""flopwise's own two conventions."""

from __future__ import annotations

from flopwise.conventions.convention import Convention
from flopwise.operators.counts import FLOPS, MACS

FLOP_COUNT = Convention(
    name="flops",
    unit="FLOP",
    summary="Floating-point operations: 2 per multiply-accumulate, 1 per other arithmetic operation.",
    source="flopwise, docs/guides/counting.md",
    weights=FLOPS,
)

MAC_COUNT = Convention(
    name="macs",
    unit="MAC",
    summary="Multiply-accumulates; no other operation is added.",
    source="flopwise, docs/guides/counting.md",
    weights=MACS,
)
