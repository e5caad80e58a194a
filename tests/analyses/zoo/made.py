"""Data sets of made-up layers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from flopwise.analyses.zoo.chains import add_chains
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.place import alone
from flopwise.analyses.zoo.records import model_row, signature


def random_layers(source: random.Random, model: str) -> list[dict[str, Any]]:
    """Layers in a random order of use: each has one follower among those after it, or none."""
    size = source.randrange(1, 30)
    layers: list[dict[str, Any]] = []
    for position in range(size):
        view = source.random() < 0.3
        layer: dict[str, Any] = {
            "model": model,
            "family": model[:2],
            "year": 2000 + size,
            "position": position,
            "op": source.choice("abc"),
            "attributes": source.choice(["{}", '{"x": 1}']),
            "macs": source.randrange(100),
            "times": 1,
            "follower": source.choice([None, *range(position + 1, size)]),
            "view": view,
            "written": 0 if view else source.randrange(100),
        }
        layers.append(layer | {"signature": signature(layer)})
    add_chains(layers)
    return layers


def made_zoo(folder: Path, source: random.Random, models: int = 20) -> list[list[dict[str, Any]]]:
    """A data set of random models; their layers."""
    data, made = Dataset(folder), []
    with alone(data.place):
        _put(data, source, models, made)
        data.gather()
    return made


def _put(data: Dataset, source: random.Random, models: int, made: list[list[dict[str, Any]]]) -> None:
    for number in range(models):
        entry = Entry(f"m{number}", "none", family=f"m{number}"[:2], year=2015 + number % 3)
        layers = random_layers(source, entry.name)
        figures = {name: sum(layer["macs"] for layer in layers) for name in ("macs", "flops", "params")}
        row = model_row(entry, f"{number:032x}", "0", status="ok", layers=len(layers), format="made", **figures)
        data.put(row | {"peak_activation_bytes": 1 + number}, layers)
        made.append(layers)
