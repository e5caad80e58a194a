"""What hostile files of every format cost, and are told: python benchmarks/hostile_files.py [FORMAT ...]

Each file is profiled by a command of its own: those of the tests, those on which a fuzzer once failed, random changes
of the fuzzers' seeds (--changes for each), and the files of a folder (--folder). A line for each file that breaks a
bound, and one for each format. The bounds: status 0, 1 or 2, one line of error at most, SECONDS of the processor with
those of processes that the command starts, MEGABYTES in any of them. The status is 1 where a file breaks one.

The figure "start" is that of a small honest file. Time by a clock stands last; it breaks no bound, for other commands
beside this one lengthen it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("KERAS_BACKEND", "torch")

SECONDS, MEGABYTES = 5.0, 500

#: Format -> the target that fuzzes it, and the name of its files.
FORMATS: dict[str, tuple[str, str]] = {
    "tflite": ("tflite", "m.tflite"),
    "stablehlo": ("stablehlo", "m.mlir"),
    "keras": ("keras", "m.keras"),
    "tensorflow": ("tensorflow", "m.pb"),
    "openvino": ("openvino", "m.xml"),
    "coreml": ("coreml", "m.mlmodel"),
    "executorch": ("executorch", "m.pte"),
    "onnx": ("onnx_damaged", "m.onnx"),
    "caffe": ("prototxt", "m.prototxt"),
    "others": ("", ""),
}


class Ended(NamedTuple):
    """A command that has ended."""

    status: int
    words: str
    seconds: float
    megabytes: float
    clock: float

    @property
    def fault(self) -> str:
        """The bound that it breaks; "" for none."""
        if self.status not in (0, 1, 2):
            return f"status {self.status}"
        if self.words.count("\n") > 1 or "Traceback" in self.words or "bug in flopwise" in self.words:
            return f"says {self.words[:300]!r}"
        if self.seconds > SECONDS or self.megabytes > MEGABYTES:
            return f"{self.seconds:.1f} s, {self.megabytes:.0f} MB"
        return ""


@dataclass
class Worst:
    """The dearest of many commands."""

    files: int = 0
    refused: int = 0
    seconds: tuple[float, str] = (0.0, "")
    megabytes: tuple[float, str] = (0.0, "")
    clock: float = 0.0

    def add(self, name: str, ended: Ended) -> None:
        self.files += 1
        self.refused += ended.status == 2
        self.seconds = max(self.seconds, (ended.seconds, name))
        self.megabytes = max(self.megabytes, (ended.megabytes, name))
        self.clock = max(self.clock, ended.clock)


#: A small process that profiles the files that it is told: a process counts as large as what it was started from.
STARTER = """
import json, os, subprocess, sys, tempfile, time
for line in sys.stdin:
    command, folder = json.loads(line)
    with tempfile.TemporaryFile("w+") as words:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=words, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        clock = time.perf_counter() - start
        words.seek(0)
        said = words.read(100_000)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    print(json.dumps([code, said, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, clock]), flush=True)
"""


class Starter:
    """What profiles each file by a command of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", STARTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )

    def profile(self, path: Path) -> Ended:
        """What a command says of a file, and takes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        command = [sys.executable, "-P", "-m", "flopwise", "profile", str(path)]
        self.process.stdin.write(json.dumps([command, str(path.parent)]) + "\n")
        self.process.stdin.flush()
        return Ended(*json.loads(self.process.stdout.readline()))


def tests(format: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of the files that the tests of a format hold."""
    cases: dict[str, bytes | str | Callable[[], bytes]] = {}
    if format == "tflite":
        from tests.formats.tflite.test_hostile import CASES

        cases = {name: make for name, (make, _) in CASES.items()}
    elif format == "stablehlo":
        from tests.formats.stablehlo.test_hostile import ATTACKS
        from tests.formats.stablehlo.test_hostile import CASES as MODULES

        cases = {name: text for name, (text, _) in (MODULES | ATTACKS).items()}
    elif format == "keras":
        from tests.formats.keras.test_hostile import DAMAGED, UNTRUSTED
        from tests.keras_models import archive, sequential

        cases = {name: data for name, (data, _) in DAMAGED.items()}
        cases |= {name: archive(sequential(part)) for name, (part, _) in UNTRUSTED.items()}
    elif format == "tensorflow":
        from tests.formats.tensorflow.test_hostile import CASES as GRAPHS

        cases = {name: data for name, (data, _) in GRAPHS.items()}
    elif format == "openvino":
        from tests.formats.openvino.test_hostile import CASES as NETS

        cases = {name: text for name, (text, _) in NETS.items()}
    elif format == "coreml":
        from tests.formats.coreml.test_hostile import CASES as PROGRAMS

        cases = {name: data for name, (data, _) in PROGRAMS.items()}
    elif format == "executorch":
        from tests.formats.executorch.test_read import DATA, HOSTILE

        whole = (DATA / "network.pte").read_bytes()
        for name, (place, data, _) in HOSTILE.items():
            cases[name] = whole[:place] + data + whole[place + len(data) :]
    for name, case in cases.items():
        data = case() if callable(case) else case
        yield name, data.encode() if isinstance(data, str) else data


def files(format: str, folder: Path, changes: int) -> Iterator[tuple[str, Path]]:
    """Name and path of the hostile files of a format, each of which stands in ``folder`` until the next."""
    target, name = FORMATS[format]
    if not target:
        from tests.fuzzing.hostile import write

        yield from ((str(path.relative_to(folder)), path) for path in write(folder) if path != folder)
        return
    from fuzz.mutation import mutated
    from fuzz.one import inputs_of

    if format == "keras":
        from tests.keras_models import archive

        seeds = [archive(data.decode("latin-1")) for data in inputs_of(target)]
    else:
        seeds = inputs_of(target)
    chance = random.Random(0)
    changed = ((f"change {number}", mutated(seeds, chance)) for number in range(changes))
    for number, (case, data) in enumerate((("honest", seeds[0]), *tests(format), *changed)):
        path = folder / str(number) / name
        path.parent.mkdir()
        path.write_bytes(data)
        yield case, path
        path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(FORMATS)} (all)")
    parser.add_argument("--changes", type=int, default=20, help="of the seeds of each format")
    parser.add_argument("--folder", type=Path, help="whose files are profiled, alone where no format is named")
    chosen = parser.parse_args()
    broken, starter = False, Starter()  # while this process is small
    columns = f"{'files':>5} {'refused':>7} {'start':>7} {'longest':>8}  {'largest':>8} {'clock':>7}"
    print(f"{'format':12} {columns}", flush=True)
    for format in [*(chosen.formats or ([] if chosen.folder else FORMATS)), *(["folder"] if chosen.folder else [])]:
        worst, start = Worst(), 0.0
        with tempfile.TemporaryDirectory() as folder:
            further = ((path.name, path) for path in sorted(chosen.folder.rglob("*.*"))) if format == "folder" else None
            for name, path in further or files(format, Path(folder), chosen.changes):
                ended = starter.profile(path)
                if name == "honest":
                    start = ended.seconds
                    continue
                worst.add(name, ended)
                if ended.fault:
                    broken = True
                    print(f"  {format}: {name}: {ended.fault}", flush=True)
        (seconds, slow), (megabytes, large) = worst.seconds, worst.megabytes
        figures = f"{start:5.1f} s {seconds:6.1f} s  {megabytes:5.0f} MB {worst.clock:5.1f} s"
        print(f"{format:12} {worst.files:5} {worst.refused:7} {figures}  ({slow}; {large})", flush=True)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
