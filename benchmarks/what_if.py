"""How far estimates of ``--what-if`` are from what is measured when the change is really made, and whether floors hold.

Batches and int8 run here in turns with the model as it is (one thread, its least processor time). Floors: that
at level off without element-wise nodes, against the time at the level where onnxruntime fuses them. Devices: traces of
the same models on H100 and on MI300X, from tests/traces of AMD-AGI/TraceLens. What is tried is written to the table of
trials, from which flopwise takes the range of its estimates.

    python benchmarks/what_if.py [--floors SESSIONS] [--traces FOLDER]
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import flopwise
from flopwise.analyses.timing import machine
from flopwise.analyses.timing.whatif import what_ifs

#: The trials, as flopwise reads them.
TABLE = Path(__file__).parents[1] / "src" / "flopwise" / "analyses" / "timing" / "data" / "trials.json"

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
    found: dict[str, list[dict[str, Any]]] = {"batch": [], "dtype": []}
    for name, model, inputs in models():
        bound = flopwise.bound(model, inputs, threads=1, tries=["batch=2", "batch=8", "dtype=int8"])
        ways = list(bound.tried)
        for measured, estimate in itertools.pairwise(ways):
            if (measured.what, estimate.kind) != (estimate.what, "estimate"):
                continue
            measured_ratio, estimated_ratio = measured.ratio or 0.0, estimate.ratio or 1.0
            change = estimate.what.partition(",")[0]
            found[change.partition(" ")[0]].append(trial(name, change, estimated_ratio, measured_ratio))
            print(f"{name:20} {estimate.what:22} estimated {estimated_ratio:6.3f}  measured {measured_ratio:6.3f}")
        print(*bound.notes[-2:], sep="\n", file=sys.stderr)
    here = machine.named(None).name
    for change, where in (("batch", f"on {here}"), ("dtype", f"of int8 on {here}")):
        write(change, where, found[change])


def trial(model: str, change: str, estimated: float, measured: float) -> dict[str, Any]:
    """Times of a model with a change over those without it."""
    return {"model": model, "change": change, "estimated": round(estimated, 4), "measured": round(measured, 4)}


def write(change: str, where: str, found: list[dict[str, Any]]) -> None:
    """Put the trials of a kind of change in place of those in the table."""
    table = json.loads(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    table[change] = {"where": where, "trials": found}
    kinds = (
        f'"{kind}": {{"where": {json.dumps(each["where"])}, "trials": [\n'
        + ",\n".join(f" {json.dumps(one)}" for one in each["trials"])
        + "\n]}"
        for kind, each in sorted(table.items())
    )
    TABLE.write_text("{\n" + ",\n".join(kinds) + "\n}\n", "utf-8")
    ratios = [each["measured"] / each["estimated"] for each in found]
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
    found = []
    for model in RECORDED:
        files = {device: next((folder / device).glob(f"{model}*.json.gz")) for device in ("h100", "mi300")}
        rows = {device: flopwise.trace(None, file).rows_ns for device, file in files.items()}
        for here, there, name in (("h100", "mi300", "mi300x"), ("mi300", "h100", "h100")):
            (way,) = flopwise.trace(None, files[here], tries=[f"device={name}"]).tried
            rest = way.base_ns - rows[here]  # copies, and what no operator started, which the estimate leaves as it is
            estimated, measured = (way.ns - rest) / rows[here], rows[there] / rows[here]
            found.append(trial(model, f"{here} to {there}", estimated, measured))
            print(f"{model:12} {here:5} -> {there:5} estimated {estimated:.2f}  measured {measured:.2f}")
    write("device", "between H100 and MI300X, kernels recorded on both", found)


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
