"""Operators of ``com.microsoft`` that move data, and containers of what was compiled for one device.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.operators import shape
from flopwise.operators.inputs import DATA, SETTING, inputs
from flopwise.operators.operator import PICKS, Operator, nothing, unknown

_PICK = "copies the elements that indices pick"
_PLACES = "copies elements to other places"
_COMPILED = "holds a part of the model that was compiled for one device"


OPERATORS: dict[str, Operator] = {
    "com.microsoft::ExpandDims": nothing("reads the same elements under another shape", types="movement:expanded"),
    "com.microsoft::GatherND": nothing(_PICK, shape=shape.twin("GatherND", (0, 1)), effects=PICKS),
    "com.microsoft::TorchEmbedding": nothing(_PICK, types="movement:looked_up", effects=PICKS),
    "com.microsoft::Pad": nothing(
        "copies elements between borders that are filled or repeated",
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        types="movement:padded",
    ),
    "com.microsoft::RemovePadding": nothing(_PLACES, types="movement:without_padding"),
    "com.microsoft::RestorePadding": nothing(_PLACES, types="movement:restored"),
    "com.microsoft::UnfoldTensor": nothing(_PLACES, types="movement:unfolded"),
    "com.microsoft::Trilu": nothing("copies one triangle and fills the other with zeros", shape=shape.alike),
    "com.microsoft::Range": nothing(
        "numbers positions: an index sequence, not arithmetic on data",
        inputs=inputs(SETTING, SETTING, SETTING),
        types="movement:range_",
    ),
    "com.microsoft::SampleOp": nothing("passes its input on", shape=shape.alike),
    **dict.fromkeys(("com.microsoft::EPContext", "com.microsoft::Snpe"), unknown(_COMPILED)),
}
