"""How long language models take from their configuration alone, and how much memory; peers beside it where installed.

    python -m benchmarks.llm_speed [FOLDER]

FOLDER holds published configurations, a folder each. Each line is a process of its own, best of three, with compiled
bytecode: seconds of the processor (a busy machine changes them little) and the most memory. The limits are those of the
project: a request of 64 prompts of 32k on a device 0.5 s and 60 MB, a median of 0.4 s; every split among eight devices
1.5 s. The peers are asked for Llama-3-8B.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

TIMES = 3

#: Peers: what they are asked for Llama-3-8B with, which llm-flops and ridgepoint know by name.
PEERS = {
    "llm-flops": "llm-flops estimate meta-llama/Meta-Llama-3-8B --gpu H100 --seq-len 32768 --batch-size 64 --no-hf",
    "ridgepoint": "ridgepoint fit llama-3-8b --gpu h100-80gb --ctx 32768",
    "servcalc": "servcalc {folder} --gpu 'H100 80GB' --prompt 32768 --concurrency 64",
}


@dataclass(frozen=True)
class Run:
    """The cost of a process."""

    seconds: float
    megabytes: float
    failed: bool = False


def run(command: list[str]) -> Run:
    """The least cost of a process over several."""
    runs = [_once(command) for _ in range(TIMES)]
    return Run(min(r.seconds for r in runs), min(r.megabytes for r in runs), any(r.failed for r in runs))


def _once(command: list[str]) -> Run:
    child = os.fork()
    if child == 0:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.execvp(command[0], command)
    _, status, usage = os.wait4(child, 0)
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3, bool(status))


def main() -> None:
    """Print a line for each configuration, and the limits that were missed."""
    default = Path(__file__).resolve().parents[2] / "shared" / "models" / "llm" / "real"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    request = ["--prompt", "32768", "-b", "64", "--device"]
    seconds, missed = [], []
    for path in sorted(one.parent for one in folder.glob("*/config.json")):
        one, all_splits = (
            run([sys.executable, "-m", "flopwise", "llm", str(path), *request, device]) for device in ("h200", "8xh200")
        )
        print(f"{path.name:48} {one.seconds:5.2f} s {one.megabytes:4.0f} MB; 8 devices {all_splits.seconds:5.2f} s")
        seconds.append(one.seconds)
        if one.failed or one.seconds > 0.5 or one.megabytes > 60 or all_splits.seconds > 1.5:
            missed.append(path.name)
    print(f"median {statistics.median(seconds):.2f} s (limit 0.4 s); beyond a limit or refused: {missed or 'none'}")
    llama = str(folder.parent / "llama3-8b")
    for name, words in PEERS.items():
        if shutil.which(name):
            cost = run(shlex.split(words.format(folder=shlex.quote(llama))))
            print(f"{name:48} {cost.seconds:5.2f} s {cost.megabytes:4.0f} MB{' (failed)' if cost.failed else ''}")


if __name__ == "__main__":
    main()
