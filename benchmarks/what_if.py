"""How far estimates of ``--what-if`` are from what is measured when the change is really made, and whether floors hold.

Batches and int8 run here in turns with the model as it is (one thread, its least processor time). Floors: that
at level off without element-wise nodes, against the time at the level where onnxruntime fuses them. Devices: traces of
the same models on H100 and on MI300X, from tests/traces of AMD-AGI/TraceLens.

    python benchmarks/what_if.py [--floors SESSIONS] [--traces FOLDER]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import flopwise
from flopwise.analyses.timing.whatif import what_ifs

EXAMPLES = Path(__file__).parents[1] / "examples"

#: The models whose kernels were recorded on both devices: start of the file's name.
RECORDED = ("Falconsai", "gaunernst", "Qwen", "facebook", "google")


def models() -> Iterator[tuple[str, Any, Any]]:
    """Name, model, inputs."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    yield "tiny ResNet", EXAMPLES / "tiny_resnet.onnx", None
    yield "transformer block", EXAMPLES / "transformer_block.onnx", "hidden_states:f32:1x128x40"
    for name in ("resnet18", "mobilenet_v2", "squeezenet1_1"):
        from tests.torch_vision import torchvision

        yield name, getattr(torchvision.models, name)(weights=None).eval(), "1x3x224x224"
    yield "MLP", nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).eval(), "1x512"
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    yield "encoder", nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), "1x64x256"
    yield "1x1 convolutions", nn.Sequential(*(nn.Conv2d(64, 64, 1) for _ in range(4))).eval(), "1x64x28x28"


def trials() -> None:
    """Measured over estimated time of other batches and of int8."""
    found: dict[str, list[float]] = {"batch": [], "dtype": []}
    for name, model, inputs in models():
        bound = flopwise.bound(model, inputs, threads=1, tries=["batch=2", "batch=8", "dtype=int8"])
        ways = list(bound.tried)
        for measured, estimate in itertools.pairwise(ways):
            if (measured.what, estimate.kind) != (estimate.what, "estimate"):
                continue
            measured_ratio, estimated_ratio = measured.ratio or 0.0, estimate.ratio or 1.0
            found[estimate.what.partition(" ")[0]].append(measured_ratio / estimated_ratio)
            print(f"{name:20} {estimate.what:22} estimated {estimated_ratio:6.3f}  measured {measured_ratio:6.3f}")
        print(*bound.notes[-2:], sep="\n", file=sys.stderr)
    for change, ratios in found.items():
        print(f"{change}: measured over estimated {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} trials")


def floors(sessions: int) -> None:
    """Floors of sessions at level off against the same model with element-wise operators fused."""
    broken = 0
    chosen = [each for each in models() if each[0] in ("tiny ResNet", "MLP", "1x1 convolutions", "encoder")]
    for number in range(sessions):
        name, model, inputs = chosen[number % len(chosen)]
        with tempfile.TemporaryDirectory() as folder:
            arguments: dict[str, Any] = {"optimization": "off", "threads": 1, "store": Path(folder) / "store"}
            flopwise.bench(model, inputs, seconds=3, **arguments)
            bound = flopwise.bound(model, inputs, tries=["level=extended"], **arguments)
        ways = {way.what: way for way in what_ifs(bound)}
        fused, extended = ways.get("element-wise nodes fused into others"), ways["level extended"]
        assert bound.engine is not None
        floor = fused.ratio if fused is not None else 1.0
        share = (floor or 1.0) * (bound.engine.ratio or 1.0)
        held = share <= (extended.ratio or 0.0) * (1 + (bound.engine.noise or 0.0))
        broken += not held
        print(f"{name:20} floor {share:.3f}  measured {extended.ratio:.3f}  of the time at level off")
    print(f"{sessions} sessions: {broken} floors above what was measured")


def swaps(folder: Path) -> None:
    """Estimated and measured times of kernels on the other device, both ways."""
    ratios = []
    for model in RECORDED:
        files = {device: next((folder / device).glob(f"{model}*.json.gz")) for device in ("h100", "mi300")}
        rows = {device: flopwise.trace(None, file).rows_ns for device, file in files.items()}
        for here, there, name in (("h100", "mi300", "mi300x"), ("mi300", "h100", "h100")):
            (way,) = flopwise.trace(None, files[here], tries=[f"device={name}"]).tried
            rest = way.base_ns - rows[here]  # copies, and what no operator started, which the estimate leaves as it is
            estimated, measured = (way.ns - rest) / rows[here], rows[there] / rows[here]
            ratios.append(measured / estimated)
            print(f"{model:12} {here:5} -> {there:5} estimated {estimated:.2f}  measured {measured:.2f}")
    print(f"device: measured over estimated {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} swaps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--floors", type=int, metavar="SESSIONS")
    parser.add_argument("--traces", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.floors:
        floors(arguments.floors)
    elif arguments.traces:
        swaps(arguments.traces)
    else:
        trials()


if __name__ == "__main__":
    main()
