"""Time and memory of counting PyTorch modules, beside the tools that count them and the bare forward pass.

Every figure is a ratio to the forward pass of the same module on meta tensors, measured in the same process, after all
imports. Tools that need real weights get a module with weights; flopwise, the forward pass and FlopCounterMode run on
the meta device. ``python benchmarks/torch_speed.py [--peers] [--large]``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from tests.torch_models import MODELS
from torch.utils.flop_counter import FlopCounterMode

import flopwise
from flopwise.formats.torch.record import recorder

NAMES = ("resnet50", "vit_b_16", "bert_base")


def median(work: Callable[[], Any], repeats: int) -> float:
    """Seconds of a call, the median of several after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peers(model: Any, args: Any, kwargs: Any) -> dict[str, Callable[[], Any]]:
    """The other tools, each on the real module."""
    found: dict[str, Callable[[], Any]] = {}
    with contextlib.suppress(ImportError):
        from fvcore.nn import FlopCountAnalysis

        def fvcore() -> Any:
            analysis = FlopCountAnalysis(model, (*args, *kwargs.values()))
            return analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()

        found["fvcore"] = fvcore
    with contextlib.suppress(ImportError):
        from ptflops import get_model_complexity_info

        names = ("input_ids", "attention_mask")
        inputs = dict(zip(names, (*args, *kwargs.values()), strict=False)) if kwargs else None
        found["ptflops"] = lambda: get_model_complexity_info(
            model,
            tuple(args[0].shape[1:]),
            input_constructor=(lambda shape: inputs) if inputs else None,
            print_per_layer_stat=False,
            as_strings=False,
        )
    with contextlib.suppress(ImportError):
        from thop import profile

        found["thop"] = lambda: profile(model, (*args, *kwargs.values()), verbose=False)
    with contextlib.suppress(ImportError):
        from torchinfo import summary

        found["torchinfo"] = lambda: summary(model, input_data=[*args, *kwargs.values()], verbose=0)
    with contextlib.suppress(ImportError):
        from calflops import calculate_flops

        found["calflops"] = lambda: calculate_flops(
            model, args=[*args, *kwargs.values()], print_results=False, output_as_string=False
        )
    return found


def row(name: str, with_peers: bool, repeats: int) -> list[str]:
    """The ratios of one model."""
    with torch.device("meta"):
        model, args, kwargs = MODELS[name]()
    real_inputs = (
        [torch.zeros(a.shape, dtype=a.dtype) for a in args],
        {k: torch.ones(v.shape, dtype=v.dtype) for k, v in kwargs.items()},
    )
    no_mask: dict[str, Any] = {}  # the bare forward pass on meta tensors fails with one: it asks for its elements

    def bare() -> None:
        with torch.no_grad():
            model(*args, **no_mask)

    def counter() -> None:
        with torch.no_grad(), FlopCounterMode(display=False):
            model(*args, **no_mask)

    def first() -> None:
        recorder._KNOWN.clear()
        flopwise.profile(model, (list(args), {}))

    base = median(bare, repeats)
    cells = [
        name,
        "1",
        f"{median(lambda: flopwise.profile(model, (list(args), {})), repeats) / base:.2f}",
        f"{median(first, repeats) / base:.2f}",
        f"{median(counter, repeats) / base:.2f}",
    ]
    if with_peers:
        real, _, _ = MODELS[name]()
        for tool, work in peers(real, *real_inputs).items():
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                try:
                    cells.append(f"{median(work, 3) / base:.1f}")
                except Exception as error:  # which of them fail is part of the table
                    cells.append(f"{tool}: {type(error).__name__}")
    return cells


LARGE = """
import resource, time, torch
from tests import torch_vision
import transformers
with torch.device("meta"):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig()).eval()
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tokens = torch.zeros(1, 128, dtype=torch.int64, device="meta")
{setup}
begin = time.perf_counter()
{work}
print(time.perf_counter() - begin, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024)
"""

WORKS = {
    "forward pass": ("", "with torch.no_grad(): model(tokens)"),
    "FlopCounterMode": (
        "from torch.utils.flop_counter import FlopCounterMode",
        "with torch.no_grad(), FlopCounterMode(display=False): model(tokens)",
    ),
    "flopwise": ("import flopwise", "flopwise.profile(model, {'input_ids': tokens})"),
}


def large() -> None:
    """Llama with 7 billion parameters, each way in a process of its own."""
    figures = {}
    for name, (setup, work) in WORKS.items():
        runs = [
            subprocess.run(
                [sys.executable, "-c", LARGE.format(setup=setup, work=work)],
                capture_output=True,
                text=True,
                check=True,
                cwd=Path(__file__).resolve().parents[1],
            ).stdout.split()[-2:]
            for _ in range(3)
        ]
        figures[name] = statistics.median(float(s) for s, _ in runs), statistics.median(float(m) for _, m in runs)
    base = figures["forward pass"][0]
    print("\n| Llama 7B, 1×128, first call in a process | time / forward pass | peak memory added |\n|---|--:|--:|")
    for name, (seconds, memory) in figures.items():
        print(f"| {name} ({seconds:.2f} s) | {seconds / base:.2f} | {memory:.0f} MB |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true", help="time the other tools as well")
    parser.add_argument("--large", action="store_true", help="time a Llama with 7 billion parameters as well")
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tools = ["fvcore", "ptflops", "thop", "torchinfo", "calflops"] if given.peers else []
    head = ["model", "forward", "flopwise", "flopwise, nothing known", "FlopCounterMode", *tools]
    print("| " + " | ".join(head) + " |\n|---" + "|--:" * (len(head) - 1) + "|")
    for name in NAMES:
        print("| " + " | ".join(row(name, given.peers, given.repeats)) + " |", flush=True)
    if given.large:
        large()


if __name__ == "__main__":
    main()
