"""Peak of live activations beside PyTorch's own allocations: python benchmarks/torch_memory.py [MODEL ...].

Each model of torchvision runs once on the CPU without gradients, on 8 images of 224 × 224, while torch.profiler records
every allocation; the largest sum of what is allocated, with the input, is printed beside flopwise's figure as a
Markdown table. The models run as they are and in PyTorch's channels-last layout, in which oneDNN needs no copies of its
own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.torch_vision import torchvision

import flopwise

MODELS = ("resnet50", "vit_b_16")
SHAPE = (8, 3, 224, 224)


def allocated(module: torch.nn.Module, given: torch.Tensor) -> int:
    """The largest sum of bytes that are allocated at once, with the input."""
    with torch.no_grad():
        module(given)  # once to warm up
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            module(given)
    events: Any = recorded.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most + given.nbytes


def main(names: list[str]) -> None:
    """Print a line for each model and layout."""
    torch.manual_seed(0)
    given = torch.randn(SHAPE)
    print("| model | layout | flopwise, bytes | PyTorch, bytes | ratio |\n|:--|:--|--:|--:|--:|")
    for name in names or MODELS:
        module = getattr(torchvision.models, name)(weights=None).eval()
        peak = flopwise.profile(module, SHAPE).peak_activation_bytes
        assert peak is not None
        for layout in (torch.contiguous_format, torch.channels_last):
            measured = allocated(module.to(memory_format=layout), given.contiguous(memory_format=layout))
            print(f"| {name} | {str(layout).partition('.')[2]} | {peak:,} | {measured:,} | {peak / measured:.4f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
