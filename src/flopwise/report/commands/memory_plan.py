"""A plan of the activations' memory as JSON, for programs that allocate by it."""

from __future__ import annotations

from typing import Any

from flopwise.errors import InputError
from flopwise.memory import Place
from flopwise.report.commands.memory import Memory
from flopwise.report.formats import json


def render_plan(memory: Memory) -> str:
    """The JSON schema ``flopwise.plan/1``: an offset for each activation in one block of ``arena_bytes``.

    A tensor lies there from step ``first`` to step ``last``, both included; "steps" names the layer of each. What
    shares its storage is listed with it. Stored tensors are not part of the plan.

    Raises:
        InputError: there is no plan.
    """
    if memory.plan is None:
        raise InputError(f"there is no plan of the activations; {memory.notes[0]}")
    return json.dump(content(memory))


def content(memory: Memory) -> dict[str, Any]:
    """What the plan says; every number an integer."""
    plan, whole = memory.plan, memory.profile.to_dict()
    assert plan is not None
    return {
        "schema": "flopwise.plan/1",
        "model": whole["model"],
        "inputs": whole["inputs"],
        "arena_bytes": plan.size,
        "peak_activation_bytes": plan.bound,
        "alignment": plan.alignment,
        "order": plan.order,
        "steps": [memory.step(step) for step in range(len(memory.found.steps))],
        "tensors": [_entry(place, memory) for place in plan.places],
    }


def _entry(place: Place, memory: Memory) -> dict[str, Any]:
    buffer = place.buffer
    return {
        "name": buffer.name,
        "offset": place.offset,
        "bytes": buffer.nbytes,
        "first": buffer.first,
        "last": buffer.last,
        "made_by": None if buffer.maker is None else memory.maker(buffer),
        "shared_by": [t.name for t in buffer.tensors[1:]],
    }
