"""A PyTorch model in any form -> Graph: a module, an exported program, a callable by name, a file with a program."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.errors import InputError, ModelError
from flopwise.formats.options import TorchOptions, tokens_of
from flopwise.formats.sources.location import is_callable, is_url, naming, shown
from flopwise.formats.torch.kinds import Model, is_function, is_module
from flopwise.formats.weights.torch_files import holds_program, members
from flopwise.graph import Graph

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors


def read_model(
    model: object,
    inputs: object,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    progress: Callable[[str], None],
    options: TorchOptions,
) -> Graph:
    """The graph of a PyTorch model.

    A callable makes its model without memory for the weights. Where the run needs real tensors, it makes it again with.

    Args:
        model: a module, an exported program, ``package.module:callable``, the path of a file with a program, or the
            configuration of a language model.
        inputs: as in ``flopwise.formats.torch.read.read_torch``.
        dims: as there.
        batch_size: as there.
        progress: called with the name of each step.
        options: mode, gradients, and the arguments of a callable.

    Raises:
        ModelError: the model cannot be made or fails.
        InputError: inputs are missing or do not fit, or there are arguments for what is not a callable.
    """
    module, name = module_of(model, options, progress)
    from flopwise.formats.torch.read import NeedsMemoryError, read_torch

    notes: tuple[str, ...] = ()
    if options.past is not None or options.new is not None:
        inputs, notes = _step(module, name, inputs, dims, batch_size, options)
        dims = batch_size = None
    if name and _is_language_model(name):
        from flopwise.formats.torch.language.model import head_notes

        notes = (*head_notes(module, name), *notes)

    def graph(module: Model) -> Graph:
        with _adapted(module, options.lora) as added:
            result = read_torch(
                module,
                inputs,
                dims,
                batch_size,
                progress,
                mode=options.mode or "eval",
                grad=options.grad,
                attention=options.attention,
                name=name,
            )
        return replace(result, warnings=(*result.warnings, *added)) if added else result

    try:
        result = graph(module)
        if name and _is_language_model(name):
            result = _as_stored(result, module, name)
        return replace(result, warnings=(*result.warnings, *notes)) if notes else result
    except NeedsMemoryError as error:
        if not is_callable(name):
            raise
        why = str(error).partition("; if the inputs are right")[0][:300]

        def in_memory(step: str) -> None:
            progress(f"{step} in memory, because on the meta device: {why}")

        return graph(module_of(model, options, in_memory, in_memory=True)[0])


@contextlib.contextmanager
def _adapted(module: Model, lora: str | None) -> Iterator[list[str]]:
    """The module has the adapters that are asked for, and afterwards none. Yields the notes on them."""
    if lora is None:
        yield []
        return
    from flopwise.formats.language.lora import lora_of
    from flopwise.formats.torch.adapters import adapted

    with adapted(module, lora_of(lora)) as note:
        yield [note]


def _as_stored(graph: Graph, module: Model, name: str) -> Graph:
    """The graph of a language model whose stored tensors say how its checkpoint stores them, where that is known."""
    from flopwise.formats.torch.language.model import module_widths

    stored = module_widths(module, name)
    packed = {
        key: replace(
            tensor,
            dtype=stored.types.get(key, tensor.dtype),
            nbytes=round(math.prod(tensor.shape) * stored.elements[key]),
        )
        for key, tensor in graph.weights.items()
        if key in stored.elements
    }
    return replace(graph, weights={**graph.weights, **packed}) if packed else graph


def _is_language_model(model: object) -> bool:
    from flopwise.formats.language.source import is_language_model  # which modules do without

    return is_language_model(model)


def _step(
    module: Model,
    name: str,
    inputs: object,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    options: TorchOptions,
) -> tuple[object, tuple[str, ...]]:
    """The inputs of a call with ``past`` tokens in the state, and what to note.

    Raises:
        InputError: the module is not a language model, inputs are given as well, or a size is of no dimension.
    """
    from flopwise.formats.inputs import Dims
    from flopwise.formats.torch.language.state import longest_context, step

    if inputs is not None:
        raise InputError("past and new tokens make the inputs of a language model; give no others")
    with naming(name):
        longest = longest_context(module)
    sizes = Dims(dims)
    batch = sizes.get("batch", 1) if batch_size is None else batch_size
    past, new = (tokens_of(name, getattr(options, name), sizes.find) for name in ("past", "new"))
    with naming(name or type(module).__name__):
        sizes.check()
    call = step(module, past or 0, 1 if new is None else new, batch)
    tokens = call.past + call.new
    if longest is None or tokens <= longest:
        return call.inputs, ()
    return call.inputs, (f"{tokens} tokens are more than the {longest} that the model was made for",)


def stored_in_model(
    model: object, inputs: object, dims: object, batch_size: object, options: TorchOptions
) -> StoredTensors:
    """The stored tensors of a model, the same at all sizes; other arguments and errors as for ``read_model``."""
    from flopwise.formats.weights.modules import stored_in_module

    if isinstance(model, (str, os.PathLike)) and not is_callable(model) and holds_program(members(os.fsdecode(model))):
        from flopwise.formats.torch.stored import of_program

        return of_program(os.fsdecode(model))
    return stored_in_module(*module_of(model, options, lambda step: None, in_memory=True))


def module_of(
    model: object, options: TorchOptions, progress: Callable[[str], None], in_memory: bool = False
) -> tuple[Any, str]:
    """The module or exported program, and where it comes from ("" for one that was handed over as such).

    Args:
        model: as in ``read_model``.
        options: the arguments of a callable.
        progress: called with the name of each step.
        in_memory: whether a callable makes weights with elements.

    Raises:
        ModelError: there is no such callable or file, or it fails.
        InputError: there are arguments for what is not a callable.
    """
    if not is_callable(model) and options.arguments:
        raise InputError("arguments are for a model that is given as package.module:callable")
    if is_module(model):
        return model, ""
    if is_function(model):
        from flopwise.formats.torch.record.modules import module_of_function

        return module_of_function(model), ""  # type: ignore[arg-type] # it can be called, as was asked
    if _is_language_model(model):
        from flopwise.formats.torch.language.config import require

        require(model)  # type: ignore[arg-type] # a path, as was asked
        from flopwise.formats.torch.language.model import language_model

        progress("building the model")
        source = os.fsdecode(model)  # type: ignore[arg-type] # a path, as was asked
        return language_model(source, trust_code=options.trust_code), source
    if is_url(model):
        raise ModelError(f"{shown(str(model))}: PyTorch reads programs from local disks only; download it first")
    from flopwise.formats.torch import load

    progress("importing the model")
    name = str(model) if is_callable(model) else os.fspath(model)  # type: ignore[call-overload] # a path, as was asked
    if is_callable(model):
        return load.made(name, options.arguments, in_memory), name
    return load.loaded(name, options.trust_code), name
