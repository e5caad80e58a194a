"""The ONNX file of a model that an engine is to run: its own, or one that a PyTorch module is exported to."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flopwise._arguments import Arguments
from flopwise.errors import InputError
from flopwise.formats.options import options_of
from flopwise.formats.table import format_of
from flopwise.graph.dtypes import BITS

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


def check_runnable(model: object) -> None:
    """Refuse what no engine runs, before it is read.

    Raises:
        InputError: the model is neither a local ONNX file nor a PyTorch module.
    """
    format = format_of(model)
    if isinstance(model, str | os.PathLike) and format.name == "onnx":
        if not os.path.isfile(model):
            raise InputError(f"{os.fspath(model)}: no such file; an engine runs local files")
    elif format.module is None:
        raise InputError("an engine runs ONNX files and PyTorch modules; give the path of one, or a module's name")


@contextlib.contextmanager
def file_of(model: object, counted: Profile, keywords: object, progress: Callable[[str], None]) -> Iterator[str]:
    """The path of an ONNX file; a PyTorch module is exported to one that is gone afterwards.

    Raises:
        InputError: the module cannot be exported.
    """
    if isinstance(model, str | os.PathLike) and format_of(model).name == "onnx":
        yield os.fspath(model)
        return
    module = _with_weights(model, counted, keywords, progress)
    with tempfile.TemporaryDirectory(prefix="flopwise-") as folder:
        progress("exporting to ONNX")
        yield _exported(module, counted, folder)


def _with_weights(model: object, counted: Profile, keywords: Any, progress: Callable[[str], None]) -> object:
    """The PyTorch module that a model stands for, with weights; that of a configuration in float32, since engines
    on CPUs multiply little else.

    Raises:
        InputError: the weights of a configuration do not fit into this machine's memory.
    """
    from flopwise.formats.language.source import is_language_model

    format = format_of(model)
    assert format.module is not None  # check_runnable asked
    options = options_of(format.options, None, keywords)
    if not isinstance(model, str | os.PathLike) or not is_language_model(model):
        return format.module(model, options, progress, in_memory=True)
    from flopwise.analyses.timing.machine import this_cpu
    from flopwise.formats.torch.language.model import language_model

    needed = sum((row.weight_bytes or 0) * 32 // BITS.get(row.node.output().dtype or "", 32) for row in counted.rows)
    memory = this_cpu().memory_bytes
    if 3 * needed > memory:  # the module, the exporter's copy and the engine's
        sizes = f"{needed / 1e9:,.1f} GB of weights in float32 for {memory / 1e9:,.1f} GB of memory"
        raise InputError(f"{os.fsdecode(model)}: too large to be run: {sizes}")
    progress("building the model")
    return language_model(model, "fp32", keywords.get("trust_code", False), in_memory=True)


@contextlib.contextmanager
def without_cache(module: object) -> Iterator[None]:
    """A language model of transformers hands out no cache meanwhile: the exporter takes tensors alone."""
    config: Any = getattr(module, "config", None)
    before = getattr(config, "use_cache", None)
    if not before:
        yield
        return
    config.use_cache = False
    try:
        yield
    finally:
        config.use_cache = before


def _exported(module: Any, traced: Profile, folder: str) -> str:
    """An ONNX file of a PyTorch module for the inputs of its profile, made with PyTorch's own exporter.

    Raises:
        InputError: the exporter fails.
    """
    import inspect

    import torch

    from flopwise.formats.torch.record.keep import exporting

    arguments: Arguments = {}
    chance = torch.Generator().manual_seed(0)
    for tensor in traced.graph.inputs:
        dtype = getattr(torch, tensor.dtype or "float32")
        shape = [int(d) for d in tensor.dims]
        if dtype.is_floating_point:
            arguments[tensor.name] = torch.randn(shape, dtype=dtype, generator=chance)
        else:
            arguments[tensor.name] = torch.ones(shape, dtype=dtype)
    named = arguments.keys() <= inspect.signature(module.forward).parameters.keys()
    path = os.path.join(folder, "model.onnx")
    try:
        with (
            exporting(module),
            without_cache(module),
            torch.no_grad(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # of the exporter, about itself
            if named:
                torch.onnx.export(module, (), path, kwargs=arguments, dynamo=True, verbose=False)
            else:
                torch.onnx.export(module, tuple(arguments.values()), path, dynamo=True, verbose=False)
    except Exception as error:  # the exporter raises whatever it meets
        cause: BaseException = error
        while cause.__cause__ is not None:  # what the exporter says of it is about its own steps
            cause = cause.__cause__
        first = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise InputError(f"PyTorch cannot export the module to ONNX: {first}") from error
    return path
