"""Traces that PyTorch's own profiler records in a test, of small models on the CPU, and how files of it are read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from flopwise.analyses.traces.assembly import trace_of
from flopwise.analyses.traces.kineto.read import read
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import Trace
from flopwise.profiles.profile import Profile


class Net(nn.Module):
    """A small network of convolutions: normalised, grouped, with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1, groups=2), nn.BatchNorm2d(32), nn.SiLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.stem(x))
        x = x + x.mean((2, 3), keepdim=True)
        logits: torch.Tensor = self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def encoder() -> nn.Module:
    """Two layers of a transformer, which PyTorch runs as one fused operator each where no gradient is wanted."""
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, batch_first=True), 2)


def inference(model: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """A step that runs a model without gradients."""

    def step() -> None:
        with torch.no_grad():
            model(x)

    return step


def training(model: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """A step of training a classifier with AdamW."""
    optimizer = torch.optim.AdamW(model.parameters())
    labels = torch.zeros(x.shape[0], dtype=torch.long)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()

    return step


def record(path: Path, step: Callable[[], None], steps: int = 4, marks: bool = True, shapes: bool = True) -> Path:
    """A trace of so many steps, each marked or not."""
    plan = schedule(wait=0, warmup=1, active=steps) if marks else None
    with profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])],
        record_shapes=shapes,
        schedule=plan,
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(steps + marks):
            step()
            if marks:
                profiler.step()
    return path


def read_trace(path: Path, profile: Profile | None, step: str = "median") -> Trace:
    """The trace in a file on the rows of a profile; its parts add up."""
    with Scan(path) as scan:
        recorded = read(scan, profile)
    trace = trace_of(recorded, "model", "kineto", step)
    assert trace.to_dict()["totals"]["covered_ns"] == trace.rows_ns + trace.segments_ns + trace.remainder_ns
    return trace


def named(trace: Trace, *unnamed: str) -> float:
    """The share of the busy time that is on rows, on segments or under a name that says what it is."""
    unknown = sum(trace.remainder.get(name, 0) for name in ("unmatched", *unnamed))
    return 1 - unknown / trace.busy_ns


if __name__ == "__main__":
    # ``Net`` under autocast on this processor: ``python -m tests.analyses.traces.kineto.recording avx512.json.gz``; on
    # a lesser one with ``ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2`` before it.
    cast = torch.autocast("cpu", torch.bfloat16)(Net().eval().forward)
    record(Path(sys.argv[1]), inference(cast, torch.randn(2, 3, 32, 32)), steps=2)
