"""The identity of a measurement: the machine and the engine, as canonical JSON and its SHA-256.

A change of any of these facts is a new environment, and no figure is averaged over two. The host's name, the date, the
load and Python's version are no part of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from flopwise.analyses.timing.machine import Facts, facts
from flopwise.formats.sources.text import JsonObject

#: Facts that an engine tells only once it is imported; without them two environments count as the same.
LATE = ("build",)

#: Facts of a CPU that identify it, beside its instruction sets and caches.
_OF_MACHINE = ("vendor", "family", "model", "stepping", "name", "microcode", "cores", "numa", "hypervisor")


@dataclass(frozen=True, slots=True)
class Environment:
    """The facts of a machine and an engine."""

    facts: JsonObject

    @property
    def id(self) -> str:
        """SHA-256 of the canonical JSON."""
        return digest(self.facts)

    def matches(self, other: Environment) -> bool:
        """True if the two differ at most in what only a running engine tells."""
        return self._early() == other._early()

    def _early(self) -> str:
        engine = {k: v for k, v in self.facts.get("engine", {}).items() if k not in LATE}
        return canonical({**self.facts, "engine": engine})


def environment(engine: Mapping[str, object], host: Facts | None = None) -> Environment:
    """The environment of an engine on this machine's CPU.

    Args:
        engine: name, version, build, provider, level, threads and further options of the engine.
        host: facts of the CPU; None asks the system.
    """
    cpu = host or facts()
    machine = {name: getattr(cpu, name) for name in _OF_MACHINE}
    machine |= {"isa": list(cpu.flags), "caches": {cache.level: cache.nbytes for cache in cpu.caches}}
    policy = {"allocator": os.path.basename(os.environ.get("LD_PRELOAD", ""))}
    return Environment({"machine": machine, "engine": dict(engine), "policy": policy})


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
