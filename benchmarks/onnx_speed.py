"""Time and memory of profiling ONNX files, side by side with onnx-tool and bare onnx: python benchmarks/onnx_speed.py.

Every measurement runs in a process of its own; all are taken in turn, round after round, and the medians are printed as
a Markdown table. Absolute times do not repeat from machine to machine; the ratios do. The models are made on the first
run (2.5 GB, and a sparse file of 13 GB that takes no room) and kept in benchmarks/cache; --clean removes them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
NAMES = ("resnet50", "resnet50-x10", "resnet50-norms", "transformer", "transformer-x10")

#: protobuf reads no message of more bytes, and with it neither onnx nor onnx-tool.
PROTOBUF_LIMIT = 1 << 31

#: The least that any tool on onnx does.
BARE = "import sys, onnx; from onnx import shape_inference; shape_inference.infer_shapes(onnx.load(sys.argv[1]))"

#: ru_maxrss is in kilobytes on Linux and in bytes on macOS.
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass
class Measurement:
    """One thing that is measured, and what each round found."""

    model: str
    title: str
    command: list[str]
    environment: dict[str, str]
    #: Whether the process itself prints the seconds of its first and second call; else its wall time counts.
    inside: bool = False
    #: The measurement that this one is told as a multiple of.
    base: Measurement | None = None
    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)
    peak: list[float] = field(default_factory=list)
    failure: str = ""

    def run(self, record: bool) -> None:
        """One round; without ``record`` it only warms up caches."""
        if self.failure:
            return
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            start = time.perf_counter()
            process = subprocess.Popen(self.command, stdout=out, stderr=err, env=self.environment)
            _, status, usage = os.wait4(process.pid, 0)  # the memory of this one process
            seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            if process.returncode:
                said = err.read().decode(errors="replace").strip().splitlines()
                self.failure = said[-1] if said else f"ended with status {process.returncode}"
            elif record:
                calls = json.loads(out.read().splitlines()[-1]) if self.inside else [seconds]
                self.first.append(calls[0])
                self.second.append(calls[-1])
                self.peak.append(usage.ru_maxrss * RSS_UNIT / 1e6)

    def row(self, weights: str) -> list[str]:
        """A line of the table."""
        if not self.first:
            return [self.model, weights, self.title, self.failure or "not run", "", "", ""]
        ratio = ""
        if self.base and self.base.first:
            ratio = f"{median(self.first) / median(self.base.first):.2f}"
            if self.inside:
                ratio += f" / {median(self.second) / median(self.base.second):.2f}"
            ratio += f" × {self.base.title}"
            if self.base.model != self.model:
                ratio += f", {self.base.model}"
        second = f"{1e3 * median(self.second):,.1f}" if self.inside else ""
        first = f"{1e3 * median(self.first):,.1f}"
        return [self.model, weights, self.title, first, second, ratio, f"{max(self.peak):,.0f}"]


def measurements(names: list[str], cache: Path) -> Iterator[Measurement]:
    """Everything that is measured, model by model."""
    python = sys.executable
    # Modules are compiled once, in the first round, as they are when a package is installed.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str((cache / "pycache").absolute())
    calls = [python, str(HERE / "onnx_calls.py")]
    smaller: dict[str, Measurement] = {}
    for name in names:
        path, graph = str(cache / f"{name}.onnx"), str(cache / f"{name}.graph.onnx")
        readable = os.path.getsize(path) < PROTOBUF_LIMIT
        base = smaller.get(name.removesuffix("-x10"))
        ours = smaller[name] = Measurement(
            name, "flopwise in process", [*calls, "flopwise_profile", path], env, True, base
        )
        yield ours
        tool = Measurement(name, "onnx-tool in process", [*calls, "onnx_tool_profile", path], env, True, ours)
        bare = Measurement(name, "bare onnx script on the graph without weights", [python, "-c", BARE, graph], env)
        command = [python, "-m", "flopwise", "profile", path, "-f", "json", "-o", os.devnull]
        whole = Measurement(name, "bare onnx script on the whole file", [python, "-c", BARE, path], env, base=bare)
        if not readable:
            tool.failure = whole.failure = "cannot read more than 2 GB"
        yield tool
        yield Measurement(name, "flopwise command line", command, env, base=bare)
        yield bare
        yield whole
    yield Measurement("any", "onnx making its operator schemas", [*calls, "onnx_schemas", ""], env, True)


def make(names: list[str], cache: Path) -> None:
    """The models that are not in the cache yet, made in a process of their own to keep this one small."""
    cache.mkdir(exist_ok=True)
    missing = [n for n in names if not (cache / f"{n}.graph.onnx").exists()]
    if missing:
        print(f"making {', '.join(missing)} in {cache}", file=sys.stderr)
        subprocess.run([sys.executable, HERE / "onnx_models.py", cache, *missing], check=True)


def table(rows: list[list[str]]) -> str:
    """Rows as a Markdown table; the first is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def main() -> None:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"any of {', '.join(NAMES)}; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind (default: 5)")
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="folder of the models")
    parser.add_argument("--clean", action="store_true", help="remove the models afterwards")
    given = parser.parse_args()
    names = given.models or list(NAMES)
    if unknown := set(names) - set(NAMES):
        parser.error(f"no model {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    make(names, given.cache)
    todo = list(measurements(names, given.cache))
    for round_ in range(given.rounds + 1):
        for measurement in todo:
            print(f"round {round_}: {measurement.model} {measurement.title}", file=sys.stderr)
            measurement.run(record=round_ > 0)
    sizes = {n: f"{os.path.getsize(given.cache / f'{n}.onnx') / 1e6:,.0f}" for n in names}
    header = [
        "model",
        "file, MB",
        "measured",
        "first call, ms",
        "second call, ms",
        "first / second call as",
        "peak MB",
    ]
    print(table([header, *(m.row(sizes.get(m.model, "")) for m in todo)]))
    if given.clean:
        shutil.rmtree(given.cache)


if __name__ == "__main__":
    main()
