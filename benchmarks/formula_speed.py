"""Time of a formula, stage by stage, beside onnx-tool's shape engine: python benchmarks/formula_speed.py [MODEL ...].

Without a model: a decoder of 32 layers in batch and sequence, and ResNet-50 in N, H and W, made on the spot. Each round
runs in a process of its own, flopwise and onnx-tool in turn, and medians are printed as a Markdown table. Imports, and
onnx-tool's reading of the file, are not in the times. The engine evaluates the shapes at four sizes of each symbol and
notes how they depend on it; it counts nothing, and no other tool gives a formula.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from math import prod
from pathlib import Path
from statistics import median

from onnx import ModelProto, TensorProto

ROOT = Path(__file__).parents[1]

#: One run of flopwise: seconds of each stage, in order.
OURS = """
import gc, json, sys, time
import onnx, sympy, flopwise, flopwise.cli.commands.formula, flopwise.analyses.formula.derive
import flopwise.readers.onnx.read
from flopwise.report.commands.formula import formula_report
from flopwise.report.report import as_text
gc.disable()
found = []
def step(name):
    if name not in ("reading the graph", "resolving shapes", "building the graph", "inlining functions"):
        found.append((name, time.perf_counter()))
formula = flopwise.formula(sys.argv[1], progress=step)
step("simplifying and writing")
as_text(formula_report(formula))
step("")
stages = {name: after - before for (name, before), (_, after) in zip(found, found[1:])}
print(json.dumps({**stages, "in all": found[-1][1] - found[0][1]}))
"""

#: One run of onnx-tool's engine on the same file.
THEIRS = """
import contextlib, io, json, sys, time
import onnx, onnx_tool
from flopwise.readers.onnx.signature import signature
inputs = signature(sys.argv[1]).inputs
model = onnx_tool.Model(sys.argv[1], {"constant_folding": True, "verbose": False})
names = dict.fromkeys(d for i in inputs for d in i.dims if isinstance(d, str))
start = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    shapes = {i.name: [str(d) if isinstance(d, str) else d for d in i.dims] for i in inputs}
    model.graph.shape_regress(shapes, {n: (32, 256) for n in names})
print(json.dumps({"in all": time.perf_counter() - start}))
"""


def make(folder: Path) -> list[Path]:
    """The models that are measured unless others are named."""
    sys.path.insert(0, str(ROOT))
    from tests.analyses.formula import models

    paths = []
    for name, build in (("llama-32", models.llama), ("resnet50", models.resnet50)):
        paths.append(folder / f"{name}.onnx")
        model = ModelProto.FromString(build())
        for tensor in model.graph.initializer:
            if tensor.data_type == TensorProto.FLOAT and not tensor.raw_data:
                tensor.raw_data = bytes(4 * prod(tensor.dims))  # onnx-tool wants its weights
        paths[-1].write_bytes(model.SerializeToString())
    return paths


def run(code: str, path: Path) -> dict[str, float] | str:
    """The times, or the last line of what went wrong."""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print("| model | measured | ms |\n|---|---|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for path in given.models or make(Path(folder)):
            rounds = [(run(OURS, path), run(THEIRS, path)) for _ in range(given.rounds)]
            for tool, found in zip(("flopwise", "onnx-tool shape engine"), zip(*rounds, strict=True), strict=True):
                times = [r for r in found if not isinstance(r, str)]
                for stage in times[0] if times else ():
                    print(f"| {path.name} | {tool}: {stage} | {1e3 * median(t[stage] for t in times):,.0f} |")
                if not times:
                    print(f"| {path.name} | {tool} | failed: {found[0]} |")


if __name__ == "__main__":
    main()
