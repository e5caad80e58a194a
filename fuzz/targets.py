"""What is fuzzed: each target takes bytes, and may end only with an error that flopwise foresees."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fuzz.seeds as seeds
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.profiles.profile import Profile


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
    from flopwise.formats.onnx.walk import read_skeleton
    from flopwise.formats.sources.source import BytesSource

    with contextlib.suppress(FlopwiseError):
        read_skeleton(BytesSource(data, "m"))


def _onnx_profile(data: bytes) -> None:
    import flopwise

    with contextlib.suppress(FlopwiseError):
        flopwise.profile(data, assume={"*": 4}).to_dict()


#: What reading a damaged model of ordinary size may take: seconds of the processor, and bytes of memory.
LONGEST, LARGEST = 1.0, 256 << 20


def _onnx_damaged(data: bytes) -> None:
    """A damaged model is refused, or read, in little time and memory, and nothing else runs for it."""
    import flopwise

    began, most = time.process_time(), _memory()
    with _alone(), contextlib.suppress(ModelError, InputError):
        flopwise.profile(data, assume={"*": 4}).to_dict()
    seconds, more = time.process_time() - began, _memory() - most
    if seconds > LONGEST or more > LARGEST:
        raise AssertionError(f"takes {seconds:.2f} s and {more >> 20} MB")


def _memory() -> int:
    """The most memory that this process has had, in bytes; 0 where nobody says."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


#: What starts a process, or loads a library.
_STARTING = {"subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "ctypes.dlopen"}

#: What was started while nothing should be; None while anything may be.
_started: list[str] | None = None


@functools.cache
def _watch() -> None:
    def note(event: str, arguments: tuple[object, ...]) -> None:
        if _started is not None and event in _STARTING:
            _started.append(event)

    sys.addaudithook(note)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Fail if anything in the block starts a process, or loads a library."""
    global _started
    _watch()
    _started = []
    try:
        yield
        assert not _started, f"it starts {', '.join(_started)}"
    finally:
        _started = None


def _tflite_damaged(data: bytes) -> None:
    """As ``_onnx_damaged``, of a TensorFlow Lite model as the file has it and for another batch."""
    from flopwise.formats.table import TFLITE

    _at_two_batches(TFLITE, data)


def _openvino_damaged(data: bytes) -> None:
    """The same of an OpenVINO model."""
    from flopwise.formats.table import OPENVINO

    _at_two_batches(OPENVINO, data)


def _coreml_damaged(data: bytes) -> None:
    """The same of a Core ML program."""
    from flopwise.formats.table import COREML

    _at_two_batches(COREML, data)


def _stablehlo_damaged(data: bytes) -> None:
    """The same of a StableHLO module; its decoder, a process of its own, may end on it, and goes on for the next."""
    import flopwise
    from flopwise._child import Child, LostError
    from flopwise.formats.options import StablehloOptions
    from flopwise.formats.sources.source import BytesSource
    from flopwise.formats.stablehlo import read

    child = _DECODERS.pop() if _DECODERS else Child("flopwise.formats.stablehlo.decode:serve")
    began = time.process_time()
    with _file(data, "m.mlir") as path, contextlib.suppress(FlopwiseError):
        try:
            module = read._answer(child, path, None, len(data))
        except FlopwiseError:
            _DECODERS.append(child)
            raise
        except LostError:
            child.end()
            return
        _DECODERS.append(child)
        source, arguments = BytesSource(data), read.arguments_of(module)
        flopwise.profile(read.Reading(source, "m", module, arguments, StablehloOptions()).graph()).to_dict()
    if time.process_time() - began > LONGEST:
        raise AssertionError(f"takes {time.process_time() - began:.2f} s")


#: The process that decodes modules, while it lives.
_DECODERS: list[Any] = []


def _at_two_batches(format: Any, data: bytes) -> None:
    """Fail if a model, as the file has it or for another batch, takes long or much."""
    import flopwise

    began, most = time.process_time(), _memory()
    for batch_size in (None, 2):
        with _alone(), contextlib.suppress(ModelError, InputError):
            graph = format.graph(data, None, None, batch_size, lambda step: None, format.options())
            flopwise.profile(graph).to_dict()
    seconds, more = time.process_time() - began, _memory() - most
    if seconds > 2 * LONGEST or more > LARGEST:
        raise AssertionError(f"takes {seconds:.2f} s and {more >> 20} MB")


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


def _keras_config(data: bytes) -> None:
    """The configuration of a Keras model, in an archive."""
    import flopwise

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("config.json", data)
    with _file(held.getvalue(), "m.keras") as path, contextlib.suppress(FlopwiseError):
        flopwise.profile(path).to_dict()


def _trace(data: bytes) -> None:
    """A trace with a model and without; a TensorRT one also with the same bytes as the layers beside it."""
    from flopwise.analyses.traces.assembly import trace_of
    from flopwise.analyses.traces.format import format_of
    from flopwise.analyses.traces.scan import Scan

    with _file(data, "trace.json") as path:
        for profile in (None, _traced_model()):
            for beside in (False, True):
                with contextlib.suppress(FlopwiseError), Scan(path) as scan, Scan(path) as other:
                    format = format_of(scan)
                    if not beside:
                        trace_of(format.read(scan, profile), "m", format.name, "all").to_dict()
                    elif format.read_beside is not None:
                        format.read_beside(scan, profile, [other])


@functools.cache
def _traced_model() -> Profile:
    import flopwise

    return flopwise.profile(seeds.onnx_models()[0])


def _layers(data: bytes) -> None:
    """The layers of a TensorRT engine, beside its profile."""
    from flopwise.analyses.traces import tensorrt
    from flopwise.analyses.traces.scan import Scan

    times = seeds.tensorrt_profiles()[0]
    with (
        _file(times, "profile.json") as path,
        _file(data, "layers.json") as layers,
        contextlib.suppress(FlopwiseError),
        Scan(path) as scan,
        Scan(layers) as beside,
    ):
        tensorrt.read(scan, None, [beside])


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


def _arguments(data: bytes) -> None:
    """Arguments of wrong kinds for a public function; the bytes choose both."""
    from fuzz.arguments import run

    run(data)


def _text(parse: Callable[[str], object]) -> Callable[[bytes], None]:
    """What parses a text."""

    def run(data: bytes) -> None:
        with contextlib.suppress(FlopwiseError):
            parse(data.decode("utf-8", "replace"))

    return run


def _input(text: str) -> None:
    from flopwise.formats.inputs import parse

    if "@" not in text:  # names a file
        parse(text, ["x", "input:0"], ["N"])


def _at(text: str) -> None:
    from flopwise.analyses.formula.extras.solve import grid

    list(itertools.islice(grid([text]), 1000))


def _budget(text: str) -> None:
    from flopwise.analyses.budget import parse

    parse(text)


def _conditions(text: str) -> None:
    from flopwise.analyses.compare.comparison import conditions

    conditions(text)


def _texts(*seeds_: str) -> Callable[[], list[bytes]]:
    return lambda: [seed.encode() for seed in seeds_]


TARGETS: dict[str, Target] = {
    "onnx_walk": Target(_onnx_walk, seeds.onnx_models),
    "onnx_profile": Target(_onnx_profile, seeds.onnx_models),
    "onnx_damaged": Target(_onnx_damaged, seeds.published_models),
    "onnx_weights": Target(_onnx_weights, seeds.onnx_models),
    "prototxt": Target(_read("net.prototxt"), seeds.prototxts),
    "tflite": Target(_tflite_damaged, seeds.tflites),
    "openvino": Target(_openvino_damaged, seeds.openvinos),
    "coreml": Target(_coreml_damaged, seeds.coremls),
    "executorch": Target(_read("m.pte"), seeds.executorchs),
    "stablehlo": Target(_stablehlo_damaged, seeds.stablehlos),
    "tflite_weights": Target(_read("m.tflite", weights=True), seeds.tflites),
    "keras": Target(_keras_config, seeds.keras_configs),
    "keras_weights": Target(_read("m.h5", weights=True), seeds.keras_weights),
    "tensorflow": Target(_read("m.pb"), seeds.tensorflow_graphs),
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
    "arguments": Target(_arguments, seeds.choices),
    "config": Target(_read("config.json"), seeds.configurations),
    "trace_onnxruntime": Target(_trace, seeds.onnxruntime_profiles),
    "trace_kineto": Target(_trace, seeds.kineto_traces),
    "trace_tensorrt": Target(_trace, seeds.tensorrt_profiles),
    "trace_tensorrt_layers": Target(_layers, seeds.tensorrt_layers),
    "input": Target(_text(_input), _texts("x:f32:1x3x224x224", "input:0:i64:2:1,2", "x:Nx3")),
    "at": Target(_text(_at), _texts("batch=1,2,4 seq=128:4096:128")),
    "budget": Target(_text(_budget), _texts('[total]\nmacs = "4.1 G"\nparams = 25600000\n')),
    "conditions": Target(_text(_conditions), _texts("macs>5%,params>0", "flops+1G")),
}

#: Those that may load a framework, and are slow for it.
SLOW: frozenset[str] = frozenset(
    {"onnx_damaged", "checkpoint", "program", "config", "hdf5", "server", "arguments", "keras", "stablehlo"}
)
