"""Counts every published figure anew and writes the outcome beside it: way, count, and the versions they came from.

Run ``python benchmarks/published_costs.py [SOURCE ...] [-j N] [--all]`` with timm, torchvision and open_clip installed.
Interrupted, it goes on where it stopped: figures with a count are left alone unless ``--all`` is given.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from flopwise.analyses.zoo import published
from flopwise.analyses.zoo.published.figures import COLUMNS, Figure, figures, sources
from flopwise.api.published import Checked, check

DATA = Path(published.__file__).parent


def counted(part: Sequence[Figure]) -> list[Checked]:
    """The figures of one model, counted."""
    warnings.simplefilter("ignore")
    return list(check(part))


def write(source: str, lines: Sequence[Figure]) -> None:
    """The file of a source, whole."""
    rows = [{key: value for key, value in asdict(line).items() if key in COLUMNS} for line in lines]
    place = DATA / f"{source}.csv"
    with place.with_suffix(".new").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    place.with_suffix(".new").replace(place)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", nargs="*")
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    alone = arguments.j == 1
    with nullcontext() if alone else ProcessPoolExecutor(arguments.j, get_context("spawn")) as pool:
        for name in arguments.sources or sources():
            lines = figures(name)
            places = [i for i, f in enumerate(lines) if f.build and (arguments.all or f.count is None)]
            groups = [list(g) for _, g in itertools.groupby(places, key=lambda i: (lines[i].build, lines[i].input))]
            each = pool.map if pool else map
            for group, results in zip(groups, each(counted, [[lines[i] for i in g] for g in groups]), strict=True):
                for place, result in zip(group, results, strict=True):
                    lines[place] = result.now
                    if result.obstacle or not result.now.reproduced:
                        print(result.now.model, result.now.stated, result.now.count, result.obstacle, flush=True)
                write(name, lines)
            done = [line for line in lines if line.reproduced]
            print(f"{name}: {len(done)} of {len(lines)} reproduced", flush=True)
    installed = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    packages = ("torch", "torchvision", "timm", "open_clip_torch")
    print("versions:", "; ".join(f"{name} {installed[name]}" for name in packages if name in installed))


if __name__ == "__main__":
    main()
