"""How long language models take beyond importing transformers, and how much memory.

    python benchmarks/llm_speed.py [FOLDER]

FOLDER holds the configurations llama3-8b, mixtral-8x7b and deepseek-v3. Each line is a process of its own, best of
three: seconds of the processor (a busy machine changes them little), seconds by the clock, and the most memory. The
limits are those of the project: a request to Llama-3-8B 1.5 s beyond importing transformers' model, its formulas in
three symbols (32 layers) 5 s, DeepSeek-V3 10 s and 600 MB, imports included, as for 64 prompts of 32k on a device.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TIMES = 3

#: What the others rest on: the class of the model and PyTorch, imported as flopwise imports them.
IMPORT = (
    "import torch\n"
    "from flopwise.readers.torch.imports import repaired\n"
    "import transformers\n"
    "repaired(lambda: transformers.CONFIG_MAPPING['{kind}'])\n"
    "repaired(lambda: transformers.{name})\n"
)


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
