"""Programs in files that tests make and change."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    """A little of everything: convolution, statistics, a buffer that is not saved, a constant, an open batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)
        self.register_buffer("steps", torch.arange(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.head(y).reshape(x.shape[0], 2) + self.steps[:2] + torch.tensor([1.0, 2.0])


def exported(path: Path) -> nn.Module:
    """Export the net to a file; the net."""
    net = Net().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(net, (torch.randn(4, 3, 8, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    return net


def changed(path: Path, change: Callable[[dict[str, Any]], None], ending: str = "models/model.json") -> None:
    """Change the JSON of a member of an archive."""
    with zipfile.ZipFile(path) as old:
        members = [(info, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for info, data in members:
            if info.filename.endswith(ending):
                content = json.loads(data)
                change(content)
                data = json.dumps(content).encode()
            new.writestr(info.filename, data)


def in_the_old_layout(path: Path, old: Path) -> None:
    """The same program as PyTorch 2.5 and 2.6 wrote it."""
    program = torch.export.load(path)
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        text = archive.read(name)
    parts = {"state_dict": program.state_dict, "constants": program.constants, "example_inputs": program.example_inputs}
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("version", "8.2")
        archive.writestr("serialized_exported_program.json", text)
        for part, content in parts.items():
            stream = io.BytesIO()
            torch.save(content, stream)
            archive.writestr(f"serialized_{part}.pt", stream.getvalue())
