"""Channels that engines and devices compute at a time, whose multiples alone need no padding."""

from __future__ import annotations

from typing import NamedTuple

from flopwise.analyses.timing.device import Device
from flopwise.analyses.traces.executed.names import BLOCK
from flopwise.graph.dtypes import BITS


class Unit(NamedTuple):
    """A number that channels are padded to a multiple of."""

    #: So many elements; 0 where ``nbytes`` says it.
    elements: int
    #: So many bytes of each row of a matrix.
    nbytes: int
    source: str

    def of(self, dtype: str | None) -> int:
        """Elements of a type."""
        return self.elements or max(1, 8 * self.nbytes // BITS.get(dtype or "float32", 32))


#: What onnxruntime keeps convolutions in at level all.
BLOCKS = Unit(BLOCK, 0, "onnxruntime's NCHWc layout: blocks of 16 channels with AVX-512")

#: What tensor cores take without padding.
TENSOR_CORES = Unit(0, 16, "NVIDIA, Matrix Multiplication Background User's Guide: multiples of 16 bytes")


#: Beginning of a GPU's id -> its multiprocessors, as NVIDIA's papers on Volta, Turing, Ampere (GA100 and GA102), Hopper
#: and Ada print them.
MULTIPROCESSORS = {
    "v100": 80,
    "t4": 40,
    "a100": 108,
    "rtx-3090": 82,
    "h100-sxm": 132,
    "h100-pcie": 114,
    "rtx-4090": 128,
}


def multiprocessors_of(device: Device | None) -> int | None:
    """Tiles that a GPU computes at once; None where nobody knows."""
    ids = [] if device is None else [device.id, *(device.id.rpartition("-")[0], device.id.split("-")[0])]
    return next((MULTIPROCESSORS[each] for each in ids if each in MULTIPROCESSORS), None)


def unit_of(device: Device | None, level: str | None) -> Unit | None:
    """The unit of an engine at a level, or of a device; None where none is known."""
    if device is None:
        return None
    if level == "all" and device.kind == "cpu":
        return BLOCKS
    return TENSOR_CORES if device.kind == "gpu" and device.vendor.lower().startswith("nvidia") else None
