"""The cost of a request to a diffusion pipeline: its stages, and the memory of its components."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flopwise._results import Json, Printed, fields
from flopwise.analyses.llm.serving.serving import capacity, gigabytes, rate, usable
from flopwise.analyses.llm.stages.stage import Stage, largest_workspace
from flopwise.analyses.timing.device import Device, assumptions


@dataclass(frozen=True)
class Component:
    """A module of a pipeline."""

    kind: str
    params: int
    weight_bytes: int


@dataclass(frozen=True)
class Diffusion(Printed):
    """The costs of a request to a diffusion pipeline."""

    #: The class of the pipeline, and where it comes from.
    name: str
    source: str
    dtype: str
    #: Images or videos that are made at once.
    batch: int
    steps: int
    width: int
    height: int
    #: Frames of a video; None for images.
    frames: int | None
    #: Every module that an engine loads, by name, and the calls of those that run, in their order.
    components: Mapping[str, Component]
    stages: tuple[Stage, ...]
    #: The part of a device's memory that may be used.
    memory_fraction: float = 0.9
    device: Device | None = None
    notes: tuple[str, ...] = ()

    @property
    def params(self) -> int:
        """Parameters of all components."""
        return sum(part.params for part in self.components.values())

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of all components."""
        return sum(part.weight_bytes for part in self.components.values())

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the request."""
        return sum(stage.macs for stage in self.stages)

    @property
    def needed_macs(self) -> int:
        """Those of the request that an engine needs."""
        return sum(stage.needed_macs for stage in self.stages)

    @property
    def flops(self) -> int:
        """Operations of the request."""
        return sum(stage.flops for stage in self.stages)

    @property
    def workspace_bytes(self) -> int | None:
        """Bytes of the workspace of the largest stage; None where it is not known."""
        return largest_workspace(self.stages)

    @property
    def must_fit_bytes(self) -> int | None:
        """Bytes of all weights and of the largest workspace."""
        return None if self.workspace_bytes is None else self.weight_bytes + self.workspace_bytes

    @property
    def offloaded_bytes(self) -> int | None:
        """Bytes that must fit where only the component that runs is on the device."""
        if self.workspace_bytes is None:
            return None
        return max(self.components[stage.name].weight_bytes + (stage.workspace_bytes or 0) for stage in self.stages)

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of the device that may be used; None without a device, or where its memory is not known."""
        if self.device is None or not self.device.capacity_bytes:
            return None
        return usable(self.device.capacity_bytes, self.memory_fraction)

    @property
    def fits(self) -> bool | None:
        """True if it fits; None where that is not known."""
        if self.memory_bytes is None or self.must_fit_bytes is None:
            return None
        return self.must_fit_bytes <= self.memory_bytes

    @property
    def seconds(self) -> float | None:
        """The least time of the request on the device; None without one."""
        if self.device is None:
            return None
        return sum(stage.floor(self.device).seconds for stage in self.stages)

    @property
    def made(self) -> str:
        """The result in words: ``1 image of 1,024 × 1,024``."""
        what = "image" if self.frames is None else "video"
        of = "" if self.frames is None else f"{self.frames:,} frames of "
        return f"{self.batch:,} {what}{'' if self.batch == 1 else 's'} of {of}{self.width:,} × {self.height:,}"

    @property
    def verdict(self) -> str:
        """A line that says whether it fits, and how fast it can be at most."""
        if self.must_fit_bytes is None or self.workspace_bytes is None:
            return ""
        parts = f"{gigabytes(self.weight_bytes)} of weights and {gigabytes(self.workspace_bytes)} of workspace"
        if self.memory_bytes is None or self.device is None:
            return f"must fit: {parts}"
        whole = capacity(self.device.capacity_bytes, self.device.reported is not None)
        have = f"{gigabytes(self.memory_bytes)} ({self.memory_fraction:g} of {whole})"
        if not self.fits:
            said = f"does not fit: {self.device.name}, {gigabytes(self.must_fit_bytes)} of {have}, {parts}"
            apart = self.offloaded_bytes or 0
            room = "fits" if apart <= self.memory_bytes else "does not fit either"
            return f"{said}; one component at a time {room}: {gigabytes(apart)}"
        said = f"fits: {self.device.name}, {parts} in {have}"
        what = "images" if self.frames is None else "videos"
        return f"{said}; at most {rate(60 * self.batch / self.seconds)} {what} a minute" if self.seconds else said

    def to_dict(self) -> Json:
        """The request in the JSON schema ``flopwise.diffusion/1``; bytes and times as whole numbers."""
        return {
            "schema": "flopwise.diffusion/1",
            "model": {"name": self.name, "source": self.source, "dtype": self.dtype},
            **fields(self, "batch steps width height frames params weight_bytes"),
            "components": {name: vars(part) for name, part in self.components.items()},
            "stages": [stage.to_dict(self.device) for stage in self.stages],
            "request": {"macs": self.macs, "needed_macs": self.needed_macs, "flops": self.flops},
            "memory": {
                **fields(self, "weight_bytes workspace_bytes must_fit_bytes"),
                "one_component_bytes": self.offloaded_bytes,
            },
            **({} if self.device is None else {"device": self._on_device(self.device)}),
            "verdict": self.verdict,
            "exact": all(stage.cost.exact for stage in self.stages),
            "notes": list(self.notes),
        }

    def _on_device(self, device: Device) -> Json:
        """The key "device"."""
        return {
            "name": device.name,
            **fields(self, "memory_fraction memory_bytes fits"),
            "least_ns": None if self.seconds is None else math.ceil(self.seconds * 1e9),
        }


def notes_on_floors(stages: Sequence[Stage], device: Device) -> list[str]:
    """In a line, what the floors of some stages assume."""
    products: dict[tuple[str, ...], int] = {}
    for stage in stages:
        for types, macs in stage.cost.products.items():
            products[types] = products.get(types, 0) + stage.calls * macs
    rewrites = [rewrite for stage in stages for rewrite in (*stage.cost.rewrites, *stage.cost.floors)]
    return assumptions(products, device, rewrites=tuple(dict.fromkeys(rewrites)))
