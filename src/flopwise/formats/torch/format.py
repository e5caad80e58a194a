"""PyTorch in the table of formats: modules, callables that make one, and programs in files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from flopwise.formats.format import Format, ends_in
from flopwise.formats.options import Progress, Sizes, TorchOptions
from flopwise.formats.sources.location import is_callable
from flopwise.formats.torch.kinds import is_function, is_module
from flopwise.formats.weights.torch_files import CHECKPOINTS, PROGRAMS, holds_program, members

if TYPE_CHECKING:
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import Graph


def _matches(model: object) -> bool:
    return is_module(model) or is_function(model) or is_callable(model) or ends_in(model, (*PROGRAMS, *CHECKPOINTS))


def _read(
    model: object, inputs: object, dims: Sizes, batch_size: int | None, progress: Progress, options: TorchOptions
) -> Graph:
    from flopwise.formats.torch.model import read_model

    return read_model(model, inputs, dims, batch_size, progress, options)


def _module(model: object, options: TorchOptions, progress: Callable[[str], None], in_memory: bool = False) -> object:
    from flopwise.formats.torch.model import module_of

    return module_of(model, options, progress, in_memory)[0]


def _stored(model: object, inputs: object, dims: Sizes, batch_size: int | None, options: TorchOptions) -> StoredTensors:
    from flopwise.formats.torch.model import module_of
    from flopwise.formats.weights.modules import stored_in_module

    if isinstance(model, (str, os.PathLike)) and not is_callable(model) and holds_program(members(os.fsdecode(model))):
        from flopwise.formats.torch.stored import of_program

        return of_program(os.fsdecode(model))
    return stored_in_module(*module_of(model, options, lambda step: None, in_memory=True))


TORCH = Format(
    "torch",
    "PyTorch modules",
    _read,
    endings=PROGRAMS,
    matches=_matches,
    takes=("inputs", "dims", "batch_size"),
    options=TorchOptions,
    stored=_stored,
    module=_module,
    in_directories=(".pt2",),
    formulas=True,
)
