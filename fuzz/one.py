"""One target for some time, in this process: python -m fuzz.one TARGET SECONDS FOLDER.

With atheris the inputs are guided by coverage; without, they are random changes of the seeds. The input that is being
run lies in FOLDER/current, so that a crash leaves it behind. Prints how many inputs were run.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from fuzz.mutation import mutated

CORPUS = Path(__file__).parent / "corpus"


def main() -> int:
    name, seconds, folder = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    limit_memory()
    try:
        import atheris
    except ImportError:
        return _random(name, seconds, folder)
    return _guided(atheris, name, seconds, folder)


def limit_memory(megabytes: int = 3000) -> None:
    """Let this process have so much address space: an input that wants more ends it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))


def inputs_of(name: str) -> list[bytes]:
    """The seeds of a target, and every input on which it failed before."""
    from fuzz.targets import TARGETS

    return [*TARGETS[name].seeds(), *(p.read_bytes() for p in sorted((CORPUS / name).glob("*")))]


def _random(name: str, seconds: float, folder: Path) -> int:
    from fuzz.targets import TARGETS

    seeds, chance = inputs_of(name), random.Random(int(time.time()))
    end, runs = time.monotonic() + seconds, 0
    current = folder / "current"
    while time.monotonic() < end:
        data = mutated(seeds, chance)
        current.write_bytes(data)
        TARGETS[name].run(data)
        runs += 1
    print(f"runs {runs}", flush=True)
    return 0


def _guided(atheris, name: str, seconds: float, folder: Path) -> int:  # type: ignore[no-untyped-def] # no stubs
    with atheris.instrument_imports(include=["flopwise"]):
        from fuzz.targets import TARGETS

        for data in TARGETS[name].seeds():  # imports what the target needs
            TARGETS[name].run(data)
    (folder / "seeds").mkdir(exist_ok=True)
    for number, data in enumerate(inputs_of(name)):
        (folder / "seeds" / str(number)).write_bytes(data)
    options = [f"-max_total_time={int(seconds)}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(folder / "seeds")], TARGETS[name].run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
