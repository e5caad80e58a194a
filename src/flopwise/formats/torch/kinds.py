"""Kinds of models in memory that are PyTorch's: modules, programs of files, and functions; types of calls."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeAlias

#: A function of PyTorch's or of a program.
Function: TypeAlias = Callable[..., Any]

#: The arguments of a call, by position and by name; and the attributes of an object, or the names of a module.
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
Namespace: TypeAlias = dict[str, Any]

#: A module of PyTorch's whose attributes depend on its class, and a configuration of transformers.
Model: TypeAlias = Any
Config: TypeAlias = Any


def is_model(model: object) -> bool:
    """True for a module, an exported program or a function."""
    return is_module(model) or is_function(model)


def is_module(model: object) -> bool:
    """True if a model is a PyTorch module or exported program; asks PyTorch only when somebody has imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(model, torch.nn.Module) or (
        "torch.export" in sys.modules and isinstance(model, torch.export.ExportedProgram)
    )


def is_program_of_file(model: object) -> bool:
    """True if a module is the program of a file; asks for its class only when one has been read."""
    exported = sys.modules.get("flopwise.formats.torch.exported")
    return exported is not None and isinstance(model, exported.ExportedModule)


def is_function(model: object) -> bool:
    """True if a model is a plain function, a method or a partial call, which is taken for one of tensors."""
    return "torch" in sys.modules and isinstance(
        model, (functools.partial, FunctionType, MethodType, BuiltinFunctionType)
    )
