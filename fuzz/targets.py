"""What is fuzzed: each target takes bytes, and may end only with an error that flopwise foresees."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fuzz.seeds as seeds
from flopwise.errors import FlopwiseError


@dataclass(frozen=True)
class Target:
    """One reader or grammar."""

    #: Feeds it bytes; any exception is a failure.
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


@contextlib.contextmanager
def _file(data: bytes, name: str) -> Iterator[str]:
    """A file of that name in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        Path(path).write_bytes(data)
        yield path


def _onnx_walk(data: bytes) -> None:
    from flopwise.readers.onnx.file.walk import read_skeleton
    from flopwise.readers.source.source import BytesSource

    with contextlib.suppress(FlopwiseError):
        read_skeleton(BytesSource(data, "m"))


def _onnx_profile(data: bytes) -> None:
    import flopwise

    with contextlib.suppress(FlopwiseError):
        flopwise.profile(data, assume={"*": 4}).to_dict()


def _onnx_weights(data: bytes) -> None:
    import flopwise

    with contextlib.suppress(FlopwiseError):
        flopwise.weights(data)


def _read(name: str, weights: bool = False) -> Callable[[bytes], None]:
    """What reads a file of that name, as a model or as its stored tensors."""

    def run(data: bytes) -> None:
        import flopwise

        with _file(data, name) as path, contextlib.suppress(FlopwiseError):
            if weights:
                flopwise.weights(path)
            else:
                flopwise.profile(path)

    return run


def _server(data: bytes) -> None:
    """A model or a file of weights from a server that lies; the first byte says which of them."""
    import flopwise
    from fuzz.lying_server import with_lies

    def read(url: str) -> None:
        with contextlib.suppress(FlopwiseError), flopwise.limits(request_seconds=1, silent_seconds=0.3):
            (flopwise.weights if weights else flopwise.profile)(url)

    files = [(seeds.onnx_models()[0], False), (seeds.safetensors()[0], True), (seeds.archives()[0], True)]
    file, weights = files[data[0] % len(files) if data else 0]
    with_lies(file, read, data[1:])


def _text(parse: Callable[[str], object]) -> Callable[[bytes], None]:
    """What parses a text."""

    def run(data: bytes) -> None:
        with contextlib.suppress(FlopwiseError):
            parse(data.decode("utf-8", "replace"))

    return run


def _input(text: str) -> None:
    from flopwise.readers.inputs import parse

    if "@" not in text:  # names a file
        parse(text, ["x", "input:0"], ["N"])


def _at(text: str) -> None:
    from flopwise.analyses.formula.grid import grid

    list(itertools.islice(grid([text]), 1000))


def _budget(text: str) -> None:
    from flopwise.analyses.budget.budget import parse

    parse(text)


def _conditions(text: str) -> None:
    from flopwise.analyses.compare.conditions import conditions

    conditions(text)


def _texts(*seeds_: str) -> Callable[[], list[bytes]]:
    return lambda: [seed.encode() for seed in seeds_]


TARGETS: dict[str, Target] = {
    "onnx_walk": Target(_onnx_walk, seeds.onnx_models),
    "onnx_profile": Target(_onnx_profile, seeds.onnx_models),
    "onnx_weights": Target(_onnx_weights, seeds.onnx_models),
    "prototxt": Target(_read("net.prototxt"), seeds.prototxts),
    "caffemodel": Target(_read("net.caffemodel"), seeds.onnx_models),
    "hdf5": Target(_read("net.caffemodel.h5"), seeds.hdf5s),
    "safetensors": Target(_read("m.safetensors", weights=True), seeds.safetensors),
    "safetensors_index": Target(_read("m.safetensors.index.json", weights=True), seeds.indices),
    "gguf": Target(_read("m.gguf", weights=True), seeds.ggufs),
    "npy": Target(_read("m.npy", weights=True), seeds.arrays),
    "npz": Target(_read("m.npz", weights=True), seeds.archives),
    "checkpoint": Target(_read("m.pth", weights=True), seeds.checkpoints),
    "program": Target(_read("m.pt2", weights=True), seeds.programs),
    "server": Target(_server, seeds.lies),
    "config": Target(_read("config.json"), seeds.configurations),
    "input": Target(_text(_input), _texts("x:f32:1x3x224x224", "input:0:i64:2:1,2", "x:Nx3")),
    "at": Target(_text(_at), _texts("batch=1,2,4 seq=128:4096:128")),
    "budget": Target(_text(_budget), _texts('[total]\nmacs = "4.1 G"\nparams = 25600000\n')),
    "conditions": Target(_text(_conditions), _texts("macs>5%,params>0", "flops+1G")),
}

#: Those that may load a framework, and are slow for it.
SLOW: frozenset[str] = frozenset({"checkpoint", "program", "config", "hdf5", "server"})
