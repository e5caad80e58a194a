"""What a model needs in memory: when each activation lives, where it can lie, and what moves while it runs."""

from __future__ import annotations

from flopwise.memory.liveness import Buffer, Liveness, live_bytes, liveness, peak_activation_bytes
from flopwise.memory.plan import ALIGNMENT, Place, Plan, plan_arena
from flopwise.memory.traffic import Traffic, traffic
from flopwise.memory.views import shared
from flopwise.memory.weights import stored_tensors, weight_bytes_by_dtype

__all__ = [
    "ALIGNMENT",
    "Buffer",
    "Liveness",
    "Place",
    "Plan",
    "Traffic",
    "live_bytes",
    "liveness",
    "peak_activation_bytes",
    "plan_arena",
    "shared",
    "stored_tensors",
    "traffic",
    "weight_bytes_by_dtype",
]
