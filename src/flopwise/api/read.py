"""``flopwise.read``: the graph of a model, whatever its format."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise.errors import InputError
from flopwise.formats.options import Keywords, Options, options_of
from flopwise.formats.table import format_of
from flopwise.graph import Graph

if TYPE_CHECKING:
    from typing_extensions import Unpack


def checked_batch_size(batch_size: Any) -> int | None:
    """A batch size as a plain number.

    Raises:
        InputError: it is not a whole number from 0 on.
    """
    if batch_size is None:
        return None
    try:
        number = operator.index(batch_size)
    except TypeError:
        number = -1
    if isinstance(batch_size, bool) or number < 0:
        raise InputError(f"batch_size={batch_size!r}: give a whole number from 0 on")
    return number


@checked
def read(
    model: object,
    inputs: object = None,
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
            makes one (``package.module:callable``, ``file.py:callable``), an exported program or a TorchScript file; a
            function of JAX's, a module of flax, haiku or equinox, a jaxpr, or its name in a file that imports JAX;
            a layer or model of Keras', the path of one (.keras, .h5), or the name of a callable that makes one
            (``keras.applications:ResNet50``, ``keras:file.py:callable``); path of a TensorFlow graph (.pb) or of a
            SavedModel's directory; path of a file with weights and no graph (.safetensors, its index, .gguf, .npz,
            .npy, a checkpoint of PyTorch's), whose operations stay unknown; a ``config.json``, a directory with one, or
            ``hf:org/name`` of a language model. In place of a path, a URL: only the ranges that are needed come over
            the network. A Graph is handed back as it is.
        inputs: shapes by input name (``{"x": (1, 3, 224, 224)}``), one shape when there is one input, or texts of the
            form ``name:dtype:shape[:data]``. Needed where the file leaves a shape open. An array in place of a shape
            carries its elements, which may decide shapes; a list of shapes or arrays is a sequence, None an empty
            optional. For a module: a shape, a tensor, or a sequence of them (positional arguments), a mapping (keyword
            arguments), a pair of a sequence and a mapping, or such texts; None for a Hugging Face model, whose inputs
            follow from its configuration. For a function of JAX's the same, with trees of arrays or of
            ``jax.ShapeDtypeStruct`` for arguments.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        options: what only one format takes: ``flopwise.OnnxOptions``, ``flopwise.TorchOptions``,
            ``flopwise.JaxOptions`` or ``flopwise.CaffeOptions``.
        progress: called with the name of each step.
        keywords: the fields of these options by name: ``element_type`` for every format, the element type that all
            floating-point tensors count as; ``trips`` of ONNX models and of JAX functions; ``mode``,
            ``grad``, ``arguments``, ``past``, ``new`` and ``trust_code`` of PyTorch models; ``arguments`` and
            ``per_device`` of JAX functions; ``phase``, ``stages``, ``level`` and ``weights`` of
            Caffe nets.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit, or an argument is for other formats.
    """
    format, batch_size = format_of(model), checked_batch_size(batch_size)
    chosen = options_of(format.options, options, keywords)
    graph = format.graph(model, inputs, dims, batch_size, progress, chosen)
    if chosen.element_type is None:
        return graph
    from flopwise.graph.typed import in_type

    return in_type(graph, chosen.element_type)
