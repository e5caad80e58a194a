"""Time of a formula beside one profile of the same model: python benchmarks/formula_speed.py [MODEL ...] [--modules].

Without a model: ResNet-50, a U-Net, a pyramid of features, a head on two scales, a detector on three, a decoder of 32
layers with a cache and a chain of 10,000 nodes as ONNX files, made on the spot; with --modules also ResNet-50,
MobileNetV3, SSDLite and RetinaNet (without what follows their heads) and swin_t of torchvision, and a decoder of 32
layers of transformers, its prefill and a step with a cache. Each round runs in a
process of its own, the profile and the formula in turn; medians of processor seconds and their ratio are printed as a
Markdown table. Imports are not in the times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]

#: One run: processor seconds of a profile and of a formula, and what the formula is like.
FILE = """
import json, sys, time
import flopwise, flopwise.api.formula, flopwise.formats.onnx.read
from flopwise.formats.onnx.read import opened_onnx
from flopwise.formats.kit.inputs import declared
flopwise.profile("examples/tiny_resnet.onnx")
inputs = declared(opened_onnx(sys.argv[1]).model.graph)
names = dict.fromkeys(d for i in inputs for d in i.dims or () if isinstance(d, str))
sizes = {n: 64 for n in names}
start = time.process_time()
flopwise.profile(sys.argv[1], dims=sizes)
middle = time.process_time()
formula = flopwise.formula(sys.argv[1])
end = time.process_time()
print(json.dumps([middle - start, end - middle, formula.exact, len(formula.conditions), len(formula.rows)]))
"""

#: The same of a module, which the first argument makes.
MODULE = """
import importlib, json, sys, time
import torch, flopwise, flopwise.api.formula
from flopwise.formats.torch.libraries import repaired
repaired(lambda: importlib.import_module("torchvision"))


class Detector(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        whole = importlib.import_module("torchvision").models.get_model(name, weights=None, weights_backbone=None)
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, x):
        return self.head(list(self.backbone(x).values()))


with torch.device("meta"):
    model, inputs, sizes = eval(sys.argv[1])
model.eval()
flopwise.profile(torch.nn.Linear(2, 2), (1, 2))
step = "past" in inputs
placed = None if step else {n: tuple(sizes.get(d, d) for d in s) for n, s in inputs.items()}
start = time.process_time()
flopwise.profile(model, placed, **({"past": 64, "new": 8} if step else {}))
middle = time.process_time()
formula = flopwise.formula(model, None if step else inputs, **(inputs if step else {}))
end = time.process_time()
print(json.dumps([middle - start, end - middle, formula.exact, len(formula.conditions), len(formula.rows)]))
"""

IMAGE = '{"x": ("N", 3, "H", "W")}, {"N": 1, "H": 224, "W": 224}'
VISION = "__import__('torchvision').models"
LLAMA = "__import__('transformers')"
MODULES = {
    "resnet50 (torchvision)": f"{VISION}.resnet50(), {IMAGE}",
    "mobilenet_v3_large (torchvision)": f"{VISION}.mobilenet_v3_large(), {IMAGE}",
    "SSDLite, backbone and head (torchvision)": f"Detector('ssdlite320_mobilenet_v3_large'), {IMAGE}",
    "RetinaNet, backbone and head (torchvision)": f"Detector('retinanet_resnet50_fpn'), {IMAGE}",
    "swin_t (torchvision)": f"{VISION}.swin_t(), {IMAGE}",
    "llama, 32 layers (transformers)": f"{LLAMA}.LlamaForCausalLM({LLAMA}.LlamaConfig()), "
    '{"input_ids": ("B", "S")}, {"B": 1, "S": 64}',
    "llama, 32 layers, a step in past and new (transformers)": f"{LLAMA}.LlamaForCausalLM({LLAMA}.LlamaConfig()), "
    '{"past": "past", "new": "new"}, {}',
}


def make(folder: Path) -> dict[str, Path]:
    """The files that are measured unless others are named."""
    sys.path.insert(0, str(ROOT))
    from tests.analyses.formula import models, test_faults

    builds = {
        "ResNet-50": models.resnet50,
        "U-Net": models.unet,
        "pyramid of features": models.fpn,
        "head on two scales": test_faults.head,
        "detector on three scales": models.yolox,
        "decoder, 32 layers, cache": lambda: models.llama(cache=True),
        "chain of 10,000 nodes": models.chain,
    }
    paths = {}
    for name, build in builds.items():
        paths[name] = folder / f"{name.replace(' ', '_')}.onnx"
        paths[name].write_bytes(build())
    return paths


def run(code: str, argument: str) -> list[float] | str:
    """The times, or the last line of what went wrong."""
    command = [sys.executable, "-c", code, argument]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--modules", action="store_true", help="PyTorch modules as well")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("| model | layers | profile, s | formula, s | ratio | complete | conditions |\n|---|--:|--:|--:|--:|---|--:|")
    with tempfile.TemporaryDirectory() as folder:
        files = {path.name: path.resolve() for path in given.models} or make(Path(folder))
        jobs = [(name, FILE, str(path)) for name, path in files.items()]
        jobs += [(name, MODULE, made) for name, made in MODULES.items()] if given.modules else []
        for name, code, argument in jobs:
            rounds = [run(code, argument) for _ in range(given.rounds)]
            done = [r for r in rounds if not isinstance(r, str)]
            if not done:
                print(f"| {name} | failed: {rounds[0]} |")
                continue
            profile, formula = median(r[0] for r in done), median(r[1] for r in done)
            exact, conditions, layers = done[0][2:]
            times = f"{profile:.3f} | {formula:.3f} | {formula / profile:.1f}"
            print(f"| {name} | {layers} | {times} | {'yes' if exact else 'no'} | {conditions} |")


if __name__ == "__main__":
    main()
