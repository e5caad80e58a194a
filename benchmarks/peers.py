"""flopwise and every peer that is installed on the same 30 models: accuracy, refusals, time and memory in one run.

Run ``python benchmarks/peers.py [--rounds N] [-o docs/reference/peers.md]``. Each tool takes each model in a process
of its own, forked from one that has imported PyTorch, torchvision, timm and onnx. Before the clock starts the tool is
imported and the model made. Time and memory are measured twice and both are shown: of the first call in the process,
as a script meets it that counts one model, and of a further call, with the model made anew. Each round goes through
all tools model by model, so that a busy machine slows all of them alike.

The truth is derived here, by code that shares nothing with flopwise or a peer: of a module, every product that PyTorch
dispatches when the model runs, by the shapes of its operands; of an ONNX file, convolutions and matrix products by the
shapes that onnx infers. Where convolutions and linear layers are all there is, the sum over layers by the textbook has
to give the same.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import logging
import math
import multiprocessing
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from peers_models import MODELS, truth
from peers_tools import TOOLS

#: Seconds that a tool may take for a model.
PATIENCE = 120
#: What is timed: the first call in a process, and a further one.
CALLS = ("first", "further")


# ---- one tool on one model in a process of its own


def _memory(key: str) -> int:
    """A figure of this process in kB: VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def called(count: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What a call returns, the seconds it took, and the megabytes it needed beyond what the process held before."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the model
    before, start = _memory("VmRSS"), time.perf_counter()
    value = count()
    seconds = time.perf_counter() - start
    return value, {"seconds": seconds, "mb": max(_memory("VmHWM") - before, 0) / 1024}


def child(tool: str, name: str, pipe: Any) -> None:
    """Send what a tool says of a model, and what its first call and a further one cost; or the truth."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            if tool:
                value, first = called(TOOLS[tool][0](name))
                again, further = called(TOOLS[tool][0](name))
                if again != value:
                    raise RuntimeError(f"{value} at first, then {again}")
                answer = {"value": None if value is None else int(value), "first": first, "further": further}
            else:
                answer = {"value": truth(name)}
        pipe.send(answer)
    except BaseException as error:
        message = (str(error).strip().splitlines() or [""])[0]
        pipe.send({"error": f"{type(error).__name__}: {message}"[:160]})
    finally:
        pipe.close()
        os._exit(0)


def measured(tool: str, name: str) -> dict[str, Any]:
    """What :func:`child` sends."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(tool, name, sender))
    process.start()
    sender.close()
    try:
        answer = receiver.recv() if receiver.poll(PATIENCE) else {"error": f"no answer in {PATIENCE} s"}
    except EOFError:
        answer = {"error": "the process died"}
    process.kill()
    process.join()
    return answer


def run(rounds: int, kept: Path) -> dict[str, Any]:
    """All tools on all models; what was measured before an interruption is taken from a file."""
    state: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    for number in range(rounds):
        for name, (kind, _) in MODELS.items():
            takes = ("both", "onnx" if kind == "onnx" else "torch")
            for tool in ("", *TOOLS):
                key = f"{number}|{tool}|{name}"
                if key in state or (tool and TOOLS[tool][2] not in takes) or (not tool and number):
                    continue
                state[key] = measured(tool, name)
                print(key, state[key], flush=True)
            kept.write_text(json.dumps(state))
    return state


# ---- the page


def installed() -> dict[str, str]:
    """Tool -> its version, for those that are there."""
    versions = {}
    for tool, (_, package, _) in TOOLS.items():
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[tool] = metadata.version(package)
    return versions


class Results:
    """What was measured: the truth, and for each tool and model its count, best time and memory."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.truth = {name: state[f"0||{name}"]["value"] for name in MODELS}
        self.cells: dict[tuple[str, str], dict[str, Any]] = {}
        for key, answer in state.items():
            _, tool, name = key.split("|")
            if not tool:
                continue
            old = self.cells.get((tool, name))
            if old is None or "error" in old:
                self.cells[tool, name] = answer
            elif "error" not in answer:
                best = {call: {k: min(old[call][k], answer[call][k]) for k in ("seconds", "mb")} for call in CALLS}
                self.cells[tool, name] = {**answer, **best}

    def of(self, tool: str, name: str) -> dict[str, Any] | None:
        """What was measured of a tool on a model that it takes."""
        return self.cells.get((tool, name))

    def measures(self, tool: str, call: str, key: str) -> list[float]:
        """Seconds or megabytes of a tool's first or further calls, one for each model that it reads."""
        return [cell[call][key] for (one, _), cell in self.cells.items() if one == tool and call in cell]

    def ratios(self, tool: str, call: str) -> list[float]:
        """The time of a tool's calls divided by that of flopwise's on the same models."""
        pairs = [(cell, self.cells["flopwise", name]) for (one, name), cell in self.cells.items() if one == tool]
        return [a[call]["seconds"] / b[call]["seconds"] for a, b in pairs if call in a and call in b]

    def off(self, tool: str, name: str) -> float | None:
        """How far a count is off, in per cent of the truth."""
        cell, true = self.of(tool, name), self.truth[name][0]
        if cell is None or cell.get("value") is None:
            return None
        return 100 * (cell["value"] - true) / true


def page(results: Results, rounds: int) -> Iterator[str]:
    """The Markdown of docs/reference/peers.md."""
    versions = installed()
    tools = [tool for tool in TOOLS if any((tool, name) in results.cells for name in MODELS)]
    modules = [name for name in MODELS if MODELS[name][0] != "onnx"]
    files = [name for name in MODELS if MODELS[name][0] == "onnx"]
    yield from (
        "# flopwise and its peers",
        "",
        f"Made by `benchmarks/peers.py` on {date.today()}, {platform.machine()}, Python {platform.python_version()},",
        f"one thread, {rounds} round{'s' if rounds > 1 else ''} in one run (the best); do not edit. 30 models, each",
        "tool in a process of its own for each. Before the clock starts the tool is imported and the model made. All",
        "module tools, flopwise too, are handed the same module with weights in memory; most run it. torch_flops needs",
        "a GPU and did not run.",
        "",
        "**Two calls are timed, and they rank the tools differently.** The *first* call in a process is what a script",
        "meets that counts one model: it holds all that a tool and PyTorch import and set up only when they are used.",
        "A *further* call, with the model made anew, is what a loop over many models meets. What is imported together",
        "with the tool is in neither. Neither ranking is the right one: they answer different questions. Memory is the",
        "peak above what the process held before the call, also for both.",
        "",
        "The truth is the multiply-accumulates of all products over a shared index (convolutions, matrix products,",
        "attention), derived in the script by code that shares nothing with any tool: every product that PyTorch",
        "dispatches, by the shapes of its operands; of ONNX files, by the shapes that onnx infers. Where a model has",
        "nothing but convolutions and linear layers (marked =), the sum over its layers by the textbook is the same.",
        "",
        "**How to read it.** Most tools count more than products by design: norms and activations (fvcore, ptflops,",
        "mmcv, thop), biases, or a few functions. A per cent or two above the truth is that choice, and no error;",
        "flopwise has each of these conventions (`-c fvcore`, `-c thop` ...). Far below means that work was not seen.",
        "",
        "## In short",
        "",
        "| tool | version | models read | exact | within 1 % | worst | first call, of flopwise's time | further call, "
        "of flopwise's time | first call, s | further call, s | first call, MB | further call, MB |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    )
    for tool in tools:
        takes = [name for name in MODELS if (tool, name) in results.cells]
        offs = [off for name in takes if (off := results.off(tool, name)) is not None]
        worst = max(offs, key=abs, default=math.nan)
        cells = [f"{len(offs)} of {len(takes)}", str(sum(off == 0 for off in offs))]
        cells += [str(sum(abs(off) <= 1 for off in offs)), f"{worst:+.1f} %"]
        cells += [_median(results.ratios(tool, call), ".2f") for call in CALLS]
        cells += [_median(results.measures(tool, call, "seconds"), ".2g") for call in CALLS]
        cells += [_median(results.measures(tool, call, "mb"), ".0f") for call in CALLS]
        yield f"| {tool} | {versions.get(tool, '')} | {' | '.join(cells)} |"
    yield from ("", "Times and memory are medians over the models.", "", *_ahead(results, tools))
    yield from _tables(results, tools, modules, files)
    yield from _refusals(results, tools)
    yield from _better(results, tools)


def _ahead(results: Results, tools: list[str]) -> Iterator[str]:
    """Which peers take less time than flopwise by the median, in the first call and in a further one."""
    for call in CALLS:
        medians = {tool: statistics.median(results.ratios(tool, call)) for tool in tools[1:]}
        ahead = [
            f"{tool} ({medians[tool]:.2f})" for tool in sorted(medians, key=medians.__getitem__) if medians[tool] < 1
        ]
        which = "In the first call" if call == "first" else "In a further call"
        yield f"- {which} {len(ahead)} of {len(medians)} peers are faster than flopwise: {'; '.join(ahead) or 'none'}."


def _median(values: list[float], form: str) -> str:
    return format(statistics.median(values), form) if values else ""


def _tables(results: Results, tools: list[str], modules: list[str], files: list[str]) -> Iterator[str]:
    for title, names, note in (("PyTorch modules", modules, ""), ("ONNX files", files, "")):
        of = [tool for tool in tools if any((tool, name) in results.cells for name in names)]
        yield from ("", f"## {title}: per cent off the truth{note}", "")
        yield from (f"| model | truth, MACs | {' | '.join(of)} |", f"|---|--:|{'--:|' * len(of)}")
        for name in names:
            true, proved = results.truth[name]
            cells = [_cell(results, tool, name) for tool in of]
            yield f"| {name} | {true:,}{' =' if proved else ''} | {' | '.join(cells)} |"
        for key, what, form in (("seconds", "seconds", ".2g"), ("mb", "MB", ".0f")):
            yield from ("", f"## {title}: {what}, first call / further call", "")
            yield from (f"| model | {' | '.join(of)} |", f"|---|{'--:|' * len(of)}")
            for name in names:
                both = (results.of(tool, name) for tool in of)
                cells = [
                    " / ".join(format(m[call][key], form) for call in CALLS) if m and "first" in m else "" for m in both
                ]
                yield f"| {name} | {' | '.join(cells)} |"


def _cell(results: Results, tool: str, name: str) -> str:
    cell, off = results.of(tool, name), results.off(tool, name)
    if cell is None:
        return ""
    if off is None:
        return "refused" if "error" in cell else "unknown"
    return "0" if off == 0 else f"{off:+.2f}"


def _refusals(results: Results, tools: list[str]) -> Iterator[str]:
    yield from ("", "## Refusals and failures", "", "| tool | models | what it says |", "|---|---|---|")
    for tool in tools:
        said: dict[str, list[str]] = {}
        for name in MODELS:
            cell = results.of(tool, name)
            if cell and "error" in cell:
                said.setdefault(cell["error"].replace("|", "\\|"), []).append(name)
        for error, names in said.items():
            yield f"| {tool} | {', '.join(names)} | {error} |"
    yield from (
        "",
        "A model that a tool does not take at all (an ONNX file for a module tool) is no refusal. `custom_op.onnx`",
        "holds an operator that no tool can know: its truth is that of the rest, and flopwise says `≥ 640`,",
        "with a note.",
    )


def _better(results: Results, tools: list[str]) -> Iterator[str]:
    """Where a peer is ahead of flopwise, model by model."""
    yield from (
        "",
        "## Where a peer is ahead of flopwise",
        "",
        "| peer | closer to the truth | faster in the first call | faster in a further call | less memory in the first "
        "call | less memory in a further call |",
        "|---|---|---|---|---|---|",
    )
    for tool in tools:
        if tool == "flopwise":
            continue
        closer: list[str] = []
        faster: dict[str, list[str]] = {call: [] for call in CALLS}
        leaner: dict[str, list[str]] = {call: [] for call in CALLS}
        for name in MODELS:
            a, b = results.of(tool, name), results.of("flopwise", name)
            if a is None or b is None or "error" in a:
                continue
            one, other = results.off(tool, name), results.off("flopwise", name)
            if one is not None and (other is None or abs(one) < abs(other)):
                closer.append(name)
            for call in CALLS if "error" not in b else ():
                x, y = a[call], b[call]
                if x["seconds"] < y["seconds"]:
                    faster[call].append(f"{name} ({y['seconds'] / x['seconds']:.1f}x)")
                if x["mb"] + 1 < y["mb"]:
                    leaner[call].append(f"{name} ({x['mb']:.0f} against {y['mb']:.0f} MB)")
        columns = (closer, *faster.values(), *leaner.values())
        yield f"| {tool} | {' | '.join(', '.join(names) or 'none' for names in columns)} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, default=Path("peers.json"), help="what is measured, for going on")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if find_spec("timm") is None:
        raise SystemExit("peers.py needs timm")
    import timm  # noqa: F401  before the forks, so that no tool pays for it

    state = run(arguments.rounds, arguments.keep)
    text = "\n".join(page(Results(state), arguments.rounds)) + "\n"
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
