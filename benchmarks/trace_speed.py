"""How fast a large trace is read, and in how much memory: python benchmarks/trace_speed.py [--size 200 ...].

The files are traces of PyTorch's profiler: the steps of a recorded training of a small network, repeated with their
times moved on until the file has so many megabytes. Of "cpu" the operators are all; of "gpu" each operator starts a
kernel, and as in Kineto's files the calls of the driver, the kernels and the arrows between them stand behind all
operators. Each file is read in a process of its own, without a model; seconds are the processor's, and the peak is that
of the whole process. The limits are those of the project: 20 MB/s, and 100 MB for 2 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]

#: What a process runs that reads a file: its processor seconds, its peak in bytes, and what was reported.
READ = """
import sys, time
import flopwise
start = time.process_time()
trace = flopwise.trace(None, sys.argv[1])
seconds = time.process_time() - start
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, 1024 * int(peak), len(trace.steps), len(trace.rows))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[1, 200], metavar="MB", help="sizes of the files")
    parser.add_argument("--kind", nargs="+", choices=("cpu", "gpu"), default=["cpu", "gpu"])
    parser.add_argument("--against", metavar="SRC", help="the folder with another state's flopwise, read in turn")
    options = parser.parse_args()
    states = [str(Path(__file__).parents[1] / "src"), *([options.against] if options.against else [])]
    print(f"{'kind':4} {'MB':>6} {'events':>11} {'seconds':>8} {'MB/s':>6} {'peak MB':>8} {'steps':>6} {'rows':>5}")
    with tempfile.TemporaryDirectory() as folder:
        step = recorded(Path(folder) / "recorded.json")
        for kind in options.kind:
            for size in options.size:
                path = Path(folder) / f"{kind}.json"
                events = write(path, step, size * 1_000_000, kind == "gpu")
                for state in states:
                    command = [sys.executable, "-c", READ, str(path)]
                    environment = {**os.environ, "PYTHONPATH": state}
                    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
                    if ended.returncode:
                        sys.exit(ended.stderr)
                    seconds, peak, steps, rows = map(float, ended.stdout.split())
                    megabytes = path.stat().st_size / 1e6
                    print(
                        f"{kind:4} {megabytes:6,.0f} {events:11,} {seconds:8.1f} {megabytes / seconds:6.1f} "
                        f"{peak / 1e6:8.1f} {steps:6.0f} {rows:5.0f}",
                        flush=True,
                    )
                path.unlink()


def recorded(path: Path) -> list[Event]:
    """The operators and marks of one step of a training."""
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, schedule

    layers = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(20)]
    model = nn.Sequential(nn.Conv2d(3, 16, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    images = torch.randn(2, 3, 32, 32)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=1, active=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(2):
            optimizer.zero_grad()
            model(images).sum().backward()
            optimizer.step()
            profiler.step()
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") in ("cpu_op", "user_annotation")]


def write(path: Path, step: list[Event], size: int, gpu: bool) -> int:
    """Write a trace of about so many bytes; the number of its events."""
    first = min(event["ts"] for event in step)
    length = 1.01 * max(event["ts"] + event["dur"] - first for event in step)
    parts: list[Callable[[int], Iterator[Event]]] = [lambda number: operators(step, number, length)]
    if gpu:
        parts.append(lambda number: kernels(step, number, length))
    each = sum(len(text) for part in parts for text in map(_text, part(1)))
    steps = max(1, size // each)
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [],\n  "traceEvents": [')
        for part in parts:
            for number in range(steps):
                for event in part(number):
                    file.write(("," if count else "") + _text(event))
                    count += 1
        file.write('\n  ],\n  "traceName": "made"\n}\n')
    return count


def _text(event: Event) -> str:
    """An event about as Kineto writes it, on lines of its own."""
    return "\n  {\n    " + json.dumps(event)[1:-1].replace('"args": {', '\n    "args": {\n      ') + "\n  }"


def operators(step: list[Event], number: int, length: float) -> Iterator[Event]:
    """The operators of a step."""
    for event in step:
        args = dict(event.get("args", {}))
        if "Sequence number" in args:
            args["Sequence number"] += 1000 * number
        name = f"ProfilerStep#{number}" if event["name"].startswith("ProfilerStep") else event["name"]
        yield {**event, "name": name, "ts": round(event["ts"] + number * length, 3), "args": args}


def kernels(step: list[Event], number: int, length: float) -> Iterator[Event]:
    """The driver's calls and the kernels of a step, and the arrows between them."""
    for place, event in enumerate(step):
        if event["cat"] != "cpu_op":
            continue
        correlation = number * len(step) + place
        start = round(event["ts"] + number * length, 3)
        launch = {"External id": correlation, "cbid": 211, "correlation": correlation}
        runtime = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": event["tid"]}
        yield {**event, **runtime, "pid": event["pid"], "ts": start, "dur": 0.001, "args": launch}
        arrow = {"id": correlation, "cat": "ac2g", "name": "ac2g"}
        yield {"ph": "s", **arrow, "pid": event["pid"], "tid": event["tid"], "ts": start}
        sizes = {"grid": [64, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}
        more = {"device": 0, "context": 1, "stream": 7, "correlation": correlation, "External id": correlation}
        kernel = {"ph": "X", "cat": "kernel", "name": f"void at::native::kernel<{event['name']}>(float*, long)"}
        times = {"pid": 0, "tid": 7, "ts": round(start + 5, 3), "dur": 0.5}
        yield {**kernel, **times, "args": {**more, **sizes}}
        yield {"ph": "f", **arrow, "pid": 0, "tid": 7, "ts": times["ts"], "bp": "e"}


if __name__ == "__main__":
    main()
