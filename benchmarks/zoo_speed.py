"""Speed, scale and robustness of zoos: python benchmarks/zoo_speed.py build|restart|poison|queries|scale.

Each part prints a Markdown table, and beside the figures the load of the machine, because what other programs take is
missing here. The data sets lie in ``--folder``; a build that was cut off goes on when its part is started again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent

#: What is asked of a data set.
QUERIES = {
    "models": "SELECT name, macs, params FROM models ORDER BY macs DESC LIMIT 20",
    "unique_layers": "FROM unique_layers LIMIT 20",
    "chains": "FROM chains LIMIT 20",
    "census": "FROM census LIMIT 20",
    "MACs by operator": "SELECT op, count(*), sum(macs) FROM layers GROUP BY op ORDER BY 3 DESC LIMIT 20",
    "kernels of Conv": "SELECT kernel, stride, count(*) FROM layers WHERE op = 'Conv' GROUP BY ALL LIMIT 20",
    "heaviest layers": "SELECT model, name, macs FROM layers ORDER BY macs DESC LIMIT 20",
    "one model": "SELECT op, sum(macs) FROM layers WHERE model = (SELECT min(name) FROM models) GROUP BY op",
}

#: A process that asks once, then often, and says how long that took and how much memory it had at most.
ASK = """
import json, sys, time
from flopwise import zoo
from flopwise.analyses.zoo.worker import peak_memory
folder, query, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
start = time.perf_counter()
with zoo.open(folder) as data:
    opened = time.perf_counter() - start
    took, cores = [], []
    for _ in range(times):
        start, busy = time.perf_counter(), time.process_time()
        rows = data.rows(query)[1]
        took.append(time.perf_counter() - start)
        cores.append(time.process_time() - busy)
print(json.dumps({"opened": opened, "took": took, "cores": cores, "rows": len(rows), "peak": peak_memory()}))
"""

#: A build that is going to be ended from outside.
BUILD = """
import json, sys
from flopwise import zoo
zoo.build(*json.load(open(sys.argv[1])), output=sys.argv[2], jobs=2)
"""

#: Models that do what they must not, as a file of PyTorch callables.
POISON = """
import os, signal, time
import torch

def good():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())

def hangs():
    while True:
        pass

def sleeps():
    time.sleep(1e6)

def eats():
    kept = []
    while True:
        kept.append(bytearray(64 << 20))

def dies():
    os.kill(os.getpid(), signal.SIGKILL)

def crashes():
    import ctypes
    ctypes.string_at(0)

def leaves():
    os._exit(0)

def raises():
    raise RuntimeError("no such model")
"""


def load() -> str:
    return " ".join(f"{x:.1f}" for x in os.getloadavg())


def line(*cells: Any) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def head(*cells: str) -> None:
    line(*cells)
    line(*["---"] * len(cells))


def names(count: int) -> list[str]:
    """So many models of timm and torchvision, the same at each call, in no order of size."""
    from flopwise.analyses.zoo.sources import entries

    found = [entry.name.replace("/", ":", 1) for entry in entries(["timm:*", "torchvision:*"])]
    random.Random(7).shuffle(found)
    return found[:count]


def speed(folder: Path, count: int, workers: list[int]) -> None:
    """Builds with several numbers of workers in one run: what they take, and what of it is which work."""
    from flopwise import zoo

    print(f"{count} models of timm and torchvision; load before: {load()}; {os.cpu_count()} processors\n")
    head(
        "workers",
        "s",
        "times one",
        "models/s",
        "rows/s",
        "s a model",
        "building",
        "profiling",
        "writing",
        "failed",
        "load",
    )
    first = 0.0
    for number in workers:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            built = zoo.build(*names(count), output=place, jobs=number)
        first = first or built.seconds * number
        whole = sum(built.parts.values())
        shares = [f"{seconds:.1f} s ({seconds / whole:.0%})" for seconds in built.parts.values()]
        rate = [f"{built.models / built.seconds:.2f}", f"{built.layers / built.seconds:,.0f}"]
        times = [number, f"{built.seconds:.1f}", f"{first / built.seconds:.2f}", *rate, f"{whole / built.models:.2f}"]
        line(*times, *shares, len(built.failures), load())


def restart(folder: Path, count: int) -> None:
    """A build that is killed, interrupted, and goes on, beside one that was left alone."""
    from flopwise import zoo

    chosen = names(count)
    (folder / "list.json").write_text(json.dumps(chosen))
    whole, parts = folder / "whole", folder / "parts"
    zoo.build(*chosen, output=whole, jobs=2)
    for number in (signal.SIGKILL, signal.SIGINT):
        command = [sys.executable, "-c", BUILD, str(folder / "list.json"), str(parts)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(30)
        process.send_signal(number)
        process.wait()
        there = zoo.query(parts, "SELECT count(*) FROM all_models")[1][0][0]
        print(f"{number.name} after 30 s: {there} models are there")
    zoo.build(*chosen, output=parts, jobs=2)
    columns = "* EXCLUDE (seconds, build_seconds, profile_seconds, peak_memory)"
    for query in (f"SELECT {columns} FROM all_models ORDER BY name", "SELECT * FROM layers ORDER BY model, position"):
        one, other = (zoo.query(place, query)[1] for place in (whole, parts))
        print(f"{len(one):,} rows, {'the same' if one == other else 'NOT the same'}: {query}")


def poison(folder: Path) -> None:
    """Models that hang, grow, die and fail among good ones: each costs one row."""
    from flopwise import zoo

    (folder / "poison.py").write_text(POISON)
    bad = ["hangs", "sleeps", "eats", "dies", "crashes", "leaves", "raises"]
    lines = [f"{folder}/poison.py:{name} --name {name} -i 1x64" for name in bad]
    lines += [f"{folder}/poison.py:good --name good{number} -i 1x64" for number in range(20)]
    random.Random(1).shuffle(lines)
    (folder / "poison.txt").write_text("\n".join(lines))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        built = zoo.build(str(folder / "poison.txt"), output=place, jobs=2, seconds=10, memory=1 << 30, trust_code=True)
        good = zoo.query(place, "SELECT count(*) FROM models")[1][0][0]
    print(f"{built.models} models: {good} of 20 good ones profiled, {len(built.failures)} failed")
    print(f"{built.seconds:.1f} s; load {load()}\n")
    head("model", "its row says")
    for name, error in sorted(built.failures):
        line(name, error)


def queries(data: Path, times: int) -> None:
    """How long each query takes over a data set, and how much memory its process has."""
    print(f"load before: {load()}\n")
    head("query", "rows", "opening, ms", "first, ms", "median, ms", "processor, ms", "memory, MiB")
    for title, query in QUERIES.items():
        command = [sys.executable, "-c", ASK, str(data), query, str(times)]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        took = [
            1e3 * seconds
            for seconds in (answer["opened"], answer["took"][0], *map(median, (answer["took"], answer["cores"])))
        ]
        line(title, answer["rows"], *(f"{milliseconds:.0f}" for milliseconds in took), answer["peak"] >> 20)
    print(f"\nload after: {load()}")


def cut(source: Path, target: Path, layers: int) -> None:
    """The first models of a data set that have so many layers together, as a data set."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from flopwise.analyses.zoo.dataset import Dataset

    models = ds.dataset(source / "models").to_table().filter(pc.equal(pc.field("status"), "ok"))
    total, kept = 0, Dataset(target)
    all_layers = ds.dataset(source / "layers")
    for model in models.to_pylist():
        if total >= layers:
            break
        kept.put(model, all_layers.to_table(filter=pc.field("model") == model["name"]).to_pylist())
        total += model["layers"]
    kept.gather()
    print(f"{total:,} layers in {target}")


def grow(source: Path, target: Path, rows: int) -> None:
    """A data set of so many rows: copies of one under other names, in which every tenth kind of layer is new."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    tables = {name: ds.dataset(source / name).to_table() for name in ("models", "layers", "unique")}
    layers = tables["layers"]
    strings = [name for name in layers.column_names if pa.types.is_string(layers.schema.field(name).type)]
    for name in strings:
        place = layers.column_names.index(name)
        layers = layers.set_column(place, name, layers[name].combine_chunks().dictionary_encode())

    def kinds(signatures: Any, copy: int) -> Any:
        before = signatures.to_numpy()
        return pa.array(np.where((before + copy) % 10 == 0, before + copy, before) if copy else before)

    def renamed(table: pa.Table, column: str, copy: int) -> pa.Table:
        values = table[column]
        if pa.types.is_dictionary(values.type):
            coded = values.combine_chunks()
            coded = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
            fresh = pa.DictionaryArray.from_arrays(
                coded.indices, pc.binary_join_element_wise(coded.dictionary, str(copy), "#")
            )
        else:
            fresh = pc.binary_join_element_wise(values, str(copy), "#")
        return table.set_column(table.column_names.index(column), column, fresh)

    def write(table: pa.Table, name: str, copy: int) -> None:
        (target / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target / name / f"{copy:05d}.parquet", compression="zstd", row_group_size=122_880)

    for copy in range(-(-rows // layers.num_rows)):
        if (target / "unique" / f"{copy:05d}.parquet").exists():
            continue  # an earlier run made it
        write(renamed(renamed(tables["models"], "name", copy), "key", copy), "models", copy)
        signatures = kinds(layers["signature"].combine_chunks(), copy)
        place = layers.column_names.index("signature")
        write(renamed(layers, "model", copy).set_column(place, "signature", signatures), "layers", copy)
        unique = tables["unique"]
        after = kinds(unique["signature"].combine_chunks(), copy)
        fresh = unique.set_column(0, "signature", after)
        changed = pc.not_equal(after, unique["signature"].combine_chunks())
        write(fresh.filter(changed) if copy else fresh, "unique", copy)
    files = list(_files(target))
    made = sum(pq.read_metadata(file).num_rows for file in files if file.parent.name == "layers")
    print(f"{made:,} rows of layers, {sum(file.stat().st_size for file in files) / 1e9:.2f} GB")


def _files(folder: Path) -> Iterator[Path]:
    yield from folder.glob("*/*.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("part", choices=["build", "restart", "poison", "queries", "scale"])
    parser.add_argument("--folder", type=Path, default=HERE / "cache" / "zoo", help="where data sets lie")
    parser.add_argument("--data", type=Path, help="the data set to ask or to grow; default: that of restart")
    parser.add_argument("--models", type=int, default=200, help="how many models are built")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rows", type=int, default=0, help="rows of queries (100,000) and of scale (100,000,000)")
    parser.add_argument("--times", type=int, default=0, help="how often a query is asked")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    data = chosen.data or folder / "whole"
    if chosen.part == "build":
        speed(folder, chosen.models, chosen.workers)
    elif chosen.part == "restart":
        restart(folder, chosen.models)
    elif chosen.part == "poison":
        poison(folder)
    else:
        many = chosen.part == "scale"
        rows = chosen.rows or (100_000_000 if many else 100_000)
        asked = folder / f"{rows}"
        if many:
            grow(data, asked, rows)
        elif not asked.exists():
            cut(data, asked, rows)
        queries(asked, chosen.times or (3 if many else 20))


if __name__ == "__main__":
    main()
