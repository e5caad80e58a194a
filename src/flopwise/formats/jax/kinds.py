"""Kinds of models that are JAX's: objects in memory, and names of what is in Python files; nothing is imported."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, FunctionType, MethodType

from flopwise.formats.sources.location import is_callable
from flopwise.graph import Kind

#: Packages whose functions are JAX's.
PACKAGES: tuple[str, ...] = ("jax", "flax", "haiku", "equinox", "optax")

#: Arguments, or parts of them, that hold what is trained, what is stored beside it, and what a step keeps.
KINDS: Mapping[str, Kind] = {
    "params": "weight",
    "weights": "weight",
    "variables": "weight",
    "batch_stats": "buffer",
    "opt_state": "state",
}

#: What stands before a name that is one of JAX's.
PREFIX = "jax:"

_IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)


def is_name(model: object) -> bool:
    """True for the name of a callable in a file that imports JAX, or one of its libraries, and not PyTorch; ``jax:``
    before a name says it too.
    """
    if not isinstance(model, str):
        return False
    if model.startswith(PREFIX):
        return is_callable(model[len(PREFIX) :])
    if not is_callable(model):
        return False
    where = model.rpartition(":")[0]
    if where.partition(".")[0] in PACKAGES:
        return True
    path = where if where.endswith(".py") else _file_of(where)
    if not os.path.isfile(path):
        return False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            names = set(_IMPORTS.findall(file.read()))
    except OSError:
        return False
    return not names.isdisjoint(PACKAGES) and "torch" not in names


def _file_of(module: str) -> str:
    """The file of a module by its dotted name, which is not imported; "" where there is none."""
    spec: ModuleSpec | None = None
    path: list[str] = [os.getcwd(), *sys.path]
    for part in module.split("."):
        spec = PathFinder.find_spec(part, path)
        if spec is None:
            return ""
        path = list(spec.submodule_search_locations or ())
    return spec.origin or "" if spec else ""


def is_object(model: object) -> bool:
    """True for a function, a module or a traced program of JAX's; asks JAX only when somebody has imported it."""
    if "jax" not in sys.modules:
        return False
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(model).__mro__}
    if any(package in ("jax", "jaxlib", *PACKAGES[1:]) for package, _ in kinds):
        return True
    if not isinstance(model, (functools.partial, FunctionType, MethodType)):
        return False
    return "torch" not in sys.modules or _uses_jax(model)


def is_tree_module(model: object) -> bool:
    """True for a module of flax.nnx or equinox, which is a tree of arrays."""
    return any(
        base.__name__ == "Module" and base.__module__.startswith(("equinox", "flax.nnx"))
        for base in type(model).__mro__
    )


def _uses_jax(function: object) -> bool:
    """True where a function names something of JAX's, and nothing of PyTorch's."""
    while isinstance(function, (functools.partial, MethodType)):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    if not isinstance(function, FunctionType):
        return is_object(function)
    homes: set[str] = set()
    values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    values += [function.__globals__.get(name) for name in _names(function.__code__)]
    for value in values:
        home = getattr(value, "__module__", None) or getattr(value, "__name__", None)
        kinds = [home] if isinstance(home, str) else []
        homes.update(name.partition(".")[0] for name in [*kinds, type(value).__module__])
    return not homes.isdisjoint({"jaxlib", *PACKAGES}) and "torch" not in homes


def _is_filled(cell: object) -> bool:
    return hasattr(cell, "cell_contents")


def _names(code: CodeType) -> set[str]:
    """The names that code uses, and the code inside it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*(map(_names, inner)))
