"""The modules that run while a function is traced: their classes, and scopes for those whose library gives none."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax

from flopwise.formats.jax.kinds import is_tree_module


@contextlib.contextmanager
def record_linen_classes(kinds: dict[str, str]) -> Iterator[None]:
    """In the block, each flax.linen module that is called adds its dotted path -> its class's name to ``kinds``.

    Nothing is recorded where flax.linen is not imported.
    """
    linen = sys.modules.get("flax.linen")
    if linen is None:
        yield
        return
    roots: list[str] = []

    def watched(
        call: Callable[..., object], args: Iterable[object], kwargs: Mapping[str, object], context: Any
    ) -> object:
        module = context.module
        path = tuple(map(str, module.path or ()))
        if not path:
            roots.append(module.name or type(module).__name__)
        kinds.setdefault(".".join((*roots[-1:], *path)), type(module).__name__)
        try:
            return call(*args, **kwargs)
        finally:
            if not path:
                roots.pop()

    with linen.intercept_methods(watched):
        yield


@contextlib.contextmanager
def named_scopes(roots: Sequence[object], kinds: dict[str, str]) -> Iterator[None]:
    """In the block, the flax.nnx and equinox modules among some arguments run in ``jax.named_scope`` of their paths.

    Args:
        roots: the arguments.
        kinds: dotted path of a module -> its class's name; these modules are added.
    """
    paths: dict[int, str] = {}
    modules: list[Any] = []
    for root in roots:
        if is_tree_module(root):
            _walk(root, type(root).__name__, paths, modules)
    kinds.update((paths[id(module)], type(module).__name__) for module in modules)
    around: list[str] = []
    patched: dict[type, Any] = {}
    for kind in dict.fromkeys(type(module) for module in modules):
        if callable(getattr(kind, "__call__", None)):  # noqa: B004 # the method is wanted
            patched[kind] = vars(kind).get("__call__")
            kind.__call__ = _scoped(kind.__call__, paths, modules, around)
    try:
        yield
    finally:
        for kind, own in patched.items():
            if own is None:
                del kind.__call__
            else:
                kind.__call__ = own


def _walk(value: object, path: str, paths: dict[int, str], modules: list[Any]) -> None:
    """Add the modules of a tree of modules, lists and mappings to ``paths`` (id -> path) and ``modules``.

    A module that is in the tree several times has the path at which it is met first.
    """
    if id(value) in paths:
        return
    parts: Mapping[Any, object] = {}
    if is_tree_module(value):
        paths[id(value)] = path
        modules.append(value)
        parts = vars(value)
    elif isinstance(value, Mapping):
        parts = value
    elif isinstance(value, list | tuple):
        parts = dict(enumerate(value))
    for name, part in parts.items():
        _walk(part, f"{path}.{name}", paths, modules)


def _scoped(
    original: Callable[..., object], paths: dict[int, str], modules: list[Any], around: list[str]
) -> Callable[..., object]:
    """A method that runs in the scope of its module; a copy that a transformation made has the path of its class."""

    @functools.wraps(original)
    def call(self: object, *args: object, **kwargs: object) -> object:
        outer = f"{around[-1]}." if around else ""
        _walk(self, f"{outer}{type(self).__name__}", paths, modules)
        path = paths[id(self)]
        around.append(path)
        try:
            with jax.named_scope(path.removeprefix(outer).replace(".", "/")):
                return original(self, *args, **kwargs)
        finally:
            around.pop()

    return call
