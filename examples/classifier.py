"""A small classifier, and a trace of three steps of its training: python examples/classifier.py [FILE]."""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


class Classifier(nn.Module):
    """Two convolutions, a pooling and a linear layer: 32x32 images in ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.body(self.stem(images)).mean((2, 3)))
        return logits


def record(file: str, steps: int = 3) -> None:
    """Train for so many steps on a batch of 16, and write what the profiler saw."""
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.randn(16, 3, 32, 32), torch.zeros(16, dtype=torch.long)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=steps),
        on_trace_ready=lambda trace: trace.export_chrome_trace(file),
        record_shapes=True,  # without shapes nothing can be told apart
    ) as profiler:
        for _ in range(steps + 1):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    record(sys.argv[1] if len(sys.argv) > 1 else "trace.json.gz")
