"""The table of model formats, and what it is used for: the format of a model, its graph, its stored tensors.

To add a format, write a ``Format`` (docs/contributing/adding.md) and give it a line in ``FORMATS``. Functions of a
format's folder are named, and imported when they are called: no model waits for the files of another format.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from flopwise import _extensions
from flopwise.errors import InputError, ModelError, OtherFormatError
from flopwise.formats.format import Context, Format, late
from flopwise.formats.options import (
    CaffeOptions,
    ExecutorchOptions,
    JaxOptions,
    OnnxOptions,
    StablehloOptions,
    TorchOptions,
    options_of,
)
from flopwise.formats.sources.location import is_callable, is_url, naming, shown
from flopwise.formats.weights.torch_files import CHECKPOINTS, NO_PROGRAM, PROGRAMS, holds_program
from flopwise.graph import Graph

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors

T = TypeVar("T")

_SIZES = ("inputs", "dims", "batch_size")

# Files with tensors and no graph. What says how many operations they are for is unknown.


def tensor_format(
    name: str,
    models: str,
    endings: tuple[str, ...],
    opener: Callable[..., StoredTensors],
    parts: tuple[str, ...] = (),
    in_folders: bool = True,
    matches: Callable[[Context], bool] | None = None,
) -> Format:
    """A format of files with tensors and no graph.

    Args:
        name: as in ``Graph.format``.
        models: its files in the plural, for messages.
        endings: of the names of its files.
        opener: takes an open file apart.
        parts: of an index: endings of the files that it names, which the opener takes apart.
        in_folders: whether a file of it in a directory is the weights of the model there.
        matches: as in ``Format``.
    """

    def opened(source: Any) -> StoredTensors:
        if not parts:
            return opener(source)
        from flopwise.formats.weights.read import open_parts

        return open_parts(source, name, opener, parts)

    def read(model: str, inputs: Any, dims: Any, batch_size: Any, progress: Callable[[str], None], _: Any) -> Graph:
        from flopwise.formats.weights.read import read_weights

        progress("reading the header")
        return read_weights(opened, os.fsdecode(model))

    def stored(model: str, *_: object) -> StoredTensors:
        from flopwise.formats.weights.read import open_weights

        return open_weights(opened, os.fsdecode(model))

    weights = endings if in_folders else ()
    return Format(name, models, read, endings, matches, stored=stored, has_graph=False, weights=weights)


def _is_checkpoint(context: Context) -> bool:
    """True for a file of tensors and no program; by URL every checkpoint is taken for that.

    A file that is not there is none, so that whoever reads programs says so.
    """
    if not context.ends_in(*CHECKPOINTS):
        return False
    return is_url(context.name) or (os.path.isfile(context.name) and not holds_program(context.members))


_CHECKPOINT = tensor_format(
    "torch", "PyTorch checkpoints", CHECKPOINTS, late("weights.checkpoint:open_checkpoint"), matches=_is_checkpoint
)


def _read_checkpoint(model: str, inputs: object, *others: Any) -> Graph:
    name = os.fsdecode(model)
    if inputs is None:
        return _CHECKPOINT.read(model, inputs, *others)
    if is_url(name):
        raise InputError(
            f"{shown(name)}: inputs are for a model with operators; of a URL only tensors are read: "
            "download a program first, and give a module as package.module:callable"
        )
    raise ModelError(f"{name}: {NO_PROGRAM}")


# Files of operators that are opened as programs, and from there on are read one way.


def program_format(
    name: str, models: str, endings: tuple[str, ...], opener: str, folders: tuple[str, ...], **facts: Any
) -> Format:
    """A format whose files are opened as programs of the kit's.

    Args:
        name: as in ``Graph.format``.
        models: its files in the plural, for messages.
        endings: of the names of its files.
        opener: ``(model, options, progress)`` -> a program before any size is chosen, as for ``late``.
        folders: as in ``Format``.
        facts: other fields of ``Format``.
    """
    opened = late(opener)

    def read(model: Any, inputs: Any, dims: Any, batch_size: Any, progress: Any, options: OnnxOptions) -> Graph:
        from flopwise.formats.kit.read import graph_of, resolved_at

        program = opened(model, options, progress)
        return graph_of(resolved_at(program, inputs, dims, batch_size, options, progress), progress)

    def stored(model: Any, inputs: Any, dims: Any, batch_size: Any, options: OnnxOptions) -> StoredTensors:
        from flopwise.formats.kit.read import stored_at
        from flopwise.formats.weights.graphs import stored_in_graph

        return stored_in_graph(stored_at(opened(model, options), inputs, dims, batch_size, options))

    shared: dict[str, Any] = {"takes": _SIZES, "options": OnnxOptions, "formulas": True, "in_directories": endings}
    own = {"read": read, "stored": stored, "endings": endings, "opened": opened, "folders": folders}
    return Format(name, models, **{**own, **shared, **facts})


def _is_net(context: Context) -> bool:
    """True where bytes begin as the XML of an OpenVINO model."""
    return context.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and b"<net " in context.head


def _is_coreml(context: Context) -> bool:
    """True for Core ML models: by the name of a file or package, or by what is in a folder."""
    return context.ends_in(*COREML.endings) or (context.is_folder and late("coreml.decode:is_package")(context.name))


#: The file of a SavedModel's directory.
_SAVED_MODEL = "saved_model.pb"


def _is_tensorflow(context: Context) -> bool:
    """True for a ``.pb`` file that begins with a node, a ``saved_model.pb``, and the directory of one."""
    if not context.ends_in(".pb"):
        return context.is_folder and os.path.isfile(os.path.join(context.name, _SAVED_MODEL))
    # field 1 of a GraphDef, where an ONNX model has a number
    return os.path.basename(context.name) == _SAVED_MODEL or context.head[:1] in (b"\n", b"")


OPENVINO: Format = program_format(
    "openvino",
    "OpenVINO models (.xml)",
    (".xml",),
    "openvino.read:opened_openvino",
    ("openvino", "onnx"),
    matches=lambda context: context.ends_in(*OPENVINO.endings) if context.name else _is_net(context),
    is_model=_is_net,
)
COREML: Format = program_format(
    "coreml",
    "Core ML programs (.mlpackage, .mlmodel)",
    (".mlpackage", ".mlmodel"),
    "coreml.read:opened_coreml",
    ("coreml", "openvino", "onnx"),
    matches=_is_coreml,
)
TFLITE: Format = program_format(
    "tflite",
    "TensorFlow Lite models (.tflite)",
    (".tflite", ".lite", ".task"),
    "tflite.read:opened_tflite",
    ("tflite",),
    matches=lambda context: context.ends_in(*TFLITE.endings) or context.head[4:8] == b"TFL3",
    in_directories=(".tflite",),
)
TENSORFLOW: Format = program_format(
    "tensorflow",
    "TensorFlow graphs (.pb, SavedModel)",
    (".pb",),
    "tensorflow.read:opened_tensorflow",
    ("tensorflow", "tflite"),
    matches=_is_tensorflow,
    in_directories=(_SAVED_MODEL,),
)
_read_onnx = late("onnx.read:read_onnx")
ONNX: Format = program_format(
    "onnx",
    "ONNX models",
    (".onnx",),
    "onnx.read:opened_onnx",
    ("onnx",),
    read=lambda model, inputs, dims, batch_size, progress, options: _read_onnx(
        model, inputs, dims, batch_size, options, progress
    ),
    matches=lambda context: not context.name or context.ends_in(*ONNX.endings),
    writable=True,
)


# What other frameworks trace or run, and Caffe's nets.

#: Endings of files with a net's weights.
_CAFFEMODELS = (".caffemodel", ".caffemodel.h5")
CAFFE: Format = Format(
    "caffe",
    "Caffe nets (.prototxt)",
    late("caffe.read:read_caffe"),
    endings=(".prototxt", *_CAFFEMODELS),
    takes=("inputs", "batch_size"),
    options=CaffeOptions,
    stored=late("caffe.read:stored_in_caffe"),
    in_directories=(".prototxt",),
    formulas=True,
    weights=_CAFFEMODELS,
    folders=("caffe",),
)


def _is_jax(context: Context) -> bool:
    """True for what is JAX's: objects where somebody has imported it, and names of callables."""
    if not context.name:
        return "jax" in sys.modules and late("jax.kinds:is_object")(context.model)
    if context.name.startswith("jax:"):
        return is_callable(context.name.removeprefix("jax:"))
    return context.is_callable and late("jax.kinds:is_name")(context.model)


JAX: Format = Format(
    "jax",
    "JAX functions",
    late("jax.read:read_jax"),
    matches=_is_jax,
    takes=_SIZES,
    options=JaxOptions,
    formulas=True,
    folders=("jax", "torch"),
)


def _is_stablehlo(context: Context) -> bool:
    """True for modules of StableHLO: by their names, bytecode by its beginning, and what JAX exports or lowers."""
    if context.ends_in(*STABLEHLO.endings) or context.head[:4] == b"ML\xefR":
        return True
    kind = type(context.model)
    return kind.__module__.startswith("jax.") and kind.__name__ in ("Exported", "Lowered")


_MLIR = (".mlir", ".mlirbc", ".mlir.bc", ".stablehlo")
STABLEHLO: Format = Format(
    "stablehlo",
    "StableHLO modules (.mlir, .stablehlo)",
    late("stablehlo.read:read_stablehlo"),
    endings=_MLIR,
    matches=_is_stablehlo,
    takes=("inputs", "batch_size"),
    options=StablehloOptions,
    in_directories=_MLIR,
    no_formulas="whose open sizes MLIR settles as numbers",
    folders=("stablehlo", "jax"),
)
EXECUTORCH: Format = Format(
    "executorch",
    "ExecuTorch programs (.pte)",
    late("executorch.read:read_executorch"),
    endings=(".pte",),
    matches=lambda context: context.ends_in(*EXECUTORCH.endings) if context.name else context.head[4:8] == b"ET12",
    options=ExecutorchOptions,
    in_directories=(".pte",),
    no_formulas="whose sizes are fixed",
    folders=("executorch", "torch"),
)


def _is_keras(context: Context) -> bool:
    """True for files and presets, objects where somebody has imported Keras, and names of callables in its packages."""
    if context.ends_in(*KERAS.endings):
        return True
    if not context.name:
        return "keras" in sys.modules and late("keras.kinds:is_object")(context.model)
    if context.is_folder:
        return bool(late("keras.kinds:is_preset")(context.name))
    return context.name.startswith("keras") and late("keras.kinds:is_name")(context.model)


KERAS: Format = Format(
    "keras",
    "Keras models (.keras, .h5)",
    late("keras.read:read_keras"),
    endings=(".keras", ".h5", ".hdf5"),
    matches=_is_keras,
    takes=_SIZES,
    options=TorchOptions,
    stored=late("keras.stored:stored_in_keras"),
    module=late("keras.read:module_of"),
    in_directories=(".keras",),
    no_formulas="whose layers decide by sizes while they run",
    folders=("keras", "torch"),
)


def _is_torch(context: Context) -> bool:
    if context.is_callable or context.ends_in(*PROGRAMS, *CHECKPOINTS):
        return True
    return "torch" in sys.modules and late("torch.kinds:is_model")(context.model)


TORCH: Format = Format(
    "torch",
    "PyTorch modules",
    late("torch.model:read_model"),
    endings=PROGRAMS,
    matches=_is_torch,
    takes=_SIZES,
    options=TorchOptions,
    stored=late("torch.model:stored_in_model"),
    module=lambda *arguments, **keywords: late("torch.model:module_of")(*arguments, **keywords)[0],
    in_directories=(".pt2",),
    formulas=True,
    folders=("torch", "language"),
)


def _is_language_model(context: Context) -> bool:
    if os.path.basename(context.name) == "config.json":
        return True
    return bool(context.name) and late("language.source:is_language_model")(context.name)


#: Language models: a configuration, from which the table of architectures or transformers makes the model.
LANGUAGE: Format = TORCH._replace(
    name="config",
    read=late("torch.language.format:read_configured"),
    models="language models (config.json)",
    endings=("config.json",),
    matches=lambda context: not context.ends_in(*GGUF.endings) and _is_language_model(context),
    folders=("language", "torch"),
)
GGUF: Format = tensor_format("gguf", "GGUF files", (".gguf",), late("weights.gguf:open_gguf"))
#: GGUF files that describe a model; their tensors are those of the file.
GGUF_MODEL: Format = LANGUAGE._replace(
    name="gguf",
    models="language models (.gguf)",
    read=lambda *arguments: late("torch.language.format:read_gguf")(GGUF, *arguments),
    endings=GGUF.endings,
    matches=lambda context: context.ends_in(*GGUF.endings) and _is_language_model(context),
    stored=GGUF.stored,
    in_directories=GGUF.endings,
    is_model=_is_language_model,
)


#: Every format of flopwise's own. The first that matches reads a model; the weights of a directory are sought in this
#: order.
FORMATS: tuple[Format, ...] = (
    tensor_format(
        "safetensors",
        "indexes of safetensors files",
        (".safetensors.index.json",),
        late("weights.read:open_safetensors"),
        parts=(".safetensors",),
    ),
    tensor_format(
        "torch",
        "indexes of PyTorch checkpoints",
        (".bin.index.json",),
        late("weights.checkpoint:open_checkpoint"),
        parts=CHECKPOINTS,
    ),
    tensor_format("safetensors", "safetensors files", (".safetensors",), late("weights.read:open_safetensors")),
    GGUF_MODEL,
    GGUF,
    tensor_format("npz", "NumPy archives", (".npz",), late("weights.numpy:open_npz")),
    tensor_format("npy", "NumPy arrays", (".npy",), late("weights.numpy:open_npy"), in_folders=False),
    TFLITE,
    EXECUTORCH,
    OPENVINO,
    COREML,
    _CHECKPOINT._replace(read=_read_checkpoint, takes=("inputs",)),
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
    context = Context(model)
    for format in (ONNX, CAFFE, TFLITE, KERAS, OPENVINO):
        if context.ends_in(*format.endings):
            return format  # no other format has to look at it
    own = next((format for format in FORMATS if format.match(context)), None)
    return own or next((format for format in _extensions.loaded("formats", Format) if format.match(context)), _UNNAMED)


def is_model(name: str) -> bool:
    """True where a name that may be an operator's is a model's: of a file, a URL, a directory or a callable."""
    if os.path.exists(name) or name.lower().endswith(endings()) or os.sep in name:
        return True
    context = Context(name)
    return "::" not in name and any(format.match(context) for format in every_format())


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
    name, context = file.lower(), Context(file)
    return any(
        name.endswith(format.in_directories) and (format.is_model is None or format.is_model(context))
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
