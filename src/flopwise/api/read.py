"""``flopwise.read``: the graph of a model, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.readers.formats import is_caffe, is_callable, is_checkpoint, is_module, is_torch_file, is_weights
from flopwise.readers.options import CaffeOptions, OnnxOptions, Options, TorchOptions, options_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.readers.options import Keywords

#: Format -> the options that it takes.
OPTIONS: dict[str, type[Options]] = {
    "onnx": OnnxOptions,
    "torch": TorchOptions,
    "caffe": CaffeOptions,
    "weights": Options,
}


def read(
    model: object,
    inputs: Any = None,
    *,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: Options | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **keywords: Unpack[Keywords],
) -> Graph:
    """The graph of a model with resolved shapes; no weights are read.

    Args:
        model: path of an ONNX file, its bytes, an open binary file, or an ``onnx.ModelProto``; path of a Caffe net
            (.prototxt, .caffemodel); a ``torch.nn.Module``, which is afterwards as it was, the name of a callable that
            makes one (``package.module:callable``, ``file.py:callable``), an exported program or a TorchScript file;
            path of a file with weights and no graph (.safetensors, its index, .gguf, .npz, .npy, a checkpoint of
            PyTorch's), whose operations stay unknown. In place of a path, a URL: only the ranges that are needed come
            over the network.
        inputs: shapes by input name (``{"x": (1, 3, 224, 224)}``), one shape when there is one input, or texts of the
            form ``name:dtype:shape[:data]``. Needed where the file leaves a shape open. An array in place of a shape
            carries its elements, which may decide shapes; a list of shapes or arrays is a sequence, None an empty
            optional. For a module: a shape, a tensor, or a sequence of them (positional arguments), a mapping (keyword
            arguments), a pair of a sequence and a mapping, or such texts; None for a Hugging Face model, whose inputs
            follow from its configuration.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        options: what only one format takes: :class:`~flopwise.OnnxOptions`, :class:`~flopwise.TorchOptions` or
            :class:`~flopwise.CaffeOptions`.
        progress: called with the name of each step.
        keywords: the fields of these options by name: ``trips`` of ONNX models; ``mode``, ``grad`` and ``arguments`` of
            PyTorch models; ``phase``, ``stages``, ``level`` and ``weights`` of Caffe nets.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit, or an option is for another format.
    """
    kind = format_of(model, inputs)
    return _READERS[kind](model, inputs, dims, batch_size, progress, options_of(OPTIONS[kind], options, keywords))


def format_of(model: object, inputs: Any = None) -> str:
    """The format of a model: a key of OPTIONS.

    Args:
        model: as in :func:`read`.
        inputs: as in :func:`read`; with inputs, a file of PyTorch's is taken for a program, and refused if it is none.
    """
    if is_weights(model) or (inputs is None and is_checkpoint(model)):
        return "weights"
    if is_module(model) or is_callable(model) or is_torch_file(model):
        return "torch"
    return "caffe" if is_caffe(model) else "onnx"


def _weights(model: Any, inputs: Any, dims: Any, batch_size: Any, progress: Any, options: Options) -> Graph:
    from flopwise.readers.weights.read import read_weights

    if dims:
        raise InputError("dims: only for models with a graph")
    progress("reading the header")
    return read_weights(os.fsdecode(model), inputs, batch_size)


def _torch(model: Any, inputs: Any, dims: Any, batch_size: Any, progress: Any, options: Options) -> Graph:
    from flopwise.readers.torch.model import read_model

    return read_model(model, inputs, dims, batch_size, progress, cast("TorchOptions", options))


def _caffe(model: Any, inputs: Any, dims: Any, batch_size: Any, progress: Any, options: Options) -> Graph:
    from flopwise.readers.caffe.read import read_caffe

    return read_caffe(model, inputs, dims, batch_size, progress, **vars(options))


def _onnx(model: Any, inputs: Any, dims: Any, batch_size: Any, progress: Any, options: Options) -> Graph:
    from flopwise.readers.onnx.read import read_onnx

    return read_onnx(model, inputs, dims, batch_size, cast("OnnxOptions", options).trips, progress)


#: Format -> what reads it.
_READERS: dict[str, Callable[..., Graph]] = {"onnx": _onnx, "torch": _torch, "caffe": _caffe, "weights": _weights}
