"""How long language models take beyond importing transformers, and how much memory.

    python -m benchmarks.llm_speed [FOLDER]

FOLDER holds the configurations llama3-8b, mixtral-8x7b and deepseek-v3. Each line is a process of its own, best of
three: seconds of the processor (a busy machine changes them little), seconds by the clock, and the most memory. The
limits are those of the project: a request to Llama-3-8B or 405B 1.5 s beyond importing transformers' model, the
formulas of the first in three symbols (32 layers) 5 s, DeepSeek-V3 10 s and 600 MB, imports included, as for 64 prompts
of 32k on a device; the same of gpt-oss-120b, Kimi-K2 and Granite-4.0-H-Tiny (40 layers), whose configurations the tests
hold, 10 s.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.analyses.llm.held import MODELS
from tests.analyses.llm.test_by_hand import HYBRID
from tests.language_models import written

TIMES = 3

#: What the others rest on: the class of the model and PyTorch, imported as flopwise imports them.
IMPORT = (
    "import torch\n"
    "from flopwise.readers.torch.imports import repaired\n"
    "import transformers\n"
    "repaired(lambda: transformers.CONFIG_MAPPING['{kind}'])\n"
    "repaired(lambda: transformers.{name})\n"
)

#: Llama-3-405B, of 126 layers.
_LLAMA_405B = {
    **MODELS["llama3-70b"],
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_attention_heads": 128,
    "num_hidden_layers": 126,
}


@dataclass(frozen=True)
class Run:
    """The cost of a process."""

    processor: float
    clock: float
    megabytes: float


def run(arguments: list[str]) -> Run:
    """The cost of a process with these arguments to Python; the least of each figure over several."""
    runs = [_once(arguments) for _ in range(TIMES)]
    return Run(min(r.processor for r in runs), min(r.clock for r in runs), min(r.megabytes for r in runs))


def _once(arguments: list[str]) -> Run:
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.execv(sys.executable, [sys.executable, *arguments])
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)}: failed")
    return Run(usage.ru_utime + usage.ru_stime, time.perf_counter() - begun, usage.ru_maxrss / 1e3)


def main() -> None:
    default = Path(__file__).resolve().parents[2] / "shared" / "models" / "llm"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    llama, deepseek = str(folder / "llama3-8b"), str(folder / "deepseek-v3")
    base = run(["-c", IMPORT.format(kind="llama", name="LlamaForCausalLM")])
    title = "importing PyTorch and transformers"
    print(f"{title:44} {base.processor:6.2f} s  {base.clock:6.2f} s {base.megabytes:6.0f} MB")
    commands = (
        ("flopwise llm llama3-8b", ["llm", llama], base, 1.5, None),
        ("the same with cost against context", ["llm", llama, "-o", os.devnull, "-f", "html"], base, None, None),
        (
            "flopwise formula llama3-8b, three symbols",
            ["formula", llama, "--past", "past", "--new", "new"],
            base,
            5.0,
            None,
        ),
        ("flopwise llm deepseek-v3", ["llm", deepseek], None, 10.0, 600.0),
        (
            "the same, 64 prompts of 32k on an H100",
            ["llm", deepseek, "--prompt", "32768", "-b", "64", "--device", "h100"],
            None,
            10.0,
            600.0,
        ),
    )
    layers = ["attention" if n in (5, 15, 25, 35) else "mamba" for n in range(40)]
    granite = {**HYBRID, "num_hidden_layers": 40, "layer_types": layers}
    requests = {**{name: MODELS[name] for name in ("gpt-oss-120b", "kimi-k2")}, "granite-4.0-h-tiny": granite}
    request = ["--prompt", "32768", "-b", "64", "--device", "h100"]
    with tempfile.TemporaryDirectory() as scratch:
        paths = {name: str(written(_folder(scratch, name), config)) for name, config in requests.items()}
        large = (
            (f"{name}, 64 prompts of 32k on an H100", ["llm", paths[name], *request], None, 10.0, None)
            for name in paths
        )
        largest = str(written(_folder(scratch, "llama3-405b"), _LLAMA_405B))
        _report((*commands, ("flopwise llm llama3-405b", ["llm", largest], base, 1.5, None), *large))


def _folder(scratch: str, name: str) -> Path:
    folder = Path(scratch) / name
    folder.mkdir()
    return folder


def _report(commands: Iterable[tuple[str, list[str], Run | None, float | None, float | None]]) -> None:
    """Print a line for each command: its name and arguments, what is taken off, and the limits in seconds and MB."""
    for name, arguments, less, seconds, megabytes in commands:
        cost = run(["-m", "flopwise", *arguments])
        beyond = cost.processor - (less.processor if less else 0.0)
        limit = f", limit {seconds:g} s" if seconds else ""
        limit += f" and {megabytes:g} MB" if megabytes else ""
        what = "beyond imports" if less else "with imports"
        print(
            f"{name:44} {cost.processor:6.2f} s  {cost.clock:6.2f} s {cost.megabytes:6.0f} MB; "
            f"{beyond:.2f} s {what}{limit}"
        )


if __name__ == "__main__":
    main()
