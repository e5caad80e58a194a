"""Simulated programs, and sessions of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.analyses.timing.models import chain
from tests.analyses.timing.simulated import ENGINE

import flopwise
from flopwise.analyses.timing.bench import bench
from flopwise.analyses.timing.benchmark import Session
from flopwise.analyses.timing.engines import Options
from flopwise.profiles.profile import Profile


def kernel(name: str, ns: int, **others: Any) -> dict[str, Any]:
    """A node that takes so many virtual nanoseconds."""
    return {"name": name, "op": others.pop("op", "MatMul"), "ns": ns, **others}


def program(*kernels: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A simulated program."""
    return {"kernels": list(kernels), **others}


def random_program(seed: int) -> dict[str, Any]:
    """A program of up to 30 nodes, some of them aliases, some with weights that leave the cache."""
    chance = random.Random(seed)
    kernels = []
    for place in range(chance.randint(1, 30)):
        alias = chance.random() < 0.2
        cold = chance.randint(0, 50_000) if chance.random() < 0.3 else 0
        needs = sorted(chance.sample(range(place), min(place, chance.randint(0, 2))))
        op = chance.choice(["Conv", "MatMul", "Relu", "Add"])
        kernels.append(kernel(f"n{place}", chance.randint(100, 500_000), op=op, alias=alias, cold=cold, needs=needs))
    return program(*kernels, spikes=0.3, seed=seed, dispatch=chance.randint(0, 500), null=chance.randint(500, 5000))


def written(content: dict[str, Any], folder: Path) -> str:
    """The path of a program."""
    path = folder / "program.json"
    path.write_text(json.dumps(content))
    return str(path)


def small() -> Profile:
    """The profile that sessions are of."""
    return flopwise.profile(chain(layers=1))


def session(content: dict[str, Any], folder: Path, patience: float = 20.0, **others: Any) -> Session:
    """A session of a simulated program in a child process."""
    path = written(content, folder)
    return bench(small(), path, ENGINE, Options(), others.pop("seconds", 0.05), patience=patience, **others)
