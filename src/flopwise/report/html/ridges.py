"""Devices to choose on a chart of arithmetic intensity: peak arithmetic and memory bandwidth of each."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING

from flopwise.analyses.timing.catalog import devices
from flopwise.analyses.timing.device import arithmetic
from flopwise.analyses.timing.roofline import fastest

if TYPE_CHECKING:
    from flopwise._results import Json
    from flopwise.graph import Graph


def ridges(graph: Graph) -> Json:
    """The element type of most weight bytes, and the devices that compute it: name, FLOP/s, bytes/s, type used."""
    dtype = weight_type(graph)
    return {"dtype": dtype, "devices": [list(device) for device in _ridges(dtype)]}


def weight_type(graph: Graph) -> str:
    """The element type that most bytes of the weights have; without weights that of an input; else float32."""
    nbytes: Counter[str] = Counter()
    for tensor in {id(t): t for node in graph.nodes for t in node.known_inputs if t.kind == "weight"}.values():
        nbytes[tensor.dtype or "float32"] += tensor.nbytes or 0
    inputs = [t.dtype for t in graph.inputs if t.dtype and "float" in t.dtype]
    return nbytes.most_common(1)[0][0] if nbytes else inputs[0] if inputs else "float32"


@functools.cache
def _ridges(dtype: str) -> tuple[tuple[str, float, float, str], ...]:
    """Name, FLOP/s, bytes/s and type of arithmetic of each device that has a figure of both."""
    pairs = [(d, fastest(d, arithmetic((dtype,))), d.bandwidth("dram", None, True)) for d in devices()]
    return tuple(
        (d.name, peak.value, memory.value, peak.dtype or dtype) for d, peak, memory in pairs if peak and memory
    )
