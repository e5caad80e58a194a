"""Channels that engines and devices compute at a time, whose multiples alone need no padding."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from flopwise.analyses.timing.device import Device
from flopwise.analyses.timing.machine import facts
from flopwise.analyses.timing.tiles import ALIGNED
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


#: What tensor cores take without padding.
TENSOR_CORES = Unit(0, ALIGNED, "NVIDIA, Matrix Multiplication Background User's Guide: multiples of 16 bytes")


def unit_of(device: Device | None, level: str | None) -> Unit | None:
    """The unit of an engine at a level, or of a device; None where none is known."""
    if device is None:
        return None
    if level == "all" and device.kind == "cpu":
        return blocks(facts().flags)
    return TENSOR_CORES if device.kind == "gpu" and device.vendor.lower().startswith("nvidia") else None


def blocks(flags: Collection[str]) -> Unit | None:
    """The blocks of onnxruntime's convolutions at level all (MLAS, platform.cpp), by the flags of an x86 CPU."""
    if "avx512f" in flags:
        return Unit(16, 0, "onnxruntime's NCHWc layout: blocks of 16 channels with AVX-512")
    return Unit(8, 0, "onnxruntime's NCHWc layout: blocks of 8 channels without AVX-512") if "sse2" in flags else None
