"""A stage of a request: a model that is called so many times with tensors of the same shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flopwise._results import Json, fields
from flopwise.analyses.llm.serving.memory import EngineStep
from flopwise.analyses.llm.step import CountedCall, Step
from flopwise.analyses.timing.device import Device, Roofline, roofline
from flopwise.profiles.profile import Profile


@dataclass(frozen=True)
class Stage:
    """The cost of the calls of a model."""

    name: str
    calls: int
    #: How often an engine reads its weights at least: calls of one round can be a batch.
    rounds: int
    #: One call.
    cost: Step
    #: Bytes of activations alive at once in a call, with attention in one piece; None when a size is missing.
    workspace_bytes: int | None

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all calls."""
        return self.calls * self.cost.macs

    @property
    def needed_macs(self) -> int:
        """Multiply-accumulates of all calls that an engine needs: without the pairs that masks leave out."""
        return self.calls * self.cost.needed_macs

    @property
    def flops(self) -> int:
        """Operations of all calls."""
        return self.calls * self.cost.flops

    @property
    def bytes(self) -> int:
        """Bytes of the weights that all calls read at least."""
        return self.rounds * self.cost.bytes

    def floor(self, device: Device) -> Roofline:
        """The least time of all calls on a device."""
        products = {types: self.calls * macs for types, macs in self.cost.products.items()}
        return roofline(device, products, self.rounds * self.cost.least_bytes)

    def to_dict(self, device: Device | None) -> Json:
        """The stage in JSON; figures of one call but for those named ``total``, times in whole nanoseconds."""
        cost = self.cost
        floor = None if device is None else self.floor(device)
        return {
            **fields(self, "name calls"),
            **fields(cost, "batch macs needed_macs attention_macs flops bytes activation_bytes"),
            "workspace_bytes": self.workspace_bytes,
            "total_macs": self.macs,
            "total_flops": self.flops,
            **(
                {}
                if floor is None
                else {
                    "total_least_ns": math.ceil(floor.seconds * 1e9),
                    "roof": floor.roof,
                }
            ),
        }


def stage_of(
    profile: Profile,
    name: str,
    calls: int,
    batch: int,
    rounds: int = 1,
    widths: Mapping[str, Fraction] | None = None,
    types: Mapping[str, str] | None = None,
) -> Stage:
    """The stage that a profile of one call describes.

    Args:
        profile: the call.
        name: what the stage is called.
        calls: how often it is called.
        batch: images, clips or prompts of a call.
        rounds: how many of the calls wait for others of them.
        widths: bytes of each element of stored tensors, by name, where they differ from the program's.
        types: the element types that they are stored in, by name, where the program multiplies others.
    """
    cost = CountedCall(profile, batch, 0, 1, widths or {}, types or {}, last_logits=False).step()
    workspace = EngineStep(profile, 1, last_logits=False).workspace()
    return Stage(name, calls, rounds, cost, None if workspace is None else workspace.nbytes(0))


def largest_workspace(stages: Sequence[Stage]) -> int | None:
    """Bytes of the workspace of the largest stage; None where one is not known."""
    sizes = [stage.workspace_bytes for stage in stages]
    return None if None in sizes else max((size for size in sizes if size is not None), default=0)
