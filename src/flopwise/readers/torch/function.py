"""A plain function of tensors as a module."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from torch import nn


def module_of_function(function: Callable[..., Any]) -> nn.Module:
    """A module that calls a function; the modules that the function uses are its own, under the function's names."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__).strip("<>")
    module: nn.Module = type(name, (nn.Module,), {"__module__": getattr(inner, "__module__", None) or ""})()
    for key, used in _modules_used(function):
        if key not in vars(module) and not any(used is other for other in module.children()):
            module._modules[key] = used
    vars(module)["forward"] = function
    return module


def _modules_used(function: Any) -> Iterator[tuple[str, nn.Module]]:
    """The modules that a function is bound to, closes over, takes as defaults or finds among the names around it."""
    reachable: dict[str, Any] = {}
    if isinstance(function, functools.partial):
        yield from _modules_used(function.func)
        reachable = {**{f"arg{i}": a for i, a in enumerate(function.args)}, **function.keywords}
    elif isinstance(function, MethodType):
        reachable = {"self": function.__self__}
        if not isinstance(function.__self__, nn.Module):
            reachable |= getattr(function.__self__, "__dict__", {})
    elif isinstance(function, FunctionType):
        used = inspect.getclosurevars(function)
        reachable = {**used.globals, **used.nonlocals, **(function.__kwdefaults__ or {})}
    for key, value in reachable.items():
        if isinstance(value, nn.Module):
            yield key, value
