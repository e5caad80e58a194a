"""The table of model formats, and what it is used for: the format of a model, its graph, its stored tensors.

To add a format, write a ``Format`` (docs/contributing/adding.md) and give it a line in ``FORMATS``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from flopwise import _extensions
from flopwise.errors import ModelError, OtherFormatError
from flopwise.formats.caffe.format import CAFFE
from flopwise.formats.format import Format, ends_in
from flopwise.formats.options import ExecutorchOptions, JaxOptions, StablehloOptions, TorchOptions, options_of
from flopwise.formats.programs import COREML, ONNX, OPENVINO, TENSORFLOW, TFLITE
from flopwise.formats.sources.location import is_callable, naming
from flopwise.formats.torch.format import TORCH
from flopwise.formats.torch.language.format import GGUF_MODEL, LANGUAGE
from flopwise.formats.weights import formats as weights
from flopwise.graph import Graph

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors

T = TypeVar("T")


def _head(model: str | os.PathLike[str], length: int) -> bytes:
    from flopwise.formats.sources.source import head

    return head(model, length)


def _is_jax(model: object) -> bool:
    """True for what is JAX's: objects where somebody has imported it, and names of callables."""
    if isinstance(model, str):
        if not (model.startswith("jax:") or is_callable(model)):
            return False
    elif "jax" not in sys.modules:
        return False
    from flopwise.formats.jax.kinds import is_name, is_object

    return is_name(model) if isinstance(model, str) else is_object(model)


def _read_jax(model: object, *arguments: Any) -> Graph:
    try:
        import jax  # noqa: F401 # whether it is there
    except ImportError:
        raise ModelError(f"{model}: JAX is needed for that: pip install 'flopwise[jax]'") from None
    from flopwise.formats.jax.read import read_jax

    return read_jax(model, *arguments)


#: Stands here, so that no other model waits for a file of it.
JAX = Format(
    "jax",
    "JAX functions",
    _read_jax,
    matches=_is_jax,
    takes=("inputs", "dims", "batch_size"),
    options=JaxOptions,
    formulas=True,
)


def _is_stablehlo(model: object) -> bool:
    """True for modules of StableHLO: by their names, bytecode by its beginning, and what JAX exports or lowers."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model[:4]) == b"ML\xefR"
    if isinstance(model, (str, os.PathLike)):
        return ends_in(model, STABLEHLO.endings) or _head(model, 4) == b"ML\xefR"
    kind = type(model)
    return kind.__module__.startswith("jax.") and kind.__name__ in ("Exported", "Lowered")


def _read_stablehlo(*arguments: Any) -> Graph:
    from flopwise.formats.stablehlo.read import read_stablehlo

    return read_stablehlo(*arguments)


#: Stands here for the same reason.
STABLEHLO = Format(
    "stablehlo",
    "StableHLO modules (.mlir, .stablehlo)",
    _read_stablehlo,
    endings=(".mlir", ".mlirbc", ".mlir.bc", ".stablehlo"),
    matches=_is_stablehlo,
    takes=("inputs", "batch_size"),
    options=StablehloOptions,
    in_directories=(".mlir", ".mlirbc", ".mlir.bc", ".stablehlo"),
    no_formulas="whose open sizes MLIR settles as numbers",
)


def _is_executorch(model: object) -> bool:
    """True for programs of ExecuTorch: files by their names, bytes by their identifier."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model[4:8]) == b"ET12"
    return ends_in(model, EXECUTORCH.endings)


def _read_executorch(*arguments: Any) -> Graph:
    from flopwise.formats.executorch.read import read_executorch

    return read_executorch(*arguments)


#: Stands here for the same reason.
EXECUTORCH = Format(
    "executorch",
    "ExecuTorch programs (.pte)",
    _read_executorch,
    endings=(".pte",),
    matches=_is_executorch,
    options=ExecutorchOptions,
    in_directories=(".pte",),
    no_formulas="whose sizes are fixed",
)

#: The endings of the names of Keras models.
_KERAS_FILES = (".keras", ".h5", ".hdf5")


def _is_keras(model: object) -> bool:
    """True for files and presets, objects where somebody has imported Keras, and names of callables in its packages."""
    if isinstance(model, (str, os.PathLike)):
        if ends_in(model, _KERAS_FILES):
            return True
        if not (str(model).startswith("keras") or os.path.isdir(model)):
            return False
    elif "keras" not in sys.modules:
        return False
    from flopwise.formats.keras.kinds import is_name, is_object, is_preset

    return is_name(model) or is_preset(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else is_object(model)


def _read_keras(*arguments: Any) -> Graph:
    from flopwise.formats.keras.read import read_keras

    return read_keras(*arguments)


def _stored_in_keras(
    model: object, inputs: object, dims: object, batch_size: object, options: TorchOptions
) -> StoredTensors:
    from flopwise.formats.keras.stored import stored_in_keras

    return stored_in_keras(model, options)


def _module_of_keras(*arguments: Any, **keywords: Any) -> object:
    from flopwise.formats.keras.read import module_of

    return module_of(*arguments, **keywords)


#: Stands here for the same reason.
KERAS = Format(
    "keras",
    "Keras models (.keras, .h5)",
    _read_keras,
    endings=_KERAS_FILES,
    matches=_is_keras,
    takes=("inputs", "dims", "batch_size"),
    options=TorchOptions,
    stored=_stored_in_keras,
    module=_module_of_keras,
    in_directories=(".keras",),
    no_formulas="whose layers decide by sizes while they run",
)


#: Every format of flopwise's own. The first that matches reads a model; the weights of a directory are sought in this
#: order.
FORMATS: tuple[Format, ...] = (
    weights.SAFETENSORS_INDEX,
    weights.CHECKPOINT_INDEX,
    weights.SAFETENSORS,
    GGUF_MODEL,
    weights.GGUF,
    weights.NPZ,
    weights.NPY,
    TFLITE,
    EXECUTORCH,
    OPENVINO,
    COREML,
    weights.CHECKPOINT,
    KERAS,
    LANGUAGE,
    TENSORFLOW,
    STABLEHLO,
    JAX,
    TORCH,
    CAFFE,
    ONNX,
)


#: A graph that was read before.
GRAPH = Format("graph", "graphs that were read before", lambda model, *_: model)


def every_format() -> tuple[Format, ...]:
    """The formats of the table, and then those that other installed packages add."""
    return (*FORMATS, *_extensions.loaded("formats", Format))


def format_of(model: object) -> Format:
    """The format of a model. What no format knows by its name is read as ONNX, or the names that are known are said."""
    if isinstance(model, Graph):
        return GRAPH
    for format in (ONNX, CAFFE, TFLITE, KERAS, OPENVINO):
        if ends_in(model, format.endings):
            return format  # no other format has to look at it
    own = next((format for format in FORMATS if format.match(model)), None)
    return own or next((format for format in _extensions.loaded("formats", Format) if format.match(model)), _UNNAMED)


def is_model(name: str) -> bool:
    """True where a name that may be an operator's is a model's: of a file, a URL, a directory or a callable."""
    if os.path.exists(name) or name.lower().endswith(endings()) or os.sep in name:
        return True
    return "::" not in name and any(format.match(name) for format in every_format())


def _or_known_names(read: Callable[..., T]) -> Callable[..., T]:
    """A reader whose error for a file of another format lists the endings that are known."""

    def reading(*arguments: object) -> T:
        try:
            return read(*arguments)
        except OtherFormatError as error:
            raise ModelError(f"{error}; names of models end in {', '.join(endings())}") from error

    return reading


_UNNAMED = ONNX._replace(read=_or_known_names(ONNX.read), stored=ONNX.stored and _or_known_names(ONNX.stored))


def open_stored(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **keywords: object,
) -> StoredTensors:
    """The stored tensors of a model; no element is read yet.

    Args:
        model: in any form that ``flopwise.read`` takes, or a Graph, or a directory with one model or its weights.
        inputs: as for ``flopwise.read``, where the format has operators.
        dims: as there.
        batch_size: as there.
        progress: called with the name of each step.
        keywords: options of formats, as there.

    Raises:
        ModelError: the model cannot be read.
        InputError: an argument is for another format.
    """
    name = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""
    with naming(name):
        if name and os.path.isdir(name) and not is_one_model(name):
            model = in_folder(name)  # of a language model too: its weights lie beside its configuration
        format = format_of(model)
        return format.tensors(model, inputs, dims, batch_size, progress, options_of(format.options, None, keywords))


def is_one_model(folder: str) -> bool:
    """True for a directory that is a model in several files, whose weights belong to its graph."""
    return TENSORFLOW.match(folder) or COREML.match(folder)


def _walk(folder: str) -> Iterator[tuple[str, list[str]]]:
    """A directory and all in it, and the names of the files and packages in each: packages are not entered."""
    for path, folders, files in os.walk(folder):
        packages = [name for name in folders if name.lower().endswith(COREML.in_directories)]
        folders[:] = [name for name in folders if name not in packages]
        yield path, [*files, *packages]


def in_folder(folder: str) -> str:
    """The index in a directory, or the only file with weights, or the only model.

    Raises:
        ModelError: there is none, or there are several.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ModelError(f"{folder}: cannot be read ({error.strerror or error})") from error
    for ending in (e for format in every_format() for e in (*format.weights, *format.in_directories)):
        files = [f for f in names if f.lower().endswith(ending) and not f.startswith(".")]
        if ending in _in_directories():
            files = [f for f in files if _stands_alone(os.path.join(folder, f))]
        if len(files) == 1:
            return os.path.join(folder, files[0])
        if files:
            raise ModelError(f"{folder}: holds {len(files)} files ending in {ending} and no index; give one of them")
    raise ModelError(f"{folder}: no file with weights in this directory")


def models_in(folder: str) -> list[str]:
    """The models that a directory and those in it hold, in the order of their names; else its weights.

    A directory with a ``config.json`` is one model; below it, one whose configuration has a ``model_type`` and that
    holds no other model.

    Raises:
        ModelError: it holds neither.
    """
    from flopwise.formats.sources.text import json_object

    if LANGUAGE.match(folder) or is_one_model(folder):
        return [folder]
    models: list[str] = []
    for path, names in _walk(folder):
        alone = list(filter(_stands_alone, (os.path.join(path, name) for name in names)))
        configuration = os.path.join(path, "config.json")
        models += alone or [path] * ("config.json" in names and "model_type" in json_object(configuration))
    if models:
        return sorted(models)
    try:
        weights_file = in_folder(folder)
    except ModelError as error:
        raise _nothing_in(folder) from error
    return [weights_file]


def _stands_alone(file: str) -> bool:
    """True where a file in a directory is a model, by its ending and where that is not enough by its content."""
    name = file.lower()
    return any(
        name.endswith(format.in_directories) and (format.is_model is None or format.is_model(file))
        for format in every_format()
        if format.in_directories
    )


def _in_directories() -> tuple[str, ...]:
    """The endings of the names of models in a directory, each once."""
    return tuple(dict.fromkeys(ending for format in every_format() for ending in format.in_directories))


def _nothing_in(folder: str) -> ModelError:
    """The error that says what was looked for in a directory, in the order of the help: models, then weights."""
    from flopwise.formats.sources.source import in_directory

    if what := in_directory(folder):
        return ModelError(f"{folder}: {what}")
    own = {*_in_directories(), *(ending for format in every_format() for ending in format.weights)}
    expected = ", ".join([*(ending for ending in endings() if ending in own), *sorted(own.difference(endings()))])
    return ModelError(f"{folder}: no model and no weights in this directory (looked for files ending in {expected})")


def stored_in(folder: str) -> list[str]:
    """The files in a directory, and in those below, whose stored tensors are those of a model of its own.

    Models come with their own weights, an index stands for its parts, and where one model and one file with weights lie
    together, the file has the weights.

    Raises:
        ModelError: there are none.
    """
    if LANGUAGE.match(folder) or COREML.match(folder):
        return [folder]
    weights_endings = tuple(ending for format in every_format() for ending in format.weights)
    models: list[str] = []
    tensors: list[str] = []
    for path, names in _walk(folder):
        files = [name for name in names if not name.startswith(".")]
        models += filter(_stands_alone, (os.path.join(path, name) for name in files))
        stored = [name for name in files if name.lower().endswith(weights_endings)]
        indexes = [name for name in stored if name.lower().endswith(".index.json")]
        tensors += (os.path.join(path, name) for name in indexes or stored)
    if len(models) == len(tensors) == 1:
        return tensors
    stems = {os.path.splitext(model)[0] for model in models}
    files = sorted([*models, *(file for file in tensors if file[: len(file) - len(_ending(file))] not in stems)])
    if not files:
        raise _nothing_in(folder)
    return files


def _ending(file: str) -> str:
    """The longest ending of files with weights that the name of a file has."""
    endings = (ending for format in every_format() for ending in format.weights if file.lower().endswith(ending))
    return max(endings, key=len, default="")


def endings() -> tuple[str, ...]:
    """The endings of the names of model files, those of files with operators first."""
    ordered = sorted(every_format(), key=lambda format: (not format.has_graph, format is not ONNX))
    return tuple(dict.fromkeys(ending for format in ordered for ending in format.endings))
